"""The default: the solver that suits the problem.

Dual coordinate descent has a feasible dual point at every moment and the fastest certified
convergence on sparse data, with every bias and loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle.solvers.base import Iterates, Solver
from bridle.solvers.dcd import DualCoordinateDescent

if TYPE_CHECKING:
    from bridle._core import Rng


@dataclass(frozen=True)
class Auto(Solver):
    """Chooses the solver by the problem."""

    name: ClassVar[str] = "auto"
    losses: ClassVar[tuple[str, ...]] = DualCoordinateDescent.losses
    biases: ClassVar[tuple[str, ...]] = DualCoordinateDescent.biases

    def choose(self, problem: Any) -> Solver:
        """The solver for this problem."""
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
