"""CoCoA+: dual coordinate descent on many machines at once.

    max_alpha  D(alpha) = sum_i alpha_i - 1/2 |w(alpha)|^2 [- sum_i alpha_i^2 / (4 C_i)],

K parts hold the rows and their alpha. In a round each part visits some of its rows, from the
weights w of all, as if each of its steps counted sigma' times (the others are stepping, too):

    G = z_i.(w + sigma' dw_k) - 1 + alpha_i D_ii,   alpha_i -= G / (sigma' |z_i|^2 + D_ii), clipped,

and sends dw_k = sum d_alpha_i z_i. Then w += eta sum_k dw_k (Ma, Smith, Jaggi, Jordan, Richtarik &
Takac, "Adding vs. averaging in distributed primal-dual optimization", ICML 2015, where eta = 1 and
sigma' = K is safe). Here the dual along the summed step is known exactly, D + eta g - eta^2/2 h,
and eta = min(1, g/h): any sigma' is safe. Past 1 some row would leave its box.

sigma' is measured: |sum_k dw_k|^2 / sum_k |dw_k|^2 says how much the parts pushed the same way in
the last round, from 1 (not at all) to K (all of them).

The bias is the proximal point method's, as in dcd, shared by all parts like w.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.losses import inner
from bridle.solvers.base import Iterate, Iterates, Solver

if TYPE_CHECKING:
    from bridle.distributed.part import Step
    from bridle.distributed.problem import DistributedProblem, Run

Array = np.typing.NDArray[np.float64]


@dataclass(frozen=True)
class Cocoa(Solver):
    """Dual coordinate descent by parts, for rows that are spread over machines.

    work: epochs that a part works on its own rows between two exchanges. Little is what saves
    epochs, much is what saves exchanges.
    bucket: as in dcd.
    """

    work: float = 0.05
    bucket: int = 32

    name: ClassVar[str] = "cocoa"
    kinds: ClassVar[tuple[str, ...]] = ("distributed",)
    losses: ClassVar[tuple[str, ...]] = ("hinge", "squared_hinge")
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        if not 0 < self.work < np.inf:
            raise ValueError(f"work must be positive and finite, got {self.work}")
        if self.bucket < 1:
            raise ValueError(f"bucket must be at least 1, got {self.bucket}")

    def iterates(
        self,
        problem: DistributedProblem,
        *,
        start: Any = None,
        rng: _core.Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """One iterate after each round."""
        run = problem.begin(start, rng.below(2**31))
        n_parts = len(problem.parts)
        caution = float(n_parts)
        seen = _Seen(self.work)
        step = 0
        while True:
            steps = run.visit(caution=caution, epochs=self.work, bucket=self.bucket)
            if steps is None:  # a part was lost: what was measured is of another time
                caution, seen = float(n_parts), _Seen(self.work)
                continue
            line = Line.along(run, steps)
            run.move(line.eta, line.step, line.balance)
            caution = min(max(line.alike, 1.0), float(n_parts))
            step += sum(one.visits for one in steps)
            estimate = seen.add(steps, run)
            certificate = yield Iterate(
                step, step / run.n_useful, run.w, run.b, gap_estimate=estimate
            )
            if certificate is not None:
                seen.learn(certificate)


@dataclass(frozen=True)
class Line:
    """The parts' steps together, and how far the dual rises along them."""

    step: Array
    balance: float
    eta: float
    alike: float  # |sum dw|^2 / sum |dw|^2

    @classmethod
    def along(cls, run: Run, steps: list[Step]) -> Line:
        """D(eta) = D + eta g - eta^2/2 h is exact, with the bias held near its centre."""
        summed = np.zeros(len(run.w) + 1)
        apart = 0.0
        for one in steps:  # in the order of the parts, whoever answered first
            own = one.step.astype(np.float64)
            summed += own
            apart += inner(own, own)
        balance = sum(one.balance for one in steps)
        length, response = inner(summed, summed), float(run.bias.response)
        h = length + sum(one.curvature for one in steps) + response * balance**2
        rise = sum(one.separable for one in steps) - inner(run.w, summed[:-1]) - 0.5 * length
        rise -= run.b * balance + 0.5 * response * balance**2
        eta = min(1.0, max(0.0, (rise + 0.5 * h) / h)) if h > 0 else 1.0
        return cls(summed, balance, eta, length / apart if apart > 0 else 1.0)


class _Seen:
    """The relative gap, guessed from what the parts saw on their way through the last epoch.

    They see it against weights of their own, which suit their own rows: the truth may be larger.
    Certificates say by how much.
    """

    def __init__(self, work: float) -> None:
        self.gaps: deque[float] = deque(maxlen=max(1, round(1 / work)))
        self.inside: deque[int] = deque(maxlen=self.gaps.maxlen)
        self.rounds = 0
        self.correction = 1.0
        self.primal = np.inf
        self.guess = np.inf

    def add(self, steps: list[Step], run: Run) -> float | None:
        self.gaps.append(sum(one.gap for one in steps))
        self.inside.append(sum(one.inside for one in steps))
        self.rounds += 1
        if self.rounds % (self.gaps.maxlen or 1) == 0:
            run.bias.recentre(run.sigma(sum(self.inside)))
        if len(self.gaps) < (self.gaps.maxlen or 1) or not np.isfinite(self.primal):
            return None
        self.guess = max(0.0, sum(self.gaps)) / self.primal
        return self.correction * self.guess

    def learn(self, certificate: Any) -> None:
        self.primal = certificate.primal
        if 0 < self.guess < np.inf:
            self.correction = min(20.0, max(0.5, certificate.relative_gap / self.guess))
