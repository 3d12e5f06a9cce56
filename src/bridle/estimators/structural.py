"""What the estimators of structural problems share: fit is a problem, its solution and a model."""

from __future__ import annotations

import warnings
from typing import Any, Self

from bridle.errors import OracleError
from bridle.estimators.base import (
    Certified,
    GapWarning,
    advised,
    callbacks_of,
    seed_from,
    stop_of,
)
from bridle.fitting.task import StructuralTask
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback, solve
from bridle.solving.solution import Keep, Solution
from bridle.solving.stopping import Status
from bridle.structured.problem import StructuredBase
from sklearn.utils.validation import check_is_fitted


class Solved(Certified):
    """The parameters of every structural estimator, and how its problem is solved."""

    def __init__(
        self,
        C: float,
        solver: str | Solver,
        tol: float,
        max_iter: int,
        max_seconds: float | None,
        callback: Callback | None,
        random_state: Any,
        n_threads: int | None,
        keep: Keep,
        interrupt: Interrupt,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.n_threads = n_threads
        self.keep = keep
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    def _solve(self, problem: StructuredBase, seed: int) -> Solution:
        return solve(
            problem, self.solver, stop=stop_of(self.tol, self.max_iter, self.max_seconds),
            callbacks=self._callbacks(), seed=seed, keep=self.keep, interrupt="return",
        )  # fmt: skip

    def _callbacks(self) -> tuple[Callback, ...]:
        return callbacks_of(self.callback)

    def _remember(self, model: Any) -> None:
        """What a model says of how it was made."""
        self.certificate_, self.solver_ = model.certificate, model.info.get("solver")
        known = model.info.get("status")
        self.status_ = None if known is None else Status(known)  # type: ignore[assignment]

    def _warn(self, solution: Solution, stacklevel: int) -> None:
        """To whoever called `fit`."""
        if not solution.converged:
            message = advised(solution.message, solution.status)
            warnings.warn(
                GapWarning(message, solution.certificate, self.tol), stacklevel=stacklevel
            )


class Structural(Solved):
    """An estimator that leaves a model behind, which can be kept in a file."""

    model_: Any

    def _fit(self, task: StructuralTask[Any, Any]) -> Self:
        """Solve; if an oracle fails, the best model found before is kept."""
        seed = seed_from(self.random_state)
        try:
            solution = self._solve(task.problem, seed)
        except OracleError as error:
            if error.solution is not None:
                self._keep(task.fitted(error.solution, seed=seed), error.solution)
            raise
        self._keep(task.fitted(solution, seed=seed), solution)
        self._warn(solution, stacklevel=5)
        return self

    def _keep(self, model: Any, solution: Solution) -> None:
        self.model_ = model
        self._keep_proof(solution)
        self._show(model)

    def _show(self, model: Any) -> None:
        """Set the attributes of the fitted estimator."""
        raise NotImplementedError

    def to_model(self) -> Any:
        """For `save_model`."""
        check_is_fitted(self, "model_")
        return self.model_

    @classmethod
    def from_model(cls, model: Any) -> Self:
        """A fitted estimator with this model, which predicts without having seen any data."""
        return cls._around(model, cls(**cls._parameters_of(model)))

    @classmethod
    def _parameters_of(cls, model: Any) -> dict[str, Any]:
        """What the model knows of how it was made."""
        return {"C": model.C}

    @classmethod
    def _around(cls, model: Any, estimator: Self) -> Self:
        estimator.model_ = model
        estimator._remember(model)
        estimator._show(model)
        return estimator
