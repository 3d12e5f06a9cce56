"""Stochastic gradient descent, single rows or minibatches, at any of the usual rates.

    w <- w - eta_t g_t,   g_t = lam w - 1/k sum_{i in A_t} c_i slope(p_i) z_i,   lam = 1/(m C)

(Robbins & Monro 1951). eta_t: constant, eta_0/t, 1/(lam sqrt t), 1/(lam t), or
eta_0/(1 + eta_0 lam t). A constant rate does not converge: w hovers about the optimum at a distance
that grows with eta_0. Where eta_0 is not given it is calibrated on a subsample.

A free bias takes the gradient's step without the shrinking, at `bias_rate` times the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.matrix.arrays import Array
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.stochastic import (
    Output,
    RateName,
    Sampling,
    check_choice,
    check_counts,
    check_positive,
    needs_eta0,
    rate_of,
    sgd_iterates,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class StochasticGradientDescent(Solver):
    """Steps on one row or on a minibatch.

    rate: the formula of eta_t. eta0: its parameter, or None to calibrate it on `sample` rows.
    recalibrate_every: calibrate anew after every so many steps, from where w is then. batch: rows
    in a step. sampling: "epochs" walks shuffled epochs, "iid" draws with replacement,
    "without-replacement" draws distinct rows for each batch.
    output: what is proposed, the "last" iterate, the "average" of all, the "tail-average" (since
    the last power of two of epochs), or a "random" iterate; `solve(..., keep="final")` returns the
    last proposal, keep="best" the best of those that were certified.
    bucket: neighbouring rows that are read by turns with those of other buckets; 1: a full shuffle.
    bias_rate: of a free bias, relative to eta_t. With a number, (w, b) is what the steps make of
    it, 1 being plain gradient descent in both, and b is returned and certified as it is. None is
    the practical way: a hundredth, since b is a feature of every row, moves with each of them and
    at the rate of w overshoots; and, since nothing pulls it back, the exact best b between epochs.
    clip: keep lam eta_t at 1 or below, where a step would leave nothing of w, and (squared hinge)
    each row's pull where it ends its own loss. False is the plain formula, which may diverge: the
    run then ends, and its message says so.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solver = bridle.StochasticGradientDescent(rate="eta0/t", eta0=10.0)
    >>> bridle.solve(problem, solver, stop=bridle.Epochs(20)).certificate.relative_gap < 0.2
    True
    """

    rate: RateName = "1/(lam t)"
    eta0: float | None = None
    sample: int = 1000
    recalibrate_every: int | None = None
    batch: int = 1
    sampling: Sampling = "epochs"
    output: Output = "last"
    bucket: int = 32
    bias_rate: float | None = None
    clip: bool = True

    name: ClassVar[str] = "sgd"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    loss_needs: ClassVar[frozenset[str]] = frozenset()
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        check_positive(eta0=self.eta0, bias_rate=self.bias_rate)
        check_counts(
            sample=self.sample, batch=self.batch, bucket=self.bucket,
            recalibrate_every=self.recalibrate_every,
        )  # fmt: skip
        check_choice("rate", self.rate, RateName)
        check_choice("sampling", self.sampling, Sampling)
        check_choice("output", self.output, Output)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch's worth of steps, or sooner if the pace asks for it."""
        from bridle.solvers.shared.rate_ladder import calibrate_rate

        def calibrated(w: Array | None, b: float) -> _core.steps.Rate:
            eta0 = calibrate_rate(
                problem, sample=self.sample, seed=rng.next(), w=w, b=b, rate=self.rate,
                batch=self.batch, bias_rate=self.bias_rate, clip=self.clip,
            )  # fmt: skip
            return rate_of(self.rate, problem.lam, eta0, clip=self.clip)

        if not needs_eta0(self.rate):
            rate = rate_of(self.rate, problem.lam, clip=self.clip)
        elif self.eta0 is not None:
            rate = rate_of(self.rate, problem.lam, self.eta0, clip=self.clip)
        else:
            rate = calibrated(None, 0.0)
        yield from sgd_iterates(
            problem, start=start, rng=rng, pace=pace, rate=rate, batch=self.batch,
            sampling=self.sampling, output=self.output, bucket=self.bucket,
            bias_rate=self.bias_rate,
            recalibrate=calibrated if needs_eta0(self.rate) else None,
            recalibrate_every=self.recalibrate_every,
        )  # fmt: skip
