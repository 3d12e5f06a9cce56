"""Linear problems whose penalty makes weights 0: the l1 penalty and the elastic net.

    min_{w, b}  P(w, b) = sum_j [l1 |w_j| + l2/2 w_j^2] + sum_i C_i loss(p_i),   l1 + l2 = 1

with l1 = `l1_ratio`, as scikit-learn's LogisticRegression writes it and, for l1 = 1, LIBLINEAR's
`-s 5` and `-s 6`. With v = sum_i alpha_i y_i x_i the dual is

    D(alpha) = sum_i [-C_i loss*(-alpha_i / C_i) + alpha_i t_i]
               - sum_j max(0, |v_j| - l1)^2 / (2 l2)

where l2 > 0; without it no |v_j| may be above l1, and any alpha is scaled down until none is. A
regularised intercept is the weight of a constant feature, with the penalty of the others
(LIBLINEAR's); a free one asks for sum_i alpha_i y_i = 0.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import rounding
from bridle.objective.bias import Bias
from bridle.objective.losses import Loss, loss_from
from bridle.objective.point import Iterate
from bridle.objective.rounding import ZERO, Interval, U
from bridle.problems.base import COLUMNS, Judgement, Problem
from bridle.problems.linear import LinearProblem
from bridle.rows.base import LEVEL, Feasible, Judged, Scales, dual_share, loss_at, quick_look
from bridle.rows.memory import MemorySides
from numpy.typing import ArrayLike

PENALTIES = ("l2", "l1", "elasticnet")


def l1_ratio_of(penalty: str, l1_ratio: float | None) -> float:
    """The part of the l1 norm in a penalty by its name."""
    if penalty not in PENALTIES:
        raise ValueError(f"penalty must be one of {', '.join(PENALTIES)}, got {penalty!r}")
    if penalty != "elasticnet":
        return 1.0 if penalty == "l1" else 0.0
    if l1_ratio is None or not 0 <= l1_ratio <= 1:
        raise ValueError(f'penalty="elasticnet" needs an l1_ratio from 0 to 1, got {l1_ratio}')
    return float(l1_ratio)


class PenalisedProblem(Problem):
    """Rows in memory, a smooth loss, and a penalty with an l1 norm.

    l1_ratio: its part of the penalty, more than 0; the rest is 1/2 |w|^2. Others: as in
    `LinearProblem`. The solver, `cd`, makes a copy of the columns.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> solution = bridle.solve(bridle.PenalisedProblem(X, y, C=1.0, loss="logistic"))
    >>> solution.certificate.relative_gap <= 1e-3, bool((solution.w != 0).mean() < 0.01)
    (True, True)
    """

    offers: ClassVar[frozenset[str]] = frozenset({COLUMNS})

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        C: float = 1.0,
        *,
        loss: str | Loss = "squared_hinge",
        l1_ratio: float = 1.0,
        bias: Bias = "none",
        bias_scale: float = 1.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        if not 0 < l1_ratio <= 1:
            raise ValueError(f"l1_ratio must be above 0, and 1 at most, got {l1_ratio}")
        loss = loss_from(loss)
        if not loss.smooth or loss.core is None:
            raise ValueError(
                f"the l1 penalty needs a smooth loss of the core, such as squared_hinge, logistic "
                f"or squared, not {loss.name!r}"
            )
        self.base = LinearProblem(
            X, y, C, loss=loss, bias=bias, bias_scale=bias_scale, sample_weight=sample_weight,
            n_threads=n_threads,
        )  # fmt: skip
        if not isinstance(self.base.sides, MemorySides):
            raise ValueError("the l1 penalty needs the rows in memory, for a copy of their columns")
        if self.base.hard_margin:
            raise ValueError("C = inf is the hard margin, which has no l1 penalty here")
        self.l1, self.l2 = float(l1_ratio), 1.0 - float(l1_ratio)

    def variant(self, **changes: Any) -> PenalisedProblem:
        """The same rows with other labels, C or weights: see `LinearProblem.variant`."""
        other = copy.copy(self)
        other.base = self.base.variant(**changes)
        return other

    C = property(lambda self: self.base.C)
    loss = property(lambda self: self.base.loss)
    bias = property(lambda self: self.base.bias)
    bias_scale = property(lambda self: self.base.bias_scale)
    rows = property(lambda self: self.base.rows)
    sides = property(lambda self: self.base.sides)
    n_rows = property(lambda self: self.base.n_rows)
    n_features = property(lambda self: self.base.n_features)
    n_threads = property(lambda self: self.base.n_threads)
    dtype = np.dtype(np.float64)  # in which `cd` works

    # Values, rounding included.

    def scores(self, w: ArrayLike, b: float = 0.0) -> Array:
        """w.x_i + b for every row."""
        return self.base.scores(w, b)

    def primal(self, w: ArrayLike, b: float = 0.0) -> float:
        """P(w, b), or a little more."""
        joined = self.base.join(w, b)
        loss: Interval = self.sides.primal_loss(joined, b)
        return (self._penalty(joined) + loss).high

    def _penalty(self, joined: Array) -> Interval:
        l2 = Interval.around(self.l2, U)  # 1 - l1, rounded
        norm = self.l1 * rounding.total(np.abs(joined))
        return norm + 0.5 * l2 * rounding.product(joined, joined) if self.l2 else norm

    def dual(self, alpha: ArrayLike) -> float:
        """D(alpha), or a little less; minus infinity outside of the feasible set."""
        alpha = np.asarray(alpha, np.float64)
        if not self.sides.is_feasible(alpha, 1e-9):
            return -np.inf
        scaled, dual = self._feasible(alpha)
        inside = np.abs(scaled).sum() >= (1.0 - 1e-6) * np.abs(alpha).sum()
        return dual.low if inside else -np.inf

    def _judged(self, alpha: Array) -> Judged:
        judged: Judged = self.sides.dual_sums(alpha)
        return judged

    def _feasible(self, alpha: Array) -> tuple[Array, Interval]:
        """A dual point in the direction of this one, and its value."""
        judged = self._judged(alpha)
        if self.l2 > 0:
            return alpha, judged.value - self._conjugate(judged)
        # The drift is the length of an error, so that no part of it is larger.
        largest = float(np.abs(judged.w_alpha).max(initial=0.0)) + 2.0 * judged.drift
        if largest <= self.l1:
            return alpha, judged.value
        alpha = (self.l1 / largest) * (1.0 - 8.0 * U) * alpha
        again = self._share(alpha, judged)
        return alpha, again.value

    def _share(self, alpha: Array, judged: Judged) -> Judged:
        """Of a multiple of a point that has been judged, whose weights are smaller than its own."""
        point = Feasible.at(self.sides.piece, alpha)
        share = dual_share(self.sides.piece, self.loss, point, judged.w_alpha, judged.drift)
        return share.balanced() if self.sides.free else share

    def _conjugate(self, judged: Judged) -> Interval:
        over = np.maximum(np.abs(judged.w_alpha) - self.l1, 0.0)
        length = rounding.length(over) * Interval.around(1.0, 4.0 * U)
        length = length + Interval(-judged.drift, judged.drift)
        length = length.within(0.0, np.inf)
        return 0.5 * length.squared() / Interval.around(self.l2, U)

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the weights, and the dual value of the dual variables, scaled."""
        joined = self.base.join(iterate.w, iterate.b)
        piece, b = self.sides.piece, iterate.b if self.sides.free else 0.0
        zeros = np.zeros(self.n_rows)
        own = zeros if iterate.alpha is None else iterate.alpha
        look = quick_look(self.rows, zeros, joined, 0.0)
        if self.sides.free:
            b = b if iterate.own_bias else self.sides.best_bias(look.scores)
            look = look.shifted(b)
        if iterate.alpha is None:
            own = piece.cost * self.loss.slope(piece.margins(look.scores))
        scales = Scales.of(piece.clipped(own), piece, self.loss) if self.sides.free else LEVEL
        alpha, dual = self._feasible(Feasible.of(piece, own, scales).alpha)
        primal = self._penalty(joined) + loss_at(piece, self.loss, look.scores, look.error)
        if not dual.low > 0:
            alpha, dual = zeros, ZERO
        return Judgement(
            np.array(joined[:-1]), self.base.split(joined, b)[1], primal.high, alpha, dual.low,
            "repair", scores=look.scores, primal_rounding=primal.width, dual_rounding=dual.width,
        )  # fmt: skip

    # Where weights begin.

    def smallest_C(self) -> float:  # noqa: N802
        """The C up to which every weight is 0 (but a free intercept's): scikit-learn's l1_min_c."""
        scores, piece = np.zeros(self.n_rows), self.sides.piece
        if self.sides.free:
            scores = scores + self.sides.best_bias(scores)
        alpha = piece.cost * self.loss.slope(piece.margins(scores))
        pull = self.rows.combine(alpha * piece.y)
        largest = float(np.abs(pull).max(initial=0.0))
        return self.C * self.l1 / largest if largest > 0 else np.inf
