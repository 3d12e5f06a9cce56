"""Kernels at scale: features whose inner products approximate a kernel, for any linear solver.

Nystrom (Williams & Seeger 2001): for landmarks l_1..l_r, z(x) = L^-1 (K(l_1, x), ..., K(l_r, x))
with L L' the Cholesky factorisation of the landmarks' kernel matrix: z(a).z(b) is the best
approximation of K(a, b) in the span of the landmarks. They are chosen by randomly pivoted Cholesky
(Chen, Epperly, Tropp & Webber, "Randomly pivoted Cholesky", 2022): each with a probability
proportional to what is left of K(x, x) after the ones before, which needs no distances and is near
the best for its rank; many candidates at a time, with rejection (Epperly, Tropp & Webber, "Embrace
rejection", 2024).

Random Fourier features (Rahimi & Recht 2007), rbf only: z(x) = sqrt(2/r) cos(W x + u), W ~ N(0, 2
gamma), u uniform on [0, 2 pi].

The certificate of the linear problem says how well *that* was solved. What the features lose is
another matter, and is measured beside it: `error` on the rows at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix
from bridle.matrix.threads import check_threads
from bridle.objective.kernels import Kernel, KernelFunction, kernel_from
from bridle.problems.kernel import Expansion
from bridle.problems.linear import LinearProblem
from bridle.rows.gram import kernel_diagonal, kernel_matrix
from numpy.typing import ArrayLike, NDArray

Features = NDArray[Any]

# Landmarks are chosen among this many rows, and features are computed for so many rows at a time.
POOL = 20_000

BLOCK = 8192

# Candidates for landmarks that are looked at together.
CANDIDATES = 64


@dataclass(frozen=True)
class ApproximationError:
    """How far z(a).z(b) is from K(a, b), measured.

    rms: over pairs of sampled rows. diagonal: mean of |K(x, x) - z(x).z(x)| over mean of K(x, x).
    """

    rms: float
    diagonal: float
    n_components: int

    def __str__(self) -> str:
        return (
            f"{self.n_components} features approximate the kernel to {self.rms:.2g} (root mean "
            f"square over pairs), {self.diagonal:.2%} of its trace is lost"
        )


class KernelFeatures:
    """A map to features. Subclasses compute a block of them."""

    kernel: Kernel
    n_components: int
    error: ApproximationError

    def _block(self, X: Any) -> Array:
        raise NotImplementedError

    def transform(self, X: Any) -> Features:
        """The features of every row, C-contiguous, in the precision of X."""
        X = as_matrix(X)
        out = np.empty((X.shape[0], self.n_components), dtype=X.dtype)
        for begin in range(0, X.shape[0], BLOCK):
            out[begin : begin + BLOCK] = self._block(X[begin : begin + BLOCK])
        return out

    def problem(self, X: Any, y: ArrayLike, C: float = 1.0, **options: Any) -> LinearProblem:
        """The linear problem on the features of X; options as LinearProblem's."""
        return LinearProblem(self.transform(X), y, C, **options)

    def _measure(self, X: Any, rng: np.random.Generator) -> ApproximationError:
        rows = np.sort(rng.choice(X.shape[0], min(1000, X.shape[0]), replace=False))
        part = X[rows]
        K, Z = kernel_matrix(self.kernel, part, part), self._block(part)
        apart = K - Z @ Z.T
        diagonal = float(np.abs(apart.diagonal()).mean() / np.abs(K.diagonal()).mean())
        return ApproximationError(float(np.sqrt((apart**2).mean())), diagonal, self.n_components)


