"""The list of bugs, and where each is to be planted."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 50


class PlantingError(ValueError):
    """A bug that cannot be planted, or a list that is not what it should be."""


@dataclass(frozen=True)
class Planted:
    """One bug: `before`, which stands once in the file, becomes `after`.

    why: what is then wrong. tests: the files that should notice.
    """

    name: str
    file: str
    before: str
    after: str
    why: str
    area: str
    tests: tuple[str, ...]

    @property
    def compiled(self) -> bool:
        """Whether it is in the C++ core."""
        return self.file.startswith("core/")

    def in_text(self, text: str) -> str:
        """The text of the file with the bug in it."""
        n = text.count(self.before)
        if n != 1:
            raise PlantingError(
                f"planted bug {self.name} no longer fits: its text stands {n} times in "
                f"{self.file}; say in mutants/planted.toml where the same mistake can be made now"
            )
        return text.replace(self.before, self.after)


def planted_bugs(root: Path = ROOT) -> list[Planted]:
    """All of them, as they are listed."""
    listed = tomllib.loads((root / "mutants" / "planted.toml").read_text())
    areas = {
        name: tuple(f"tests/test_{test}.py" for test in tests)
        for name, tests in listed["areas"].items()
    }
    return [Planted(**entry, tests=areas[entry["area"]]) for entry in listed["planted"]]


def chosen(bugs: list[Planted], patterns: list[str]) -> list[Planted]:
    """Those whose name or file is like one of the patterns; all without a pattern."""
    found = [
        bug for bug in bugs
        if not patterns or any(fnmatch(bug.name, p) or fnmatch(bug.file, p) for p in patterns)
    ]  # fmt: skip
    if not found:
        raise PlantingError(f"no planted bug is called {' or '.join(patterns)}; see --list")
    return found


def check(bugs: list[Planted], root: Path = ROOT) -> None:
    """PlantingError for the first thing that is wrong with the list."""
    names = [bug.name for bug in bugs]
    if len(set(names)) < len(names):
        raise PlantingError("two planted bugs have the same name")
    n_compiled = sum(bug.compiled for bug in bugs)
    if len(bugs) < LEAST or 2 * n_compiled < len(bugs):
        raise PlantingError(
            f"there must be {LEAST} bugs, half of them in C++: {len(bugs)}, {n_compiled} in C++"
        )
    for bug in bugs:
        bug.in_text((root / bug.file).read_text())
        for test in bug.tests:
            if not (root / test).exists():
                raise PlantingError(f"the area {bug.area} has no tests {test}")
