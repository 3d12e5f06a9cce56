"""The kinds of bias, and the best intercept for given scores: min_b sum_i C_i loss(y_i (s_i + b)).

bias "none": b = 0. "regularised": a constant feature, part of |w|^2. "free": b is not penalised.

Each row has one breakpoint, t_i = target y_i - s_i, where its margin reaches the loss's target (1,
or 0 for the perceptron's loss). Rows of class +1 pay for b < t_i, rows of class -1 for b > t_i.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np
from bridle.matrix.arrays import Array
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.objective.losses import Loss

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


def held_bias(loss: Loss, y: Array, cost: Array, scores: Array, excess: float) -> float:
    """The free b to hold for an epoch of steps in w: the best for these scores, but for a debt.

    Steps in w at the best b are steps on min_b P(w, b), whose slope in w is that of P but for the
    part with which the row at its kink enters; and w moves on within the epoch. So the classes do
    not pull alike to the last row, and would never in the end. excess: by how much C_i y_i was
    off 0 in sum over all updates so far, negated. The next epoch is to make up for it: then
    sum_i alpha_i y_i, of their mean, falls like 1/T.
    """
    if not loss.unit_slope:
        return loss.best_bias(scores, y, cost)
    return hinge_bias(loss.target * y - scores, y > 0, cost, excess)


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


# Of scores that are not at hand together, so many points are asked for at a time.
POINTS = 16


def narrowed_minimum(
    losses: Callable[[Array], tuple[Array, Array]],
    low: float,
    high: float,
    allowed: Callable[[float], float] = lambda value: 0.0,
) -> float:
    """Where a convex sum over rows that are elsewhere is least: by many points at a time.

    losses: the sums and their slopes at these points. low, high: between which, or near which, the
    minimum is. allowed: how much the result may be above it, by its value.
    """
    if not low <= high:  # no row costs anything
        return 0.0
    while True:
        points = np.linspace(low, high, POINTS)
        values, slopes = losses(points)
        best, width = int(values.argmin()), high - low
        if (slopes[0] > 0 or slopes[-1] < 0) and 0 < width < 1e6:
            low, high = low - width * (slopes[0] > 0), high + width * (slopes[-1] < 0)
            continue
        # The slope never falls: the minimum is where its sign changes.
        k = min(max(int(np.searchsorted(slopes, 0.0)), 1), POINTS - 1)
        low, high = float(points[k - 1]), float(points[k])
        left = float(values[best]) - _lowest(points, values, slopes, k)
        close = high - low <= 1e-12 * max(1.0, abs(low))
        if close or left <= allowed(float(values[best])):
            return float(points[best])


def _lowest(points: Array, values: Array, slopes: Array, k: int) -> float:
    """What a convex function can be at least between two points, by its tangents there."""
    a, c, fa, fc, sa, sc = (
        points[k - 1], points[k], values[k - 1], values[k], slopes[k - 1], slopes[k],
    )  # fmt: skip
    if sc <= sa:
        return float(min(fa, fc))
    x = min(max((fa - fc + sc * c - sa * a) / (sc - sa), a), c)
    return float(max(fa + sa * (x - a), fc + sc * (x - c)))


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
