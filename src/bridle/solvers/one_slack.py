"""Cutting planes, one slack variable: structural SVMs by a small quadratic programme.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i max_y [Delta(y_i, y) - w.psi_i(y)]

One oracle pass at w gives a cut: G = sum_i C_i psi_i, R = sum_i C_i Delta_i of the answers, with
R - w.G <= the second part at every w. The next point is the minimiser of the model that the cuts
make (Joachims, Finley & Yu, "Cutting-plane training of structural SVMs", Machine Learning 2009).
P jumps on the way: the iterate is the best point seen. The model's weights beta are a dual point,
W = sum_c beta_c G_c and l = sum_c beta_c R_c.

A cut may be taken nearer to the best point than the model's minimiser, as Franc & Sonnenburg do
("Optimized cutting plane algorithm for support vector machines", ICML 2008): `towards` says how far
from the one to the other. Joachims, Finley & Yu take the minimiser itself, towards = 1; 0.2 needed
two to four times fewer passes on ranking data. Either the new cut raises the model's minimum, or,
by convexity, P falls by at least the fraction `towards` of the gap: it converges for any value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.problems.base import ORACLE
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel
from bridle.solvers.shared.standstill import Standstill, relative
from bridle.structured.bounds import Errors, MeanIterate, excess_of, of_sum

if TYPE_CHECKING:
    from bridle.structured.problem import StructuredBase


@dataclass(frozen=True)
class OneSlack(Solver):
    """The one-slack cutting-plane method.

    towards: where between the best point (0) and the model's minimiser (1) the next cut is taken.
    idle: a cut without weight in so many iterations is dropped.

    Examples
    --------
    >>> X, Y = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["D", "N"], ["D", "N"]]
    >>> model = bridle.ChainSVM(solver=bridle.OneSlack()).fit(X, Y)
    >>> model.certificate_.relative_gap <= 1e-2
    True
    """

    towards: float = 0.2
    idle: int = 50

    name: ClassVar[str] = "one-slack"
    needs: ClassVar[frozenset[str]] = frozenset({ORACLE})

    def __post_init__(self) -> None:
        if not 0 < self.towards <= 1:
            raise ValueError(f"towards must be in (0, 1], got {self.towards}")
        if self.idle < 1:
            raise ValueError(f"idle must be at least 1, got {self.idle}")

    def iterates(
        self, problem: StructuredBase, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate for each cut, which costs one oracle pass over the rows."""
        model = CuttingPlaneModel(problem.n_features, idle=self.idle)
        w = np.zeros(problem.n_features)
        errors: list[Errors] = []  # of each cut
        if start is not None:
            w = np.array(start.w, np.float64)
            known = problem.errors_of(start.alpha)
            if known is not None:  # a convex combination is a cut like any other
                model.add(start.alpha[:-1], float(start.alpha[-1]))
                errors.append(known)
        best, lowest, gap, step = w, np.inf, 1.0, 0
        standstill = Standstill()
        while True:
            step += 1
            cut = problem.cut(w)
            primal = 0.5 * float(w @ w) + cut.value
            if primal < lowest:
                best, lowest = w, primal
            model.add(cut.features, cut.loss)
            errors.append(cut.errors)
            point = model.solve(max(1e-3 * gap, 1e-13))
            gap = relative(lowest - point.value, lowest)
            alpha = np.append(point.w, model.r @ point.beta)
            yield MeanIterate(
                step, step, best, 0.0, alpha, gap_estimate=gap, errors=_errors(model, errors)
            )
            if standstill(lowest, point.value):
                return
            errors = [errors[k] for k in model.drop_idle().tolist()]
            w = best + self.towards * (point.w - best)


def _errors(model: CuttingPlaneModel, errors: list[Errors]) -> Errors:
    """Of the mean that the weights of the cuts make."""
    lengths = np.sqrt(np.diagonal(model.gram)) * (1.0 + 1e-9) + 1e-150
    excess = excess_of(np.array([model.beta.sum()]), model.caps, len(model))
    return of_sum(model.beta, lengths, model.r, np.array(errors), excess)
