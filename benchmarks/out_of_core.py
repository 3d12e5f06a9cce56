"""Training on a file several times larger than the memory that is allowed.

    python -m benchmarks.out_of_core [--rows 1600000] [--memory 230M] [--gap 1e-3] [--rounds 5]
                                     [--compact float16] [--out FOLDER]

The corpus is written as an Arrow file. Then, for a disk that is read and for one that is cached:

    read        seconds to read the file once, in order: by one thread or by two, which is faster
    streamed    `bridle train --memory`: seconds, epochs, passes over the file, peak memory
    in_memory   the same problem with all rows in memory (dcd): seconds to solve and certify

times_reads is streamed / (epochs x read), ratio is streamed / max(epochs x read, in_memory): from
the cache, reading takes less than the arithmetic. Where the disk is to be read, the file is dropped
from the system's cache before each time that it is read, by the training, too; that takes time of
its own, which is not counted. All take turns, round after round; the medians of rounds are printed,
with the least and the most of the ratios. --compact: the rows are trained on from a compact file,
too; its ratio is to the reads of the plain one, times_own_reads to its own, and `bytes` is how much
of the plain one it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bridle.data import make_corpus, open_arrow, read_arrow, write_arrow
from bridle.rows.disk.memory import parse_size

IN_MEMORY = """
import sys, time
from bridle import Gap, LinearProblem, solve
from bridle.data import read_arrow
problem = LinearProblem(*read_arrow(sys.argv[1]), 1.0, bias="regularised")
began = time.perf_counter()
solution = solve(problem, "dcd", stop=Gap(float(sys.argv[2])))
print(time.perf_counter() - began, solution.epochs)
"""


# The command line, which counts the passes over the file; if "cold" is asked for, the system's
# cache forgets the file before each of them, and how long that took is told.
WATCHED = """
import json, os, sys, time
from bridle.cli import main
from bridle.rows.disk.ranges import DiskRows
read_ahead, cold = DiskRows._read_ahead, sys.argv.pop(1) == "cold"
seen = {"passes": 0.0, "forgetting": 0.0}
def watching(self, numbers, make):
    seen["passes"] += len(numbers) / len(self)
    if cold:
        began = time.perf_counter()
        os.posix_fadvise(self.source._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        seen["forgetting"] += time.perf_counter() - began
    return read_ahead(self, numbers, make)
DiskRows._read_ahead = watching
try:
    main()
finally:
    print(json.dumps(seen), file=sys.stderr)
"""


def read_once(path: Path, cold: bool, n_threads: int) -> float:
    """Seconds to read the file in order, in pieces of 4 MiB."""
    descriptor, size, piece = os.open(path, os.O_RDONLY), path.stat().st_size, 4 << 20
    if cold:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    local = threading.local()

    def read(begin: int) -> None:
        if not hasattr(local, "buffer"):
            local.buffer = bytearray(piece)
        os.preadv(descriptor, [local.buffer], begin)

    began = time.perf_counter()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(read, range(0, size, piece)))
    seconds = time.perf_counter() - began
    os.close(descriptor)
    return seconds


def train(path: Path, memory: str, gap: float, folder: Path, cold: bool) -> dict[str, Any]:
    command = [
        sys.executable, "-c", WATCHED, "cold" if cold else "cached", "train", str(path),
        str(folder / "model"), "--memory", memory, "--gap", str(gap), "--json",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, check=False)
    if run.returncode not in (0, 3):
        raise SystemExit(run.stderr.decode())
    report: dict[str, Any] = json.loads(run.stdout)
    return report | json.loads(run.stderr.splitlines()[-1])


def processor_seconds() -> float:
    """Of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def solve_in_memory(path: Path, gap: float) -> tuple[float, float]:
    """Seconds and epochs."""
    command = [sys.executable, "-c", IN_MEMORY, str(path), str(gap)]
    run = subprocess.run(command, capture_output=True, check=True)
    seconds, epochs = map(float, run.stdout.split())
    return seconds, epochs


def measure(path: Path, options: Any, folder: Path, cold: bool) -> dict[str, Any]:
    """One round of a file: its reads before and after the training."""
    if not cold:
        read_once(path, cold, 2)
    read = {n: [read_once(path, cold, n)] for n in (1, 2)}
    began = processor_seconds()
    report = train(path, options.memory, options.gap, folder, cold)
    processor = processor_seconds() - began
    for n, seconds in read.items():
        seconds.append(read_once(path, cold, n))
    return {
        "read": min(map(statistics.mean, read.values())),
        "epochs": report["epochs"],
        "passes": report["passes"],
        "gap": report["relative_gap"],
        "streamed": report["seconds"]["solve"] + report["seconds"]["certify"]
        - report["forgetting"],
        "processor": processor,  # the start of the program and the forgetting included
        "peak_mib": report["peak_rss_mb"],
    }  # fmt: skip


def times_reads(found: dict[str, Any], read: float) -> float:
    """To reading as often as there were epochs."""
    return float(found["streamed"] / (found["epochs"] * read))


def ratio(found: dict[str, Any], read: float, in_memory: float) -> float:
    """To reading as often as there were epochs, or to solving in memory."""
    return float(found["streamed"] / max(found["epochs"] * read, in_memory))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--memory", default="230M")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compact", choices=["exact", "float16"])
    parser.add_argument("--data", type=Path, help="an Arrow file to use instead of the corpus")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.out) as name:
        folder = Path(name)
        plain = options.data or folder / "rows.arrow"
        files = {"plain": plain}
        if options.data is None:
            write_arrow(plain, *make_corpus(options.rows, seed=1))
        if options.compact:
            files["compact"] = folder / "compact.arrow"
            write_arrow(files["compact"], *read_arrow(plain), compact=options.compact)
        size = plain.stat().st_size
        print(f"{open_arrow(plain)!r}; {size / parse_size(options.memory):.1f} x the memory")
        for cold in (True, False):
            rounds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in files}
            for _ in range(options.rounds):
                in_memory, epochs = solve_in_memory(plain, options.gap)
                for kind, path in files.items():
                    found = measure(path, options, folder, cold)
                    rounds[kind].append(
                        {**found, "in_memory": in_memory, "in_memory_epochs": epochs}
                    )
            read, in_memory = (
                statistics.median(found[what] for found in rounds["plain"])
                for what in ("read", "in_memory")
            )
            for kind, turns in rounds.items():
                table = {key: statistics.median(one[key] for one in turns) for key in turns[0]}
                of_rounds = sorted(
                    ratio(one, beside["read"], beside["in_memory"])
                    for one, beside in zip(turns, rounds["plain"], strict=True)
                )
                shown: dict[str, Any] = {
                    "file": kind, "disk": "read" if cold else "cached",
                    "bytes": files[kind].stat().st_size / size, **table,
                    "peak_mib": max(one["peak_mib"] for one in turns),
                    "times_reads": times_reads(table, read),
                    "times_own_reads": times_reads(table, table["read"]),
                    "ratio": ratio(table, read, in_memory), "least_ratio": of_rounds[0],
                    "most_ratio": of_rounds[-1],
                }  # fmt: skip
                numbers = {k: float(f"{v:.4g}") if isinstance(v, float) else v
                           for k, v in shown.items()}  # fmt: skip
                print(json.dumps(numbers), flush=True)


if __name__ == "__main__":
    main()
