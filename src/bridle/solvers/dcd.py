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

from collections.abc import Callable
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
    blocks take up to a third more visits than one; more take more.
    """

    bucket: int = 32
    blocks: int = 1

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
        step = told = 0
        told_guess = np.inf
        whole_gap = np.inf  # the gap when all rows were last visited
        estimate = GapEstimate()
        while True:
            done = kernel.epoch(rng, self.bucket)
            step += done.visits
            primal = done.dual + done.gap
            guess = estimate.after(done.gap / primal) if 0 < primal < np.inf else None
            if done.whole:
                whole_gap = done.gap
            elif done.gap <= 0.1 * whole_gap:
                # The active rows are a good deal more accurate than when the others were last
                # looked at: time to see whether those still rest at their bounds.
                kernel.unshrink()
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
                if not done.whole:
                    kernel.unshrink()  # the loop thought it was done: the rest deserves a look


class GapEstimate:
    """The relative gap after an epoch, guessed from what its visits saw on their way.

    Most of what the visits of an epoch see is seen early in it: the end is the best part of an
    epoch further, at the present rate. The first epoch sees each row before it has learned from
    it, and half of that is left. The second sees most of all what the first one did before it knew
    w, and is much further at its end; the rate of the third is then too good to last (measured on
    texts, C from 0.005 to 1). Certificates show how far off all that is.
    """

    def __init__(self) -> None:
        self.seen = np.inf
        self.guess = np.inf
        self.correction = 1.0
        self.epoch = 0

    def after(self, seen: float) -> float:
        """The guess, after an epoch that saw this."""
        seen = max(seen, 0.0)  # rounding may make the sum negative at the optimum
        rate = min(1.0, seen / self.seen) if 0 < self.seen < np.inf else 1.0
        if self.epoch == 0:
            rate = 0.5
        self.epoch += 1
        self.seen = seen
        self.guess = seen * rate ** {1: 1.0, 2: 1.5, 3: 0.4}.get(self.epoch, 0.65)
        return self.correction * self.guess

    def learn(self, gap: float) -> None:
        """What the gap is, by a certificate."""
        if self.guess > 0:
            self.correction = min(10.0, max(0.2, gap / self.guess))
