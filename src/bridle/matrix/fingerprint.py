"""The fingerprint of rows that are in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import _core
from bridle.files.fingerprint import digest_of, label_bytes, sampled_rows
from bridle.matrix.door import as_matrix, canonical, readable, view_rows
from numpy.typing import ArrayLike, NDArray

AT_ONCE = 2**14  # entries whose bytes are in memory together


def fingerprint(X: Any, y: ArrayLike) -> str:
    """A cheap name for a data set: a hash of its shape and of about 1000 of its rows and labels.

    The same rows give the same fingerprint in any storage, float32 or float64, any index type.
    """
    return fingerprint_of_checked(as_matrix(X), y)


def fingerprint_of_checked(X: Any, y: ArrayLike) -> str:
    """The same of a matrix whose columns were looked at, or will be."""
    X, labels = readable(X), np.asarray(y)
    if labels.shape[:1] != (X.shape[0],):
        raise ValueError(f"X has {X.shape[0]} rows, but y has the shape {labels.shape}")
    found = fingerprint_of_rows(view_rows(X, 0.0), labels)
    return fingerprint_of_checked(canonical(X.tocsr()), y) if found is None else found


def fingerprint_of_rows(rows: _core.matrix.Rows, labels: NDArray[Any]) -> str | None:
    """The same of a view; None if the columns of one of these rows do not increase."""
    shape = (rows.n_rows, rows.n_features)
    chosen, digest = np.array(sampled_rows(shape[0])), digest_of(shape, labels.shape)
    names, at_once = _bytes_of(labels[chosen]), max(1, AT_ONCE * shape[0] // max(1, rows.nnz))
    for begin in range(0, len(chosen), at_once):
        some = slice(begin, begin + at_once)
        text = _core.matrix.text_of_rows(rows, chosen[some], names[some])
        if text is None:
            return None
        digest.update(text)
    return str(digest.hexdigest())


def _bytes_of(labels: NDArray[Any]) -> list[bytes]:
    if labels.ndim > 1 or labels.dtype.kind not in "biuf":
        return [label_bytes(label) for label in labels.tolist()]
    numbers = labels.astype("<f8").tobytes()
    return [numbers[k : k + 8] for k in range(0, len(numbers), 8)]
