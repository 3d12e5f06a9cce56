"""The hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.bias import hinge_bias
from bridle.objective.losses.base import Loss, Shape
from bridle.objective.rounding import DualSums, Interval, sums_of


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - p).

    Examples
    --------
    >>> import numpy as np
    >>> bridle.Hinge().value(np.array([-1.0, 0.5, 2.0]))
    array([2. , 0.5, 0. ])
    """

    name: ClassVar[str] = "hinge"
    core: ClassVar[str | None] = "hinge"
    unit_slope: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True
    second_order: ClassVar[bool] = True
    shape: ClassVar[Shape] = Shape(low=0.0)  # type: ignore[misc]

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - p)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return (p < 1.0).astype(np.float64)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return float(alpha.sum())

    def dual_between(  # noqa: D102
        self, alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
    ) -> Interval:
        return (sums or sums_of(alpha, n_threads)).total

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return float(cost.sum())

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        return hinge_bias(y - scores, y > 0, cost)
