"""The perceptron (Rosenblatt 1958).

    w <- w + c_i z_i  if  w.z_i <= 0

It finds a separating w if there is one, after at most (R/gamma)^2 updates for margin gamma and
rows no longer than R, and goes round for ever if there is none. It does not minimise the SVM's
objective: the certificate is taken at the best scale of w, min_s P(s w), and the
dual point, a multiple of the weighted counts of updates, is left to the problem's repair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import RANGES
from bridle.solvers.base import Iterates, Pace, Solver, steps_until_yield
from bridle.solvers.shared.stochastic import (
    bucket_size,
    check_counts,
    perceptron_steps,
    start_weights,
)

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class Perceptron(Solver):
    """Updates on errors only. bucket: see `sgd`.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> print(bridle.solve(problem, bridle.Perceptron()).status)
    Status.SEPARATED
    """

    bucket: int = 32

    name: ClassVar[str] = "perceptron"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, RANGES})
    no_free_bias: ClassVar[str] = (
        "its w has no length of its own for a best b to belong to; a perceptron's bias is a "
        "constant feature, bias='regularised'"
    )
    converges: ClassVar[bool] = False
    separates: ClassVar[str | None] = "with no mistakes left: the weights separate the rows"

    def __post_init__(self) -> None:
        check_counts(bucket=self.bucket)

    def threshold(self) -> float:
        """The margin at which a row is left alone."""
        return 0.0

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner; ends after an epoch without an update."""
        m = problem.n_rows
        w, _ = start_weights(problem, start)
        counts = problem.C * problem.sides.share_of_cost(problem.start_alpha(start))
        steps = perceptron_steps(
            problem, w, counts, offset=self.threshold(), slope=0.0, presented=0, repeat=1,
            repeats="exact", sampling="epochs", bucket=bucket_size(m, self.bucket),
        )  # fmt: skip
        step = quiet = 0
        while quiet < m:
            n = steps_until_yield(pace, step, m - step % m)
            steps.run(n, rng)
            step += n
            quiet = 0 if steps.updates else quiet + n
            steps.output(w, counts)
            # On the ray through the counts the dual is highest at s = sum alpha / |w|^2.
            ray = problem.sides.at_cost(counts / problem.C)
            s = float(ray.sum()) / steps.squared_norm if steps.squared_norm > 0 else 0.0
            yield Iterate(step, step / m, *problem.split(w), s * ray, direction=True)
