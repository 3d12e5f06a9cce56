"""The matrix that every linear solver is tested on: solver x loss x bias x dtype x storage.

A new solver is one line in SOLVERS; a new loss is one line in LOSSES of reference.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy.sparse as sp
from bridle import Epochs, Gap, LinearProblem, solve
from bridle.problems.base import WEIGHTS
from bridle.rows.memory import MemoryRows
from bridle.solvers import REGISTRY, Solver, solver_class, solver_from

import reference


@dataclass(frozen=True)
class Case:
    """What to expect of a solver on the small problems below."""

    gap: float  # it certifies this ...
    epochs: int  # ... within so many epochs; a solver that does not converge just runs them
    solver: Solver | None = None  # the defaults, unless given


SOLVERS: dict[str, Case] = {
    "auto": Case(gap=1e-5, epochs=2000),
    "dcd": Case(gap=1e-5, epochs=2000),
    "interior-point": Case(gap=1e-12, epochs=100),
    "pegasos": Case(gap=0.1, epochs=1000),
    "svmperf": Case(gap=1e-5, epochs=1000),
    "ocas": Case(gap=1e-5, epochs=1000),
    "newton": Case(gap=1e-7, epochs=200),
    "cg": Case(gap=1e-5, epochs=2000),
    "gd": Case(gap=0.1, epochs=2000),
    "sgd": Case(gap=0.1, epochs=1000),
    "svmsgd": Case(gap=0.1, epochs=1000),
    "asgd": Case(gap=0.1, epochs=1000),
    "sgd-qn": Case(gap=0.1, epochs=1000),
    "sgd-r": Case(gap=0.1, epochs=1000),
    "sgd-s": Case(gap=0.01, epochs=1000),
    "sgd-m": Case(gap=0.01, epochs=1000),
    "perceptron": Case(gap=0.0, epochs=20),
    "batch-perceptron": Case(gap=0.0, epochs=20),
    "margin-perceptron": Case(gap=0.0, epochs=20),
    "mpu": Case(gap=1e-4, epochs=1000),
    "norma": Case(gap=0.0, epochs=20),
    "qp": Case(gap=1e-7, epochs=1),
}

LOSSES = tuple(reference.LOSSES)
BIASES = ("none", "regularised", "free")
DTYPES = ("float32", "float64")
STORAGES = ("csr-32", "csr-64", "dense")


# What a linear problem with its rows in memory offers.
MEMORY = frozenset({WEIGHTS, *MemoryRows.offers})


def linear_names():
    return [name for name in REGISTRY if solver_class(name).needs <= MEMORY]


def small_data(seed=0, n_rows=90, n_features=12, *, dtype="float64", storage="dense"):
    """Noisy, not separable, a third of the entries stored, one empty row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.35)
    X[3] = 0.0
    y = np.where(X @ rng.normal(size=n_features) + 0.4 + 0.8 * rng.normal(size=n_rows) > 0, 1, -1)
    return in_storage(X, dtype, storage), y.astype(np.float64)


def in_storage(X, dtype, storage):
    X = X.astype(dtype)
    if storage == "dense":
        return np.ascontiguousarray(X)
    csr = sp.csr_matrix(X)
    index = np.int32 if storage == "csr-32" else np.int64
    # The constructor would choose the index type itself.
    csr.indptr, csr.indices = csr.indptr.astype(index), csr.indices.astype(index)
    return csr


def small_problem(loss="hinge", bias="none", dtype="float64", storage="dense", *, weighted=True,
                  C=0.5, seed=0, n_threads=None, **data):  # fmt: skip
    X, y = small_data(seed, dtype=dtype, storage=storage, **data)
    if loss in reference.RESIDUAL:
        y = targets_of(X, seed)
    if loss in reference.NU:  # of rows on all sides of the origin the best w is 0
        X = abs(X)
    weights = np.random.default_rng(seed + 1).choice([0.0, 0.5, 1.0, 2.5], len(y))
    return LinearProblem(
        X, y, C, loss=loss, bias=bias, bias_scale=0.7 if bias == "regularised" else 1.0,
        sample_weight=weights if weighted else None, n_threads=n_threads,
    )  # fmt: skip


def targets_of(X, seed=0):
    """What a regression on these rows is to find."""
    rng = np.random.default_rng(seed + 2)
    slopes, noise = rng.normal(size=X.shape[1]), rng.normal(size=X.shape[0])
    return np.asarray(X @ slopes, np.float64) + 0.7 + 0.5 * noise


def case_solver(name):
    return SOLVERS[name].solver or solver_from(name)


def run(name, problem, **options):
    case = SOLVERS[name]
    options = {"stop": Gap(case.gap) | Epochs(case.epochs)} | options
    return solve(problem, case_solver(name), **options)


def cells():
    """Every combination that the solver says it can do."""
    return [cell for cell, reason in _asked() if reason is None]


# On every storage: dcd and newton by every loss, and every solver by the first two.
BROADLY = {"hinge", "squared_hinge", "perceptron"}


def stored(cells):
    """The cells on their storages, in both precisions: those of gradients on one of each."""
    once = (("float32", "csr-32"), ("float64", "dense"))
    return [
        (*cell, *home)
        for home in product(DTYPES, STORAGES)
        for cell in cells
        if home in once or cell[1] in BROADLY or cell[0] in ("dcd", "newton")
    ]


def refused():
    """Every combination that the solver says it cannot do."""
    return [cell for cell, reason in _asked() if reason is not None]


def settings():
    """Every loss with the biases that there are for it."""
    return [(loss, bias) for loss in LOSSES for bias in biases_of(loss)]


def biases_of(loss):
    return ("free",) if loss in reference.NU else BIASES


def _asked():
    for loss, bias in settings():
        problem = small_problem(loss, bias)
        for name in linear_names():
            yield (name, loss, bias), solver_class(name).refusal(problem)
