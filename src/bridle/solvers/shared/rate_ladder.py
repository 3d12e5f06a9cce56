"""The rate to start with, from a subsample (Bottou, "Stochastic gradient descent tricks", 2012)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.problems.linear import LinearProblem
from bridle.solvers.shared.stochastic import BIAS_RATE, StepSettings, gradient_steps, rate_of

RATES = tuple(10.0 ** np.arange(-6, 2))
BELOW = 0.5  # start slightly below the best: too high a rate costs more than too low a one


def _trial(
    problem: LinearProblem, start: tuple[Array, float], seed: int
) -> Callable[[float], float]:
    """The objective after one epoch at rate eta_0/(1 + eta_0 lam t), as a function of eta_0."""

    def cost(eta0: float) -> float:
        settings = StepSettings(
            rate_of("eta0/(1 + eta0 lam t)", problem.lam, eta0),
            bias_rate=BIAS_RATE if problem.bias == "free" else 0.0,
        )
        steps = gradient_steps(problem, *start, np.zeros(problem.n_rows), settings)
        steps.run(problem.n_rows, _core.Rng(seed))
        w, alpha = np.empty(problem.n_features + 1), np.empty(problem.n_rows)
        b = steps.output("last", w, alpha)
        with np.errstate(over="ignore", invalid="ignore"):
            value = problem.primal(*problem.split(w, b)) if np.isfinite(w).all() else np.inf
        return value if np.isfinite(value) else np.inf

    return cost


def _sampled_trial(
    problem: LinearProblem, sample: int, seed: int, w: Array | None, b: float
) -> tuple[Callable[[float], float], LinearProblem]:
    small = problem.sample(sample, seed % 2**32)
    joined = np.zeros(problem.n_features + 1) if w is None else np.asarray(w, np.float64)
    return _trial(small, (joined, b), seed), small


def calibrate_rate(
    problem: LinearProblem,
    rates: Sequence[float] = RATES,
    *,
    sample: int = 1000,
    seed: int = 0,
    w: Array | None = None,
    b: float = 0.0,
) -> float:
    """The rate eta_0 to start with: slightly below the one that most reduces the loss.

    Each rate runs one epoch on a subsample, at eta_0/(1 + eta_0 lam t). Rates are for the objective
    lam/2 |w|^2 + 1/m sum loss. w: the joined weights to start from (see LinearProblem.join).
    """
    if len(rates) == 0 or not all(rate > 0 and np.isfinite(rate) for rate in rates):
        raise ValueError("rates must be positive and finite, and at least one")
    trial, _ = _sampled_trial(problem, sample, seed, w, b)
    costs = [trial(float(rate)) for rate in rates]
    return BELOW * float(rates[int(np.argmin(costs))])


def search_eta0(problem: LinearProblem, *, sample: int = 1000, seed: int = 0) -> float:
    """Bottou's search: double or halve eta_0, one epoch on a subsample each, while the cost falls.

    It starts from 1/mean |x|^2, which is 1 for rows of length 1.
    """
    trial, small = _sampled_trial(problem, sample, seed, None, 0.0)
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
