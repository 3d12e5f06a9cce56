"""Linear regressors, each with a proof of its accuracy.

    min_w  1/2 |w|^2 + C sum_i weight_i loss(w.x_i + b - t_i)

LinearSVR: the epsilon-insensitive loss or its square. QuantileRegressor: the pinball loss. Ridge:
least squares, in scikit-learn's scaling.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from bridle.estimators.base import (
    NOTHING,
    Certified,
    GapWarning,
    advised,
    interruptible,
    seed_from,
    validate_data,
    watcher_of,
)
from bridle.estimators.linear import MATRIX
from bridle.fitting.fit import Extras
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import Task
from bridle.fitting.regression import fit_regression
from bridle.matrix.arrays import Array
from bridle.models.header import Objective
from bridle.objective.bias import Bias
from bridle.objective.losses import (
    EpsilonInsensitive,
    Loss,
    Pinball,
    Squared,
    SquaredEpsilonInsensitive,
)
from bridle.rows.cluster.dask_rows import is_remote
from bridle.rows.disk.stored import is_stored
from bridle.rows.scoring import function_scores
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.stopping import Epochs, Gap, Seconds, Stop
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted


class OneFunction(Certified, BaseEstimator):  # type: ignore[misc]
    """What estimators of one function share. A subclass has its parameters, and says `_formula`."""

    coef_: Array
    intercept_: Any
    solver: str | Solver
    tol: float
    max_iter: int
    max_seconds: float | None
    random_state: Any
    verbose: int
    callback: Callback | None = None
    intercept_scaling: float = 1.0
    _takes_rows_elsewhere = True

    def _formula(self) -> tuple[float, Loss, Bias]:
        """C, the loss and the kind of intercept."""
        raise NotImplementedError

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        C, loss, bias = self._formula()
        found = fit_regression(
            X, y, sample_weight=sample_weight,
            task=Task(C, loss, bias, self.intercept_scaling),
            effort=Effort(
                self.solver, self._stop(), seed_from(self.random_state), self._threads,
                watch=watcher_of(self.callback),
            ),
            extras=Extras(store_dual=True),
        )  # fmt: skip
        if hasattr(self, "dual_coef_"):
            del self.dual_coef_
        self._keep_model(found.model)
        self._keep_proof(found.solution)
        if found.solution.certificate.relative_gap > self.tol:
            message = advised(self.message_, self.status_)
            warnings.warn(GapWarning(message, self.certificate_, self.tol), stacklevel=4)
        return self

    def _stop(self) -> Stop:
        stop = Gap(self.tol) | Epochs(self.max_iter)
        return stop if self.max_seconds is None else stop | Seconds(self.max_seconds)

    def _values(self, X: Any) -> Array:
        """w.x + b of each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **MATRIX)
        scores = function_scores(
            X, np.atleast_2d(self.coef_), np.array([float(np.ravel(self.intercept_)[0])]),
            self._threads,
        )  # fmt: skip
        return np.ascontiguousarray(scores[:, 0])

    def to_model(self) -> Any:
        """For `save_model`: the weights, what they prove, and of which data."""
        check_is_fitted(self)
        return self._model

    @classmethod
    def from_model(cls, model: Any) -> Self:
        """A fitted estimator with these weights, which predicts without having seen any data."""
        estimator = cls()
        estimator.set_params(**cls._parameters_of(model.objective))
        estimator._keep_model(model)
        return estimator

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        """Those that make this objective; ValueError if none do."""
        raise NotImplementedError

    def _keep_model(self, model: Any) -> None:
        self._model, self.n_features_in_ = model, model.n_features
        self.coef_, self.intercept_ = model.coef, model.intercept
        self.certificate_ = model.certificate
        if model.alpha is not None:
            self.dual_coef_ = model.alpha

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearRegressor(RegressorMixin, OneFunction):  # type: ignore[misc]
    """What the regressors share.

    Attributes
    ----------
    coef_, intercept_ : (n_features,) and a number.
    dual_coef_ : (n_rows,), the dual variables: coef_ = dual_coef_ @ X at the optimum.
    certificate_, dual_gap_ : primal and dual value, and their difference; `trace_`: how they came
        about. n_iter_, status_, message_, solver_ : how the fit ended.
    """

    fit_intercept: bool
    _model_kind = "regression"

    @interruptible
    def fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | float | None = None
    ) -> Any:
        """Learn to predict y. X may be rows on disk or on a cluster, which bring their targets."""
        if not (is_stored(X) or is_remote(X)):
            X, y = validate_data(self, X, y, y_numeric=True, **MATRIX)
        return self._fit(X, y, sample_weight)

    def predict(self, X: Any) -> Array:
        """w.x + b of each row."""
        return self._values(X)


