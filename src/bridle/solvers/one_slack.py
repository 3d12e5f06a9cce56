"""The one-slack cutting-plane method.

    min_w,xi  1/2 |w|^2 + xi   such that   w.G_c >= R_c - xi for every cut c,
    G_c = sum_i C_i psi_i(y_i^c),   R_c = sum_i C_i Delta(y_i, y_i^c)

One oracle pass at w finds the most violated cut; the small quadratic programme over all cuts found
so far gives the next w, and its value is the dual (Joachims, Finley & Yu, "Cutting-plane training
of structural SVMs", Machine Learning 2009). The number of cuts does not depend on the number of rows.

"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.cutting_plane import CuttingPlaneModel
from bridle.solvers.base import Iterate, Iterates, Solver

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.structured.problem import StructuredBase


@dataclass(frozen=True)
class OneSlack(Solver):
    """Cutting planes that are sums over all rows.

    idle: cuts that had no weight in so many rounds are forgotten.
    """

    idle: int = 50

    name: ClassVar[str] = "one-slack"
    kinds: ClassVar[tuple[str, ...]] = ("structured",)

    def iterates(
        self,
        problem: StructuredBase,
        *,
        start: Any = None,
        rng: Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """One iterate for each oracle pass: the best w seen, and the model's dual point."""
        model = CuttingPlaneModel(problem.n_features, idle=self.idle)
        if start is not None:  # its mean constraint is a cut like any other
            model.add(start.alpha[:-1], float(start.alpha[-1]))
        w = np.zeros(problem.n_features) if start is None else np.array(start.w, np.float64)
        best, best_w = np.inf, w
        step = 0
        while True:
            cut = problem.cut(w)
            step += 1
            primal = 0.5 * float(w @ w) + cut.value
            if primal < best:
                best, best_w = primal, w
            model.add(cut.features, cut.loss)
            point = model.solve()
            model.drop_idle()
            w = point.w
            gap = max(0.0, best - point.value)
            alpha = np.append(w, float(model.r @ model.beta))
            yield Iterate(step, step, best_w, 0.0, alpha, gap / best if best > 0 else 0.0)
