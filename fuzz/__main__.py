"""`python -m fuzz [TARGET ...] --seconds 60 --seed 0`, or `--inputs 100000`."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.worker import TARGETS, Notes, input_of, target_of

AT_A_TIME = 20_000  # inputs for one process: what it leaks, it does not leak for ever


@dataclass
class Findings:
    """Of one target: how many inputs, what became of them, and what failed."""

    target: str
    n_inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, what: str, number: int, told: str) -> None:
        """A failure: the first input of its kind is kept."""
        known = self.failures.setdefault(what, {"number": number, "times": 0, "told": told})
        known["times"] += 1

    def __str__(self) -> str:
        became = ", ".join(f"{n:,} {what}" for what, n in sorted(self.outcomes.items()))
        return f"{self.target}: {self.n_inputs:,} inputs in {self.seconds:.0f} s: {became}"


def explore(target: str, options: argparse.Namespace) -> Findings:
    """Try inputs of one target, in one process after the other."""
    findings, began = Findings(target), time.monotonic()
    number, end = options.first, sys.maxsize
    if options.inputs is not None:
        end = options.first + options.inputs
    while number < end and (left := options.seconds - (time.monotonic() - began)) > 0:
        number = _one_process(findings, options, number, min(end, number + AT_A_TIME), left)
    findings.n_inputs = number - options.first
    findings.seconds = time.monotonic() - began
    return findings


def _one_process(
    findings: Findings, options: argparse.Namespace, first: int, end: int, seconds: float
) -> int:
    """The number of the first input that has not been tried."""
    with tempfile.TemporaryDirectory(prefix="bridle-fuzz-") as folder:
        path, output, errors = (Path(folder) / name for name in ("notes", "output", "errors"))
        notes = Notes(path)
        command = [
            sys.executable, "-m", "fuzz.worker", findings.target, str(path), "--seed",
            str(options.seed), "--first", str(first), "--end", str(end), "--seconds", str(seconds),
        ]  # fmt: skip
        with output.open("wb") as out, errors.open("wb") as err:
            child = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                env=os.environ | {"TMPDIR": folder, "OPENBLAS_NUM_THREADS": "1"},
            )
            hung = _watched(child, notes, options.patience)
        told = errors.read_text(errors="replace")
        number, counts = notes.read()
        findings.outcomes.update(counts)
        for line in map(json.loads, output.read_text().splitlines()):
            findings.add(line["what"], line["number"], line["story"])
    if child.returncode == 0:
        return number
    if number == Notes.NOBODY:
        raise SystemExit(f"{findings.target}: failed before the first input:\n{told}")
    what = "hang" if hung else f"crash with status {child.returncode}"
    findings.add(f"{what}: {_innermost(told)}", number, told)
    findings.outcomes["failed"] += 1
    return number + 1


def _watched(child: subprocess.Popen[bytes], notes: Notes, patience: float) -> bool:
    """Wait for the end of the process; whether it had to be ended, since an input took so long."""
    last, since = -1, time.monotonic()
    while True:
        try:
            child.wait(timeout=0.2)
            return False
        except subprocess.TimeoutExpired:
            now, _ = notes.read()
            if now != last:
                last, since = now, time.monotonic()
            elif now != Notes.NOBODY and time.monotonic() - since > patience:
                child.send_signal(signal.SIGABRT)  # says where it was
                child.wait()
                return True


def _innermost(told: str) -> str:
    """The line of a dump that tells most."""
    lines = [line.strip() for line in told.splitlines()]
    for begin in ("SUMMARY:", "File "):
        found = [line for line in lines if line.startswith(begin) and "fuzz" not in line]
        if found:
            return found[0]
    return lines[-1] if lines else "without a word"


def keep(findings: Findings, options: argparse.Namespace) -> list[str]:
    """Write each failing input beside its story; how to see it again."""
    if not findings.failures:
        return []
    options.out.mkdir(parents=True, exist_ok=True)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        target = target_of(findings.target, Path(folder))
        for what, known in findings.failures.items():
            given = input_of(target, options.seed, known["number"])
            name = f"{findings.target.partition(':')[0]}-{options.seed}-{known['number']}"
            content, ending = given.get("content"), given.get("ending", ".pickle")
            kept = options.out / f"{name}{ending}"
            kept.write_bytes(pickle.dumps(given) if content is None else content)
            about = {k: v for k, v in given.items() if k != "content"}
            (options.out / f"{name}.txt").write_text(f"{what}\n{about}\n\n{known['told']}")
            lines.append(
                f"  {known['times']} x {what}\n    {kept}; again: python -m fuzz "
                f"{findings.target} --seed {options.seed} --first {known['number']} --inputs 1"
            )
    return lines


def main() -> int:
    """Exit code 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", default=list(TARGETS),
                        help=f"some of: {', '.join(TARGETS)}")  # fmt: skip
    parser.add_argument(
        "--seconds", type=float, help="for each target; 60 unless --inputs is given"
    )
    parser.add_argument("--inputs", type=int, help="so many for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first input")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="targets at a time")
    parser.add_argument("--patience", type=float, default=120, help="seconds for one input")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="for failing inputs")
    options = parser.parse_args()
    if options.seconds is None:
        options.seconds = 60.0 if options.inputs is None else float("inf")
    failed = False
    with ThreadPoolExecutor(options.jobs) as pool:
        for findings in pool.map(lambda target: explore(target, options), options.targets):
            print(findings, flush=True)
            for line in keep(findings, options):
                failed = True
                print(line, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
