"""Nonlinear conjugate gradients with an exact line search.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i loss(p_i),

by Polak & Ribiere's directions, restarted from the gradient when they do not descend:

    d <- -g + beta d,   beta = max(0, g.(g - g_before) / |g_before|^2).

The hinge has kinks, where such directions jam. So for the hinge P is replaced by phi of
lagrangian.py, smooth and piecewise quadratic, drawn closer to P each time its minimum has been
found accurately enough (the squared hinge is minimised as it is). The slope of phi along a line is
piecewise linear and increasing: its root is found exactly. a_i is the dual point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import PASSES
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.lagrangian import AugmentedLagrangian
from bridle.solvers.shared.standstill import Standstill, relative

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class ConjugateGradients(Solver):
    """Polak-Ribiere conjugate gradients on all rows at once.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.ConjugateGradients()).certificate.relative_gap <= 1e-3
    True
    """

    name: ClassVar[str] = "cg"
    float64: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, PASSES})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"quadratic"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each direction, which costs two passes over the rows."""
        phi = AugmentedLagrangian(problem, start)
        direction, before = -phi.gradient, phi.gradient
        standstill = Standstill(patience=30)
        step = 0
        while True:
            step += 1
            rounds = 0
            while phi.settled and rounds < 5:
                phi.sharpen()
                rounds += 1
            g = phi.gradient
            squared = float(before @ before)
            if rounds or squared == 0:
                direction = -g
            else:
                direction = -g + max(0.0, float(g @ (g - before)) / squared) * direction
            if float(direction @ g) >= 0:
                direction = -g
            before = g
            if phi.move(direction, accuracy=1e-6) == 0 and not phi.exact:
                phi.sharpen()
                before = 0 * before
            primal, gap = phi.primal, phi.inexact + phi.smoothing
            yield Iterate(
                step, step, *problem.split(phi.w, phi.b), phi.a,
                gap_estimate=relative(gap, primal),
            )  # fmt: skip
            if standstill(primal, primal - gap):
                return
