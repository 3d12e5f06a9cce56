"""Several classes on a cluster, one after the other."""

from __future__ import annotations

from typing import Any

from bridle.distributed.problem import DistributedProblem
from bridle.machines import solve_each
from bridle.ovr import OneVsRest


def solve_classes(problem: DistributedProblem, solver: Any, **options: Any) -> OneVsRest:
    """One class after the other against the rest: each has the whole cluster."""
    n = len(problem.classes)
    positives = [1] if n == 2 else list(range(n))
    return OneVsRest(
        solve_each(
            len(positives), lambda k: problem.variant(positive=positives[k]), solver, workers=1,
            start=None, keep=None, **options,
        )
    )  # fmt: skip
