"""The last digits of a small kernel machine, from a good solution.

Once it is known which variables rest at 0, which at C_i and which are in between, the optimality
conditions of the last are linear equations,

    sum_j c_j K(x_j, x_i) + b = y_i  for every i in between,    [free bias: sum_j c_j = 0],

with c_j = alpha_j y_j. Variables that this moves out of their box go to the bound, and the rest is
solved again. What comes out is judged like any iterate, and kept only if its gap is smaller.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.certificate import Certificate
from bridle.objective.point import Iterate
from bridle.problems.kernel import Expansion, KernelProblem
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
    alpha = solution.alpha.copy()
    upper = problem.upper
    near = 1e-6 * upper
    alpha[alpha < near] = 0.0
    full = alpha > upper - near
    alpha[full] = upper[full]
    for _ in range(ROUNDS):
        between = np.flatnonzero((alpha > 0) & (alpha < upper))
        if len(between) == 0:
            break
        alpha[between] = _solve(problem, K, alpha, between)
        outside = (alpha < 0) | (alpha > upper)
        alpha = np.clip(alpha, 0.0, upper)
        if not outside.any():
            break
    w = Expansion(alpha * problem.y)
    judged = problem.judge(Iterate(solution.steps, solution.epochs, w, problem.intercept(w), alpha))
    rounding = judged.primal_rounding + judged.dual_rounding
    certificate = Certificate(
        judged.primal, judged.dual, judged.source, rounding, problem.assumption
    )
    if not certificate.gap <= solution.certificate.gap:
        return solution
    return replace(solution, w=judged.w, b=judged.b, alpha=judged.alpha, certificate=certificate)


def _solve(problem: KernelProblem, K: Array, alpha: Array, between: NDArray[np.intp]) -> Array:
    """alpha of the variables in between, from the equations."""
    c = alpha * problem.y
    c[between] = 0.0
    right = problem.y[between] - K[between] @ c
    left = K[np.ix_(between, between)]
    if problem.bias == "free":
        n = len(between)
        left = np.block([[left, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        right = np.append(right, -c.sum())
    found = np.linalg.lstsq(left, right, rcond=1e-14)[0][: len(between)]
    return np.asarray(found * problem.y[between])
