"""LinearSVCCV: LinearSVC whose C is chosen; see `bridle.fitting.cross_validation`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self

import numpy as np
from bridle.estimators.base import checked_labels, interruptible, validate_data
from bridle.estimators.linear import MATRIX, LinearSVC
from bridle.fitting.cross_validation import (
    Choice,
    Measure,
    choose_cost,
    choose_cost_on_cluster,
)
from bridle.fitting.labels import encode, row_weights
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import Task
from bridle.fitting.refusals import refuse
from bridle.matrix.arrays import Array
from bridle.models.deciding import decide
from bridle.models.linear import LinearModel
from bridle.objective.bias import Bias
from bridle.objective.losses import Loss
from bridle.rows.cluster.dask_rows import is_remote
from bridle.rows.cuda.device import Where
from bridle.rows.cuda.matrix import is_on_device
from bridle.rows.disk.stored import is_stored
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt, deferred_interrupt
from bridle.solving.solution import Keep
from bridle.solving.stopping import Interrupted
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

# The part of max_seconds that is for the choice of C; the rest is for the last fit.
CHOOSING = 0.8


class OutOfFold(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What a scorer sees of a fold's model: its decision values of the rows held out."""

    def __init__(self, classes: NDArray[Any], values: Array) -> None:
        self.classes_, self._values = classes, values

    def decision_function(self, X: Any) -> Array:
        """Of these rows, whatever X is."""
        return self._values

    def predict(self, X: Any) -> NDArray[Any]:
        """The classes of the largest."""
        labels: NDArray[Any] = self.classes_[decide(self._values)]
        return labels


class ChoosesC(LinearSVC):
    """What an estimator does whose C is chosen by cross-validation."""

    warm_start = False  # C differs from fit to fit
    Cs: int | ArrayLike
    cv: Any
    scoring: str | Callable[..., float] | None

    @interruptible
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | float | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose C, then train on all rows. groups: for splitters that want them.

        Ctrl-C ends the fit after the epochs at hand, with a model and its gap, and is then raised.
        """
        began = time.perf_counter()
        if is_stored(X) or is_on_device(X):
            raise TypeError(
                f'{type(self).__name__} needs all rows in this memory (device="cuda" copies them '
                "once) or on a cluster; of rows elsewhere, fit a model for each C, or use "
                "bridle.path, and score on rows held out"
            )
        if is_remote(X):
            self._fit_on_cluster(X, y, sample_weight, groups, began)
            return self
        X, given = validate_data(self, X, y, **MATRIX)
        y = checked_labels(given)
        weights = row_weights(sample_weight, X.shape[0])
        labels = encode(y, weights)
        splits = check_cv(self.cv, y, classifier=True).split(X, y, groups)
        folds = [np.asarray(test) for _, test in splits]
        measure = None if self.scoring is None else self._measure(X, y, labels.classes)
        with deferred_interrupt() as interrupted:
            found = [
                choose_cost(
                    X, labels, weights, folds, self._grid(), task=task, effort=effort,
                    interrupted=interrupted, measure=measure,
                )
                for task, effort in self._tries(began)
            ]  # fmt: skip
            self._keep_choice(found)
            stop = self._stop(self._left(began, 1.0)) | Interrupted(interrupted)
            self._fit(X, y, sample_weight, self.C_, stop)
        self._warn_of(found)
        return self

    def _fit_on_cluster(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, began: float
    ) -> None:
        """Folds are of every worker's rows, which stay there."""
        whole = self.cv is None or isinstance(self.cv, (int, np.integer))
        unusual = {"scoring": self.scoring, "groups": groups, "cv": None if whole else self.cv}
        refuse("cluster", {name: value for name, value in unusual.items() if value is not None})
        rows = self._rows_on_cluster(X, y, sample_weight, 1.0)
        with deferred_interrupt() as interrupted:
            found = [
                choose_cost_on_cluster(
                    rows, 5 if self.cv is None else int(self.cv), self._grid(), task=task,
                    effort=effort, interrupted=interrupted,
                )
                for task, effort in self._tries(began)
            ]  # fmt: skip
            self._keep_choice(found)
            stop = self._stop(self._left(began, 1.0)) | Interrupted(interrupted)
            self._fit_elsewhere(rows, None, None, self.C_, stop)
        self._warn_of(found)

    def _measure(self, X: Any, y: NDArray[Any], classes: NDArray[Any]) -> Measure:
        """The scorer of scikit-learn, on the decision values of rows held out."""
        scorer = check_scoring(self, self.scoring)

        def measured(rows: NDArray[np.intp], values: Array) -> float:
            return float(scorer(self._seen(classes, values), X[rows], y[rows]))

        return measured

    def _seen(self, classes: NDArray[Any], values: Array) -> OutOfFold:
        return OutOfFold(classes, values)

    def _grid(self) -> int | ArrayLike:
        return self.Cs

    def _tries(self, began: float) -> Iterator[tuple[Task, Effort]]:
        """What is to be tried with every C, and how."""
        yield self._task(1.0), self._effort(self._stop(self._left(began, CHOOSING)))

    def _left(self, began: float, share: float) -> float | None:
        """Seconds that are left of this part of them."""
        if self.max_seconds is None:
            return None
        return max(0.0, began + share * self.max_seconds - time.perf_counter())

    def _keep_choice(self, found: list[Choice]) -> None:
        (choice,) = found
        self.C_, self.Cs_ = choice.C, choice.Cs
        self.scores_, self.gaps_, self.n_solves_ = choice.scores, choice.gaps, choice.n_solves

    def _warn_of(self, found: list[Choice]) -> None:
        least = min(found, key=lambda choice: choice.tried_everywhere)
        if least.tried_everywhere < len(least.Cs):
            warnings.warn(
                f"cross-validation ended early: {least.tried_everywhere} of {len(least.Cs)} "
                f"values of C were tried in all {len(least.gaps)} folds (raise max_seconds, or "
                "try fewer)",
                ConvergenceWarning,
                stacklevel=4,
            )


