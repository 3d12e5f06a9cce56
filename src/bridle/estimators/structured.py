"""StructuredSVM: anything that has an oracle, as a scikit-learn estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from bridle.errors import ModelError, OracleError
from bridle.estimators.base import Certified, callbacks_of, seed_from, stop_of, warn_of_gap
from bridle.models.storage import load_model
from bridle.models.structured import StructuredModel
from bridle.solvers import Solver
from bridle.solving.loop import Callback, solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Status
from bridle.structured.oracle import Oracle
from bridle.structured.problem import Rescaling, StructuredProblem
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted


class StructuredSVM(Certified, BaseEstimator):  # type: ignore[misc]
    """Structural SVM with your own oracle; see `bridle.Oracle` and `bridle.check_oracle`.

    min_w 1/2 |w|^2 + C sum_i max_y [Delta(y_i, y) - w.(Psi(x_i, y_i) - Psi(x_i, y))]

    tol: the certified relative duality gap to reach. rescaling: "margin" or "slack". executor: to
    ask the oracle about many samples at a time. max_iter, max_seconds: budgets for passes over the
    data and for seconds. callback: a function of the newest Record; returning True ends the fit,
    with the best model so far and its gap.

    After fit: coef_, certificate_, trace_, status_, message_, n_iter_. If the oracle fails, the
    OracleError names the sample, and the estimator keeps the best model found before.
    """

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
    ) -> None:
        self.oracle = oracle
        self.C = C
        self.solver = solver
        self.tol = tol
        self.rescaling = rescaling
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.n_threads = n_threads
        self.executor = executor

    def fit(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: ArrayLike | None = None
    ) -> StructuredSVM:
        """Learn from inputs and their true outputs."""
        problem = StructuredProblem(
            self.oracle, X, y, self.C, rescaling=self.rescaling, sample_weight=sample_weight,
            n_threads=self.n_threads, executor=self.executor,
        )  # fmt: skip
        try:
            solution = solve(
                problem, self.solver, stop=stop_of(self.tol, self.max_iter, self.max_seconds),
                callbacks=callbacks_of(self.callback), seed=seed_from(self.random_state),
            )  # fmt: skip
        except OracleError as error:
            if error.solution is not None:
                self._keep(error.solution)
            raise
        self._keep(solution)
        warn_of_gap(solution, self.tol)
        return self

    def _keep(self, solution: Solution) -> None:
        self.coef_ = solution.w
        self._keep_proof(solution)

    def to_model(self) -> StructuredModel:
        """Weights and certificate, for `save`; the oracle is code, and not part of it."""
        check_is_fitted(self, "coef_")
        return StructuredModel(
            self.coef_, type(self.oracle).__name__, float(self.C), self.rescaling,
            self.certificate_, {"solver": self.solver_, "status": self.status_.value},
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str], oracle: Oracle) -> StructuredSVM:
        """A fitted estimator from a file of `save`, with the oracle that it was trained with."""
        model = load_model(path)
        if not isinstance(model, StructuredModel):
            raise ModelError(f"{os.fsdecode(path)}: a model of kind {model.kind!r}, not structured")
        model.check(oracle)
        try:
            solver, status = str(model.info["solver"]), Status(model.info["status"])
        except (KeyError, ValueError) as error:
            raise ModelError(f"{os.fsdecode(path)}: malformed model: {error}") from error
        estimator = cls(oracle, model.C, rescaling=model.rescaling)  # type: ignore[arg-type]
        estimator.coef_, estimator.certificate_ = model.w, model.certificate
        estimator.solver_, estimator.status_ = solver, status
        return estimator

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
