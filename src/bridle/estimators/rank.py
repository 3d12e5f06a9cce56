"""RankSVM ranks the documents of queries; MultivariateSVC classifies by F1, break-even or ROC.

    min_w  1/2 |w|^2 + C sum_q max_y [Delta_q(y) - w.psi_q(y)]

over queries q, or with all rows as one query. See bridle.structured.ranking and docs/ranking.md.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from bridle.estimators.base import encode_labels, interruptible, seed_from, validate_data
from bridle.estimators.structural import Solved, Structural
from bridle.fitting.ranker import ranking_task
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_matrix, is_sparse
from bridle.matrix.fingerprint import fingerprint
from bridle.models.header import Objective
from bridle.models.multivariate import MultivariateModel
from bridle.models.ranker import RankingModel
from bridle.objective.certificate import Record
from bridle.objective.metrics import mean
from bridle.objective.queries import ids_of_group, weights_of_queries
from bridle.rows.scoring import function_scores
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from bridle.structured.ranking import LABELLING_LOSSES, RankingLoss, ranking_loss_from
from bridle.structured.ranking.problem import RankingProblem
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

# Read in place: anything else is converted. The core looks for NaN and infinity, in its own pass.
_MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C",
    "ensure_all_finite": False,
}  # fmt: skip


ONE_QUERY = (
    "there is no qid: all rows are taken for one query; give qid=, group= or qid_column, or a qid "
    "of zeros if this is what is meant"
)
NOTHING = (
    "all weights are 0: every document has the same score; raise C, or look whether any query has "
    "documents of different relevance"
)


class _Linear(Solved):
    """What both estimators do with rows."""

    verbose: int

    def _callbacks(self) -> tuple[Callback, ...]:
        return ((_report,) if self.verbose else ()) + super()._callbacks()

    def _scores(self, X: Any, w: Array, b: float) -> Array:
        X = validate_data(self, X, reset=False, **_MATRIX)
        return function_scores(X, w[None], np.array([b]), self._threads)[:, 0]


def _report(record: Record) -> None:
    print(
        f"pass {record.epoch:.4g}, primal {record.primal:.6g}, "
        f"certified gap {record.relative_gap:.1e}"
    )


class RankSVM(_Linear, Structural, BaseEstimator):  # type: ignore[misc]
    """A linear ranker, trained for the metric it is judged by, with a certified duality gap.

    Parameters
    ----------
    loss : "map", "ndcg", "ndcg@k" or "precision@k" (any k), "roc", "pairs" or "pairs-sum", or a
        RankingLoss of your own. Pairs take graded relevance; "pairs" averages the pairs within a
        query, "pairs-sum" adds them up.
    C : weight of the sum over queries against 1/2 |w|^2.
    solver : "auto" is "one-slack"; also "bcfw", "n-slack", "subgradient".
    tol : the certified relative duality gap (P - D) / P at which to stop.
    threshold : documents of a grade above it are relevant, for losses without grades.
    normalise : whether the features of a ranking are divided by the number of its pairs, relevant
        times others, for "map", "ndcg", "ndcg@k", "precision@k" and "roc". Without it long queries
        ask for larger margins, and the best C is another one.
    qid_column : the number of the column of X that holds the query ids, for scikit-learn's
        search and splitters, which pass X and y alone. It is not a feature: its weight is 0.
    max_iter, max_seconds : budgets for oracle passes and for seconds.
    callback : a function of the newest Record; returning True ends the fit, with the best model so
        far and its gap.
    random_state : int, RandomState or None, for solvers that draw queries.
    verbose : 1 prints a line at each certificate, and how many queries have nothing to rank.
    n_threads : for queries in parallel; None takes all cores. The result does not depend on it.
    keep : which weights to return: the "best" of those that were certified, by their primal value,
        or the "final" ones, the last that the solver proposed; see `bridle.solve`.

    Attributes
    ----------
    coef_ : (n_features,), the weights; scores are X @ coef_.
    certificate_, trace_, status_, message_, n_iter_ : how good the fit is, and how it came about.
    n_queries_, n_skipped_ : queries, and those among them that cannot be ranked wrong, since their
        documents are all relevant or all not (for pairs: of one grade). They have no loss.

    Examples
    --------
    >>> X, y = [[3.0], [1.0], [2.0], [0.0]], [1, 0, 1, 0]
    >>> model = bridle.RankSVM("map").fit(X, y, qid=[1, 1, 2, 2])
    >>> model.score(X, y, qid=[1, 1, 2, 2])
    1.0
    """

    coef_: Array
    model_: RankingModel
    _model_kind = "ranking"
    _nothing = NOTHING

    def __init__(
        self,
        loss: str | RankingLoss = "map",
        C: float = 1.0,
        *,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        threshold: float = 0.0,
        normalise: bool = True,
        qid_column: int | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            C, solver, tol, max_iter, max_seconds, callback, random_state, n_threads, keep,
            interrupt, n_jobs,
        )  # fmt: skip
        self.loss = loss
        self.threshold = threshold
        self.normalise = normalise
        self.qid_column = qid_column
        self.verbose = verbose

    @interruptible
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        query_weight: ArrayLike | None = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> RankSVM:
        """Learn from documents X of relevance y.

        qid: the query of each row, whole numbers or names; the rows of a query stand together.
        group: instead, the number of rows of each query, in order, as LightGBM and XGBoost have it.
        None of them, and no `qid_column`: all rows are one query, with a warning.
        sample_weight: of the queries, one number for each row, the same for all rows of a query;
        or query_weight, one for each query, in their order.
        """
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=2, **_MATRIX)
        X, qid = self._take_queries(X, self._queries(X, qid, group))
        if sample_weight is not None:
            if query_weight is not None:
                raise ValueError("give one of sample_weight and query_weight")
            query_weight = weights_of_queries(sample_weight, qid, X.shape[0])
        task = ranking_task(
            X, y, qid, self.C, loss=self.loss, threshold=self.threshold, normalise=self.normalise,
            query_weight=query_weight, n_threads=self._threads,
        )  # fmt: skip
        self.n_queries_, self.n_skipped_ = task.problem.n_rows, task.problem.n_skipped
        if self.verbose and self.n_skipped_:
            print(
                f"{self.n_skipped_} of {self.n_queries_} queries have nothing to rank: their "
                "documents are all relevant or all not"
            )
        return self._fit(task)

    def _queries(self, X: Any, qid: Any, group: Any) -> Any:
        if group is not None:
            if qid is not None or self.qid_column is not None:
                raise ValueError("give one of qid, group and qid_column")
            return ids_of_group(group, X.shape[0])
        if qid is None and self.qid_column is None:
            warnings.warn(ONE_QUERY, UserWarning, stacklevel=4)
        return qid

    def _show(self, model: RankingModel) -> None:
        if self.qid_column is not None:
            column = self._column(self.n_features_in_)
            self.model_ = model = replace(model, coef=np.insert(model.coef, column, 0.0))
        self.coef_ = model.coef

    @classmethod
    def _parameters_of(cls, model: RankingModel) -> dict[str, Any]:
        return {"loss": model.loss, "C": model.C, "threshold": model.threshold}

    @classmethod
    def _around(cls, model: RankingModel, estimator: Self) -> Self:
        estimator.n_features_in_, estimator.n_queries_ = len(model.coef), model.n_queries
        return super()._around(model, estimator)

    def decision_function(self, X: Any) -> Array:
        """The score of each document: higher is more relevant, within one query."""
        check_is_fitted(self)
        return self._scores(X, self.coef_, 0.0)

    def predict(self, X: Any) -> Array:
        """The same as `decision_function`."""
        return self.decision_function(X)

    def score(self, X: Any, y: ArrayLike, qid: ArrayLike | None = None) -> float:
        """The mean over queries of the metric that the loss is one minus of.

        Average precision, NDCG (relevant or not), relevant among the first k over the most possible
        there, ROC area, or the fraction of pairs in the right order: `RankingLoss.metric`.
        """
        scores = self.decision_function(X)
        X = validate_data(self, X, reset=False, **_MATRIX)
        _, qid = self._take_queries(X, qid)
        loss = ranking_loss_from(self.loss)
        return mean(loss.metric(loss.relevance(y, self.threshold), scores, qid))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _column(self, n_columns: int) -> int:
        column = self.qid_column
        if isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise TypeError(f"qid_column must be the number of a column, got {column!r}")
        if not -n_columns <= column < n_columns:
            raise ValueError(f"qid_column is {column}, but X has {n_columns} columns")
        return int(column) % n_columns

    def _take_queries(self, X: Any, qid: ArrayLike | None) -> tuple[Any, ArrayLike | None]:
        """The features and the query ids, from X's own column if that is what was asked for."""
        if self.qid_column is None:
            return X, qid
        if qid is not None:
            raise ValueError("give qid or set qid_column, not both")
        column, n = self._column(X.shape[1]), X.shape[1]
        if n < 2:
            raise ValueError("X has no column besides the query ids")
        check_matrix(X)  # SciPy goes by the columns
        ids = X[:, [column]]
        features = X[:, np.delete(np.arange(n), column)]
        if is_sparse(ids):
            return features, ids.toarray().ravel()
        return np.ascontiguousarray(features), ids.ravel()


