"""Dual coordinate descent.

    max_alpha  D(alpha) = sum_i alpha_i - 1/2 |w(alpha)|^2 [- sum_i alpha_i^2 / (4 C_i)],
    0 <= alpha_i <= C_i  [squared hinge: alpha_i >= 0],   w(alpha) = sum_i alpha_i z_i,

one variable at a time, exactly, with w kept up to date; rows whose variable rests at a bound are
left out until the others are accurate (Hsieh, Chang, Lin, Keerthi & Sundararajan, "A dual
coordinate descent method for large-scale linear SVM", ICML 2008, algorithm 3).

The bias couples every row with every other one, and a free bias adds sum_i alpha_i y_i = 0, which
single coordinates cannot move along: b follows slowly instead, by the proximal point method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle import _core
from bridle.solvers.base import Iterate, Iterates, Solver


@dataclass(frozen=True)
class DualCoordinateDescent(Solver):
    """Dual coordinate descent with shrinking, in bucketed order.

    bucket: how many neighbouring rows stay together when the order is shuffled.
    blocks: how many parts of the rows are visited at the same time, where there is enough work: as
    many threads help with the epochs. The result depends on the blocks, never on the threads. Two
    blocks take a few percent more visits than one; more take more.
    """

    bucket: int = 32
    blocks: int = 2

    name: ClassVar[str] = "dcd"
    kinds: ClassVar[tuple[str, ...]] = ("linear", "streamed")
    losses: ClassVar[tuple[str, ...]] = ("hinge", "squared_hinge")
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    hard_margin: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.bucket < 1:
            raise ValueError(f"bucket must be at least 1, got {self.bucket}")
        if self.blocks < 1:
            raise ValueError(f"blocks must be at least 1, got {self.blocks}")

    def iterates(
        self,
        problem: Any,
        *,
        start: Any = None,
        rng: _core.Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """One iterate after each pass over the active rows; after several if those are few."""
        if problem.kind == "streamed":
            from bridle.solvers.streamed import descend

            yield from descend(
                problem, start=start, rng=rng, bucket=self.bucket, n_blocks=self.blocks
            )
        alpha = problem.start_alpha(start)
        kernel = _core.dual_coordinate_descent(
            problem.rows, problem.loss.name, problem.signed_cost, problem.squared_norms,
            alpha, 0.0 if start is None else start.b, problem.bias_precision,
            self.blocks, problem.n_threads,
        )  # fmt: skip
        w = np.zeros(problem.n_features + 1)
        n_useful = int(np.count_nonzero(problem.cost))
        # To write down a row's alpha takes as long as a few of its non-zeros.
        often = n_useful * min(1.0, 16 * problem.n_rows / max(1, problem.rows.nnz))
        watch = ByDrawing(n_useful) if n_useful >= MANY_ROWS else ByVisits(warm=bool(alpha.any()))
        step = told = 0
        told_guess = np.inf
        while True:
            done = kernel.visit(rng, self.bucket, watch.share(kernel))
            step += done.visits
            guess = watch.look(kernel, done, rng)
            if guess is not None:
                if step - told < often and guess > 0.5 * told_guess:
                    continue  # to write down w and alpha would take longer than that
                told_guess = guess
            told = step
            kernel.alpha(alpha)
            kernel.weights(w)
            split, b = problem.split(w, kernel.bias)
            certificate = yield Iterate(step, step / n_useful, split, b, alpha, gap_estimate=guess)
            if certificate is not None:
                watch.learn(certificate.relative_gap)
                # More than the active rows show: the others deserve a look. (They get it anyway in
                # an epoch of all rows, whose end the bias and the bounds are waiting for.)
                if not done.whole and (guess is None or certificate.relative_gap > guess):
                    kernel.unshrink()


# From so many rows on, some that are drawn show how far it is: of fewer, too few would be drawn.
MANY_ROWS = 2**14


class ByDrawing:
    """The gap as rows show it that are drawn at random, several times in an epoch."""

    MOST = 4096

    def __init__(self, n_rows: int) -> None:
        self.most = min(self.MOST, n_rows // 16)
        self.n = min(1024, self.most)
        self.visits = 0
        self.correction = 1.0
        self.guess: float | None = None
        self.whole_gap = np.inf  # when all rows were last looked at

    def share(self, kernel: Any) -> float:
        """How much of an epoch to do before the next look."""
        return 0.25 if kernel.n_active >= MANY_ROWS else 1.0

    def look(self, kernel: Any, done: Any, rng: _core.Rng) -> float | None:
        """The gap and two standard errors, when that is cheap; wakes rows when it is time to."""
        self.visits += done.visits
        if self.visits < 16 * self.n and not done.whole and kernel.n_active > 0:
            return self.guess
        self.visits = 0
        drawn = kernel.sample(rng, self.n)
        primal = done.dual + drawn.gap
        estimate = self.correction * (drawn.gap + 2 * drawn.error)
        self.guess = estimate / primal if 0 < primal < np.inf else None
        if kernel.n_active == 0:  # all rest, and only the bias moves until they are woken
            kernel.unshrink()
        elif done.whole:
            self.whole_gap = drawn.gap
        elif drawn.gap <= 0.1 * self.whole_gap:
            self._look_at_the_others(kernel, drawn, rng)
        if drawn.gap > 0:  # the next time as many as show the gap to a tenth or so
            self.n = int(np.clip(self.n * (12 * drawn.error / drawn.gap) ** 2, 512, self.most))
        return self.guess

    def _look_at_the_others(self, kernel: Any, drawn: Any, rng: _core.Rng) -> None:
        """Do the rows that rest still do so rightly, now that the active ones are accurate?"""
        others = kernel.sample_resting(rng, self.MOST)
        if others.gap + 2 * others.error > drawn.gap:
            kernel.unshrink()
        else:
            self.whole_gap = drawn.gap

    def learn(self, gap: float) -> None:
        """What the gap was, by a certificate: more than was drawn if rows rest that should not."""
        if self.guess:
            self.correction = min(10.0, max(1.0, self.correction * gap / self.guess))


class ByVisits:
    """The gap as the visits of an epoch saw it."""

    def __init__(self, warm: bool) -> None:
        """warm: the run does not start from zero, and its first epoch is like the others."""
        self.estimate = GapEstimate(first=1.0) if warm else GapEstimate()
        self.whole_gap = np.inf  # when all rows were last visited

    def share(self, kernel: Any) -> float:
        """How much of an epoch to do before the next look."""
        return 1.0

    def look(self, kernel: Any, done: Any, rng: _core.Rng) -> float | None:
        """The gap after this epoch; wakes rows when it is time to look at them."""
        if done.whole:
            self.whole_gap = done.gap
        if kernel.n_active == 0 or (not done.whole and done.gap <= 0.1 * self.whole_gap):
            # The active rows are a good deal more accurate than when the others were last looked
            # at: time to see whether those still rest at their bounds.
            kernel.unshrink()
        primal = done.dual + done.gap
        return self.estimate.after(done.gap / primal) if 0 < primal < np.inf else None

    def learn(self, gap: float) -> None:
        """What the gap was, by a certificate."""
        self.estimate.learn(gap)


class GapEstimate:
    """The relative gap after an epoch, guessed from what its visits saw on their way.

    Most of that is seen early in it: the end is the best part of an epoch further, at the present
    rate. The first epoch sees each row before it has learned from it, and a quarter of that is
    left. Certificates show how far off all that is. (All measured, on texts.)
    """

    def __init__(self, first: float = 0.25, rates: Sequence[float] = ()) -> None:
        """first: what is left of what the first epoch saw; rates: epochs ahead, after the next."""
        self.seen = np.inf
        self.guess = np.inf
        self.correction = 1.0
        self.factor = first
        self.rates = list(rates)

    def after(self, seen: float) -> float:
        """The guess, after an epoch that saw this."""
        seen = max(seen, 0.0)  # rounding may make the sum negative at the optimum
        if 0 < self.seen < np.inf:
            ahead = self.rates.pop(0) if self.rates else 0.65
            self.factor = min(1.0, seen / self.seen) ** ahead
        self.guess = seen * self.factor
        self.factor = 1.0
        self.seen = seen
        return self.correction * self.guess

    def learn(self, gap: float) -> None:
        """What the gap is, by a certificate."""
        if self.guess > 0:
            self.correction = min(10.0, max(0.2, gap / self.guess))
