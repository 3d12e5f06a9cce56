"""What a loss is: a function of the margin p of a row, with what its dual needs.

Of classes y_i = +-1 the margin is p_i = y_i (w.x_i + b); of a regression on targets t_i it is the
residual p_i = w.x_i + b - t_i, with y_i = 1. The primal is 1/2 |w|^2 + sum_i C_i loss(p_i), and

    D(alpha) = sum_i [-C_i loss*(-alpha_i / C_i) + alpha_i t_i] - 1/2 |sum_i alpha_i y_i x_i|^2

its dual, with loss* the convex conjugate and t_i = 0 for classes. The sum of -C_i loss* is
`dual_value` here, finite for `lower(C_i)` <= alpha_i <= `upper(C_i)`.
"""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array, number_or_all
from bridle.objective import rounding
from bridle.objective.bias import convex_bias, widest_bias
from bridle.objective.rounding import DualSums, Interval, gamma, sums_of

# Of a loss's `value`, and of the terms of its `dual_value`: more than any formula here or of a few
# elementary functions needs.
VALUE_ROUNDINGS = 32


class Shape(NamedTuple):
    """Of a loss that is linear or quadratic between its kinks.

    With r = target - p, it is the largest r a - tube |a| - curve/2 a^2 of all low <= a <= high. The
    dual variable is C a. tube: how far r may be from 0 at no cost. curve: 0 for kinks.
    """

    low: float = -1.0
    high: float = 1.0
    tube: float = 0.0
    curve: float = 0.0


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


def squares_over(
    alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
) -> Interval:
    """sum_i alpha_i^2 / C_i, where a variable without a cost is 0; sums: of these variables."""
    size = (sums or sums_of(alpha, n_threads)).size.high
    if size == 0.0:  # nothing has underflown
        return rounding.ZERO
    value, squares = _core.sums.squares_over(alpha, number_or_all(cost), n_threads)
    # The costs are rounded, and the ratios rounded or underflown.
    found = rounding.known_product(value, squares, len(alpha)) * Interval.around(1.0, gamma(2))
    return found + Interval(0.0, rounding.TINY * size)


def _fields(loss: Any) -> tuple[Field[Any], ...]:
    return fields(loss) if is_dataclass(loss) else ()


