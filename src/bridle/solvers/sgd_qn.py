"""sgd-qn: stochastic gradient descent with a diagonal that learns the curvature.

    w <- w + c_i slope(p_i) B z_i;   every `skip` steps  w <- w - skip lam B w,
    and after the next row  B_j <- B_j / (1 + skip B_j r_j),
    r_j = clip(lam + (change of its loss's gradient)_j / (change of w)_j, lam, 100 lam)

(Bordes, Bottou & Gallinari, "SGD-QN: careful quasi-Newton stochastic gradient descent", JMLR 2009,
in the form corrected in 2010). All B_j start at eta_0. Features of rare and of frequent words get
rates of their own. w is not a combination of rows, so the problem's repair finds the dual point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES, Piece
from bridle.solvers.base import Iterates, Pace, Solver, steps_until_yield
from bridle.solvers.shared.stochastic import (
    bucket_size,
    check_counts,
    check_positive,
    start_weights,
    steps_on,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class SgdQn(Solver):
    """SGD with diagonal scaling.

    eta0: None calibrates it on `sample` rows. skip: steps between two updates that touch every
    feature; None makes those a sixteenth of the work.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 5))
    >>> problem = bridle.LinearProblem(X, np.where(X[:, 0] > 0.5, 1, -1), C=0.1)
    >>> solution = bridle.solve(problem, bridle.SgdQn(), stop=bridle.Epochs(20))
    >>> solution.certificate.relative_gap < 0.1
    True
    """

    eta0: float | None = None
    skip: int | None = None
    sample: int = 1000
    bucket: int = 32

    name: ClassVar[str] = "sgd-qn"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    no_free_bias: ClassVar[str] = (
        "the rate of a feature lies between bounds that its regulariser gives, and b has none"
    )
    loss_needs: ClassVar[frozenset[str]] = frozenset({"core", "certifiable"})

    def __post_init__(self) -> None:
        check_positive(eta0=self.eta0)
        check_counts(skip=self.skip, sample=self.sample, bucket=self.bucket)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        from bridle.solvers.shared.rate_ladder import search_eta0

        m = problem.n_rows
        eta0 = self.eta0 or search_eta0(problem, sample=self.sample, seed=rng.next())
        if start is not None:
            eta0 /= 1 + problem.lam * eta0 * m  # as if an epoch had passed
        nnz = max(1.0, problem.rows.nnz / m)
        skip = self.skip or max(1, round(16 * problem.n_features / nnz))
        steps = self._steps(problem, start_weights(problem, start)[0], eta0, skip)
        w = np.zeros(problem.n_features + 1)
        step = 0
        while True:
            n = steps_until_yield(pace, step, m - step % m)
            steps.run(n, rng)
            step += n
            steps.weights(w)
            yield Iterate(step, step / m, *problem.split(w))

    def _steps(self, problem: LinearProblem, w: Array, eta0: float, skip: int) -> Any:
        def make(piece: Piece) -> Any:
            return _core.steps.sgd_qn(
                piece.rows.view, problem.loss.struct, piece.signed_cost / problem.C, w,
                problem.lam, eta0, skip, "epochs", bucket_size(problem.n_rows, self.bucket),
                piece.targets,
            )  # fmt: skip

        def enter(steps: Any, piece: Piece) -> Any:
            weight = piece.signed_cost / problem.C
            steps.enter(piece.rows.view, weight, piece.targets)
            return piece, weight

        return steps_on(problem, make, enter)
