"""The process in which inputs are tried: `python -m fuzz.worker`, started by `python -m fuzz`.

Before an input is tried its number goes to a file that is mapped into memory, from where the other
process reads which one it was, should this one die of it.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import mmap
import random
import resource
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

TARGETS = {
    "readers": "fuzz.readers:Readers",
    "models": "fuzz.containers:Models",
    "checkpoints": "fuzz.containers:Checkpoints",
    "matrices": "fuzz.matrices:Matrices",
    "commands": "fuzz.commands:Commands",
}
MOST_MEMORY = 8 << 30  # bytes of addresses: whoever asks for more has believed a damaged number


def target_of(name: str, folder: Path) -> Any:
    """By its name, or as module:class."""
    module, _, attribute = TARGETS.get(name, name).partition(":")
    return getattr(importlib.import_module(module), attribute)(folder)


def input_of(target: Any, seed: int, number: int) -> dict[str, Any]:
    """The input of this number: the same in every process."""
    made: dict[str, Any] = target.make(random.Random(f"{seed}/{number}"))
    return made


def where(error: BaseException, given: dict[str, Any]) -> str:
    """The kind of an error, and the last place in bridle that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "bridle" in f.filename] or frames
    last = inside[-1]
    about = " ".join(str(given[key]) for key in ("ending", "function") if key in given)
    place = f"{Path(last.filename).name}:{last.lineno} in {last.name}"
    return f"{type(error).__name__} at {place} {about}".strip()


class Notes:
    """What survives the process: the number of the input at hand, and how many had each outcome."""

    OUTCOMES = ("accepted", "refused", "failed")
    SIZE = 8 * (1 + len(OUTCOMES))
    NOBODY = 2**64 - 1

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(self.NOBODY.to_bytes(8, "little") + bytes(self.SIZE - 8))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), self.SIZE)
        self.numbers = memoryview(self.memory).cast("Q")

    def begin(self, number: int) -> None:
        """This input is tried next."""
        self.numbers[0] = number

    def count(self, outcome: str) -> None:
        """That became of it."""
        self.numbers[1 + self.OUTCOMES.index(outcome)] += 1

    def read(self) -> tuple[int, dict[str, int]]:
        """The input at hand, and the counts so far."""
        first, *counts = self.numbers
        return first, dict(zip(self.OUTCOMES, counts, strict=True))


def work(options: argparse.Namespace, notes: Notes) -> None:
    """Try inputs until there are enough or the time is up; a line of JSON for each failure."""
    told: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="bridle-fuzz-") as folder:
        target = target_of(options.target, Path(folder))
        began, number = time.monotonic(), options.first
        while number < options.end and time.monotonic() - began < options.seconds:
            given = input_of(target, options.seed, number)
            notes.begin(number)
            try:
                notes.count(target.use(given))
            except Exception as error:
                notes.count("failed")
                what, story = where(error, given), ""
                if what not in told:
                    story = "".join(traceback.format_exception(error))
                told.add(what)
                line = json.dumps({"what": what, "number": number, "story": story})
                print(line, flush=True)
            number += 1
    notes.begin(number)  # the first that has not been tried


def main() -> None:
    """Arguments as `python -m fuzz` gives them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("notes", type=Path)
    for name in ("--seed", "--first", "--end"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    maps = Path("/proc/self/maps")
    if maps.exists() and "libasan" not in maps.read_text():  # which maps terabytes
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    work(options, Notes(options.notes))


if __name__ == "__main__":
    main()
