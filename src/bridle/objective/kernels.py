"""Kernels: inner products in a space that is never visited.

linear       c.x
rbf          exp(-gamma |c - x|^2)
poly         (gamma c.x + coef0)^degree
sigmoid      tanh(gamma c.x + coef0), which is not positive semi-definite in general
precomputed  the matrix of values takes the place of the rows
callable     function(A, B) -> the matrix of values, taken as precomputed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.door import is_sparse, make_rows
from numpy.typing import NDArray

Array = NDArray[np.float64]
KernelFunction = Callable[[Any, Any], Any]
KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")


@dataclass(frozen=True)
class Kernel:
    """A kernel with all its parameters known."""

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    function: KernelFunction | None = None  # of a callable kernel, whose name is "callable"

    def core(self, constant: float = 0.0) -> _core.Kernel:
        """The compiled core's form, with a constant added to every value."""
        name = "precomputed" if self.function is not None else self.name
        return _core.kernel(name, self.gamma, self.coef0, self.degree, constant)

    @property
    def is_matrix(self) -> bool:
        """Whether its values are known as a matrix only."""
        return self.name in ("precomputed", "callable")

    def diagonal(self, squared_norms: Array) -> Array:
        """K(x, x) from |x|^2, where there is a formula."""
        if self.is_matrix:
            raise ValueError("the diagonal of a precomputed kernel is in its matrix")
        if self.name == "linear":
            return squared_norms
        if self.name == "rbf":
            return np.ones_like(squared_norms)
        affine = self.gamma * squared_norms + self.coef0
        return np.asarray(affine**self.degree if self.name == "poly" else np.tanh(affine))

    def matrix(self, A: Any, B: Any, n_threads: int = 1) -> Array:
        """K(a, b) for all rows of A and B. Precomputed: A is that matrix already."""
        if self.function is not None:
            return np.ascontiguousarray(self.function(A, B), dtype=np.float64)
        if self.name == "precomputed":
            return np.ascontiguousarray(A, dtype=np.float64)
        A, a_rows, a_norms = make_rows(A, 0.0, n_threads)
        B, b_rows, b_norms = make_rows(B, 0.0, n_threads)
        out = np.empty((A.shape[0], B.shape[0]))
        _core.kernel_matrix(self.core(), a_rows, a_norms, b_rows, b_norms, out, n_threads)
        return out

    def expand(self, X: Any, centres: Any, coefficients: Array, n_threads: int = 1) -> Array:
        """sum_j coefficients_j K(x, c_j) for every row x of X."""
        if self.is_matrix:
            return self.matrix(X, centres) @ coefficients
        X, rows, norms = make_rows(X, 0.0, n_threads)
        _, centre_rows, centre_norms = make_rows(centres, 0.0, n_threads)
        out = np.empty(X.shape[0])
        _core.expand_kernel(
            self.core(), rows, norms, centre_rows, centre_norms,
            np.ascontiguousarray(coefficients, dtype=np.float64), out, n_threads,
        )  # fmt: skip
        return out


def kernel_from(
    kernel: str | KernelFunction,
    X: Any,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    sample_weight: Array | None = None,
) -> Kernel:
    """The kernel with gamma settled: "scale" is 1 / (n_features X.var()), "auto" 1 / n_features.

    The variance counts each row as often as it weighs.
    """
    if callable(kernel):
        return Kernel("callable", 1.0, degree, float(coef0), kernel)
    if kernel not in KERNELS:
        raise ValueError(
            f"kernel must be a function or one of {', '.join(KERNELS)}, got {kernel!r}"
        )
    if degree < 0 or degree != int(degree):
        raise ValueError(f"degree must be a whole number, not negative, got {degree}")
    if not np.isfinite(coef0):
        raise ValueError(f"coef0 must be finite, got {coef0}")
    return Kernel(kernel, _gamma(gamma, kernel, X, sample_weight), int(degree), float(coef0))


def _gamma(gamma: float | str, kernel: str, X: Any, weight: Array | None) -> float:
    if kernel in ("linear", "precomputed"):
        return 1.0
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / float(X.shape[1])
        if gamma == "scale":
            variance = _variance(X, weight)
            return 1.0 / (float(X.shape[1]) * variance) if variance > 0 else 1.0
        raise ValueError(f'gamma must be a number, "scale" or "auto", got {gamma!r}')
    if not (gamma >= 0 and np.isfinite(gamma)):
        raise ValueError(f"gamma must not be negative, and finite, got {gamma}")
    return float(gamma)


def _variance(X: Any, weight: Array | None) -> float:
    """Of all entries, zeros included."""
    if weight is not None and (weight != weight[0]).any():
        sparse = is_sparse(X)
        squares = X.multiply(X) if sparse else np.square(X, dtype=np.float64)
        size = float(weight.sum()) * float(X.shape[1])
        mean = float(weight @ np.asarray(X.sum(axis=1), np.float64).ravel()) / size
        return float(weight @ np.asarray(squares.sum(axis=1)).ravel()) / size - mean**2
    if not is_sparse(X):
        return float(np.asarray(X).var(dtype=np.float64))
    size = X.shape[0] * X.shape[1]
    data = X.data.astype(np.float64, copy=False)
    return float(data @ data / size - (data.sum() / size) ** 2)
