"""norma: online gradient descent at a constant rate that forgets (linear kernel).

    w <- (1 - rho) w + rho m C_i z_i if p_i < 1, else (1 - rho) w,   rho = lam eta_0,

where a term is dropped once it is tau steps old: w never has more than tau terms, and differs from
the one that forgets nothing by at most m max_i C_i |z_i| (1 - rho)^tau (Kivinen, Smola &
Williamson, "Online learning with kernels", IEEE TSP 2004). Made for streams whose source may
drift; at a constant rate it hovers about the optimum, so its certificate is true but need not be
small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Pace, Solver, steps_until_yield
from bridle.solvers.shared.stochastic import (
    bucket_size,
    check_counts,
    check_positive,
    start_weights,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem

MOST_TERMS = 2**22


def decay_of(eta0: float, lam: float) -> float:
    """rho, the part of every term that a step forgets: no more than half."""
    return min(0.5, lam * eta0)


def lifetime(rho: float) -> int:
    """Steps after which a thousandth of a term is left, or as many as are remembered."""
    return min(MOST_TERMS, math.ceil(math.log(1e-3) / math.log1p(-rho)))


@dataclass(frozen=True)
class Norma(Solver):
    """Online gradient descent with truncation.

    eta0: the rate; None calibrates it on `sample` rows. terms: how many steps a term lives (tau);
    None keeps those that have not yet decayed to a thousandth, up to four million.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, bridle.Norma(), stop=bridle.Epochs(20))
    >>> solution.certificate.relative_gap < 0.2
    True
    """

    eta0: float | None = None
    terms: int | None = None
    sample: int = 1000
    bucket: int = 32

    name: ClassVar[str] = "norma"
    converges: ClassVar[bool] = False
    no_free_bias: ClassVar[str] = "what it learns it must forget, and nothing lets b decay"

    def __post_init__(self) -> None:
        check_positive(eta0=self.eta0)
        check_counts(terms=self.terms, sample=self.sample, bucket=self.bucket)

    def settings(self, problem: LinearProblem, seed: int) -> tuple[float, int]:
        """rho and tau for a problem."""
        from bridle.solvers.shared.rate_ladder import search_eta0

        eta0 = self.eta0 or search_eta0(problem, sample=self.sample, seed=seed)
        rho = decay_of(eta0, problem.lam)
        return rho, lifetime(rho) if self.terms is None else self.terms

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        m = problem.n_rows
        rho, tau = self.settings(problem, rng.next())
        steps = _core.steps.norma(
            problem.rows.view, problem.signed_cost, problem.squared_norms,
            start_weights(problem, start)[0], problem.start_alpha(start), rho, tau,
            "epochs", bucket_size(m, self.bucket),
        )  # fmt: skip
        w, alpha = np.zeros(problem.n_features + 1), np.zeros(m)
        step = 0
        while True:
            n = steps_until_yield(pace, step, m - step % m)
            steps.run(n, rng)
            step += n
            steps.output(w, alpha)
            yield Iterate(step, step / m, *problem.split(w), alpha, direction=True)
