"""The last digits of a small kernel machine, from a good solution.

Once it is known which coefficients of w rest at a bound or at the kink at 0, and which are in
between, the optimality conditions of the last are linear equations,

    sum_j c_j K(x_j, x_i) + ridge_i c_i + b = p_i - tube sign(c_i)  for every i in between,
    [free bias: sum_j c_j as it is],

see `DualForm`; for the hinge p = y, without tube and ridge. Coefficients that this moves out of
their box go to the bound, and the rest is solved again. What comes out is judged like any iterate,
and kept only if its gap is smaller.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.certificate import Certificate
from bridle.objective.point import Iterate
from bridle.problems.kernel import DualForm, Expansion, KernelProblem
from bridle.solvers import Solver
from bridle.solving.loop import solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, Gap
from numpy.typing import NDArray

ROUNDS = 20

# Up to so many rows accuracy costs next to nothing.
SMALL = 500


def polished(problem: KernelProblem, solution: Solution, solver: str | Solver) -> Solution:
    """The solution of a small problem to the limit of precision; of any other, as it is."""
    small = problem.n_rows <= SMALL and problem.indefinite is None
    if not (small and solution.converged):
        return solution
    stop = Gap(1e-10) | Epochs(20)
    finer = solve(problem, solver, stop=stop, start=solution, interrupt="return")
    kept = {name: getattr(finer, name) for name in ("w", "b", "alpha", "certificate")}
    return polish(problem, replace(solution, **kept))


def polish(problem: KernelProblem, solution: Solution) -> Solution:
    """The solution with smaller gap, if the equations give one; else the same."""
    K = problem.values.block(np.arange(problem.n_rows))
    K = K + problem.constant
    form = problem.dual_form
    lower, upper = form.lower, form.upper
    if form.tube:  # on the side of the kink where each is
        positive = solution.alpha * problem.y > 0
        lower, upper = np.where(positive, 0.0, lower), np.where(positive, upper, 0.0)
    c = solution.alpha * problem.y
    near = 1e-6 * np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    c = np.where(c < lower + near, lower, np.where(c > upper - near, upper, c))
    for _ in range(ROUNDS):
        between = np.flatnonzero((c > lower) & (c < upper))
        if len(between) == 0:
            break
        c[between] = _solve(problem, form, K, c, between)
        outside = (c < lower) | (c > upper)
        c = np.clip(c, lower, upper)
        if not outside.any():
            break
    w, alpha = Expansion(c), c * problem.y + 0.0
    judged = problem.judge(Iterate(solution.steps, solution.epochs, w, problem.intercept(w), alpha))
    rounding = judged.primal_rounding + judged.dual_rounding
    certificate = Certificate(
        judged.primal, judged.dual, judged.source, rounding, problem.assumption
    )
    if not certificate.gap <= solution.certificate.gap:
        return solution
    return replace(solution, w=judged.w, b=judged.b, alpha=judged.alpha, certificate=certificate)


def _solve(
    problem: KernelProblem, form: DualForm, K: Array, c: Array, between: NDArray[np.intp]
) -> Array:
    """The coefficients in between, from the equations."""
    rest = c.copy()
    rest[between] = 0.0
    right = form.linear[between] - form.tube * np.sign(c[between]) - K[between] @ rest
    left = K[np.ix_(between, between)]
    if form.ridge is not None:
        left = left + np.diag(form.ridge[between])
    if problem.bias == "free":
        n = len(between)
        left = np.block([[left, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        right = np.append(right, problem.balance.middle - rest.sum())
    return np.asarray(np.linalg.lstsq(left, right, rcond=1e-14)[0][: len(between)])
