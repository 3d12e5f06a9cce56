"""Cuts of the hinge loss, with the dual point that they make: what svmperf and ocas share.

At any w, with c_i = [p_i < 1]: sum_i C_i max(0, 1 - p_i) >= R - w.G for every w, where
G = sum_i C_i c_i z_i and R = sum_i C_i c_i. The model's weights beta give the dual point
alpha_i = C_i sum_c beta_c c_i, inside the box since sum_c beta_c <= 1; w(alpha) = sum_c beta_c G_c,
and D(alpha) is the model's dual value. Each cut is remembered by one bit a row.

With a free bias the cuts are of min_b sum_i C_i max(0, 1 - p_i), at the best b of w: rows whose
margin is exactly 1 there enter in such a part that sum_i C_i c_i y_i = 0, which b's being best
allows. R - w.G is then a bound whatever b is, so that the model has no bias, and every alpha that
it makes fulfils sum_i alpha_i y_i = 0. One row at most enters with a fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel, ModelPoint
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class AtKink:
    """The share with which a row enters a cut beside those that enter whole."""

    row: int
    share: float


NONE_AT_KINK = AtKink(0, 0.0)


class HingeCuts:
    """A cutting-plane model of a linear problem, and the rows behind each of its cuts."""

    def __init__(self, problem: LinearProblem, start: Any, idle: int) -> None:
        self.problem = problem
        self._model = CuttingPlaneModel(problem.n_features + 1, idle=idle)
        self._bits: NDArray[np.uint8] = np.zeros((0, (problem.n_rows + 7) // 8), np.uint8)
        self._parts: list[AtKink] = []  # of each cut
        # A start is a cut like any other, but its c_i are fractions: kept as they are.
        self._start_alpha: Array | None = None
        if start is not None and start.alpha is not None:
            self._add_start(_feasible(problem, start))

    def __len__(self) -> int:
        return len(self._model)

    def add(self, active: NDArray[Any], g: Array, r: float, part: AtKink = NONE_AT_KINK) -> None:
        """Add the cut of the active rows."""
        self._model.add(g, r)
        self._parts.append(part)
        bits = np.packbits(active, bitorder="little")
        self._bits = np.concatenate([self._bits, bits[np.newaxis]])

    def add_at(self, scores: Array) -> tuple[Array, float]:
        """Add the cut at a point with these scores, without a free bias: its G and R."""
        problem = self.problem
        b = best_bias(problem, scores)
        kink, up = problem.y - scores, problem.y > 0  # the b at which a row's margin is 1
        active = np.where(up, kink > b, kink < b)
        part = NONE_AT_KINK
        if problem.bias == "free":
            part = _balance(active, kink == b, problem.signed_cost)
        share = active.astype(np.float64)
        share[part.row] += part.share
        g = problem.rows.combine(problem.signed_cost * share)
        r = float(problem.cost @ share)
        self.add(active, g, r, part)
        return g, r

    def solve(self, tolerance: float) -> ModelPoint:
        """Minimise the model; then forget cuts that have long been idle."""
        point = self._model.solve(tolerance)
        kept = self._model.drop_idle()
        if len(kept) < len(self._bits):
            self._bits = self._bits[kept]
            self._parts = [self._parts[k] for k in kept]
            if self._start_alpha is not None and (len(kept) == 0 or kept[0] != 0):
                self._start_alpha = None
        return point

    def alpha(self) -> Array:
        """The dual point of the last solve."""
        problem, beta = self.problem, self._model.beta
        alpha = np.empty(problem.n_rows)
        _core.steps.sum_bits(self._bits, beta, alpha, problem.n_threads)
        for weight, part in zip(beta, self._parts, strict=True):
            alpha[part.row] += weight * part.share
        alpha *= problem.cost
        if self._start_alpha is not None:
            alpha += beta[0] * self._start_alpha
        return np.minimum(alpha, problem.upper)

    def _add_start(self, alpha: Array) -> None:
        problem, g = self.problem, np.empty(self.problem.n_features + 1)
        problem.rows.combine(alpha * problem.y, g)
        self.add(np.zeros(problem.n_rows, np.bool_), g, float(alpha.sum()))
        self._start_alpha = alpha


def best_bias(problem: LinearProblem, scores: Array) -> float:
    """The best free bias of these scores; 0 where none is free."""
    return float(problem.sides.best_bias(scores)) if problem.bias == "free" else 0.0


def _balance(active: NDArray[np.bool_], at_kink: NDArray[np.bool_], signed_cost: Array) -> AtKink:
    """Enter rows at the kink until sum_i C_i c_i y_i = 0: whole ones in place, and a last part."""
    missing = -float(signed_cost @ active)
    rows = np.flatnonzero(at_kink & (signed_cost * missing > 0))
    if not len(rows):
        return NONE_AT_KINK
    missing, costs = abs(missing), np.abs(signed_cost[rows])
    sums = np.cumsum(costs)
    n = int(np.searchsorted(sums, missing, side="right"))
    active[rows[:n]] = True
    if n == len(rows):  # but for rounding they are enough
        return NONE_AT_KINK
    left = missing - (float(sums[n - 1]) if n else 0.0)
    return AtKink(int(rows[n]), left / float(costs[n]))


def _feasible(problem: LinearProblem, start: Any) -> Array:
    """The start's dual variables; with a free bias such that they are a cut."""
    alpha: Array = problem.start_alpha(start)
    if problem.bias == "free":
        alpha = problem.feasible(Iterate(0, 0.0, start.w, start.b, alpha))
    return alpha
