"""Precomputed: the matrix of values takes the place of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.objective.kernels.base import Kernel


@dataclass(frozen=True)
class Precomputed(Kernel):
    """A is the matrix of values already."""

    name: ClassVar[str] = "precomputed"
    given: ClassVar[bool] = True

    def values(self, A: Any, B: Any) -> Any:  # noqa: D102
        return A
