"""What a solver is: a frozen dataclass of hyper-parameters with one generator method."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.objective.point import Iterate
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.objective.certificate import Certificate


Array = NDArray[np.float64]


# The loop answers each iterate with the certificate that it took of it, or None if it took none.
Iterates = Generator[Iterate, "Certificate | None", None]


@dataclass(frozen=True)
class Solver:
    """A method. Class variables say what it can do; the fields are its hyper-parameters."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("linear",)  # of problems: linear, kernel, structured
    converges: ClassVar[bool] = True  # to the optimum, given time
    losses: ClassVar[tuple[str, ...]] = ("hinge",)
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised")
    hard_margin: ClassVar[bool] = False
    float64: ClassVar[bool] = False  # works in float64 even on float32 data

    def iterates(
        self,
        problem: Any,
        *,
        start: Any = None,
        rng: Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """Propose iterates for ever, or until nothing can be improved.

        `start` has `w`, `b` and `alpha` to go on from. `pace(step)` is the largest number of steps
        to take before the next iterate; solvers whose iterates are whole epochs ignore it.
        """
        raise NotImplementedError

    def check(self, problem: Any) -> None:
        """Raise ValueError if this method cannot solve this problem."""
        if problem.kind not in self.kinds:
            raise ValueError(
                f"{self.name} solves {' and '.join(self.kinds)} problems, not {problem.kind} ones"
            )
        if problem.kind == "structured":
            if problem.hard_margin and not self.hard_margin:
                raise ValueError(f"{self.name} cannot solve the hard margin (C = inf); use n-slack")
            return
        loss, bias = problem.loss.name, problem.bias
        if loss not in self.losses:
            raise ValueError(f"{self.name} cannot minimise the {loss} loss; {self._can()}")
        if bias not in self.biases:
            raise ValueError(f"{self.name} cannot have bias={bias!r}; {self._can()}")
        if problem.hard_margin and not self.hard_margin:
            raise ValueError(
                f"{self.name} cannot solve the hard margin (C = inf); use dcd, newton or qp"
            )

    def called(self, problem: Any, last: Any) -> str:
        """The name for a solution that ended with this iterate."""
        return self.name

    def precision(self, problem: Any) -> np.dtype[Any]:
        """The precision in which this method works on this problem."""
        return np.dtype(np.float64) if self.float64 else np.dtype(problem.dtype)

    def _can(self) -> str:
        return f"it can do: loss {', '.join(self.losses)}; bias {', '.join(self.biases)}"


def steps_until_yield(pace: Callable[[int], int | None] | None, step: int, default: int) -> int:
    """How many steps to take now: the default, or fewer where the pace asks for it."""
    wanted = pace(step) if pace is not None else None
    return default if wanted is None else max(1, min(default, wanted))
