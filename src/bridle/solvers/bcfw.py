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

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.problems.base import ORACLE
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.structured.bounds import Errors
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.structured.problem import StructuredBase


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

    Examples
    --------
    >>> X, Y = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["D", "N"], ["D", "N"]]
    >>> model = bridle.ChainSVM(solver=bridle.BlockFrankWolfe(sampling="gaps")).fit(X, Y)
    >>> model.certificate_.relative_gap <= 1e-2
    True
    """

    sampling: Literal["shuffled", "gaps"] = "shuffled"
    cached_steps: int = 0
    average: bool = True

    name: ClassVar[str] = "bcfw"
    needs: ClassVar[frozenset[str]] = frozenset({ORACLE})

    def __post_init__(self) -> None:
        if self.sampling not in ("shuffled", "gaps"):
            raise ValueError(f"sampling must be 'shuffled' or 'gaps', got {self.sampling!r}")
        if self.cached_steps < 0:
            raise ValueError(f"cached_steps must be at least 0, got {self.cached_steps}")

    def iterates(
        self, problem: StructuredBase, *, start: Any = None, rng: _core.Rng, pace: Pace = None
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
    ride = None

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
        self._errors = self._blocks.errors
        return alpha

    @property
    def errors(self) -> Errors:
        """How far an exact combination is from it, at most."""
        assert self.alpha is not None  # which finds them
        return Errors(*self._errors)
