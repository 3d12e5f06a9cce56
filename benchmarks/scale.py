"""How time, memory and test error grow with the rows: the corpus from 50,000 to 781,265.

    python -m benchmarks.scale [--rows 50000,100000,...] [--lam 1e-4] [--gap 1e-3] [--out FOLDER]

For each size: seconds to the certified gap with one thread and with all, in streaming reads of the
same arrays by as many threads, and the error on 40,000 rows that follow. Then the peak memory of a
solve over the arrays. Prints a table; writes scale.json and scale.png.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from bridle import Epochs, Gap, LinearProblem, lam_to_C, solve
from bridle.data import make_corpus

from benchmarks.pictures import save_pair

SIZES = (50_000, 100_000, 200_000, 400_000, 781_265)
TEST_ROWS = 40_000

# In a process of its own, where nothing else has made the peak.
MEMORY = """
import sys
import numpy as np
import scipy.sparse as sp
from bridle import Gap, LinearProblem, solve

def status(field):
    line = next(line for line in open("/proc/self/status") if line.startswith(field))
    return 1024 * int(line.split()[1])

X, y = sp.load_npz(sys.argv[1]), np.load(sys.argv[2])
open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here
before = status("VmRSS")
solve(LinearProblem(X, y, float(sys.argv[3])), stop=Gap(float(sys.argv[4])))
print((status("VmHWM") - before) / (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes))
"""


def streaming_read(X: Any, n_threads: int) -> float:
    """Seconds to read the arrays once: the fastest of five."""
    even = X.nnz // 2 * 2
    views = [X.data[:even].view(np.uint64), X.indices[:even].view(np.uint64)]
    parts = [part for view in views for part in np.array_split(view, n_threads)]
    times = []
    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(np.bitwise_or.reduce, parts))
            times.append(time.perf_counter() - start)
    return min(times)


def measure(n_rows: int, lam: float, gap: float, rounds: int) -> dict[str, Any]:
    X, y = make_corpus(n_rows + TEST_ROWS)
    X_test, y_test = X[n_rows:], y[n_rows:]
    X, y = X[:n_rows].copy(), y[:n_rows]
    seconds: dict[int, list[float]] = {n: [] for n in sorted({1, len(os.sched_getaffinity(0))})}
    used: dict[int, list[float]] = {n: [] for n in seconds}
    for _ in range(rounds):
        for n_threads, times in seconds.items():
            wall, cpu = time.perf_counter(), time.process_time()
            problem = LinearProblem(X, y, lam_to_C(lam, n_rows), n_threads=n_threads)
            solution = solve(problem, stop=Gap(gap) | Epochs(1000))
            times.append(time.perf_counter() - wall)
            used[n_threads].append(time.process_time() - cpu)
    medians = {n: statistics.median(times) for n, times in seconds.items()}
    return {
        "rows": n_rows,
        "nnz": int(X.nnz),
        "seconds": medians,
        "processor": {n: statistics.median(times) for n, times in used.items()},
        "reads": {n: medians[n] / streaming_read(X, n) for n in medians},
        "gap": solution.certificate.relative_gap,
        "error": float(np.mean(np.sign(X_test @ solution.w) != y_test)),
    }


def memory(n_rows: int, lam: float, gap: float) -> float:
    """Peak memory of a solve beyond the CSR arrays, as a fraction of them."""
    X, y = make_corpus(n_rows)
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(f"{folder}/X.npz", X, compressed=False)
        np.save(f"{folder}/y.npy", y)
        arguments = [f"{folder}/X.npz", f"{folder}/y.npy", str(lam_to_C(lam, n_rows)), str(gap)]
        command = [sys.executable, "-c", MEMORY, *arguments]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def draw(rows: list[dict[str, Any]], figure: Any) -> None:
    """Seconds and test error over the rows."""
    from bridle.study.plots import FAINT, curve

    sizes = np.array([row["rows"] for row in rows])
    seconds, errors = figure.subplots(2, 1)
    for style, n in enumerate(rows[0]["seconds"]):
        times = [row["seconds"][n] for row in rows]
        curve(seconds, sizes, times, style, f"{n} thread{'s' * (int(n) > 1)}")
    linear = times[0] * sizes / sizes[0]
    seconds.plot(sizes, linear, ":", color=FAINT, label="in proportion to the rows")
    seconds.set(xscale="log", yscale="log", ylabel="seconds to the certified gap")
    curve(errors, sizes, [100 * row["error"] for row in rows], 2)
    errors.set(xscale="log", ylabel="test error (%)", ylim=(0, 8))
    for axis in (seconds, errors):
        axis.set_xticks(sizes, [f"{n / 1000:,.0f}k" for n in sizes])
        axis.minorticks_off()
        axis.set_xlabel("rows")
    low, high = seconds.get_ylim()
    inside = [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if low <= t <= high]
    seconds.set_yticks(inside, [f"{t:g}" for t in inside])
    figure.legend(loc="outside upper center", ncols=2, handlelength=3)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--lam", type=float, default=1e-4)
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    chosen = parser.parse_args()
    sizes = chosen.rows or SIZES
    rows = []
    for n_rows in sizes:
        row = measure(n_rows, chosen.lam, chosen.gap, chosen.rounds)
        rows.append(row)
        for n in row["seconds"]:
            print(f"{n_rows:8d} rows, {n} threads: {row['seconds'][n]:.3f} s = "
                  f"{row['reads'][n]:.1f} reads, processor {row['processor'][n]:.3f} s; "
                  f"test error {row['error']:.2%}", flush=True)  # fmt: skip
    some = min(200_000, max(sizes))
    extra = memory(some, chosen.lam, chosen.gap)
    print(f"peak memory of a solve: {extra:.2f} of the CSR arrays, on top of them")
    chosen.out.mkdir(parents=True, exist_ok=True)
    report = {"rows": rows, "memory": extra}
    (chosen.out / "scale.json").write_text(json.dumps(report, indent=1))
    save_pair(partial(draw, rows), 7.4, chosen.out / "scale.png")


if __name__ == "__main__":
    main()
