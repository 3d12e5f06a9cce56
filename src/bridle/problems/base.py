"""What a problem is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.objective.certificate import Source
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Judgement:
    """What a problem says of an iterate: a primal value of (w, b) and a dual value of alpha.

    The arrays are the judgement's own, never the solver's.
    """

    w: Any  # of the iterate's own kind
    b: float
    primal: float
    alpha: Array
    dual: float
    source: Source
    # Hard margin only: alpha >= 0, not zero, with sum alpha_i z_i = 0. No w separates the data. Of
    # structural problems, a Combination of constraints.
    infeasible: Any = None
    scores: Array | None = None  # of every row by (w, b), if all of them were at hand
