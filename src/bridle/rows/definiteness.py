"""Whether a symmetric matrix is positive semi-definite, as far as float64 can tell.

If Cholesky's method comes to its end on A in floating point, A + E = R'R for some E with
|E_ij| <= c sqrt(a_ii a_jj), c = gamma(n + 1) / (1 - gamma(n + 1)) (Higham, "Accuracy and Stability
of Numerical Algorithms", 2002, theorem 10.3). So no eigenvalue of A is below -c trace(A); and it
does come to its end if all of them are above n c max a_ii.

So a matrix K passes with a shift: K + delta I is positive semi-definite for sure. No shift of the
order of rounding will do for a matrix that is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.blas import one_blas_thread
from bridle.objective.rounding import U, gamma

# The smallest shift: nothing in the matrix may underflow.
LEAST = 1e-280


@dataclass(frozen=True)
class Definiteness:
    """shift: K + shift I is positive semi-definite. proof: that K is not, with words."""

    shift: float = 0.0
    proof: str | None = None


def definiteness(matrix: Callable[[], Array], precision: float) -> Definiteness:
    """What is known of a matrix whose entries are of that precision; each call makes a new copy."""
    from scipy.linalg.lapack import dpotrf

    A = matrix()
    n, diagonal = len(A), A.diagonal().copy()
    largest = float(diagonal.max())
    if not diagonal.min() >= 0:
        i = int(diagonal.argmin())
        return Definiteness(proof=f"K[{i}, {i}] is {diagonal[i]:.3g}")
    c = gamma(n + 8) / (1.0 - gamma(n + 8))
    rounding = c * float(diagonal.sum())
    shift = failed = 0.0
    for shift in _shifts(rounding, precision * largest, n):
        if failed:
            A = matrix()
        np.fill_diagonal(A, diagonal + shift)
        with one_blas_thread():
            failed = dpotrf(A.T, lower=1, clean=0, overwrite_a=1)[1]
        if not failed:
            left = c * (float(diagonal.sum()) + n * shift) + U * (largest + shift)
            return Definiteness((shift + left) * (1.0 + 1e-9))
    value = min(_least_of_leading(matrix(), int(failed), shift), rounding - shift)
    return Definiteness(proof=f"on {n} of its rows it has an eigenvalue {value:.3g} or below")


def _shifts(rounding: float, step: float, n: int) -> Iterator[float]:
    """From what float64 takes of the matrix to what its own precision may have taken."""
    yield (last := rounding + LEAST)
    limit = max(1000.0 * last, 10.0 * n * step)
    last = max(10.0 * last, step)
    while last <= limit:
        yield last
        last *= 10.0


def _least_of_leading(A: Array, k: int, shift: float) -> float:
    """z'Az / z'z of the vector that ends Cholesky's method on A + shift I at row k, if negative."""
    from scipy.linalg import cho_factor, cho_solve

    head = A[: k - 1, : k - 1].copy()
    np.fill_diagonal(head, head.diagonal() + shift)
    z = np.ones(k)
    try:
        z[:-1] = -cho_solve(cho_factor(head), A[: k - 1, k - 1]) if k > 1 else 0.0
    except np.linalg.LinAlgError:  # another order of the same sums may end sooner
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # of a head that is all but singular
        z /= np.abs(z).max()
        value = float(z @ A[:k, :k] @ z / (z @ z))
    return value if value < 0 else 0.0
