"""`--set key=value`: text to the hyper-parameters of a solver, by the types of its fields."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from bridle.objective.losses import Loss
    from bridle.solvers import Solver

_WORDS = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip


def make_solver(name: str, settings: Iterable[str], offers: frozenset[str] | None = None) -> Solver:
    """A solver by its registered name with settings such as "batch=100".

    offers: of the problem that it is for, where one name means several classes.
    """
    from bridle.solvers import solver_class

    cls = solver_class(name, offers)
    return cls(**_chosen(name, cls, settings))


def make_loss(text: str) -> Loss:
    """A loss by its name, with parameters such as "huber:delta=0.5"."""
    from bridle.objective.losses import loss_from

    name, *settings = text.split(":")
    loss = loss_from(name.strip())
    chosen = _chosen(name, type(loss), settings)
    return replace(loss, **chosen) if chosen else loss  # type: ignore[type-var]


def _chosen(name: str, cls: type, settings: Iterable[str]) -> dict[str, Any]:
    """Values for the fields of a dataclass."""
    known: dict[str, Any] = {}
    if is_dataclass(cls):
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
    return chosen


def named_solvers(texts: str) -> dict[str, Solver]:
    """Solvers by name, from a list such as "dcd,pegasos:batch=100:project=no"."""
    found = {}
    for text in texts.split(","):
        name, *settings = text.strip().split(":")
        found[text.strip()] = make_solver(name, settings)
    return found


def parse(hint: Any, text: str) -> Any:
    """The value of this type that the text stands for; ValueError if there is none."""
    if hint in (int, float, str):
        return hint(text)
    if get_origin(hint) in (Union, types.UnionType):
        return _parse_any(get_args(hint), text)
    words: dict[str, Any] = {}
    if hint is bool:
        words, text = _WORDS, text.lower()
    elif hint is type(None):
        words, text = {"none": None}, text.lower()
    elif get_origin(hint) is Literal:
        words = {str(value): value for value in get_args(hint)}
    if text not in words:
        raise ValueError(text)
    return words[text]


def _parse_any(hints: tuple[Any, ...], text: str) -> Any:
    """The value of the first of these types that takes the text; str, which takes any, is last."""
    for hint in sorted(hints, key=lambda hint: hint is str):
        try:
            return parse(hint, text)
        except ValueError:
            continue
    raise ValueError(text)


def describe(hint: Any) -> str:
    """The type in words."""
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(part) for part in get_args(hint))
    if get_origin(hint) is Callable:
        return "a function (in Python)"
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a word"}
    return "none" if hint is type(None) else names.get(hint, str(hint))
