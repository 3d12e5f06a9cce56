"""Rows on disk: an Arrow file, and how much memory working on it may take.

rows = StoredRows("rows.arrow", memory="2G")
LinearSVC(C=1.0).fit(rows)
"""

from __future__ import annotations

import os
from typing import Any

from bridle.data.arrow import ArrowRows, open_arrow
from bridle.files.fingerprint import fingerprint_of
from bridle.rows.disk.memory import parse_size
from bridle.rows.disk.ranges import labels_of

StrPath = str | os.PathLike[str]


class StoredRows:
    """An Arrow file to train on, and how much memory that may take.

    memory: the most that this process may have resident, in bytes or as "2G"; None maps the file
    and leaves it to the system what of it is in memory.
    """

    def __init__(self, rows: ArrowRows | StrPath, memory: int | str | None = None) -> None:
        self.source = rows if isinstance(rows, ArrowRows) else open_arrow(rows)
        self.memory = parse_size(memory) if isinstance(memory, str) else memory
        self.classes, self.class_counts = labels_of(self.source)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""
        return self.source.shape

    @property
    def zero_based(self) -> bool:
        """Whether texts of these data count features from 0."""
        return self.source.zero_based

    @property
    def weighted(self) -> bool:
        """Whether the file has a column of weights."""
        return self.source.has_weight

    @property
    def nnz(self) -> int:
        """The stored entries."""
        return self.source.nnz

    def fingerprint(self) -> str:
        """Of the rows and their labels: that of the same rows in memory."""
        return fingerprint_of(self.shape, (self.shape[0],), self.source.row)

    def __repr__(self) -> str:
        return f"StoredRows({self.source!r}, memory={self.memory})"


def is_stored(X: Any) -> bool:
    """Whether these rows are on disk."""
    return isinstance(X, StoredRows | ArrowRows)


def as_stored(rows: Any, y: Any = None, sample_weight: Any = None) -> StoredRows:
    """Rows on disk with the labels and weights that the file has."""
    stored = rows if isinstance(rows, StoredRows) else StoredRows(rows)
    if y is not None or sample_weight is not None:
        raise ValueError(
            f"{stored.source.path}: labels and weights are columns of the file; y and "
            "sample_weight must be None"
        )
    return stored
