"""A matrix on the device: CSR or dense, of arrays that were copied there or were there already."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from bridle.files.fingerprint import fingerprint_of, sampled_rows
from bridle.matrix.door import FLOATS, is_sparse
from bridle.rows.cuda.device import C_TYPES, Device, find_device

# What arrays on a device have in common, whoever made them.
MARK = "__cuda_array_interface__"
DLPACK_CUDA = 2  # kDLCUDA, the first part of __dlpack_device__()


def is_on_device(X: Any) -> bool:
    """Whether X, or what it is made of, is on a GPU: CuPy's arrays, PyTorch's, CSR of these."""
    if hasattr(X, "indptr"):
        return hasattr(X.indptr, MARK)
    if isinstance(X, np.ndarray):
        return False
    if hasattr(X, MARK):
        return True
    where = getattr(X, "__dlpack_device__", None)
    return where is not None and int(where()[0]) == DLPACK_CUDA


def adopted(device: Device, values: Any) -> Any:
    """An array of the device's own kind, of the same memory."""
    if hasattr(values, MARK):
        return device.xp.asarray(values)
    return device.xp.from_dlpack(values)


def lanes(mean_entries: float) -> int:
    """Threads to a row: a warp, or a part of one where rows are short."""
    return next((n for n in (4, 8, 16) if mean_entries <= n), 32)


@dataclass(frozen=True)
class DeviceMatrix:
    """Arrays that kernels read. Of dense rows there are no offsets and no columns."""

    offsets: Any
    columns: Any
    values: Any
    n_rows: int
    n_features: int

    @property
    def dense(self) -> bool:
        """Whether every entry is stored."""
        return self.columns is None

    @property
    def nnz(self) -> int:
        """The stored entries."""
        return int(self.values.size)

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """As kernels take a MATRIX."""
        null = 0
        columns = (null, null) if self.dense else (self.offsets, self.columns)
        return (*columns, self.values, int(self.n_features))

    @cached_property
    def macros(self) -> dict[str, Any]:
        """For kernels of these rows: types, and threads to a row."""
        types: dict[str, Any] = {"VALUE": C_TYPES[self.values.dtype.str[1:]]}
        if self.dense:
            types["DENSE"] = 1
        else:
            types["COLUMN"] = C_TYPES[self.columns.dtype.str[1:]]
        return {**types, "LANES": lanes(self.nnz / max(1, self.n_rows))}


def put(device: Device, X: Any) -> DeviceMatrix:
    """A matrix from `readable`, or a range of its rows, copied to the device."""
    if not is_sparse(X):
        return DeviceMatrix(None, None, device.put(X), *X.shape)
    begin, end = int(X.indptr[0]), int(X.indptr[-1])
    offsets = X.indptr.astype(np.int64, copy=False)
    columns = X.indices
    if columns.dtype not in (np.int32, np.int64):
        columns = columns.astype(np.int64)
    own = slice(begin, end)
    arrays = (offsets - begin if begin else offsets, columns[own], X.data[own])
    return DeviceMatrix(*device.put_all(*arrays), *X.shape)


def adopt(device: Device, X: Any) -> DeviceMatrix:
    """A matrix whose arrays are on the device already, read in place where they are contiguous."""
    xp = device.xp
    if hasattr(X, "indptr"):
        if getattr(X, "format", "csr") != "csr":
            raise ValueError(f"rows on a GPU must be CSR or dense, not {X.format}")
        offsets, columns, values = (adopted(device, a) for a in (X.indptr, X.indices, X.data))
        if columns.dtype not in (np.int32, np.int64):
            columns = columns.astype(np.int64)
        parts = offsets.astype(np.int64, copy=False), columns, _floats(xp, values)
        return DeviceMatrix(*map(xp.ascontiguousarray, parts), *map(int, X.shape))
    values = adopted(device, X)
    if values.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {values.ndim}")
    return DeviceMatrix(None, None, xp.ascontiguousarray(_floats(xp, values)), *values.shape)


def _floats(xp: Any, values: Any) -> Any:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"X must be numeric, got dtype {values.dtype}")
    return values if values.dtype in FLOATS else values.astype(np.float64)


def some_rows(X: Any, chosen: Any) -> Any:
    """A copy in this memory of some rows of a matrix on the device."""
    device = find_device()
    rows = X if hasattr(X, "indptr") else adopted(device, X)
    return rows[device.xp.asarray(chosen)].get()


def fingerprint_on_device(X: Any, y: Any) -> str:
    """As `bridle.matrix.fingerprint` names the same rows in this memory."""
    chosen = sampled_rows(int(X.shape[0]))
    rows, place = some_rows(X, chosen), {row: k for k, row in enumerate(chosen)}

    def row(i: int) -> tuple[Any, Any, Any]:
        if not is_sparse(rows):
            values = rows[place[i]]
            return np.flatnonzero(values), values[values != 0], y[i]
        own = slice(rows.indptr[place[i]], rows.indptr[place[i] + 1])
        return rows.indices[own], rows.data[own], y[i]

    return fingerprint_of((int(X.shape[0]), int(X.shape[1])), (len(y),), row)


def fetched(values: Any) -> Any:
    """A vector in this memory, wherever it was; None is None."""
    if values is None or not is_on_device(values):
        return values
    device = find_device()
    return device.get(adopted(device, values))
