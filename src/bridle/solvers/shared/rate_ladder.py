"""The rate to start with, from a subsample (Bottou, "Stochastic gradient descent tricks", 2012)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.problems.linear import LinearProblem
from bridle.solvers.shared.stochastic import (
    RateName,
    StepSettings,
    bias_rate_of,
    gradient_steps,
    rate_of,
)

RATES = tuple(10.0 ** np.arange(-6, 2))
BELOW = 0.5  # start slightly below the best: too high a rate costs more than too low a one
FEWEST = 30  # steps of a trial: large batches would make an epoch of next to none
BOTTOU: RateName = "eta0/(1 + eta0 lam t)"


def _trial(
    problem: LinearProblem,
    start: tuple[Array, float],
    seed: int,
    rate: RateName,
    batch: int,
    bias_rate: float | None = None,
    clip: bool = True,
) -> Callable[[float], float]:
    """The objective after one epoch, as a function of eta_0."""
    batch = min(batch, problem.n_rows)

    def cost(eta0: float) -> float:
        settings = StepSettings(
            rate_of(rate, problem.lam, eta0, clip=clip), batch=batch,
            bias_rate=bias_rate_of(problem, bias_rate),
        )  # fmt: skip
        steps = gradient_steps(problem, *start, np.zeros(problem.n_rows), settings)
        steps.run(max(problem.n_rows // batch, FEWEST), _core.Rng(seed))
        w, alpha = np.empty(problem.n_features + 1), np.empty(problem.n_rows)
        b = steps.output("last", w, alpha)
        with np.errstate(over="ignore", invalid="ignore"):
            value = problem.primal(*problem.split(w, b)) if np.isfinite(w).all() else np.inf
        return value if np.isfinite(value) else np.inf

    return cost


def calibrate_rate(
    problem: LinearProblem,
    rates: Sequence[float] = RATES,
    *,
    sample: int = 1000,
    seed: int = 0,
    w: Array | None = None,
    b: float = 0.0,
    rate: RateName = BOTTOU,
    batch: int = 1,
    bias_rate: float | None = None,
    clip: bool = True,
) -> float:
    """The rate eta_0 to start with: slightly below the one that most reduces the loss.

    See `rate_costs`.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.calibrate_rate(problem, rate="constant") > 0
    True
    """
    costs = rate_costs(
        problem, rates, sample=sample, seed=seed, w=w, b=b, rate=rate, batch=batch,
        bias_rate=bias_rate, clip=clip,
    )  # fmt: skip
    return BELOW * float(rates[int(np.argmin(costs))])


def rate_costs(
    problem: LinearProblem,
    rates: Sequence[float] = RATES,
    *,
    sample: int = 1000,
    seed: int = 0,
    w: Array | None = None,
    b: float = 0.0,
    rate: RateName = BOTTOU,
    batch: int = 1,
    bias_rate: float | None = None,
    clip: bool = True,
) -> list[float]:
    """The ladder: the objective that each of these rates to start with leads to.

    Each eta_0 runs one epoch on a subsample, at the schedule `rate` and with the minibatches, the
    rate of the bias and the clip that will be used. Rates are for the objective
    lam/2 |w|^2 + 1/m sum loss. w: the joined weights to start from (see LinearProblem.join).
    """
    if len(rates) == 0 or not all(eta0 > 0 and np.isfinite(eta0) for eta0 in rates):
        raise ValueError("rates must be positive and finite, and at least one")
    joined = np.zeros(problem.n_features + 1) if w is None else np.asarray(w, np.float64)
    small = problem.sample(sample, seed % 2**32)
    trial = _trial(small, (joined, b), seed, rate, batch, bias_rate, clip)
    return [trial(float(eta0)) for eta0 in rates]


def search_eta0(problem: LinearProblem, *, sample: int = 1000, seed: int = 0) -> float:
    """Bottou's search: double or halve eta_0, one epoch on a subsample each, while the cost falls.

    It starts from 1/mean |x|^2, which is 1 for rows of length 1.
    """
    small = problem.sample(sample, seed % 2**32)
    trial = _trial(small, (np.zeros(problem.n_features + 1), 0.0), seed, BOTTOU, 1)
    mean = float(small.squared_norms.mean())
    eta = 1.0 / mean if mean > 0 else 1.0
    best, factor = trial(eta), 2.0
    up = trial(2.0 * eta)
    if up < best:
        best, eta = up, 2.0 * eta
    else:
        factor = 0.5
    for _ in range(60):
        cost = trial(factor * eta)
        if not cost < best:
            break
        best, eta = cost, factor * eta
    return eta
