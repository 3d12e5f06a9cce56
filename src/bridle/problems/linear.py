"""The linear problem: owns data and objective, and certifies what any solver proposes.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i loss(p_i),   p_i = y_i (w.x_i + b),   C_i = C c_i,

    max_alpha  D(alpha) = dual_value(alpha) - 1/2 |w(alpha)|^2,   w(alpha) = sum_i alpha_i y_i x_i,
               0 <= alpha_i <= upper(C_i)

bias "none": b = 0. "regularised": a constant feature of value `bias_scale`, part of |w|^2. "free":
b is not penalised, and the dual gains sum_i alpha_i y_i = 0.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any, ClassVar

import numpy as np
from bridle import _core
from bridle.matrix.door import check_vector, make_rows
from bridle.matrix.labels import check_labels, check_weights
from bridle.matrix.threads import check_threads
from bridle.objective.best_scale import best_scale
from bridle.objective.bias import BIASES, Bias, best_bias
from bridle.objective.certificate import Source
from bridle.objective.dual import balanced, rescaled
from bridle.objective.losses import Hinge, Loss, inner, loss_from, weighted_sum
from bridle.objective.point import Iterate
from bridle.objective.scaling import C_to_lam, _check_C
from bridle.problems.base import Judgement
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


# Rounding may push a point this far out of its box, relative to the box, and still count as in it.
ROUNDING = 1e-9


# A dual point that has to move by more than this part of itself to become feasible is worth a pass
# of coordinate ascent; by less, that is less than the gap of a useful solution.
FAR = 1e-3


class LinearObjective:
    """What every linear problem knows, wherever its rows are."""

    C: float
    loss: Loss
    bias: Bias
    bias_scale: float
    n_rows: int
    n_features: int

    @property
    def lam(self) -> float:
        """1 / (m C): the same objective as lam/2 |w|^2 + 1/m sum loss, divided by lam."""
        return C_to_lam(self.C, self.n_rows)

    @property
    def hard_margin(self) -> bool:
        """Whether C is infinite."""
        return bool(np.isinf(self.C))

    @property
    def bias_precision(self) -> float:
        """The factor of b^2/2 in the objective: 0 for a free bias, infinite for none."""
        if self.bias == "regularised":
            return self.bias_scale**-2
        return 0.0 if self.bias == "free" else np.inf

    def join(self, w: ArrayLike, b: float = 0.0) -> Array:
        """One vector of n_features + 1 weights: the last belongs to the constant feature."""
        w = check_vector(w, self.n_features, "w")
        return np.append(w, b / self.bias_scale if self.bias == "regularised" else 0.0)

    def split(self, joined: Array, free_bias: float = 0.0) -> tuple[Array, float]:
        """Weights and intercept from the joined vector; a free bias comes from elsewhere."""
        if self.bias == "regularised":
            return joined[:-1], float(joined[-1]) * self.bias_scale
        return joined[:-1], free_bias if self.bias == "free" else 0.0

    def _check_bias(self, b: float) -> None:
        if self.bias == "none" and b != 0:
            raise ValueError(f"this problem has no bias, yet b = {b}; see the parameter `bias`")

    def _set_objective(self, C: float, loss: str | Loss, bias: Bias, bias_scale: float) -> None:
        if bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {bias!r}")
        if not (bias_scale > 0 and np.isfinite(bias_scale)):
            raise ValueError(f"bias_scale must be positive and finite, got {bias_scale}")
        self.C = _check_C(C)
        self.loss = loss_from(loss)
        self.bias = bias
        self.bias_scale = float(bias_scale)

    def _identity(self, data: str, weights: str) -> dict[str, Any]:
        """What tells this problem from others, in words that JSON has."""
        return {
            "data": data, "rows": self.n_rows, "features": self.n_features, "C": str(self.C),
            "loss": self.loss.name, "bias": self.bias, "bias scale": self.bias_scale,
            "row weights": weights,
        }  # fmt: skip

    @property
    def constant_feature(self) -> float:
        """The value of the feature that stands for the bias; 0 where none does."""
        return self.bias_scale if self.bias == "regularised" else 0.0


class LinearProblem(LinearObjective):
    """1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)) on the rows of X, which is not copied.

    X: CSR or C-contiguous, float32 or float64; anything else is converted. y: -1 or +1. C: inf is
    the hard margin. sample_weight: multiplies C row by row.
    """

    kind: ClassVar[str] = "linear"

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        C: float = 1.0,
        *,
        loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
        bias: Bias = "none",
        bias_scale: float = 1.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        self._set_objective(C, loss, bias, bias_scale)
        self.n_threads = check_threads(n_threads)
        self.X, self.rows, self.squared_norms = make_rows(X, self.constant_feature, self.n_threads)
        self.n_rows, self.n_features = self.rows.n_rows, self.rows.n_features
        self.sample_weight = check_weights(sample_weight, self.n_rows)
        self.y = check_labels(y, self.n_rows)
        self._set_cost()

    def variant(
        self,
        *,
        y: ArrayLike | None = None,
        C: float | None = None,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> LinearProblem:
        """The same rows with other labels, C or weights: shared, not copied or checked again."""
        other = copy.copy(self)
        if n_threads is not None:
            other.n_threads = check_threads(n_threads)
        if C is not None:
            other.C = _check_C(C)
        if sample_weight is not None:
            other.sample_weight = check_weights(sample_weight, self.n_rows)
        if y is not None:
            other.y = check_labels(y, self.n_rows)
        other._set_cost()
        return other

    def _set_cost(self) -> None:
        """C_i = C c_i, where an infinite C of nothing is nothing."""
        if np.isfinite(self.C):
            self.cost = self.C * self.sample_weight
        else:
            self.cost = np.where(self.sample_weight > 0, self.C, 0.0)
        self.signed_cost = np.copysign(self.cost, self.y)
        self.upper = self.loss.upper(self.cost)

    @property
    def squared_radius(self) -> float:
        """A bound on |w*|^2."""
        return self.loss.squared_radius(self.cost)

    def identity(self) -> dict[str, Any]:
        """What tells this problem from others: for checkpoints. The same rows are on disk, too."""
        from bridle.matrix.fingerprint import fingerprint

        weighted = bool((self.sample_weight != 1).any())
        weights = hashlib.blake2b(self.sample_weight.tobytes(), digest_size=16).hexdigest()
        return self._identity(fingerprint(self.X, self.y), weights if weighted else "none")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data, in which solvers work."""
        dtype: np.dtype[Any] = self.X.dtype
        return dtype

    def scores(self, w: ArrayLike, b: float = 0.0) -> Array:
        """w.x_i + b for every row."""
        out = np.empty(self.n_rows)
        _core.scores(self.rows, self.join(w, b), out, self.n_threads)
        return out + b if self.bias == "free" else out

    def primal(self, w: ArrayLike, b: float = 0.0) -> float:
        """P(w, b)."""
        self._check_bias(b)
        joined = self.join(w, b)
        return self._primal(joined, self.y * self.scores(w, b))

    def dual(self, alpha: ArrayLike) -> float:
        """D(alpha); minus infinity outside the feasible set."""
        alpha = check_vector(alpha, self.n_rows, "alpha")
        if not self._is_feasible(alpha):
            return -np.inf
        joined = self._combine(alpha)
        return self.loss.dual_value(alpha, self.cost) - 0.5 * inner(joined, joined)

    def weights(self, alpha: ArrayLike) -> Array:
        """w(alpha) = sum_i alpha_i y_i x_i."""
        return self._combine(check_vector(alpha, self.n_rows, "alpha"))[:-1]

    def intercept(self, alpha: ArrayLike) -> float:
        """The b that belongs to alpha: part of w(alpha) if regularised, the best b if free."""
        joined = self._combine(check_vector(alpha, self.n_rows, "alpha"))
        if self.bias == "free":
            scores = self.scores(joined[:-1])
            return best_bias(scores, self.y, self.cost, self.loss)
        return self.split(joined)[1]

    def feasible(self, iterate: Iterate) -> Array:
        """A feasible dual point made of what the solver has."""
        return self._feasible(iterate)[0]

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the iterate and the dual value of its feasible point, in one pass."""
        alpha, source = self._feasible(iterate)
        joined = self.join(iterate.w, iterate.b)
        w_alpha, scores = np.empty(self.n_features + 1), np.empty(self.n_rows)
        _core.combine_and_score(self.rows, alpha * self.y, w_alpha, joined, scores, self.n_threads)
        b = iterate.b
        if self.bias == "free":
            b = best_bias(scores, self.y, self.cost, self.loss)
            scores += b
        if self.hard_margin:
            return self._judge_hard(joined, b, self.y * scores, alpha, w_alpha, source)
        if iterate.direction:
            s = best_scale(self.y * scores, inner(joined, joined), self.cost)
            joined, scores, b = s * joined, s * scores, s * b
        primal = self._primal(joined, self.y * scores)
        dual = self.loss.dual_value(alpha, self.cost) - 0.5 * inner(w_alpha, w_alpha)
        if dual < 0:  # the origin is feasible and does better
            alpha, dual = np.zeros(self.n_rows), 0.0
        return Judgement(joined[:-1].copy(), b, primal, alpha, dual, source, scores=scores)

    def _judge_hard(
        self, joined: Array, b: float, margins: Array, alpha: Array, w_alpha: Array, source: Source
    ) -> Judgement:
        """Both points at their best scale: smallest margin 1, and D(t alpha) at its largest."""
        smallest = float(margins[self.cost > 0].min())
        if smallest > 0:
            joined, b = joined / smallest, b / smallest
            primal = 0.5 * inner(joined, joined)
        else:
            primal = np.inf
        total, squared = float(alpha.sum()), inner(w_alpha, w_alpha)
        t = total / squared if squared > 0 else 1.0
        dual = t * total - 0.5 * t * t * squared
        proof = None
        if primal == np.inf:
            from bridle.problems.hard_margin import infeasibility_proof

            proof = infeasibility_proof(self, alpha)
        w = np.array(joined[:-1])
        return Judgement(w, b, primal, t * alpha, dual, source, proof)

    def path_sums(self, solution: Any) -> tuple[float, float, float, float]:
        """1/2 |w|^2, sum loss / C, sum alpha, and the dual but for 1/2 |w|^2: for the C path."""
        joined = self.join(solution.w, solution.b)
        half = 0.5 * inner(joined, joined)
        loss = max(0.0, solution.certificate.primal - half) / self.C
        alpha = solution.alpha
        value = self.loss.dual_value(alpha, self.cost)
        return half, loss, float(alpha.sum()), value

    def rescaled(self, alpha: Array, C: float) -> Array:
        """Dual variables to start from at another C: those at their bound go where it goes."""
        return rescaled(alpha, self.upper * (C / self.C), C / self.C, self.loss.name)

    def start_alpha(self, start: Any) -> Array:
        """A new array with the start's dual variables inside the box, or zeros."""
        if start is None or start.alpha is None:
            return np.zeros(self.n_rows)
        return np.clip(check_vector(start.alpha, self.n_rows, "start.alpha"), 0.0, self.upper)

    def _primal(self, joined: Array, margins: Array) -> float:
        return 0.5 * inner(joined, joined) + weighted_sum(self.cost, self.loss.value(margins))

    def _combine(self, alpha: Array) -> Array:
        out = np.empty(self.n_features + 1)
        _core.combine(self.rows, alpha * self.y, out, self.n_threads)
        return out

    def _is_feasible(self, alpha: Array) -> bool:
        slack = ROUNDING * np.where(np.isfinite(self.upper), self.upper, 0.0)
        inside = bool(np.all(alpha >= -slack) and np.all(alpha <= self.upper + slack))
        if self.bias != "free":
            return inside
        return inside and abs(inner(alpha, self.y)) <= ROUNDING * float(alpha.sum())

    def _feasible(self, iterate: Iterate) -> tuple[Array, Source]:
        """The iterate's own dual point where it is one, nearly; else a repaired one."""
        if iterate.alpha is None:
            return self._repair(iterate, None), "repair"
        clipped = np.clip(iterate.alpha, 0.0, self.upper)
        alpha = self._balance(clipped)
        size = float(alpha.sum())
        if float(np.abs(alpha - iterate.alpha).sum()) > FAR * size:
            return self._repair(iterate, clipped), "repair"
        moved = float(np.abs(clipped - iterate.alpha).sum())
        return alpha, "solver" if moved <= 1e-6 * size else "repair"

    def _balance(self, alpha: Array) -> Array:
        """With a free bias, scale the heavier class down until sum alpha_i y_i = 0."""
        if self.bias != "free":
            return alpha
        return balanced(alpha, self.y)

    def _repair(self, iterate: Iterate, alpha: Array | None) -> Array:
        """The best that one pass of coordinate ascent makes of a point inside the box.

        Without one, from the point that w's subgradient suggests: alpha_i = C_i slope(p_i).
        """
        b = iterate.b
        if alpha is None or self.bias == "free":
            scores = self.scores(iterate.w)
            if self.bias == "free":
                b = best_bias(scores, self.y, self.cost, self.loss)
            if alpha is None:
                margins = self.y * (scores + b)
                alpha = np.minimum(self.cost * self.loss.slope(margins), self.upper)
        kernel = _core.dual_coordinate_descent(
            self.rows, self.loss.name, self.signed_cost, self.squared_norms,
            alpha, b, self.bias_precision, 1, self.n_threads,
        )  # fmt: skip
        kernel.visit(_core.Rng(iterate.step), 16, 1.0)
        kernel.alpha(alpha)
        return self._balance(np.clip(alpha, 0.0, self.upper))