class MultivariateSVC(_Linear, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Binary classification for a measure of the whole test set: F1, break-even point, ROC area.

    The multivariate SVM of Joachims (ICML 2005), as in SVM-perf. The positive class is the second
    in sorted order.

    Parameters
    ----------
    loss : "f1", "prbep" (precision at the point where it equals recall) or "roc".
    C : weight of the loss, which is at most 1 at w = 0, against 1/2 |w|^2.
    fit_intercept : a constant feature, for "f1". The others do not depend on an intercept: it is
        set so that as many training rows are called positive as there are.

    All others, and the attributes, as in RankSVM; classes_, intercept_.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(300, seed=0)
    >>> bridle.MultivariateSVC("f1").fit(X, y).certificate_.relative_gap <= 0.01
    True
    """

    def __init__(
        self,
        loss: str | RankingLoss = "f1",
        C: float = 100.0,
        *,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            C, solver, tol, max_iter, max_seconds, callback, random_state, n_threads, keep,
            interrupt, n_jobs,
        )  # fmt: skip
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.verbose = verbose

    _model_kind = "multivariate"

    @interruptible
    def fit(self, X: Any, y: ArrayLike) -> MultivariateSVC:
        """Learn from rows of two classes."""
        loss = _labelling(self.loss)
        X, y = validate_data(self, X, y, **_MATRIX)
        classes, codes = encode_labels(np.asarray(y), None)
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported, got {len(classes)} classes: these "
                "losses measure one class against another"
            )
        bias = 1.0 if loss.shifts and self.fit_intercept else 0.0
        problem = RankingProblem(X, codes, C=self.C, loss=loss, bias=bias, n_threads=self._threads)
        solution = self._solve(problem, seed_from(self.random_state))
        self._keep_proof(solution)
        w = solution.w
        self.classes_ = classes
        self.coef_, self.intercept_ = (w[:-1], float(w[-1])) if bias else (w, 0.0)
        if self.fit_intercept and not loss.shifts:
            ranked = -np.sort(-problem.scores(w))
            positives = int(codes.sum())
            self.intercept_ = -0.5 * float(ranked[positives - 1] + ranked[positives])
        self._about = {
            "fingerprint": fingerprint(X, y), "n_rows": X.shape[0],
            "info": {"solver": solution.solver, "status": solution.status.value},
        }  # fmt: skip
        self._warn(solution, stacklevel=4)
        return self

    def to_model(self) -> MultivariateModel:
        """For `save_model`."""
        check_is_fitted(self)
        bias = "regularised" if self.fit_intercept and _labelling(self.loss).shifts else "none"
        return MultivariateModel(
            coef=self.coef_[None], intercept=np.array([self.intercept_]), classes=self.classes_,
            objective=Objective(str(self.loss), float(self.C), bias),
            certificates=(self.certificate_,), **self._about,
        )  # fmt: skip

    @classmethod
    def from_model(cls, model: MultivariateModel) -> Self:
        """A fitted estimator with this model, which predicts without having seen any data."""
        objective, intercept = model.objective, float(model.intercept[0])
        estimator = cls(
            objective.loss, objective.C,
            fit_intercept=objective.bias != "none" or intercept != 0.0,
        )  # fmt: skip
        estimator.classes_, estimator.coef_ = model.classes, model.coef[0]
        estimator.intercept_, estimator.n_features_in_ = intercept, model.n_features
        estimator._remember(model)
        estimator._about = {
            name: getattr(model, name) for name in ("fingerprint", "n_rows", "info")
        }
        return estimator

    def decision_function(self, X: Any) -> Array:
        """w.x + b: positive for the second class."""
        check_is_fitted(self)
        return self._scores(X, self.coef_, self.intercept_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        positive = self.decision_function(X) > 0
        labels: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


def _labelling(name: str | RankingLoss) -> RankingLoss:
    """A loss that can classify."""
    try:
        loss = ranking_loss_from(name)
    except ValueError:
        loss = None
    if loss is None or not loss.classifies:
        raise ValueError(f"loss must be {', '.join(LABELLING_LOSSES)} or roc, got {name!r}")
    return loss
