"""The best intercept for given scores: min_b sum_i C_i loss(y_i (s_i + b)), exactly.

Each row has one breakpoint, t_i = target y_i - s_i, where its margin reaches the loss's
target (1, or 0 for the perceptron's loss). Rows of class +1 pay for
b < t_i, rows of class -1 for b > t_i.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from bridle.objective.losses import Loss
from numpy.typing import NDArray

Array = NDArray[np.float64]


def best_bias(scores: Array, y: Array, cost: Array, loss: Loss) -> float:
    """The b that minimises the sum of losses."""
    if np.isinf(cost).any():
        return _widest(scores, y, cost)
    t = loss.target * y - scores
    order = np.argsort(t, kind="stable")
    find = {"hinge": _hinge, "squared_hinge": _squared_hinge, "perceptron": _hinge}[loss.name]
    return find(t[order], y[order] > 0, cost[order])


def _hinge(t: Array, positive: NDArray[np.bool_], cost: Array) -> float:
    # The slope starts at minus the weight of class +1 and rises by C_i at each breakpoint.
    target = cost[positive].sum()
    k = int(np.searchsorted(np.cumsum(cost), target * (1 - 1e-15)))
    return float(t[min(k, len(t) - 1)])


def _squared_hinge(t: Array, positive: NDArray[np.bool_], cost: Array) -> float:
    # Between breakpoints k-1 and k half the derivative is weight * b - moment: rows of class -1 up
    # to k-1 and rows of class +1 from k on are active.
    up, down = np.where(positive, cost, 0.0), np.where(positive, 0.0, cost)
    weight = np.cumsum(down) + up.sum() - np.cumsum(up)
    moment = np.cumsum(down * t) + (up * t).sum() - np.cumsum(up * t)
    derivative = weight * t - moment  # at t_k; row k itself contributes nothing there
    k = int(np.searchsorted(derivative >= 0, True))
    if k == len(t):
        k -= 1
    if k == 0:
        return float(t[0])
    return float(moment[k - 1] / weight[k - 1]) if weight[k - 1] > 0 else float(t[k])


def _widest(scores: Array, y: Array, cost: Array) -> float:
    # The hard margin: halfway between the classes.
    up, down = (cost > 0) & (y > 0), (cost > 0) & (y < 0)
    if not (up.any() and down.any()):
        empty = "-1" if up.any() else "+1"
        raise ValueError(
            f"a hard margin with a free bias needs rows of both classes, but all rows of class "
            f"{empty} have weight 0"
        )
    return float(-(scores[up].min() + scores[down].max()) / 2)


Bias = Literal["none", "regularised", "free"]
BIASES = ("none", "regularised", "free")
