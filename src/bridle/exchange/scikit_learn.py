"""scikit-learn's LinearSVC: the same weights there, and back with a certificate."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from bridle.matrix.fingerprint import fingerprint
from bridle.models.header import Objective
from bridle.models.linear import LinearModel
from bridle.models.storage import as_model
from bridle.objective.certificate import UNCERTIFIED
from numpy.typing import ArrayLike


def to_sklearn(model: Any) -> Any:
    """A fitted sklearn.svm.LinearSVC with the weights of a model or a fitted estimator.

    Examples
    --------
    >>> model = bridle.LinearSVC().fit([[0.0], [1.0]], [-1, 1])
    >>> type(bridle.to_sklearn(model)).__module__
    'sklearn.svm._classes'
    """
    from sklearn.svm import LinearSVC

    model = as_model(model)
    if not isinstance(model, LinearModel):
        raise TypeError(f"needs a linear model, got one of kind {model.kind!r}")
    if model.multi_class == "ovo":
        raise ValueError("scikit-learn's LinearSVC has one function for each class, not pairs")
    model, objective = model.dense(), model.objective
    peer = LinearSVC(
        C=objective.C, loss=objective.loss, fit_intercept=objective.bias != "none",
        intercept_scaling=objective.bias_scale, multi_class=model.multi_class,
    )  # fmt: skip
    peer.coef_, peer.intercept_ = model.dense().coef.copy(), model.intercept.copy()
    peer.classes_, peer.n_features_in_ = model.classes, model.n_features
    peer.n_iter_ = 0
    if "feature_names" in model.info:
        peer.feature_names_in_ = np.array(model.info["feature_names"], dtype=object)
    return peer


def _row_weights(sample_weight: ArrayLike | None) -> dict[str, Any]:
    """For compute_class_weight: "balanced" counts rows by their weights since scikit-learn 1.7."""
    from sklearn.utils.class_weight import compute_class_weight

    counts = "sample_weight" in signature(compute_class_weight).parameters
    return {"sample_weight": sample_weight} if counts else {}


def from_sklearn(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    max_seconds: float = 60.0,
    n_threads: int | None = None,
) -> LinearModel:
    """The weights of a fitted sklearn.svm.LinearSVC, certified on the data it was trained on.

    Its class weights weigh a class in its own problem against the rest, as in LIBLINEAR. The time
    is for all classes together.

    Examples
    --------
    >>> import sklearn.svm
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> model = bridle.from_sklearn(sklearn.svm.LinearSVC(C=0.1).fit(X, y), X, y)
    >>> model.certificate.relative_gap < 0.01
    True
    """
    from bridle.fitting.certification import certify_model
    from sklearn.svm import LinearSVC
    from sklearn.utils.class_weight import compute_class_weight

    if not isinstance(estimator, LinearSVC) or not hasattr(estimator, "coef_"):
        raise TypeError(
            f"needs a fitted sklearn.svm.LinearSVC, got {type(estimator).__name__}; "
            "bridle.certify takes weights from anywhere"
        )
    if estimator.penalty != "l2":
        raise ValueError(f"penalty={estimator.penalty!r}: only the l2 penalty is bridle's")
    classes = estimator.classes_
    codes = np.searchsorted(classes, y)
    if not np.array_equal(classes[np.minimum(codes, len(classes) - 1)], y):
        raise ValueError("y has labels that the estimator was not trained on")
    balance = compute_class_weight(
        estimator.class_weight, classes=classes, y=np.asarray(y), **_row_weights(sample_weight)
    )
    objective = Objective(
        "hinge" if estimator.multi_class == "crammer_singer" else estimator.loss,
        float(estimator.C), "regularised" if estimator.fit_intercept else "none",
        float(estimator.intercept_scaling),
        weighted=sample_weight is not None,
    )  # fmt: skip
    jointly = estimator.multi_class == "crammer_singer"
    coef = np.asarray(estimator.coef_, np.float64)
    intercept = np.broadcast_to(np.asarray(estimator.intercept_, np.float64), len(coef)).copy()
    names = getattr(estimator, "feature_names_in_", None)
    model = LinearModel(
        coef=coef,
        intercept=intercept,
        classes=classes,
        objective=objective,
        certificates=(UNCERTIFIED,) * (1 if jointly else len(coef)),
        fingerprint=fingerprint(X, y),
        n_rows=len(codes),
        multi_class=estimator.multi_class,
        info={"solver": "scikit-learn LinearSVC"}
        | ({} if names is None else {"feature_names": [str(name) for name in names]})
        | ({} if estimator.class_weight is None else {"class_weight": balance.tolist()}),
    )
    certificates = certify_model(
        model, X, y, sample_weight=sample_weight, max_seconds=max_seconds, n_threads=n_threads
    )
    return replace(model, certificates=certificates)
