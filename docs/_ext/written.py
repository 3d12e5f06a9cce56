"""Tables in pages that the code writes: they stand between two comments."""

from __future__ import annotations

from pathlib import Path


def with_table(page: Path, maker: str, table: str) -> str:
    """The page with this table between `<!-- maker -->` and `<!-- end of maker -->`."""
    begin, end = f"<!-- {maker} -->\n", f"<!-- end of {maker} -->"
    before, rest = page.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n{table}\n{end}{after}"
