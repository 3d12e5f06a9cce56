"""Copies of rows on disk, kept in memory while more visits to them are worth it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.rows.base import Piece
from bridle.rows.disk.ranges import DiskRows
from numpy.typing import NDArray

# Of memory beside the entries of a copied row, the solver's own record of it included.
ROW_BYTES = 100


@dataclass
class Kept:
    """Copies of rows that do not rest, in a bounded number of bytes."""

    most_bytes: int
    number: NDArray[np.int64]  # of each row, among all
    offsets: NDArray[np.int64]
    columns: NDArray[Any]
    values: NDArray[Any]
    signed_cost: Array
    squared_norms: Array
    targets: Array
    alpha: Array
    resting: NDArray[np.uint8]
    n_rows: int = 0

    @classmethod
    def within(cls, rows: DiskRows, most_bytes: int) -> Kept:
        """For as many rows or entries as fit, whichever there are more of.

        The arrays have more room than the memory: what is not written to needs none.
        """
        source = rows.source
        n_rows = most_bytes // ROW_BYTES
        nnz = most_bytes // (source.column_dtype.itemsize + source.dtype.itemsize)
        return cls(
            most_bytes=most_bytes,
            number=np.empty(n_rows, np.int64), offsets=np.zeros(n_rows + 1, np.int64),
            columns=np.empty(nnz, source.column_dtype), values=np.empty(nnz, source.dtype),
            signed_cost=np.empty(n_rows), squared_norms=np.empty(n_rows),
            targets=np.zeros(n_rows), alpha=np.empty(n_rows), resting=np.zeros(n_rows, np.uint8),
        )  # fmt: skip

    @property
    def nnz(self) -> int:
        """The stored entries."""
        return int(self.offsets[self.n_rows])

    def has_room(self, n_rows: int, nnz: int) -> bool:
        """For so many more."""
        entry_bytes = self.columns.itemsize + self.values.itemsize
        n_bytes = (self.n_rows + n_rows) * ROW_BYTES + (self.nnz + nnz) * entry_bytes
        return n_bytes <= self.most_bytes

    def append(self, piece: Piece, chosen: NDArray[np.int64], alpha: Array) -> None:
        """These rows of a piece, for which there is room."""
        mine = slice(self.n_rows, self.n_rows + len(chosen))
        _core.rows.append_rows(
            piece.rows.view, chosen, self.nnz, self.offsets[mine.start + 1 : mine.stop + 1],
            self.columns, self.values,
        )  # fmt: skip
        self.number[mine] = chosen + piece.where.start
        self.signed_cost[mine] = piece.signed_cost[chosen]
        self.squared_norms[mine] = piece.rows.squared_norms[chosen]
        if piece.targets is not None:
            self.targets[mine] = piece.targets[chosen]
        self.alpha[mine] = alpha[chosen]
        self.resting[mine] = 0
        self.n_rows = mine.stop

    def clear(self) -> None:
        """Make room."""
        self.n_rows = 0

    def show(self, visit: Any, rows: DiskRows, rng: _core.Rng, bucket: int) -> None:
        """To a descent, which visits those that do not rest."""
        n = self.n_rows
        view = _core.matrix.csr_rows(
            self.offsets[: n + 1], self.columns, self.values, rows.n_features, rows.constant, self
        )
        visit(
            view, self.signed_cost[:n], self.squared_norms[:n], self.alpha[:n], self.resting[:n],
            rng, bucket, self.targets[:n],
        )  # fmt: skip
