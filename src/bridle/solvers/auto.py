"""The default: the solver that suits the problem.

Dual coordinate descent has a feasible dual point at every moment and the fastest certified
convergence on sparse data, with every bias and loss. It crawls where features are few or badly
scaled; small problems go to the interior point method, which minds neither and is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle.solvers.base import Iterates, Solver
from bridle.solvers.dcd import DualCoordinateDescent
from bridle.solvers.interior_point import InteriorPoint, operations

if TYPE_CHECKING:
    from bridle._core import Rng

# Multiplications in a step of the interior point method: a few milliseconds.
SMALL = 2**24


@dataclass(frozen=True)
class Auto(Solver):
    """Chooses the solver by the problem."""

    name: ClassVar[str] = "auto"
    losses: ClassVar[tuple[str, ...]] = DualCoordinateDescent.losses
    biases: ClassVar[tuple[str, ...]] = DualCoordinateDescent.biases
    hard_margin: ClassVar[bool] = True

    def choose(self, problem: Any) -> Solver:
        """The solver for this problem."""
        if operations(problem) <= SMALL and not problem.hard_margin:
            return InteriorPoint()
        return DualCoordinateDescent()

    def iterates(
        self,
        problem: Any,
        *,
        start: Any = None,
        rng: Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """The chosen solver's iterates."""
        yield from self.choose(problem).iterates(problem, start=start, rng=rng, pace=pace)
