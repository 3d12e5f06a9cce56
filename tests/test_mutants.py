"""The planted bugs of `make mutants` still fit the code they are planted in."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_every_planted_bug_still_fits():
    done = subprocess.run(
        [sys.executable, "-m", "mutants", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
