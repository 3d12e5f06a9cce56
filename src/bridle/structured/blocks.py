"""The dual of a structural problem block by block: what block-coordinate Frank-Wolfe moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bridle.matrix.arrays import Array
from bridle.structured.bounds import NONE, excess_of, of_sum
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.structured.problem import Constraint, StructuredBase


class OracleBlocks:
    """The dual point of any problem: for each row the constraints found, with their weights.

    What is missing to a weight of one belongs to the truth, whose constraint is 0 >= 0.
    """

    def __init__(self, problem: StructuredBase, average: bool) -> None:
        self.problem = problem
        self.n_weights = problem.n_features
        self.known: list[list[tuple[Constraint, float]]] = [[] for _ in range(problem.n_rows)]
        self.w = np.zeros(self.n_weights)
        self.dual = 0.0
        self.errors = NONE  # of what `weights` says
        self._gaps = np.full(problem.n_rows, np.inf)
        self._late = np.zeros(self.n_weights) if average else None  # see `average`
        self._visits = 0

    def gaps(self) -> Array:
        """C_i (F(s) - mean F) of every row at its last visit; infinite before the first."""
        return self._gaps

    def visit(self, order: NDArray[np.int64], cached_steps: int) -> None:
        """Visit rows in this order, averaging w over the visits."""
        self._visits = 0
        if self._late is not None:
            self._late[:] = 0.0
        for i in order.tolist():
            if self.problem.cost[i] == 0:
                self._gaps[i] = 0.0
            else:
                self._visit(i, cached_steps)
            self._visits += 1

    def average(self, out: Array) -> None:
        """The mean of w after each visit: a change at visit v of n counts (n - v)/n of itself."""
        assert self._late is not None
        out[:] = self.w - self._late / max(1, self._visits)

    def weights(self, out: Array) -> float:
        """W from the weights of the constraints, and l."""
        out[:] = 0.0
        loss = 0.0
        weights, constraints, excess = [], [], 0.0
        for cost, known in zip(self.problem.cost, self.known, strict=True):
            for constraint, weight in known:
                constraint.psi.add_to(out, cost * weight)
                loss += cost * weight * constraint.loss
                weights.append(cost * weight)
                constraints.append(constraint)
            sums = np.array([sum(weight for _, weight in known)])
            excess = max(excess, excess_of(sums, np.ones(1), len(known)))
        self.errors = of_sum(
            np.array(weights), np.array([c.psi.length for c in constraints]),
            np.array([c.loss for c in constraints]),
            np.array([c.errors for c in constraints]).reshape(-1, 2), excess,
        )  # fmt: skip
        self.w[:] = out
        self.dual = loss - 0.5 * float(out @ out)
        return loss

    def _visit(self, i: int, cached_steps: int) -> None:
        found = self.problem.constraint(i, self.w)
        known = self.known[i]
        values = [constraint.violation(self.w) for constraint, _ in known]
        mean = sum(weight * value for (_, weight), value in zip(known, values, strict=True))
        top = max(0.0, found.violation(self.w))
        self._gaps[i] = self.problem.cost[i] * max(0.0, top - mean)
        if found.violation(self.w) > max([0.0, *values]):
            known.append((found, 0.0))
        for _ in range(1 + cached_steps):
            if not self._pairwise_step(i):
                break

    def _pairwise_step(self, i: int) -> bool:
        """Move weight from the worst constraint that has some to the best; False if neither."""
        known, cost = self.known[i], float(self.problem.cost[i])
        rest = 1.0 - sum(weight for _, weight in known)
        values = [constraint.violation(self.w) for constraint, _ in known]
        s = int(np.argmax(values)) if values and max(values) > 0 else -1  # -1 is the truth
        a = int(np.argmin(values)) if values and (min(values) < 0 or rest <= 1e-12) else -1
        gain = (values[s] if s >= 0 else 0.0) - (values[a] if a >= 0 else 0.0)
        if s == a or not gain > 0:
            return False
        to, give = (known[s][0].psi if s >= 0 else None), (known[a][0].psi if a >= 0 else None)
        direction = to if give is None else give.scaled(-1.0) if to is None else to.minus(give)
        assert direction is not None
        held = known[a][1] if a >= 0 else rest
        curvature = cost * direction.squared_norm
        gamma = gain / curvature if curvature * held > gain else held
        direction.add_to(self.w, cost * gamma)
        if self._late is not None:
            direction.add_to(self._late, cost * gamma * self._visits)
        self.dual += cost * gamma * (gain - 0.5 * gamma * curvature)
        if s >= 0:
            known[s] = (known[s][0], known[s][1] + gamma)
        if a >= 0:
            known[a] = (known[a][0], held - gamma)
            if gamma == held:
                del known[a]
        return True
