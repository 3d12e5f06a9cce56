"""Gauss's kernel: exp(-gamma |a - b|^2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.kernels.base import InnerProductKernel


@dataclass(frozen=True)
class Rbf(InnerProductKernel):
    """exp(-gamma |a - b|^2)."""

    gamma: float = 1.0

    name: ClassVar[str] = "rbf"
    compiled: ClassVar[str | None] = "rbf"

    @property
    def semidefinite(self) -> bool:  # noqa: D102
        return True

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        return np.exp(-self.gamma * np.maximum(a + b - 2.0 * product, 0.0))

    def spread(self, diagonal: Array) -> float:
        """All values are between 0 and 1."""
        return 1.0
