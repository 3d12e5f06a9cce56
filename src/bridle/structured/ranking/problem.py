"""The ranking problem: a row of it is a query.

min_w  P(w) = 1/2 |w|^2 + sum_q C_q max_y [Delta_q(y) - w.psi_q(y)],   psi_q(y) = sum_i c_i x_i
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from bridle.errors import OracleError
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.objective.queries import check_grades, query_offsets
from bridle.objective.rounding import TINY, gamma, product
from bridle.rows.memory import MemoryRows
from bridle.structured.bounds import MORE, Errors, length_above
from bridle.structured.problem import SCALARS, Constraint, Cut, StructuredBase
from bridle.structured.ranking.base import RankingLoss, ranking_loss_from
from bridle.structured.sparse import SparseVector
from numpy.typing import ArrayLike


class RankingProblem(StructuredBase):
    """The ranking SVM on the documents of X, which is not copied.

    X: CSR or C-contiguous, float32 or float64; anything else is converted. y: grades of relevance.
    qid: the query of each row; the rows of a query stand together. None: all rows are one query.
    loss: a name in RANKING_LOSSES, or a RankingLoss. threshold: documents of a grade above
    it are relevant, for losses that know only relevant or not. sample_weight: of the queries,
    multiplies C. bias: the value of a constant feature, for the losses of plain classification.

    Queries without two different grades cannot be ranked wrong: their loss is 0.

    Examples
    --------
    >>> import numpy as np
    >>> X, grades = np.array([[3.0], [1.0], [2.0], [0.0]]), [1, 0, 1, 0]
    >>> problem = bridle.RankingProblem(X, grades, qid=[1, 1, 2, 2], loss="map")
    >>> bridle.solve(problem, "one-slack").certificate.relative_gap <= 1e-3
    True
    """

    cheap_cuts: ClassVar[bool] = True

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        C: float = 1.0,
        *,
        loss: str | RankingLoss = "map",
        threshold: float = 0.0,
        sample_weight: ArrayLike | None = None,
        bias: float = 0.0,
        n_threads: int | None = None,
    ) -> None:
        self.loss = ranking_loss_from(loss)
        self.rows = MemoryRows(X, bias, n_threads)
        self.X, n = self.rows.X, self.rows.n_rows
        if not np.isfinite(threshold):
            raise ValueError(f"threshold must be finite, got {threshold}")
        self.grades = self.loss.relevance(check_grades(y, n), threshold)
        self.offsets = np.array([0, n]) if qid is None else query_offsets(qid, n)
        self.bias_scale = bias
        super().__init__(
            len(self.offsets) - 1, self.rows.n_features + (bias != 0), C, sample_weight, n_threads
        )
        lowest = np.minimum.reduceat(self.grades, self.offsets[:-1])
        highest = np.maximum.reduceat(self.grades, self.offsets[:-1])
        self.rankable = lowest < highest
        if not self.rankable.any():
            what = "grades" if self.loss.graded else f"both grades above and up to {threshold:g}"
            raise ValueError(
                f"nothing to learn: none of the {self.n_rows} queries has documents of "
                f"{'different ' if self.loss.graded else ''}{what}"
            )
        self._oracle = self.loss.oracle(self.offsets, self.grades)
        # For bounds on rounding.
        counts = np.diff(self.X.indptr) if is_sparse(self.X) else [self.rows.n_features]
        self._row_size = int(max(counts)) + 1
        self._row_lengths = np.sqrt(
            self.rows.squared_norms * (1.0 + gamma(self._row_size + 8)) + self._row_size * TINY
        )
        self._sizes = np.diff(self.offsets).astype(np.float64)
        relevant = self._of_queries(np.add, (self.grades > 0).astype(np.float64))
        self._most_loss, self._most_change = self.loss.extent(self._sizes, relevant)
        self._most_change = self._most_change * self.loss.times(self._sizes, relevant)
        self._longest = self._of_queries(np.maximum, self._row_lengths)
        # Of each query's psi, but for adding it up, and loss: coefficients are rounded, too.
        self._errors = (
            np.asarray(gamma(10) * self._most_change * self._longest * self.rankable),
            np.asarray(gamma(4.0 * float(self._sizes.max()) + SCALARS) * self._most_loss),
        )
        self.may_fail = self.loss.compiled is None  # a loss in Python may be somebody's code

    @property
    def n_skipped(self) -> int:
        """Queries that cannot be ranked wrong, such as those without relevant documents."""
        return int(self.n_rows - self.rankable.sum())

    def scores(self, w: Array) -> Array:
        """w.x of every document."""
        joined = w if self.bias_scale else np.append(w, 0.0)
        return self.rows.scores(np.ascontiguousarray(joined, np.float64))

    def answers(self, w: Array) -> tuple[Array, Array, Array]:
        """Each document's coefficient in psi, each query's loss and hinge, most violated at w."""
        coefficients = np.empty(self.rows.n_rows)
        losses, hinges = np.empty(self.n_rows), np.empty(self.n_rows)
        scores = self._finite(self.scores(w))
        self._oracle.answers(scores, coefficients, losses, hinges, self.n_threads)
        return coefficients, losses, hinges

    def hinges_above(self, w: Array) -> Array:  # noqa: D102
        coefficients = np.empty(self.rows.n_rows)
        losses, hinges = np.empty(self.n_rows), np.empty(self.n_rows)
        scores = self._finite(self.scores(w))
        self._oracle.answers(scores, coefficients, losses, hinges, self.n_threads)
        return np.maximum(hinges + np.where(self.rankable, self._slips(w, scores), 0.0), 0.0)

    def _slips(self, w: Array, scores: Array) -> Array:
        """How far a query's hinge may be from the exact maximum.

        Scores are rounded, and the oracle adds up and compares what it makes of them: each document
        a few times, and halving the list, so that mistakes count up to log n times.
        """
        length = length_above(w)
        largest = self._of_queries(np.maximum, np.abs(scores))
        wrong = gamma(self._row_size + 8) * length * self._longest + self._row_size * TINY
        times = (2.0 + np.log2(self._sizes)) * self.loss.cutoff
        part = gamma(8.0 * float(self._sizes.max()) + SCALARS) * times
        own = part * (self._most_loss + 2.0 * self._most_change * largest)
        return np.asarray(MORE * (self._most_change * wrong + own))

    def cut(self, w: Array) -> Cut:  # noqa: D102
        coefficients, losses, hinges = self.answers(w)
        cost = self.cost
        coefficients *= np.repeat(cost, np.diff(self.offsets))
        value = float(cost @ np.maximum(hinges, 0.0))
        features = self.combine(coefficients)
        loss = float(cost @ losses)
        part = gamma(int(np.count_nonzero(coefficients)) + SCALARS)
        size = product(np.abs(coefficients), self._row_lengths).high
        own, own_loss = (product(cost, errors).high for errors in self._errors)
        tiny = self.rows.n_rows * self._row_size * TINY
        errors = MORE * (own + part * size) + tiny, MORE * (own_loss + part * loss) + tiny
        return Cut(features, loss, value, Errors(*errors))

    def _of_queries(self, ufunc: Any, values: Array) -> Array:
        found: Array = ufunc.reduceat(values, self.offsets[:-1])
        return found

    def combine(self, coefficients: Array) -> Array:
        """sum_i c_i x_i over all documents."""
        out = self.rows.combine(coefficients)
        return out if self.bias_scale else out[:-1]

    def constraint(self, i: int, w: Array) -> Constraint:  # noqa: D102
        documents = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        part = self.X[documents]
        features = w[:-1] if self.bias_scale else w
        scores = np.asarray(part @ features, np.float64)
        if self.bias_scale:
            scores = scores + self.bias_scale * w[-1]
        coefficients = np.empty(len(scores))
        loss = self._oracle.answer(i, self._finite(scores), coefficients)
        psi = np.asarray(coefficients @ part, np.float64)
        if self.bias_scale:
            psi = np.append(psi, self.bias_scale * coefficients.sum())
        stored = np.flatnonzero(psi)
        size = float(np.abs(coefficients) @ self._row_lengths[documents])
        own = gamma(len(coefficients) + SCALARS) * size
        coefficient, value = self._errors
        errors = Errors(MORE * (own + float(coefficient[i])), float(value[i]))
        return Constraint(SparseVector(stored, psi[stored]), loss, errors)

    def _finite(self, scores: Array) -> Array:
        finite = np.isfinite(scores)
        if not finite.all():
            bad = int(np.flatnonzero(~finite)[0])
            query = int(np.searchsorted(self.offsets, bad, side="right")) - 1
            raise OracleError(min(query, self.n_rows - 1), "its scores are not finite")
        return scores
