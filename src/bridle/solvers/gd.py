"""gd: the batch subgradient method.

    w <- (1 - rho_t) w + rho_t sum_i C_i slope(p_i) z_i,   rho_t = lam eta_t

over all rows at each step. With the hinge, the step is a convex combination, so

    alpha_i <- (1 - rho_t) alpha_i + rho_t C_i slope(p_i)

stays inside the box and has w = w(alpha): the method is Frank-Wolfe on the dual, and unless a rate
is asked for, each step is as long as raises the dual most. The squared hinge is smooth: there the
step is 1/L and never longer, L = 1 + 2 lambda_max of sum_i C_i z_i z_i', found by power iteration.
A free bias is set to its exact best value before each step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.stochastic import (
    RateName,
    check_choice,
    check_counts,
    check_divergence,
    check_positive,
    needs_eta0,
    rate_of,
    start_weights,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Steps on all rows at once.

    rate: the formula of eta_t; None is an exact line search in the dual for the hinge, and the
    longest safe step, rho = 1/L, for the squared hinge. eta0: the formula's parameter; None
    calibrates it on `sample` rows. clip: keep lam eta_t where steps are safe, at 1 or below, and at
    1/L for the squared hinge; False is the plain formula of `rate`, which may diverge: the run then
    ends, and its message says so.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, bridle.GradientDescent(), stop=bridle.Epochs(50))
    >>> solution.certificate.relative_gap < 0.1
    True
    """

    rate: RateName | None = None
    eta0: float | None = None
    sample: int = 1000
    clip: bool = True

    name: ClassVar[str] = "gd"
    loss_needs: ClassVar[frozenset[str]] = frozenset()
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        check_positive(eta0=self.eta0)
        check_counts(sample=self.sample)
        if self.rate is not None:
            check_choice("rate", self.rate, RateName)
        elif not self.clip:
            raise ValueError("clip=False is for steps of a given rate: give `rate`, too")

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each step."""
        smooth = math.isfinite(problem.loss.steepest)
        longest = 1.0 / _smoothness(problem) if smooth else 1.0
        rate = self._rate(problem, rng)
        searching = rate is None and not smooth
        w, b = start_weights(problem, start)
        alpha = problem.start_alpha(start)
        if searching and start is not None:  # along w = w(alpha) only
            if start.alpha is None:
                alpha = problem.feasible(Iterate(0, 0.0, start.w, start.b))
            problem.rows.combine(alpha * problem.y, w)
        toward, scores = np.empty_like(w), np.empty(problem.n_rows)
        # A warm start counts as ten steps: the first one at rate 1 would forget it.
        before = 10 if start is not None else 0
        step = 0
        while True:
            step += 1
            problem.rows.scores(w, scores)
            if problem.bias == "free":
                b = problem.sides.best_bias(scores)
            slope = problem.loss.slope(problem.margins(scores + b))
            target = problem.cost * slope
            problem.rows.combine(target * problem.y, toward)
            if rate is not None:
                rho = rate.at(step + before)
                rho = min(longest, rho) if rate.clip else rho
            else:
                rho = _dual_search(w, toward - w, target - alpha) if searching else longest
            w += rho * (toward - w)
            alpha += rho * (target - alpha)
            if rate is not None:
                check_divergence(rate, step + before, w)
            yield Iterate(step, float(step), *problem.split(w, b), alpha)

    def _rate(self, problem: LinearProblem, rng: _core.Rng) -> _core.steps.Rate | None:
        """rho_t, or None where the step finds its own length."""
        if self.rate is None:
            # Of the hinge and of smooth losses the best length is known; the dual of the
            # perceptron's loss is highest at w = 0: nothing to search for.
            known = problem.loss.quadratic or math.isfinite(problem.loss.steepest)
            return None if known else rate_of("1/(lam t)", problem.lam)
        if not needs_eta0(self.rate) or self.eta0 is not None:
            return rate_of(self.rate, problem.lam, self.eta0 or 1.0, clip=self.clip)
        from bridle.solvers.shared.rate_ladder import calibrate_rate

        eta0 = calibrate_rate(
            problem, sample=self.sample, seed=rng.next(), rate=self.rate, batch=problem.n_rows,
            clip=self.clip,
        )  # fmt: skip
        return rate_of(self.rate, problem.lam, eta0, clip=self.clip)


def _dual_search(w: Array, dw: Array, d_alpha: Array) -> float:
    """The rho in [0, 1] that maximises D(alpha + rho d_alpha); w = w(alpha), the hinge."""
    curvature = float(dw @ dw)
    rise = float(d_alpha.sum()) - float(w @ dw)
    if curvature == 0:
        return 1.0 if rise > 0 else 0.0
    return min(1.0, max(0.0, rise / curvature))


def _smoothness(problem: LinearProblem) -> float:
    """1 + loss'' lambda_max of sum_i C_i z_i z_i', a little over, by power iteration."""
    v = np.random.default_rng(0).standard_normal(problem.n_features + 1)
    out, scores = np.empty_like(v), np.empty(problem.n_rows)
    largest = 0.0
    for _ in range(20):
        norm = float(np.linalg.norm(v))
        if norm == 0:
            break
        problem.rows.scores(v / norm, scores)
        problem.rows.combine(problem.cost * scores, out)
        v = out.copy()
        largest = float(np.linalg.norm(v))
    return 1.0 + 1.2 * float(problem.loss.steepest) * largest
