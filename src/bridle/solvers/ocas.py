"""Cutting planes with an exact line search.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i max(0, 1 - p_i)

is bounded below by cuts of its second part. Each iteration minimises the model that they make,

    w_r = argmin 1/2 |w|^2 + max(0, max_c R_c - w.G_c),

takes the best point so far to the minimum of P on the line towards it, w_b <- w_b + k (w_r - w_b),
and adds the cut at 0.9 w_b + 0.1 w_r (Franc & Sonnenburg, "Optimized cutting plane algorithm for
support vector machines", ICML 2008). P(w_b) never rises and the model's value never falls; its
weights are a dual point: see hinge_cuts. A free bias moves along the line as well, and is then set
to its best value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.hinge_cuts import HingeCuts, best_bias
from bridle.solvers.shared.standstill import Standstill, relative

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class Ocas(Solver):
    """The optimised cutting-plane algorithm.

    towards: how far from the best point to the model's minimiser the next cut is taken. idle: a
    cut without weight in so many iterations is dropped.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.Ocas()).certificate.relative_gap <= 1e-3
    True
    """

    towards: float = 0.1
    idle: int = 50

    name: ClassVar[str] = "ocas"
    float64: ClassVar[bool] = True
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        if not 0 < self.towards <= 1:
            raise ValueError(f"towards must be in (0, 1], got {self.towards}")
        if self.idle < 1:
            raise ValueError(f"idle must be at least 1, got {self.idle}")

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each cut, which costs between one and two passes over the rows."""
        cuts = HingeCuts(problem, start, self.idle)
        w = np.zeros(problem.n_features + 1)
        if start is not None:
            w = problem.join(start.w, start.b)
        scores = problem.rows.scores(w)
        cut_at, margins = scores, _margins(problem, scores)
        gap, standstill = 1.0, Standstill()
        step = 0
        while True:
            step += 1
            cuts.add_at(cut_at)
            point = cuts.solve(max(1e-3 * gap, 1e-13))
            scores_r = problem.rows.scores(point.w)
            d, e = point.w - w, _margins(problem, scores_r) - margins
            k = _core.steps.hinge_line_search(margins, e, problem.cost, float(w @ d), float(d @ d))
            w = w + k * d
            scores = scores + k * (scores_r - scores)
            margins = _margins(problem, scores)
            primal = 0.5 * float(w @ w) + float(problem.cost @ np.maximum(0.0, 1.0 - margins))
            gap = relative(primal - point.value, primal)
            yield Iterate(step, step, *problem.split(w), cuts.alpha(), gap_estimate=gap)
            if standstill(primal, point.value):
                return
            cut_at = (1 - self.towards) * scores + self.towards * scores_r


def _margins(problem: LinearProblem, scores: Array) -> Array:
    """At the best bias, if that is free."""
    return problem.y * (scores + best_bias(problem, scores))
