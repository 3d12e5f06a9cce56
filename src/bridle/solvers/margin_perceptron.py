"""The perceptron with a fixed margin.

    w <- w + c_i z_i  if  w.z_i <= b,   b = margin R^2,   R = max |z_i|

(Krauth & Mezard 1987; Li et al. 2002). On separable data the larger b, the closer w's direction
comes to the maximum margin's: at least gamma b/(2b + R^2) of the largest margin gamma. It does not
minimise the SVM's objective: certified at the best scale of w, as the perceptron is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from bridle import _core
from bridle.solvers.base import Iterates, Pace
from bridle.solvers.perceptron import Perceptron
from bridle.solvers.shared.stochastic import check_positive

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class MarginPerceptron(Perceptron):
    """Updates on margins up to a threshold. margin: the threshold, in squared row lengths.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> print(bridle.solve(problem, bridle.MarginPerceptron(margin=0.5)).status)
    Status.SEPARATED
    """

    margin: float = 1.0

    name: ClassVar[str] = "margin-perceptron"
    separates: ClassVar[str | None] = "with no row left inside the margin: the weights separate all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(margin=self.margin)

    def threshold(self) -> float:
        """The margin at which a row is left alone, of rows no longer than 1."""
        return self.margin

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """The perceptron's, with a threshold fit for the length of the rows."""
        norms = (float(piece.rows.squared_norms.max()) for piece in problem.sides.each_piece())
        longest = max(norms) or 1.0
        scaled = replace(self, margin=self.margin * longest)
        yield from super(MarginPerceptron, scaled).iterates(
            problem, start=start, rng=rng, pace=pace
        )
