"""StructuredSVM: anything that has an oracle, as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from bridle.errors import ModelError
from bridle.estimators.base import interruptible
from bridle.estimators.structural import Structural
from bridle.fitting.task import StructuralTask
from bridle.models.storage import load_model
from bridle.models.structured import StructuredModel
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from bridle.structured.oracle import Oracle
from bridle.structured.problem import Rescaling, StructuredProblem
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted


class StructuredSVM(Structural, BaseEstimator):  # type: ignore[misc]
    """Structural SVM with your own oracle; see `bridle.Oracle` and `bridle.check_oracle`.

    min_w 1/2 |w|^2 + C sum_i max_y [Delta(y_i, y) - w.(Psi(x_i, y_i) - Psi(x_i, y))]

    tol: the certified relative duality gap to reach. rescaling: "margin" or "slack". executor: to
    ask the oracle about many samples at a time. max_iter, max_seconds: budgets for passes over the
    data and for seconds. callback: a function of the newest Record; returning True ends the fit,
    with the best model so far and its gap. keep: which weights to return, the "best" or
    the "final" ones, as in `bridle.solve`.

    After fit: coef_, certificate_, trace_, status_, message_, n_iter_. If the oracle fails, the
    OracleError names the sample, and the estimator keeps the best model found before.

    Examples
    --------
    >>> oracle = bridle.MultilabelOracle(n_inputs=2, n_labels=2)
    >>> X, Y = [[0.0, 1.0], [1.0, 0.0]], [(0, 1), (1, 0)]
    >>> bridle.StructuredSVM(oracle, C=10.0).fit(X, Y).predict(X)
    [(0, 1), (1, 0)]
    """

    model_: StructuredModel

    _decisive = ()  # the oracle's answers may differ without them

    def __init__(
        self,
        oracle: Oracle,
        C: float = 1.0,
        *,
        solver: str | Solver = "bcfw",
        tol: float = 1e-3,
        rescaling: Rescaling = "margin",
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_threads: int | None = 1,
        executor: Any = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
    ) -> None:
        super().__init__(
            C, solver, tol, max_iter, max_seconds, callback, random_state, n_threads, keep,
            interrupt,
        )  # fmt: skip
        self.oracle = oracle
        self.rescaling = rescaling
        self.executor = executor

    @interruptible
    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None
    ) -> StructuredSVM:
        """Learn from inputs and their true outputs."""
        problem = StructuredProblem(
            self.oracle, X, y, self.C, rescaling=self.rescaling, sample_weight=sample_weight,
            n_threads=self._threads, executor=self.executor,
        )  # fmt: skip
        model = partial(StructuredModel.for_oracle, oracle=self.oracle, rescaling=self.rescaling)
        return self._fit(StructuralTask(problem, model))

    def _show(self, model: StructuredModel) -> None:
        self.coef_ = model.w

    @classmethod
    def load(cls, path: str | os.PathLike[str], oracle: Oracle | None = None) -> StructuredSVM:
        """A fitted estimator from a file of `save`, with the oracle that it was trained with.

        One in `bridle.structured.ORACLES` is made again; any other one must be given.
        """
        model = load_model(path)
        if not isinstance(model, StructuredModel):
            raise ModelError(f"{os.fsdecode(path)}: a model of kind {model.kind!r}, not structured")
        try:
            return cls.from_model(model, oracle)
        except KeyError as error:
            raise ModelError(f"{os.fsdecode(path)}: malformed model: {error}") from error

    @classmethod
    def from_model(cls, model: StructuredModel, oracle: Oracle | None = None) -> StructuredSVM:
        """The same from a model in memory."""
        oracle = model.oracle() if oracle is None else oracle
        model.check(oracle)
        estimator = cls(oracle, model.C, rescaling=model.rescaling)  # type: ignore[arg-type]
        return cls._around(model, estimator)

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The best output of every input."""
        check_is_fitted(self, "coef_")
        return [self.oracle.argmax(x, self.coef_) for x in X]

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """1 minus the mean loss: the accuracy, where the loss is 0 or 1."""
        losses = [
            self.oracle.loss(truth, answer)
            for truth, answer in zip(y, self.predict(X), strict=True)
        ]
        return 1.0 - sum(losses) / len(losses)
