"""The loss of one class: of rows without labels, whose offset is rewarded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.bias import hinge_bias
from bridle.objective.losses.perceptron import PerceptronLoss


@dataclass(frozen=True)
class OneClass(PerceptronLoss):
    """max(0, -p) of p = s + b, where the problem has nu b sum_i C_i besides: b is minus the offset.

        min_{w, b}  P = 1/2 |w|^2 + sum_i C_i max(0, -b - s_i) + nu b sum_i C_i
        max_alpha   D = -1/2 |w(alpha)|^2,   0 <= alpha_i <= C_i,   sum_i alpha_i = nu sum_i C_i

    (Schoelkopf, Platt, Shawe-Taylor, Smola & Williamson, "Estimating the support of a
    high-dimensional distribution", Neural Computation 2001, whose objective this is times
    (nu sum_i C_i)^2, with w and b times nu sum_i C_i; it is LIBSVM's, LIBLINEAR's and
    scikit-learn's.) At the optimum, rows of no more than the share nu of the weight have s_i + b
    below 0. P and D are negative. A multiple of C is one of w and b: C = 1 will do.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.OneClass(nu=0.1).value(np.array([-1.0, 0.5, 2.0]))
    array([1., 0., 0.])
    """

    nu: float = 0.5

    name: ClassVar[str] = "one_class"
    certifiable: ClassVar[bool] = True
    one_class: ClassVar[bool] = True
    second_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.nu <= 1:
            raise ValueError(f"nu must be above 0, and at most 1, got {self.nu}")

    @property
    def pull(self) -> float:  # type: ignore[override]  # noqa: D102
        return float(self.nu)

    def _best_bias(self, scores: Array, y: Array, cost: Array) -> float:
        """Rows of the weight nu sum_i C_i are to have s_i + b < 0."""
        everyone = np.ones(len(scores), bool)
        return hinge_bias(-scores, everyone, cost, excess=self.pull * float(cost.sum()))
