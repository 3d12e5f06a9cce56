"""Good practice with gradient methods: rates from a subsample, epochs from held-out rows, gradients
checked by finite differences.

(Bottou, "Stochastic gradient descent tricks", 2012.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import _core
from bridle.problem import LinearProblem
from bridle.solve import Solution, solve
from bridle.solvers import Solver
from bridle.solvers.stochastic import BIAS_RATE, rate_of
from bridle.stopping import Epochs, ValidationLoss
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

RATES = tuple(10.0 ** np.arange(-6, 2))
BELOW = 0.5  # start slightly below the best: too high a rate costs more than too low a one


def take(problem: LinearProblem, rows: NDArray[np.int64]) -> LinearProblem:
    """The problem on some of its rows (in increasing order), with the same lam."""
    rows = np.sort(rows)
    C = problem.C if problem.hard_margin else problem.C * problem.n_rows / len(rows)
    return LinearProblem(
        problem.X[rows], problem.y[rows], C, loss=problem.loss, bias=problem.bias,
        bias_scale=problem.bias_scale, sample_weight=problem.sample_weight[rows],
        n_threads=problem.n_threads,
    )  # fmt: skip


def subsample(problem: Any, n: int, seed: int = 0) -> LinearProblem:
    """The problem on n rows drawn at random among those that count, both classes present."""
    if problem.kind == "streamed":
        sample: LinearProblem = problem.sample(n, seed)
        return sample
    rng = np.random.default_rng(seed)
    useful = np.flatnonzero(problem.cost > 0)
    if problem.n_rows <= n:
        whole: LinearProblem = problem
        return whole
    drawn = rng.choice(useful, size=min(n, len(useful)), replace=False)
    for label in (-1, 1):
        if not (problem.y[drawn] == label).any():
            drawn = np.append(drawn, rng.choice(np.flatnonzero(problem.y == label)))
    return take(problem, drawn)


def _trial(
    problem: LinearProblem, start: tuple[Array, float], seed: int
) -> Callable[[float], float]:
    """The objective after one epoch at rate eta_0/(1 + eta_0 lam t), as a function of eta_0."""

    def cost(eta0: float) -> float:
        settings = _core.SgdSettings(
            rate=rate_of("eta0/(1 + eta0 lam t)", problem.lam, eta0), steps_before=0, batch=1,
            radius=np.inf, bias_rate=BIAS_RATE if problem.bias == "free" else 0.0,
            sampling="epochs", bucket=1, keep_random=False,
        )  # fmt: skip
        kernel = _core.stochastic_gradient(
            problem.rows, problem.loss.name, problem.signed_cost, problem.squared_norms,
            *start, np.zeros(problem.n_rows), settings,
        )  # fmt: skip
        kernel.run(problem.n_rows, _core.Rng(seed))
        w, alpha = np.empty(problem.n_features + 1), np.empty(problem.n_rows)
        b = kernel.output("last", w, alpha)
        with np.errstate(over="ignore", invalid="ignore"):
            value = problem.primal(*problem.split(w, b)) if np.isfinite(w).all() else np.inf
        return value if np.isfinite(value) else np.inf

    return cost


def _sampled_trial(
    problem: LinearProblem, sample: int, seed: int, w: Array | None, b: float
) -> tuple[Callable[[float], float], LinearProblem]:
    small = subsample(problem, sample, seed % 2**32)
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


def epochs_a_priori(
    problem: LinearProblem,
    solver: str | Solver = "svmsgd",
    *,
    sample: int | None = None,
    max_epochs: int = 50,
    patience: int = 5,
    seed: int = 0,
) -> Solution:
    """Train on all rows for as many epochs as was best on a subsample.

    Subsamples A and B are disjoint, `sample` rows each (a quarter of the rows, up to 10,000).
    Trains on A, watching the loss on B; the number of epochs at which that was lowest is then run
    on all.
    """
    m = problem.n_rows
    n = min(m // 4, 10_000) if sample is None else sample
    if not 1 <= n <= m // 2:
        raise ValueError(f"sample must be in 1..{m // 2}, got {n}")
    order = np.random.default_rng(seed).permutation(m)
    a, b = order[:n], order[n : 2 * n]
    if len(np.unique(problem.y[a])) < 2:
        raise ValueError(f"a sample of {n} rows holds one class only; choose a larger `sample`")
    b = np.sort(b)
    watch = ValidationLoss(problem.X[b], problem.y[b], patience=patience, loss=problem.loss)
    found = solve(take(problem, a), solver, stop=watch | Epochs(max_epochs), seed=seed)
    losses = found.trace["validation_loss"]
    epochs = max(1.0, float(found.trace["epoch"][int(np.nanargmin(losses))]))
    return solve(problem, solver, stop=Epochs(epochs), seed=seed)


def gradient(problem: LinearProblem, w: ArrayLike, b: float = 0.0) -> tuple[Array, float]:
    """A subgradient of P at (w, b), by w and by b."""
    joined = problem.join(w, b)
    margins = problem.y * problem.scores(w, b)
    pull = problem.cost * problem.loss.slope(margins) * problem.y
    combined = np.empty_like(joined)
    _core.combine(problem.rows, pull, combined, problem.n_threads)
    g = joined - combined
    if problem.bias == "none":
        return g[:-1], 0.0
    if problem.bias == "free":
        return g[:-1], -float(pull.sum())
    return g[:-1], float(g[-1]) / problem.bias_scale


def check_gradient(
    problem: LinearProblem,
    w: ArrayLike,
    b: float = 0.0,
    *,
    directions: int = 10,
    step: float = 1e-5,
    seed: int = 0,
) -> float:
    """The largest error of the gradient against central differences, relative to its length.

    Along random directions. A kink within a step of w shows up as an error: choose another w.
    """
    rng = np.random.default_rng(seed)
    w = np.asarray(w, np.float64)
    g, gb = gradient(problem, w, b)
    has_bias = problem.bias != "none"
    worst = 0.0
    for _ in range(directions):
        d = rng.standard_normal(problem.n_features)
        db = float(rng.standard_normal()) if has_bias else 0.0
        length = float(np.sqrt(d @ d + db * db))
        d, db = d * (step / length), db * (step / length)
        difference = problem.primal(w + d, b + db) - problem.primal(w - d, b - db)
        error = abs(difference / (2 * step) - (float(g @ d) + gb * db) / step)
        worst = max(worst, error)
    return worst / max(float(np.sqrt(g @ g + gb * gb)), np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class MarginReport:
    """What a fitted model's margin looks like on its rows."""

    margin: float  # 2 / |w|: the width of the street between p = -1 and p = 1
    beyond: int  # rows at or beyond their margin: slack 0
    inside: int  # rows inside the street on their own side: slack in (0, 1]
    misclassified: int  # slack over 1
    support_vectors: int  # rows with alpha > 0

    def __str__(self) -> str:
        return (
            f"margin {self.margin:.4g}; rows beyond it {self.beyond}, inside {self.inside}, "
            f"misclassified {self.misclassified}; support vectors {self.support_vectors}"
        )


def margin_report(problem: LinearProblem, w: ArrayLike, b: float, alpha: ArrayLike) -> MarginReport:
    """The width of the margin, where the rows lie about it, and the number of support vectors."""
    length = float(np.linalg.norm(np.asarray(w, np.float64)))
    slack = np.maximum(0.0, 1.0 - problem.y * problem.scores(w, b))
    # A support vector at its margin is there up to rounding.
    slack[slack < 1e-9] = 0.0
    return MarginReport(
        margin=2.0 / length if length > 0 else np.inf,
        beyond=int((slack == 0).sum()),
        inside=int(((slack > 0) & (slack <= 1)).sum()),
        misclassified=int((slack > 1).sum()),
        support_vectors=int((np.asarray(alpha) > 0).sum()),
    )
