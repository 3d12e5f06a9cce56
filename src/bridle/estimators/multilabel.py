"""MultilabelSVC: sets of labels in one problem, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.estimators.base import interruptible, validate_data
from bridle.estimators.structural import Structural
from bridle.fitting.multilabel import multilabel_task
from bridle.models.multilabel import MultilabelModel
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

_MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C",
}  # fmt: skip


class MultilabelSVC(Structural, BaseEstimator):  # type: ignore[misc]
    """Structural SVM for several labels at once, with weights for pairs of labels.

    min_w 1/2 |w|^2 + C sum_i max_y [Hamming(y_i, y) - w.(Psi(x_i, y_i) - Psi(x_i, y))]

    y in `fit` is a matrix with a column of 0 and 1 for each label. pairs: weights for labels that
    occur together; the best set of labels is then found exactly, for up to 24 labels. Without
    them it is one SVM for each label. tol: the certified relative duality gap to reach. max_iter,
    max_seconds: budgets for passes over the data and for seconds. callback: a function of the
    newest Record; returning True ends the fit, with the best model so far and its gap. keep: which
    weights to return, the "best" or the "final" ones, as in `bridle.solve`.

    After fit: model_, coef_ (n_labels x n_features), intercept_, pairs_ (None without them),
    certificate_, trace_, status_, message_, n_iter_.

    Examples
    --------
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> bridle.MultilabelSVC(C=10.0).fit(X, [[0, 1], [1, 0], [1, 1], [0, 0]]).predict(X[:1])
    array([[0, 1]]...)
    """

    model_: MultilabelModel
    _model_kind = "multilabel"

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
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            C, solver, tol, max_iter, max_seconds, callback, random_state, n_threads, keep,
            interrupt, n_jobs,
        )  # fmt: skip
        self.pairs = pairs
        self.fit_intercept = fit_intercept

    @interruptible
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> MultilabelSVC:
        """Learn from rows and their labels."""
        X = validate_data(self, X, **_MATRIX)
        Y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if Y.ndim != 2 or len(Y) != X.shape[0] or not np.isin(Y, (0, 1)).all():
            raise ValueError(
                f"y must have a row of 0 and 1 for each of the {X.shape[0]} rows of X, "
                f"got shape {Y.shape}"
            )
        return self._fit(
            multilabel_task(
                X, Y, self.C, pairs=self.pairs, intercept=self.fit_intercept,
                sample_weight=sample_weight, n_threads=self._threads,
            )
        )  # fmt: skip

    @classmethod
    def _parameters_of(cls, model: MultilabelModel) -> dict[str, Any]:
        fitted = bool(np.any(model.intercept))
        return {"C": model.C, "pairs": model.pairs is not None, "fit_intercept": fitted}

    def _show(self, model: MultilabelModel) -> None:
        self.n_features_in_ = model.coef.shape[0]
        self.coef_, self.intercept_, self.pairs_ = model.coef.T, model.intercept, model.pairs

    def predict(self, X: Any) -> NDArray[np.uint8]:
        """A row of 0 and 1 for every row."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False, **_MATRIX)
        return self.model_.predict(X, n_threads=self._threads)

    def score(self, X: Any, y: ArrayLike) -> float:
        """1 minus the part of all labels that are wrong."""
        Y = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        answers = self.predict(X)
        if Y.shape != answers.shape:
            raise ValueError(f"y must have shape {answers.shape}, got {Y.shape}")
        return 1.0 - float(np.mean(answers != Y))


__all__ = ["MultilabelSVC"]
