"""LinearSVC on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.distributed.cluster import as_rows
from bridle.distributed.problem import DistributedProblem, ResidentAlpha
from bridle.distributed.solving import solve_classes
from bridle.estimators.base import seed_from, with_class_weight
from bridle.ovr import OneVsRest


def fit_linear_svc(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a LinearSVC on rows that are on a cluster."""
    _refuse(estimator)
    rows = as_rows(X, y, sample_weight)
    problem = DistributedProblem(
        rows, estimator.C, loss=estimator.loss, bias=estimator._bias(),
        bias_scale=estimator.intercept_scaling,
    )  # fmt: skip
    facts = problem.facts
    problem.class_weight = class_weights(estimator.class_weight, facts.classes, facts.weights)
    found = solve_classes(
        problem, estimator.solver, stop=estimator._stop(), seed=seed_from(estimator.random_state),
        watch=estimator._watcher(facts.classes),
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
        estimator.dual_coef_ = _gathered(problem, found)
    estimator.weighted_ = facts.weighted or estimator.class_weight is not None
    estimator.cluster_ = rows
    estimator._warn()


def class_weights(wanted: Any, classes: Any, weights: Any) -> tuple[float, ...] | None:
    """The weight of each class: as on one machine, from the total weight of its rows."""
    if wanted is None:
        return None
    per_row = with_class_weight(weights, wanted, classes, np.arange(len(classes)))
    assert per_row is not None
    return tuple((per_row / weights).tolist())


def _gathered(problem: DistributedProblem, found: OneVsRest) -> Any:
    codes = np.concatenate(problem.ask("codes"))
    positives = [1] if len(problem.classes) == 2 else range(len(problem.classes))
    signed = []
    for k, solution in zip(positives, found.solutions, strict=True):
        alpha: Any = solution.alpha
        assert isinstance(alpha, ResidentAlpha)
        signed.append(np.where(codes == k, 1.0, -1.0) * np.asarray(alpha))
    return np.stack(signed)


def _refuse(estimator: Any) -> None:
    """What needs all rows in one place."""
    wrong = {
        "probability": estimator.probability is not False,
        "early_stopping": estimator.early_stopping,
        "warm_start": estimator.warm_start,
        "sparse_coef": estimator.sparse_coef,
        "multi_class": estimator.multi_class != "ovr",
    }
    for name, asked in wrong.items():
        if asked:
            raise ValueError(f"{name}={getattr(estimator, name)!r} is not available on a cluster")
