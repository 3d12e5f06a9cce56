"""What a problem is: an objective that judges points. It knows nothing of solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.certificate import Certificate, DualTerms, PrimalTerms, Source
from bridle.objective.point import Iterate

# What solvers may need of a problem. Its rows may offer more: see `bridle.rows.base`.
WEIGHTS = "weights"  # one weight for each feature, and a loss for each row
KERNEL = "kernel"  # the values of a Mercer kernel
ORACLE = "oracle"  # the most violated constraint of each row
COLUMNS = "columns"  # a penalty with an l1 norm, and columns in memory
CLASSES = "classes"  # the scores of all classes, in one logistic loss


@dataclass(frozen=True)
class Judgement:
    """What a problem says of an iterate: a primal value of (w, b) and a dual value of alpha.

    The primal value is an upper bound and the dual value a lower bound of what they are exactly,
    for the numbers that are returned. The arrays are the judgement's own, never the solver's.
    """

    w: Any  # of the iterate's own kind
    b: float
    primal: float
    alpha: Any  # an array, or a handle on dual variables that stay where the rows are
    dual: float
    source: Source
    # Hard margin only: alpha >= 0, not zero, with sum alpha_i z_i = 0. No w separates the data. Of
    # structural problems, a Combination of constraints.
    infeasible: Any = None
    scores: Array | None = None  # of every row by (w, b), if all of them were at hand
    # Of linear problems, what the two values are made of; and what rounding did to each, at most.
    terms: tuple[PrimalTerms, DualTerms] | None = None
    primal_rounding: float = 0.0
    dual_rounding: float = 0.0

    @property
    def rows_of_proof(self) -> int:
        """How many rows take part in the proof that no w separates them."""
        proof = self.infeasible
        return int(np.count_nonzero(proof)) if isinstance(proof, np.ndarray) else proof.n_rows


class Problem(Protocol):
    """What the loop and the solvers ask of every problem. Subclasses inherit the defaults.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> judged = problem.judge(bridle.Iterate(step=0, epoch=0.0, w=[0.0] * 47_236))
    >>> judged.dual <= judged.primal
    True
    """

    C: float
    n_rows: int
    n_features: int
    # Of problems with weights or a kernel; an oracle has the loss, and no bias.
    loss: Any = None
    bias: Any = None
    # Whether the best so far may be asked for at any time: somebody else's code, or a machine, may
    # fail. Certificates before the goal are then worth their price.
    may_fail: bool = False
    # What computes: "cpu" or "cuda", and why where that was chosen.
    place: str = "cpu"
    # What its certificates take for granted, in words.
    assumption: str | None = None
    # Whether a certificate reads rows that are not in memory.
    dear: ClassVar[bool] = False

    @property
    def offers(self) -> frozenset[str]:
        """What solvers can have of this problem and of its rows."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which solvers work."""

    @property
    def hard_margin(self) -> bool:
        """Whether C is infinite."""
        return bool(np.isinf(self.C))

    def contradicted(self, certificate: Certificate) -> Exception:
        """What to say where a dual value is above a primal one, which nothing true can do."""
        return RuntimeError(
            f"a lower bound of {certificate.dual!r} is above the value {certificate.primal!r} that "
            f"was reached: a defect of bridle, or of the problem; please report it"
        )

    def origin(self) -> Iterate:
        """The point at zero, which every problem can judge."""
        return Iterate(0, 0.0, np.zeros(self.n_features))

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the iterate and the dual value of a feasible point made of it."""

    def dual(self, alpha: Any) -> float:
        """D(alpha); minus infinity outside the feasible set."""

    def identity(self) -> dict[str, Any] | None:
        """What tells this problem from others, as JSON; None if its runs cannot be saved."""
        return None

    def still_has(self, alpha: Any) -> bool:
        """Whether this dual point can still be looked at."""
        return True
