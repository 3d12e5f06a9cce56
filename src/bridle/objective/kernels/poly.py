"""The polynomial kernel: (gamma a.b + coef0)^degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.objective.kernels.base import InnerProductKernel


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
        return self.coef0 >= 0

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        return (self.gamma * product + self.coef0) ** self.degree
