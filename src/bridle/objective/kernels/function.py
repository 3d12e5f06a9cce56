"""Any function of two matrices, taken as a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from bridle.matrix.door import is_sparse
from bridle.objective.kernels.base import Kernel

KernelFunction = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """function(A, B) -> the matrix of values."""

    function: KernelFunction

    name: ClassVar[str] = "callable"

    def values(self, A: Any, B: Any) -> Any:  # noqa: D102
        found = self.function(A, B)
        return found.toarray() if is_sparse(found) else found  # A @ B.T of CSR rows
