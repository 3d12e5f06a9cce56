"""Penalties with an l1 norm over a grid of C: from where the first weight appears, warm-started.

lam = lambda_max(X, y, loss="logistic")          # of lam |w|_1 + sum loss: from here on, w = 0
for point in l1_path(X, y, loss="logistic"):     # C = 1 / lam upwards
    print(point.C, point.coef.nnz, point.certificate.relative_gap)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.objective.certificate import Certificate
from bridle.problems.penalised import PenalisedProblem
from bridle.solving.loop import solve
from bridle.solving.stopping import Epochs, Gap
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class SparsePoint:
    """The optimum at one C, nearly: its weights are a CSR matrix of one row."""

    C: float
    coef: Any
    intercept: float
    certificate: Certificate


def C_min(X: Any, y: ArrayLike, **formula: Any) -> float:  # noqa: N802
    """The C up to which all weights are 0: scikit-learn's `l1_min_c`, for every smooth loss.

    formula: what `PenalisedProblem` takes. A regularised intercept is a weight, too.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> problem = bridle.PenalisedProblem(X, y, C=0.99 * bridle.C_min(X, y))
    >>> int((bridle.solve(problem).w != 0).sum())
    0
    """
    return PenalisedProblem(X, y, 1.0, **formula).smallest_C()


def lambda_max(X: Any, y: ArrayLike, **formula: Any) -> float:
    """The same as a weight of the penalty against the losses: 1 / C_min.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> round(bridle.lambda_max(X, y) * bridle.C_min(X, y), 12)
    1.0
    """
    return 1.0 / C_min(X, y, **formula)


def l1_path(
    X: Any,
    y: ArrayLike,
    Cs: int | ArrayLike = 30,
    *,
    reach: float = 1000.0,
    gap: float = 1e-3,
    seed: int = 0,
    **formula: Any,
) -> Iterator[SparsePoint]:
    """The optimum for each C, upwards, each from where the last one ended.

    Cs: the values, or how many, spaced evenly in the logarithm from C_min to `reach` times that.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> counts = [point.coef.nnz for point in bridle.l1_path(X, y, 4, reach=10.0)]
    >>> counts[0], counts[-1] > 10
    (0, True)
    """
    base = PenalisedProblem(X, y, 1.0, **formula)
    if isinstance(Cs, int | np.integer):
        least = base.smallest_C()
        if not np.isfinite(least):
            raise ValueError("no weight is of any use: the losses are best where all are 0")
        Cs = least * np.geomspace(1.0, reach, int(Cs))
    from scipy.sparse import csr_matrix

    start = None
    for C in np.unique(np.asarray(Cs, np.float64)):
        found = solve(
            base.variant(C=float(C)), "cd", stop=Gap(gap) | Epochs(1000), start=start, seed=seed
        )
        yield SparsePoint(float(C), csr_matrix(found.w[None]), found.b, found.certificate)
        start = found
