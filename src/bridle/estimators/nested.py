"""Hyper-parameters of an estimator's parts: `solver__batch`, `loss__quantile`, `kernel__gamma`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from bridle.problems.base import KERNEL
from bridle.solvers import solver_class, solver_classes


class Nested:
    """Parameters that are dataclasses have their fields among the estimator's, as in a pipeline."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; `deep`: with those of solvers, losses and kernels that are objects."""
        parameters: dict[str, Any] = super().get_params(deep)  # type: ignore[misc]
        if deep:
            for name, part in list(parameters.items()):
                for field in _settings(part):
                    parameters[f"{name}__{field}"] = getattr(part, field)
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; `solver__batch=10` makes another solver of the one that is there."""
        own = super().get_params(deep=False)  # type: ignore[misc]
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for name in list(parameters):
            of, joined, field = name.partition("__")
            part = _object(self, of, parameters.get(of, own.get(of))) if joined else None
            if is_dataclass(part):
                nested[of][field] = parameters.pop(name)
        super().set_params(**parameters)  # type: ignore[misc]
        for of, changes in nested.items():
            part = _object(self, of, getattr(self, of))
            known = _settings(part)
            for field in changes.keys() - set(known):
                raise ValueError(
                    f"Invalid parameter {field!r} for {of} {type(part).__name__}. "
                    f"Valid parameters are: {known}."
                )
            setattr(self, of, replace(part, **changes))
        return self


def _settings(part: Any) -> list[str]:
    """The fields of an object that its constructor takes."""
    if not is_dataclass(part) or isinstance(part, type):
        return []
    return [field.name for field in fields(part) if field.init]


def _object(estimator: Any, of: str, part: Any) -> Any:
    """A part, or the solver of that name: the one with kernels where the estimator has one."""
    if of != "solver" or not isinstance(part, str):
        return part
    first, has_kernel = solver_class(part), hasattr(estimator, "kernel")
    fitting = (found for found in solver_classes(part) if (KERNEL in found.needs) == has_kernel)
    return next(fitting, first)()
