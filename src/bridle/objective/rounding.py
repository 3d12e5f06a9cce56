"""What makes a certificate a proof: numbers that are known between two bounds, rounding included.

Rounding to nearest changes a result by at most a part u = 2^-53 of itself, or, where it underflows,
by at most half of the smallest positive number. So a value that went through n roundings is off by
at most a part gamma(n) = n u / (1 - n u) (Higham, "Accuracy and Stability of Numerical Algorithms",
2002, chapter 3), and a sum of terms by that part of the sum of their absolute values, which the
compiled sums return from the same pass.

A certificate's primal value is the upper end of such an interval and its dual value the lower end
of another: weak duality then holds for what is reported, not only for what was meant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array

U = 2.0**-53
TINY = 2.0**-1074  # the smallest positive number


def gamma(n: float) -> float:
    """How far n roundings take a result from the exact one, as a part of it, at most."""
    part = n * U
    return part / (1.0 - part) * (1.0 + 8.0 * U) if part < 0.5 else math.inf


def _down(x: float) -> float:
    return math.nextafter(x, -math.inf) if not math.isnan(x) else -math.inf


def _up(x: float) -> float:
    return math.nextafter(x, math.inf) if not math.isnan(x) else math.inf


@dataclass(frozen=True)
class Interval:
    """A number between low and high. Whatever is computed of it lies within what comes out."""

    low: float
    high: float

    @classmethod
    def around(cls, value: float, error: float) -> Interval:
        """A number that is at most `error` from a value; any number, if the value is none."""
        return cls(_down(value - error), _up(value + error))

    @property
    def middle(self) -> float:
        """The number itself, as nearly as it is known."""
        return 0.5 * (self.low + self.high) if self.low != self.high else self.low

    @property
    def width(self) -> float:
        """How much of it is not known."""
        return self.high - self.low if self.low != self.high else 0.0

    @property
    def size(self) -> float:
        """The largest that its absolute value may be."""
        return max(abs(self.low), abs(self.high))

    def __add__(self, other: Interval | float) -> Interval:
        other = _interval(other)
        low, high = self.low + other.low, self.high + other.high
        # Sums that come out as 0 are exact.
        return Interval(_down(low) if low else 0.0, _up(high) if high else 0.0)

    __radd__ = __add__

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval | float) -> Interval:
        return self + -_interval(other)

    def __rsub__(self, other: float) -> Interval:
        return _interval(other) - self

    def __mul__(self, other: Interval | float) -> Interval:
        other = _interval(other)
        if self.low > 0.0 and other.low > 0.0:
            return Interval(_down(self.low * other.low), _up(self.high * other.high))
        pairs = [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(_below(*pair) for pair in pairs), max(_above(*pair) for pair in pairs))

    __rmul__ = __mul__

    def __truediv__(self, other: Interval | float) -> Interval:
        other = _interval(other)
        if other.low <= 0.0 <= other.high:
            return Interval(-math.inf, math.inf)
        return self * Interval(_down(1.0 / other.high), _up(1.0 / other.low))

    def within(self, low: float, high: float) -> Interval:
        """The same number, which is known to lie between these two as well."""
        return Interval(min(max(self.low, low), high), max(min(self.high, high), low))

    def squared(self) -> Interval:
        """Its square."""
        return (self * self).within(0.0, math.inf)

    def root(self) -> Interval:
        """Its square root, of a number that is not negative."""
        low, high = math.sqrt(max(self.low, 0.0)), math.sqrt(max(self.high, 0.0))
        return Interval(max(0.0, _down(low)), _up(high) if high else 0.0)


ZERO = Interval(0.0, 0.0)


def _interval(x: Interval | float) -> Interval:
    return x if isinstance(x, Interval) else Interval(float(x), float(x))


def _below(a: float, b: float) -> float:
    """A product from below, where an infinite bound of nothing is nothing."""
    return 0.0 if a == 0.0 or b == 0.0 else _down(a * b)


def _above(a: float, b: float) -> float:
    """A product from above."""
    return 0.0 if a == 0.0 or b == 0.0 else _up(a * b)


def total(a: Array, n_threads: int = 1) -> Interval:
    """sum_i a_i."""
    value, size = _core.sums.total(a, n_threads)
    return _known(value, size, len(a), 0.0)


def size(a: Array, n_threads: int = 1) -> float:
    """sum_i |a_i|, or a little more."""
    absolute = _core.sums.total(a, n_threads)[1]
    return _known(absolute, absolute, len(a), 0.0).high


@dataclass(frozen=True)
class DualSums:
    """Of some dual variables: sum alpha_i, sum |alpha_i| and sum alpha_i y_i."""

    total: Interval
    size: Interval
    balance: Interval

    @classmethod
    def known(cls, total: tuple[float, float], balance: float, n: int) -> DualSums:
        """Of n variables, which were added up elsewhere, with the sum of their sizes."""
        value, size = total
        found = [_known(of, size, n, 0.0) for of in (value, size, balance)]
        return cls(found[0], found[1], found[2])


def dual_sums(alpha: Array, signs: Array, n_threads: int = 1) -> DualSums:
    """Of variables whose rows have these signs."""
    total, balance = _core.sums.of_dual(alpha, signs, n_threads)
    return DualSums.known(total, balance, len(alpha))


def sums_of(alpha: Array, n_threads: int = 1) -> DualSums:
    """Of variables whose rows have their signs."""
    return dual_sums(alpha, alpha, n_threads)


def product(a: Array, b: Array, n_threads: int = 1) -> Interval:
    """sum_i a_i b_i."""
    value, size = _core.sums.inner(a, b, n_threads)
    if size == 0.0 and not np.any((a != 0) & (b != 0)):  # nothing has underflown
        return ZERO
    return _known(value, size, len(a), TINY)


def known_product(value: float, size: float, n: int) -> Interval:
    """sum_i a_i b_i of n terms, which were added up elsewhere with the sum of their sizes."""
    return _known(value, size, n, TINY)


def _known(value: float, size: float, n: int, underflow: float) -> Interval:
    if size == 0.0 and underflow == 0.0:
        return ZERO
    # `size` is rounded as the sum is, which the second factor covers.
    error = gamma(_core.sums.roundings + 2) * size * (1.0 + 1e-12) + n * underflow
    found = Interval.around(value, error)
    return found.within(0.0, math.inf) if size == value else found


def length(w: Array) -> Interval:
    """|w|."""
    return product(w, w).root()


def below(products: Array, exact: Array) -> Array:
    """Products that were rounded to nearest, or the next numbers towards 0 where not `exact`.

    So a bound that is a product is never larger than it should be.
    """
    return np.where(exact, products, np.nextafter(products, 0.0))


def is_power_of_two(a: Array) -> Array:
    """Where a product with a_i is exact, but for underflow."""
    return np.asarray(np.frexp(a)[0] == 0.5)