class LinearSVCCV(ChoosesC):
    """LinearSVC whose C is chosen by cross-validated accuracy; then fitted on all rows.

    Parameters
    ----------
    Cs : how many values of C to try, spaced evenly in the logarithm from 1e-3 to 1e3 (in units of
        1 / mean |x|^2, so that scaling the data does not matter), or the values themselves.
    cv : the number of stratified folds, or one of scikit-learn's splitters. Of rows on a cluster,
        the number: each worker deals out its own rows.
    scoring : what C is chosen by: None is the accuracy, by sample and class weights; else the name
        of a scorer of scikit-learn, or a function of a fitted estimator, X and y, for which higher
        is better. It sees `decision_function` and `predict` of the rows held out, and no weights.

    max_seconds : for the whole fit. Cross-validation has four fifths of it, shared out among the
        folds and groups of C, decades of them; each takes its values of C from the smallest on, as
        far as it gets.

    All others, and what is not listed here, as in LinearSVC.

    Attributes
    ----------
    C_ : the best C: the smallest of those with the highest mean accuracy.
    Cs_ : the values that were tried, in order.
    scores_ : (n_folds, n_Cs), the accuracy on the rows held out; rows count by their sample and
        class weights, as they do in the objective.
    gaps_ : (n_folds, n_Cs), the largest certified relative gap of any class; infinite where time or
        Ctrl-C ended cross-validation before that C was tried. The score is then nan, and C_
        the best of those that the most folds have tried.
    n_solves_ : problems that were solved; the others of n_folds * n_Cs * n_problems were certified
        by a neighbour's solution.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> search = bridle.LinearSVCCV(Cs=[0.1, 1.0], cv=3).fit(X, y)
    >>> search.C_ in (0.1, 1.0)
    True
    """

    def __init__(
        self,
        Cs: int | ArrayLike = 20,
        *,
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        loss: str | Loss = "squared_hinge",
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        bias: Bias | None = None,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        store_dual: bool | None = None,
        probability: Literal["platt", "isotonic", False] = False,
        keep: Keep = "best",
        device: Where = "cpu",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.store_dual = store_dual
        self.probability = probability
        self.keep = keep
        self.device = device
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @classmethod
    def _further_parameters(cls, model: LinearModel) -> dict[str, Any]:
        return {"Cs": [model.objective.C]}
