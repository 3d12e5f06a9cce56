"""sgd-m: sgd-s in which a visit presents a row L times for one inner product.

With Delta = lam t - a.z before the visit and Q = c_i |z_i|^2, the number n of updates among the L
presentations is known in closed form:

    Q > lam:   n = clamp(floor((Delta + lam (L-1))/Q) + 1, 0, L)
    Q <= lam:  n = L if Delta >= 0, else max(0, L - ceil(-Delta/lam)),

then a <- a + n c_i z_i, t <- t + L. After T epochs alpha_i = C_i I_i/(T L). See sgd_s.py for the
paper.

`multiple="forward-backward"` is the older way: all L gradient steps first, against the threshold
that the first one met, and the shrinking of all L afterwards (as in forward-backward splitting,
Duchi & Singer, JMLR 2009): n = clamp(floor(Delta/Q) + 1, 0, L). Its dual point is inside the box
as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from bridle.solvers.sgd_s import SgdS
from bridle.solvers.shared.stochastic import check_choice, check_counts

Multiple = Literal["exact", "forward-backward"]


@dataclass(frozen=True)
class SgdM(SgdS):
    """Stochastic gradient descent in margin-perceptron form, with multiple updates.

    repeat: presentations at a visit (L). multiple: how their updates are counted.
    """

    repeat: int = 5
    multiple: Multiple = "exact"

    name: ClassVar[str] = "sgd-m"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(repeat=self.repeat)
        check_choice("multiple", self.multiple, Multiple)

    def repeats(self) -> tuple[int, str]:
        """L, and the way to count."""
        return self.repeat, self.multiple
