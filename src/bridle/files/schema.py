"""What the header of a file may hold: JSON holds anything.

A check is a function of a value and of the place where it stands; ValueError names the place. What
a table does not name is passed over: files of later versions may have more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

Check = Callable[[Any, str], None]


def one(what: str, fits: Callable[[Any], bool]) -> Check:
    """A value that fits."""

    def check(value: Any, where: str) -> None:
        if not fits(value):
            raise ValueError(f"{where}: expected {what}, found {value!r:.40}")

    return check


def word_of(*words: str) -> Check:
    """One of these words."""
    return one(" or ".join(map(repr, words)), lambda value: value in words)


def each(check: Check) -> Check:
    """A list of such values."""

    def check_all(value: Any, where: str) -> None:
        LIST(value, where)
        for k, item in enumerate(value):
            check(item, f"{where}[{k}]")

    return check_all


def table(needed: Mapping[str, Check], further: Mapping[str, Check] | None = None) -> Check:
    """A dictionary with these entries, and perhaps with further ones."""

    def check(value: Any, where: str) -> None:
        TABLE(value, where)
        for name, inner in {**needed, **(further or {})}.items():
            if name in value:
                inner(value[name], f"{where}.{name}" if where else name)
            elif name in needed:
                raise ValueError(f"{where or 'the header'}: has no {name!r}")

    return check


def either(name: str, tables: Mapping[str, Check]) -> Check:
    """A dictionary of one of several kinds, which its entry of that name tells apart."""

    def check(value: Any, where: str) -> None:
        table({name: word_of(*tables)})(value, where)
        tables[value[name]](value, where)

    return check


def _is_number(value: Any) -> bool:
    """Also the words that stand for what JSON has no number for."""
    if isinstance(value, str):
        return value in ("inf", "-inf", "nan")
    return isinstance(value, float) or _is_whole(value, 2**1023)


def _is_whole(value: Any, below: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < below


LIST = one("a list", lambda value: isinstance(value, list))
TABLE = one("a dictionary", lambda value: isinstance(value, dict))
STRING = one("a string", lambda value: isinstance(value, str))
BOOLEAN = one("true or false", lambda value: isinstance(value, bool))
COUNT = one("a count", lambda value: _is_whole(value, 2**62) and value >= 0)
SMALL = one("a small count", lambda value: _is_whole(value, 2**31) and value >= 0)
NUMBER = one("a number", _is_number)
FINITE = one("a finite number", lambda value: _is_number(value) and math.isfinite(float(value)))
POSITIVE = one("a positive number", lambda value: _is_number(value) and float(value) > 0)
NOT_NEGATIVE = one(
    "a finite number, not negative",
    lambda value: _is_number(value) and 0 <= float(value) < math.inf,
)
SCALE = one(  # squares of it are numbers, too
    "a number from 1e-150 to 1e150",
    lambda value: _is_number(value) and 1e-150 <= float(value) <= 1e150,
)
LABEL = one("a label", lambda value: isinstance(value, str | int | float))
NAMES = one(
    "a list of strings",
    lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
)

Arrays = Mapping[str, tuple[str, int]]  # f: floating point, i: whole numbers; and the dimensions


def check_arrays(arrays: Mapping[str, NDArray[Any]], known: Arrays) -> None:
    """ValueError if one of them is of another kind than it should be."""
    for name, (letter, n_dimensions) in known.items():
        found = arrays.get(name)
        if found is not None and (found.dtype.kind, found.ndim) != (letter, n_dimensions):
            raise ValueError(f"the array {name!r} is of dtype {found.dtype}, shape {found.shape}")
