"""The API reference: a page a chapter, and docstrings as they are, in plain text."""

from __future__ import annotations

import importlib
import inspect
import re
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import bridle
from bridle.solvers import REGISTRY
from plain_math import is_formula, set_below

# title -> where its names live: a new public name is filed by its module.
CHAPTERS = {
    "Estimators": ("bridle.estimators",),
    "Problems and losses": (
        "bridle.problems", "bridle.objective.losses", "bridle.objective.kernels",
        "bridle.objective.scaling",
    ),
    "Solving and certificates": (
        "bridle.solving", "bridle.objective.certificate", "bridle.fitting",
        "bridle.study.comparison", "bridle.study.practice", "bridle.solvers.shared.rate_ladder",
    ),
    "Structured prediction": (
        "bridle.structured", "bridle.data.trees", "bridle.errors",
        "bridle.solvers.shared.cutting_plane_model",
    ),
    "Solvers": ("bridle.solvers",),
    "Models, reports and pictures": ("bridle.models", "bridle.exchange", "bridle.study"),
}  # fmt: skip
OTHERS = "Further names"
MODULES = {"Data": "bridle.data", "Ranking metrics": "bridle.objective.metrics"}


def write_reference(source: Path) -> None:
    """One page a chapter, into api/: every name in `bridle.__all__` is in exactly one."""
    homes = {name: home for name, home in bridle._HOME.items() if name not in ("Iterate", "Solver")}
    pages: dict[str, str] = {}
    for title, modules in CHAPTERS.items():
        names = [n for n, home in homes.items() if _within(home, modules)]
        if title == "Solvers":
            pages[title] = _solvers()
            names = [n for n in names if n not in _solver_classes()]
        for name in names:
            pages[title] = pages.get(title, "") + _entry(f"bridle.{name}")
        homes = {n: home for n, home in homes.items() if not _within(home, modules)}
    for title, module in MODULES.items():
        listed = importlib.import_module(module)
        pages[title] = "".join(_entry(f"{module}.{name}") for name in _public(listed))
    if homes:
        pages[OTHERS] = "".join(_entry(f"bridle.{name}") for name in homes)
    folder = source / "api"
    folder.mkdir(exist_ok=True)
    for title, body in pages.items():
        text = f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: bridle\n\n{body}"
        _write(folder / f"{_slug(title)}.rst", text)
    contents = "".join(f"   {_slug(title)}\n" for title in pages)
    head = (
        "API reference\n=============\n\nFrom the docstrings. Everything is in ``bridle`` itself "
    )
    head += "unless its name says otherwise.\n\n"
    _write(folder / "index.rst", f"{head}.. toctree::\n   :maxdepth: 2\n\n{contents}")
    for old in folder.glob("*.rst"):
        if old.stem not in {"index", *map(_slug, pages)}:
            old.unlink()


def _within(home: str, modules: tuple[str, ...]) -> bool:
    return any(home == module or home.startswith(f"{module}.") for module in modules)


def _solver_classes() -> dict[str, tuple[str, str]]:
    """Class -> (registered name, module), kernel variants beside the linear ones."""
    found = {"Solver": ("", "bridle.solvers.base"), "Iterate": ("", "bridle.solvers.base")}
    for name, entries in REGISTRY.items():
        for module, attribute in (entry.split(":") for entry in entries):
            own = name if name != "auto" or module == "auto" else ""
            if own:
                found.setdefault(attribute, (own, f"bridle.solvers.{module}"))
    return found


def _solvers() -> str:
    """A section for each solver: what its file opens with, then the class."""
    text, documented = _entry("bridle.Solver") + _entry("bridle.Iterate"), set()
    for attribute, (name, module) in _solver_classes().items():
        if not name:
            continue
        title = f"``{name}``: {attribute}"
        text += f"{title}\n{'-' * len(title)}\n\n"
        if module not in documented:
            text += f".. automodule:: {module}\n   :no-index:\n\n"
            documented.add(module)
        text += f".. autoclass:: {module}.{attribute}\n\n"
    return text


def _entry(path: str) -> str:
    module, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(module), name)
    if not inspect.isclass(value):
        kind = "autofunction" if callable(value) else "autodata"
        return f".. {kind}:: {path}\n\n"
    return f".. autoclass:: {path}\n   :members:\n\n"


