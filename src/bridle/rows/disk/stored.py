"""Rows on disk: an Arrow file, and how much memory working on it may take.

rows = StoredRows("rows.arrow", memory="2G")
LinearSVC(C=1.0).fit(rows)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from bridle.data.arrow import ArrowRows, open_arrow
from bridle.files.atomic import StrPath
from bridle.files.fingerprint import fingerprint_of
from bridle.objective.bias import Bias, bias_precision
from bridle.objective.losses import Loss
from bridle.rows.disk.memory import ROW_VECTORS, parse_size
from bridle.rows.disk.ranges import DiskRows, labels_of
from bridle.rows.disk.sides import DiskSides


class StoredRows:
    """An Arrow file to train on, and how much memory that may take.

    memory: the most that this process may have resident, in bytes or as "2G"; None maps the file
    and leaves it to the system what of it is in memory.

    Examples
    --------
    >>> bridle.data.write_arrow("rows.arrow", *bridle.data.make_corpus(500, seed=0))
    >>> model = bridle.LinearSVC(C=0.1).fit(bridle.StoredRows("rows.arrow", memory="2G"))
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    __arrow_rows__ = True  # see `bridle.rows.homes`

    def __init__(self, rows: ArrowRows | StrPath, memory: int | str | None = None) -> None:
        self.source = rows if isinstance(rows, ArrowRows) else open_arrow(rows)
        self.memory = parse_size(memory) if isinstance(memory, str) else memory
        self.classes, self.class_counts = labels_of(self.source)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "StoredRows stay on disk: they are no matrix in memory; open_arrow(FILE).batch(k).X is"
        )

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


def sides_of(
    rows: StoredRows | ArrowRows,
    y: Any,
    sample_weight: Any,
    *,
    C: float,
    loss: Loss,
    bias: Bias,
    bias_scale: float,
    n_threads: int | None,
    positive: float | None = None,
) -> DiskSides:
    """The rows as one problem sees them: the label `positive` against the rest."""
    stored = as_stored(rows, y, sample_weight)
    if np.isinf(C):
        raise ValueError("the hard margin needs all rows in memory; here they are read in batches")
    constant = bias_scale if bias == "regularised" else 0.0
    disk = DiskRows(
        stored.source, constant=constant, memory=stored.memory, n_threads=n_threads,
        row_vectors=ROW_VECTORS + (bias == "free"),
    )  # fmt: skip
    precision = bias_precision(bias, bias_scale)
    label = 0.0 if loss.residual or loss.one_class else _positive(stored, positive)
    return DiskSides(disk, label, C, loss, precision, stored.classes)


def _positive(stored: StoredRows, positive: float | None) -> float:
    path, classes = os.fsdecode(stored.source.path), stored.classes
    if len(classes) < 2:
        raise ValueError(f"{path}: all rows have the label {classes[0]:g}")
    if positive is None:
        if len(classes) > 2:
            raise ValueError(f"{path}: has {len(classes)} classes; say which is positive")
        return float(classes[1])
    return float(positive)
