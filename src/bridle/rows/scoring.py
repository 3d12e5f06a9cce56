"""Scores of rows by many decision functions, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.csr import row_slice
from bridle.matrix.door import is_sparse, rows_to_score
from bridle.matrix.threads import check_threads
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

# Of sparse weights, so many are made dense at a time.
DENSE = 2**21


def function_scores(X: Any, coef: Any, intercept: Array, n_threads: int | None = None) -> Array:
    """w.x + b: a column for each decision function. X is checked: NaN, infinity, bad indices."""
    n, width = coef.shape
    if X.shape[0] == 0:
        return np.empty((0, n))
    rows = _rows(X, n_threads)
    if n == 1:
        weights = coef.toarray() if is_sparse(coef) else coef
        scores: Array = rows.scores(np.append(weights[0], 0.0)) + intercept[0]
        return scores[:, None]
    if not is_sparse(coef):
        return rows.scores_of_all(np.ascontiguousarray(coef, np.float64), intercept)
    at_once = max(1, DENSE // width)
    groups = [slice(k, k + at_once) for k in range(0, n, at_once)]
    return np.hstack([rows.scores_of_all(coef[own].toarray(), intercept[own]) for own in groups])


def best_function(
    X: Any, coef: Array, intercept: Array, n_threads: int | None = None
) -> NDArray[np.intp]:
    """The function whose score is the largest, for each row: the first of equals."""
    best = np.empty(X.shape[0], np.int64)
    if len(best):
        weights = np.ascontiguousarray(coef, np.float64)
        _rows(X, n_threads).best_of_all(weights, intercept, best)
    return best.astype(np.intp, copy=False)


def score_blocks(
    X: Any, coef: Any, intercept: Array, size: int, n_threads: int | None = None
) -> Iterator[tuple[slice, Array]]:
    """The scores of some rows at a time, with where these rows are."""
    for begin in range(0, X.shape[0], size):
        where = slice(begin, min(begin + size, X.shape[0]))
        part = row_slice(X, where.start, where.stop)
        yield where, function_scores(part, coef, intercept, n_threads)


def _rows(X: Any, n_threads: int | None) -> MemoryRows:
    threads = check_threads(n_threads)
    _, view, squared_norms = rows_to_score(X, threads)
    return MemoryRows.checked(view, squared_norms, 0.0, threads)
