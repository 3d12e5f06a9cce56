"""`--set key=value`: text to the hyper-parameters of a solver, by the types of its fields."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from bridle.solvers import Solver

_WORDS = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def make_solver(name: str, settings: Iterable[str], kind: str = "linear") -> Solver:
    """A solver by its registered name with settings such as "batch=100"."""
    from bridle.solvers import solver_class

    cls = solver_class(name, kind)
    hints = get_type_hints(cls)
    known = {field.name: hints[field.name] for field in fields(cls)}
    chosen: dict[str, Any] = {}
    for setting in settings:
        key, sign, text = setting.partition("=")
        key = key.strip()
        if not sign:
            raise ValueError(f"expected key=value, found {setting!r}")
        if key not in known:
            listed = ", ".join(f"{k} ({describe(hint)})" for k, hint in known.items())
            raise ValueError(f"{name} has no setting {key!r}; it has: {listed or 'none'}")
        try:
            chosen[key] = parse(known[key], text.strip())
        except ValueError:
            raise ValueError(
                f"{name}: {key} must be {describe(known[key])}, found {text.strip()!r}"
            ) from None
    return cls(**chosen)


def parse(hint: Any, text: str) -> Any:
    """The value of this type that the text stands for; ValueError if there is none."""
    if hint is bool:
        if text.lower() not in _WORDS:
            raise ValueError(text)
        return _WORDS[text.lower()]
    if hint is type(None):
        if text.lower() != "none":
            raise ValueError(text)
        return None
    if hint in (int, float, str):
        return hint(text)
    if get_origin(hint) is Literal:
        for value in get_args(hint):
            if str(value) == text:
                return value
    if get_origin(hint) in (Union, types.UnionType):
        for part in sorted(get_args(hint), key=lambda part: part is str):  # str takes anything
            try:
                return parse(part, text)
            except ValueError:
                continue
    raise ValueError(text)


def describe(hint: Any) -> str:
    """The type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(part) for part in get_args(hint))
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a word"}
    return "none" if hint is type(None) else names.get(hint, str(hint))
