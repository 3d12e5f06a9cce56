"""Coordinate descent in the primal, on a working set of columns: for penalties with an l1 norm.

    min_{w, b}  sum_j [l1 |w_j| + l2/2 w_j^2] + sum_i C_i loss(p_i)

Each round takes the columns that have a weight and those that break the conditions of an optimum
most, and goes through them, one weight after the other, on quadratic models of the losses with a
line search, until they are five times as good; then it looks at all columns (Yuan, Ho & Lin, JMLR
2012; Massias, Gramfort & Salmon, ICML 2018). The dual point is alpha_i = C_i slope(p_i), which the
problem scales. A copy of the rows by columns is made once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.problems.base import COLUMNS
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.standstill import Standstill, relative

if TYPE_CHECKING:
    from bridle.problems.penalised import PenalisedProblem


@dataclass(frozen=True)
class CoordinateDescent(Solver):
    """Coordinate descent on working sets of columns."""

    name: ClassVar[str] = "cd"
    float64: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({COLUMNS})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"smooth", "core"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def iterates(
        self, problem: PenalisedProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each working set."""
        base, free = problem.base, problem.bias == "free"
        constant = 1.0 if free else base.constant_feature
        w = np.zeros(problem.n_features + 1)
        if start is not None:
            w = base.join(start.w, start.b)
            if free:
                w[-1] = start.b
        penalty = (problem.l1, problem.l2)
        descent = _core.steps.column_descent(
            problem.rows.view, problem.loss.struct, base.signed_cost, base.targets, w, penalty,
            (0.0, 0.0) if free else penalty, constant,
        )  # fmt: skip
        alpha, standstill, step = np.empty(problem.n_rows), Standstill(), 0
        while True:
            step += 1
            found = descent.epoch(rng)
            descent.weights(w)
            descent.alpha(alpha)
            b = float(w[-1]) if free else base.split(w)[1]
            yield Iterate(
                step, step, w[:-1], b, alpha,
                gap_estimate=relative(found.primal - found.dual, found.primal),
            )  # fmt: skip
            if standstill(found.primal, found.dual):
                return
