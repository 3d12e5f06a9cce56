"""Scores of rows by many decision functions, in one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.csr import row_slice
from bridle.matrix.door import is_sparse
from bridle.rows.memory import MemoryRows

# Weights are copied to stand side by side, up to so many at a time.
COPIED = 2**21


def function_scores(X: Any, coef: Any, intercept: Array, n_threads: int | None = None) -> Array:
    """w.x + b: a column for each decision function. X is checked: NaN, infinity, bad indices."""
    blocks = score_blocks(X, coef, intercept, max(1, X.shape[0]), n_threads)
    return next(blocks, (None, np.empty((0, coef.shape[0]))))[1]


def score_blocks(
    X: Any, coef: Any, intercept: Array, size: int, n_threads: int | None = None
) -> Iterator[tuple[slice, Array]]:
    """The same for some rows at a time, with where these rows are."""
    n = coef.shape[0]
    at_once = max(1, COPIED // (X.shape[1] + 1))
    whole = joined(coef, intercept) if n <= at_once else None
    for begin in range(0, X.shape[0], size):
        where = slice(begin, min(begin + size, X.shape[0]))
        rows = MemoryRows(row_slice(X, where.start, where.stop), 1.0, n_threads)
        if n == 1 and whole is not None:
            yield where, rows.scores(np.ascontiguousarray(whole[:, 0]))[:, None]
        elif whole is not None:
            yield where, rows.scores_of_all(whole)
        else:
            groups = [slice(k, k + at_once) for k in range(0, n, at_once)]
            yield (
                where,
                np.hstack(
                    [rows.scores_of_all(joined(coef[own], intercept[own])) for own in groups]
                ),
            )


def joined(coef: Any, intercept: Array) -> Array:
    """A column for each function, the intercept last: the weight of a constant feature of 1."""
    weights = coef.toarray() if is_sparse(coef) else coef
    return np.concatenate([weights.T, intercept[None]])
