"""Rows in memory: a CSR or dense matrix, read in place."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array, number_or_all
from bridle.matrix.door import check_vector, is_sparse, make_rows
from bridle.matrix.fingerprint import fingerprint_of_checked, fingerprint_of_rows
from bridle.matrix.labels import check_labels, check_targets, check_weights, product
from bridle.matrix.threads import check_threads
from bridle.objective.best_scale import best_scale
from bridle.objective.bias import held_bias
from bridle.objective.dual import rescaled
from bridle.objective.losses import Loss, inner
from bridle.objective.point import Iterate
from bridle.objective.rounding import TINY, ZERO, DualSums, Interval, gamma
from bridle.objective.scaling import check_range
from bridle.rows.base import (
    DESCENT,
    LEVEL,
    PASSES,
    RANGES,
    SCORES,
    STEPS,
    ClippedDuals,
    Feasible,
    Findings,
    Judged,
    Pass,
    Piece,
    Scales,
    careful_look,
    draw,
    dual_share,
    loss_at,
    quick_drift,
    quick_error,
    quick_looks,
)
from numpy.typing import ArrayLike, NDArray

# A dual point that has to move by more than this part of itself to become feasible is worth a pass
# of coordinate ascent; by less, that is less than the gap of a useful solution.
FAR = 1e-3
# By no more than this, it is still the solver's own.
NEAR = 1e-6

CHUNK = 4096  # rows of dense data that are weighted at a time


class MemoryRows:
    """A matrix that was checked, and the core's view of it; see `bridle.rows.base.Rows`."""

    offers = frozenset({STEPS, SCORES, RANGES, PASSES, DESCENT})

    def __init__(self, X: Any, constant: float = 0.0, n_threads: int | None = None) -> None:
        self.constant, self.n_threads = constant, check_threads(n_threads)
        self.X, self.view, self.squared_norms = make_rows(X, constant, self.n_threads)

    @classmethod
    def checked(
        cls, view: _core.matrix.Rows, squared_norms: Array, constant: float, n_threads: int
    ) -> Self:
        """Rows that were checked already, of a matrix that is the view's own."""
        rows = cls.__new__(cls)
        rows.X, rows.view, rows.squared_norms = None, view, squared_norms
        rows.constant, rows.n_threads = constant, n_threads
        return rows

    def with_threads(self, n_threads: int | None) -> MemoryRows:
        """The same rows for another number of threads; themselves if that is no change."""
        if n_threads is None or check_threads(n_threads) == self.n_threads:
            return self
        other = copy.copy(self)
        other.n_threads = check_threads(n_threads)
        return other

    @cached_property
    def largest_length(self) -> float:
        """|x_i|, at most, with the constant feature."""
        n, largest = self._extremes
        n += 1
        return Interval.around(largest, gamma(n + 8) * largest + n * TINY).root().high

    @cached_property
    def most_entries(self) -> int:
        """The entries of a row, at most, with the constant feature."""
        return self._extremes[0] + 1

    @cached_property
    def overlap(self) -> float:
        """How much rows have in common, by some of them: 1 for rows that are all alike."""
        return _core.rows.overlap(self.view)

    @cached_property
    def _extremes(self) -> tuple[int, float]:
        return _core.matrix.extremes(self.view, self.squared_norms, self.n_threads)

    @property
    def n_rows(self) -> int:  # noqa: D102
        return self.view.n_rows

    @property
    def n_features(self) -> int:  # noqa: D102
        return self.view.n_features

    @property
    def nnz(self) -> int:  # noqa: D102
        return self.view.nnz

    @property
    def dtype(self) -> np.dtype[Any]:  # noqa: D102
        dtype: np.dtype[Any] = self.X.dtype
        return dtype

    def scores(self, w: Array, out: Array | None = None) -> Array:  # noqa: D102
        out = np.empty(self.n_rows) if out is None else out
        _core.rows.scores(self.view, w, out, self.n_threads)
        return out

    def scores_of_all(self, weights: Array, constants: Array) -> Array:
        """Of every row w_k.x_i + c_k: each function has a row of weights and a column of scores."""
        out = np.empty((self.n_rows, len(weights)))
        _core.rows.scores_of_all(self.view, weights, constants, out, self.n_threads)
        return out

    def best_of_all(self, weights: Array, constants: Array, out: NDArray[np.int64]) -> None:
        """The function of the largest score of every row."""
        _core.rows.best_of_all(self.view, weights, constants, out, self.n_threads)

    def combine(self, a: Array, out: Array | None = None) -> Array:  # noqa: D102
        out = np.empty(self.n_features + 1) if out is None else out
        _core.rows.combine(self.view, a, out, self.n_threads)
        return out

    def combine_of_all(self, a: Array, *, squares: bool = False) -> Array:
        """sum_i a_ik x_ij, or of their squares: a row for each feature, a column for each k."""
        out = np.empty((self.n_features + 1, a.shape[1]))
        combine = _core.rows.combine_squares_of_all if squares else _core.rows.combine_of_all
        combine(self.view, np.ascontiguousarray(a), out, self.n_threads)
        return out

    def combine_and_score(self, a: Array, w: Array) -> tuple[Array, Array]:  # noqa: D102
        combined, scores = np.empty(self.n_features + 1), np.empty(self.n_rows)
        _core.rows.combine_and_score(self.view, a, combined, w, scores, self.n_threads)
        return combined, scores

    def combine_and_score_all(self, a: Array, w: Array) -> tuple[Array, Array]:
        """Both for several functions, of which each has a row in every table."""
        combined, scores = np.empty(w.shape), np.empty(a.shape)
        _core.rows.combine_and_score_all(self.view, a, combined, w, scores, self.n_threads)
        return combined, scores

    def judge(
        self, own: Array | None, piece: Piece, scales: Scales, w: Array
    ) -> tuple[Feasible, Pass]:
        """A feasible point made of these dual variables, and a look at the rows.

        All in one pass over the rows, which makes no other array of their number.
        """
        combined, scores = np.empty(self.n_features + 1), np.empty(self.n_rows)
        alpha = np.empty(self.n_rows)
        total, balance, moved, shifted = _core.rows.judge(
            self.view, own, number_or_all(piece.lower), number_or_all(piece.upper),
            piece.signed_cost, scales, w, alpha, combined, scores, self.n_threads,
        )  # fmt: skip
        sums = DualSums.known(total, balance, self.n_rows)
        look = Pass(combined, quick_drift(self, sums.size.high), scores, quick_error(self, w))
        return Feasible(alpha, moved, shifted, sums), look

    def careful_combine_and_score(self, a: Array, w: Array, shift: float) -> tuple[Array, Array]:
        """Both, with twice the digits; `shift` is added to the scores before they are rounded."""
        combined, scores = np.empty(self.n_features + 1), np.empty(self.n_rows)
        _core.rows.careful_combine_and_score(
            self.view, a, combined, w, shift, scores, self.n_threads
        )
        return combined, scores

    def weighted_gram(self, weights: Array) -> Array:
        """The lower triangle, at least, of sum_i weights_i x_i x_i', the constant feature last."""
        width = self.n_features + 1
        gram = np.zeros((width, width))
        if is_sparse(self.X):
            _core.rows.weighted_gram(self.view, weights, gram, self.n_threads)
            return gram
        # Dense rows: BLAS, on a weighted copy of a few rows at a time.
        rows = np.flatnonzero(weights)
        for begin in range(0, len(rows), CHUNK):
            chosen = rows[begin : begin + CHUNK]
            part = np.full((len(chosen), width), self.constant)
            part[:, :-1] = self.X[chosen]
            part *= np.sqrt(weights[chosen])[:, np.newaxis]
            gram += part.T @ part
        return gram

    def clipped_sum(
        self, p: Array, e: Array, t: float, alpha: Array, sigma: Array, upper: Array, y: Array
    ) -> _core.steps.ClippedSum:
        """For line searches: see `bridle.rows.base.ClippedSum`."""
        return _core.steps.clipped_sum(p, e, t, alpha, sigma, upper, y, self.n_threads)

    def clipped_duals(self, p: Array, alpha: Array, sigma: Array, upper: Array) -> ClippedDuals:
        """For newton's steps: see `bridle.rows.base.ClippedDuals`."""
        a, weights = np.empty(self.n_rows), np.empty(self.n_rows)
        sums = _core.steps.clipped_duals(p, alpha, sigma, upper, a, weights, self.n_threads)
        return ClippedDuals(a, weights, *sums)

    def product(self, a: Array, b: Array) -> Array:
        """a_i b_i, of two numbers for each row."""
        return product(a, b, self.n_threads)

    def take(self, chosen: NDArray[np.intp]) -> MemoryRows:  # noqa: D102
        return MemoryRows(self.X[chosen], self.constant, self.n_threads)

    def fingerprint(self, y: Any) -> str:  # noqa: D102
        labels = np.asarray(y)
        found = fingerprint_of_rows(self.view, labels) if len(labels) == self.n_rows else None
        return fingerprint_of_checked(self.X, y) if found is None else found

    def ascend(
        self, piece: Piece, loss: Loss, alpha: Array, b: float, bias_precision: float, seed: int
    ) -> None:
        """One pass of dual coordinate ascent over all rows, in place, from inside the box."""
        if loss.core is None:
            from bridle.rows.foreign import ascend

            ascend(piece, loss, alpha, b if bias_precision == 0 else 0.0, seed)
            return
        descent = _core.steps.dual_coordinate_descent(
            self.view, loss.struct, piece.signed_cost, self.squared_norms, alpha, b, bias_precision,
            1, self.n_threads, piece.targets, piece.pull(loss).middle,
        )  # fmt: skip
        descent.visit(_core.Rng(seed), 16, 1.0)
        descent.alpha(alpha)
        alpha[:] = piece.clipped(alpha)