def scikit_learns(
    app: Any, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """Methods that scikit-learn writes for itself are not ours to document."""
    own = r"[gs]et_params|get_metadata_routing|set_\w+_request|metadata_request"
    return True if re.fullmatch(own, name) else None


def _public(module: ModuleType) -> list[str]:
    defined = [
        n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
    ]
    return getattr(module, "__all__", None) or [n for n in defined if not n.startswith("_")]


def _slug(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower())


def _write(path: Path, text: str) -> None:
    """Only if it changed: Sphinx then rebuilds no more than it must."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def plain_docstring(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text with `code`: turn them into reStructuredText that says the same.

    Formulas set off by indentation are set as such, and what is said of a parameter, in a
    section with a line below its title or as "name: ...", an item of a list.
    Examples stay as they are.
    """
    parameters = _parameters(value)
    lines[:] = _around_examples(lines, parameters)


def _around_examples(lines: list[str], parameters: set[str]) -> list[str]:
    """What stands before and after them: they end at an empty line."""
    begins = (k for k, line in enumerate(lines) if line.startswith(">>> "))
    begin = next(begins, len(lines))
    end = next((k for k in range(begin, len(lines)) if not lines[k].strip()), len(lines))
    before = _around_formulas(lines[:begin], parameters)
    after = _around_examples(lines[end:], parameters) if end < len(lines) else []
    return [*before, *lines[begin:end], "", *after]


def _around_formulas(lines: list[str], parameters: set[str]) -> list[str]:
    made: list[str] = []
    text: list[str] = []
    for blank, paragraph in groupby(lines, lambda line: not line.strip()):
        part = list(paragraph)
        if not blank and is_formula(part):
            made += _restructured(_split(text, parameters), parameters)
            made += ["", ".. math::", "", *(f"   {line}" for line in set_below(part)), ""]
            text = []
        else:
            text += part
    return made + _restructured(_split(text, parameters), parameters)


def _parameters(value: Any) -> set[str]:
    try:
        return set(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return set()


def _split(lines: list[str], parameters: set[str]) -> list[str]:
    """What is said of each parameter on a line of its own."""
    names = "|".join(sorted(parameters, key=len, reverse=True)) or "(?!)"
    return [part for line in lines for part in re.split(rf"(?<=\.) +(?=(?:{names}): )", line)]


def _restructured(lines: list[str], parameters: set[str]) -> list[str]:
    made: list[str] = []
    section = literal = False
    item = False  # inside an item of a list: what is indented goes on with it
    for k, line in enumerate(lines):
        following = lines[k + 1] if k + 1 < len(lines) else ""
        before = lines[k - 1].strip() if k else ""
        if re.fullmatch(r"-{3,}", line.strip()) and before:
            continue
        if re.fullmatch(r"-{3,}", following.strip()) and line.strip():
            made += ["", f".. rubric:: {line.strip()}", ""]
            section, item = True, False
            continue
        if not line.strip():
            made.append("")
            item = item and bool(following.startswith(" "))
            continue
        indented = line.startswith("   ")
        if indented and (literal or (not before and not item)):
            if not literal:
                made += ["::", ""]
            literal = True
            made.append(line)
            continue
        literal = False
        head = re.match(r"([\w, ]+?) ?: (.*)", line)
        names = {n.strip() for n in head[1].split(",")} if head else set()
        if head and not indented and (section or (names and names <= parameters)):
            made += ["", f"- ``{head[1]}``: {_escaped(head[2])}"]
            item = True
        elif re.match(" ?[-*] ", line):
            made += ["", f"- {_escaped(line.strip()[2:])}"]
            item = True
        elif item and (indented or before):
            made.append(f"  {_escaped(line.strip())}")
        else:
            item = False
            made.append(_escaped(line.strip()))
    return [*made, ""]


def _escaped(text: str) -> str:
    """What stands between `backquotes` is code; no other character has a meaning."""
    text = text.replace("``", "`")
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd one out
        return re.sub(r"([\\*|_`])", r"\\\1", text)
    for k, part in enumerate(parts):
        plain = re.sub(r"^(?=\w)", r"\\ ", part) if k else part  # code ends where a word goes on
        parts[k] = f"``{part}``" if k % 2 else re.sub(r"([*|_]|\\(?! ))", r"\\\1", plain)
    return "".join(parts)


def plain_signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, answer: Any
) -> tuple[str | None, str | None]:
    """Aliases of types by their names."""
    made = (re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", t or "") for t in (signature, answer))
    signature, answer = (text or None for text in made)
    return signature, answer


def further_pages(app: Any, page: str, source: list[str]) -> None:
    """Pages that the index does not name follow the reference in the contents."""
    if page == "index":
        found = {path.stem for path in Path(app.srcdir).glob("*.md")} - {"index"}
        unnamed = sorted(found - set(source[0].split()))
        source[0] = source[0].replace("api/index\n", "\n".join(["api/index", *unnamed, ""]))


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    write_reference(Path(app.srcdir))
    app.connect("source-read", further_pages)
    app.connect("autodoc-skip-member", scikit_learns)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("autodoc-process-docstring", plain_docstring)
    return {"parallel_read_safe": True}
