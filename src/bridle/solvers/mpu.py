"""mpu: the margin perceptron with unlearning.

Dual variables come in B quanta a row: alpha_i = h_i I_i, h_i = C_i/B, I_i in 0..B.

    learn:    I_i += 1, w += h_i z_i   if  I_i < B  and  1 - p_i >= h_i q_i,   q_i = |z_i|^2
    unlearn:  I_i -= 1, w -= h_i z_i   if  I_i > 0  and  p_i - 1 >= h_i q_i

Each update raises D by at least h_i^2 q_i/2, so they are finitely many, and a pass without one
proves P - D <= (1/B) sum_i C_i^2 q_i. Then B is doubled and I with it, which changes nothing but
the size of the quanta. Here B is doubled as soon as the gap is within that bound.

This is a reconstruction after Panagiotakopoulos & Tsampouka, "The margin perceptron with
unlearning", ICML 2010: its published description, not its code, was followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES, Piece
from bridle.solvers.base import Iterates, Pace, Solver, steps_until_yield
from bridle.solvers.shared.stochastic import bucket_size, check_counts, steps_on

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem

MOST_QUANTA = 2.0**50  # beyond, a quantum is lost in rounding


@dataclass(frozen=True)
class MarginPerceptronUnlearning(Solver):
    """Learns and unlearns quanta of dual variables.

    quanta: B at the start. many: as many quanta at a visit as the margin asks for, instead of one.
    bucket: neighbouring rows that are read by turns with those of other buckets; 1: a full shuffle.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, bridle.MarginPerceptronUnlearning(quanta=8))
    >>> solution.certificate.relative_gap < 0.2
    True
    """

    quanta: int = 4
    many: bool = True
    bucket: int = 32

    name: ClassVar[str] = "mpu"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    no_free_bias: ClassVar[str] = (
        "it changes one dual variable at a time, and sum alpha_i y_i = 0 needs two"
    )

    def __post_init__(self) -> None:
        check_counts(quanta=self.quanta, bucket=self.bucket)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        m = problem.n_rows
        quanta = float(self.quanta) if start is None else max(2.0**20, self.quanta)
        held = np.rint(quanta * problem.sides.share_of_cost(problem.start_alpha(start)))
        alpha = problem.sides.at_cost(held / quanta)
        w = problem.join(problem.weights(alpha), problem.intercept(alpha))
        steps = self._steps(problem, w, held, quanta)
        steps.total = float(alpha.sum())
        coarseness = sum(
            float(piece.cost**2 @ piece.rows.squared_norms) for piece in problem.sides.each_piece()
        )
        shares, step = np.empty(m), 0
        while True:
            n = steps_until_yield(pace, step, m - step % m)
            steps.run(n, rng)
            step += n
            steps.output(w, shares)
            alpha = problem.sides.at_cost(shares)
            gap, dual = steps.gap, steps.dual
            primal = dual + gap
            yield Iterate(
                step, step / m, *problem.split(w), alpha,
                gap_estimate=gap / primal if n == m and primal > 0 else None,
            )  # fmt: skip
            settled = n == m and (steps.updates == 0 or gap <= coarseness / quanta)
            if settled and quanta < MOST_QUANTA:
                quanta *= 2
                steps.halve_quanta()

    def _steps(self, problem: LinearProblem, w: Array, held: Array, quanta: float) -> Any:
        def make(piece: Piece) -> Any:
            return _core.steps.margin_perceptron_unlearning(
                piece.rows.view, piece.signed_cost, piece.rows.squared_norms, w, held, quanta,
                self.many, bucket_size(problem.n_rows, self.bucket),
            )  # fmt: skip

        def enter(steps: Any, piece: Piece) -> Any:
            steps.enter(
                piece.rows.view, piece.signed_cost, piece.rows.squared_norms, piece.where.start
            )
            return piece

        return steps_on(problem, make, enter)
