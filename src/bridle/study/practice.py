"""Good practice with gradient methods: rates from a subsample, epochs from held-out rows, gradients
checked by finite differences.

(Bottou, "Stochastic gradient descent tricks", 2012.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.point import supporting
from bridle.problems.linear import LinearProblem
from bridle.solvers import Solver
from bridle.solving.loop import solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, ValidationLoss
from numpy.typing import ArrayLike


def epochs_a_priori(
    problem: LinearProblem,
    solver: str | Solver = "svmsgd",
    *,
    sample: int | None = None,
    max_epochs: int = 50,
    patience: int = 5,
    seed: int = 0,
) -> Solution:
    """Train on all rows for as many epochs as was best on a subsample: see `best_epochs`.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(1_000, seed=0), C=0.1)
    >>> bridle.epochs_a_priori(problem).w.shape
    (47236,)
    """
    epochs = best_epochs(
        problem, solver, sample=sample, max_epochs=max_epochs, patience=patience, seed=seed
    )
    return solve(problem, solver, stop=Epochs(epochs), seed=seed)


def best_epochs(
    problem: LinearProblem,
    solver: str | Solver = "svmsgd",
    *,
    sample: int | None = None,
    max_epochs: int = 50,
    patience: int = 5,
    seed: int = 0,
) -> float:
    """The number of epochs that was best on a subsample.

    Subsamples A and B are disjoint, `sample` rows each (a quarter of the rows, up to 10,000).
    Trains on A, watching the loss on B: the epochs at which that was lowest.
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
    found = solve(problem.take(a), solver, stop=watch | Epochs(max_epochs), seed=seed)
    losses = found.trace["validation_loss"]
    return max(1.0, float(found.trace["epoch"][int(np.nanargmin(losses))]))


def gradient(problem: LinearProblem, w: ArrayLike, b: float = 0.0) -> tuple[Array, float]:
    """A subgradient of P at (w, b), by w and by b."""
    joined = problem.join(w, b)
    margins = problem.margins(problem.scores(w, b))
    pull = problem.cost * problem.loss.slope(margins) * problem.y
    combined = np.empty_like(joined)
    problem.rows.combine(pull, combined)
    g = joined - combined
    if problem.bias == "none":
        return g[:-1], 0.0
    if problem.bias == "free":
        rewarded = problem.loss.pull * float(problem.cost.sum())  # of an offset
        return g[:-1], rewarded - float(pull.sum())
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

    Examples
    --------
    >>> import numpy as np
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(200, seed=0), C=0.1)
    >>> bridle.check_gradient(problem, np.zeros(47_236)) < 1e-4
    True
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
    """What a fitted model's margin looks like on its rows.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> found = bridle.solve(problem)
    >>> report = bridle.margin_report(problem, found.w, found.b, found.alpha)
    >>> report.beyond + report.inside + report.misclassified
    500
    """

    margin: float  # 2 / |w|: the width of the street between p = -1 and p = 1
    beyond: int  # rows at or beyond their margin: slack 0
    inside: int  # rows inside the street on their own side: slack in (0, 1]
    misclassified: int  # slack over 1
    support_vectors: int  # rows with alpha > 0, but for rounding

    def __str__(self) -> str:
        return (
            f"margin {self.margin:.4g}; rows beyond it {self.beyond}, inside {self.inside}, "
            f"misclassified {self.misclassified}; support vectors {self.support_vectors}"
        )


def margin_report(problem: LinearProblem, w: ArrayLike, b: float, alpha: ArrayLike) -> MarginReport:
    """The width of the margin, where the rows lie about it, and the number of support vectors.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> found = bridle.solve(problem)
    >>> report = bridle.margin_report(problem, found.w, found.b, found.alpha)
    >>> report.beyond + report.inside + report.misclassified
    500
    """
    length = float(np.linalg.norm(np.asarray(w, np.float64)))
    slack = np.maximum(0.0, 1.0 - problem.y * problem.scores(w, b))
    # A support vector at its margin is there up to rounding.
    slack[slack < 1e-9] = 0.0
    return MarginReport(
        margin=2.0 / length if length > 0 else np.inf,
        beyond=int((slack == 0).sum()),
        inside=int(((slack > 0) & (slack <= 1)).sum()),
        misclassified=int((slack > 1).sum()),
        support_vectors=int(supporting(np.asarray(alpha)).sum()),
    )
