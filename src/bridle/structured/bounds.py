"""How far rounding may have taken what structural certificates are made of.

A dual point is the mean (W, l) of constraints that were added up in floating point, step by step or
cut by cut. Its `Errors` say how far some exact convex combination is from it, at most: that one is
the proof, and its dual value is at least

    l - errors.loss - 1/2 (|W| + errors.features)^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.objective.rounding import TINY, Interval, U, gamma, product

# Bounds are themselves computed in floating point: this much more is certainly enough, for sums of
# up to 2^40 terms that are not negative.
MORE = 1.001


class Errors(NamedTuple):
    """How far W and l of a mean may be, at most, from those of an exact convex combination."""

    features: float  # in length
    loss: float

    def scaled(self, factor: float, length: float) -> Errors:
        """Of the mean times a factor, rounded; length: of (W, l)."""
        slip = gamma(2) * factor * length
        return Errors(MORE * (factor * self.features + slip), MORE * (factor * self.loss + slip))


NONE = Errors(0.0, 0.0)


@dataclass(frozen=True)
class MeanIterate(Iterate):
    """An iterate whose dual point is known to within its errors.

    A solver that proposes a plain Iterate is not believed: the problem makes a dual point itself.
    """

    errors: Errors = NONE


def length_above(values: Array) -> float:
    """|values|, or a little more."""
    n = len(values)
    squared = float(values @ values)
    if squared == 0 and not values.any():
        return 0.0
    return _root_above(squared, n)


def longest_column(table: Array) -> float:
    """The length of the longest column, or a little more."""
    squared = np.einsum("ij,ij->j", table, table)
    return _root_above(float(squared.max(initial=0.0)), len(table))


def _root_above(squared: float, n: int) -> float:
    """Of a sum of n squares, added up in any order."""
    return math.sqrt(squared * (1.0 + gamma(n + 8)) + n * TINY) * (1.0 + 4 * U)


def of_sum(
    weights: Array, lengths: Array, losses: Array, errors: Array, excess: float = 0.0
) -> Errors:
    """Errors of sum_c weight_c (psi_c, loss_c).

    lengths: of psi_c, from above. errors: a row of Errors for each c. excess: by which part the
    weights may be more than they should; weights that are less leave the rest to the truth.
    """
    n = len(weights)
    part = gamma(n + 4) + excess
    size, loss = float(weights @ lengths), float(weights @ np.abs(losses))
    own = weights @ errors if n else np.zeros(2)
    tiny = (n + 1) * TINY
    return Errors(
        MORE * (float(own[0]) + part * size) + tiny, MORE * (float(own[1]) + part * loss) + tiny
    )


def excess_of(sums: Array, caps: Array, n: int) -> float:
    """By which part sums of n numbers may exceed their caps."""
    over = sums * (1.0 + gamma(n + 2)) > caps
    if not over.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return float((sums[over] / caps[over]).max() * (1.0 + gamma(n + 4)) - 1.0)


def dual_between(alpha: Array, errors: Errors) -> Interval:
    """D of an exact combination that is no farther from alpha = (W, l): from below, and roughly."""
    squared = product(alpha[:-1], alpha[:-1])
    loss = float(alpha[-1])
    if errors != NONE:
        length = squared.root()
        squared = (
            squared + 2.0 * errors.features * length + errors.features * errors.features * MORE
        )
    return loss - squared * 0.5 - Interval(0.0, errors.loss)
