"""The picture of the floors, docs/pictures/floors.svg, from what the code says of itself.

`python docs/_ext/floors.py` writes it; a test compares.
"""

from __future__ import annotations

import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "floors.svg"
WIDTH, NAME, LINE, PAD = 820, 150, 20, 16


def floors() -> list[tuple[str, str]]:
    """The name of each floor and its one line, highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    names = next(c["layers"] for c in contracts if c["name"] == "floors")
    return [(name, _line(name)) for name in names if name != "errors"]


def _line(name: str) -> str:
    text = (ROOT / "src" / "bridle" / name / "__init__.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].rstrip(".")


def draw() -> str:
    """As SVG, readable on light and on dark pages."""
    rows, y = [], PAD
    shown = [*floors(), ("core", "C++20 without Python: passes over rows, steps, inference, text")]
    for k, (name, line) in enumerate(shown):
        lines = textwrap.wrap(line, 72)
        height = LINE * len(lines) + 14
        colour = "#4c78a8" if name != "core" else "#b2762c"
        rows.append(
            f'<rect x="{PAD}" y="{y}" width="{WIDTH - 2 * PAD}" height="{height}" rx="4" '
            f'fill="{colour}" fill-opacity="{0.10 + 0.03 * (k % 2):.2f}" stroke="{colour}"/>'
        )
        rows.append(
            f'<text x="{PAD + 14}" y="{y + 24}" font-weight="bold" fill="{colour}">'
            f"{escape(name)}/</text>"
        )
        for i, part in enumerate(lines):
            rows.append(
                f'<text x="{PAD + NAME}" y="{y + 24 + LINE * i}" fill="#666666">'
                f"{escape(part)}</text>"
            )
        y += height + 6
    style = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'
    size = f'viewBox="0 0 {WIDTH} {y + PAD - 6}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
