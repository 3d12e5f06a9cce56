"""The stochastic subgradient method of the structural SVM: Pegasos with an oracle.

    min_w  f(w) = lam/2 |w|^2 + 1/m sum_i c_i max_y [Delta(y_i, y) - w.psi_i(y)],   lam = 1/(m C).

Step t asks the oracle about one row and moves by 1/(lam t) against the subgradient:

    w <- (1 - 1/t) w + (m/t) C_i psi_i,

so that in shuffled whole epochs w is the mean over the epochs of sum_i C_i psi_i: a convex
combination of answers for every row, which certifies w at no cost (Ratliff, Bagnell & Zinkevich,
"(Online) subgradient methods for structured prediction", AISTATS 2007; Shalev-Shwartz, Singer &
Srebro, ICML 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.objective.rounding import gamma
from bridle.problems.base import ORACLE
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.structured.bounds import MORE, Errors, MeanIterate

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.structured.problem import StructuredBase


@dataclass(frozen=True)
class StructuredSubgradient(Solver):
    """Stochastic subgradient steps at rate 1/(lam t), in shuffled epochs.

    average: propose the mean of w over the second half of the steps, the better primal point.

    Examples
    --------
    >>> X, Y = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]], [["D", "N"], ["D", "N"]]
    >>> solver = bridle.StructuredSubgradient()
    >>> model = bridle.ChainSVM(solver=solver, tol=0.1).fit(X, Y)
    >>> model.certificate_.relative_gap <= 0.1
    True
    """

    average: bool = True

    name: ClassVar[str] = "subgradient"
    needs: ClassVar[frozenset[str]] = frozenset({ORACLE})

    def iterates(
        self, problem: StructuredBase, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each shuffled epoch."""
        n = problem.n_rows
        total = np.zeros(problem.n_features)  # w = total / epochs so far
        # A warm start counts as an epoch whose answers gave its mean constraint. It is not believed
        # to be one: certificates rest on the answers since.
        t = 0
        first = np.zeros(problem.n_features)
        if start is not None:
            first, t = np.array(start.alpha[:-1]), n
        loss, size, wrong, wrong_loss = 0.0, 0.0, 0.0, 0.0
        order = np.empty(n, np.int64)
        step, epoch, restart = 0, 0, 1
        mean, counted = np.zeros(problem.n_features), 0
        while True:
            if epoch == restart:  # average over what follows the last power of two of epochs
                mean[:], counted, restart = 0.0, 0, 2 * restart
            rng.permutation(order)
            for i in order.tolist():
                w = (first + total) * (n / t) if t else total
                constraint = problem.constraint(i, w)
                cost = float(problem.cost[i])
                constraint.psi.add_to(total, cost)
                loss += cost * constraint.loss
                size += cost * constraint.psi.length
                wrong += cost * constraint.errors.features
                wrong_loss += cost * constraint.errors.loss
                t += 1
                counted += 1
                if self.average:
                    mean += (w - mean) / counted
            step, epoch = step + n, epoch + 1
            scale, part = 1.0 / epoch, gamma(step + 8)
            alpha = scale * np.append(total, loss)
            errors = Errors(
                MORE * scale * (wrong + part * size), MORE * scale * (wrong_loss + part * loss)
            )
            w = mean if self.average else (first + total) * (n / t)
            yield MeanIterate(step, epoch, w, 0.0, alpha, errors=errors)
