"""What a solve leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from bridle.matrix.arrays import Array
from bridle.objective.certificate import Certificate, DualTerms, PrimalTerms, Trace
from bridle.solving.stopping import Status

# Which of a run's iterates the solution is: the lowest primal value that was certified, or the one
# that the solver proposed last.
Keep = Literal["best", "final"]


def check_keep(keep: str) -> None:
    """ValueError unless it is one of them."""
    if keep not in get_args(Keep):
        raise ValueError(f'keep must be "best" or "final", got {keep!r}')


@dataclass(frozen=True)
class Solution:
    """The best weights found or the last ones, the best dual point found, and what they prove.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem)
    >>> solution.status, solution.certificate.relative_gap <= 1e-3
    (<Status.CONVERGED: ...>, True)
    """

    w: Any  # an array of weights; of kernel problems, an Expansion
    b: float
    alpha: Array
    certificate: Certificate
    status: Status
    trace: Trace
    message: str
    epochs: float
    steps: int
    solver: str
    # If INFEASIBLE: alpha >= 0 with sum 1 and sum_i alpha_i y_i x_i = 0 (and, with a bias,
    # sum_i alpha_i y_i = 0), which no data that can be separated has: exactly so in rational
    # numbers, of which these are the rounded ones.
    # Of structural problems: a Combination of constraints that add up to 0 >= what is positive.
    proof: Any = None
    # Of linear problems in memory: w.x_i + b of every row, as the certificate saw them.
    scores: Array | None = None
    # What computed: "cpu" or "cuda", and why where that was chosen.
    place: str = "cpu"
    # Of linear problems, what the values of the certificate are made of: for other C.
    primal_terms: PrimalTerms | None = field(default=None, repr=False)
    dual_terms: DualTerms | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether the gap that was asked for was reached."""
        return self.status is Status.CONVERGED
