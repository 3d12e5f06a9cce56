"""Any function of two matrices, taken as a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.objective.kernels.base import Kernel

KernelFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """function(A, B) -> the matrix of values."""

    function: KernelFunction

    name: ClassVar[str] = "callable"

    def values(self, A: Any, B: Any) -> Any:  # noqa: D102
        return self.function(A, B)
