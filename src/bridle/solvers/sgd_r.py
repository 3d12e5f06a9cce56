"""sgd-r: sgd-s with the rows drawn at random, one by one, with replacement.

    a <- a + c_i z_i  if  a.z_i <= lam t,   then  t <- t + 1;
    w = a/(lam t),   alpha_i = m C_i I_i/t.

A row that was drawn more often than its share can leave the box, so the dual point needs the
problem's repair. See sgd_s.py for the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bridle.problems.base import WEIGHTS
from bridle.rows.base import STEPS
from bridle.solvers.sgd_s import SgdS
from bridle.solvers.shared.stochastic import Sampling


@dataclass(frozen=True)
class SgdR(SgdS):
    """Stochastic gradient descent in margin-perceptron form, on rows drawn at random.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, bridle.SgdR()).certificate.relative_gap <= 1e-3
    True
    """

    name: ClassVar[str] = "sgd-r"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, STEPS})
    sampling: ClassVar[Sampling] = "iid"
