"""The linear kernel: a.b."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.matrix.arrays import Array
from bridle.objective.kernels.base import Accuracy, InnerProductKernel, enlarged


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

    def accuracy(self, squared_norms: Array, entries: int) -> Accuracy:
        """A sum of products is off by a part gamma(n) of |a||b| at most."""
        return Accuracy.relative(enlarged(squared_norms, entries), entries + 1)
