"""Rows in fewer bytes: columns as gaps of 16 bits, values as 16-bit numbers of different ones.

gaps
    From -1 on, each leads to the next column of the row. 0 goes on by 65535, and has no value.
values
    Numbers of the different values, where there are no more than 65536 of these.
scale, codes, rest
    Instead of values, where these are products: see `bridle.data.factored`. Else as they are.

What packs and unpacks is core/rows/compact.hpp and factored.hpp. Nothing that is unpacked is
trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
from bridle import _core
from bridle.data.factored import SAMPLE, Factors, fitted
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
    """How a file holds its rows. gaps: instead of indices. numbers, factors: instead of values."""

    compact: Compact | None
    gaps: bool
    numbers: bool
    factors: Factors | None = None

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
        self._sample: list[tuple[NDArray[Any], ...]] | None = None

    def gaps(self, offsets: NDArray[np.int64], columns: NDArray[Any]) -> Any:
        """Their offsets, and the gaps between these columns."""
        most = int(MOST_GAPS * len(columns)) + 1
        found = _core.compact.gaps_of(offsets, columns, most)
        if found is None:
            raise NotCompactError(replace(self.packing, gaps=False))
        return found

    def rounded(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values that are written."""
        return rounded(values) if self.packing.compact == "float16" else values

    def numbers(
        self, offsets: NDArray[np.int64], columns: NDArray[Any], values: NDArray[Any]
    ) -> NDArray[np.uint16] | None:
        """Of these values; None once they are too many: what could be better is looked at."""
        if self._sample is None:
            found: Any = _core.compact.codes_of(values, self.known)
            if found is not None:
                numbers: NDArray[np.uint16]
                numbers, self.known = found
                return numbers
            self._sample = []
        self._sample.append((offsets, columns, values))
        if values.dtype != np.float32 or sum(len(one[2]) for one in self._sample) >= SAMPLE:
            self.finish(all_of_them=False)
        return None

    def finish(self, *, all_of_them: bool = True) -> None:
        """All rows were seen, or enough of them."""
        if self._sample is None:
            return
        offsets, columns, values = zip(*self._sample, strict=True)
        lengths = np.concatenate([np.diff(ends) for ends in offsets])
        ends = np.append(0, np.cumsum(lengths))
        joined, inside = np.concatenate(values), np.concatenate(columns)
        factors = None
        if joined.dtype == np.float32:
            factors = fitted(ends, inside, joined, all_of_them=all_of_them)
        raise NotCompactError(replace(self.packing, numbers=False, factors=factors))

    def products(
        self, offsets: NDArray[np.int64], columns: NDArray[Any], values: NDArray[Any]
    ) -> tuple[NDArray[Any], ...]:
        """See `Factors.packed`; these rows, too, should be what they were fitted to."""
        assert self.packing.factors is not None
        found = self.packing.factors.packed(offsets, columns, values)
        if 2 * len(found[-1]) > len(values):
            raise NotCompactError(replace(self.packing, factors=None))
        return found