class MemorySides:
    """Signs and costs as arrays, a number for each row; see `bridle.rows.base.Sides`."""

    dear, may_fail, place = False, False, "cpu"

    def __init__(
        self,
        rows: MemoryRows,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        C: float,
        loss: Loss,
        bias_precision: float,
    ) -> None:
        self.rows, self.loss, self.C, self.bias_precision = rows, loss, C, bias_precision
        self._weight = None if sample_weight is None else check_weights(sample_weight, rows.n_rows)
        self.labels = self._checked(y)
        self._set_piece()

    def _checked(self, labels: Any) -> Array:
        """Signs, or targets where the loss is of residuals; of one class there are none."""
        if self.loss.one_class:
            return np.ones(self.rows.n_rows)
        if self.loss.residual:
            return check_targets(labels, self.rows.n_rows)
        return check_labels(labels, self.rows.n_rows, self.rows.n_threads)

    @property
    def sample_weight(self) -> Array:
        """c_i."""
        return np.ones(self.rows.n_rows) if self._weight is None else self._weight

    @property
    def y(self) -> Array:
        """The sign of each row."""
        return self.piece.y

    def _set_piece(self) -> None:
        everywhere, weight = slice(0, self.rows.n_rows), self._weight
        self.piece = Piece.of(self.rows, self.labels, self.C, weight, self.loss, everywhere)
        if np.isfinite(self.C):
            largest = float(self.piece.cost.max(initial=0.0))
            check_range(largest, self.rows.largest_length)

    def variant(
        self,
        *,
        y: ArrayLike | None = None,
        C: float | None = None,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> MemorySides:
        """The same rows with other labels, C or weights: shared, not copied or checked again."""
        other = copy.copy(self)
        other.rows = self.rows.with_threads(n_threads)
        if C is not None:
            other.C = C
        if sample_weight is not None:
            other._weight = check_weights(sample_weight, self.rows.n_rows)
        if y is not None:
            other.labels = other._checked(y)
        other._set_piece()
        return other

    @property
    def free(self) -> bool:
        """Whether the bias is not penalised."""
        return self.bias_precision == 0.0

    def row_vectors(self) -> tuple[Array, Array, Array]:
        """y_i, C_i and the bounds of alpha_i, where the rows are."""
        return self.y, self.piece.cost, self.piece.upper

    def squared_radius(self) -> float:  # noqa: D102
        return self.piece.squared_radius(self.loss)

    def identity(self) -> tuple[str, str]:  # noqa: D102
        own, name = self._weight, "none"
        if own is not None and bool((own != 1).any()):
            name = hashlib.blake2b(own.tobytes(), digest_size=16).hexdigest()
        return self.rows.fingerprint(self.labels), name

    def start_alpha(self, start: Any) -> Array:  # noqa: D102
        if start is None or start.alpha is None:
            return self.piece.upper * self.loss.pull if self.loss.pull else self.zeros()
        alpha = check_vector(start.alpha, self.rows.n_rows, "start.alpha")
        return self.piece.clipped(alpha)

    def rescaled(self, alpha: Array, ratio: float) -> Array:  # noqa: D102
        lower, upper = self.piece.lower * ratio, self.piece.upper * ratio
        return rescaled(alpha, lower, upper, ratio, self.loss)

    def primal_loss(self, joined: Array, b: float) -> Interval:  # noqa: D102
        quick = Pass(joined, 0.0, self.rows.scores(joined), quick_error(self.rows, joined))
        look = quick.shifted(b) if self.free else quick
        if np.isfinite(self.C):
            return self._loss(look, b)
        margins = (self.y * look.scores - look.error)[self.piece.cost > 0]
        return ZERO if (margins >= 1.0).all() else Interval(np.inf, np.inf)

    def dual_sums(self, alpha: Array) -> Judged:  # noqa: D102
        point = Feasible.at(self.piece, self.piece.clipped(alpha))
        combined = self.rows.combine(point.alpha * self.y)
        drift = quick_drift(self.rows, point.sums.size.high)
        return self._balanced(dual_share(self.piece, self.loss, point, combined, drift))

    def _balanced(self, judged: Judged) -> Judged:
        """Exactly, where a free bias asks for it."""
        if self.loss.pull:
            return judged.pulled(self.piece.pull(self.loss))
        return judged.balanced() if self.free else judged

    def aligned_length(self, alpha: Array) -> float:
        """How long sum alpha_i y_i x_i would be if all rows pointed the same way."""
        return inner(np.abs(alpha), np.sqrt(self.rows.squared_norms))

    def zeros(self) -> Array:  # noqa: D102
        return np.zeros(self.rows.n_rows)

    def still_has(self, alpha: Any) -> bool:  # noqa: D102
        return True

    def is_feasible(self, alpha: Array, rounding: float) -> bool:  # noqa: D102
        lower, upper = self.piece.lower, self.piece.upper
        slack = rounding * np.where(np.isfinite(upper), upper - lower, 0.0)
        inside = bool(np.all(alpha >= lower - slack) and np.all(alpha <= upper + slack))
        if not self.free:
            return inside
        off = inner(alpha, self.y) - self.piece.pull(self.loss).middle
        return inside and abs(off) <= rounding * float(np.abs(alpha).sum())

    def best_bias(self, scores: Array) -> float:
        """The free bias that is best for these scores."""
        return self.loss.best_bias(self.piece.unshifted(scores), self.y, self.piece.cost)

    def held_bias(self, w: Array, excess: float) -> float:
        """For these joined weights: see `bridle.objective.bias.held_bias`."""
        scores = self.piece.unshifted(self.rows.scores(w))
        return held_bias(self.loss, self.y, self.piece.cost, scores, excess)

    def each_piece(self) -> Iterator[Piece]:
        """All rows, some at a time."""
        yield self.piece

    def at_cost(self, shares: Array) -> Array:
        """C_i times these numbers; those that were given may be overwritten."""
        return self.piece.cost * shares

    def share_of_cost(self, alpha: Array) -> Array:
        """alpha_i / C_i, 0 where C_i is."""
        cost = self.piece.cost
        return np.divide(alpha, cost, out=np.zeros(len(cost)), where=cost > 0)

    def balance_of(self, alpha: Array) -> float:
        """Sum alpha_i y_i."""
        return inner(alpha, self.y)

    def judge(self, iterate: Iterate, joined: Array) -> Findings:  # noqa: D102
        scales = self._scales(iterate.alpha)
        point, look = self.rows.judge(iterate.alpha, self.piece, scales, joined)
        return self.judge_look(iterate, joined, point, look)

    @staticmethod
    def judge_all(
        sides: Sequence[MemorySides], iterates: Sequence[Iterate], joined: Array
    ) -> list[Findings]:
        """Of several problems on the same rows, in one pass."""
        points = [own.feasible(i) for own, i in zip(sides, iterates, strict=True)]
        signed = np.stack([p.alpha * own.y for own, p in zip(sides, points, strict=True)])
        sizes = [point.sums.size.high for point in points]
        looks = quick_looks(sides[0].rows, signed, sizes, joined)
        del signed
        return [
            own.judge_look(iterate, *seen)
            for own, iterate, *seen in zip(sides, iterates, joined, points, looks, strict=True)
        ]

    def feasible(self, iterate: Iterate) -> Feasible:
        """The dual point to judge."""
        return Feasible.of(self.piece, iterate.alpha, self._scales(iterate.alpha))

    def judge_look(self, iterate: Iterate, joined: Array, point: Feasible, look: Pass) -> Findings:
        """What a look at the rows says of the iterate and of the dual point made of it."""
        own, alpha, b = iterate.alpha, point.alpha, iterate.b
        judged = point.judged(self.piece, self.loss, look)
        if self.free:
            b = b if iterate.own_bias else self.best_bias(look.scores)
            judged, look = self._balanced(judged), look.shifted(b)
        far = own is None or judged.shifted > FAR * judged.total.high
        repaired = far or judged.moved > NEAR * judged.total.high
        if far:
            alpha = self._repair(own, look.scores, b, iterate.step)
            judged = self.dual_sums(alpha)
        if iterate.direction:
            s = best_scale(self.y * look.scores, inner(joined, joined), self.piece.cost)
            joined, b, look = s * joined, s * b, look.scaled(s)
        found = Findings(
            joined, b, self._loss(look, b), judged, alpha, repaired, look.scores, look.error
        )
        if not self._is_blurred(found):
            return found
        return self._carefully(found, b if iterate.own_bias else None)

    def _loss(self, look: Pass, b: float) -> Interval:
        """With what pulls at b; of a hard margin there is none: its margins are looked at."""
        if np.isinf(self.C):
            return ZERO
        found = loss_at(self.piece, self.loss, look.scores, look.error)
        return found + b * self.piece.pull(self.loss) if self.loss.pull else found

    def _is_blurred(self, found: Findings) -> bool:
        """Whether rounding is a part of the gap, or of a hard margin, that matters."""
        if np.isfinite(self.C):
            return found.blurred(-np.inf if self.loss.pull else 0.0)
        assert found.scores is not None
        smallest = np.abs((self.y * found.scores)[self.piece.cost > 0]).min(initial=np.inf)
        return bool(np.max(found.error) > 1e-10 * smallest)

    def _carefully(self, found: Findings, own: float | None) -> Findings:
        """The same point judged again: what comes out better is kept.

        own: a free bias to judge it with; None is a better one.
        """
        a, b = found.alpha * self.y, 0.0
        look = careful_look(self.rows, a, found.joined, 0.0)
        if self.free:
            b = self.best_bias(look.scores) if own is None else own
            again = careful_look(self.rows, np.zeros(len(a)), found.joined, b)
            look = replace(look, scores=again.scores, error=again.error)
        point = Feasible.at(self.piece, found.alpha)
        judged = self._balanced(point.judged(self.piece, self.loss, look))
        if judged.dual().low > found.judged.dual().low:
            found = replace(found, judged=judged)
        loss = self._loss(look, b)
        if loss.high < found.loss.high or np.isinf(self.C):
            b = b if self.free else found.b
            found = replace(found, b=b, loss=loss, scores=look.scores, error=look.error)
        return found

    def _scales(self, alpha: Array | None) -> Scales:
        """What makes up for a free bias."""
        if alpha is None or not self.free:
            return LEVEL
        return Scales.of(self.piece.clipped(alpha), self.piece, self.loss)

    def _repair(self, own: Array | None, scores: Array, b: float, seed: int) -> Array:
        """The best that one pass of coordinate ascent makes of a point inside the box.

        Without one, from the point that w's subgradient suggests: alpha_i = C_i slope(p_i).
        """
        piece = self.piece
        if own is None:
            alpha = piece.clipped(piece.cost * self.loss.slope(piece.margins(scores)))
        else:
            alpha = piece.clipped(own)
        self.rows.ascend(piece, self.loss, alpha, b, self.bias_precision, seed)
        return self._scales(alpha).applied(alpha, self.piece)

    def sample(self, n: int, seed: int) -> tuple[MemoryRows, Array, Array]:  # noqa: D102
        return self.take(draw(self.y, self.piece.cost, n, seed))

    def take(self, drawn: NDArray[np.intp]) -> tuple[MemoryRows, Array, Array]:
        """Some of the rows, in order, with their labels and weights."""
        drawn = np.sort(drawn)
        return self.rows.take(drawn), self.labels[drawn], self.sample_weight[drawn]
