"""The sigmoid: tanh(gamma a.b + coef0), which is not positive semi-definite in general."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.kernels.base import InnerProductKernel


@dataclass(frozen=True)
class Sigmoid(InnerProductKernel):
    """tanh(gamma a.b + coef0)."""

    gamma: float = 1.0
    coef0: float = 0.0

    name: ClassVar[str] = "sigmoid"
    compiled: ClassVar[str | None] = "sigmoid"

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        return np.tanh(self.gamma * product + self.coef0)

    def spread(self, diagonal: Array) -> float:
        """All values are between -1 and 1."""
        return 2.0
