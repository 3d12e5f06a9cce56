"""LogisticRegressionCV: C, and the mix of penalties, by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from bridle.estimators.linear_cv import CHOOSING, ChoosesC, OutOfFold
from bridle.estimators.logistic import LogisticRegression
from bridle.fitting.cross_validation import Choice
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import Task
from bridle.matrix.arrays import Array
from bridle.models.calibration import calibrator_from, class_probabilities, own_probabilities
from bridle.models.deciding import MultiClass
from bridle.models.linear import LinearModel
from bridle.objective.bias import Bias
from bridle.problems.penalised import l1_ratio_of
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.solution import Keep
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import check_scoring


class OutOfFoldOdds(OutOfFold):
    """With the probabilities that the values are the odds of."""

    def __init__(self, classes: NDArray[Any], values: Array, multi_class: str) -> None:
        super().__init__(classes, values)
        self._multi_class = multi_class

    def predict_proba(self, X: Any) -> Array:
        """Of these rows, whatever X is."""
        n = len(self.classes_)
        maps = [calibrator_from(each) for each in own_probabilities(1 if n == 2 else n)]
        return class_probabilities(maps, self._values, n, self._multi_class)


class LogisticRegressionCV(ChoosesC, LogisticRegression):
    """LogisticRegression whose C is chosen by cross-validation; then fitted on all rows.

    Parameters
    ----------
    Cs : how many values of C to try, spaced evenly in the logarithm from 1e-4 to 1e4, or the values
        themselves.
    l1_ratios : mixes of the penalties to try with every C: 0 is the l2 penalty, 1 the l1 norm, what
        is between the elastic net. None: the one of `penalty`, which "elasticnet" does not name.
    cv : the number of stratified folds, None for 5, or one of scikit-learn's splitters. Of rows on
        a cluster, the number: each worker deals out its own rows.
    scoring : what C is chosen by, and what `score` answers: None is the accuracy, by sample and
        class weights; else the name of a scorer of scikit-learn, such as "neg_log_loss", or a
        function of a fitted estimator, X and y, for which higher is better. It sees
        `decision_function`, `predict` and `predict_proba` of the rows held out, and no weights.
    multi_class : "multinomial" or "ovr".

    max_seconds : as in LinearSVCCV. All others, and what is not listed here, as in
        LogisticRegression. Of scikit-learn's there is no `refit=False`, which averages the weights
        of the folds: no objective has those as its optimum.

    Attributes
    ----------
    C_, l1_ratio_ : the best: the smallest C, of the smallest l1_ratio, with the highest mean score.
    Cs_, l1_ratios_ : the values that were tried, in order.
    scores_ : (n_folds, n_l1_ratios, n_Cs), the accuracy on the rows held out, by their weights, or
        what `scoring` says.
    gaps_ : of the same shape, the largest certified relative gap of any class; infinite where time
        or Ctrl-C ended cross-validation before that C was tried. The score is then nan.
    n_solves_ : problems that were solved; the others were certified by a neighbour's solution.

    The weights of every fold, `coefs_paths_`, are not kept: `bridle.path` and `bridle.l1_path` have
    those of every C, on all rows.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> search = bridle.LogisticRegressionCV([0.1, 10.0], cv=3, scoring="neg_log_loss").fit(X, y)
    >>> search.C_, search.scores_.shape
    (10.0, (3, 1, 2))
    """

    l1_ratio = None  # of these there are several

    def __init__(
        self,
        Cs: int | ArrayLike = 10,
        *,
        l1_ratios: ArrayLike | None = None,
        fit_intercept: bool = True,
        cv: Any = None,
        dual: bool | str = "auto",
        penalty: str = "l2",
        scoring: str | Callable[..., float] | None = None,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: Mapping[Any, float] | str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        bias: Bias | None = None,
        max_seconds: float | None = None,
        n_threads: int | None = None,
        multi_class: MultiClass = "multinomial",
        store_dual: bool | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
    ) -> None:
        self.Cs = Cs
        self.l1_ratios = l1_ratios
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.dual = dual
        self.penalty = penalty
        self.scoring = scoring
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state
        self.bias = bias
        self.max_seconds = max_seconds
        self.n_threads = n_threads
        self.multi_class = multi_class
        self.store_dual = store_dual
        self.keep = keep
        self.interrupt = interrupt

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """What `scoring` says: by default the accuracy, also on collections of Dask."""
        if self.scoring is None:
            return super().score(X, y, sample_weight)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(check_scoring(self, self.scoring)(self, X, y, **weights))

    def _ratios(self) -> Array:
        if self.l1_ratios is None:
            return np.array([l1_ratio_of(self.penalty, None)])
        ratios = np.unique(np.asarray(self.l1_ratios, np.float64))
        if not len(ratios) or not ((ratios >= 0) & (ratios <= 1)).all() or self.penalty == "l1":
            raise ValueError(
                f"l1_ratios must be numbers from 0 to 1, and take the place of penalty; got "
                f"l1_ratios={self.l1_ratios!r} and penalty={self.penalty!r}"
            )
        return ratios

    def _grid(self) -> int | ArrayLike:
        if isinstance(self.Cs, (int, np.integer)) and self.Cs >= 1:
            return np.geomspace(1e-4, 1e4, int(self.Cs))
        return self.Cs

    def _tries(self, began: float) -> Iterator[tuple[Task, Effort]]:
        self.l1_ratios_ = self._ratios()
        for k, ratio in enumerate(self.l1_ratios_, start=1):
            self.l1_ratio_ = float(ratio)
            seconds = self._left(began, CHOOSING * k / len(self.l1_ratios_))
            yield self._task(1.0), self._effort(self._stop(seconds))

    def _task(self, C: float) -> Task:
        """With the penalty that is tried, and then the best."""
        ratio = getattr(self, "l1_ratio_", self._ratios()[-1])
        name = {0.0: "l2", 1.0: "l1"}.get(ratio, "elasticnet")
        return replace(super()._task(C), penalty=name, l1_ratio=ratio)

    def _keep_choice(self, found: list[Choice]) -> None:
        best = max(range(len(found)), key=lambda k: found[k].standing)  # the first of equals
        self.C_, self.Cs_ = found[best].C, found[best].Cs
        self.l1_ratio_ = float(self.l1_ratios_[best])
        self.scores_ = np.stack([choice.scores for choice in found], axis=1)
        self.gaps_ = np.stack([choice.gaps for choice in found], axis=1)
        self.n_solves_ = sum(choice.n_solves for choice in found)

    def _seen(self, classes: NDArray[Any], values: Array) -> OutOfFold:
        return OutOfFoldOdds(classes, values, self.multi_class)

    @classmethod
    def _further_parameters(cls, model: LinearModel) -> dict[str, Any]:
        ratio = model.objective.l1_ratio
        penalty = {"l1_ratios": [ratio]} if ratio else {}
        return {"Cs": [model.objective.C], "multi_class": model.multi_class} | penalty
