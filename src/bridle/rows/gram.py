"""Rows seen through a kernel: matrices of its values, and sums of them.

A kernel with a compiled struct is computed from the rows whenever its values are needed; any other
one by its Python formula, once for all pairs of rows, and is then a matrix.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix
from bridle.objective.kernels import Kernel
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray


def core_kernel(kernel: Kernel, constant: float = 0.0) -> _core.kernels.Kernel:
    """The compiled core's form, with a constant added to every value."""
    if kernel.compiled is None:
        return _core.kernels.kernel("precomputed", 1.0, 0.0, 0, constant)
    given = {"gamma": 1.0, "coef0": 0.0, "degree": 0} | kernel.parameters
    return _core.kernels.kernel(
        kernel.compiled, given["gamma"], given["coef0"], given["degree"], constant
    )


def kernel_matrix(kernel: Kernel, A: Any, B: Any, n_threads: int | None = 1) -> Array:
    """K(a, b) for all rows of A and B. Precomputed: A is that matrix already."""
    if kernel.is_matrix:
        return np.ascontiguousarray(kernel.values(A, B), dtype=np.float64)
    a, b = MemoryRows(A, 0.0, n_threads), MemoryRows(B, 0.0, n_threads)
    out = np.empty((a.n_rows, b.n_rows))
    _core.kernels.kernel_matrix(
        core_kernel(kernel), a.view, a.squared_norms, b.view, b.squared_norms, out, a.n_threads
    )
    return out


def expand(
    kernel: Kernel, X: Any, centres: Any, coefficients: Array, n_threads: int | None = 1
) -> Array:
    """sum_j coefficients_j K(x, c_j) for every row x of X."""
    if kernel.is_matrix:
        return kernel_matrix(kernel, X, centres) @ coefficients
    rows, others = MemoryRows(X, 0.0, n_threads), MemoryRows(centres, 0.0, n_threads)
    return _expand(kernel, rows, others, coefficients)


def _expand(kernel: Kernel, rows: MemoryRows, centres: MemoryRows, coefficients: Array) -> Array:
    out = np.empty(rows.n_rows)
    _core.kernels.expand_kernel(
        core_kernel(kernel), rows.view, rows.squared_norms, centres.view, centres.squared_norms,
        np.ascontiguousarray(coefficients, dtype=np.float64), out, rows.n_threads,
    )  # fmt: skip
    return out


def kernel_diagonal(kernel: Kernel, X: Any, n_threads: int | None = 1) -> Array:
    """K(x, x) for every row x of X."""
    if kernel.is_matrix:  # row by row: there may be no room for the matrix
        return np.array([kernel_matrix(kernel, X[[i]], X[[i]])[0, 0] for i in range(X.shape[0])])
    return kernel.diagonal(MemoryRows(X, 0.0, n_threads).squared_norms)


class KernelRows:
    """The rows of X and a kernel: what the compiled steps read, and sums over all rows.

    rows: those of X, or of the matrix K where the kernel is one; gram: that matrix, or None.
    """

    def __init__(self, kernel: Kernel, X: Any, n_threads: int | None) -> None:
        self.kernel = kernel
        self.gram: Any = None
        if kernel.is_matrix:
            K = as_matrix(kernel.values(X, X))
            _check_square(K)
            self.rows = MemoryRows(K, 0.0, n_threads)
            self.gram = self.rows.X
            self.X = self.gram if kernel.given else X
        else:
            self.rows = MemoryRows(X, 0.0, n_threads)
            self.X = self.rows.X

    def with_threads(self, n_threads: int) -> KernelRows:
        """The same rows for another number of threads."""
        other = copy.copy(self)
        other.rows = self.rows.with_threads(n_threads)
        return other

    @cached_property
    def diagonal(self) -> Array:
        """K(x_i, x_i)."""
        if self.gram is not None:
            return np.asarray(self.gram.diagonal(), dtype=np.float64)
        return self.kernel.diagonal(self.rows.squared_norms)

    def expand(self, coefficients: Array) -> Array:
        """sum_j c_j K(x_j, x_i) for every row, summed in float64."""
        return _expand(self.kernel, self.rows, self.rows, coefficients)

    def expand_at(self, X: Any, centres: Any, coefficients: Array) -> Array:
        """sum_j c_j K(c_j, x) for rows x of another matrix, and centres that need not be rows."""
        return expand(self.kernel, X, centres, coefficients, self.rows.n_threads)

    def block(self, chosen: NDArray[np.intp]) -> Array:
        """K among the chosen rows."""
        if self.gram is not None:
            return np.asarray(self.gram[np.ix_(chosen, chosen)], dtype=np.float64)
        part = self.X[chosen]
        return kernel_matrix(self.kernel, part, part, self.rows.n_threads)


def _check_square(K: Any) -> None:
    if not isinstance(K, np.ndarray):
        raise ValueError("a precomputed kernel must be a dense matrix, got a sparse one")
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"a precomputed kernel must be a square matrix, got shape {K.shape}")
    tolerance = 100 * float(np.finfo(K.dtype).eps) * float(np.abs(K).max(initial=0.0))
    block = 1024  # so that the check needs no second matrix
    for begin in range(0, K.shape[0], block):
        rows = slice(begin, begin + block)
        apart = np.abs(K[rows] - K[:, rows].T)
        if not apart.max(initial=0.0) <= tolerance:  # NaN is found here, and named by make_rows
            if np.isnan(apart).any():
                return
            i, j = np.unravel_index(int(apart.argmax()), apart.shape)
            i += begin
            raise ValueError(
                f"a precomputed kernel must be symmetric: K[{i}, {j}] = {K[i, j]:.6g}, "
                f"K[{j}, {i}] = {K[j, i]:.6g}"
            )
