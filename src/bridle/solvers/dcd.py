"""Dual coordinate descent.

    max_alpha  D(alpha) = sum_i alpha_i - 1/2 |w(alpha)|^2 [- sum_i alpha_i^2 / (4 C_i)],
    0 <= alpha_i <= C_i  [squared hinge: alpha_i >= 0],   w(alpha) = sum_i alpha_i z_i,

one variable at a time, exactly, with w kept up to date; rows whose variable rests at a bound are
left out until the others are accurate (Hsieh, Chang, Lin, Keerthi & Sundararajan, "A dual
coordinate descent method for large-scale linear SVM", ICML 2008, algorithm 3).

The bias couples every row with every other one, and a free bias adds sum_i alpha_i y_i = 0, which
single coordinates cannot move along: b follows slowly instead, by the proximal point method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.solvers.base import Iterate, Iterates, Solver

if TYPE_CHECKING:
    from bridle.problem import LinearProblem


@dataclass(frozen=True)
class DualCoordinateDescent(Solver):
    """Dual coordinate descent with shrinking, in bucketed order.

    bucket: how many neighbouring rows stay together when the order is shuffled.
    """

    bucket: int = 32

    name: ClassVar[str] = "dcd"
    losses: ClassVar[tuple[str, ...]] = ("hinge", "squared_hinge")
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    hard_margin: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bucket < 1:
            raise ValueError(f"bucket must be at least 1, got {self.bucket}")

    def iterates(
        self,
        problem: LinearProblem,
        *,
        start: Any = None,
        rng: _core.Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """One iterate after each pass over the active rows."""
        alpha = problem.start_alpha(start)
        kernel = _core.dual_coordinate_descent(
            problem.rows, problem.loss.name, problem.signed_cost, problem.squared_norms,
            alpha, 0.0 if start is None else start.b, problem.bias_precision, problem.n_threads,
        )  # fmt: skip
        w = np.zeros(problem.n_features + 1)
        step = epoch = 0
        whole_gap = np.inf  # the gap when all rows were last visited
        while True:
            done = kernel.epoch(rng, self.bucket)
            step += done.visits
            epoch += 1
            if done.whole:
                whole_gap = done.gap
            elif done.gap <= 0.1 * whole_gap:
                # The active rows are a good deal more accurate than when the others were last
                # looked at: time to see whether those still rest at their bounds.
                kernel.unshrink()
            kernel.alpha(alpha)
            kernel.weights(w)
            primal = done.dual + done.gap
            certificate = yield Iterate(
                step, epoch, *problem.split(w, kernel.bias), alpha,
                gap_estimate=done.gap / primal if 0 < primal < np.inf else None,
            )  # fmt: skip
            if certificate is not None and not done.whole:
                kernel.unshrink()  # the loop thought it was done: the rest deserves a look
