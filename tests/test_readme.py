"""What the README promises: its table of complaints names tests, and they are there."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from bridle.solvers import REGISTRY

ROOT = Path(__file__).parents[1]
if not (ROOT / "README.md").is_file() or not (ROOT / "core").is_dir():
    pytest.skip("needs the source tree", allow_module_level=True)


def complaints() -> list[list[str]]:
    """The rows of the table: complaint, answer, tests."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Ten complaints")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def names_in(name: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_ten_complaints_and_every_row_names_tests_that_exist() -> None:
    rows = complaints()
    assert len(rows) == 10
    for complaint, answer, tests in rows:
        assert answer
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", tests)
        assert named, complaint
        assert tests.count("::") == len(named)
        for file, test in named:
            assert test in names_in(file), f"{complaint}: {file}::{test}"


def test_it_counts_the_solvers_and_quotes_the_page_on_speed() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| {len(REGISTRY) - 1} in one registry |" in text  # without auto
    speed = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    section = text.partition("## How fast")[2].partition("\n## ")[0]
    for told in re.findall(r"[\d.]+ m?s\b", section):
        assert told in speed, told


def test_the_core_is_plain_standard_cpp(tmp_path: Path) -> None:
    """Every header of the core compiles without Python or any library, and without a warning."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source = tmp_path / "all.cpp"
    folders = (ROOT / "core").rglob("*.hpp")
    headers = sorted(header for header in folders if header.parent.name != "bindings")
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    command = [
        compiler,
        "-std=c++20",
        "-fopenmp-simd",
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'core'}",
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
