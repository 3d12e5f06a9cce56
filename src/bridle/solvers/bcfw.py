"""Block-coordinate Frank-Wolfe on the dual of the structural SVM.

    max  D = l - 1/2 |w|^2,   w = sum_i C_i sum_y alpha_i(y) psi_i(y),
    l = sum_i C_i sum_y alpha_i(y) Delta(y_i, y),   alpha_i in the simplex of all outputs.

Row i asks the oracle for the output s of largest F(y) = Delta - w.psi_i(y), and moves weight to it
from the output a of smallest F among those that have weight, with an exact line search:

    gamma = min(alpha_i(a), (F(s) - F(a)) / (C_i |psi_i(s) - psi_i(a)|^2)).

F(s) minus the mean of F is the row's share of the duality gap, for free (Lacoste-Julien, Jaggi,
Schmidt & Pletscher, "Block-coordinate Frank-Wolfe optimization for structural SVMs", ICML 2013).
Pairwise steps, sampling rows by their last gap, and steps among the answers that are already known
are those of Osokin, Alayrac, Lukasewitz, Dokania & Lacoste-Julien, "Minding the gaps for block
Frank-Wolfe optimization of structured SVMs", ICML 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.solvers.base import Array, Iterates, Solver
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.structured.problem import Constraint, StructuredBase

# The mean of w over an epoch is closer to the optimum than the ws at the visits, whose gaps are
# what the free estimate is made of: by about this factor on text, on letters and on random data.
AVERAGE_GAP = 0.7


@dataclass(frozen=True)
class BlockFrankWolfe(Solver):
    """Block-coordinate Frank-Wolfe with pairwise steps.

    sampling: "shuffled" visits every row once an epoch; "gaps" draws rows in proportion to their
    last known gap, and every fifth epoch visits all. cached_steps: further steps on a row after
    the oracle's, among the answers that it already gave. average: propose the mean of w over the
    last epoch, which is the better primal point; the dual point is the last one.
    """

    sampling: Literal["shuffled", "gaps"] = "shuffled"
    cached_steps: int = 0
    average: bool = True

    name: ClassVar[str] = "bcfw"
    kinds: ClassVar[tuple[str, ...]] = ("structured",)

    def __post_init__(self) -> None:
        if self.sampling not in ("shuffled", "gaps"):
            raise ValueError(f"sampling must be 'shuffled' or 'gaps', got {self.sampling!r}")
        if self.cached_steps < 0:
            raise ValueError(f"cached_steps must be at least 0, got {self.cached_steps}")

    def iterates(
        self,
        problem: StructuredBase,
        *,
        start: Any = None,
        rng: _core.Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """One iterate after as many visits as there are rows."""
        if start is not None:
            raise ValueError("bcfw cannot start from another solution: it needs its dual blocks")
        blocks = problem.blocks(average=self.average)
        step = epoch = 0
        while True:
            order = self._order(problem.n_rows, epoch, blocks, rng)
            blocks.visit(order, self.cached_steps)
            step += len(order)
            epoch += 1
            yield BlockIterate(step, epoch, blocks, self.average)  # type: ignore[misc]

    def _order(self, n: int, epoch: int, blocks: Any, rng: _core.Rng) -> NDArray[np.int64]:
        order = np.empty(n, np.int64)
        rng.permutation(order)
        if self.sampling == "shuffled" or epoch % 5 == 0:
            return order
        cumulative = np.cumsum(blocks.gaps())
        if cumulative[-1] <= 0:
            return order
        draws = np.array([rng.uniform() for _ in range(n)]) * cumulative[-1]
        order[:] = np.minimum(np.searchsorted(cumulative, draws, side="right"), n - 1)
        return order


class BlockIterate:
    """An iterate that is written out only if it is looked at."""

    b = 0.0
    solver = ""

    def __init__(self, step: int, epoch: float, blocks: Any, average: bool) -> None:
        self.step, self.epoch = step, epoch
        self._blocks, self._average = blocks, average
        gap, dual = float(blocks.gaps().sum()), blocks.dual
        self.gap_estimate = None
        if gap + dual > 0:
            self.gap_estimate = gap / (gap + dual) * (AVERAGE_GAP if average else 1.0)

    @cached_property
    def w(self) -> Array:
        """The mean of w over the last epoch, or the last w."""
        if not self._average:
            return self.alpha[:-1]
        w = np.empty(self._blocks.n_weights)
        self._blocks.average(w)
        return w

    @cached_property
    def alpha(self) -> Array:
        """The mean constraint (W, l) of the dual point."""
        alpha = np.empty(self._blocks.n_weights + 1)
        alpha[-1] = self._blocks.weights(alpha[:-1])
        return alpha


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
        for cost, known in zip(self.problem.cost, self.known, strict=True):
            for constraint, weight in known:
                constraint.psi.add_to(out, cost * weight)
                loss += cost * weight * constraint.loss
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
