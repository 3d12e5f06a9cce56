"""A check that a loss tells the truth about itself."""

from __future__ import annotations

import numpy as np
from bridle.errors import LossError
from bridle.matrix.arrays import Array
from bridle.objective.losses.base import Loss

# Margins that are tried: around the kinks that losses have, and far out.
MARGINS = np.concatenate([np.linspace(-4.0, 4.0, 161), [-1000.0, -30.0, 30.0, 1000.0]])
COSTS = (0.1, 1.0, 7.0)
ROUNDING = 1e-7


def check_loss(loss: Loss) -> None:
    """LossError names the loss and says what is wrong with it, if anything is found.

    Looked at on a grid of margins and costs: `value` is convex, not negative, and never rises (or
    is least at 0, of residuals); `slope` is minus its subgradient; C slope lies within the box;
    `dual_value` is the least of C value(p) + alpha p over all p, at slopes and between them.

    Examples
    --------
    >>> bridle.check_loss(bridle.SquaredHinge())  # an error says what is wrong
    """
    p = np.unique(np.append(MARGINS, loss.target))
    value, slope = _numbers(loss, "value", p), _numbers(loss, "slope", p)
    if (value < -ROUNDING).any():
        _refuse(loss, f"value({p[value.argmin()]:g}) is negative: {value.min():g}")
    lines = value[:, None] - slope[:, None] * (p[None, :] - p[:, None])  # tangents at each p
    over = lines - value[None, :] - ROUNDING * (1.0 + np.abs(lines) + np.abs(value[None, :]))
    if (over > 0).any():
        i, j = np.unravel_index(over.argmax(), over.shape)
        _refuse(
            loss,
            f"value is not convex, or slope is not minus its slope: from p = {p[i]:g}, where the "
            f"value is {value[i]:g} and the slope {slope[i]:g}, the line to p = {p[j]:g} ends at "
            f"{lines[i, j]:g}, above the value {value[j]:g}",
        )
    if loss.residual and value[p == 0] > value.min() + ROUNDING:
        _refuse(loss, "a loss of residuals must be least at 0")
    if not loss.residual and (slope < -ROUNDING).any():
        _refuse(loss, f"it rises at p = {p[slope.argmin()]:g}: a loss of margins never does")
    for cost in COSTS:
        _check_dual(loss, p, value, slope, cost)


def _check_dual(loss: Loss, p: Array, value: Array, slope: Array, cost: float) -> None:
    one = np.array([cost])
    lower, upper = float(np.min(loss.lower(one))), float(np.max(loss.upper(one)))
    alphas = np.unique(cost * slope)
    if alphas[0] < lower - ROUNDING * cost or alphas[-1] > upper + ROUNDING * cost:
        _refuse(
            loss,
            f"at a cost of {cost:g} the slopes times it reach from {alphas[0]:g} to "
            f"{alphas[-1]:g}, but the box from {lower:g} to {upper:g}",
        )
    between = np.unique(np.concatenate([alphas, 0.5 * (alphas[:-1] + alphas[1:])]))
    for alpha in np.clip(between, lower, upper):
        given = float(loss.dual_value(np.array([alpha]), one))
        least = float((cost * value + alpha * p).min())
        if given > least + ROUNDING * (1.0 + abs(least)):
            _refuse(
                loss,
                f"dual_value({alpha:g}) at a cost of {cost:g} is {given:g}, above {least:g}, which "
                f"C value(p) + alpha p comes to at some p",
            )
    at = cost * slope
    tight = np.array(
        [float(loss.dual_value(np.array([a]), one)) for a in np.clip(at, lower, upper)]
    )
    reached = cost * value + at * p
    short = reached - tight - ROUNDING * (1.0 + np.abs(reached) + np.abs(at * p))
    if (short > 0).any():
        i = int(short.argmax())
        _refuse(
            loss,
            f"dual_value({at[i]:g}) at a cost of {cost:g} is {tight[i]:g}, less than the "
            f"{reached[i]:g} that it is: no gap would ever be reached",
        )


def _numbers(loss: Loss, name: str, p: Array) -> Array:
    found = np.asarray(getattr(loss, name)(p), np.float64)
    if found.shape != p.shape:
        _refuse(loss, f"{name} of {p.shape} margins has the shape {found.shape}")
    if not np.isfinite(found).all():
        _refuse(loss, f"{name}({p[~np.isfinite(found)][0]:g}) is no finite number")
    return found


def _refuse(loss: Loss, what: str) -> None:
    raise LossError(f"the loss {loss.name!r}: {what}")