class Loss:
    """What a problem and the solvers ask of a loss: convex and never negative.

    One of margins never rises; one of residuals is least at 0. A loss of your own gives `name`,
    `value`, `slope`, `upper` (and `lower`, of residuals) and `dual_value`; the rest has defaults
    that follow from these. See `check_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> class Mine(bridle.Loss):
    ...     name = "mine"
    ...     value = lambda self, p: np.maximum(0.0, 1.0 - p)
    ...     slope = lambda self, p: np.where(p < 1.0, 1.0, 0.0)
    ...     upper = lambda self, cost: cost
    ...     dual_value = lambda self, alpha, cost: float(alpha.sum())
    >>> bridle.check_loss(Mine())
    """

    name: ClassVar[str]
    residual: ClassVar[bool] = False  # of w.x + b - t instead of y (w.x + b)
    target: ClassVar[float] = 1.0  # the margin from which on, or the residual where, it is least
    core: ClassVar[str | None] = None  # the struct in core, if compiled steps know the loss
    # What solvers may need:
    bounded_dual: ClassVar[bool] = True  # alpha_i <= a multiple of C_i
    smooth: ClassVar[bool] = False  # its slope has no jumps
    unit_slope: ClassVar[bool] = False  # its slope is 1 below the target and 0 beyond
    quadratic: ClassVar[bool] = False  # the hinge or its square: one kink, at the target
    steepest: float = np.inf  # its second derivative is at most this
    certifiable: ClassVar[bool] = True  # relative gaps go to 0
    one_class: ClassVar[bool] = False  # of rows without labels: all y_i are 1, and the bias is free
    pull: float = 0.0  # P has so many times b sum C_i, and a free bias asks for it in the dual
    sigmoid: ClassVar[bool] = False  # 1 / (1 + exp(-score)) is a probability
    shape: Shape | None = None  # of losses that are linear or quadratic between their kinks
    second_order: ClassVar[bool] = False  # has `curvature(p)`, its second derivative, or newton's

    def __init_subclass__(cls, **options: Any) -> None:
        """A loss with a dual value of its own takes no bounds from the one that it derives from."""
        super().__init_subclass__(**options)
        if "dual_value" in vars(cls) and "dual_between" not in vars(cls):
            cls.dual_between = Loss.dual_between  # type: ignore[method-assign]

    @property
    def of_classes(self) -> bool:
        """Whether its rows have labels of classes, and no targets."""
        return not (self.residual or self.one_class)

    @property
    def struct(self) -> Any:
        """The name of the struct in core, for compiled steps; with its numbers if it has any."""
        if self.core is None:
            raise ValueError(f"the compiled core has no struct for the loss {self.name!r}")
        return self.core

    @property
    def parameters(self) -> dict[str, Any]:
        """What tells it from others of its name."""
        return {field.name: getattr(self, field.name) for field in _fields(self)}

    def value(self, p: Array) -> Array:
        """The loss at margins p."""
        raise NotImplementedError

    def slope(self, p: Array) -> Array:
        """Minus a subgradient of the loss at margins p; never rising."""
        raise NotImplementedError

    def lower(self, cost: Array) -> Array | float:
        """The least feasible dual variable of a row of this cost; 0 for margins."""
        return 0.0

    def upper(self, cost: Array) -> Array:
        """The largest feasible dual variable of a row of this cost."""
        raise NotImplementedError

    def dual_value(self, alpha: Array, cost: Array) -> float:
        """The part of the dual that is not 1/2 |w|^2."""
        raise NotImplementedError

    def sum_between(self, p: Array, error: float | Array, cost: Array) -> Interval:
        """sum_i C_i loss, where each margin, less the error or more, is known up to the error.

        `value` never rises, or is least at 0; it is trusted up to VALUE_ROUNDINGS.
        """
        if self.residual:
            size = np.abs(p)
            low = self._sum(np.copysign(np.maximum(size - error, 0.0), p), cost).low
            ends = (low, self._sum(np.copysign(size + error, p), cost).high)
        else:
            ends = (self._sum(p + error, cost).low, self._sum(p - error, cost).high)
        return Interval(*ends) * Interval.around(1.0, gamma(VALUE_ROUNDINGS))

    def compiled_between(
        self, signed_cost: Array, scores: Array, error: float, n_threads: int
    ) -> Interval:
        """The same of margins y_i s_i, where the core knows the loss, without other arrays."""
        least, most = _core.sums.losses(self.struct, signed_cost, scores, error, n_threads)
        if not (least[1] > 0 and most[1] > 0):  # was there nothing, or did it underflow?
            margins = np.copysign(1.0, signed_cost) * scores
            return self.sum_between(margins, error, np.abs(signed_cost))
        low, high = (rounding.known_product(*ends, len(scores)) for ends in (least, most))
        return Interval(low.low, high.high) * Interval.around(1.0, gamma(VALUE_ROUNDINGS))

    def _sum(self, p: Array, cost: Array) -> Interval:
        with np.errstate(over="ignore"):
            return rounding.product(cost, np.ascontiguousarray(self.value(p), np.float64))

    def dual_between(
        self, alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
    ) -> Interval:
        """The part of the dual that is not 1/2 |w|^2, rounding included.

        sums: of these variables, where they are known.

        Its terms are min_p C_i loss(p) + alpha_i p, so at most C_i loss(target) + alpha_i target:
        what is positive among them is no more than the sum of these, and so is what is negative but
        for the value itself.
        """
        value = self.dual_value(alpha, cost)
        size = (sums or sums_of(alpha, n_threads)).size
        positive = self.highest_dual_value(size, rounding.total(cost, n_threads)).high
        roundings = len(alpha) + VALUE_ROUNDINGS
        return Interval.around(value, gamma(roundings) * (2.0 * positive + abs(value)))

    def highest_dual_value(self, alpha: Interval, cost: Interval) -> Interval:
        """A bound on `dual_value` by the sums of |alpha| and of the costs alone."""
        at_target = float(self.value(np.array([self.target]))[0])
        return abs(self.target) * alpha + at_target * cost

    def squared_radius(self, cost: Array) -> float:
        """A bound on |w*|^2 of margins: 1/2 |w*|^2 <= P(0), if nothing better is known."""
        return 2.0 * float(self.value(np.zeros(1))[0]) * float(cost.sum())

    def step(self, alpha: float, p: float, q: float, cost: float) -> float:
        """The best alpha of one row of margin p and squared length q, the others fixed.

        It is where alpha = C slope(p + q (alpha - before)), whose right side never rises.
        """
        one = np.array([cost])
        low, high = float(np.min(self.lower(one))), float(self.upper(one)[0])
        if not np.isfinite(high):
            high = max(1.0, 2.0 * alpha)
            while self._pull(high, alpha, p, q, cost) > high:
                high *= 2.0
        if not np.isfinite(low):
            low = min(-1.0, 2.0 * alpha)
            while self._pull(low, alpha, p, q, cost) < low:
                low *= 2.0
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
        """The b that minimises sum_i C_i loss(y_i (s_i + b)): exactly, or nearly.

        Of residuals, the scores are less the targets.
        """
        if np.isinf(cost).any():
            return widest_bias(scores, y, cost)
        return self._best_bias(scores, y, cost)

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        def slope(b: float) -> float:
            return -inner(cost * y, self.slope(y * (scores + b)))

        return convex_bias(slope, self.target * y - scores)
