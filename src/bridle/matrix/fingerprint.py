"""The fingerprint of rows that are in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.files.fingerprint import digest_of, label_bytes, sampled_rows
from bridle.matrix.door import as_matrix, canonical, is_sparse, readable
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]

AT_ONCE = 2**14  # entries that are copied together


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
    rows, digest = np.array(sampled_rows(X.shape[0])), digest_of(X.shape, labels.shape)
    mean = (X.nnz if is_sparse(X) else X.size) / max(1, X.shape[0])
    at_once = max(1, int(AT_ONCE / max(1.0, mean)))
    for begin in range(0, len(rows), at_once):
        some = rows[begin : begin + at_once]
        text = _text(X, labels, some)
        if text is None:  # not in order
            return fingerprint_of_checked(canonical(X.tocsr()), y)
        digest.update(text)
    return str(digest.hexdigest())


def _text(X: Any, labels: NDArray[Any], chosen: Ints) -> bytes | None:
    """What is hashed of these rows; None if the columns of one do not increase."""
    ends, columns, values = _entries(X, chosen)
    starts = np.zeros(len(columns), bool)
    starts[ends[:-1][ends[:-1] < len(columns)]] = True
    if not (starts[1:] | (columns[1:] > columns[:-1])).all():
        return None
    column_bytes = columns.astype("<i8", copy=False).tobytes()
    value_bytes = values.astype("<f4", copy=False).tobytes()
    texts, begin = [], 0
    for end, label in zip(ends.tolist(), labels[chosen].tolist(), strict=True):
        texts += [column_bytes[8 * begin : 8 * end], value_bytes[4 * begin : 4 * end]]
        texts.append(label_bytes(label))
        begin = end
    return b"".join(texts)


def _entries(X: Any, chosen: Ints) -> tuple[Ints, Ints, NDArray[np.float32]]:
    """Where each chosen row ends, and the columns and values of what is not 0 in float32."""
    if is_sparse(X):
        begins = X.indptr[chosen].astype(np.int64)
        lengths = X.indptr[chosen + 1] - begins
        ends = np.cumsum(lengths)
        where = np.arange(ends[-1]) + np.repeat(begins - (ends - lengths), lengths)
        columns, values = X.indices[where].astype(np.int64), X.data[where]
        rows = np.repeat(np.arange(len(chosen)), lengths)
    else:
        part = X[chosen]
        rows, columns = (found.astype(np.int64) for found in np.nonzero(part))
        values = part[rows, columns]
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32)
    kept = single != 0
    ends = np.cumsum(np.bincount(rows[kept], minlength=len(chosen)))
    return ends, columns[kept], single[kept]
