"""The batch perceptron: steps against the slope of its criterion, without a regulariser.

    min_w  1/m sum_i c_i max(0, -w.z_i),      w <- w + 1/m sum_{i: w.z_i <= 0} c_i z_i

(Duda & Hart 1973). Any constant rate takes the same way from w = 0 but for a factor, so there is
none to choose. As the perceptron it ends when no row is on the wrong side, which it reaches if some
w has margin gamma: with rows no longer than R after at most m (R/gamma)^2 mistakes (c_i = 1). It
does not minimise the SVM's objective: the certificate is taken at the best scale of w, and the dual
point, the counts of mistakes, is left to the problem's repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.objective.losses import inner
from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.perceptron import Perceptron
from bridle.solvers.shared.stochastic import start_weights

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class BatchPerceptron(Solver):
    """Updates on all errors at once.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0))
    >>> found = bridle.solve(problem, bridle.BatchPerceptron())
    >>> bool((problem.y * (problem.X @ found.w) > 0).all())
    True
    """

    name: ClassVar[str] = "batch-perceptron"
    converges: ClassVar[bool] = False
    float64: ClassVar[bool] = True
    separates: ClassVar[str | None] = Perceptron.separates
    no_free_bias: ClassVar[str] = Perceptron.no_free_bias

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each step; ends when there is nothing to correct."""
        m = problem.n_rows
        w, _ = start_weights(problem, start)
        weight = problem.cost / problem.C
        ray = problem.start_alpha(start)
        step = 0
        while True:
            wrong = weight * (problem.y * problem.rows.scores(w) <= 0) / m
            if step and not wrong.any():
                return
            w = w + problem.rows.combine(wrong * problem.y)
            ray = ray + wrong
            step += 1
            # On the ray through the counts the dual is highest at s = sum alpha / |w|^2.
            squared = inner(w, w)
            s = float(ray.sum()) / squared if squared > 0 else 0.0
            yield Iterate(step, float(step), *problem.split(w), s * ray, direction=True)
