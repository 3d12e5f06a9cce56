"""Dual variables that stay with the rows."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.rows.base import Judged
from bridle.rows.cluster.messages import FromSnapshot, PartsLostError

if TYPE_CHECKING:
    from bridle.rows.cluster.sides import ClusterSides


class LostError(RuntimeError):
    """Dual variables went with a worker that alone had them."""


class ResidentAlpha:
    """Dual variables that stay with the rows; np.asarray fetches them, in the order of the rows."""

    def __init__(self, sides: ClusterSides, snapshot: int, judged: Judged) -> None:
        self.rows, self.snapshot, self.C = sides.rows, snapshot, sides.C
        self.total, self.value, self.balance = judged.total, judged.value, judged.balance
        self.lost = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.lost:
            raise LostError("these dual variables were lost with a worker that held some")
        try:
            gathered = np.concatenate(self.rows.parts.call("alpha", self.snapshot))
        except (PartsLostError, KeyError) as error:
            self.lost = True
            if isinstance(error, PartsLostError):
                self.rows.report.losses.append(str(error))
                self.rows.encode(error.numbers)
            how = f": {error}" if isinstance(error, PartsLostError) else " with a worker before"
            raise LostError(f"these dual variables were lost{how}") from error
        return gathered if dtype is None else gathered.astype(dtype)

    def sum(self) -> float:
        """Sum alpha_i, without fetching any."""
        return self.total.middle

    def at(self, C: float) -> ResidentAlpha:
        """The same variables to start from at another C; rows at their bound go where it goes."""
        other = copy.copy(self)
        other.start = FromSnapshot(self.snapshot, C / self.C)
        other.origin = self  # which keeps the snapshot
        return other

    start: FromSnapshot | None = None
    origin: ResidentAlpha | None = None
