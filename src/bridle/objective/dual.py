"""Moves of dual points: to another C, and to sum alpha_i y_i = 0."""

from __future__ import annotations

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss


def rescaled(alpha: Array, lower: Array | float, upper: Array, ratio: float, loss: Loss) -> Array:
    """Dual variables of a problem for `ratio` times its C, where these are their bounds."""
    if not loss.bounded_dual:
        return alpha
    inside = np.clip(alpha, lower, upper)
    raised = np.where((alpha >= upper / ratio * (1 - 1e-6)) & (upper > 0), upper, inside)
    lowered = (alpha <= lower / ratio * (1 - 1e-6)) & (np.asarray(lower) < 0)
    return np.where(lowered, lower, raised)


def balanced(alpha: Array, y: Array) -> Array:
    """alpha with the heavier class (the heavier sign of alpha_i y_i) scaled down to balance them.

    Then sum alpha_i y_i = 0.
    """
    signed = alpha * y
    positive = signed > 0
    up, down = float(signed[positive].sum()), -float(signed[~positive].sum())
    if up == down:
        return alpha
    target = min(up, down)
    return alpha * np.where(positive, _ratio(target, up), _ratio(target, down))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0
