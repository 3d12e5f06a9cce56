"""Semismooth Newton on the augmented Lagrangian.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i loss(p_i)

The function phi of lagrangian.py is convex with a piecewise linear gradient g; with J the rows
whose a_i is between its bounds, a generalised Hessian is

    H = I + sum_{i in J} sigma_i z_i z_i',      step  -H^-1 g,

with x_i - (sigma-weighted mean over J) in place of x_i where a free bias is eliminated. Then a
line search on the slope of phi, which is piecewise linear; then, when w is accurate enough for it,
new multipliers (Yan & Li, "Efficient semismooth Newton methods for linear SVMs", 2020, with their
line search and rules for sigma replaced by the above). Smooth losses are minimised directly, on an
eighth of the rows first, an eighth of those before, and so on: steps from far away need not know
all rows.

The number of steps hardly depends on C. A step costs a Cholesky factorisation: for data of low
dimension. Beyond `dense_limit` features the step is found by conjugate gradients.

On data that no w separates the multipliers of a hard margin grow on few rows, too few for a proof
to be found among them. While none of its points separates, it hands over for an epoch to dcd from
time to time, whose dual variables grow on all rows that are in conflict: the problem looks for the
proof there.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.losses import inner
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import PASSES
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.dcd import DualCoordinateDescent
from bridle.solvers.shared.lagrangian import FEWER, AugmentedLagrangian, lagrangian_of, sampled
from bridle.solvers.shared.standstill import Standstill, relative

if TYPE_CHECKING:
    from bridle.objective.certificate import Certificate
    from bridle.problems.linear import LinearProblem


ROUGH = 0.1  # the relative gap on a sample from where on all rows count


@dataclass(frozen=True)
class Newton(Solver):
    """Semismooth Newton steps on the augmented Lagrangian.

    dense_limit: with more features than this, H is not formed.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> problem = bridle.LinearProblem(X, y, C=0.1, loss="squared_hinge")
    >>> bridle.solve(problem, bridle.Newton()).certificate.relative_gap <= 1e-3
    True
    """

    dense_limit: int = 2000

    name: ClassVar[str] = "newton"
    float64: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, PASSES})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"second_order", "certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    hard_margin: ClassVar[bool] = True
    one_class: ClassVar[bool] = True

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each Newton step, which costs three passes over the rows or more."""
        phi = lagrangian_of(problem, self._begun(problem, rng) if start is None else start)
        direct = problem.n_features <= self.dense_limit
        standstill = Standstill(patience=30)
        others, hand_over = None, 10
        step = 0
        while True:
            step += 1
            rounds = 0
            while phi.settled and rounds < 5:
                phi.sharpen()
                rounds += 1
            solve = _direct_step if direct else _iterative_step
            if phi.move(solve(phi), accuracy=0.1) == 0 and not phi.exact:
                phi.sharpen()
            gap, estimate = phi.inexact + phi.smoothing, None
            if not problem.hard_margin:
                primal = phi.primal
                estimate = relative(gap, primal, primal - gap)
            certificate = yield Iterate(
                step, step, *problem.split(phi.w, phi.b), phi.a, gap_estimate=estimate
            )
            if not problem.hard_margin and standstill(primal, primal - gap):
                return
            if step >= hand_over and certificate is not None and certificate.primal == np.inf:
                others = others or DualCoordinateDescent().iterates(problem, rng=rng)
                step = yield from _until_certified(others, step)
                hand_over = 2 * step

    def _begun(self, problem: LinearProblem, rng: _core.Rng) -> Iterate | None:
        """Of a smooth loss, where the steps on an eighth of the rows lead to, for an eighth of the
        price; None where rows are few.
        """
        if not sampled(problem):
            return None
        for iterate in self.iterates(problem.sample(problem.n_rows // FEWER), rng=rng):
            if (iterate.gap_estimate or 0.0) <= ROUGH:
                break
        return iterate


def _until_certified(others: Iterates, step: int) -> Generator[Iterate, Certificate | None, int]:
    """Another solver's iterates until one was judged; their steps are counted on."""
    certificate = None
    while certificate is None:
        step += 1
        certificate = yield replace(next(others), step=step, epoch=float(step), gap_estimate=None)
    return step


def _direct_step(phi: AugmentedLagrangian) -> Array:
    """-H^-1 g by Cholesky factorisation of H scaled to a unit diagonal."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    H = _hessian(phi)
    scale = 1.0 / np.sqrt(np.diag(H))
    H *= np.outer(scale, scale)
    ridge = 0.0
    while True:
        try:
            factor = cho_factor(H, lower=True, check_finite=False)
            break
        except LinAlgError:
            larger = max(1e-15 * len(H), 10.0 * ridge)
            H[np.diag_indices_from(H)] += larger - ridge
            ridge = larger
    step: Array = -scale * cho_solve(factor, scale * phi.gradient, check_finite=False)
    return step


def _hessian(phi: AugmentedLagrangian) -> Array:
    """The lower triangle of H."""
    problem = phi.problem
    weights = phi.weights
    H = problem.rows.weighted_gram(weights)
    total = float(weights.sum())
    if problem.bias == "free" and total > 0:
        mean = problem.rows.combine(weights / total)
        H -= total * np.outer(mean, mean)
        # Cancellation must not make a variance negative.
        diagonal = np.diag_indices_from(H)
        H[diagonal] = np.maximum(H[diagonal], 0.0)
    H[np.diag_indices_from(H)] += 1.0
    return np.asarray(H)


def _iterative_step(phi: AugmentedLagrangian) -> Array:
    """-H^-1 g by conjugate gradients, as accurately as the outer iteration can use."""
    weights = phi.weights
    total = float(weights.sum())
    y = phi.y

    def product(v: Array) -> Array:
        along = phi.times(v)
        if phi.problem.bias == "free" and total > 0:
            along = along - y * (inner(weights * y, along) / total)
        return v + phi.combine(weights * along)

    x = np.zeros_like(phi.gradient)
    residual = -phi.gradient
    direction = residual.copy()
    squared = first = inner(residual, residual)
    for _ in range(300):
        image = product(direction)
        length = squared / inner(direction, image)
        x += length * direction
        residual -= length * image
        before, squared = squared, inner(residual, residual)
        if squared <= 1e-4 * first:
            break
        direction = residual + (squared / before) * direction
    return x
