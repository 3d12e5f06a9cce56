r"""Formulas as docstrings have them, in plain text, to those that MathJax sets: tex("sum_i |w|^2").

What a terminal shows stays what is written; the site shows \sum_i |w|^2.
"""

from __future__ import annotations

import re

GREEK = re.findall(
    r"\w+", "alpha beta gamma epsilon eta nu xi rho sigma tau phi psi Psi Delta Theta"
)
NAMES = {name: f"\\{name}" for name in GREEK} | {
    "lam": r"\lambda", "sum": r"\sum", "argmin": r"\operatorname{argmin}\ ",
    **{name: f"\\{name}" for name in ("min", "max", "exp", "log")},
}  # fmt: skip
SIGNS = {"<=": r"\le ", ">=": r"\ge ", "<-": r"\leftarrow ", "'": r"^\top ", "`": ""}
WORD = rf"(?!(?:{'|'.join(NAMES)})\b)[A-Za-z]{{2,}}(?:['-][a-z]+)?"
PROSE = re.compile(rf"(?<![\w`.]){WORD}(?: {WORD})*(?![\w(`])")  # words between formulas
TOKEN = re.compile(
    r"(?P<ratio>(?<![\w^(])(?:1|lam|l2)/(?:[2-9]|[a-z])\b)"  # 1/2, lam/2, 1/m
    r"|(?P<name>[A-Za-z]+)(?:_(?P<below>\{[^}]*\}|\w+))?(?P<call>(?=\())?"
    r"|(?P<dot>(?<=[\w)])\.(?=[A-Za-z(]))"
    r"|\^(?P<above>\([^)]*\)|-?\w+)"
    r"|(?P<space> {2,})|(?P<sign><=|>=|<-|'|`)"
)


def tex(line: str) -> str:
    """One line, without its indentation."""
    parts = re.split(r"(\{[^}]*\})", line)  # what is below a sign has no prose
    parts[::2] = [PROSE.sub(r"\\text{ \g<0> }", part) for part in parts[::2]]
    parts = re.split(r"(\\text\{[^}]*\})", "".join(parts))
    return "".join(part if k % 2 else TOKEN.sub(_token, part) for k, part in enumerate(parts))


def _token(found: re.Match[str]) -> str:
    part = found.groupdict()
    if part["ratio"]:
        above, below = part["ratio"].split("/")
        return rf"\tfrac{{{NAMES.get(above, above)}}}{{{below}}}"
    if part["name"]:
        return _named(part["name"], part["below"], part["call"] is not None)
    if part["dot"]:
        return r" \cdot "
    if part["above"]:
        return f"^{{{tex(part['above'].strip('()'))}}}"
    return r" \quad " if part["space"] else SIGNS[part["sign"]]


def _named(name: str, below: str | None, call: bool) -> str:
    if below is not None and call and len(name) > 1 and name not in NAMES:  # dual_value(...)
        return rf"\operatorname{{{name}\_{below}}}"
    if name in NAMES:
        word = NAMES[name] + " " * (below is None)
    else:
        word = name if len(name) == 1 else rf"\mathrm{{{name}}}"
    if below is None:
        return word
    inner = below.strip("{}")
    set_ = inner if len(inner) < 3 else r" \in ".join(map(tex, inner.split(" in ")))
    return f"{word}_{{{set_}}}"


def set_below(lines: list[str]) -> list[str]:
    """Lines of one formula, set below each other."""
    set_ = [tex(line.strip()) for line in lines]
    if len(set_) == 1:
        return set_
    return [r"\begin{aligned}", *(rf"& {line} \\" for line in set_[:-1]), f"& {set_[-1]}",
            r"\end{aligned}"]  # fmt: skip


def is_formula(lines: list[str]) -> bool:
    """Whether a paragraph of a docstring is one: set off, not a program, nor a table."""
    text = "\n".join(lines)
    if re.search(r'import |"|^ *-', text):
        return False
    if len(lines) == 1 and re.match(r"(min|max)_", text):
        return ": " not in text
    indented = all(line.startswith("   ") for line in lines)
    return indented and bool(re.search(r"<-|=|(?:min|max)_", text))
