"""Cutting planes, one slack variable: the method of SVM-perf.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i max(0, 1 - p_i)

is bounded below by the cuts of its second part at the points visited so far; the next point is the
minimiser of the model that they make (Joachims, "Training linear SVMs in linear time", KDD 2006).
The number of cuts does not depend on the number of rows. P jumps up and down on the way: the
iterate is the best point seen. The model's weights are a dual point: see hinge_cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.hinge_cuts import HingeCuts
from bridle.solvers.shared.standstill import Standstill, relative

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class SvmPerf(Solver):
    """The one-slack cutting-plane method.

    idle: a cut without weight in so many iterations is dropped.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.SvmPerf()).certificate.relative_gap <= 1e-3
    True
    """

    idle: int = 50

    name: ClassVar[str] = "svmperf"
    float64: ClassVar[bool] = True
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        if self.idle < 1:
            raise ValueError(f"idle must be at least 1, got {self.idle}")

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each cut, which costs one pass over the rows."""
        cuts = HingeCuts(problem, start, self.idle)
        w = np.zeros(problem.n_features + 1)
        if start is not None:
            w = problem.join(start.w, start.b)
        best, dual = w, 0.0
        scores, g = np.empty(problem.n_rows), np.empty_like(w)
        active = np.empty(problem.n_rows, np.uint8)
        lowest, gap, standstill = np.inf, 1.0, Standstill()
        step = 0
        while True:
            step += 1
            if problem.bias == "free":
                g, r = cuts.add_at(problem.rows.scores(w, scores))
            else:
                r = _core.steps.margin_cut(
                    problem.rows.view, w, problem.signed_cost, scores, active, g, problem.n_threads
                )
                cuts.add(active, g, r)
            # On the active rows the loss is linear: the cut's value at w is the risk itself.
            primal = 0.5 * float(w @ w) + r - float(w @ g)
            if primal < lowest:
                best, lowest = w, primal
            point = cuts.solve(max(1e-3 * gap, 1e-13))
            dual = max(dual, point.value)
            gap = relative(lowest - dual, lowest)
            yield Iterate(step, step, *problem.split(best), cuts.alpha(), gap_estimate=gap)
            if standstill(lowest, point.value):
                return
            w = point.w
