"""The n-slack cutting-plane method.

    min_{w, xi}  1/2 |w|^2 + sum_i C_i xi_i   such that   w.psi_i(y) >= Delta(y_i, y) - xi_i

with the constraints of each row found one at a time: every row whose most violated constraint is
worse than its slack adds it, and the quadratic programme over all of them is solved again
(Tsochantaridis, Joachims, Hofmann & Altun, JMLR 2005). Constraints without weight for long are
forgotten.

With C = inf there are no slacks, and the weights of constraints have no bound. The programme is
given one all the same, on the sum of all weights, which is raised while it matters: it matters for
ever exactly if no w satisfies the constraints, and the weights then tend to a combination of them
that proves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.problems.base import ORACLE
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel
from bridle.structured.bounds import Errors, MeanIterate, excess_of, of_sum

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.structured.problem import Combination, Constraint, StructuredBase


@dataclass(frozen=True)
class NSlack(Solver):
    """Cutting planes row by row.

    idle: constraints that had no weight in so many rounds are forgotten. parts: the programme is
    solved again after each of so many parts of the rows.

    Examples
    --------
    >>> X, Y = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["D", "N"], ["D", "N"]]
    >>> model = bridle.ChainSVM(solver=bridle.NSlack()).fit(X, Y)
    >>> model.certificate_.relative_gap <= 1e-2
    True
    """

    idle: int = 50
    parts: int = 10

    name: ClassVar[str] = "n-slack"
    needs: ClassVar[frozenset[str]] = frozenset({ORACLE})
    hard_margin: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise ValueError(f"parts must be at least 1, got {self.parts}")

    def iterates(
        self, problem: StructuredBase, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after the oracle has been asked about every row once."""
        if problem.hard_margin:
            yield from self._hard_iterates(problem, start)
            return
        n = problem.n_rows
        model = CuttingPlaneModel(
            problem.n_features, caps=problem.cost, idle=self.idle, sparse=True
        )
        w = np.zeros(problem.n_features) if start is None else np.array(start.w, np.float64)
        slack = np.zeros(n)
        errors: list[Errors] = []  # of each constraint
        bounds = np.linspace(0, n, min(self.parts, n) + 1).astype(int)
        step = epoch = 0
        while True:
            excess = 0.0  # of the losses over the slacks: the gap, were w the same throughout
            for begin, end in pairwise(bounds.tolist()):
                added = 0
                for i in range(begin, end):
                    step += 1
                    constraint = problem.constraint(i, w)
                    violation = constraint.violation(w)
                    if violation > slack[i] + 1e-12 * max(1.0, constraint.loss):
                        excess += float(problem.cost[i]) * (violation - slack[i])
                        psi = constraint.psi
                        model.add((psi.indices, psi.values), constraint.loss, i)
                        errors.append(constraint.errors)
                        added += 1
                if added:
                    w = model.solve().w
                    slack[:] = 0.0
                    np.maximum.at(slack, model.group, model.r - model.products(w))
            errors = [errors[k] for k in model.drop_idle().tolist()]
            epoch += 1
            alpha = np.append(w, float(model.r @ model.beta))
            dual = float(alpha[-1]) - 0.5 * float(w @ w)
            estimate = excess / (excess + dual) if excess + dual > 0 else 0.0
            sums: Any = np.bincount(model.group, model.beta, n)
            own = _errors(model, errors, excess_of(sums, model.caps, len(model)))
            yield MeanIterate(step, epoch, w, 0.0, alpha, estimate, errors=own)

    def _hard_iterates(self, problem: StructuredBase, start: Any) -> Iterates:
        """Ends when no constraint is violated."""
        n = problem.n_rows
        model = CuttingPlaneModel(problem.n_features, idle=self.idle, sparse=True)
        rows: list[int] = []
        known: list[Constraint] = []
        w = np.zeros(problem.n_features) if start is None else np.array(start.w, np.float64)
        bounds = np.linspace(0, n, min(self.parts, n) + 1).astype(int)
        step = epoch = 0
        while True:
            total = 0
            for begin, end in pairwise(bounds.tolist()):
                added = 0
                for i in range(begin, end):
                    step += 1
                    constraint = problem.constraint(i, w)
                    if problem.cost[i] > 0 and constraint.is_violated(w):
                        psi = constraint.psi
                        model.add((psi.indices, psi.values), constraint.loss)
                        rows.append(i)
                        known.append(constraint)
                        added += 1
                if added:
                    w = _solve_hard(model)
                total += added
            epoch += 1
            loose = model.beta.sum() < 0.99 * model.caps[0]
            alpha = np.append(model.weights(), float(model.r @ model.beta))
            own = _errors(model, [constraint.errors for constraint in known], 0.0)
            combination = _combination(model, rows, known)
            yield HardIterate(step, epoch, w, 0.0, alpha, errors=own, combination=combination)
            if total == 0 and loose:
                return
            kept = model.drop_idle().tolist()
            rows, known = [rows[k] for k in kept], [known[k] for k in kept]
            if total == 0:
                w = _solve_hard(model)


@dataclass(frozen=True)
class HardIterate(MeanIterate):
    """An iterate with the constraints that its dual point is made of."""

    combination: Any = None


def _solve_hard(model: CuttingPlaneModel) -> Array:
    """The point of the programme, with the sum of weights bounded by more than it wants."""
    w = model.solve().w
    for _ in range(3):
        if model.beta.sum() < 0.99 * model.caps[0]:
            break
        model.caps *= 10.0
        w = model.solve().w
    return w


def _errors(model: CuttingPlaneModel, errors: list[Errors], excess: float) -> Errors:
    """Of the mean that the weights of the constraints make."""
    lengths = np.sqrt(np.diagonal(model.gram)) * (1.0 + 1e-9) + 1e-150
    return of_sum(model.beta, lengths, model.r, np.array(errors).reshape(-1, 2), excess)


def _combination(model: CuttingPlaneModel, rows: list[int], known: list[Constraint]) -> Combination:
    from bridle.structured.problem import Combination

    used = np.flatnonzero(model.beta)
    return Combination(
        np.array(rows, np.int64)[used], model.cuts()[used], model.r[used], model.beta[used],
        [known[k] for k in used.tolist()],
    )  # fmt: skip
