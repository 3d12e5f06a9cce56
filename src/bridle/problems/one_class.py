"""The one-class machine: a half-space of the kernel's space that holds most rows, and not 0.

    min_{w, rho}  P = 1/2 |w|^2 + sum_i c_i max(0, rho - s_i) - nu rho sum_i c_i,
    s_i = w.phi(x_i),   0 < nu <= 1

    max_alpha  D = -1/2 |w(alpha)|^2,   0 <= alpha_i <= c_i,   sum_i alpha_i = nu sum_i c_i

(Schoelkopf, Platt, Shawe-Taylor, Smola & Williamson, "Estimating the support of a high-dimensional
distribution", Neural Computation 2001, whose objective this is times (nu sum_i c_i)^2, with w and
rho times nu sum_i c_i; it is LIBSVM's and scikit-learn's.) At the optimum, rows of no more than the
share nu of the weight have s_i < rho. P and D are negative.

It is the kernel problem of the loss max(0, -p), p_i = s_i + b, with b = -rho, where the dual
variables do not sum to 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.bias import hinge_bias
from bridle.objective.kernels import Kernel, KernelFunction
from bridle.objective.losses import PerceptronLoss
from bridle.objective.rounding import total
from bridle.problems.kernel import KernelProblem
from numpy.typing import ArrayLike


class OneClassProblem(KernelProblem):
    """Rows without labels. nu: the share of their weight that may be left out."""

    def __init__(
        self,
        X: Any,
        nu: float = 0.5,
        *,
        kernel: str | KernelFunction | Kernel = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        if not 0 < nu <= 1:
            raise ValueError(f"nu must be above 0, and at most 1, got {nu}")
        self.nu = float(nu)
        super().__init__(
            X, (), loss=PerceptronLoss(), kernel=kernel, gamma=gamma,
            degree=degree, coef0=coef0, bias="free", sample_weight=sample_weight,
            n_threads=n_threads,
        )  # fmt: skip

    def _set_labels(self, y: ArrayLike) -> None:
        self.targets, self.y = None, np.ones(self.n_rows)

    def _set_cost(self, weights: Array) -> None:
        super()._set_cost(weights)
        self.balance = self.nu * total(self.cost)

    def start_alpha(self, start: Any) -> Array:
        """A new array with the start's dual variables made feasible, or the first rows."""
        if start is not None and start.alpha is not None:
            return super().start_alpha(start)
        before = np.cumsum(self.upper) - self.upper
        return self._balanced(np.clip(self.balance.middle - before, 0.0, self.upper))

    def _best_bias(self, scores: Array) -> float:
        """Rows of the weight nu sum_i c_i are to have s_i + b < 0."""
        everyone = np.ones(self.n_rows, bool)
        return hinge_bias(-scores, everyone, self.cost, excess=self.balance.middle)

    def _balanced(self, alpha: Array) -> Array:
        """All variables smaller, or all nearer to the top, in proportion."""
        sum_, goal = float(alpha.sum()), self.balance.middle
        if sum_ > goal:
            return alpha * (goal / sum_)
        room = self.upper - alpha
        left = float(room.sum())
        return alpha + room * min(1.0, (goal - sum_) / left) if left > 0 else alpha
