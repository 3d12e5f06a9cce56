"""What a solver is: a frozen dataclass of hyper-parameters with one generator method."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.objective.losses import Loss
from bridle.objective.point import Iterate
from bridle.problems.base import CLASSES, COLUMNS, KERNEL, ORACLE, WEIGHTS, Problem
from bridle.rows.base import DESCENT, PASSES, RANGES, ROUNDS, SCORES, STEPS

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.objective.certificate import Certificate


# The loop answers each iterate with the certificate that it took of it, or None if it took none.
Iterates = Generator[Iterate, "Certificate | None", None]
# The largest number of steps to take before the next iterate, by the steps taken so far and, where
# that is not 1, the number of rows that a step sees.
Pace = Callable[..., int | None] | None

# What a solver may need of a problem and its rows, in words.
NEEDS = {
    WEIGHTS: "a linear problem with a loss for each row",
    KERNEL: "a Mercer kernel",
    ORACLE: "an oracle for the most violated constraints",
    COLUMNS: "an l1 penalty, and the columns of rows in memory",
    CLASSES: "all classes in one logistic loss",
    STEPS: "all rows in memory, to visit them in an order of its own",
    SCORES: "the scores of all rows at once",
    RANGES: "the rows range by range, in this process",
    ROUNDS: "rows that are spread over the parts of a cluster",
    PASSES: "all rows in memory or on a GPU, to pass over them at once",
    DESCENT: "rows in this process, in memory, on disk or on a GPU",
}

# What it may need of the loss: a property of that name.
LOSS_NEEDS = {
    "smooth": "a slope without jumps",
    "bounded_dual": "dual variables that are bounded",
    "core": "a struct in the compiled core",
    "quadratic": "the hinge or its square",
    "unit_slope": "a slope that is 0 or 1",
    "certifiable": "relative gaps that go to 0",
    "residual": "targets instead of labels",
    "one_class": "rows without labels",
    "sigmoid": "scores that are the log-odds of a class",
    "shape": "a loss that is linear or quadratic between its kinks",
    "second_order": "second derivatives, or kinks that newton knows",
}


@dataclass(frozen=True)
class Solver:
    """A method. Class variables say what it needs; the fields are its hyper-parameters.

    Examples
    --------
    >>> import numpy as np
    >>> class Zero(bridle.Solver):
    ...     name = "zero"
    ...     def iterates(self, problem, *, start=None, rng, pace=None):
    ...         yield bridle.Iterate(1, 1.0, np.zeros(problem.n_features))
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> round(bridle.solve(problem, Zero()).certificate.primal, 9)
    50.0
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, STEPS})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"unit_slope", "certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised")
    no_free_bias: ClassVar[str] = "it has no steps for it"  # why not, where it is none of these
    hard_margin: ClassVar[bool] = False
    one_class: ClassVar[bool] = False  # whether the loss may pull at a free bias
    converges: ClassVar[bool] = True  # to the optimum, given time
    separates: ClassVar[str | None] = None  # in words, if to separate is why it would end
    float64: ClassVar[bool] = False  # works in float64 even on float32 data

    def iterates(self, problem: Any, *, start: Any = None, rng: Rng, pace: Pace = None) -> Iterates:
        """Propose iterates for ever, or until nothing can be improved.

        `start` has `w`, `b` and `alpha` to go on from. `pace(step)`, or `pace(step, rows)` where a
        step sees several rows, is the largest number of steps to take before the next iterate;
        solvers whose iterates are whole epochs ignore it.
        """
        raise NotImplementedError

    def together(self, problem: Any, codes: Any, n: int, seed: int) -> Any:
        """This method for n classes against the rest at once, or None where there is no such way.

        codes: the class of each row of the problem, whose own labels do not matter. What comes is
        as `bridle.solvers.shared.class_descents`.
        """
        return None

    def side_by_side(self, problems: Sequence[Any], seed: int) -> Any:
        """The same for problems on rows that are elsewhere: each class has its own.

        What comes has `n`, too: how many of them, the first ones, there is memory for.
        """
        return None

    @classmethod
    def lacks(cls, problem: Problem) -> str | None:
        """What the problem or its rows do not offer and this method needs, in words, or None."""
        missing = [NEEDS[need] for need in NEEDS if need in cls.needs - problem.offers]
        return missing[0] if missing else None

    @classmethod
    def can_minimise(cls, loss: Loss) -> bool:
        """Whether the loss has what this method needs."""
        return not any(not getattr(loss, need) for need in cls.loss_needs)

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """Why this method cannot solve this problem, or None: the only place that decides it."""
        if (missing := cls.lacks(problem)) is not None:
            return f"{cls.name} needs {missing}, which this {type(problem).__name__} does not offer"
        if ORACLE not in cls.needs:  # an oracle has the loss, and there is no bias
            for need in sorted(cls.loss_needs):
                if not getattr(problem.loss, need):
                    why = f"it needs {LOSS_NEEDS[need]}"
                    return f"{cls.name} cannot minimise the {problem.loss.name} loss: {why}"
            if problem.loss.one_class and not cls.one_class:
                return (
                    f"{cls.name} cannot minimise the {problem.loss.name} loss: it has no steps for "
                    f"an offset that is rewarded"
                )
            if problem.bias not in cls.biases:
                can = ", ".join(cls.biases)
                why = f": {cls.no_free_bias}" if problem.bias == "free" else ""
                return f"{cls.name} cannot have bias={problem.bias!r}{why}; it can have: {can}"
        if problem.hard_margin and not cls.hard_margin:
            others = "n-slack" if ORACLE in cls.needs else "dcd, newton or qp"
            return f"{cls.name} cannot solve the hard margin (C = inf); use {others}"
        return None

    def check(self, problem: Problem) -> None:
        """Raise ValueError if this method cannot solve this problem."""
        reason = self.refusal(problem)
        if reason is not None:
            raise ValueError(reason)

    def called(self, problem: Problem, last: Any) -> str:
        """The name for a solution that ended with this iterate."""
        return self.name

    def precision(self, problem: Problem) -> np.dtype[Any]:
        """The precision in which this method works on this problem."""
        return np.dtype(np.float64) if self.float64 else np.dtype(problem.dtype)


def steps_until_yield(pace: Pace, step: int, default: int, rows: int = 1) -> int:
    """How many steps, of so many rows, to take now: the default, or fewer by the pace."""
    wanted = None if pace is None else pace(step) if rows == 1 else pace(step, rows)
    return default if wanted is None else max(1, min(default, wanted))
