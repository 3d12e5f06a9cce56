"""The door for matrices: what the compiled core reads in place, and errors for what it cannot.

Everything public that takes a matrix passes it through here before anything else reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.csr import CsrArrays
from bridle.matrix.stored import check_columns, check_stored
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
    return hasattr(X, "tocsr") and hasattr(type(X), "nnz")


def check_matrix(X: Any) -> None:
    """ValueError if X is sparse and its arrays do not fit together: before SciPy reads them."""
    check_readable(X)
    if is_sparse(X) and getattr(X, "format", "") == "csr":
        check_columns(X)


def check_readable(X: Any) -> None:
    """The same, but for the columns of CSR rows: see `readable`."""
    if is_sparse(X):
        check_stored(X)
        _check_dtype(X)


def as_matrix(X: Any) -> Any:
    """X as CSR or C-contiguous float32 or float64: X itself where it is that already.

    Of a sparse matrix offsets, columns, lengths and dtypes are checked, of a dense one the
    dimensions and the dtype.
    """
    X = readable(X)
    if is_sparse(X) and not isinstance(X, CsrArrays):  # which only readers make
        check_columns(X)
    return X


def canonical(X: Any) -> Any:
    """A matrix from `as_matrix`; of CSR rows the columns in order, and none twice."""
    X = as_matrix(X)
    if not is_sparse(X) or isinstance(X, CsrArrays):
        return X
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape)  # knows nothing of itself yet
    if fresh.has_canonical_format:
        return X
    fresh = fresh.copy()
    fresh.sum_duplicates()
    return fresh


def readable(X: Any) -> Any:
    """As `as_matrix`, but for the columns: for the core, which looks at those itself, once.

    SciPy may take rows of it, or copy it; not compute with it.
    """
    X = _csr(X) if is_sparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    _check_dtype(X)
    if X.dtype not in FLOATS:
        X = X.astype(np.float64)
    return X if is_sparse(X) else np.ascontiguousarray(X)


def _check_dtype(X: Any) -> None:
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must be numeric, got dtype {X.dtype}")


def _csr(X: Any) -> Any:
    """CSR whose arrays fit together, are contiguous and hold no more than the rows have."""
    check_stored(X)
    X = X if isinstance(X, CsrArrays) else X.tocsr()
    arrays = X.data, X.indices, X.indptr
    n = int(X.indptr[-1])
    if isinstance(X, CsrArrays) or (
        len(X.indices) == n and X.indptr[0] == 0 and all(a.flags.c_contiguous for a in arrays)
    ):
        return X
    first = int(X.indptr[0])
    parts = X.data[first:n], X.indices[first:n], X.indptr - X.indptr[0]
    return type(X)(tuple(map(np.ascontiguousarray, parts)), shape=X.shape)


def view_rows(X: Any, bias: float, n_threads: int = 1) -> _core.matrix.Rows:
    """The core's view of a matrix from `as_matrix`."""
    if not is_sparse(X):
        return _core.matrix.dense_rows(X, bias, X)
    # One 64-bit offset a row: the only array that may be converted.
    offsets = X.indptr
    if offsets.dtype == np.int32:
        offsets = np.empty(len(X.indptr), np.int64)
        _core.matrix.widen(X.indptr, offsets, n_threads)
    offsets = offsets.astype(np.int64, copy=False)
    columns = X.indices
    if columns.dtype not in (np.int32, np.int64):
        columns = columns.astype(np.int64)
    return _core.matrix.csr_rows(
        offsets, columns, X.data, X.shape[1], bias, (offsets, columns, X.data), n_threads
    )


def make_rows(X: Any, bias: float, n_threads: int) -> tuple[Any, _core.matrix.Rows, Array]:
    """The matrix, the core's view of it, and |x_i|^2 for each row with the constant feature.

    Checked: shape, finite values, indices within bounds. A CSR matrix with duplicate or unordered
    columns is replaced by a copy in canonical form.
    """
    X, rows, squared_norms, in_order = _looked_at(X, bias, n_threads)
    if not in_order:
        X = canonical(X.tocsr())
        rows = view_rows(X, bias, n_threads)
        _core.matrix.scan(rows, squared_norms, n_threads)
    return X, rows, squared_norms


def rows_to_score(X: Any, n_threads: int) -> tuple[Any, _core.matrix.Rows, Array]:
    """The same checks, without a constant feature: scores do not mind the order of columns."""
    return _looked_at(X, 0.0, n_threads)[:3]


def _looked_at(X: Any, bias: float, n_threads: int) -> tuple[Any, _core.matrix.Rows, Array, bool]:
    X = readable(X)
    if X.shape[0] == 0:
        raise ValueError("X has no rows")
    if X.shape[1] == 0:
        raise ValueError("X has no columns")
    squared_norms = np.empty(X.shape[0])
    rows = view_rows(X, bias, n_threads)
    return X, rows, squared_norms, _core.matrix.scan(rows, squared_norms, n_threads)


def check_width(n_weights: int) -> None:
    """ValueError if so many weights, with what is made of them, do not fit the machine's memory."""
    if 64 * n_weights > _core.physical_memory():
        raise ValueError(f"{n_weights} weights: more than this machine can hold")
