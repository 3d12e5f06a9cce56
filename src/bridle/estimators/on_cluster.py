"""LinearSVC on a cluster."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from bridle.estimators.base import seed_from, with_class_weight
from bridle.fitting.cluster import gathered, positives, solve_classes
from bridle.fitting.one_vs_rest import OneVsRest
from bridle.problems.distributed import DistributedProblem
from bridle.rows.cluster.dask_rows import DaskRows, as_rows

# What needs all rows in one place, and what to do instead.
_REFUSED = {
    "probability": "calibration needs scores of rows by models that have not seen them; calibrate "
    "the fitted model on rows of its own with CalibratedClassifierCV",
    "early_stopping": "rows that are held out would have to be so on their workers; stop at `tol`, "
    "`max_iter` or `max_seconds`",
    "sparse_coef": "the weights arrive dense; call `sparsify()` after the fit",
    "multi_class": "the classes are solved one against the rest",
}


def fit_linear_svc(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a LinearSVC on rows that are on a cluster."""
    _refuse(estimator, X)
    rows = as_rows(X, y, sample_weight)
    problem = DistributedProblem(
        rows, estimator.C, loss=estimator.loss, bias=estimator._bias(),
        bias_scale=estimator.intercept_scaling,
    )  # fmt: skip
    facts = problem.facts
    problem.class_weight = class_weights(estimator.class_weight, facts.classes, facts.weights)
    found = solve_classes(
        problem, estimator.solver, stop=estimator._stop(), seed=seed_from(estimator.random_state),
        watch=estimator._watcher(facts.classes), start=_starts(estimator, problem),
    )  # fmt: skip
    estimator.n_features_in_ = facts.n_features
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if rows.feature_names is not None:
        estimator.feature_names_in_ = np.array(rows.feature_names, dtype=object)
    stored, estimator.store_dual = estimator.store_dual, False
    try:
        estimator._keep(found, facts.classes, np.empty(0, np.intp), None)
    finally:
        estimator.store_dual = stored
    estimator.coef_ = found.coef
    if stored:
        _store_dual(estimator, problem, found)
    estimator.weighted_ = facts.weighted or estimator.class_weight is not None
    rows.solved = found.solutions if estimator.warm_start else ()
    estimator.cluster_ = rows
    estimator._warn()


def _starts(estimator: Any, problem: DistributedProblem) -> list[Any] | None:
    """The last fit's solutions, whose dual variables are still with the rows."""
    parts: Any = problem.parts
    fitted_here = bool(getattr(estimator, "cluster_", None) is parts)
    if not estimator.warm_start or not fitted_here:
        return None
    solutions = parts.solved
    same = np.array_equal(estimator.classes_, problem.classes)
    if not same or not solutions or any(solution.alpha.lost for solution in solutions):
        return None
    return [replace(s, alpha=problem.rescaled(s.alpha, problem.C)) for s in solutions]


def class_weights(wanted: Any, classes: Any, weights: Any) -> tuple[float, ...] | None:
    """The weight of each class: as on one machine, from the total weight of its rows."""
    if wanted is None:
        return None
    per_row = with_class_weight(weights, wanted, classes, np.arange(len(classes)))
    assert per_row is not None
    return tuple((per_row / weights).tolist())


def _store_dual(estimator: Any, problem: DistributedProblem, found: OneVsRest) -> None:
    alpha, lost = gathered(found)
    if alpha is None:
        warnings.warn(f"there is no dual_coef_: {lost}", RuntimeWarning, stacklevel=4)
        return
    codes = np.concatenate(problem.ask("codes"))
    estimator.dual_coef_ = np.stack([
        np.where(codes == k, 1.0, -1.0) * own
        for k, own in zip(positives(problem), alpha, strict=True)
    ])  # fmt: skip


def _refuse(estimator: Any, X: Any) -> None:
    for name, reason in _REFUSED.items():
        value = getattr(estimator, name)
        if value not in (False, "ovr"):
            raise ValueError(f"{name}={value!r} is not available on a cluster: {reason}")
    if not np.isfinite(estimator.C):
        raise ValueError("C=inf is not available on a cluster: its dual variables have no bounds")
    if estimator.warm_start and not isinstance(X, DaskRows):
        raise ValueError(
            "warm_start=True on a cluster needs DaskRows, whose dual variables stay there between "
            "fits: fit(DaskRows(client, X, y))"
        )


def on_blocks(method: Callable[[Any], Any], X: Any, dtype: Any, width: int | None) -> Any:
    """A method of a fitted estimator on the blocks of a dask Array, DataFrame or Bag: lazily.

    width: of the result's rows; None for one number or label each.
    """
    if isinstance(X, DaskRows):
        raise TypeError("DaskRows are for `fit`: predict from a dask Array, DataFrame or Bag")
    if hasattr(X, "rechunk"):
        blocks = X.rechunk({1: -1})
        if width is None:
            return blocks.map_blocks(method, drop_axis=1, meta=np.empty(0, dtype))
        chunks = (blocks.chunks[0], (width,))
        return blocks.map_blocks(method, chunks=chunks, meta=np.empty((0, 0), dtype))
    if hasattr(X, "columns"):
        dask, array = _dask(), _dask("array")
        shape = (np.nan,) if width is None else (np.nan, width)
        parts = [dask.delayed(method)(part) for part in X.to_delayed()]
        return array.concatenate([array.from_delayed(part, shape, dtype) for part in parts])
    return X.map(method)


def score(predicted: Any, y: Any, sample_weight: Any) -> float:
    """The accuracy of lazy predictions, computed now."""
    found, labels, weight = (_dask().compute(part)[0] for part in (predicted, y, sample_weight))
    if isinstance(found, list):  # of bags
        found, labels = np.concatenate(found), np.concatenate(labels)
        weight = None if weight is None else np.concatenate(weight)
    return float(np.average(np.asarray(found) == np.asarray(labels), weights=weight))


def _dask(module: str | None = None) -> Any:
    return importlib.import_module("dask" if module is None else f"dask.{module}")
