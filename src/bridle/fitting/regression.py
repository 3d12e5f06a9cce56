"""From rows and targets to a regression model and its certificate, wherever the rows are.

    found = fit_regression(X, y, task=Task(C=0.1, loss=Pinball(0.9), bias="free"))
    found.model, found.solution.certificate

The task's loss is one of residuals: of w.x + b - t instead of y (w.x + b).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.fitting.labels import row_weights
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import Task, linear_problem
from bridle.matrix.door import readable
from bridle.models.header import Objective
from bridle.models.regression import RegressionModel
from bridle.objective.losses import loss_from
from bridle.problems.linear import LinearProblem
from bridle.rows.homes import MEMORY, home_of
from bridle.solving.loop import solve
from bridle.solving.many import Watcher
from bridle.solving.solution import Solution
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class RegressionFit:
    """What it leaves behind: the model, and how it came about."""

    model: RegressionModel
    solution: Solution
    problem: LinearProblem


def fit_regression(
    rows: Any,
    targets: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | float | None = None,
    task: Task,
    effort: Effort = Effort(),  # noqa: B008  (frozen)
    store_dual: bool = False,
) -> RegressionFit:
    """Learn to predict the targets; rows on disk or on a cluster bring theirs."""
    loss = loss_from(task.loss)
    if not loss.residual:
        raise ValueError(f"the loss {loss.name!r} is one of classes, not of targets")
    home = home_of(rows)
    if home == MEMORY:
        rows = readable(rows)
        sample_weight = row_weights(sample_weight, rows.shape[0])
    problem = linear_problem(
        rows, targets, task, sample_weight=sample_weight, n_threads=effort.n_threads
    )
    solution = solve(
        problem, effort.solver, stop=effort.stop, seed=effort.seed, keep=effort.keep,
        callbacks=_callbacks(effort.watch),
    )  # fmt: skip
    fingerprint = problem.identity()
    model = RegressionModel(
        np.asarray(solution.w), float(solution.b),
        Objective(
            loss.name, float(problem.C), task.bias, float(task.bias_scale),
            sample_weight is not None, loss.parameters,
        ),
        solution.certificate, "" if fingerprint is None else str(fingerprint["data"]),
        problem.n_rows, np.array(solution.alpha) if store_dual and home == MEMORY else None,
        info={"solver": solution.solver, "status": solution.status.value},
    )  # fmt: skip
    return RegressionFit(model, solution, problem)


def _callbacks(watch: Watcher | None) -> Any:
    return () if watch is None else (lambda record: watch(0, record),)
