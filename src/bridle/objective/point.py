"""A point (w, b, alpha): what solvers propose and problems judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridle.matrix.arrays import Array

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Iterate:
    """Where a solver is. The arrays may be the solver's own: whoever keeps them copies them."""

    step: int
    epoch: float
    w: Any  # an array of weights; of kernel problems, an Expansion
    b: float = 0.0
    alpha: Array | None = None
    gap_estimate: float | None = None  # a free guess at the relative gap, to time certificates by
    solver: str = ""  # who proposed it, where one solver has handed over to another
    direction: bool = (
        False  # only the direction of w and alpha means anything: judge the best scale
    )
