"""How right answers are: what is measured of labels, and of numbers.

    of a loss of margins      error                      the share of rows with another label
    of a loss of residuals    mean_absolute_error, mean_squared_error, r2, and mean_loss, its own
    of one class              outside                    the share of rows that do not belong, and
                                                         error where the labels are 1 and -1

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


def of_one_class(said: ArrayLike, truth: ArrayLike | None = None) -> Measures:
    """Of +1 where a row belongs and -1 elsewhere; labels of other kinds say nothing of that."""
    found = {"outside": float(np.mean(np.asarray(said) < 0))}
    if truth is None or not np.isin(truth, (-1, 1)).all():
        return found
    return of_labels(said, truth) | found


def headline(loss: Loss) -> str:
    """The measure to show where there is room for one."""
    if loss.one_class:
        return "outside"
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
    if loss.one_class:
        return of_one_class(np.where(np.asarray(scores) >= 0, 1, -1))
    return of_labels(np.asarray(scores) > 0, np.asarray(y) > 0, weights)
