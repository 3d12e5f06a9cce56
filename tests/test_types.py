"""Type checkers and editors see the public names as they are, though these are loaded lazily."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import bridle
import pytest

USES = Path(__file__).parent / "typed_uses.py"
STUB = Path(bridle.__file__).with_suffix(".pyi")


def marked():
    lines = USES.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def mypy(folder):
    command = [sys.executable, "-m", "mypy", "--config-file=", "--output=json"]
    command += [f"--cache-dir={folder}"]
    done = subprocess.run([*command, USES], capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {entry["line"] for entry in found if entry["severity"] == "error"}


def pyright(folder):
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, USES], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_right_uses_pass_and_wrong_ones_do_not(checker, tmp_path):
    if importlib.util.find_spec(checker.__name__) is None:
        pytest.skip(f"{checker.__name__} is not installed")
    assert checker(tmp_path) == marked()


def test_the_stub_has_every_public_name_and_where_it_is():
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    said = {
        alias.asname: node.module
        for node in tree.body if isinstance(node, ast.ImportFrom)
        for alias in node.names if alias.asname == alias.name
    }  # fmt: skip
    homes = bridle._HOME | {"data": "bridle", "estimators": "bridle", "solvers": "bridle",
                            "structured": "bridle", "metrics": "bridle.objective"}  # fmt: skip
    missing = [f"from {homes[n]} import {n} as {n}" for n in sorted(homes.keys() - said)]
    assert not missing, f"add to {STUB.name}: {missing}"
    for name, module in said.items():
        assert getattr(importlib.import_module(module), name) is getattr(bridle, name), name
