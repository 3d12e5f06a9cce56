"""The registry of solvers: a name for each, loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Solver

# name -> (module, class): a new solver is one file and one line here.
REGISTRY: dict[str, tuple[str, str]] = {
    "auto": ("bridle.solvers.auto", "Auto"),
    "dcd": ("bridle.solvers.dcd", "DualCoordinateDescent"),
    "interior-point": ("bridle.solvers.interior_point", "InteriorPoint"),
    "pegasos": ("bridle.solvers.pegasos", "Pegasos"),
    "gd": ("bridle.solvers.gd", "GradientDescent"),
    "sgd": ("bridle.solvers.sgd", "StochasticGradientDescent"),
    "svmsgd": ("bridle.solvers.svmsgd", "SvmSgd"),
    "asgd": ("bridle.solvers.asgd", "AveragedSgd"),
    "sgd-qn": ("bridle.solvers.sgd_qn", "SgdQn"),
    "sgd-r": ("bridle.solvers.sgd_r", "SgdR"),
    "sgd-s": ("bridle.solvers.sgd_s", "SgdS"),
    "sgd-m": ("bridle.solvers.sgd_m", "SgdM"),
    "perceptron": ("bridle.solvers.perceptron", "Perceptron"),
    "margin-perceptron": ("bridle.solvers.margin_perceptron", "MarginPerceptron"),
    "mpu": ("bridle.solvers.mpu", "MarginPerceptronUnlearning"),
    "norma": ("bridle.solvers.norma", "Norma"),
    "svmperf": ("bridle.solvers.svmperf", "SvmPerf"),
    "ocas": ("bridle.solvers.ocas", "Ocas"),
    "newton": ("bridle.solvers.newton", "Newton"),
    "cg": ("bridle.solvers.cg", "ConjugateGradients"),
    "qp": ("bridle.solvers.qp", "QuadraticProgramme"),
    "n-slack": ("bridle.solvers.n_slack", "NSlack"),
    "one-slack": ("bridle.solvers.one_slack", "OneSlack"),
    "subgradient": ("bridle.solvers.structured_subgradient", "StructuredSubgradient"),
    "bcfw": ("bridle.solvers.bcfw", "BlockFrankWolfe"),
    "smo": ("bridle.solvers.smo", "Smo"),
    "cocoa": ("bridle.solvers.cocoa", "Cocoa"),
    "budgeted-pegasos": ("bridle.solvers.budgeted_pegasos", "BudgetedPegasos"),
}

# kind of problem -> name -> (module, class): where a name means another class for that kind.
VARIANTS: dict[str, dict[str, tuple[str, str]]] = {
    "kernel": {
        "auto": ("bridle.solvers.smo", "Smo"),
        "pegasos": ("bridle.solvers.kernel_stochastic", "KernelPegasos"),
        "sgd": ("bridle.solvers.kernel_stochastic", "KernelSgd"),
        "norma": ("bridle.solvers.kernel_stochastic", "KernelNorma"),
    },
    "streamed": {"auto": ("bridle.solvers.dcd", "DualCoordinateDescent")},
    "distributed": {"auto": ("bridle.solvers.cocoa", "Cocoa")},
}


def solver_class(name: str, kind: str = "linear") -> type[Solver]:
    """The class behind a registered name, for the given kind of problem."""
    try:
        module, attribute = VARIANTS.get(kind, {}).get(name) or REGISTRY[name]
    except KeyError:
        known = ", ".join(solver_names(kind))
        raise ValueError(f"unknown solver {name!r}; known: {known}") from None
    found: type[Solver] = getattr(importlib.import_module(module), attribute)
    return found


def solver_names(kind: str) -> list[str]:
    """Those that solve problems of this kind."""
    return [name for name in REGISTRY if kind in solver_class(name, kind).kinds]


def solver_from(solver: str | Solver, kind: str = "linear", **settings: Any) -> Solver:
    """A solver by its name, with the given hyper-parameters, or the solver itself.

    kind: of the problem it is for; one name may mean a class for each kind.
    """
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str):
        raise TypeError(f"solver must be a name or a Solver, got {type(solver).__name__}")
    return solver_class(solver, kind)(**settings)


def __getattr__(name: str) -> Any:
    variants = [entry for names in VARIANTS.values() for entry in names.values()]
    for module, attribute in [*REGISTRY.values(), *variants]:
        if name == attribute:
            return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'bridle.solvers' has no attribute {name!r}")


__all__ = [
    "REGISTRY",
    "VARIANTS",
    "Iterate",
    "Iterates",
    "Solver",
    "solver_class",
    "solver_from",
    "solver_names",
]
