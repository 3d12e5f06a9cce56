"""From scores to probabilities: Platt's sigmoid, or a monotone staircase (isotonic regression).

    sigmoid:   p(f) = 1 / (1 + exp(-(slope f + offset)))
    isotonic:  the non-decreasing p(f) that is closest to the 0/1 targets in squares

Both are fitted to scores of rows that the scoring model has not seen: on its own training rows an
SVM's margins are pushed to 1, and probabilities fitted there are too sure of themselves.

Platt, "Probabilistic outputs for support vector machines", 1999; the fit is Newton's method with
his smoothed targets, as in Lin, Lin & Weng, "A note on Platt's probabilistic outputs", 2007.
Zadrozny & Elkan, "Transforming classifier scores into accurate multiclass probability estimates",
KDD 2002, for the isotonic map and for normalising one-versus-rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from bridle.matrix.arrays import Array
from bridle.models.deciding import pairs

Method = Literal["platt", "isotonic"]
METHODS = ("platt", "isotonic")


class Calibrator(Protocol):
    """A map from scores to the probability of the positive class."""

    def __call__(self, scores: Array) -> Array:
        """A probability for each score."""

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON, for `calibrator_from`."""


@dataclass(frozen=True)
class SigmoidMap:
    """Platt's: 1 / (1 + exp(-(slope f + offset)))."""

    slope: float
    offset: float

    def __call__(self, scores: Array) -> Array:
        """A probability for each score."""
        return 0.5 * (1.0 + np.tanh(0.5 * (self.slope * scores + self.offset)))

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"method": "platt", "slope": self.slope, "offset": self.offset}


def own_probabilities(n_functions: int) -> list[dict[str, Any]]:
    """The maps of functions whose scores are probabilities already: sigmoids as they are."""
    return [SigmoidMap(1.0, 0.0).as_dict()] * n_functions


@dataclass(frozen=True)
class Monotone:
    """Linear between knots, constant beyond them."""

    scores: Array
    probabilities: Array

    def __call__(self, scores: Array) -> Array:
        """A probability for each score."""
        return np.interp(scores, self.scores, self.probabilities)

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "method": "isotonic",
            "scores": self.scores.tolist(),
            "probabilities": self.probabilities.tolist(),
        }


def calibrator_from(entry: Mapping[str, Any]) -> Calibrator:
    """What `as_dict` wrote."""
    if entry["method"] == "platt":
        return SigmoidMap(float(entry["slope"]), float(entry["offset"]))
    if entry["method"] == "isotonic":
        knots = np.asarray(entry["scores"], np.float64), np.asarray(entry["probabilities"], float)
        if knots[0].ndim != 1 or knots[0].shape != knots[1].shape or not len(knots[0]):
            raise ValueError("the knots of a calibration do not fit together")
        if (np.diff(knots[0]) < 0).any() or not ((knots[1] >= 0) & (knots[1] <= 1)).all():
            raise ValueError("the knots of a calibration are out of order, or no probabilities")
        return Monotone(*knots)
    raise ValueError(f"unknown calibration: {entry['method']!r:.40}")


def class_probabilities(
    calibrators: Sequence[Calibrator], scores: Array, n_classes: int, multi_class: str
) -> Array:
    """One row per row of function scores, which sums to 1."""
    if multi_class == "multinomial" and n_classes > 2:  # whose scores are log-odds of each other
        return softmax(scores)
    if multi_class == "ovo" and n_classes > 2:
        return coupled(calibrators, scores, pairs(n_classes))
    return probabilities(calibrators, scores)


def softmax(scores: Array) -> Array:
    """Of each row: exp of its scores, divided by the sum."""
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def probabilities(calibrators: Sequence[Calibrator], scores: Array) -> Array:
    """One row per score row, which sums to 1.

    Two classes have one calibrator, of the second class; more have one each, and what they say is
    divided by its sum. Where all say 0, every class is as likely as any other.
    """
    if len(calibrators) == 1:
        second = calibrators[0](scores.reshape(-1))
        return np.stack([1.0 - second, second], axis=1)
    each = np.stack([c(scores[:, k]) for k, c in enumerate(calibrators)], axis=1)
    total = each.sum(axis=1, keepdims=True)
    uniform = np.full_like(each, 1.0 / len(calibrators))
    return np.asarray(np.divide(each, total, out=uniform, where=total > 0))


def coupled(
    calibrators: Sequence[Calibrator], scores: Array, pairs: Sequence[tuple[int, int]]
) -> Array:
    """One row per score row, which sums to 1, from the probabilities of pairs of classes.

    r_ij is what pair (i, j) gives to class i, and p should be such that r_ji p_i = r_ij p_j:

        min_p  sum_{i < j} (r_ji p_i - r_ij p_j)^2,   sum_i p_i = 1,

    a linear system, whose solution is not negative (Wu, Lin & Weng, "Probability estimates for
    multi-class classification by pairwise coupling", JMLR 2004).
    """
    n_classes = 1 + max(j for _, j in pairs)
    result = np.empty((len(scores), n_classes))
    step = max(1, 2**20 // (n_classes + 1) ** 2)
    for begin in range(0, len(scores), step):
        part = scores[begin : begin + step]
        r = np.zeros((len(part), n_classes, n_classes))
        for k, (i, j) in enumerate(pairs):
            # Never quite 0 or 1: two sure pairs that contradict each other have no common p.
            r[:, i, j] = np.clip(calibrators[k](part[:, k]), 1e-7, 1 - 1e-7)
            r[:, j, i] = 1.0 - r[:, i, j]
        system = np.zeros((len(part), n_classes + 1, n_classes + 1))
        system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
        diagonal = np.arange(n_classes)
        system[:, diagonal, diagonal] = (r**2).sum(axis=1)
        system[:, -1, :-1] = system[:, :-1, -1] = 1.0
        right = np.zeros((len(part), n_classes + 1, 1))
        right[:, -1] = 1.0
        p = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], 0.0)
        result[begin : begin + step] = p / p.sum(axis=1, keepdims=True)
    return result
