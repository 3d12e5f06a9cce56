"""Matrices on a device, and inner products of their rows with few dense ones.

Those of dense rows are the vendor's matrix product, those of CSR rows a kernel of ours. Each is a
sum of products in some order, each term rounded once and each addition once: in float64 it is off
by a part gamma(n) of |a||b| at most, which is what `Kernel.accuracy` counts on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.matrix.door import is_sparse
from bridle.rows.cuda.device import C_TYPES, Device
from numpy.typing import DTypeLike

THREADS = 256  # of a block
WIDE = 2**26  # numbers of a block of rows, or of centres, at most


class DenseOnDevice:
    """Rows of a C-contiguous matrix."""

    def __init__(self, device: Device, values: Any) -> None:
        self.device, self.values = device, values
        self.n_rows, self.n_features = values.shape
        self.dtype = np.dtype(values.dtype)

    def take(self, rows: Any) -> DenseOnDevice:
        """The chosen rows, a copy."""
        return DenseOnDevice(self.device, self.values[rows])

    def dense(self, rows: Any, dtype: DTypeLike) -> Any:
        """The chosen rows as a dense matrix."""
        return self.values[rows].astype(dtype, copy=False)

    def products(self, centres: Any, rows: slice, out: Any) -> None:
        """out[c][i] = the inner product of centre c and row i, in the precision of `out`."""
        part = self.values[rows].astype(out.dtype, copy=False)
        self.device.xp.dot(centres, part.T, out=out)


class CsrOnDevice:
    """CSR rows, or some of them: `rows` are numbers of rows of the three arrays."""

    def __init__(self, device: Device, parts: tuple[Any, Any, Any], width: int, rows: Any) -> None:
        self.device, self.parts, self.rows = device, parts, rows
        self.n_rows, self.n_features = len(rows), width
        self.dtype = np.dtype(parts[2].dtype)

    def take(self, rows: Any) -> CsrOnDevice:
        """The chosen rows; the arrays stay."""
        return CsrOnDevice(self.device, self.parts, self.n_features, self.rows[rows])

    def dense(self, rows: Any, dtype: DTypeLike) -> Any:
        """The chosen rows as a dense matrix."""
        chosen = self.rows[rows]
        out = self.device.xp.zeros((len(chosen), self.n_features), dtype)
        self._call("spread", out, chosen, len(chosen), self.n_features, out)
        return out

    def products(self, centres: Any, rows: slice, out: Any) -> None:
        """out[c][i] = the inner product of centre c and row i, in the precision of `out`."""
        chosen, by_feature = self.rows[rows], self.device.xp.ascontiguousarray(centres.T)
        self._call("csr_products", out, chosen, len(chosen), by_feature, len(centres), out)

    def _call(self, name: str, target: Any, *arguments: Any) -> None:
        columns, values = self.parts[1:]
        kernel = self.device.kernel(
            "csr_products", name, VALUE=_type(values), COLUMN=_type(columns), TARGET=_type(target)
        )
        kernel((blocks(self.device),), (THREADS,), (*self.parts, *arguments))


def blocks(device: Device) -> int:
    """Of kernels whose threads go on to the next row: as many as run at a time, and more."""
    return 16 * device.multiprocessors


def _type(values: Any) -> str:
    """What C calls the type of an array's numbers."""
    return C_TYPES[np.dtype(values.dtype).str[1:]]


def put_matrix(device: Device, X: Any) -> DenseOnDevice | CsrOnDevice:
    """A copy of a matrix that was checked."""
    if not is_sparse(X):
        return DenseOnDevice(device, device.put(X))
    offsets = X.indptr.astype(np.int64, copy=False)
    columns = X.indices
    if columns.dtype not in (np.int32, np.int64):
        columns = columns.astype(np.int64)
    parts = device.put(offsets), device.put(columns), device.put(X.data)
    rows = device.xp.arange(X.shape[0], dtype=np.int64)
    return CsrOnDevice(device, parts, X.shape[1], rows)
