"""Scores of rows by many decision functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.door import is_sparse, view_rows
from numpy.typing import NDArray

Array = NDArray[np.float64]


def function_scores(X: Any, coef: Any, intercept: Array, n_threads: int | None = None) -> Array:
    """w.x + b: a column for each decision function. X is checked: NaN, infinity, bad indices."""
    threads = _core.hardware_threads() if n_threads is None else n_threads
    rows, out = view_rows(X, 1.0), np.empty((coef.shape[0], X.shape[0]))
    _core.scan(rows, out[0], threads)
    for k, b in enumerate(intercept):
        w = coef[[k]].toarray()[0] if is_sparse(coef) else coef[k]
        _core.scores(rows, np.append(w, b), out[k], threads)
    return out.T
