"""The door for matrices: what the compiled core reads in place, and errors for what it cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.csr import CsrArrays
from numpy.typing import ArrayLike

FLOATS = (np.float32, np.float64)


def check_vector(values: ArrayLike, size: int, name: str) -> Array:
    """A finite float64 vector of the given size."""
    vector = np.ascontiguousarray(values, dtype=np.float64)
    if vector.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {vector.shape}")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return vector


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix or array, without importing scipy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def as_matrix(X: Any) -> Any:
    """X as CSR or C-contiguous float32 or float64: X itself where it is that already."""
    if isinstance(X, CsrArrays):
        return X if X.dtype in FLOATS else X.tocsr().astype(np.float64)
    if is_sparse(X):
        X = X.tocsr()
        return X if X.dtype in FLOATS else X.astype(np.float64)
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    if X.dtype not in FLOATS:
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X must be numeric, got dtype {X.dtype}")
        X = X.astype(np.float64)
    return np.ascontiguousarray(X)


def view_rows(X: Any, bias: float) -> _core.matrix.Rows:
    """The core's view of a matrix from `as_matrix`."""
    if not is_sparse(X):
        return _core.matrix.dense_rows(X, bias, X)
    # One 64-bit offset a row: the only array that may be converted.
    offsets = X.indptr.astype(np.int64, copy=False)
    columns = X.indices
    if columns.dtype not in (np.int32, np.int64):
        columns = columns.astype(np.int64)
    return _core.matrix.csr_rows(
        offsets, columns, X.data, X.shape[1], bias, (offsets, columns, X.data)
    )


def make_rows(X: Any, bias: float, n_threads: int) -> tuple[Any, _core.matrix.Rows, Array]:
    """The matrix, the core's view of it, and |x_i|^2 for each row with the constant feature.

    Checked: shape, finite values, indices within bounds. A CSR matrix with duplicate or unordered
    columns is replaced by a copy in canonical form.
    """
    X = as_matrix(X)
    if X.shape[0] == 0:
        raise ValueError("X has no rows")
    if X.shape[1] == 0:
        raise ValueError("X has no columns")
    squared_norms = np.empty(X.shape[0])
    rows = view_rows(X, bias)
    if not _core.matrix.scan(rows, squared_norms, n_threads):
        X = X.copy()
        X.sum_duplicates()
        rows = view_rows(X, bias)
        _core.matrix.scan(rows, squared_norms, n_threads)
    return X, rows, squared_norms
