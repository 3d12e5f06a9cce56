"""Files on the command line: reading, file to model, file to predictions; one thread and all.

    python -m benchmarks.files [SET ...] [--lam 1e-4] [--gap 1e-3] [--rounds 7] [--out FOLDER]

For each set (names as in benchmarks.data; by default the corpus of 200,000 rows), written as
svmlight and in the page cache: the seconds to read it, beside those to copy its bytes; `bridle
train` against `liblinear-train` and `bridle predict` against `liblinear-predict`, from the start of
the process to its end. All take turns. Medians by the clock, and how far above the best lower bound
the objectives of both models are. Then a table of 100,000 rows and 30 columns of numbers as CSV:
`bridle.data.read_data` (rows in CSR, labels) with pyarrow and without, against pandas.read_csv and
what makes the same rows of its frame, in seconds of the processor. Prints tables; writes
files.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from bridle import LinearProblem, lam_to_C
from bridle.data import fast_csv, read_data, read_svmlight, write_svmlight
from bridle.models.storage import load_model
from scipy.sparse import csr_matrix

from benchmarks.data import Missing, load

BRIDLE = str(Path(sys.executable).with_name("bridle"))
TRAIN, PREDICT = "liblinear-train", "liblinear-predict"

Runs = dict[str, Callable[[], object]]


def program(*command: str) -> Callable[[], object]:
    # As installed packages are: with their bytecode on the disk.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return lambda: subprocess.run(command, check=True, capture_output=True, env=env)


def medians(
    runs: Runs, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Seconds by a clock, in turns, after a first run of each that does not count.

    Every other round goes backwards: who comes after a program that has just given back much memory
    waits for the system to clear it.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(rounds + 1):
        for name in list(runs)[:: -1 if k % 2 else 1]:
            start = clock()
            kept = runs[name]()  # freed after the clock
            took = clock() - start
            del kept
            if k > 0:
                times[name].append(took)
    return {name: statistics.median(values) for name, values in times.items()}


def liblinear_weights(path: str, n_features: int) -> np.ndarray:
    """The weights of a model file without a bias, for the label +1."""
    head, _, body = Path(path).read_text().partition("\nw\n")
    first = next(line for line in head.splitlines() if line.startswith("label")).split()[1]
    weights = np.array(body.split(), np.float64)
    return np.resize(weights, n_features) * (1 if float(first) > 0 else -1)


def measure(name: str, lam: float, gap: float, rounds: int, folder: str) -> dict[str, Any]:
    data = load(name)
    path, ours, theirs, out = (f"{folder}/{part}" for part in ("data.svm", "ours", "theirs", "out"))
    write_svmlight(path, data.X, data.y)
    n_rows, n_features = data.X.shape
    threads = sorted({1, len(os.sched_getaffinity(0))})
    C = lam_to_C(lam, n_rows)
    buffer = bytearray(Path(path).stat().st_size)

    def copy() -> None:
        with open(path, "rb", buffering=0) as file:
            view = memoryview(buffer)
            while (n := file.readinto(view)) and len(view) > n:
                view = view[n:]

    reading: Runs = {"copy": copy}
    training: Runs = {}
    predicting: Runs = {}
    for n in threads:
        t, who = str(n), f"bridle, threads: {n}"
        reading[who] = lambda n=n: read_svmlight(path, n_threads=n)  # type: ignore[misc]
        training[who] = program(
            BRIDLE, "train", path, ours, "-c", str(C), "--bias", "none", "--gap", str(gap),
            "--threads", t,
        )  # fmt: skip
        predicting[who] = program(BRIDLE, "predict", path, ours, out, "--threads", t)
    if shutil.which(TRAIN) and shutil.which(PREDICT):
        training[TRAIN] = program(TRAIN, "-s", "3", "-c", str(C), "-e", "0.1", "-q", path, theirs)
        predicting[PREDICT] = program(PREDICT, "-q", path, theirs, out)
    found: dict[str, Any] = {
        "set": name, "rows": n_rows, "features": n_features, "nnz": data.nnz,
        "megabytes": len(buffer) / 1e6, "C": C,
        "read": medians(reading, rounds), "train": medians(training, rounds),
        "predict": medians(predicting, rounds),
    }  # fmt: skip
    model = load_model(ours)
    problem = LinearProblem(data.X, data.y, C)
    found["above"] = {"bridle": model.certificate.primal / model.certificate.dual - 1}
    if TRAIN in training:
        primal = problem.primal(liblinear_weights(theirs, n_features))
        found["above"][TRAIN] = primal / model.certificate.dual - 1
    return found


def measure_csv(rounds: int, folder: str, n_rows: int = 100_000, n_columns: int = 30) -> Any:
    """A CSV file into rows and labels; None without pandas."""
    try:
        import pandas as pd
    except ImportError:
        return None
    rng = np.random.default_rng(0)
    path = Path(folder, "table.csv")
    frame = pd.DataFrame(rng.normal(size=(n_rows, n_columns)).round(6)).rename(columns=str)
    frame["label"] = rng.integers(0, 2, n_rows)
    frame.to_csv(path, index=False)

    def by_pandas() -> object:
        read = pd.read_csv(path)
        return csr_matrix(read.drop(columns="label").to_numpy(np.float32)), read["label"].to_numpy()

    def in_python() -> object:
        with mock.patch.object(fast_csv, "read_columns", return_value=None):
            return read_data(path)

    runs: Runs = {
        "bridle": lambda: read_data(path), "bridle without pyarrow": in_python,
        "pandas": lambda: pd.read_csv(path), "pandas to CSR": by_pandas,
    }  # fmt: skip
    return {
        "megabytes": path.stat().st_size / 1e6,
        "read": medians(runs, rounds, time.process_time),
    }


def show_csv(found: dict[str, Any]) -> None:
    print(f"CSV: {found['megabytes']:.0f} MB")
    for name, seconds in found["read"].items():
        print(f"  {name:22} {seconds:7.3f} s {found['megabytes'] / seconds:7.0f} MB/s")


def show(found: dict[str, Any]) -> None:
    print(f"{found['set']}: {found['rows']:,} rows, {found['nnz']:,} non-zeros, "
          f"{found['megabytes']:.0f} MB, C = {found['C']:g}")  # fmt: skip
    for what in ("read", "train", "predict"):
        slowest = max(found[what].values())
        for name, seconds in found[what].items():
            speed, ratio = found["megabytes"] / seconds, slowest / seconds
            print(f"  {what:8} {name:18} {seconds:7.3f} s {speed:7.0f} MB/s {ratio:6.1f}x")
    for name, above in found["above"].items():
        print(f"  {name}: at most {above:.1e} above the optimum")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sets", nargs="*", default=["corpus200k"], help="'none': only the table")
    parser.add_argument("--lam", type=float, default=1e-4)
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    chosen = parser.parse_args()
    report = []
    for name in chosen.sets if chosen.sets != ["none"] else ():
        with tempfile.TemporaryDirectory() as folder:
            try:
                report.append(measure(name, chosen.lam, chosen.gap, chosen.rounds, folder))
            except Missing as reason:
                print(f"{name}: {reason}")
                continue
        show(report[-1])
    with tempfile.TemporaryDirectory() as folder:
        table = measure_csv(chosen.rounds, folder)
    if table is not None:
        show_csv(table)
        report.append(table)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "files.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
