"""svmsgd: Bottou's stochastic gradient descent for the SVM.

    eta_t = eta_0 / (1 + lam eta_0 t) = 1 / (lam (t_0 + t)),   t_0 = 1/(lam eta_0),

with eta_0 found by doublings and halvings on a subsample: one epoch each, the lowest cost wins
(Bottou, "Large-scale machine learning with stochastic gradient descent", COMPSTAT 2010). Like
Pegasos's rate in the long run, without its enormous first steps.

After whole shuffled epochs from w = 0, lam alpha_i = n_i c_i / (t_0 + t), n_i the number of
updates by row i, lies inside the box and has w(alpha) = w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.stochastic import check_counts, check_positive, rate_of, sgd_iterates

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class SvmSgd(Solver):
    """Bottou's SGD. eta0: None calibrates it on `sample` rows.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.SvmSgd()).certificate.relative_gap <= 1e-3
    True
    """

    eta0: float | None = None
    sample: int = 1000
    bucket: int = 32

    name: ClassVar[str] = "svmsgd"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        check_positive(eta0=self.eta0)
        check_counts(sample=self.sample, bucket=self.bucket)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        from bridle.solvers.shared.rate_ladder import search_eta0

        eta0 = self.eta0 or search_eta0(problem, sample=self.sample, seed=rng.next())
        yield from sgd_iterates(
            problem, start=start, rng=rng, pace=pace, bucket=self.bucket,
            rate=rate_of("eta0/(1 + eta0 lam t)", problem.lam, eta0),
        )  # fmt: skip
