"""sgd-s: stochastic gradient descent as a perceptron with margin, in shuffled complete epochs.

With rate 1/(lam t) and w = a/(lam t), the step on lam/2 |w|^2 + 1/m sum c_i max(0, 1 - p_i) becomes
a perceptron whose margin threshold grows with the number t of rows presented:

    a <- a + c_i z_i  if  a.z_i <= lam t,   then  t <- t + 1.

After T complete epochs row i was updated I_i <= T times, so alpha_i = C_i I_i/T lies inside the box
exactly, w(alpha) = w, and the dual value lam D = r/t - lam/2 |w|^2, r = sum c_i I_i, comes free of
charge (Panagiotakopoulos & Tsampouka, "The stochastic gradient descent for the primal L1-SVM
optimization revisited", ECML PKDD 2013). Inside an epoch the same holds with t rounded up to whole
epochs. The primal is estimated from the margins that were computed anyway; only when the gap so
estimated is within `coefficient` of the goal does the loop take an exact pass.

A free bias b is held within an epoch, a.z_i <= lam t (1 - y_i b), and chosen between epochs: see
`held_bias`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES
from bridle.solvers.base import Iterates, Pace, Solver, steps_until_yield
from bridle.solvers.shared.stochastic import (
    Sampling,
    bucket_size,
    check_counts,
    check_positive,
    perceptron_steps,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class SgdS(Solver):
    """Stochastic gradient descent in margin-perceptron form, in complete epochs.

    coefficient: how many times the goal the estimated gap may be when an exact pass is taken.
    bucket: neighbouring rows that are read by turns with those of other buckets; 1: a full shuffle.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.SgdS()).certificate.relative_gap <= 1e-3
    True
    """

    coefficient: float = 1.2
    bucket: int = 32

    name: ClassVar[str] = "sgd-s"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    sampling: ClassVar[Sampling] = "epochs"

    def __post_init__(self) -> None:
        check_positive(coefficient=self.coefficient)
        check_counts(bucket=self.bucket)

    def repeats(self) -> tuple[Callable[[int], int], str]:
        """How often the T-th epoch presents a row at a visit, and how that is counted."""
        return lambda epoch: 1, "exact"

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        repeat, how = self.repeats()
        m, lam = problem.n_rows, problem.lam
        a, counts, presented = _start(problem, start, repeat(1))
        steps = perceptron_steps(
            problem, a, counts, offset=0.0, slope=lam, presented=presented, repeat=repeat(1),
            repeats=how, sampling=self.sampling, bucket=bucket_size(m, self.bucket),
        )  # fmt: skip
        step, whole, free = 0, presented, problem.bias == "free"
        while True:
            if step % m == 0:
                # Each row is presented L times in this epoch: at most so many updates more.
                L = repeat(step // m + 1)
                steps.set_repeat(L)
                if free:
                    w = a / (lam * max(1, steps.presented))
                    balance = problem.sides.balance_of(problem.sides.at_cost(counts)) / L
                    steps.bias = problem.sides.held_bias(w, -balance)
                whole += m * L
            n = steps_until_yield(pace, step, m - step % m)
            steps.run(n, rng)
            step += n
            steps.output(a, counts)
            t = steps.presented
            # Complete epochs are within the box; an incomplete one counts as if it were complete.
            # The quotient first: rounded, it is still at most 1.
            alpha = problem.sides.at_cost(counts * m / (t if self.sampling == "iid" else whole))
            yield Iterate(
                step, step / m, *problem.split(a / (lam * t), steps.bias), alpha,
                gap_estimate=self._estimate(steps, lam, n),
            )  # fmt: skip

    def _estimate(
        self, steps: _core.steps.MarginPerceptron, lam: float, visits: int
    ) -> float | None:
        t = steps.presented
        half_norm = 0.5 * steps.squared_norm / (lam * t * t)  # lam/2 |w|^2
        primal = half_norm + steps.hinge / visits
        dual = steps.weighted_sum / t - half_norm
        return (primal - dual) / primal / self.coefficient if primal > 0 else None


def _start(
    problem: LinearProblem, start: Any, repeat: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """a, the updates of each row and t. A warm start counts as one complete epoch."""
    if start is None:
        return np.zeros(problem.n_features + 1), np.zeros(problem.n_rows), 0
    presented = problem.n_rows * repeat
    if start.alpha is None:
        joined = problem.join(start.w, start.b)
        return joined * (problem.lam * presented), np.zeros(problem.n_rows), presented
    alpha = problem.start_alpha(start)
    joined = problem.join(problem.weights(alpha), problem.intercept(alpha))
    counts = repeat * problem.sides.share_of_cost(alpha)
    return joined * (problem.lam * presented), counts, presented
