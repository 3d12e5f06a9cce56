"""Kernel rows that were computed, kept on a device: a new one takes the place of the oldest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from bridle.rows.cuda.device import C_TYPES, Device
from bridle.rows.cuda.products import THREADS, blocks
from numpy.typing import DTypeLike, NDArray

Numbers = NDArray[np.intp]

# So many rows are moved at a time when columns are left out.
MOVED = 2**26


class RowRing:
    """A table of kernel rows at the active columns, and which row stands at each of its places.

    room: numbers that it may hold; no more than a row for each of the n_rows.
    """

    def __init__(self, device: Device, dtype: DTypeLike, n_rows: int, room: int) -> None:
        self.device = device
        self.values = _allocated(device, min(room, n_rows * n_rows), 2 * n_rows, dtype)
        self.place_of = np.full(n_rows, -1)
        self.clear(n_rows)

    def clear(self, width: int) -> None:
        """Rows of so many columns from now on, and none of them yet."""
        self.width, self.next = width, 0
        self.size = min(len(self.values) // width, len(self.place_of))
        self.place_of[:] = -1
        self.row_at = np.full(self.size, -1)

    @property
    def table(self) -> Any:
        """The rows."""
        return self.values[: self.size * self.width].reshape(self.size, self.width)

    def fetch(self, rows: Numbers, compute: Callable[[Numbers, Any], None]) -> Numbers:
        """The places of these rows; compute(rows, out) makes those that are not there yet."""
        place = self.place_of[rows]
        lacks = place < 0
        while True:
            n = int(np.count_nonzero(lacks))
            begin = self.next if self.next + n <= self.size else 0
            end = begin + n
            in_the_way = ~lacks & (place >= begin) & (place < end)
            if not in_the_way.any():
                break
            lacks |= in_the_way
        lacking = rows[lacks]
        if len(lacking):
            gone = self.row_at[begin:end]
            self.place_of[gone[gone >= 0]] = -1
            self.row_at[begin:end], self.place_of[lacking] = lacking, np.arange(begin, end)
            self.next = end
            compute(lacking, self.table[begin:end])
        return self.place_of[rows]

    def gather(self, places: Any, columns: Any) -> Any:
        """Some columns of the rows at these places."""
        return gathered(self.device, self.table, places, columns)

    def keep(self, columns: Any, rows: Numbers) -> None:
        """Only these columns from now on, and of the rows only these."""
        stays = np.zeros(len(self.place_of), bool)
        stays[rows] = True
        places = np.flatnonzero((self.row_at >= 0) & stays[self.row_at])
        kept, old, put = self.row_at[places], self.table, self.device.put
        self.clear(len(columns))
        # Where a row goes to is never beyond where it comes from.
        step = max(1, MOVED // self.width)
        for begin in range(0, len(places), step):
            part = put(places[begin : begin + step])
            self.table[begin : begin + len(part)] = gathered(self.device, old, part, columns)
        self.row_at[: len(kept)], self.place_of[kept] = kept, np.arange(len(kept))
        self.next = len(kept)


def gathered(device: Device, table: Any, places: Any, columns: Any) -> Any:
    """Some columns of some rows."""
    out = device.xp.empty((len(places), len(columns)), table.dtype)
    kernel = device.kernel("kernels", "gather", VALUE=C_TYPES[table.dtype.str[1:]])
    kernel((blocks(device),), (THREADS,), (
        table, table.shape[1], places, len(places), columns, len(columns), out,
    ))  # fmt: skip
    return out


def _allocated(device: Device, room: int, least: int, dtype: DTypeLike) -> Any:
    """As much as the device gives, down to the least that will do."""
    while True:
        try:
            return device.xp.empty(max(room, least), dtype)
        except MemoryError:  # CuPy's is one
            if room <= least:
                raise
            room //= 2
