"""Cuts of the hinge loss, with the dual point that they make: what svmperf and ocas share.

At any w, with c_i = [p_i < 1]: sum_i C_i max(0, 1 - p_i) >= R - w.G for every w, where
G = sum_i C_i c_i z_i and R = sum_i C_i c_i. The model's weights beta give the dual point
alpha_i = C_i sum_c beta_c c_i, inside the box since sum_c beta_c <= 1; w(alpha) = sum_c beta_c G_c,
and D(alpha) is the model's dual value. Each cut is remembered by one bit a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel, ModelPoint
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


class HingeCuts:
    """A cutting-plane model of a linear problem, and the rows behind each of its cuts."""

    def __init__(self, problem: LinearProblem, start: Any, idle: int) -> None:
        self.problem = problem
        self._model = CuttingPlaneModel(problem.n_features + 1, idle=idle)
        self._bits: NDArray[np.uint8] = np.zeros((0, (problem.n_rows + 7) // 8), np.uint8)
        # A start is a cut like any other, but its c_i are fractions: kept as they are.
        self._start_alpha: Array | None = None
        if start is not None and start.alpha is not None:
            self._add_start(problem.start_alpha(start))

    def __len__(self) -> int:
        return len(self._model)

    def add(self, active: NDArray[Any], g: Array, r: float) -> None:
        """Add the cut of the active rows."""
        self._model.add(g, r)
        bits = np.packbits(active, bitorder="little")
        self._bits = np.concatenate([self._bits, bits[np.newaxis]])

    def add_rows(self, active: NDArray[np.bool_]) -> None:
        """Add the cut of the active rows, summing them up here."""
        problem, g = self.problem, np.empty(self.problem.n_features + 1)
        problem.rows.combine(problem.signed_cost * active, g)
        self.add(active, g, float(problem.cost @ active))

    def solve(self, tolerance: float) -> ModelPoint:
        """Minimise the model; then forget cuts that have long been idle."""
        point = self._model.solve(tolerance)
        kept = self._model.drop_idle()
        if len(kept) < len(self._bits):
            self._bits = self._bits[kept]
            if self._start_alpha is not None and (len(kept) == 0 or kept[0] != 0):
                self._start_alpha = None
        return point

    def alpha(self) -> Array:
        """The dual point of the last solve."""
        problem, beta = self.problem, self._model.beta
        alpha = np.empty(problem.n_rows)
        _core.steps.sum_bits(self._bits, beta, alpha, problem.n_threads)
        alpha *= problem.cost
        if self._start_alpha is not None:
            alpha += beta[0] * self._start_alpha
        return np.minimum(alpha, problem.upper)

    def _add_start(self, alpha: Array) -> None:
        problem, g = self.problem, np.empty(self.problem.n_features + 1)
        problem.rows.combine(alpha * problem.y, g)
        self.add(np.zeros(problem.n_rows, np.bool_), g, float(alpha.sum()))
        self._start_alpha = alpha
