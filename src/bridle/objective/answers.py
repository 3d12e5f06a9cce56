"""How right answers are: what is measured of labels, and of numbers.

    of a loss of margins      error                      the share of rows with another label
    of a loss of residuals    mean_absolute_error, mean_squared_error, r2, and mean_loss, its own

A measure is better if it is less, but for r2.
"""

from __future__ import annotations

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss
from numpy.typing import ArrayLike

Measures = dict[str, float]


def of_labels(said: ArrayLike, truth: ArrayLike, weights: Array | None = None) -> Measures:
    """Of labels, in whatever form both are."""
    return {"error": float(np.average(np.asarray(said) != np.asarray(truth), weights=weights))}


def of_numbers(
    said: ArrayLike, truth: ArrayLike, loss: Loss, weights: Array | None = None
) -> Measures:
    """Of numbers; r2 is 1 less the squared error over that of the mean of the truth."""
    truth = np.asarray(truth, np.float64)
    residuals = np.asarray(said, np.float64) - truth

    def mean(values: Array) -> float:
        return float(np.average(values, weights=weights))

    squared, spread = mean(residuals**2), mean((truth - mean(truth)) ** 2)
    return {
        "mean_absolute_error": mean(np.abs(residuals)), "mean_squared_error": squared,
        "r2": 1.0 - squared / spread if spread > 0 else float(squared == 0),
        "mean_loss": mean(loss.value(residuals)),
    }  # fmt: skip


def headline(loss: Loss) -> str:
    """The measure to show where there is room for one."""
    return "mean_absolute_error" if loss.residual else "error"


def score(measures: Measures) -> float:
    """What to choose by: the more, the better."""
    return -measures["error"] if "error" in measures else -measures["mean_loss"]


def of_scores(
    loss: Loss, scores: ArrayLike, y: ArrayLike, weights: Array | None = None
) -> Measures:
    """Of what w.x + b says: y are signs, or targets where the loss is of residuals."""
    if loss.residual:
        return of_numbers(scores, y, loss, weights)
    return of_labels(np.asarray(scores) > 0, np.asarray(y) > 0, weights)