class Nystrom(KernelFeatures):
    """Features from landmarks, which are rows of X.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> bridle.Nystrom(X, 10, gamma=0.5).transform(X[:5]).shape
    (5, 10)
    """

    def __init__(
        self,
        X: Any,
        n_components: int = 500,
        *,
        kernel: str | KernelFunction | Kernel = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        seed: int = 0,
        n_threads: int | None = None,
    ) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components}")
        X = as_matrix(X)
        self.kernel = kernel_from(kernel, X, gamma, degree, coef0)
        if self.kernel.given:
            raise ValueError("a precomputed kernel has no rows to take landmarks from")
        self.n_threads = check_threads(n_threads)
        rng = np.random.default_rng(seed)
        pool = np.arange(X.shape[0])
        if len(pool) > POOL:
            pool = np.sort(rng.choice(len(pool), POOL, replace=False))
        chosen, self.factor = self._choose(X[pool], n_components, rng)
        self.landmark_rows = pool[chosen]
        self.landmarks = X[self.landmark_rows]
        self.n_components = len(chosen)
        self.error = self._measure(X, rng)

    def expansion(self, w: ArrayLike) -> Expansion:
        """Weights on the features as an element of the kernel's own space.

        KernelProblem.primal() and .decision() take it: what the model is worth, not approximated.
        """
        weights = np.asarray(w, np.float64)
        return Expansion(
            np.asarray(np.linalg.solve(self.factor.T, weights), np.float64), self.landmarks
        )

    def _block(self, X: Any) -> Array:
        from scipy.linalg import solve_triangular

        K = kernel_matrix(self.kernel, X, self.landmarks, self.n_threads)
        return np.asarray(solve_triangular(self.factor, K.T, lower=True, check_finite=False).T)

    def _choose(self, X: Any, limit: int, rng: np.random.Generator) -> tuple[Any, Array]:
        """Randomly pivoted Cholesky: landmarks, and the factor of their kernel matrix."""
        n = X.shape[0]
        limit = min(limit, n)
        F = np.zeros((limit, n))  # row by row: F' F approximates K
        left = kernel_diagonal(self.kernel, X, self.n_threads).copy()
        enough = 1e-10 * float(left.sum())
        chosen: list[int] = []
        while len(chosen) < limit and float(left.sum()) > enough:
            # Candidates are drawn many at a time, and each is then taken with the probability that
            # what is left of it has to what was left when it was drawn: the same distribution.
            drawn = left
            candidates = rng.choice(n, CANDIDATES, p=drawn / drawn.sum())
            first = len(chosen)
            K = kernel_matrix(self.kernel, X[candidates], X, self.n_threads)
            K -= F[:first, candidates].T @ F[:first]
            for row, pivot in zip(K, candidates.tolist(), strict=True):
                k = len(chosen)
                if k == limit or rng.random() * drawn[pivot] >= left[pivot]:
                    continue
                values = row - F[first:k, pivot] @ F[first:k]
                F[k] = values / np.sqrt(values[pivot])
                left = np.maximum(left - F[k] ** 2, 0.0)
                left[pivot] = 0.0
                chosen.append(pivot)
        if not chosen:
            raise ValueError("the kernel is zero on every row: nothing to approximate")
        return np.array(chosen), np.tril(F[: len(chosen), chosen].T)


class RandomFeatures(KernelFeatures):
    """Random Fourier features of the rbf kernel.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> bridle.RandomFeatures(X, 10, gamma=0.5).transform(X[:5]).shape
    (5, 10)
    """

    def __init__(
        self, X: Any, n_components: int = 500, *, gamma: float | str = "scale", seed: int = 0
    ) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components}")
        X = as_matrix(X)
        self.kernel = kernel_from("rbf", X, gamma)
        self.n_components = n_components
        rng = np.random.default_rng(seed)
        shape = (X.shape[1], n_components)
        self.directions = (
            rng.normal(size=shape) * np.sqrt(2 * self.kernel.parameters["gamma"])
        ).astype(X.dtype)
        self.phases = rng.uniform(0, 2 * np.pi, n_components).astype(X.dtype)
        self.error = self._measure(X, rng)

    def _block(self, X: Any) -> Array:
        Z = np.asarray(X @ self.directions)
        Z += self.phases
        np.cos(Z, out=Z)
        Z *= np.sqrt(2.0 / self.n_components)
        return Z
