"""The linear kernel: a.b."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.objective.kernels.base import InnerProductKernel


@dataclass(frozen=True)
class Linear(InnerProductKernel):
    """a.b."""

    name: ClassVar[str] = "linear"
    compiled: ClassVar[str | None] = "linear"

    @property
    def semidefinite(self) -> bool:  # noqa: D102
        return True

    def formula(self, product: Any, a: Any, b: Any) -> Any:  # noqa: D102
        return product
