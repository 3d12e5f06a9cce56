"""The kinds of bias, and the best intercept for given scores: min_b sum_i C_i loss(y_i (s_i + b)).

bias "none": b = 0. "regularised": a constant feature, part of |w|^2. "free": b is not penalised.

Each row has one breakpoint, t_i = target y_i - s_i, where its margin reaches the loss's target (1,
or 0 for the perceptron's loss). Rows of class +1 pay for b < t_i, rows of class -1 for b > t_i.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from bridle.matrix.arrays import Array
from numpy.typing import NDArray

Bias = Literal["none", "regularised", "free"]
BIASES = ("none", "regularised", "free")


def bias_precision(bias: Bias, bias_scale: float) -> float:
    """The factor of b^2/2 in the objective: 0 for a free bias, infinite for none."""
    if bias == "regularised":
        return bias_scale**-2
    return 0.0 if bias == "free" else np.inf


def hinge_bias(t: Array, positive: NDArray[np.bool_], cost: Array, excess: float = 0.0) -> float:
    """Exactly, for the hinge: where the slope of the sum changes its sign.

    excess: by how much the rows of class +1 that pay are to weigh more than those of class -1.
    Where it is 0 between two breakpoints, halfway: classes that mirror each other have b = 0.
    """
    order = np.argsort(t, kind="stable")
    t, positive, cost = t[order], positive[order], cost[order]
    # The slope starts at minus the weight of class +1 and rises by C_i at each breakpoint.
    target = cost[positive].sum() - excess
    sums = np.cumsum(cost)
    k = min(int(np.searchsorted(sums, target * (1 - 1e-15))), len(t) - 1)
    if k + 1 < len(t) and sums[k] <= target * (1 + 1e-15):
        return float(0.5 * t[k] + 0.5 * t[k + 1])
    return float(t[k])


def squared_hinge_bias(t: Array, positive: NDArray[np.bool_], cost: Array) -> float:
    """Exactly, for the squared hinge: the weighted mean of the active breakpoints."""
    order = np.argsort(t, kind="stable")
    t, positive, cost = t[order], positive[order], cost[order]
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


def convex_bias(slope: Callable[[float], float], t: Array) -> float:
    """For any convex loss: the root of its slope, which never falls, from the breakpoints on.

    By the rule of false position with Illinois' weights; halving where that gets nowhere, at jumps.
    """
    low, high = float(t.min()) - 1.0, float(t.max()) + 1.0
    at_low, at_high = slope(low), slope(high)
    for _ in range(60):
        if at_low <= 0:
            break
        low, high, at_high = low - (high - low), low, at_low
        at_low = slope(low)
    for _ in range(60):
        if at_high >= 0:
            break
        low, high, at_low = high, high + (high - low), at_high
        at_high = slope(high)
    for k in range(200):
        if at_low == 0 or at_high == 0 or not low < 0.5 * (low + high) < high:
            break
        guess = low - at_low * (high - low) / (at_high - at_low)
        b = guess if k % 3 and low < guess < high else 0.5 * (low + high)
        found = slope(b)
        if found < 0:
            low, at_low, at_high = b, found, at_high if k % 3 == 0 else 0.5 * at_high
        else:
            high, at_high, at_low = b, found, at_low if k % 3 == 0 else 0.5 * at_low
    return low if at_low == 0 else high if at_high == 0 else 0.5 * (low + high)


def widest_bias(scores: Array, y: Array, cost: Array) -> float:
    """The hard margin: halfway between the classes."""
    up, down = (cost > 0) & (y > 0), (cost > 0) & (y < 0)
    if not (up.any() and down.any()):
        empty = "-1" if up.any() else "+1"
        raise ValueError(
            f"a hard margin with a free bias needs rows of both classes, but all rows of class "
            f"{empty} have weight 0"
        )
    return float(-(scores[up].min() + scores[down].max()) / 2)
