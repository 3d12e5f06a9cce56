"""LinearSVC on rows that are on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridle.data.arrow import ArrowRows
from bridle.estimators.base import seed_from
from bridle.fitting.stored import StoredRows
from bridle.solving.many import without_dual

if TYPE_CHECKING:
    from bridle.estimators.linear import LinearSVC

# What needs all rows, or a number for each of them, in memory: the parameter and what it may be.
_ELSEWHERE: dict[str, tuple[Any, ...]] = {
    "multi_class": ("ovr",), "class_weight": (None,), "warm_start": (False,),
    "store_dual": (None, False), "probability": (False,), "sparse_coef": (False,),
    "early_stopping": (False,),
}  # fmt: skip


def is_stored(X: Any) -> bool:
    """Whether these rows are on disk."""
    return isinstance(X, StoredRows | ArrowRows)


def fit_stored(estimator: LinearSVC, rows: Any, y: Any, sample_weight: Any) -> None:
    """Train on the rows of a file, with the labels and weights that it has."""
    stored = rows if isinstance(rows, StoredRows) else StoredRows(rows)
    if y is not None or sample_weight is not None:
        raise ValueError(
            f"{stored.source.path}: labels and weights are columns of the file; y and "
            "sample_weight must be None"
        )
    for name, value in estimator.get_params().items():
        if name in _ELSEWHERE and value not in _ELSEWHERE[name]:
            raise ValueError(f"{name}={value!r} needs the rows in memory; these are on disk")
    found = stored.solve(
        estimator.C, loss=estimator.loss, bias=estimator._bias(),
        bias_scale=estimator.intercept_scaling, solver=estimator.solver, stop=estimator._stop(),
        watch=estimator._watcher(stored.classes), seed=seed_from(estimator.random_state),
        n_threads=estimator.n_threads, keep=without_dual,
    )  # fmt: skip
    estimator.n_features_in_ = stored.shape[1]
    for name in ("dual_coef_", "calibrators_", "feature_names_in_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    estimator._keep_certificates(found, stored.classes)
    estimator.coef_ = found.coef
    estimator.weighted_ = stored.weight is not None
    estimator._warn()