class LinearSVR(LinearRegressor):
    """Linear support vector regression with a certified duality gap.

    Parameters
    ----------
    epsilon : how far a prediction may be off at no cost.
    tol : the certified relative duality gap (P - D) / P at which to stop.
    C : weight of the losses against 1/2 |w|^2.
    loss : "epsilon_insensitive", or "squared_epsilon_insensitive" for its square.
    fit_intercept, bias : bias=None follows fit_intercept: "regularised" (the weight of a constant
        feature of value `intercept_scaling`, as in scikit-learn's and LIBLINEAR's) or "none";
        "free" leaves the intercept unpenalised.
    Others, and the attributes, as in LinearSVC and LinearRegressor.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = bridle.LinearSVR(C=10.0).fit(X, [0.0, 2.0, 4.0, 6.0])
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        loss: Literal["epsilon_insensitive", "squared_epsilon_insensitive"] = "epsilon_insensitive",
        fit_intercept: bool = True,
        bias: Bias | None = None,
        intercept_scaling: float = 1.0,
        solver: str | Solver = "auto",
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        callback: Callback | None = None,
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.intercept_scaling = intercept_scaling
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.callback = callback
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    def _formula(self) -> tuple[float, Loss, Bias]:
        kinds = {loss.name: loss for loss in (EpsilonInsensitive, SquaredEpsilonInsensitive)}
        if self.loss not in kinds:
            raise ValueError(f"loss must be one of {', '.join(kinds)}, got {self.loss!r}")
        usual: Bias = "regularised" if self.fit_intercept else "none"
        return self.C, kinds[self.loss](float(self.epsilon)), self.bias or usual

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        _expect(objective, "epsilon_insensitive", "squared_epsilon_insensitive")
        return {
            "C": objective.C, "loss": objective.loss, "intercept_scaling": objective.bias_scale,
            "fit_intercept": objective.bias != "none", **objective.parameters,
            "bias": "free" if objective.bias == "free" else None,
        }  # fmt: skip


class QuantileRegressor(LinearRegressor):
    """Linear quantile regression with an l2 penalty and a certified duality gap.

        min_w  1/2 |w|^2 + C sum_i weight_i pinball(t_i - w.x_i - b)

    Parameters
    ----------
    quantile : which part of the targets is to lie below the prediction.
    C : weight of the losses against 1/2 |w|^2.
    penalty : "l2". scikit-learn's class of this name has an l1 penalty, alpha |w|_1, which is
        another model: "l1" is refused.
    fit_intercept : the intercept has no penalty.
    tol : the certified relative duality gap (P - D) / P at which to stop.
    Others, and the attributes, as in LinearSVC and LinearRegressor.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = bridle.QuantileRegressor(quantile=0.9).fit(X, [0.0, 2.0, 4.0, 6.0])
    >>> model.coef_.shape
    (1,)
    """

    def __init__(
        self,
        *,
        quantile: float = 0.5,
        C: float = 1.0,
        penalty: Literal["l2"] = "l2",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        solver: str | Solver = "auto",
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        callback: Callback | None = None,
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.quantile = quantile
        self.C = C
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.callback = callback
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    def _formula(self) -> tuple[float, Loss, Bias]:
        if self.penalty != "l2":
            raise ValueError(
                "this QuantileRegressor has the penalty 1/2 |w|^2, weighed by C; scikit-learn's, "
                "alpha |w|_1, is another model: use sklearn.linear_model.QuantileRegressor for it"
            )
        return self.C, Pinball(float(self.quantile)), "free" if self.fit_intercept else "none"

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        _expect(objective, "pinball")
        return {"C": objective.C, "fit_intercept": objective.bias == "free", **objective.parameters}


class Ridge(LinearRegressor):
    """Least squares with an l2 penalty and a certified duality gap.

        min_w  |t - X w - b|^2 + alpha |w|^2,   as in scikit-learn

    Parameters
    ----------
    alpha : weight of the penalty: 1/(2 C) of the other estimators.
    fit_intercept : the intercept has no penalty.
    tol : the certified relative duality gap (P - D) / P at which to stop.
    Others, and the attributes, as in LinearSVC and LinearRegressor; `dual_gap_` is in the unit of
    the objective above, `certificate_` in that of 1/2 |w|^2 + C |t - X w - b|^2.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = bridle.Ridge(alpha=1.0).fit(X, [0.0, 2.0, 4.0, 6.0])
    >>> print(f"{model.coef_[0]:.3f}")  # sum of (x - mean)(y - mean) over sum of (x - mean)^2 + 1
    1.667
    """

    _nothing = NOTHING.replace("raise C", "lower alpha")

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        solver: str | Solver = "auto",
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        callback: Callback | None = None,
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.callback = callback
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @property
    def dual_gap_(self) -> float:
        """P - D of the objective above."""
        return 2.0 * self.alpha * float(self.certificate_.gap)

    def _formula(self) -> tuple[float, Loss, Bias]:
        if not self.alpha > 0:
            raise ValueError(f"alpha must be positive, got {self.alpha}")
        return 0.5 / self.alpha, Squared(), "free" if self.fit_intercept else "none"

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        _expect(objective, "squared")
        return {"alpha": 0.5 / objective.C, "fit_intercept": objective.bias == "free"}


def _expect(objective: Objective, *losses: str) -> None:
    if objective.loss not in losses:
        raise ValueError(f"the model has the loss {objective.loss}, not {' or '.join(losses)}")
