"""Newton's method for multinomial logistic regression.

    min_W  P(W) = 1/2 |W|^2 + sum_i C_i [log sum_k exp(s_ik) - s_{i, y_i}]

With p_i the softmax of the scores, U = C (p o (X V) - p <p, X V>) gives the Hessian's product

    H V = V + X' U

and each step solves H V = -G by conjugate gradients, preconditioned by the diagonal of H, only as
accurately as the next point can use; then a search along V for where P stops falling (Lin, Weng &
Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 2008, with the line
search of Galli & Lin, "A study on truncated Newton methods for linear classification", 2022).

P(W) - D(p) = 1/2 |G|^2 but for what free intercepts ask of p: an estimate of the gap for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.losses import inner
from bridle.objective.point import Iterate
from bridle.problems.base import CLASSES
from bridle.problems.multinomial import MultinomialProblem, Softmax
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.lagrangian import increasing_root
from bridle.solvers.shared.standstill import Standstill, relative

if TYPE_CHECKING:
    from bridle._core import Rng

LINE = 0.1  # of the slope at which a line search begins, where it ends
MOST_PRODUCTS = 250  # of a step


@dataclass(frozen=True)
class MultinomialNewton(Solver):
    """Truncated Newton steps for all classes together."""

    name: ClassVar[str] = "newton"
    float64: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({CLASSES})
    loss_needs: ClassVar[frozenset[str]] = frozenset()
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def iterates(
        self, problem: MultinomialProblem, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each Newton step, which costs a few dozen passes over the rows."""
        width, n = problem.rows.n_features + 1, problem.n_classes
        table = np.zeros((width, n)) if start is None else problem.table(start.w).copy()
        found = problem.softmax(table)
        standstill, first = Standstill(), 0.0
        step = 0
        while True:
            step += 1
            gradient = _gradient(problem, table, found)
            size = _length(gradient)
            first = max(first, size)
            accuracy = min(0.3, np.sqrt(size / first)) if first > 0 else 0.3
            direction = _step(problem, found, gradient, accuracy)
            table, found = _searched(problem, table, found, direction)
            own = problem.penalised(table)
            primal = 0.5 * _inner(own, own) + inner(problem.cost, found.loss)
            residual = _gradient(problem, table, found)
            gap = 0.5 * _inner(residual, residual)
            yield Iterate(step, step, problem.flat(table), gap_estimate=relative(gap, primal))
            if standstill(primal, primal - gap):
                return


def _inner(a: Array, b: Array) -> float:
    return float(np.einsum("jk,jk->", a, b))


def _length(a: Array) -> float:
    return float(np.sqrt(_inner(a, a)))


def _penalty(problem: MultinomialProblem, table: Array) -> Array:
    """The table itself, but 0 for intercepts without a penalty."""
    if not problem.free:
        return table
    own = table.copy()
    own[-1] = 0.0
    return own


def _gradient(problem: MultinomialProblem, table: Array, found: Softmax) -> Array:
    gradient = _penalty(problem, table) - problem.combine(problem.pull(found.p))
    if problem.bias == "none":
        gradient[-1] = 0.0
    return gradient


def _step(problem: MultinomialProblem, found: Softmax, gradient: Array, accuracy: float) -> Array:
    """-H^-1 G, nearly."""
    p, cost = found.p, problem.cost[:, None]
    diagonal = problem.rows.combine_of_all(cost * p * (1.0 - p), squares=True)
    diagonal += 1.0
    if problem.free:
        diagonal[-1] = np.maximum(diagonal[-1] - 1.0, 1e-10 * diagonal[-1].max())

    def product(V: Array) -> Array:
        U = problem.scores(V)
        U -= np.einsum("ik,ik->i", p, U)[:, None]
        U *= cost * p
        return _penalty(problem, V) + problem.combine(U)

    x = np.zeros_like(gradient)
    residual = -gradient
    scaled = residual / diagonal
    direction = scaled.copy()
    squared = first = _inner(residual, scaled)
    for _ in range(MOST_PRODUCTS):
        if squared <= accuracy**2 * first:
            break
        image = product(direction)
        bend = _inner(direction, image)
        if not bend > 0:
            break
        x += (squared / bend) * direction
        residual -= (squared / bend) * image
        scaled = residual / diagonal
        before, squared = squared, _inner(residual, scaled)
        direction = scaled + (squared / before) * direction
    return x


def _searched(
    problem: MultinomialProblem, table: Array, found: Softmax, direction: Array
) -> tuple[Array, Softmax]:
    """Where P stops falling along the direction, nearly; and the softmax there."""
    along = problem.scores(direction)
    penalty = _penalty(problem, direction)
    linear, bend = _inner(table, penalty), _inner(penalty, penalty)
    last = (0.0, found)

    def slope(t: float) -> tuple[float, float]:
        nonlocal last
        there = Softmax.of(found.scores + t * along, problem.codes)
        last = (t, there)
        mean = np.einsum("ik,ik->i", there.p, along)
        spread = np.einsum("ik,ik->i", there.p, along**2) - mean**2
        pull = float(np.einsum("ik,ik->", problem.pull(there.p), along))
        return linear + t * bend - pull, bend + max(inner(problem.cost, spread), 0.0)

    first = slope(0.0)[0]
    if not first < 0:
        return table, found
    t = 1.0 if slope(1.0)[0] <= -LINE * first else increasing_root(slope, 1.0, -LINE * first)
    there = last[1] if last[0] == t else Softmax.of(found.scores + t * along, problem.codes)
    return table + t * direction, there
