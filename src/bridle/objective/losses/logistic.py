"""The logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import rounding
from bridle.objective.losses.base import Loss
from bridle.objective.rounding import DualSums, Interval, gamma


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-p)); its dual value is the sum of C_i times the entropy of alpha_i / C_i.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.Logistic().value(np.array([-1.0, 0.0, 1.0])).round(3)
    array([1.313, 0.693, 0.313])
    """

    name: ClassVar[str] = "logistic"
    target: ClassVar[float] = 0.0  # where its entropy is largest
    core: ClassVar[str | None] = "logistic"
    smooth: ClassVar[bool] = True
    second_order: ClassVar[bool] = True
    sigmoid: ClassVar[bool] = True
    steepest: ClassVar[float] = 0.25  # type: ignore[misc]

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.asarray(np.logaddexp(0.0, -p))

    def slope(self, p: Array) -> Array:  # noqa: D102
        half = np.tanh(0.5 * np.asarray(p))
        return np.asarray(0.5 - 0.5 * half)

    def curvature(self, p: Array) -> Array:
        """The second derivative."""
        slope = self.slope(p)
        return slope * (1.0 - slope)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return self.dual_between(alpha, cost).middle

    def dual_between(  # noqa: D102
        self, alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
    ) -> Interval:
        used = (alpha > 0) & (alpha < cost)
        a, c = alpha[used], cost[used]
        part = np.clip(a / c, np.finfo(np.float64).tiny, 1.0 - 2.0**-53)  # if rounded to an end
        terms = -(a * np.log(part) + (c - a) * np.log1p(-part))
        # Where alpha/C is near 1 its rounding counts, at most as much as alpha does; so does that
        # of the costs, times a logarithm.
        found = rounding.total(terms)
        return found + Interval.around(0.0, gamma(64) * (found.high + rounding.size(a)))
