"""Rows in fewer bytes: columns as gaps of 16 bits, values as 16-bit numbers of different ones.

gaps
    From -1 on, each leads to the next column of the row. 0 goes on by 65535, and has no value.
values
    Numbers of the different values, where there are no more than 65536 of these; else as they are.

What packs and unpacks is core/rows/compact.hpp. Nothing that is unpacked is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
from bridle import _core
from numpy.typing import NDArray

# "exact": no bit is lost. "float16": values are rounded to 16 bits, of which there are few enough.
Compact = Literal["exact", "float16"]
Written = TypeVar("Written")

MOST_VALUES = 2**16
MOST_GAPS = 1.5  # times the entries: as gaps, their columns are to take fewer bytes


class NotCompactError(Exception):
    """Rows that this packing is not for."""

    def __init__(self, better: Packing) -> None:
        super().__init__()
        self.better = better


@dataclass(frozen=True)
class Packing:
    """How a file holds its rows. gaps: instead of indices. numbers: instead of values."""

    compact: Compact | None
    gaps: bool
    numbers: bool

    @classmethod
    def of(cls, compact: str | None) -> Packing:
        """The closest one; ValueError if there is no such way to write rows."""
        if compact is not None and compact not in get_args(Compact):
            raise ValueError(f'compact must be "exact" or "float16", got {compact!r}')
        return cls(cast(Compact | None, compact), compact is not None, compact is not None)

    def found(self, write: Callable[[Packing], Written]) -> Written:
        """What `write` returns, by the closest packing that is for all rows.

        Few values, and columns that are near each other, are seen when all have been written.
        """
        packing = self
        while True:
            try:
                return write(packing)
            except NotCompactError as error:
                packing = error.better


def rounded(values: NDArray[Any]) -> NDArray[Any]:
    """To 16 bits."""
    with np.errstate(over="ignore"):
        found = values.astype(np.float16).astype(values.dtype)
    if not np.isfinite(found).all():
        raise ValueError(
            f"there is a value of {np.abs(values).max():g}, beyond {np.finfo(np.float16).max:g}, "
            "the largest of 16 bits; scale the features, or keep the values as they are"
        )
    return found


class Packer:
    """Packs batch after batch."""

    def __init__(self, packing: Packing, dtype: Any) -> None:
        self.packing = packing
        self.known: NDArray[Any] = np.empty(0, dtype)  # values, in the order in which they came

    def gaps(self, offsets: NDArray[np.int64], columns: NDArray[Any]) -> Any:
        """Their offsets, and the gaps between these columns."""
        most = int(MOST_GAPS * len(columns)) + 1
        found = _core.compact.gaps_of(offsets, np.ascontiguousarray(columns), most)
        if found is None:
            raise NotCompactError(replace(self.packing, gaps=False))
        return found

    def rounded(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values that are written."""
        return rounded(values) if self.packing.compact == "float16" else values

    def numbers(self, values: NDArray[Any]) -> NDArray[np.uint16]:
        """Of these values."""
        found: Any = _core.compact.codes_of(np.ascontiguousarray(values), self.known)
        if found is None:
            raise NotCompactError(replace(self.packing, numbers=False))
        numbers: NDArray[np.uint16]
        numbers, self.known = found
        return numbers
