"""Gauss's kernel: exp(-gamma |a - b|^2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.kernels.base import Accuracy, InnerProductKernel, enlarged
from bridle.objective.rounding import U
from bridle.objective.rounding import gamma as part_of

# The compiled e^x is off by less than 3 u of itself, and never less than e^-700.
EXPONENTIAL, SMALLEST = 4.0 * U, 1e-303


@dataclass(frozen=True)
class Rbf(InnerProductKernel):
    """exp(-gamma |a - b|^2)."""

    gamma: float = 1.0

    name: ClassVar[str] = "rbf"
    compiled: ClassVar[str | None] = "rbf"
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.gamma >= 0 and np.isfinite(self.gamma)):
            raise ValueError(f"gamma must not be negative, and finite, got {self.gamma}")

    @property
    def semidefinite(self) -> bool:  # noqa: D102
        return True

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        return np.exp(-self.gamma * np.maximum(a + b - 2.0 * product, 0.0))

    def spread(self, diagonal: Array) -> float:
        """All values are between 0 and 1."""
        return 1.0

    def accuracy(self, squared_norms: Array, entries: int) -> Accuracy:
        """The exponent is off by gamma times a part gamma(n + 8) of 2 (|a|^2 + |b|^2) at most.

        The sums take n roundings and a half, the two additions and the product with gamma 3 more;
        rows that were centred are off by a part u in each entry, which is 2 more. So the value is
        one exact value times at most (1 + t_a)(1 + t_b), and no value is outside 0..1.
        """
        squares = enlarged(squared_norms, entries)
        with np.errstate(over="ignore"):
            t = np.expm1(2.0 * self.gamma * part_of(entries + 8) * squares + EXPONENTIAL)
            error = np.where(t < 0.5, t + 0.5 * t * t, 1.0 + 1e-9) + SMALLEST
        return Accuracy(np.ones(len(t)), error * (1.0 + 1e-12))
