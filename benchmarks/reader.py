"""How fast is the svmlight reader, against scikit-learn's and the one inside liblinear-train?

    python benchmarks/reader.py [FILE] [--rows N] [--repeat N] [--json]

Without a file a generated corpus is written and read. The readers take turns, so that all of them
meet the same state of the machine; the file is in the page cache. Medians of wall-clock and of
processor seconds: on a busy machine only the latter say what one core does.

liblinear-train has no option to read only. It is given the same file with one malformed line at the
end: it reads and parses everything before that line, reports the line and exits before it trains.
What remains on top of its reading is starting a process, which is timed by an empty run and
subtracted.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bridle.data import make_corpus, read_svmlight, write_svmlight
from sklearn.datasets import load_svmlight_file

LIBLINEAR = ("liblinear-train", "train")  # Debian's name, upstream's name
OURS = "bridle, 1 thread"
ALL_CORES = "bridle, all cores"
SCIKIT_LEARN = "scikit-learn"
PEERS = {SCIKIT_LEARN: 20.0, "liblinear-train": 5.0}  # how many times faster we mean to be


class Seconds(NamedTuple):
    wall: float
    processor: float


def timed(work: Callable[[], object]) -> Seconds:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    took = Seconds(time.perf_counter() - wall, time.process_time() - processor)
    del result  # freeing is not reading
    return took


def liblinear_run(program: str, path: Path, model: Path, bad_line: int) -> Seconds:
    """Seconds until liblinear-train has read up to the malformed line and exited."""

    def processor_of_children() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    command = [program, "-q", str(path), str(model)]
    wall, processor = time.perf_counter(), processor_of_children()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took = Seconds(time.perf_counter() - wall, processor_of_children() - processor)
    if f"line {bad_line}" not in done.stderr:
        raise RuntimeError(f"{program} did not stop at line {bad_line}: {done.stderr!r}")
    return took


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def readers(path: Path, folder: Path) -> dict[str, Callable[[], Seconds]]:
    found: dict[str, Callable[[], Seconds]] = {
        OURS: lambda: timed(lambda: read_svmlight(path, n_threads=1)),
        ALL_CORES: lambda: timed(lambda: read_svmlight(path)),
        SCIKIT_LEARN: lambda: timed(lambda: load_svmlight_file(str(path))),
    }
    program = next(filter(None, map(shutil.which, LIBLINEAR)), None)
    if program is None:
        print("liblinear-train is not installed (Debian: liblinear-tools): left out")
        return found
    malformed, empty = folder / "malformed.svm", folder / "empty.svm"
    shutil.copyfile(path, malformed)
    with malformed.open("ab") as file:
        file.write(b"1 2:not-a-number\n")
    empty.write_text("1 2:not-a-number\n")
    last = count_lines(malformed)
    model = folder / "model"

    def liblinear() -> Seconds:
        full = liblinear_run(program, malformed, model, last)
        start = liblinear_run(program, empty, model, 1)
        return Seconds(full.wall - start.wall, full.processor - start.processor)

    found["liblinear-train"] = liblinear
    return found


def measure(path: Path, repeat: int) -> dict[str, Seconds]:
    with tempfile.TemporaryDirectory() as folder:
        found = readers(path, Path(folder))
        for run in found.values():
            run()  # fills the page cache and imports what is imported late
        times: dict[str, list[Seconds]] = {name: [] for name in found}
        for _ in range(repeat):
            for name, run in found.items():
                times[name].append(run())
    return {
        name: Seconds(*map(statistics.median, zip(*values, strict=True)))
        for name, values in times.items()
    }


def report(path: Path, medians: dict[str, Seconds], repeat: int) -> None:
    X, _ = read_svmlight(path)
    megabytes = path.stat().st_size / 1e6
    print(f"{path.name}: {X.shape[0]:,} rows x {X.shape[1]:,} features, {X.nnz:,} non-zeros,")
    print(f"{megabytes:.0f} MB; median of {repeat} runs, in turns")
    print(f"{'':<20}{'wall s':>10}{'cpu s':>10}{'MB/s':>8}{'ratio, wall':>14}{'ratio, cpu':>14}")
    ours = medians[OURS]
    for name, took in medians.items():
        ratios = f"{took.wall / ours.wall:>13.2f}x{took.processor / ours.processor:>13.2f}x"
        speed = megabytes / took.wall
        print(f"{name:<20}{took.wall:>10.4f}{took.processor:>10.4f}{speed:>8.0f}{ratios}")
    for name, wanted in PEERS.items():
        if name in medians:
            took = medians[name]
            ratio = min(took.wall / ours.wall, took.processor / ours.processor)
            verdict = "met" if ratio >= wanted else "NOT met"
            print(f"{wanted:.0f}x as fast as {name} on one core: {verdict} ({ratio:.1f}x)")
    print("liblinear-train: timed up to a malformed last line, so without training; process start")
    print("subtracted. It reads doubles, scikit-learn too; bridle reads float32, its default.")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time the svmlight readers.")
    parser.add_argument("file", nargs="?", type=Path, help="plain svmlight text")
    parser.add_argument("--rows", type=int, default=100_000, help="of the generated corpus")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="medians in seconds, as JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.file
        if path is None:
            path = Path(folder) / "corpus.svm"
            write_svmlight(path, *make_corpus(options.rows))
        medians = measure(path, options.repeat)
        if options.json:
            print(json.dumps({name: value._asdict() for name, value in medians.items()}))
        else:
            report(path, medians, options.repeat)
    return 0


if __name__ == "__main__":
    sys.exit(main())
