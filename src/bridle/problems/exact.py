"""Combinations of rows of numbers that are exactly zero.

A number in floating point is a whole number times a power of two, so that the question whether some
x >= 0 other than 0 has sum_i x_i z_i = 0 has an exact answer. Rows are first looked at modulo a
prime: their rank there is never larger than their rank, so that rows which are independent modulo
the prime are independent. Otherwise x solves a square system of equations, either enclosed in
floating point (Rump, "Verification methods: rigorous results using floating-point arithmetic", Acta
Numerica 2010), which is proof enough if there is no other equation, or found exactly, digit by
digit in base p (Dixon, "Exact solution of linear equations using p-adic expansions", Numerische
Mathematik 1982), and put into every equation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.rounding import gamma
from numpy.typing import NDArray

PRIME = 2**31 - 1  # products of two residues fit into 64 bits
WORK = 5e8  # multiplications modulo the prime, at most
DIGITS = 3e7  # multiplications of long numbers, at most
BITS = 31  # of the prime

Whole = NDArray[np.int64]
Exact = NDArray[np.object_]  # of Python's whole numbers, or Fractions


def combination_of_zero(Z: Array | Exact, near: Array) -> Array | None:
    """x >= 0 with sum 1, the nearest numbers to some exact x with sum_i x_i z_i = 0; or None.

    Z: a row for each i, of float64 or of Fractions. near: where x is expected; only its places, not
    its digits, matter where the rows have one dependence.
    """
    Z = Z[:, (Z != 0).any(axis=0)]
    if not Z.shape[1]:
        return np.asarray(near / near.sum())
    residues, origin = _different(_residues(Z))
    if float(len(Z)) ** 2 * residues.shape[1] > WORK:
        return None
    basis, columns = _independent_parts(residues)
    if len(basis) == len(Z):
        return None
    if not len(basis):  # zero modulo the prime, yet not zero
        return None
    rest = np.setdiff1d(np.arange(len(Z)), basis)
    found = None if Z.dtype == object else _enclosed(Z.astype(np.float64), basis, rest)
    if found is None:
        found = _lifted(Z, basis, rest, origin[columns], near)
    return found


def _residues(Z: Array | Exact) -> Whole:
    """Z modulo the prime; each column may be multiplied by a number other than 0."""
    if Z.dtype == object:
        return np.array(
            [[v.numerator * pow(v.denominator, -1, PRIME) % PRIME for v in row] for row in Z],
            np.int64,
        )
    mantissa, exponent = np.frexp(Z)
    least = exponent.min(axis=0, initial=0, where=Z != 0) if Z.size else 0
    powers = [1]
    shift = exponent - least
    for _ in range(int(shift.max(initial=0, where=Z != 0))):
        powers.append(2 * powers[-1] % PRIME)
    table = np.array(powers, np.int64)
    whole = np.ldexp(mantissa, 53).astype(np.int64) % PRIME
    return np.asarray(whole * table[np.where(Z != 0, shift, 0)] % PRIME)


def _different(residues: Whole) -> tuple[Whole, Whole]:
    """The columns without those that are multiples of another one modulo the prime, and where."""
    first = residues[(residues != 0).argmax(axis=0), np.arange(residues.shape[1])]
    inverse = np.array([pow(int(v), -1, PRIME) if v else 0 for v in first.tolist()], np.int64)
    columns, origin = np.unique(residues * inverse % PRIME, axis=1, return_index=True)
    return columns, origin.astype(np.int64)


def _independent_parts(residues: Whole) -> tuple[Whole, Whole]:
    """As many rows as the rank, and as many columns, in which they are independent."""
    M = residues.copy()
    basis: list[int] = []
    columns: list[int] = []
    left = np.ones(len(M), bool)
    for column in range(M.shape[1]):
        candidates = np.flatnonzero(left & (M[:, column] != 0))
        if not len(candidates):
            continue
        pivot = int(candidates[0])
        left[pivot] = False
        basis.append(pivot)
        columns.append(column)
        inverse = pow(int(M[pivot, column]), -1, PRIME)
        below = candidates[1:]
        factors = M[below, column] * inverse % PRIME
        M[below] = (M[below] - factors[:, None] * M[pivot] % PRIME) % PRIME
        if not left.any():
            break
    return np.array(basis, np.int64), np.array(columns, np.int64)


def _enclosed(Z: Array, basis: Whole, rest: Whole) -> Array | None:
    """x where the system is square and a solution that is positive can be enclosed."""
    if len(rest) != 1 or Z.shape[1] != len(basis):
        return None
    exponents = np.frexp(np.abs(Z).max(axis=0))[1]
    scaled = np.ldexp(Z, -exponents)  # exact, unless it underflows
    if not np.array_equal(np.ldexp(scaled, exponents), Z):
        return None
    A, b = scaled[basis].T, -scaled[rest[0]]
    n = len(A)
    try:
        x = np.linalg.solve(A, b)
        if not (x > 0).all() or not np.isfinite(x).all():
            return None
        D = np.ldexp(1.0, np.frexp(x)[1])
        A, x = A * D, x / D
        R = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        return None
    size = np.abs(R)
    # Ten percent and four roundings more than the bounds ask for: they are rounded, too.
    part, tiny = 1.1 * gamma(n + 4), 1e-290
    off = np.abs(np.eye(n) - R @ A) + part * (size @ np.abs(A) + 1.0) + tiny
    alpha = 1.1 * float(off.sum(axis=1).max())
    residual = np.abs(b - A @ x) + part * (np.abs(A) @ np.abs(x) + np.abs(b)) + tiny
    error = 1.1 * float((size @ residual).max()) / (1.0 - alpha) if alpha < 1 else math.inf
    if not error < x.min():
        return None
    found = np.zeros(len(Z))
    found[basis], found[rest] = D * x, 1.0
    return np.asarray(found / found.sum())


def _lifted(
    Z: Array | Exact, basis: Whole, rest: Whole, chosen: Whole, near: Array
) -> Array | None:
    """x from its digits in base p."""
    n = len(basis)
    exact = _whole_columns(Z)
    A: Exact = exact[np.ix_(basis, chosen)].T
    free = np.array(_small(near[rest]), object)
    b: Exact = -(free @ exact[np.ix_(rest, chosen)])
    inverse = _inverse((A % PRIME).astype(np.int64))
    if inverse is None:
        return None
    # By Cramer's rule and Hadamard's inequality, no numerator or denominator has more bits.
    longest = sum(max(v.bit_length() for v in row) + n.bit_length() for row in np.c_[A, b])
    most = 2 * longest // (BITS - 1) + 2
    x: Exact = np.zeros(n, object)
    modulus, remainder, look = 1, b, 4
    for digit in range(1, most + 1):
        if digit * n * n > DIGITS:
            return None
        now = (inverse * (remainder % PRIME).astype(np.int64) % PRIME).sum(axis=1) % PRIME
        digits = now.astype(object)
        x = x + modulus * digits
        modulus *= PRIME
        remainder = (remainder - A @ digits) // PRIME
        if digit in (look, most):
            look *= 2
            found = _rational(x, modulus)
            if found is not None:
                whole = _placed(found, free, basis, rest)
                if not (whole @ exact).any():
                    return _normalised(whole) if (whole >= 0).all() else None
    return None


def _whole_columns(Z: Array | Exact) -> Exact:
    """Each column times what makes it one of whole numbers without a common divisor."""
    columns = []
    for column in Z.T:
        values = [Fraction(v) for v in column.tolist()]
        scale = math.lcm(*(v.denominator for v in values))
        whole = [v.numerator * (scale // v.denominator) for v in values]
        divisor = math.gcd(*whole)
        columns.append([v // divisor for v in whole])
    made = np.empty((Z.shape[0], Z.shape[1]), object)
    made[:] = np.array(columns, object).T
    return made


def _small(weights: Array) -> list[int]:
    """Whole numbers in about these proportions."""
    return [max(1, round(64 * w)) for w in (weights / weights.max()).tolist()]


def _inverse(A: Whole) -> Whole | None:
    """The inverse modulo the prime."""
    n = len(A)
    M = np.hstack([A, np.eye(n, dtype=np.int64)])
    for k in range(n):
        pivots = np.flatnonzero(M[k:, k])
        if not len(pivots):
            return None
        M[[k, k + pivots[0]]] = M[[k + pivots[0], k]]
        M[k] = M[k] * pow(int(M[k, k]), -1, PRIME) % PRIME
        others = np.flatnonzero(M[:, k])
        others = others[others != k]
        M[others] = (M[others] - M[others, k][:, None] * M[k] % PRIME) % PRIME
    return M[:, n:]


def _rational(x: Exact, modulus: int) -> list[Fraction] | None:
    """The fractions that these numbers are modulo a power of the prime."""
    bound = math.isqrt(modulus // 2)
    common, found = 1, []
    for residue in x.tolist():
        # The denominators so far usually are this one's, too.
        low, high = residue * common % modulus, 1
        before, earlier = modulus, 0
        while low > bound:
            quotient = before // low
            before, low = low, before - quotient * low
            earlier, high = high, earlier - quotient * high
        common *= abs(high)
        if common > bound:
            return None
        found.append(Fraction(low if high > 0 else -low, common))
    return found


def _placed(found: Sequence[Fraction], free: Exact, basis: Whole, rest: Whole) -> Exact:
    """All of x times the common denominator: whole numbers."""
    scale = math.lcm(*(v.denominator for v in found))
    x: Any = np.zeros(len(basis) + len(rest), object)
    x[basis] = [v.numerator * (scale // v.denominator) for v in found]
    x[rest] = scale * free
    return np.asarray(x)


def _normalised(x: Exact) -> Array:
    total = int(x.sum())
    return np.array([v / total for v in x.tolist()])
