"""Training on a file several times larger than the memory that is allowed.

    python -m benchmarks.out_of_core [--rows 1600000] [--memory 300M] [--gap 1e-3] [--out FOLDER]

The corpus is written as an Arrow file. Then, for a disk that is read and for one that is cached:

    read        seconds to read the file once, as fast as two threads can
    streamed    `bridle train --memory`: seconds, epochs, passes over the file, peak memory
    in memory   the same problem with all rows in memory (dcd): seconds to solve and certify

While the disk is to be read, another thread drops the file from the system's cache, for the reading
and for the training alike. The ratio is streamed / max(epochs x read, in memory).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridle.data import make_corpus, open_arrow, write_arrow
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


@contextmanager
def uncached(path: Path, wanted: bool) -> Iterator[None]:
    """While this lasts, the system's cache forgets the file ten times a second."""
    if not wanted:
        path.read_bytes()
        yield
        return
    done = threading.Event()

    def forget() -> None:
        descriptor = os.open(path, os.O_RDONLY)
        while not done.wait(0.1):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

    thread = threading.Thread(target=forget)
    thread.start()
    time.sleep(0.3)
    try:
        yield
    finally:
        done.set()
        thread.join()


def read_once(path: Path) -> float:
    """Seconds for two threads to read the file in pieces of 4 MiB."""
    descriptor, size, piece = os.open(path, os.O_RDONLY), path.stat().st_size, 4 << 20
    local = threading.local()

    def read(begin: int) -> None:
        if not hasattr(local, "buffer"):
            local.buffer = bytearray(piece)
        os.preadv(descriptor, [local.buffer], begin)

    began = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(read, range(0, size, piece)))
    seconds = time.perf_counter() - began
    os.close(descriptor)
    return seconds


def train(path: Path, memory: str, gap: float, folder: Path) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "bridle.cli", "train", str(path), str(folder / "model"), "--memory",
        memory, "--gap", str(gap), "--json",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, check=False)
    if run.returncode not in (0, 3):
        raise SystemExit(run.stderr.decode())
    report: dict[str, Any] = json.loads(run.stdout)
    return report


def measure(path: Path, memory: str, gap: float, folder: Path, cold: bool) -> dict[str, Any]:
    with uncached(path, cold):
        reads = [read_once(path) for _ in range(3)]
        report = train(path, memory, gap, folder)
        reads += [read_once(path) for _ in range(2)]
    read = statistics.median(reads)
    run = subprocess.run(
        [sys.executable, "-c", IN_MEMORY, str(path), str(gap)], capture_output=True, check=True
    )
    in_memory, in_memory_epochs = map(float, run.stdout.split())
    seconds = report["seconds"]["solve"] + report["seconds"]["certify"]
    return {
        "disk": "read" if cold else "cached",
        "read": read,
        "epochs": report["epochs"],
        "gap": report["relative_gap"],
        "solve": report["seconds"]["solve"],
        "certify": report["seconds"]["certify"],
        "streamed": seconds,
        "in_memory": in_memory,
        "in_memory_epochs": in_memory_epochs,
        "ratio": seconds / max(report["epochs"] * read, in_memory),
        "peak_mb": report["peak_rss_mb"],
        "allowed_mb": parse_size(memory) / 2**20,
        "file_mb": path.stat().st_size / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--memory", default="300M")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--data", type=Path, help="an Arrow file to use instead of the corpus")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.out) as name:
        folder = Path(name)
        path = options.data or folder / "rows.arrow"
        if options.data is None:
            write_arrow(path, *make_corpus(options.rows, seed=1))
        rows = open_arrow(path)
        print(f"{rows!r}; {path.stat().st_size / parse_size(options.memory):.1f} x the memory")
        for cold in (True, False):
            found = measure(path, options.memory, options.gap, folder, cold)
            print(
                json.dumps(
                    {k: round(v, 6) if isinstance(v, float) else v for k, v in found.items()}
                )
            )


if __name__ == "__main__":
    main()
