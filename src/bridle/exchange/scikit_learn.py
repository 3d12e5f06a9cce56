"""scikit-learn's LinearSVC and LogisticRegression: the same weights there, and back, certified."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from bridle.matrix.fingerprint import fingerprint
from bridle.models.calibration import own_probabilities
from bridle.models.deciding import is_joint
from bridle.models.header import Objective
from bridle.models.linear import LinearModel
from bridle.models.storage import as_model
from bridle.objective.certificate import UNCERTIFIED
from numpy.typing import ArrayLike


def to_sklearn(model: Any) -> Any:
    """A fitted LinearSVC of scikit-learn, or a LogisticRegression, with the weights of a model.

    model: one of classes, or a fitted estimator.

    Examples
    --------
    >>> model = bridle.LinearSVC().fit([[0.0], [1.0]], [-1, 1])
    >>> type(bridle.to_sklearn(model)).__module__
    'sklearn.svm._classes'
    """
    model = as_model(model)
    if not isinstance(model, LinearModel):
        raise TypeError(f"needs a linear model of classes, got one of kind {model.kind!r}")
    if model.multi_class == "ovo":
        raise ValueError("scikit-learn has one function for each class here, not pairs")
    model = model.dense()
    peer = (_logistic if model.objective.formula.sigmoid else _machine)(model)
    peer.coef_, peer.intercept_ = model.coef.copy(), model.intercept.copy()
    peer.classes_, peer.n_features_in_ = model.classes, model.n_features
    if "feature_names" in model.info:
        peer.feature_names_in_ = np.array(model.info["feature_names"], dtype=object)
    return peer


def _machine(model: LinearModel) -> Any:
    from sklearn.svm import LinearSVC

    objective = model.objective
    if objective.loss not in ("hinge", "squared_hinge") or 0 < objective.l1_ratio < 1:
        raise ValueError(
            f"scikit-learn's LinearSVC has the hinge and its square, with an l2 or l1 penalty, not "
            f"the loss {objective.loss!r} with an l1_ratio of {objective.l1_ratio}"
        )
    peer = LinearSVC(
        objective.penalty["penalty"], loss=objective.loss, C=objective.C,
        fit_intercept=objective.bias != "none", intercept_scaling=objective.bias_scale,
        multi_class=model.multi_class, dual="auto",
    )  # fmt: skip
    peer.n_iter_ = 0
    return peer


def _logistic(model: LinearModel) -> Any:
    from sklearn.linear_model import LogisticRegression

    objective = model.objective
    if len(model.classes) > 2 and model.multi_class != "multinomial":
        raise ValueError(
            "scikit-learn's LogisticRegression of several classes is one problem of all of them, "
            f'not multi_class="{model.multi_class}"'
        )
    regularised = objective.bias == "regularised"
    if regularised and len(model.classes) > 2:
        raise ValueError(
            "the intercepts of scikit-learn's LogisticRegression of several classes have no "
            'penalty: bias="regularised" is not there'
        )
    solver = "liblinear" if regularised else "saga" if objective.l1_ratio else "lbfgs"
    peer = LogisticRegression(
        C=objective.C, fit_intercept=objective.bias != "none", solver=solver,
        intercept_scaling=objective.bias_scale, **_mix(objective.l1_ratio),
    )  # fmt: skip
    peer.n_iter_ = np.zeros(1, np.int32)
    return peer


def _mix(l1_ratio: float) -> dict[str, Any]:
    """What LogisticRegression calls its penalty: by l1_ratio alone since scikit-learn 1.8."""
    from sklearn.linear_model import LogisticRegression

    if signature(LogisticRegression).parameters["penalty"].default == "deprecated":
        return {"l1_ratio": l1_ratio}
    if l1_ratio in (0, 1):
        return {"penalty": "l1" if l1_ratio else "l2"}
    return {"penalty": "elasticnet", "l1_ratio": l1_ratio}


def _ratio(estimator: Any) -> float:
    """The part of the l1 norm in the penalty of a LogisticRegression or LinearSVC."""
    if estimator.penalty is None:
        raise ValueError("penalty=None: without a penalty there is no dual, and no certificate")
    if estimator.penalty in ("l1", "l2"):
        return float(estimator.penalty == "l1")
    return float(estimator.l1_ratio or 0.0)


def _row_weights(sample_weight: ArrayLike | None) -> dict[str, Any]:
    """For compute_class_weight: "balanced" counts rows by their weights since scikit-learn 1.7."""
    from sklearn.utils.class_weight import compute_class_weight

    counts = "sample_weight" in signature(compute_class_weight).parameters
    return {"sample_weight": sample_weight} if counts else {}


def _objective_of(estimator: Any, sample_weight: ArrayLike | None) -> tuple[Objective, str]:
    """What it has minimised, and its way to several classes."""
    from sklearn.svm import LinearSVC

    weighted, C = sample_weight is not None, float(estimator.C)
    ratio, scale = _ratio(estimator), float(estimator.intercept_scaling)
    if isinstance(estimator, LinearSVC):
        jointly = estimator.multi_class == "crammer_singer"
        loss = "hinge" if jointly else estimator.loss
        bias = "regularised" if estimator.fit_intercept else "none"
        return Objective(loss, C, bias, scale, weighted, l1_ratio=ratio), estimator.multi_class
    own = estimator.solver == "liblinear"  # whose intercept is a weight
    bias = "none" if not estimator.fit_intercept else "regularised" if own else "free"
    objective = Objective(
        "logistic", C, bias, scale if own else 1.0, weighted, l1_ratio=ratio
    )  # fmt: skip
    return objective, "ovr" if own else "multinomial"


def _of_probabilities(estimator: Any, n_functions: int) -> dict[str, Any]:
    """Of LogisticRegression, whose class weights are weights of rows, too."""
    if not hasattr(estimator, "predict_proba"):
        return {}
    return {"calibrators": own_probabilities(n_functions), "class_weight_in": "every problem"}


def from_sklearn(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    max_seconds: float = 60.0,
    n_threads: int | None = None,
) -> LinearModel:
    """The weights of a fitted LinearSVC or LogisticRegression of scikit-learn, certified.

    X, y: the data it was trained on. The class weights of LinearSVC weigh a class in its own
    problem against the rest, as in LIBLINEAR. Of several classes with an l1 norm in one problem
    nothing can be certified. The time is for all classes together.

    Examples
    --------
    >>> import sklearn.svm
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> model = bridle.from_sklearn(sklearn.svm.LinearSVC(C=0.1).fit(X, y), X, y)
    >>> model.certificate.relative_gap < 0.01
    True
    """
    from bridle.fitting.certification import certify_model
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC
    from sklearn.utils.class_weight import compute_class_weight

    known = isinstance(estimator, (LinearSVC, LogisticRegression)) and hasattr(estimator, "C")
    if not known or not hasattr(estimator, "coef_"):
        raise TypeError(
            f"needs a fitted LinearSVC or LogisticRegression of scikit-learn, got "
            f"{type(estimator).__name__}; bridle.certify takes weights from anywhere"
        )
    classes = estimator.classes_
    codes = np.searchsorted(classes, y)
    if not np.array_equal(classes[np.minimum(codes, len(classes) - 1)], y):
        raise ValueError("y has labels that the estimator was not trained on")
    balance = compute_class_weight(
        estimator.class_weight, classes=classes, y=np.asarray(y), **_row_weights(sample_weight)
    )
    objective, multi_class = _objective_of(estimator, sample_weight)
    coef = np.asarray(estimator.coef_, np.float64)
    intercept = np.broadcast_to(np.asarray(estimator.intercept_, np.float64), len(coef)).copy()
    names = getattr(estimator, "feature_names_in_", None)
    model = LinearModel(
        coef=coef,
        intercept=intercept,
        classes=classes,
        objective=objective,
        certificates=(UNCERTIFIED,) * (1 if is_joint(multi_class, len(classes)) else len(coef)),
        fingerprint=fingerprint(X, y),
        n_rows=len(codes),
        multi_class=multi_class,
        info={"solver": f"scikit-learn {type(estimator).__name__}"}
        | ({} if names is None else {"feature_names": [str(name) for name in names]})
        | ({} if estimator.class_weight is None else {"class_weight": balance.tolist()})
        | _of_probabilities(estimator, len(coef)),
    )
    certificates = certify_model(
        model, X, y, sample_weight=sample_weight, max_seconds=max_seconds, n_threads=n_threads
    )
    return replace(model, certificates=certificates)
