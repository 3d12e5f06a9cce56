"""Dual coordinate descent.

    max_alpha  D(alpha) = dual_value(alpha) [+ sum_i alpha_i t_i] - 1/2 |w(alpha)|^2,
    lower(C_i) <= alpha_i <= upper(C_i),   w(alpha) = sum_i alpha_i y_i x_i,

one variable at a time, exactly, with w kept up to date; rows whose variable rests at a bound are
left out until the others are accurate (Hsieh, Chang, Lin, Keerthi & Sundararajan, "A dual
coordinate descent method for large-scale linear SVM", ICML 2008, algorithm 3; Ho & Lin,
"Large-scale linear support vector regression", JMLR 2012; for the logistic loss by Newton's method
in the one variable, Yu, Huang & Lin, Machine Learning 2011).

The bias couples every row with every other one, and a free bias adds sum_i alpha_i y_i = 0, which
single coordinates cannot move along: b follows slowly instead, by the proximal point method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS, Problem
from bridle.problems.linear import LinearProblem
from bridle.rows.base import DESCENT, PASSES, RANGES, STEPS
from bridle.solvers.base import LOSS_NEEDS, Iterates, Pace, Solver
from bridle.solvers.shared.gap_estimates import MANY_ROWS, ByDrawing, ByVisits

# How much rows have in common, from where on the order in which they are visited matters: texts
# have 0.02 to 0.04, ijcnn1 0.15, a9a, covtype and scans of digits 0.4 and more.
MUCH_IN_COMMON = 0.125
SOME_FEATURES = 10_000  # rows of more have little


@dataclass(frozen=True)
class DualCoordinateDescent(Solver):
    """Dual coordinate descent with shrinking, in bucketed order.

    bucket: how many neighbouring rows stay together when the order is shuffled; None: as many as
    suit the rows.
    blocks: 1 visits one row after the other, by one thread. Otherwise large data is visited in
    rounds, by as many threads as there are, wherever rows have little enough in common; elsewhere
    by this many blocks at the same time, if there is enough work, of which more take more visits.
    The result never depends on the threads.
    asynchronous: on a GPU, whether rows take their steps without waiting for each other, so that no
    two runs are the same. If not, they take them in rounds that see the same weights.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, bridle.DualCoordinateDescent(bucket=8))
    >>> solution.certificate.relative_gap <= 1e-3
    True
    """

    bucket: int | None = None
    blocks: int = 2
    asynchronous: bool = True

    name: ClassVar[str] = "dcd"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, DESCENT})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    hard_margin: ClassVar[bool] = True
    one_class: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bucket is not None and self.bucket < 1:
            raise ValueError(f"bucket must be at least 1, got {self.bucket}")
        if self.blocks < 1:
            raise ValueError(f"blocks must be at least 1, got {self.blocks}")

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Beside what every solver says: a free bias, and rows on disk, need compiled steps."""
        return super().refusal(problem) or uncompiled_refusal(cls.name, problem)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each pass over the active rows; after several if those are few."""
        if STEPS not in problem.offers and PASSES in problem.offers:
            from bridle.solvers.shared import on_device

            yield from on_device.descend(
                problem, start=start, rng=rng, asynchronous=self.asynchronous
            )
            return
        if STEPS not in problem.offers:
            from bridle.solvers.shared.stored import descend

            yield from descend(
                problem, start=start, rng=rng, bucket=self._bucket_for(problem),
                n_blocks=self.blocks,
            )  # fmt: skip
            return
        if problem.loss.core is None:
            from bridle.solvers.shared.foreign import descend_foreign

            yield from descend_foreign(problem, start=start, rng=rng)
            return
        alpha = problem.start_alpha(start)
        descent = _core.steps.dual_coordinate_descent(
            problem.rows.view, problem.loss.struct, problem.signed_cost, problem.squared_norms,
            alpha, first_bias(problem, start), problem.bias_precision, self.blocks,
            problem.n_threads, problem.targets, problem.sides.piece.pull(problem.loss).middle,
        )  # fmt: skip
        yield from descend_in_memory(problem, descent, alpha, rng, self._bucket_for(problem))

    def together(self, problem: LinearProblem, codes: Any, n: int, seed: int) -> Any:
        """All classes at once, on rows in memory."""
        ready = STEPS in problem.offers and problem.loss.core is not None
        ready = ready and problem.loss.quadratic  # by which the classes' lanes step
        if not ready or problem.hard_margin or not problem.cost.any():
            return None
        from bridle.solvers.shared.class_descents import ClassDescents

        return ClassDescents(problem, codes, n, seed, self._bucket_for(problem))

    def side_by_side(self, problems: Sequence[LinearProblem], seed: int) -> Any:
        """Rows on disk are read once for all."""
        if RANGES not in problems[0].offers or STEPS in problems[0].offers:
            return None
        from bridle.solvers.shared.stored import StoredClasses

        bucket = self._bucket_for(problems[0])
        return StoredClasses.within(problems, seed, bucket=bucket, n_blocks=self.blocks)

    def _bucket_for(self, problem: LinearProblem) -> int:
        """As many as 128 entries have, at most 8, where the order of rows matters most.

        So it does where they have much in common. Elsewhere memory streams in longer pieces.
        """
        if self.bucket is not None:
            return self.bucket
        few_features = STEPS in problem.offers and problem.n_features <= SOME_FEATURES
        if not few_features or problem.rows.overlap < MUCH_IN_COMMON:
            return 32
        return int(np.clip(128 * problem.n_rows // max(1, problem.rows.nnz), 1, 8))


def descend_in_memory(
    problem: LinearProblem, descent: Any, alpha: Array, rng: _core.Rng, bucket: int, step: int = 0
) -> Iterates:
    """The iterates of a descent on rows in memory, which alpha is the start of.

    step: the visits that have led there.
    """
    w = np.zeros(problem.n_features + 1)
    n_useful = int(np.count_nonzero(problem.cost))
    # To write down a row's alpha takes as long as a few of its non-zeros.
    often = n_useful * min(1.0, 16 * problem.n_rows / max(1, problem.rows.nnz))
    watch = ByDrawing(n_useful) if n_useful >= MANY_ROWS else ByVisits(warm=bool(alpha.any()))
    told = step
    told_guess = np.inf
    while True:
        done = descent.visit(rng, bucket, watch.share(descent))
        step += done.visits
        guess = watch.look(descent, done, rng)
        if guess is not None:
            if step - told < often and guess > 0.5 * told_guess:
                continue  # to write down w and alpha would take longer than that
            told_guess = guess
        told = step
        descent.alpha(alpha)
        descent.weights(w)
        split, b = problem.split(w, descent.bias)
        certificate = yield Iterate(step, step / n_useful, split, b, alpha, gap_estimate=guess)
        if done.whole and not done.visits:  # in float32, say, no row costs anything
            return
        if certificate is not None:
            watch.learn(certificate.relative_gap)
            # More than the active rows show: the others deserve a look. (They get it anyway in
            # an epoch of all rows, whose end the bias and the bounds are waiting for.)
            if not done.whole and (guess is None or certificate.relative_gap > guess):
                descent.unshrink()


def first_bias(problem: LinearProblem, start: Any) -> float:
    """Where the bias begins: a free one of a regression, where it is best for no weights.

    (Of one class, where it is for the weights of its first dual variables.)
    """
    if start is not None:
        return float(start.b)
    if problem.loss.pull:
        return problem.intercept(problem.start_alpha(None))
    if problem.bias != "free" or problem.targets is None:
        return 0.0
    return float(problem.sides.best_bias(np.zeros(problem.n_rows)))


def uncompiled_refusal(name: str, problem: Problem) -> str | None:
    """Why dcd, under this name, cannot take its steps in Python on this problem, or None."""
    if problem.loss.core is not None:
        return None
    if STEPS not in problem.offers:
        return (
            f"{name} cannot minimise the {problem.loss.name} loss on rows that are not in memory: "
            f"it needs {LOSS_NEEDS['core']}"
        )
    if problem.bias != "free":
        return None
    return (
        f"{name} cannot have bias='free' with the {problem.loss.name} loss: it needs "
        f"{LOSS_NEEDS['core']}; use bias='regularised', svmsgd or asgd"
    )
