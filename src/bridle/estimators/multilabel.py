"""MultilabelSVC: sets of labels in one problem, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import _core
from bridle.estimators.base import Certified, callbacks_of, seed_from, stop_of, warn_of_gap
from bridle.matrix.door import is_sparse
from bridle.models.multilabel import MultilabelModel
from bridle.solvers import Solver
from bridle.solving.loop import Callback, solve
from bridle.structured.multilabel import MultilabelOracle
from bridle.structured.problem import StructuredProblem
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data


class MultilabelSVC(Certified, BaseEstimator):  # type: ignore[misc]
    """Structural SVM for several labels at once, with weights for pairs of labels.

    min_w 1/2 |w|^2 + C sum_i max_y [Hamming(y_i, y) - w.(Psi(x_i, y_i) - Psi(x_i, y))]

    y in `fit` is a matrix with a column of 0 and 1 for each label. pairs: weights for labels that
    occur together; the best set of labels is then found exactly, for up to 24 labels. Without
    them it is one SVM for each label. tol: the certified relative duality gap to reach. max_iter,
    max_seconds: budgets for passes over the data and for seconds. callback: a function of the
    newest Record; returning True ends the fit, with the best model so far and its gap.

    After fit: model_, coef_ (n_labels x n_features), intercept_, pairs_ (None without them),
    certificate_, trace_, status_, message_, n_iter_.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        pairs: bool = True,
        solver: str | Solver = "auto",
        tol: float = 1e-2,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_threads: int | None = None,
    ) -> None:
        self.C = C
        self.pairs = pairs
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.n_threads = n_threads

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MultilabelSVC:
        """Learn from rows and their labels."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
        Y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if Y.ndim != 2 or len(Y) != X.shape[0] or not np.isin(Y, (0, 1)).all():
            raise ValueError(
                f"y must have a row of 0 and 1 for each of the {X.shape[0]} rows of X, "
                f"got shape {Y.shape}"
            )
        n, d = X.shape
        inputs = _rows(X, constant=self.fit_intercept)
        threads = _core.hardware_threads() if self.n_threads is None else self.n_threads
        oracle = MultilabelOracle(
            d + self.fit_intercept, Y.shape[1], pairs=self.pairs, n_threads=threads
        )
        truths = [tuple(row) for row in Y.astype(int).tolist()]
        problem = StructuredProblem(oracle, inputs, truths, self.C, sample_weight=sample_weight)
        solution = solve(
            problem, self.solver, stop=stop_of(self.tol, self.max_iter, self.max_seconds),
            callbacks=callbacks_of(self.callback), seed=seed_from(self.random_state),
        )  # fmt: skip
        table = solution.w[: oracle.n_inputs * oracle.n_labels].reshape(oracle.n_inputs, -1)
        together = None
        if self.pairs:
            together = np.zeros((oracle.n_labels, oracle.n_labels))
            together[np.triu_indices(oracle.n_labels, 1)] = solution.w[table.size :]
            together += together.T
        intercept = table[d] if self.fit_intercept else np.zeros(oracle.n_labels)
        self.model_ = MultilabelModel(
            np.ascontiguousarray(table[:d]), intercept.copy(), together, float(self.C),
            solution.certificate, n,
            {"solver": solution.solver, "status": solution.status.value},
        )  # fmt: skip
        self.coef_, self.intercept_ = self.model_.coef.T, self.model_.intercept
        self.pairs_ = together
        self._keep_proof(solution)
        warn_of_gap(solution, self.tol)
        return self

    def to_model(self) -> MultilabelModel:
        """For `save_model`."""
        check_is_fitted(self, "model_")
        return self.model_

    def predict(self, X: Any) -> NDArray[np.uint8]:
        """A row of 0 and 1 for every row."""
        check_is_fitted(self, "model_")
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=False
        )
        return self.model_.predict(X, n_threads=self.n_threads)

    def score(self, X: Any, y: ArrayLike) -> float:
        """1 minus the part of all labels that are wrong."""
        Y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        answers = self.predict(X)
        if Y.shape != answers.shape:
            raise ValueError(f"y must have shape {answers.shape}, got {Y.shape}")
        return 1.0 - float(np.mean(answers != Y))


def _rows(X: Any, *, constant: bool) -> list[Any]:
    """What MultilabelOracle takes: vectors or (indices, values), with a last entry of 1."""
    n, d = X.shape
    if not is_sparse(X):
        dense = np.asarray(X, np.float64)
        return list(np.hstack([dense, np.ones((n, 1))]) if constant else dense)
    rows = []
    for i in range(n):
        begin, end = X.indptr[i], X.indptr[i + 1]
        indices, values = X.indices[begin:end], X.data[begin:end]
        if constant:
            indices, values = np.append(indices, d), np.append(values, 1.0)
        rows.append((indices, values))
    return rows


__all__ = ["MultilabelSVC"]
