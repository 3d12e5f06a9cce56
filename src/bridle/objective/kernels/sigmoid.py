"""The sigmoid: tanh(gamma a.b + coef0), which is not positive semi-definite in general."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.kernels.base import Accuracy, InnerProductKernel, enlarged
from bridle.objective.rounding import U
from bridle.objective.rounding import gamma as part_of

# The C library's tanh is right to a few units in the last place.
TANH = 8.0 * U


@dataclass(frozen=True)
class Sigmoid(InnerProductKernel):
    """tanh(gamma a.b + coef0)."""

    gamma: float = 1.0
    coef0: float = 0.0

    name: ClassVar[str] = "sigmoid"
    compiled: ClassVar[str | None] = "sigmoid"

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        with np.errstate(over="ignore"):
            return np.tanh(self.gamma * product + self.coef0)

    def spread(self, diagonal: Array) -> float:
        """All values are between -1 and 1."""
        return 2.0

    def accuracy(self, squared_norms: Array, entries: int) -> Accuracy:
        """The argument is off by a part gamma(n + 3) of its terms, and the slope is at most 1."""
        with np.errstate(over="ignore"):
            terms = abs(self.gamma) * enlarged(squared_norms, entries) + abs(self.coef0)
        error = np.minimum(0.5 * (part_of(entries + 4) * terms + TANH), 2.0)
        return Accuracy(np.ones(len(error)), error * (1.0 + 1e-12))
