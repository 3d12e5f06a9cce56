"""Every example runs on its own, without BRIDLE_DATA, and prints something."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
# matplotlib 3.8 calls names of pyparsing that are old today.
STRICT = [] if version("matplotlib").startswith("3.8.") else ["-W", "error"]
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))


@pytest.mark.skipif(not EXAMPLES, reason="the examples are not part of this installation")
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(name, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "BRIDLE_DATA"}
    environment["MPLBACKEND"] = "agg"
    done = subprocess.run(
        [sys.executable, *STRICT, FOLDER / name], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
