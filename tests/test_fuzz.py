"""What `make fuzz` says is true: planted failures of every kind are found, and kept."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


class Planted:
    """Inputs are a number up to 9; 3 is a bad one."""

    def __init__(self, folder: Path) -> None:
        assert folder.is_dir()

    def make(self, rng: random.Random) -> dict[str, Any]:
        return {"content": bytes([rng.randrange(10)]), "ending": ".bin"}

    def use(self, given: dict[str, Any]) -> str:
        if given["content"][0] == 3:
            self.fail()
        return "accepted" if given["content"][0] < 5 else "refused"

    def fail(self) -> None: ...


class Raising(Planted):
    def fail(self) -> None:
        raise KeyError("planted")


class Crashing(Planted):
    def fail(self) -> None:
        os.abort()


class Hanging(Planted):
    def fail(self) -> None:
        time.sleep(1e6)


class Devouring(Planted):
    def fail(self) -> None:
        bytearray(1 << 40)


def fuzz(*arguments: Any, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *map(str, arguments)], capture_output=True, text=True,
        check=False, cwd=cwd, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    told = fuzz("test_fuzz:Planted", "--inputs", 200, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    found = re.fullmatch(
        r"test_fuzz:Planted: 200 inputs in \d+ s: (\d+) accepted, 0 failed, (\d+) refused\n",
        told.stdout,
    )
    assert found is not None
    assert int(found[1]) + int(found[2]) == 200
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Raising", "KeyError at test_fuzz.py"),
        ("Crashing", "crash with status -6"),
        ("Hanging", "hang"),
        ("Devouring", "MemoryError at test_fuzz.py"),
    ],
)
def test_planted_failures_are_found(tmp_path: Path, name: str, what: str) -> None:
    told = fuzz(f"test_fuzz:{name}", "--inputs", 12, "--patience", 10, cwd=tmp_path)
    assert (told.returncode, told.stderr) == (1, "")
    times = re.search(rf"(\d+) x {what}", told.stdout)
    assert times is not None, told.stdout
    failed = int(times[1])
    assert f"{failed} failed" in told.stdout
    kept = [path for path in (tmp_path / "out" / "fuzz").iterdir() if path.suffix == ".bin"]
    assert [path.read_bytes() for path in kept] == [b"\x03"]
    number = kept[0].stem.rpartition("-")[2]
    line = ["--first", number, "--inputs", 1, "--patience", 10]
    again = fuzz(f"test_fuzz:{name}", *line, cwd=tmp_path)
    assert (again.returncode, "1 failed" in again.stdout) == (1, True)


@pytest.mark.parametrize("target", ["readers", "checkpoints", "commands"])
def test_a_few_inputs_of_each_target(tmp_path: Path, target: str) -> None:
    told = fuzz(target, "--inputs", 60, "--out", tmp_path / "out", cwd=tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr
    counts = re.search(r": (\d+) accepted, 0 failed, (\d+) refused", told.stdout)
    assert counts is not None
    assert int(counts[1]) > 0
    assert int(counts[2]) > 0
