"""The fingerprint of rows that are in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.files.fingerprint import fingerprint_of
from bridle.matrix.door import as_matrix, is_sparse
from numpy.typing import ArrayLike, NDArray


def fingerprint(X: Any, y: ArrayLike) -> str:
    """A cheap name for a data set: a hash of its shape and of about 1000 of its rows and labels.

    The same rows give the same fingerprint in any storage, float32 or float64, any index type.
    """
    X = as_matrix(X)
    labels = np.asarray(y)

    def row(i: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
        if not is_sparse(X):
            return np.arange(X.shape[1]), X[i], labels[i]
        begin, end = int(X.indptr[i]), int(X.indptr[i + 1])
        return X.indices[begin:end], X.data[begin:end], labels[i]

    return fingerprint_of(X.shape, labels.shape, row)
