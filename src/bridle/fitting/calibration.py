"""Maps from scores to probabilities, fitted to scores of rows by models that have not seen them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bridle.fitting.folds import HeldOut, without_folds, without_folds_on_cluster
from bridle.fitting.labels import Labels
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import ClusterProblems, Task
from bridle.matrix.arrays import Array
from bridle.models.calibration import METHODS, Calibrator, Monotone, SigmoidMap
from bridle.models.deciding import pairs
from bridle.solving.many import Watcher
from numpy.typing import NDArray


def fit_calibrator(
    method: str, scores: Array, positive: NDArray[np.bool_], weights: Array
) -> Calibrator:
    """The map from these scores to the probability of `positive`; rows count by their weights."""
    if method == "platt":
        return _fit_sigmoid(scores, positive, weights)
    if method == "isotonic":
        return _fit_monotone(scores, positive, weights)
    raise ValueError(f"probability must be one of {METHODS} or False, got {method!r}")


@dataclass(frozen=True)
class Calibration:
    """How to get probabilities: from the scores of rows by models without their fold.

    watch: sees the records of these models' problems, as in `Effort`.
    """

    method: str
    watch: Watcher | None = None
    folds: int = 5

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"probability must be one of {METHODS} or False, got {self.method!r}")

    def fitted(
        self, X: Any, labels: Labels, weights: Array | None, task: Task, effort: Effort
    ) -> Calibrated | None:
        """The maps, or None if Ctrl-C came before all folds were solved."""
        began, effort = time.perf_counter(), replace(effort, watch=self.watch, checkpoint=None)
        held, counts = without_folds(
            X, labels, weights, task, effort, self.folds, lone=task.kernel is not None
        )
        assert labels.codes is not None
        return self._of(held, labels.codes, counts, labels.n_classes, task.multi_class, began)

    def fitted_on_cluster(self, problems: ClusterProblems, effort: Effort) -> Calibrated | None:
        """The same of rows on a cluster: the folds are of every part, the scores come here."""
        began, effort = time.perf_counter(), replace(effort, watch=self.watch, checkpoint=None)
        held, codes, counts = without_folds_on_cluster(problems, effort, self.folds)
        return self._of(held, codes, counts, problems.labels.n_classes, "ovr", began)

    def _of(
        self, held: HeldOut, codes: NDArray[np.intp], counts: Array, n_classes: int,
        multi_class: str, began: float,
    ) -> Calibrated | None:  # fmt: skip
        if held.interrupted:
            return None
        found = fit_calibrators(self.method, held.scores, codes, n_classes, multi_class, counts)
        seconds = time.perf_counter() - began
        return Calibrated(found, held.worst_gap, held.message, seconds)


@dataclass(frozen=True)
class Calibrated:
    """The map of each decision function, and the largest gap of any fold, with its message."""

    calibrators: list[Calibrator]
    worst_gap: float
    message: str
    seconds: float


def fit_calibrators(
    method: str,
    scores: Array,
    codes: NDArray[np.intp],
    n_classes: int,
    multi_class: str,
    weights: Array,
) -> list[Calibrator]:
    """One for each decision function, from held-out scores; rows of weight zero do not count."""
    found = []
    for k in range(scores.shape[1]):
        used, positive = weights > 0, 1 if n_classes == 2 else k
        if multi_class == "ovo":
            positive, negative = pairs(n_classes)[k]
            used = used & ((codes == positive) | (codes == negative))
        found.append(
            fit_calibrator(method, scores[used, k], codes[used] == positive, weights[used])
        )
    return found


def _fit_sigmoid(scores: Array, positive: NDArray[np.bool_], weights: Array) -> SigmoidMap:
    """Newton's method on the cross-entropy to the smoothed targets, which is convex in (a, b)."""
    n_positive, n_negative = float(weights[positive].sum()), float(weights[~positive].sum())
    target = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    scale = float(np.abs(scores).max(initial=0.0)) or 1.0  # the Hessian's condition
    f = scores / scale

    def cost(a: float, b: float) -> float:
        z = a * f + b
        return float(weights @ (np.logaddexp(0.0, z) - target * z))

    a, b = 0.0, float(np.log((n_positive + 1) / (n_negative + 1)))
    value = cost(a, b)
    for _ in range(100):
        p = 0.5 * (1.0 + np.tanh(0.5 * (a * f + b)))
        slope, curve = weights * (p - target), weights * p * (1 - p)
        gradient = np.array([slope @ f, slope.sum()])
        if np.abs(gradient).max() <= 1e-9 * weights.sum():
            break
        cross = curve @ f
        hessian = np.array([[curve @ f**2, cross], [cross, curve.sum()]])
        step = np.linalg.solve(hessian + 1e-12 * weights.sum() * np.eye(2), -gradient)
        size, slack = 1.0, 1e-4 * float(gradient @ step)
        while size > 1e-10:
            new = cost(a + size * step[0], b + size * step[1])
            if new <= value + size * slack:
                break
            size /= 2
        else:
            break  # at the limit of precision
        a, b, value = a + size * step[0], b + size * step[1], new
    return SigmoidMap(float(a / scale), float(b))


def _fit_monotone(scores: Array, positive: NDArray[np.bool_], weights: Array) -> Monotone:
    """Pool adjacent violators: neighbours out of order are merged into their mean."""
    used = weights > 0
    # Support vectors have margin 1 but for rounding: such scores count as equal, everywhere.
    size = float(np.abs(scores[used]).max(initial=0.0)) or 1.0
    x, inverse = np.unique(np.round(scores[used] / size, 12), return_inverse=True)
    mass = np.bincount(inverse, weights[used])
    mean = np.bincount(inverse, weights[used] * positive[used]) / mass
    blocks: list[tuple[float, float, int]] = []  # value, weight, how many scores
    for value, weight in zip(mean.tolist(), mass.tolist(), strict=True):
        count = 1
        while blocks and blocks[-1][0] >= value:
            v, w, n = blocks.pop()
            value, weight = (v * w + value * weight) / (w + weight), w + weight  # noqa: PLW2901
            count += n
        blocks.append((value, weight, count))
    y = np.repeat([b[0] for b in blocks], [b[2] for b in blocks])
    inner = (y[1:-1] == y[:-2]) & (y[1:-1] == y[2:])  # between equals: no knot
    kept = np.concatenate([[True], ~inner, [True]])[: len(y)]
    return Monotone(x[kept] * size, y[kept])
