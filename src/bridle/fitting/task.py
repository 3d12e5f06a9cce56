"""What is to be solved, and the model that a solution of it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bridle.solving.solution import Solution
from bridle.structured.problem import StructuredBase

Problem = TypeVar("Problem", bound=StructuredBase)
Model = TypeVar("Model")


@dataclass(frozen=True)
class StructuralTask(Generic[Problem, Model]):
    """A structural problem; `model` makes a model of weights, C, certificate and info."""

    problem: Problem
    model: Callable[..., Model]

    def fitted(self, solution: Solution, **info: Any) -> Model:
        """The model of a solution; info: what else to keep of how it came about."""
        return self.model(
            solution.w, C=self.problem.C, certificate=solution.certificate,
            info={"solver": solution.solver, "status": solution.status.value, **info},
        )  # fmt: skip
