"""python -m mutants: plant one bug after the other, and see whether the tests of its area find it.

Works in copies of the checkout, in a temporary folder. Exit status 1 if a bug survives.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeVar, get_args

from mutants.copies import Copies, Copy, end_all
from mutants.planted import ROOT, Planted, PlantingError, check, chosen, planted_bugs

Item = TypeVar("Item")
Result = TypeVar("Result")
Kind = Literal["caught", "survived", "invalid"]


@dataclass(frozen=True)
class Outcome:
    """What became of a bug: by the test that failed first, or by nothing."""

    name: str
    file: str
    area: str
    why: str
    outcome: Kind
    by: str
    seconds: float


def in_copies(
    copies: list[Copy], items: list[Item], work: Callable[[Copy, Item], Result]
) -> list[Result]:
    """work(copy, item) for every item, as many at a time as there are copies."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(item: Item) -> Result:
        copy = free.get()
        try:
            return work(copy, item)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        try:
            return list(pool.map(one, items))
        except BaseException:  # Ctrl-C, most of all
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise


def unmutated(copies: list[Copy], bugs: list[Planted]) -> dict[str, float]:
    """The seconds that each file of tests takes without a bug; PlantingError if one fails."""
    files = sorted({test for bug in bugs for test in bug.tests})

    def one(copy: Copy, file: str) -> tuple[str, float, str | None]:
        done = copy.tests((file,))
        return file, done.seconds, done.failure

    found = in_copies(copies, files, one)
    broken = [f"{file}: {failure}" for file, _, failure in found if failure is not None]
    if broken:
        raise PlantingError("tests fail where no bug is planted:\n" + "\n".join(broken))
    return {file: seconds for file, seconds, _ in found}


def judged(copy: Copy, bug: Planted, seconds: dict[str, float]) -> Outcome:
    """Plant it, and run the tests."""
    began = time.perf_counter()
    limit = 300 + 5 * sum(seconds[test] for test in bug.tests)
    outcome: Kind
    try:
        with copy.planted(bug):
            by = _found_by(copy, bug, limit)
        outcome = "survived" if by is None else "caught"
        # A test that fails without the bug, too, has not found it.
        if by is not None and by.startswith("tests/") and copy.tests((by,), limit).code == 1:
            outcome, by = "invalid", f"{by} fails without the bug, too: it is not reliable"
    except PlantingError as error:
        outcome, by = "invalid", str(error)
    said, took = by or "", time.perf_counter() - began
    print(f"{outcome:9} {bug.name:40} {took:5.0f} s  {said.partition(chr(10))[0]}", flush=True)
    return Outcome(bug.name, bug.file, bug.area, bug.why, outcome, said, round(took, 1))


def _found_by(copy: Copy, bug: Planted, limit: float) -> str | None:
    """The first test that fails; those in C++ come first, since they are compiled sooner."""
    if bug.compiled:
        found = copy.core_tests(bug.file, limit)
        if found is not None:
            return found
        copy.compile_module(bug.file)
    return copy.tests(bug.tests, limit).failure


def report(outcomes: list[Outcome], out: Path) -> int:
    """The rate, and what survived; the exit status."""
    n = {kind: sum(o.outcome == kind for o in outcomes) for kind in get_args(Kind)}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**n, "bugs": [asdict(o) for o in outcomes]}, indent=1) + "\n")
    for o in outcomes:
        if o.outcome != "caught":
            print(f"\n{o.name} {o.outcome} ({o.file}, area {o.area}): {o.why}\n{o.by}".rstrip())
    compiled = [o for o in outcomes if o.file.startswith("core/")]
    print(
        f"\n{n['caught']} of {len(outcomes)} planted bugs caught "
        f"({sum(o.outcome == 'caught' for o in compiled)} of {len(compiled)} in C++); see {out}"
    )
    return 0 if n["caught"] == len(outcomes) else 1


def listing(bugs: list[Planted]) -> None:
    """Every bug, and why it is one."""
    for bug in bugs:
        print(f"{bug.name:40} {bug.file}\n    {bug.why}")


def survey(bugs: list[Planted], given: argparse.Namespace, folder: Path) -> int:
    """Build, make sure that the tests pass, plant; the exit status."""
    origin = Copies(ROOT, folder, os.path.abspath(given.python))
    origin.build(given.jobs)
    copies = [origin.another(k) for k in range(max(1, min(given.jobs, len(bugs))))]
    copies[0].check_imports()
    seconds = unmutated(copies, bugs)
    print(f"{len(seconds)} files of tests pass without a bug", flush=True)
    return report(in_copies(copies, bugs, lambda c, bug: judged(c, bug, seconds)), given.out)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only see whether all bugs fit")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME",
        help="a bug or a file, * allowed; repeatable",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="bugs at a time")
    parser.add_argument(
        "--python", default=sys.executable,
        help="with all that build and tests need beside it; default: this one",
    )  # fmt: skip
    parser.add_argument("--folder", help="for the copies, kept for the next time; else temporary")
    parser.add_argument("--out", type=Path, default=Path("out/mutants.json"))
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave nothing behind
    try:
        bugs = planted_bugs()
        check(bugs)
        bugs = chosen(bugs, given.only)
        if given.list:
            listing(bugs)
        if given.list or given.check:
            return 0
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            return survey(bugs, given, Path(given.folder or folder).resolve())
    except KeyboardInterrupt:
        end_all()
        return 130
    except PlantingError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
