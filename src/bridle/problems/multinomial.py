"""Multinomial logistic regression: the scores of all classes in one loss.

    min_W  P(W) = 1/2 sum_k |w_k|^2 + sum_i C_i [log sum_k exp(s_ik) - s_{i, y_i}],
    s_ik = w_k.x_i + b_k

The dual has a distribution over the classes for each row, and its entropy:

    D(p) = sum_i C_i H(p_i) - 1/2 |W(p)|^2,   W(p) = sum_i C_i (e_{y_i} - p_i) x_i',
    H(p) = -sum_k p_k log p_k

(Yu, Huang & Lin, "Dual coordinate descent methods for logistic regression and maximum entropy
models", Machine Learning 2011, section 4). At a solution p_i is the softmax of the scores; anywhere
else that is a dual point, too. Intercepts without a penalty ask for

    sum_i C_i p_ik = sum_{y_i = k} C_i =: T_k.

If the left side is t_k instead, (1 - r) p_i + r q with 1 - r = min_k T_k / t_k and
q = (T - (1 - r) t) / (r sum_i C_i), the same for every row, has what is asked for. The dual is
concave, so that this costs no more than a part r of the entropies, and moves W by no more than
2 r sum_i C_i |x_i|.

A table of weights has a row for each feature and a column for each class; that of the constant
feature, whose weights are the intercepts where those have no penalty, is its last row.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.labels import check_weights
from bridle.objective import rounding
from bridle.objective.bias import BIASES, Bias
from bridle.objective.losses import Logistic
from bridle.objective.point import Iterate
from bridle.objective.rounding import ZERO, Interval, gamma
from bridle.objective.scaling import check_bias_scale, check_C, check_range, costs
from bridle.problems.base import CLASSES, Judgement, Problem
from bridle.rows.base import quick_error
from bridle.rows.memory import MemoryRows
from numpy.typing import ArrayLike, NDArray

# Of a logarithm or an exponential, and what is done to it.
ELEMENTARY = 32
FEASIBLE = 1e-9  # sums that are off by no more than this part are so by rounding


@dataclass(frozen=True)
class Softmax:
    """The scores of some weights, and what they say of every row."""

    scores: Array
    loss: Array  # log sum exp less the score of the row's class
    p: Array

    @classmethod
    def of(cls, scores: Array, codes: NDArray[np.intp]) -> Softmax:
        """Of these rows' classes."""
        p, own = scores - scores.max(axis=1, keepdims=True), (np.arange(len(codes)), codes)
        behind = -p[own]
        np.exp(p, out=p)
        p[own] = 0.0
        others = p.sum(axis=1)  # of rows whose class leads, few digits would be left of 1 + others
        p[own] = np.exp(-behind)
        sums = p[own] + others
        loss = np.where(behind > 0, behind + np.log(sums), np.log1p(others))
        p /= sums[:, None]
        return cls(scores, loss, p)


