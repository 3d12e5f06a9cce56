"""MulticlassSVC: all classes in one problem, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from bridle.errors import ModelError
from bridle.estimators.base import (
    Certified,
    checked_labels,
    interruptible,
    provenance_of,
    seed_from,
    stop_of,
    validate_data,
    warn_of_gap,
    watcher_of,
)
from bridle.fitting.fit import fit
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import Task
from bridle.matrix.arrays import Array
from bridle.models.deciding import class_scores, decide
from bridle.models.linear import LinearModel
from bridle.rows.scoring import function_scores
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted


class MulticlassSVC(Certified, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The multiclass SVM of Crammer & Singer, with any costs of confusing one class with another.

    min_w 1/2 sum_k |w_k|^2 + C sum_i max_k [cost(y_i, k) - (w_{y_i} - w_k).x_i]

    cost: a matrix, true class first, in the order of `classes_`; 1 for every error unless given.
    tol: the certified relative duality gap to reach. fit_intercept: a constant feature of value
    intercept_scaling, part of |w|^2. max_iter, max_seconds: budgets for passes over the data and
    for seconds. callback: a function of the newest Record; returning True ends the fit.
    keep: which weights to return, the "best" or the "final" ones, as in `bridle.solve`.

    After fit: coef_ (n_classes x n_features; of two classes one row, the difference), intercept_,
    classes_, certificate_, trace_, status_, message_, n_iter_.
    (Crammer & Singer, "On the algorithmic implementation of multiclass kernel-based vector
    machines", JMLR 2001.)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> bridle.MulticlassSVC(C=1.0).fit(X, y).coef_.shape
    (3, 4)
    """

    _model_kind = "linear"

    def __init__(
        self,
        C: float = 1.0,
        *,
        cost: ArrayLike | None = None,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.cost = cost
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.n_threads = n_threads
        self.keep = keep
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @interruptible
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None
    ) -> MulticlassSVC:
        """Learn from rows and their classes."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            accept_large_sparse=True,
        )  # fmt: skip
        found = fit(
            X, checked_labels(y), sample_weight=sample_weight,
            task=Task(
                self.C, "hinge", "regularised" if self.fit_intercept else "none",
                self.intercept_scaling, "crammer_singer", self.class_weight, self.cost,
            ),
            effort=Effort(
                self.solver, stop_of(self.tol, self.max_iter, self.max_seconds),
                seed_from(self.random_state), self._threads, watcher_of(self.callback),
                keep=self.keep,
            ),
        )  # fmt: skip
        model, (solution,) = found.model, found.solutions.solutions
        self.classes_, self.coef_, self.intercept_ = model.classes, model.coef, model.intercept
        self.weighted_, self._provenance = found.weighted, found.provenance
        self._keep_proof(solution)
        warn_of_gap(solution, self.tol)
        return self

    def to_model(self) -> LinearModel:
        """For `save_model`."""
        check_is_fitted(self, "coef_")
        about, names = dict(self._provenance), getattr(self, "feature_names_in_", None)
        if names is not None:
            about["info"] = about["info"] | {"feature_names": [str(name) for name in names]}
        return LinearModel(
            coef=self.coef_, intercept=self.intercept_, classes=self.classes_,
            certificates=(self.certificate_,), multi_class="crammer_singer", **about,
        )  # fmt: skip

    @classmethod
    def from_model(cls, model: LinearModel) -> Self:
        """A fitted estimator with these weights, which predicts without having seen any data."""
        if model.multi_class != "crammer_singer":
            raise ModelError(
                f"a linear model of multi_class {model.multi_class!r}, which is no "
                f"{cls.__name__}: load it as a LinearSVC"
            )
        objective = model.objective
        estimator = cls(
            objective.C, cost=model.info.get("cost"), fit_intercept=objective.bias != "none",
            intercept_scaling=objective.bias_scale,
        )  # fmt: skip
        estimator.classes_, estimator.coef_ = model.classes, model.dense().coef
        estimator.intercept_, estimator.certificate_ = model.intercept, model.certificate
        estimator.n_features_in_, estimator.weighted_ = model.n_features, objective.weighted
        estimator._provenance = provenance_of(model)
        return estimator

    def decision_function(self, X: Any) -> Array:
        """w_k.x + b_k, a column for each class; for two classes the difference of the second."""
        check_is_fitted(self, "coef_")
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        scores = function_scores(X, self.coef_, self.intercept_, self._threads)
        return class_scores(scores, "crammer_singer", len(self.classes_))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row."""
        codes = decide(self.decision_function(X))
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
