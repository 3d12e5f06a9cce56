"""The best scale of given weights: min_s P(s w) over s >= 0, exactly, for the hinge."""

from __future__ import annotations

import math

import numpy as np
from bridle.matrix.arrays import Array


def best_scale(margins: Array, squared_norm: float, cost: Array) -> float:
    """The s that minimises 1/2 s^2 |w|^2 + sum_i C_i max(0, 1 - s p_i).

    The slope s |w|^2 - sum_{s p_i < 1} C_i p_i never falls: it rises by C_i p_i at each s = 1/p_i.
    """
    if squared_norm == 0:
        return 0.0
    negative = float(cost @ np.minimum(margins, 0.0))
    order = np.argsort(-margins, kind="stable")
    order = order[margins[order] > 0]  # breakpoints 1/p_i rise along it
    p = margins[order]
    # Before breakpoint k the rows from k on pull, and those with p <= 0 push, always.
    pull = np.append(np.cumsum((cost[order] * p)[::-1])[::-1], 0.0) + negative
    roots = pull / squared_norm
    with np.errstate(over="ignore"):
        ends = np.append(1.0 / p, np.inf)
    k = int(np.argmax(roots <= ends))
    before = float(ends[k - 1]) if k > 0 else 0.0
    return max(float(roots[k]), before, 0.0)


def scale_within(
    margins: Array, squared_norm: float, cost: Array, low: float, high: float, steps: int = 16
) -> float:
    """The s between low > 0 and high that is best, nearly: bisection, without sorting the rows."""
    pull = cost * margins
    for _ in range(steps):
        s = math.sqrt(low * high)
        if s * squared_norm < float(pull[margins < 1.0 / s].sum()):
            low = s
        else:
            high = s
    return high
