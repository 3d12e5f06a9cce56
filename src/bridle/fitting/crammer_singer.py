"""Several classes in one problem: each true class ahead of every other one by the same margin.

    min_w  1/2 sum_k |w_k|^2 + sum_i C_i max_k [cost(y_i, k) - (w_{y_i} - w_k).x_i],
    cost(k, k) = 0, and 1 for every other pair unless given.

(Crammer & Singer, "On the algorithmic implementation of multiclass kernel-based vector machines",
JMLR 2001.) It is the structural SVM of sequences of length one. The rows of its dual points W sum
to zero over the classes: with two of them w_1 = -w_0, and w_1 - w_0 is the decision function, of

    1/4 |w|^2 + sum_i C_i max(0, 1 - y_i w.x_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.fitting.classes import Machines, Validation
from bridle.matrix.door import as_matrix
from bridle.models.deciding import MultiClass
from bridle.objective.bias import Bias
from bridle.objective.losses import Loss, loss_from
from bridle.solvers import Solver
from bridle.solving.loop import DEFAULT_STOP
from bridle.solving.many import Keep, Watcher, solve_each
from bridle.solving.stopping import Stop, ValidationLoss
from bridle.structured.chain import ChainProblem
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CrammerSinger(Machines):
    """The one solution, whose w is the table (feature, class), and how to read it."""

    n_classes: int
    constant: float  # the value of the constant feature, the last of the table; 0 if none

    multi_class: ClassVar[MultiClass] = "crammer_singer"

    @property
    def table(self) -> Array:
        """One row of weights per class, with that of the constant feature."""
        table: Array = self.solutions[0].w.reshape(-1, self.n_classes).T
        return table[1:] - table[:1] if self.n_classes == 2 else table

    @property
    def coef(self) -> Array:
        """One row per class; for two classes the difference of the second and the first."""
        table = self.table
        return np.ascontiguousarray(table[:, :-1] if self.constant else table)

    @property
    def intercept(self) -> Array:
        """One per row of `coef`."""
        if not self.constant:
            return np.zeros(1 if self.n_classes == 2 else self.n_classes)
        return self.table[:, -1] * self.constant


@dataclass(frozen=True)
class _JointValidation(ValidationLoss):
    """The loss of all classes on held-out rows; y holds the classes by number."""

    n_classes: int = 0
    problem: Any = None

    def _check(self) -> None:
        pass  # of labels that are not -1 and +1

    def measure(self, w: Array, b: float) -> dict[str, float]:
        table, constant = w.reshape(-1, self.n_classes), self.problem.chains.bias
        scores = self.X @ (table[:-1] if constant else table)
        scores = scores + constant * table[-1] if constant else scores
        truth = scores[np.arange(len(self.y)), self.y]
        behind = scores - truth[:, None] + self.problem.chains.cost[self.y]
        return self.means(behind.max(axis=1), scores.argmax(axis=1) != self.y)


def crammer_singer_problem(
    X: Any,
    codes: ArrayLike,
    n_classes: int,
    C: float = 1.0,
    *,
    cost: ArrayLike | None = None,
    loss: str | Loss = "hinge",
    bias: Bias = "none",
    bias_scale: float = 1.0,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
) -> ChainProblem:
    """The problem; ValueError says which of the options it cannot have."""
    if n_classes < 2:
        raise ValueError(f"there must be at least two classes, got {n_classes}")
    if loss_from(loss).name != "hinge":
        raise ValueError(
            f'multi_class="crammer_singer" has the loss "hinge", not "{loss_from(loss).name}"'
        )
    if bias == "free":
        raise ValueError(
            'multi_class="crammer_singer" cannot leave the intercept unpenalised: bias must be '
            '"regularised" or "none"'
        )
    if n_threads is not None and n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    X = as_matrix(X)
    return ChainProblem(
        X, np.arange(X.shape[0] + 1), np.maximum(np.asarray(codes), 0), n_classes, C, cost=cost,
        transitions=False, bias=bias_scale if bias == "regularised" else 0.0,
        sample_weight=sample_weight, n_threads=n_threads,
    )  # fmt: skip


def solve_crammer_singer(
    X: Any,
    codes: ArrayLike,
    n_classes: int,
    C: float = 1.0,
    *,
    solver: str | Solver = "auto",
    stop: Stop = DEFAULT_STOP,
    watch: Watcher | None = None,
    start: Sequence[Any] | None = None,
    seed: int = 0,
    keep: Keep | None = None,
    validation: Validation | None = None,
    **options: Any,
) -> CrammerSinger:
    """Solve for all classes at once. Other options: as in `crammer_singer_problem`.

    Rows whose code is none of a class must have weight zero.
    """
    problem = crammer_singer_problem(X, codes, n_classes, C, **options)

    def rule_of(_: int) -> Stop:
        assert validation is not None
        return _JointValidation(
            validation.X, validation.codes, sample_weight=validation.sample_weight,
            patience=validation.patience, n_classes=n_classes, problem=problem,
        )  # fmt: skip

    solutions = solve_each(
        1, lambda _: problem, solver, stop=stop, watch=watch, start=start, seed=seed, workers=1,
        keep=keep, rule_of=rule_of if validation is not None else None,
    )  # fmt: skip
    return CrammerSinger(solutions, n_classes, problem.chains.bias)
