"""The table of the floors in docs/design.md, from what the code says of itself.

`python docs/_ext/floors.py` writes it; a test compares.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from written import with_table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design.md"
MAKER = "docs/_ext/floors.py"


def floors() -> list[tuple[str, str]]:
    """The name of each floor and its one line, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    names = next(c["layers"] for c in contracts if c["name"] == "floors")
    core = ("core", "C++20 without Python: passes over rows, steps, inference, text")
    return [*((name, _line(name)) for name in names if name != "errors"), core]


def _line(name: str) -> str:
    text = (ROOT / "src" / "bridle" / name / "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].rstrip(".")


def page() -> str:
    """The page with the table that the code has."""
    rows = "".join(f"| `{name}/` | {line} |\n" for name, line in floors())
    return with_table(PAGE, MAKER, f"| floor | what it is for |\n| --- | --- |\n{rows}")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