class MultinomialProblem(Problem):
    """All classes in one problem, on rows in memory.

    codes: the class of each row, 0 to n_classes - 1. Others: as in `LinearProblem`. Points are
    tables of weights, feature by feature: `table(w)`; dual points have a row for each row.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> problem = bridle.MultinomialProblem(X, [k % 3 for k in range(500)], n_classes=3, C=0.1)
    >>> solution = bridle.solve(problem)
    >>> problem.table(solution.w).shape, solution.certificate.relative_gap <= 1e-3
    ((47237, 3), True)
    """

    offers: ClassVar[frozenset[str]] = frozenset({CLASSES})
    dtype = np.dtype(np.float64)
    loss = Logistic()

    def __init__(
        self,
        X: Any,
        codes: ArrayLike,
        n_classes: int,
        C: float = 1.0,
        *,
        bias: Bias = "none",
        bias_scale: float = 1.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        if bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {bias!r}")
        self.bias = bias
        # The value of the constant feature; 0 where there is none.
        constant = {"none": 0.0, "regularised": check_bias_scale(bias_scale), "free": 1.0}
        self.constant = constant[bias]
        self.rows = MemoryRows(X, self.constant, n_threads)
        self.n_threads, self.n_rows = self.rows.n_threads, self.rows.n_rows
        self.width = self.rows.n_features + (bias != "none")
        self.free = bias == "free"
        self._set(codes, n_classes, C, check_weights(sample_weight, self.n_rows))

    def _set(self, codes: ArrayLike, n_classes: int, C: float, weight: Array) -> None:
        if n_classes < 2:
            raise ValueError(f"there must be at least two classes, got {n_classes}")
        self.C, self.n_classes, self.sample_weight = check_C(C), n_classes, weight
        if self.hard_margin:
            raise ValueError("C = inf has no solution: the weights of a logistic loss would grow")
        self.n_features = self.width * n_classes
        self.codes = np.asarray(codes, np.intp)
        if self.codes.shape != (self.n_rows,) or (self.codes >= n_classes).any():
            raise ValueError(f"each of {self.n_rows} rows needs a class below {n_classes}")
        if (weight[self.codes < 0] > 0).any():
            raise ValueError("a row without a class must have the weight 0")
        self.codes = np.maximum(self.codes, 0)
        self.cost = costs(self.C, weight)[0]
        check_range(float(self.cost.max(initial=0.0)), self.rows.largest_length)
        self.own = np.arange(self.n_rows), self.codes  # in tables of rows and classes
        self.totals = np.bincount(self.codes, self.cost, n_classes)
        if self.free and not self.totals.all():
            raise ValueError(
                "a class whose rows weigh nothing has no best intercept: leave it out, or choose "
                'bias="regularised"'
            )

    def variant(
        self,
        *,
        C: float | None = None,
        codes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> MultinomialProblem:
        """The same rows with other classes, C or weights: shared, not copied or checked again."""
        other = copy.copy(self)
        weight = self.sample_weight
        if sample_weight is not None:
            weight = check_weights(sample_weight, self.n_rows)
        numbers = self.codes if codes is None else np.asarray(codes, np.intp)
        n_classes = self.n_classes if codes is None else int(numbers.max()) + 1
        other._set(numbers, n_classes, self.C if C is None else C, weight)
        other.__dict__.pop("_total_cost", None)  # which was of these costs
        return other

    # Points.

    def table(self, w: ArrayLike) -> Array:
        """A column of weights for each class, that of the constant feature last in any case."""
        table = np.asarray(w, np.float64).reshape(-1, self.n_classes)
        if len(table) == self.width and self.bias == "none":
            table = np.vstack([table, np.zeros((1, self.n_classes))])
        return np.ascontiguousarray(table)

    def flat(self, table: Array) -> Array:
        """The vector of weights that it belongs to."""
        if self.free:  # a number for all classes changes nothing: as scikit-learn, with the sum 0
            table = np.vstack([table[:-1], table[-1:] - table[-1].mean()])
        return np.ascontiguousarray(table[: self.width]).ravel()

    def penalised(self, table: Array) -> Array:
        """What of it is part of |W|^2."""
        return table[:-1] if self.free else table

    # Passes over the rows.

    def scores(self, table: Array) -> Array:
        """s_ik."""
        weights = np.ascontiguousarray(table[:-1].T)
        scores: Array = self.rows.scores_of_all(weights, self.rows.constant * table[-1])
        return scores

    def softmax(self, table: Array) -> Softmax:
        """Everything that follows from the scores."""
        return Softmax.of(self.scores(table), self.codes)

    def combine(self, coefficients: Array) -> Array:
        """sum_i coefficients_ik x_ij: a table."""
        return self.rows.combine_of_all(coefficients)

    def pull(self, p: Array) -> Array:
        """C_i (e_{y_i} - p_i): of the row's class what the others have, to the last digit."""
        pull: Array = -self.cost[:, None] * p
        pull[self.own] = 0.0
        pull[self.own] = -pull.sum(axis=1)
        return pull

    # Values, rounding included.

    def primal(self, w: ArrayLike) -> float:
        """P(W), or a little more."""
        table = self.table(w)
        return self._primal(table, self.softmax(table)).high

    def _primal(self, table: Array, found: Softmax) -> Interval:
        entries = np.ascontiguousarray(self.penalised(table)).ravel()
        error = max(quick_error(self.rows, np.ascontiguousarray(w)) for w in table.T)
        # Its slopes are e_y - p, which change by no more than a part exp(2 error) on the way.
        moved = 2.0 * np.expm1(2.0 * error) * rounding.size(self.cost * (1.0 - found.p[self.own]))
        roundings = Interval.around(1.0, gamma(self.n_classes + ELEMENTARY))
        loss = rounding.product(self.cost, found.loss) * roundings
        loss = loss + Interval.around(0.0, 2.0 * moved + gamma(4) * error * self._total_cost)
        return 0.5 * rounding.product(entries, entries) + loss.within(0.0, np.inf)

    @cached_property
    def _total_cost(self) -> float:
        return rounding.size(self.cost)

    @cached_property
    def _lengths(self) -> Array:
        """|x_i|, at most."""
        n = self.rows.most_entries
        lengths = np.sqrt(self.rows.squared_norms) * (1.0 + gamma(n + 16)) + np.sqrt(rounding.TINY)
        return np.asarray(lengths)

    def dual(self, alpha: Any) -> float:
        """D(p), or a little less; minus infinity where p are no distributions."""
        p = np.asarray(alpha, np.float64)
        if p.shape != (self.n_rows, self.n_classes) or (p < 0).any():
            return -np.inf
        if (np.abs(p.sum(axis=1) - 1.0) > FEASIBLE).any():
            return -np.inf
        if self.free and (np.abs(self.cost @ p - self.totals) > FEASIBLE * self.totals).any():
            return -np.inf
        return self._dual(self.balanced(p)).low

    def _dual(self, p: Array) -> Interval:
        """Of the distributions that have these numbers for all classes but the row's own."""
        roundings = gamma(self.n_classes + ELEMENTARY)
        p = p * (1.0 - 2.0 * roundings)  # so that no more than 1 is left for that one
        p[self.own] = 0.0
        rest = p.sum(axis=1)
        logs = np.log(p, out=np.zeros_like(p), where=p > 0)
        each = -np.einsum("ik,ik->i", p, logs) - (1.0 - rest) * np.log1p(-rest)
        found = rounding.product(self.cost, each).within(0.0, np.inf)
        # The logarithm of 1 - rest is at most 40.
        unsure = roundings * (found.high + 40.0 * rounding.size(self.cost * rest))
        entropy = (found + Interval.around(0.0, unsure)).within(0.0, np.inf)
        pull = self.pull(p)
        table, sizes = self.combine(pull), np.abs(pull).sum(axis=1)
        reach = rounding.product(sizes, self._lengths).high
        drift = (roundings + gamma(self.n_rows + 16)) * reach
        if self.free:
            size = roundings * rounding.size(sizes)
            off = size + max(rounding.total(np.ascontiguousarray(a)).size for a in pull.T)
            left = (float(self.totals.min()) - off) * (1.0 - gamma(self.n_rows + 8))
            part = min(1.0, off / left * (1.0 + 1e-12)) if left > 0 else 1.0
            drift += 2.0 * part * rounding.product(self.cost, self._lengths).high * (1.0 + 1e-9)
            entropy = entropy - Interval(0.0, part) * entropy
        entries = np.ascontiguousarray(self.penalised(table)).ravel()
        length = rounding.length(entries) + Interval(-drift, drift)
        return entropy - 0.5 * length.within(0.0, np.inf).squared()

    def balanced(self, p: Array) -> Array:
        """Distributions near these that have the sums which free intercepts ask for."""
        if not self.free:
            return p
        found, total = self.cost @ p, float(self.totals.sum())
        kept = min(1.0, float((self.totals / found).min()))
        if kept == 1.0:
            return p
        rest = np.maximum(self.totals - kept * found, 0.0) / total
        p = kept * p + rest
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the weights, and the dual value of the softmax of their scores."""
        table = self.table(iterate.w)
        found = self.softmax(table)
        p = self.balanced(found.p)
        primal, dual = self._primal(table, found), self._dual(p)
        if not dual.low > 0:  # every row certain of its class: no entropy, and no weights
            p, dual = np.zeros_like(p), ZERO
            p[self.own] = 1.0
        return Judgement(
            np.array(iterate.w), 0.0, primal.high, p, dual.low, "solver", scores=found.scores,
            primal_rounding=primal.width, dual_rounding=dual.width,
        )  # fmt: skip
