"""sgd-m: sgd-s in which a visit presents a row L times for one inner product.

With Delta = lam t - a.z before the visit and Q = c_i |z_i|^2, the number n of updates among the L
presentations is known in closed form:

    Q > lam:   n = clamp(floor((Delta + lam (L-1))/Q) + 1, 0, L)
    Q <= lam:  n = L if Delta >= 0, else max(0, L - ceil(-Delta/lam)),

then a <- a + n c_i z_i, t <- t + L. L may change from epoch to epoch: after T epochs
alpha_i = C_i I_i/(L_1 + ... + L_T). See sgd_s.py for the paper, whose schedule is the default:
L = 5 where 0 < T mod 9 < 5, else 1.

`multiple="forward-backward"` is the older way: all L gradient steps first, against the threshold
that the first one met, and the shrinking of all L afterwards (as in forward-backward splitting,
Duchi & Singer, JMLR 2009): n = clamp(floor(Delta/Q) + 1, 0, L). Its dual point is inside the box
as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from bridle.solvers.sgd_s import SgdS
from bridle.solvers.shared.stochastic import check_choice, check_counts

Multiple = Literal["exact", "forward-backward"]


def four_of_nine(epoch: int) -> int:
    """The paper's schedule: rows are presented 5 times in the first four of nine epochs."""
    return 5 if 0 < epoch % 9 < 5 else 1


@dataclass(frozen=True)
class SgdM(SgdS):
    """Stochastic gradient descent in margin-perceptron form, with multiple updates.

    repeat: presentations at a visit (L), a number or a function of the epoch, counted from 1.
    multiple: how their updates are counted.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.SgdM()).certificate.relative_gap <= 1e-3
    True
    """

    repeat: int | Callable[[int], int] = four_of_nine
    multiple: Multiple = "exact"

    name: ClassVar[str] = "sgd-m"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._repeat_in(1)
        check_choice("multiple", self.multiple, Multiple)

    def repeats(self) -> tuple[Callable[[int], int], str]:
        """L as a function of the epoch, and the way to count."""
        return self._repeat_in, self.multiple

    def _repeat_in(self, epoch: int) -> int:
        repeat = self.repeat(epoch) if callable(self.repeat) else self.repeat
        check_counts(repeat=repeat)
        return repeat
