"""asgd: averaged stochastic gradient descent.

    eta_t = eta_0 / (1 + lam eta_0 t)^(3/4),   w the average since the first epoch

(Polyak & Juditsky 1992; Xu 2011; Bottou's implementation). The slower decay keeps w moving, and the
average removes its noise. The average costs O(non-zeros) a step too
(core/linear/scaled_weights.hpp). alpha is averaged alike and leaves the box by a little, where the
problem clips it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.stochastic import check_counts, check_positive, sgd_iterates

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class AveragedSgd(Solver):
    """Averaged SGD. eta0: None calibrates it on `sample` rows. average_from: in epochs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 5))
    >>> problem = bridle.LinearProblem(X, np.where(X[:, 0] > 0.5, 1, -1), C=0.1)
    >>> solution = bridle.solve(problem, bridle.AveragedSgd(), stop=bridle.Epochs(50))
    >>> solution.certificate.relative_gap < 0.2
    True
    """

    eta0: float | None = None
    sample: int = 1000
    average_from: int = 1
    bucket: int = 32

    name: ClassVar[str] = "asgd"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        check_positive(eta0=self.eta0)
        check_counts(sample=self.sample, bucket=self.bucket)
        if self.average_from < 0:
            raise ValueError(f"average_from must be at least 0, got {self.average_from}")

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        from bridle.solvers.shared.rate_ladder import search_eta0

        eta0 = self.eta0 or search_eta0(problem, sample=self.sample, seed=rng.next())
        first = problem.lam * eta0
        # first (1 + first t)^(-3/4) = first^(1/4) (1/first + t)^(-3/4)
        yield from sgd_iterates(
            problem, start=start, rng=rng, pace=pace, output="average", bucket=self.bucket,
            rate=_core.steps.Rate(first**0.25, 1.0 / first, 0.75), average_from=self.average_from,
        )  # fmt: skip
