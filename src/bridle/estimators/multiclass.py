"""MulticlassSVC: all classes in one problem, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from bridle.estimators.base import (
    GapWarning,
    encode_labels,
    row_weights,
    seed_from,
    with_class_weight,
)  # fmt: skip
from bridle.rows import as_matrix, view_rows
from bridle.solve import solve
from bridle.solvers import Solver
from bridle.stopping import Epochs, Gap
from bridle.structured.chain import ChainProblem
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]


class MulticlassSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The multiclass SVM of Crammer & Singer, with any costs of confusing one class with another.

    min_w 1/2 sum_k |w_k|^2 + C sum_i max_k [cost(y_i, k) - (w_{y_i} - w_k).x_i]

    cost: a matrix, true class first, in the order of `classes_`; 1 for every error unless given.
    tol: the certified relative duality gap to reach. fit_intercept: a constant feature of value
    intercept_scaling, part of |w|^2.

    After fit: coef_ (n_classes x n_features), intercept_, classes_, certificate_, trace_, n_iter_.
    (Crammer & Singer, "On the algorithmic implementation of multiclass kernel-based vector
    machines", JMLR 2001.)
    """

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
        random_state: Any = 0,
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.cost = cost
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_threads = n_threads

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None
    ) -> MulticlassSVC:
        """Learn from rows and their classes."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
            accept_large_sparse=True,
        )  # fmt: skip
        weights = row_weights(sample_weight, X.shape[0])
        self.classes_, codes = encode_labels(np.asarray(y), weights)
        weights = with_class_weight(weights, self.class_weight, self.classes_, codes)
        K, bias = len(self.classes_), self.intercept_scaling if self.fit_intercept else 0.0
        problem = ChainProblem(
            X, np.arange(X.shape[0] + 1), np.maximum(codes, 0), K, self.C, cost=self.cost,
            transitions=False, bias=bias, sample_weight=weights, n_threads=self.n_threads,
        )  # fmt: skip
        solution = solve(
            problem, self.solver, stop=Gap(self.tol) | Epochs(self.max_iter),
            seed=seed_from(self.random_state),
        )  # fmt: skip
        table = solution.w.reshape(-1, K).T
        self.coef_ = np.ascontiguousarray(table[:, : X.shape[1]])
        self.intercept_ = table[:, -1] * bias if self.fit_intercept else np.zeros(K)
        self.certificate_ = solution.certificate
        self.trace_ = solution.trace
        self.n_iter_ = int(solution.epochs)
        if not solution.converged:
            warnings.warn(
                GapWarning(solution.message, solution.certificate, self.tol), stacklevel=2
            )
        return self

    def decision_function(self, X: Any) -> Array:
        """w_k.x + b_k, a column for each class; for two classes the difference of the second."""
        check_is_fitted(self, "coef_")
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        from bridle import _core

        rows = view_rows(as_matrix(X), 0.0)
        scores = np.empty((len(self.coef_), X.shape[0]))
        threads = _core.hardware_threads() if self.n_threads is None else self.n_threads
        for w, out in zip(self.coef_, scores, strict=True):
            _core.scores(rows, np.append(w, 0.0), out, threads)
        scores += self.intercept_[:, None]
        return scores[1] - scores[0] if len(scores) == 2 else np.ascontiguousarray(scores.T)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of every row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    def __sklearn_tags__(self) -> Any:
        """Sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
