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
        n_useful = n_active = int(np.count_nonzero(problem.cost))
        step = told = 0
        told_guess = np.inf
        whole_gap = np.inf  # the gap when all rows were last visited
        estimate = GapEstimate()
        while True:
            many = n_active >= MANY_ROWS
            done = kernel.visit(rng, self.bucket, PART if many else 1.0)
            step += done.visits
            n_active = done.active
            guess = estimate.of(kernel, done, rng, many)
            if done.finished and done.whole:
                whole_gap = done.gap
            elif done.finished and done.gap <= 0.1 * whole_gap:
                # The active rows are a good deal more accurate than when the others were last
                # looked at: time to see whether those still rest at their bounds.
                kernel.unshrink()
                n_active = n_useful
            if guess is not None:
                if 8 * (step - told) < n_useful and guess > 0.5 * told_guess:
                    continue  # to write down w and alpha would take longer than that
                told_guess = guess
            told = step
            kernel.alpha(alpha)
            kernel.weights(w)
            split, b = problem.split(w, kernel.bias)
            certificate = yield Iterate(step, step / n_useful, split, b, alpha, gap_estimate=guess)
            if certificate is not None:
                estimate.learn(certificate.relative_gap)
                if not (done.finished and done.whole):
                    kernel.unshrink()  # the loop thought it was done: the rest deserves a look
                    n_active = n_useful


# From so many active rows on, an epoch is taken in parts, and a few rows are drawn after each to
# see how far it is: fewer would show too little, and an epoch of them is over soon anyway.
MANY_ROWS = 2**14
PART = 0.25
DRAWN = 0.01  # of the active rows
MOST_DRAWN = 4096


class GapEstimate:
    """The relative gap after an epoch or a part of one.

    Where rows are many, a few that are drawn at random show it, and how far off that may be.
    Otherwise it is guessed from what the epoch's visits saw on their way. Most of that is seen
    early in it: the end is the best part of an epoch further, at the present rate. The first epoch
    sees each row before it has learned from it, and a quarter of that is left. Certificates show
    how far off all that is. (All measured, on texts.)
    """

    def __init__(self, first: float = 0.25, rates: Sequence[float] = ()) -> None:
        """first: what is left of what the first epoch saw; rates: epochs ahead, after the next."""
        self.seen = np.inf
        self.guess = np.inf
        self.correction = 1.0
        self.factor = first
        self.rates = list(rates)

    def of(self, kernel: Any, done: Any, rng: _core.Rng, many: bool) -> float | None:
        """The guess after this visit."""
        if many:
            drawn = kernel.sample(rng, min(MOST_DRAWN, max(1, int(DRAWN * done.active))))
            primal = drawn.dual + drawn.gap
            if 0 < primal < np.inf:
                self.guess = max(drawn.gap + drawn.error, 0.0) / primal
                return self.guess
            return None
        primal = done.dual + done.gap
        return self.after(done.gap / primal) if 0 < primal < np.inf else None

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
