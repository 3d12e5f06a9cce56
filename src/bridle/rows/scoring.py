"""Scores of rows by many decision functions, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.csr import CsrArrays
from bridle.matrix.door import is_sparse, view_rows
from bridle.matrix.threads import check_threads
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Entries of a block of rows: they stay in the cache while every function sees them.
BLOCK = 2**19
# Weights are copied to stand beside their intercepts, up to so many at a time.
COPIED = 2**20


def function_scores(X: Any, coef: Any, intercept: Array, n_threads: int | None = None) -> Array:
    """w.x + b: a column for each decision function. X is checked: NaN, infinity, bad indices."""
    threads, n = check_threads(n_threads), X.shape[0]
    out = np.empty((coef.shape[0], n))
    _core.matrix.scan(view_rows(X, 1.0), out[0], threads)
    at_once = max(1, COPIED // (X.shape[1] + 1))
    for first in range(0, len(out), at_once):
        some = slice(first, first + at_once)
        weights = coef[some].toarray() if is_sparse(coef) else coef[some]
        joined = np.column_stack([weights, intercept[some]])
        for begin, end in _blocks(X) if len(joined) > 1 else [(0, n)]:
            rows = view_rows(row_slice(X, begin, end), 1.0)
            for k, w in enumerate(joined, start=first):
                _core.rows.scores(rows, w, out[k, begin:end], threads)
    return out.T


def row_slice(X: Any, begin: int, end: int) -> Any:
    """Rows begin to end of a matrix from `as_matrix`, for the core to read in place."""
    if (begin, end) == (0, X.shape[0]):
        return X
    if not is_sparse(X):
        return X[begin:end]
    return CsrArrays(X.data, X.indices, X.indptr[begin : end + 1], (end - begin, X.shape[1]))


def _blocks(X: Any) -> Iterator[tuple[int, int]]:
    n = X.shape[0]
    step = n if n == 0 else max(1, BLOCK * n // max(1, X.nnz if is_sparse(X) else X.size))
    for begin in range(0, n, max(1, step)):
        yield begin, min(n, begin + step)
