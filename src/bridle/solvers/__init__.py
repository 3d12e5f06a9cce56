"""The registry of solvers: a name for each, loaded when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from bridle.objective.point import Iterate
from bridle.objective.registry import add_installed
from bridle.problems.base import Problem
from bridle.solvers.base import Iterates, Solver

# name -> classes, each as module:class below bridle.solvers. A new solver is one file and one line
# here; one from elsewhere may add its own, REGISTRY["mine"] = ("package.module:Mine",), or an
# installed package by an entry point of the group "bridle.solvers". One name may stand for several
# classes: it means the first whose needs the problem meets.
REGISTRY: dict[str, tuple[str, ...]] = {
    "auto": (
        "auto:Auto", "dcd:DualCoordinateDescent", "cocoa:Cocoa", "smo:Smo", "auto:AutoStructured",
        "auto:AutoMultinomial", "cd:CoordinateDescent",
    ),
    "dcd": ("dcd:DualCoordinateDescent",),
    "interior-point": ("interior_point:InteriorPoint",),
    "pegasos": ("pegasos:Pegasos", "kernel_stochastic:KernelPegasos"),
    "gd": ("gd:GradientDescent",),
    "sgd": ("sgd:StochasticGradientDescent", "kernel_stochastic:KernelSgd"),
    "svmsgd": ("svmsgd:SvmSgd",),
    "asgd": ("asgd:AveragedSgd",),
    "sgd-qn": ("sgd_qn:SgdQn",),
    "sgd-r": ("sgd_r:SgdR",),
    "sgd-s": ("sgd_s:SgdS",),
    "sgd-m": ("sgd_m:SgdM",),
    "perceptron": ("perceptron:Perceptron",),
    "batch-perceptron": ("batch_perceptron:BatchPerceptron",),
    "margin-perceptron": ("margin_perceptron:MarginPerceptron",),
    "mpu": ("mpu:MarginPerceptronUnlearning",),
    "norma": ("norma:Norma", "kernel_stochastic:KernelNorma"),
    "svmperf": ("svmperf:SvmPerf",),
    "ocas": ("ocas:Ocas",),
    "newton": ("newton:Newton", "multinomial_newton:MultinomialNewton"),
    "cd": ("cd:CoordinateDescent",),
    "cg": ("cg:ConjugateGradients",),
    "qp": ("qp:QuadraticProgramme",),
    "n-slack": ("n_slack:NSlack",),
    "one-slack": ("one_slack:OneSlack",),
    "subgradient": ("structured_subgradient:StructuredSubgradient",),
    "bcfw": ("bcfw:BlockFrankWolfe",),
    "smo": ("smo:Smo",),
    "cocoa": ("cocoa:Cocoa",),
    "budgeted-pegasos": ("budgeted_pegasos:BudgetedPegasos",),
}  # fmt: skip


# What scripts that come from there say. Whoever leaves it out gets `auto`.
OF_SCIKIT_LEARN = frozenset({
    "lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga", "svd", "cholesky", "lsqr",
    "sparse_cg", "highs", "highs-ds", "highs-ipm",
})  # fmt: skip


def solver_classes(name: str) -> Iterator[type[Solver]]:
    """The classes behind a registered name, loaded one by one."""
    for entry in REGISTRY[name]:
        yield _load(entry)


def _load(entry: str) -> type[Solver]:
    module, _, attribute = entry.partition(":")
    inside = f"{__name__}.{module}"
    ours = "." not in module and importlib.util.find_spec(inside) is not None
    home = inside if ours else module
    found: type[Solver] = getattr(importlib.import_module(home), attribute)
    return found


def solver_class(name: str, offers: frozenset[str] | None = None) -> type[Solver]:
    """The class behind a registered name, for a problem that offers this; else the first one."""
    if name not in REGISTRY:
        add_installed("bridle.solvers", REGISTRY, lambda place: (place,))
    if name not in REGISTRY:
        known = ", ".join(REGISTRY if offers is None else _fitting(offers))
        theirs = "; the name is scikit-learn's: leave it out" if name in OF_SCIKIT_LEARN else ""
        raise ValueError(f"unknown solver {name!r}; known: {known}{theirs}")
    first: type[Solver] | None = None
    for found in solver_classes(name):
        if offers is None or found.needs <= offers:
            return found
        first = first or found
    assert first is not None
    return first


def solver_names(problem: Problem) -> list[str]:
    """Those that have what they need of this problem."""
    return _fitting(problem.offers)


def _fitting(offers: frozenset[str]) -> list[str]:
    return [name for name in REGISTRY if solver_class(name, offers).needs <= offers]


def solver_from(solver: str | Solver, problem: Problem | None = None, **settings: Any) -> Solver:
    """A solver by its name, with the given hyper-parameters, or the solver itself.

    problem: what it is for, where one name means several classes.
    """
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str):
        raise TypeError(f"solver must be a name or a Solver, got {type(solver).__name__}")
    return solver_class(solver, None if problem is None else problem.offers)(**settings)


def __getattr__(name: str) -> Any:
    for entries in REGISTRY.values():
        for entry in entries:
            if entry.endswith(f":{name}"):
                return _load(entry)
    raise AttributeError(f"module 'bridle.solvers' has no attribute {name!r}")


__all__ = [
    "REGISTRY",
    "Iterate",
    "Iterates",
    "Solver",
    "solver_class",
    "solver_classes",
    "solver_from",
    "solver_names",
]
