"""Pegasos: primal estimated subgradient solver.

    min_w  f(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - p_i),   lam = 1/(m C).

Step t draws k rows A_t and moves by 1/(lam t) against a subgradient on them:

    w <- (1 - 1/t) w + 1/(lam t k) sum_{i in A_t, p_i < 1} c_i z_i,

then, if projecting, onto the ball |w| <= 1/sqrt(lam) that holds the optimum (Shalev-Shwartz, Singer
& Srebro, "Pegasos: primal estimated sub-gradient solver for SVM", ICML 2007). A step costs the
non-zeros of its rows, whatever the number of features. The squared hinge replaces the indicator
p_i < 1 by 2 (1 - p_i)_+.

A free bias is held within an epoch and chosen between epochs: see `held_bias`.

Every w in the span of the rows has a dual point for free, w = w(alpha): in shuffled whole epochs
without projection alpha even lies inside the box (the problem clips it otherwise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.stochastic import (
    Output,
    Sampling,
    check_choice,
    check_counts,
    rate_of,
    sgd_iterates,
    start_weights,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem

Start = Literal["zero", "random"]


@dataclass(frozen=True)
class Pegasos(Solver):
    """Stochastic subgradient steps at rate 1/(lam t).

    batch: rows in a step (k). project: onto the ball that holds the optimum. start: "zero" or
    "random" (uniform in direction, on half the ball's radius). sampling: "epochs" walks shuffled
    epochs, "iid" draws with replacement, "without-replacement" draws distinct rows for each batch.
    output: what is proposed, the "last" iterate, the "average" of all, the "tail-average" (since
    the last power of two of epochs), or a "random" iterate; `solve(..., keep="final")` returns the
    last proposal, keep="best" the best of those that were certified.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, bridle.Pegasos(batch=10, output="tail-average"))
    >>> solution.certificate.relative_gap <= 1e-3
    True
    """

    batch: int = 1
    project: bool = True
    start: Start = "zero"
    sampling: Sampling = "epochs"
    output: Output = "last"
    bucket: int = 32

    name: ClassVar[str] = "pegasos"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        check_counts(batch=self.batch, bucket=self.bucket)
        check_choice("start", self.start, Start)
        check_choice("sampling", self.sampling, Sampling)
        check_choice("output", self.output, Output)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch's worth of steps, or sooner if the pace asks for it."""
        radius = math.sqrt(problem.squared_radius) if self.project else math.inf
        yield from sgd_iterates(
            problem, start=start, rng=rng, pace=pace, rate=rate_of("1/(lam t)", problem.lam),
            batch=self.batch, radius=radius, sampling=self.sampling, output=self.output,
            bucket=self.bucket, start_w=self._start(problem, start, rng),
            # At a rate that begins with 1/lam steps of b would only shake it.
            bias_rate=0.0,
        )  # fmt: skip

    def _start(self, problem: LinearProblem, start: Any, rng: _core.Rng) -> Array:
        if start is not None or self.start == "zero":
            return start_weights(problem, start)[0]
        w: Array = np.array([rng.uniform() - 0.5 for _ in range(problem.n_features)] + [0.0])
        radius = math.sqrt(problem.squared_radius)
        return w * (0.5 * radius / float(np.linalg.norm(w)))
