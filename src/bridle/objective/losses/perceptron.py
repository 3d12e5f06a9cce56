"""The perceptron's loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import rounding
from bridle.objective.bias import hinge_bias
from bridle.objective.losses.base import Loss, Shape
from bridle.objective.rounding import DualSums, Interval


@dataclass(frozen=True)
class PerceptronLoss(Loss):
    """max(0, -p): pays for misclassified rows only.

    With a regulariser the minimum is w = 0 and every dual value is at most 0, so no relative gap
    below 1 can be certified: it is minimised for the direction that w has on its way.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.PerceptronLoss().value(np.array([-1.0, 0.5, 2.0]))
    array([1., 0., 0.])
    """

    name: ClassVar[str] = "perceptron"
    target: ClassVar[float] = 0.0
    core: ClassVar[str | None] = "perceptron"
    unit_slope: ClassVar[bool] = True
    certifiable: ClassVar[bool] = False
    shape: ClassVar[Shape] = Shape(low=0.0)  # type: ignore[misc]

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, -p)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return (p <= 0.0).astype(np.float64)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return 0.0

    def dual_between(  # noqa: D102
        self, alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
    ) -> Interval:
        return rounding.ZERO

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return 0.0

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        return hinge_bias(-scores, y > 0, cost)
