"""The losses, as functions of the margin p = y (w.x + b), with what their duals need.

The primal is 1/2 |w|^2 + sum_i C_i loss(p_i). Its dual is

    D(alpha) = sum_i -C_i loss*(-alpha_i / C_i) - 1/2 |sum_i alpha_i z_i|^2,   z_i = y_i x_i,

with loss* the convex conjugate; the first sum is `dual_value` here, finite for
0 <= alpha_i <= `upper(C_i)`.

A loss is one class here, and one struct in core/losses.hpp if compiled steps are to know it. What
else solvers need to know of a loss are properties of the class, never its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import rounding
from bridle.objective.bias import convex_bias, hinge_bias, squared_hinge_bias, widest_bias
from bridle.objective.rounding import Interval, gamma

# Of a loss's `value`, and of the terms of its `dual_value`: more than any formula here or of a few
# elementary functions needs.
VALUE_ROUNDINGS = 32


def inner(a: Array, b: Array) -> float:
    """The inner product, not by BLAS.

    Its threads would cost more than they save here, and the last bits depend on their number.
    """
    return float(np.einsum("i,i->", a, b))


def weighted_sum(cost: Array, values: Array) -> float:
    """Sum of cost times value, where an infinite cost of nothing is nothing."""
    if np.isinf(cost).any():
        return float(np.sum(np.where(values > 0, cost, 0.0) * values)) if values.any() else 0.0
    return inner(cost, values)


class Loss:
    """What a problem and the solvers ask of a loss: convex, never rising, never negative.

    A loss of your own gives `name`, `value`, `slope`, `upper` and `dual_value`; the rest has
    defaults that follow from these.
    """

    name: ClassVar[str]
    target: ClassVar[float] = 1.0  # the margin from which on the loss is 0, or nearly
    core: ClassVar[str | None] = None  # the struct in core, if compiled steps know the loss
    # What solvers may need:
    bounded_dual: ClassVar[bool] = True  # alpha_i <= a multiple of C_i
    smooth: ClassVar[bool] = False  # its slope has no jumps
    unit_slope: ClassVar[bool] = False  # its slope is 1 below the target and 0 beyond
    quadratic: ClassVar[bool] = False  # the hinge or its square: one kink, at the target
    certifiable: ClassVar[bool] = True  # its dual values rise above 0

    def __init_subclass__(cls, **options: Any) -> None:
        """A loss with a dual value of its own takes no bounds from the one that it derives from."""
        super().__init_subclass__(**options)
        if "dual_value" in vars(cls) and "dual_between" not in vars(cls):
            cls.dual_between = Loss.dual_between  # type: ignore[method-assign]

    @property
    def struct(self) -> str:
        """The name of the struct in core, for compiled steps."""
        if self.core is None:
            raise ValueError(f"the compiled core has no struct for the loss {self.name!r}")
        return self.core

    def value(self, p: Array) -> Array:
        """The loss at margins p."""
        raise NotImplementedError

    def slope(self, p: Array) -> Array:
        """Minus a subgradient of the loss at margins p; never negative, never rising."""
        raise NotImplementedError

    def upper(self, cost: Array) -> Array:
        """The largest feasible dual variable of a row of this cost."""
        raise NotImplementedError

    def dual_value(self, alpha: Array, cost: Array) -> float:
        """The part of the dual that is not 1/2 |w|^2."""
        raise NotImplementedError

    def sum_between(self, p: Array, error: float | Array, cost: Array) -> Interval:
        """sum_i C_i loss, where each margin, less the error or more, is known up to the error.

        `value` never rises, and is trusted up to VALUE_ROUNDINGS.
        """
        ends = (self._sum(p + error, cost).low, self._sum(p - error, cost).high)
        return Interval(*ends) * Interval.around(1.0, gamma(VALUE_ROUNDINGS))

    def _sum(self, p: Array, cost: Array) -> Interval:
        with np.errstate(over="ignore"):
            return rounding.product(cost, np.ascontiguousarray(self.value(p), np.float64))

    def dual_between(self, alpha: Array, cost: Array) -> Interval:
        """The part of the dual that is not 1/2 |w|^2, rounding included.

        Its terms are min_p C_i loss(p) + alpha_i p, so at most C_i loss(target) + alpha_i target:
        what is positive among them is no more than the sum of these, and so is what is negative but
        for the value itself.
        """
        value = self.dual_value(alpha, cost)
        positive = self.highest_dual_value(rounding.total(alpha), rounding.total(cost)).high
        roundings = len(alpha) + VALUE_ROUNDINGS
        return Interval.around(value, gamma(roundings) * (2.0 * positive + abs(value)))

    def highest_dual_value(self, alpha: Interval, cost: Interval) -> Interval:
        """A bound on `dual_value` by the sums of alpha and of the costs alone."""
        at_target = float(self.value(np.array([self.target]))[0])
        return abs(self.target) * alpha + at_target * cost

    def squared_radius(self, cost: Array) -> float:
        """A bound on |w*|^2: 1/2 |w*|^2 <= P(0), if nothing better is known."""
        return 2.0 * float(self.value(np.zeros(1))[0]) * float(cost.sum())

    def step(self, alpha: float, p: float, q: float, cost: float) -> float:
        """The best alpha of one row of margin p and squared length q, the others fixed.

        It is where alpha = C slope(p + q (alpha - before)), whose right side never rises.
        """
        low, high = 0.0, float(self.upper(np.array([cost]))[0])
        if not np.isfinite(high):
            high = max(1.0, 2.0 * alpha)
            while self._pull(high, alpha, p, q, cost) > high:
                high *= 2.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if self._pull(middle, alpha, p, q, cost) > middle:
                low = middle
            else:
                high = middle
        return 0.5 * (low + high)

    def _pull(self, a: float, alpha: float, p: float, q: float, cost: float) -> float:
        return cost * float(self.slope(np.array([p + q * (a - alpha)]))[0])

    def best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        """The b that minimises sum_i C_i loss(y_i (s_i + b)); exactly for the losses we ship."""
        if np.isinf(cost).any():
            return widest_bias(scores, y, cost)
        return self._best_bias(scores, y, cost)

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        def slope(b: float) -> float:
            return -inner(cost * y, self.slope(y * (scores + b)))

        return convex_bias(slope, self.target * y - scores)


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - p)."""

    name: ClassVar[str] = "hinge"
    core: ClassVar[str | None] = "hinge"
    unit_slope: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - p)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return (p < 1.0).astype(np.float64)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return float(alpha.sum())

    def dual_between(self, alpha: Array, cost: Array) -> Interval:  # noqa: D102
        return rounding.total(alpha)

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return float(cost.sum())

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        return hinge_bias(y - scores, y > 0, cost)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - p)^2."""

    name: ClassVar[str] = "squared_hinge"
    core: ClassVar[str | None] = "squared_hinge"
    bounded_dual: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - p) ** 2

    def slope(self, p: Array) -> Array:  # noqa: D102
        return 2.0 * np.maximum(0.0, 1.0 - p)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return np.where(cost > 0, np.inf, 0.0)

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return self.dual_between(alpha, cost).middle

    def dual_between(self, alpha: Array, cost: Array) -> Interval:  # noqa: D102
        return rounding.total(alpha) - self.curvature(alpha, cost)

    def curvature(self, alpha: Array, cost: Array) -> Interval:
        """sum_i alpha_i^2 / (4 C_i), where a variable without a cost is 0."""
        used = cost > 0
        ratio = np.zeros(len(alpha))
        with np.errstate(over="ignore"):
            np.divide(alpha, cost, out=ratio, where=used)
        # The costs are rounded, and the ratios rounded or underflown.
        underflow = rounding.TINY * rounding.total(alpha).high
        found = rounding.product(alpha, ratio) * Interval.around(0.25, gamma(2))
        return found + Interval(0.0, underflow)

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return float(cost.sum()) / 2.0

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        return squared_hinge_bias(y - scores, y > 0, cost)


@dataclass(frozen=True)
class PerceptronLoss(Loss):
    """max(0, -p): pays for misclassified rows only.

    With a regulariser the minimum is w = 0 and every dual value is at most 0, so no relative gap
    below 1 can be certified: it is minimised for the direction that w has on its way.
    """

    name: ClassVar[str] = "perceptron"
    target: ClassVar[float] = 0.0
    core: ClassVar[str | None] = "perceptron"
    unit_slope: ClassVar[bool] = True
    certifiable: ClassVar[bool] = False

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, -p)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return (p <= 0.0).astype(np.float64)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return 0.0

    def dual_between(self, alpha: Array, cost: Array) -> Interval:  # noqa: D102
        return rounding.ZERO

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return 0.0

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        return hinge_bias(-scores, y > 0, cost)


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Hinge(), SquaredHinge(), PerceptronLoss())}


def loss_from(loss: str | Loss) -> Loss:
    """A loss by its name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise TypeError(f"loss must be a name or a Loss, got {type(loss).__name__}")
    try:
        return LOSSES[loss]
    except KeyError:
        known = ", ".join(map(repr, LOSSES))
        raise ValueError(
            f"unknown loss {loss!r}; known losses: {known}; one of your own is known by its name "
            f"once it is in bridle.objective.losses.LOSSES"
        ) from None
