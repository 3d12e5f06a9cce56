"""Points (w, b, alpha): what solvers start from and propose, and what problems judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from bridle.matrix.arrays import Array
from numpy.typing import NDArray


@dataclass(frozen=True)
class Point:
    """Where to go on from; a Solution or an Iterate will do as well."""

    w: Any
    b: float = 0.0
    alpha: Any = None


class Ride(Protocol):
    """What a solver does with rows while a certificate reads them anyway: its next epoch.

    Each range is judged before it is visited. The iterate's alpha is the solver's own, which the
    visits change: what was judged is the judgement's.
    """

    def order(self) -> Any:
        """In which ranges are to be read; who asks for it takes the solver along."""

    def visit(self, part: Any, piece: Any) -> None:
        """A range."""


@dataclass(frozen=True)
class Iterate:
    """Where a solver is. The arrays may be the solver's own: whoever keeps them copies them.

    Examples
    --------
    >>> import numpy as np
    >>> iterate = bridle.Iterate(step=0, epoch=0.0, w=np.zeros(47_236))
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> round(problem.judge(iterate).primal, 9)  # C times the rows
    50.0
    """

    step: int
    epoch: float
    w: Any  # an array of weights; of kernel problems, an Expansion
    b: float = 0.0
    alpha: Array | None = None
    gap_estimate: float | None = None  # a free guess at the relative gap, to time certificates by
    solver: str = ""  # who proposed it, where one solver has handed over to another
    direction: bool = False  # only the direction of w and alpha means anything: at the best scale
    ride: Ride | None = None  # that comes along, if rows are read for a certificate
    own_bias: bool = False  # a free bias is judged as it is, not the best one for w instead


def supporting(alpha: Array) -> NDArray[np.bool_]:
    """The rows that hold the boundary; interior point methods leave a trace of every row."""
    sizes = np.abs(alpha)
    found: NDArray[np.bool_] = sizes > 1e-5 * np.max(sizes, initial=0.0)
    return found
