"""Several classes on a cluster, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.fitting.one_vs_rest import OneVsRest
from bridle.problems.distributed import DistributedProblem, LostError
from bridle.solving.many import Keep, solve_each
from bridle.solving.solution import Solution
from numpy.typing import NDArray

Array = NDArray[np.float64]


def positives(problem: DistributedProblem) -> list[int]:
    """The class of each problem, by number, that is against the rest."""
    n = len(problem.classes)
    return [1] if n == 2 else list(range(n))


def solve_classes(
    problem: DistributedProblem,
    solver: Any,
    *,
    own_weight: Array | None = None,
    keep: Keep | None = None,
    start: Any = None,
    **options: Any,
) -> OneVsRest:
    """One class after the other against the rest: each has the whole cluster.

    own_weight: of each class in its own problem. keep: what to keep of each solution. start: what
    to go on from, one for each problem.
    """
    chosen = positives(problem)
    own = [_variant(problem, k, own_weight) for k in chosen]

    def kept(k: int, solution: Solution) -> Solution:
        own[k].close()  # what the workers know of the run; alpha stays while somebody has it
        return solution if keep is None else keep(k, solution)

    return OneVsRest(
        solve_each(
            len(chosen), own.__getitem__, solver, workers=1, start=start, keep=kept, **options
        )
    )


def _variant(problem: DistributedProblem, k: int, own_weight: Array | None) -> DistributedProblem:
    other = problem.variant(positive=k)
    if own_weight is not None:
        weights = own_weight.tolist()
        if len(weights) > 2:
            weights = [weight if j == k else 1.0 for j, weight in enumerate(weights)]
        other.class_weight = tuple(weights)
    return other


def gathered(found: OneVsRest) -> tuple[Array | None, str | None]:
    """The dual variables, a row for each problem; or why there are none any more.

    A worker may die after the last certificate, with what it alone had: the weights and the
    certificate are as good as before.
    """
    try:
        return np.vstack([np.asarray(solution.alpha) for solution in found.solutions]), None
    except LostError as error:
        return None, str(error)
