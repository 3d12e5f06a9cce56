"""The squared hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.bias import squared_hinge_bias
from bridle.objective.losses.base import Loss, Shape, squares_over
from bridle.objective.rounding import DualSums, Interval, sums_of


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - p)^2.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.SquaredHinge().value(np.array([-1.0, 0.5, 2.0]))
    array([4.  , 0.25, 0.  ])
    """

    name: ClassVar[str] = "squared_hinge"
    core: ClassVar[str | None] = "squared_hinge"
    bounded_dual: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True
    second_order: ClassVar[bool] = True
    steepest: ClassVar[float] = 2.0  # type: ignore[misc]
    shape: ClassVar[Shape] = Shape(0.0, np.inf, curve=0.5)  # type: ignore[misc]

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - p) ** 2

    def slope(self, p: Array) -> Array:  # noqa: D102
        return 2.0 * np.maximum(0.0, 1.0 - p)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return np.where(cost > 0, np.inf, 0.0)

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return self.dual_between(alpha, cost).middle

    def dual_between(  # noqa: D102
        self, alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
    ) -> Interval:
        sums = sums or sums_of(alpha, n_threads)
        return sums.total - 0.25 * squares_over(alpha, cost, sums, n_threads)

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return float(cost.sum()) / 2.0

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        return squared_hinge_bias(y - scores, y > 0, cost)
