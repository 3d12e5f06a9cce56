"""LogisticRegression: its probabilities are the model's own, and its accuracy is proven.

    min_w  1/2 |w|^2 + sum_i C_i log(1 + exp(-y_i (w.x_i + b))),

once for two classes; for more, all of them in one loss, log sum_k exp(s_ik) - s_{i, y_i} with
s_ik = w_k.x_i + b_k; or once for each class against the others, or for each pair of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from bridle.estimators.base import LARGEST_C
from bridle.estimators.linear import LinearSVC
from bridle.fitting.fit import Extras
from bridle.models.deciding import MultiClass
from bridle.models.linear import LinearModel
from bridle.objective.bias import Bias
from bridle.rows.cuda.device import Where
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep


class LogisticRegression(LinearSVC):
    """Logistic regression with an l2 penalty and a certified duality gap.

    Parameters
    ----------
    C : weight of the losses against 1/2 |w|^2; infinity, all but no penalty, is taken as 1e10.
    penalty : "l2"; "l1", |w|_1 instead of 1/2 |w|^2, or "elasticnet", l1_ratio |w|_1 +
        (1 - l1_ratio)/2 |w|^2, which make many weights 0: of two classes, or of several with
        multi_class "ovr" or "ovo". Their solver is "cd".
    tol : the certified relative duality gap (P - D) / P at which to stop.
    fit_intercept, bias : bias=None follows fit_intercept: "free", an intercept without a penalty,
        as scikit-learn's, or "none"; "regularised" makes it the weight of a constant feature of
        value `intercept_scaling`, as LIBLINEAR's. Rows on disk have no free one.
    multi_class : what to make of more than two classes: "multinomial", one problem of all of them,
        as scikit-learn does, with one certificate, which needs the rows in memory and has no
        `dual_coef_`; "ovr", a machine for each class against the rest; "ovo", one for each pair.

    All others, and the attributes, as in LinearSVC; `predict_proba` is there after every fit: of
    two classes 1 / (1 + exp(-(w.x + b))), of more the softmax of the scores; with "ovr" the former
    of each function, divided by the sum.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> model = bridle.LogisticRegression().fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    loss = "logistic"
    _penalties = ("l2", "l1", "elasticnet")
    probability = False
    device: Where = "cpu"

    def __init__(
        self,
        C: float = 1.0,
        *,
        penalty: str = "l2",
        l1_ratio: float | None = None,
        dual: bool | str = "auto",
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        bias: Bias | None = None,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_threads: int | None = None,
        multi_class: MultiClass = "multinomial",
        store_dual: bool | None = None,
        callback: Callback | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_threads = n_threads
        self.multi_class = multi_class
        self.store_dual = store_dual
        self.callback = callback
        self.keep = keep
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    def _bias(self) -> Bias:
        if self.bias is not None:
            return self.bias
        return "free" if self.fit_intercept else "none"

    @property
    def _cost(self) -> float:
        return LARGEST_C if np.inf == self.C else self.C

    def _extras(self, store_dual: bool | None) -> Extras:
        return Extras(store_dual=store_dual, resumable=self.warm_start)

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class, in the order of `classes_`; each row sums to 1."""
        return self._probabilities(X)

    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @classmethod
    def from_model(cls, model: LinearModel) -> Self:
        """A fitted estimator with these weights, which predicts without having seen any data."""
        objective: Any = model.objective
        if not objective.formula.sigmoid:
            raise ValueError(f"the model has the loss {objective.loss}, not the logistic one")
        estimator = cls(
            fit_intercept=objective.bias != "none",
            bias=None if objective.bias == "free" else objective.bias,
            intercept_scaling=objective.bias_scale,
        )
        estimator.set_params(**cls._further_parameters(model))
        estimator._keep_made(model)
        return estimator
