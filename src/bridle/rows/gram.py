"""Rows seen through a kernel: matrices of its values, and sums of them.

A kernel with a compiled struct is computed from the rows whenever its values are needed; any other
one by its Python formula, once for all pairs of rows, and is then a matrix: its values as they are
stored are the kernel, or the mean of K_ij and K_ji where these differ.

|a - b|^2 = |a|^2 + |b|^2 - 2 a.b cancels where the rows are far from 0 and near each other. Kernels
that do not change when all rows are shifted are therefore computed from rows less their mean, where
that is far from 0 and the rows are dense.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, is_sparse
from bridle.objective.kernels import Kernel
from bridle.objective.kernels.base import Accuracy
from bridle.objective.rounding import TINY, U, gamma, product
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

# Rows are centred if the square of their mean is this many times their variance.
FAR_FROM_ZERO = 64.0

# |phi(x)|, whose square is a number of float64, as are sums of such.
LONGEST = 1e150

# The compiled sums add 16 values of a formula, or 64 of a matrix, and then the sums of these.
GROUP = {False: 16, True: 64}
SLACK = 1.0 + 1e-9  # for the rounding of bounds themselves


@dataclass(frozen=True)
class KernelSums:
    """sum_j c_j K(x_j, x_i) of some rows, each known up to an error."""

    values: Array
    error: Array

    def plus(self, other: KernelSums, wobble: Array) -> KernelSums:
        """The sum of both, where coefficients were rounded by a part u of `wobble`."""
        values = self.values + other.values
        rounding = U * (np.abs(values) + wobble)
        return KernelSums(values, _bound(self.error + other.error + rounding))

    def times(self, t: float, wobble: Array) -> KernelSums:
        """Those of t c_j, each of which was rounded; `wobble` as before."""
        values = t * self.values
        rounding = U * (np.abs(values) + t * wobble) + TINY
        return KernelSums(values, _bound(t * self.error + rounding))


def _bound(error: Array) -> Array:
    """A bound for sure: none where it is not a number."""
    error = SLACK * error
    return np.where(np.isnan(error), np.inf, error)


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
    a, b = pair(kernel, A, B, n_threads)
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
    rows, others = pair(kernel, X, centres, n_threads)
    return _expand(kernel, rows, others, coefficients)


def expand_between(
    kernel: Kernel, X: Any, centres: Any, coefficients: Array, n_threads: int | None = 1
) -> KernelSums:
    """The same with what is known of their errors."""
    if kernel.is_matrix:
        K = kernel_matrix(kernel, X, centres)
        sizes = np.abs(K) @ np.abs(coefficients)
        return KernelSums(
            K @ coefficients, _bound(gamma(len(coefficients) + 2) * sizes + TINY * K.shape[1])
        )
    rows, others = pair(kernel, X, centres, n_threads)
    entries = max(_entries(rows), _entries(others))
    ours, theirs = (kernel.accuracy(r.squared_norms, entries) for r in (rows, others))
    values = _expand(kernel, rows, others, coefficients)
    return KernelSums(values, error_of_sums(ours, theirs, coefficients, GROUP[False]))


def _expand(kernel: Kernel, rows: MemoryRows, centres: MemoryRows, coefficients: Array) -> Array:
    out = np.empty(rows.n_rows)
    _core.kernels.expand_kernel(
        core_kernel(kernel), rows.view, rows.squared_norms, centres.view, centres.squared_norms,
        np.ascontiguousarray(coefficients, dtype=np.float64), out, rows.n_threads,
    )  # fmt: skip
    return out


def error_of_sums(rows: Accuracy, centres: Accuracy, coefficients: Array, group: int) -> Array:
    """Of sums of kernel values: that of the values, and that of the additions."""
    size, error = _sizes(centres, coefficients)
    n = np.count_nonzero(coefficients)
    with np.errstate(over="ignore", invalid="ignore"):
        of_values = rows.error * size + rows.size * error
        roundings = gamma(group + n / group + 4)
        return _bound(of_values + roundings * (rows.size * size + of_values) + (n + 1) * TINY)


def _sizes(centres: Accuracy, coefficients: Array) -> tuple[float, float]:
    """sum_j |c_j| size_j and sum_j |c_j| error_j, at most."""
    lengths = np.abs(coefficients)
    return product(lengths, centres.size).high, product(lengths, centres.error).high


def _entries(rows: MemoryRows) -> int:
    """The most entries that a row has."""
    X = rows.X
    return int(np.diff(X.indptr).max()) if is_sparse(X) else int(X.shape[1])


def pair(kernel: Kernel, A: Any, B: Any, n_threads: int | None) -> tuple[MemoryRows, MemoryRows]:
    """Rows and centres, both shifted alike where that makes their distances more accurate."""
    b = MemoryRows(B, 0.0, n_threads)
    origin = _origin(kernel, b)
    if origin is None or is_sparse(A):
        return MemoryRows(A, 0.0, n_threads), b
    return (MemoryRows(np.asarray(A) - origin, 0.0, n_threads), _shifted(b, origin))


def _origin(kernel: Kernel, rows: MemoryRows) -> Array | None:
    """The mean of rows that are far from 0, for kernels that distances alone decide."""
    if not kernel.shift_invariant or is_sparse(rows.X):
        return None
    mean = rows.X.mean(axis=0, dtype=np.float64)
    square = float(mean @ mean)
    near_mean = float(rows.squared_norms.mean()) <= (1.0 + 1.0 / FAR_FROM_ZERO) * square
    return mean if near_mean and 0.0 < square < np.inf else None


def _fits_single(kernel: Kernel, rows: MemoryRows) -> bool:
    """Whether solvers may compute the values in float32: whether what they are made of fits."""
    values = kernel.accuracy(rows.squared_norms, _entries(rows)).size.max() ** 2
    numbers = [*kernel.parameters.values(), float(rows.squared_norms.max())]
    small = all(number == 0 or 1e-30 < abs(number) < 1e30 for number in numbers)
    return small and bool(values < 1e30)


def _shifted(rows: MemoryRows, origin: Array) -> MemoryRows:
    return MemoryRows(rows.X - origin, 0.0, rows.n_threads)


def kernel_diagonal(kernel: Kernel, X: Any, n_threads: int | None = 1) -> Array:
    """K(x, x) for every row x of X."""
    if kernel.is_matrix:  # row by row: there may be no room for the matrix
        return np.array([kernel_matrix(kernel, X[[i]], X[[i]])[0, 0] for i in range(X.shape[0])])
    return kernel.diagonal(MemoryRows(X, 0.0, n_threads).squared_norms)


class KernelRows:
    """The rows of X and a kernel: what the compiled steps read, and sums over all rows.

    rows: those of X, shifted or in float64 where the values need it, or of the matrix K where the
    kernel is one; gram: that matrix, or None. X: what was given.
    """

    device: Any = None  # where sums are computed, if not on this processor
    place = "cpu"  # what computes, and why where that was chosen

    def __init__(self, kernel: Kernel, X: Any, n_threads: int | None) -> None:
        self.kernel = kernel
        self.gram: Any = None
        if kernel.is_matrix:
            K = as_matrix(kernel.values(X, X))
            self._given = _check_square(K)
            self.rows = MemoryRows(K, 0.0, n_threads)
            self.gram = self.rows.X
            self.X = self.gram if kernel.given else X
        else:
            self.rows = MemoryRows(X, 0.0, n_threads)
            self.X = self.rows.X
            origin = _origin(kernel, self.rows)
            if origin is not None:
                self.rows = _shifted(self.rows, origin)
            elif self.rows.dtype == np.float32 and not _fits_single(kernel, self.rows):
                self.rows = MemoryRows(self.X.astype(np.float64), 0.0, n_threads)
        if not float(self.accuracy.size.max()) <= LONGEST:
            raise ValueError(
                f"the values of the {kernel.name} kernel overflow float64: scale the features"
            )

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

    @cached_property
    def accuracy(self) -> Accuracy:
        """Of the values among the rows; a matrix is exact, if it is symmetric."""
        if self.gram is not None:
            return self._given
        return self.kernel.accuracy(self.rows.squared_norms, _entries(self.rows))

    def expand(self, coefficients: Array) -> KernelSums:
        """sum_j c_j K(x_j, x_i) for every row, summed in float64."""
        values = _expand(self.kernel, self.rows, self.rows, coefficients)
        group = GROUP[self.gram is not None]
        return KernelSums(values, error_of_sums(self.accuracy, self.accuracy, coefficients, group))

    def size(self, coefficients: Array) -> Array:
        """sum_j |c_j K(x_j, x_i)|, at most."""
        return self.accuracy.size * _sizes(self.accuracy, coefficients)[0]

    def expand_at(self, X: Any, centres: Any, coefficients: Array) -> Array:
        """sum_j c_j K(c_j, x) for rows x of another matrix, and centres that need not be rows."""
        return expand(self.kernel, X, centres, coefficients, self.rows.n_threads)

    def block(self, chosen: NDArray[np.intp]) -> Array:
        """K among the chosen rows."""
        if self.gram is not None:
            return np.asarray(self.gram[np.ix_(chosen, chosen)], dtype=np.float64)
        part = self.X[chosen]
        return kernel_matrix(self.kernel, part, part, self.rows.n_threads)


def _check_square(K: Any) -> Accuracy:
    """ValueError unless K is a symmetric matrix but for rounding; how nearly it is."""
    if not isinstance(K, np.ndarray):
        raise ValueError("a precomputed kernel must be a dense matrix, got a sparse one")
    if K.shape[0] != K.shape[1]:
        raise ValueError(f"a precomputed kernel must be a square matrix, got shape {K.shape}")
    tolerance = 100 * float(np.finfo(K.dtype).eps) * float(np.abs(K).max(initial=0.0))
    largest, half = np.zeros(len(K)), np.zeros(len(K))
    block = 1024  # so that the check needs no second matrix
    for begin in range(0, K.shape[0], block):
        rows = slice(begin, begin + block)
        apart = np.abs(K[rows] - K[:, rows].T)
        largest[rows] = np.maximum(K[rows].max(axis=1), -K[rows].min(axis=1))
        half[rows] = 0.5 * apart.max(axis=1)
        if not half[rows].max(initial=0.0) <= 0.5 * tolerance:  # NaN: named by make_rows
            if np.isnan(apart).any():
                break
            i, j = np.unravel_index(int(apart.argmax()), apart.shape)
            i += begin
            raise ValueError(
                f"a precomputed kernel must be symmetric: K[{i}, {j}] = {K[i, j]:.6g}, "
                f"K[{j}, {i}] = {K[j, i]:.6g}"
            )
    half *= 1.0 + 1e-6
    size = np.sqrt(largest + 2.0 * half) * (1.0 + 1e-15)
    # The smaller of two rows' halves is at most their geometric mean, as two numbers and their
    # inverses are together at least 2.
    error = np.divide(0.5 * half, size, out=np.zeros(len(K)), where=half > 0)
    return Accuracy(size, error * (1.0 + 1e-12))
