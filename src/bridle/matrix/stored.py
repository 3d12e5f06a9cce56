"""Whether the arrays of a sparse matrix fit together, in any of SciPy's formats.

SciPy looks at them when a matrix is made, not when its arrays were changed since, and its own
conversions, like the core's passes, read and write where the offsets and the columns say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from bridle import _core
from numpy.typing import NDArray


def check_stored(X: Any) -> None:
    """ValueError says what does not fit; of CSR rows all but the columns, see `check_columns`."""
    shape = tuple(X.shape)
    if len(shape) != 2:
        raise ValueError(f"X must have two dimensions, got {len(shape)}")
    if not all(isinstance(n, int | np.integer) and n >= 0 for n in shape):
        raise ValueError(f"X has the shape {shape}, which is none")
    check: Callable[..., None] | None = _CHECKS.get(getattr(X, "format", "csr"))
    if check is not None:  # a dictionary of keys is Python's own
        check(X, *shape)


def check_columns(X: Any) -> None:
    """ValueError if a CSR matrix, whose offsets were checked, has a column outside of its shape."""
    used = slice(int(X.indptr[0]), int(X.indptr[-1]))
    _check_places(X.indices[used], X.shape[1], "column", X.indptr)


def _check_csr(X: Any, n_rows: int, _: int) -> None:
    _check_vectors(X, "indptr", "indices", "data")
    _check_offsets(X.indptr, X.indices, X.data, n_rows, "row")


def _check_csc(X: Any, n_rows: int, n_columns: int) -> None:
    _check_vectors(X, "indptr", "indices", "data")
    _check_offsets(X.indptr, X.indices, X.data, n_columns, "column")
    _check_places(X.indices, n_rows, "row")


def _check_bsr(X: Any, n_rows: int, n_columns: int) -> None:
    _check_vectors(X, "indptr", "indices")
    if not isinstance(X.data, np.ndarray) or X.data.ndim != 3 or 0 in X.data.shape[1:]:
        raise ValueError("the blocks of X must be an array of three dimensions")
    height, width = X.data.shape[1:]
    if n_rows % height or n_columns % width:
        raise ValueError(f"X of shape {(n_rows, n_columns)} has blocks of {height} x {width}")
    _check_offsets(X.indptr, X.indices, X.data, n_rows // height, "row of blocks")
    _check_places(X.indices, n_columns // width, "block")


def _check_coo(X: Any, n_rows: int, n_columns: int) -> None:
    _check_vectors(X, "row", "col", "data")
    if not len(X.row) == len(X.col) == len(X.data):
        raise ValueError(
            f"X has {len(X.data)} values, but {len(X.row)} rows and {len(X.col)} columns for them"
        )
    _check_places(X.row, n_rows, "row")
    _check_places(X.col, n_columns, "column")


def _check_lil(X: Any, n_rows: int, n_columns: int) -> None:
    if not np.shape(X.rows) == np.shape(X.data) == (n_rows,):
        raise ValueError(f"X has {n_rows} rows, but lists of {len(X.rows)} and {len(X.data)}")
    for i, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if len(columns) != len(values):
            raise ValueError(f"row {i} of X has {len(columns)} columns and {len(values)} values")
        _check_places(np.asarray(columns, np.int64), n_columns, "column")


def _check_dia(X: Any, *_: int) -> None:
    _check_vectors(X, "offsets")
    if not isinstance(X.data, np.ndarray) or X.data.ndim != 2 or len(X.data) != len(X.offsets):
        raise ValueError("X has diagonals that do not fit their offsets")


_CHECKS: dict[str, Callable[..., None]] = {
    "csr": _check_csr, "csc": _check_csc, "bsr": _check_bsr, "coo": _check_coo,
    "lil": _check_lil, "dia": _check_dia,
}  # fmt: skip


def _check_vectors(X: Any, *names: str) -> None:
    for name in names:
        array = getattr(X, name)
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            raise ValueError(f"X.{name} must be a vector, got {_described(array)}")
        if name != "data" and array.dtype.kind not in "iu":
            raise ValueError(f"X.{name} must hold whole numbers, got dtype {array.dtype}")


def _described(value: Any) -> str:
    return f"shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def _check_offsets(
    offsets: NDArray[Any], places: NDArray[Any], values: NDArray[Any], n: int, line: str
) -> None:
    if len(offsets) != n + 1:
        raise ValueError(f"X has {n} {line}s, but indptr has {len(offsets)} entries, not {n + 1}")
    if len(places) != len(values):
        raise ValueError(f"X has {len(values)} values, but {len(places)} indices for them")
    whole = offsets if offsets.dtype in (np.int32, np.int64) else offsets.astype(np.int64)
    k = _core.matrix.first_fall(np.ascontiguousarray(whole))
    if k >= 0:
        raise ValueError(
            f"X.indptr falls from {offsets[k]} to {offsets[k + 1]} at {line} {k}: it must not"
        )
    if offsets[0] < 0 or offsets[-1] > len(places):
        raise ValueError(
            f"X.indptr goes from {offsets[0]} to {offsets[-1]}, but there are {len(places)} indices"
        )


def _check_places(
    places: NDArray[Any], n: int, what: str, offsets: NDArray[Any] | None = None
) -> None:
    # Read as unsigned, what is negative is large: one pass looks at both ends.
    unsigned = places.view(places.dtype.str.replace("i", "u"))
    end = min(n, int(np.iinfo(places.dtype).max) + 1)
    if len(places) == 0 or int(unsigned.max()) < end:
        return
    k = int(((places < 0) | (places >= n)).argmax())
    where = "X"
    if offsets is not None:
        where = f"row {np.searchsorted(offsets, k + offsets[0], 'right') - 1}"
    raise ValueError(f"{where} has {what} index {places[k]}, outside 0..{n - 1}")
