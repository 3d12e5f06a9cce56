"""The polynomial kernel: (gamma a.b + coef0)^degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.kernels.base import FLOOR, Accuracy, InnerProductKernel, enlarged


@dataclass(frozen=True)
class Poly(InnerProductKernel):
    """(gamma a.b + coef0)^degree."""

    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    name: ClassVar[str] = "poly"
    compiled: ClassVar[str | None] = "poly"

    @property
    def semidefinite(self) -> bool:  # noqa: D102
        return self.gamma >= 0 and self.coef0 >= 0

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        return (self.gamma * product + self.coef0) ** self.degree

    def accuracy(self, squared_norms: Array, entries: int) -> Accuracy:
        """The base is off by a part gamma(n + 3) of its terms, the power by `degree` such parts.

        (gamma |a||b| + coef0)^d is an inner product itself: no more than the root of both squares.
        """
        base = abs(self.gamma) * enlarged(squared_norms, entries) + abs(self.coef0) + FLOOR
        with np.errstate(over="ignore"):
            squares = base**self.degree + (self.degree + 1) * FLOOR
        return Accuracy.relative(squares * (1.0 + 1e-12), self.degree * (entries + 5) + 1)
