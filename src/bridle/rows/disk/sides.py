"""Rows on disk as one problem sees them: labels and weights come with the rows.

Everything that is summed over rows is summed range by range, in the order of the file, so that one
pass over the file gives both values of a certificate. What is kept for every row is its dual
variable.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from bridle import _core
from bridle.files.fingerprint import fingerprint_of
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.labels import check_targets
from bridle.objective import rounding
from bridle.objective.bias import narrowed_minimum
from bridle.objective.dual import rescaled
from bridle.objective.losses import Loss, inner, weighted_sum
from bridle.objective.point import Iterate
from bridle.objective.rounding import ZERO, Interval
from bridle.rows.base import (
    LEVEL,
    Feasible,
    Findings,
    Judged,
    Pass,
    Piece,
    Scales,
    bias_bracket,
    dual_share,
    judge_piece,
    loss_at,
    losses_at,
    quick_drift,
    quick_error,
    total,
)
from bridle.rows.disk.memory import RowVectors
from bridle.rows.disk.ranges import DiskRows, Range
from bridle.rows.memory import FAR, NEAR, MemoryRows
from numpy.typing import NDArray

# A free bias is looked for until no other could be better by more than this part of the gap.
BIAS_ACCURACY = 0.01

_NONE: Array = np.empty(0)


class DiskSides:
    """The label `positive` is +1, all others -1, unless they are targets.

    See `bridle.rows.base.Sides`.
    """

    dear, may_fail = True, False  # a certificate reads the file
    place = "cpu"

    def __init__(
        self,
        rows: DiskRows,
        positive: float,
        C: float,
        loss: Loss,
        bias_precision: float,
        classes: NDArray[Any],
    ) -> None:
        self.rows, self.C, self.loss, self.bias_precision = rows, C, loss, bias_precision
        self.classes = classes
        self.positive = self._known(positive)
        # Of the best weights that were judged: their primal value and the rows they misclassify.
        self.best_judged: tuple[float, int] = (np.inf, rows.n_rows)

    def variant(self, *, positive: float | None = None, C: float | None = None) -> DiskSides:
        """The same rows with another class as +1, or another C."""
        other = copy.copy(self)
        other.C = self.C if C is None else C
        other.positive = self.positive if positive is None else self._known(positive)
        other.best_judged = (np.inf, self.rows.n_rows)
        return other

    def _known(self, positive: float) -> float:
        if self.loss.residual or self.loss.one_class:  # whose labels are numbers, or not looked at
            return math.nan
        if positive not in self.classes:
            raise ValueError(f"{self.rows.source.path}: no row has the label {positive:g}")
        return float(positive)

    @property
    def vectors(self) -> RowVectors:
        """Makes vectors with an entry for each row."""
        return self.rows.vectors

    @cached_property
    def total_weight(self) -> Interval:
        """Sum of c_i."""
        source = self.rows.source
        if not source.has_weight:
            return Interval.around(float(self.rows.n_rows), 0.0)
        columns = (source.column(k, "weight") for k in range(source.n_batches))
        return sum((rounding.total(c.astype(np.float64)) for c in columns), start=ZERO)

    def total_cost(self) -> float:
        """Sum of C_i."""
        return self.C * self.total_weight.middle

    def squared_radius(self) -> float:  # noqa: D102
        if not self.loss.residual:
            return self.loss.squared_radius(np.array([self.total_cost()]))
        return math.fsum(piece.squared_radius(self.loss) for _, piece in self.pieces())

    def identity(self) -> tuple[str, str]:  # noqa: D102
        source = self.rows.source
        digest, weighted = hashlib.blake2b(digest_size=16), False
        for k in range(source.n_batches if source.has_weight else 0):
            weight = source.column(k, "weight").astype(np.float64)
            weighted = weighted or bool((weight != 1).any())
            digest.update(weight.tobytes())
        data = fingerprint_of(source.shape, (self.rows.n_rows,), self._signed_row)
        return data, digest.hexdigest() if weighted else "none"

    def _signed_row(self, i: int) -> tuple[NDArray[Any], NDArray[Any], float]:
        columns, values, label = self.rows.source.row(i)
        if self.loss.residual:
            return columns, values, label
        if self.loss.one_class:
            return columns, values, 1.0
        return columns, values, 1.0 if label == self.positive else -1.0

    def pieces(self, order: Any = None) -> Iterator[tuple[Range, Piece]]:
        """The rows of these ranges, or of all."""
        return self.rows.each(
            lambda part: (part, self.piece(part.rows, part.where, part.labels, part.weight)), order
        )

    def piece(self, rows: Any, where: slice, labels: NDArray[Any], weight: Array | None) -> Piece:
        """Some rows with their signs and costs."""
        if self.loss.residual:
            labels = check_targets(labels, len(labels))
        elif self.loss.one_class:
            labels = np.ones(len(labels))
        else:
            labels = np.where(labels == self.positive, 1.0, -1.0)
        return Piece.of(rows, labels, self.C, weight, self.loss, where)

    def bare_pieces(self) -> Iterator[Piece]:
        """The signs and the costs of all rows, without their features, which are not read."""
        return (self.piece(self.rows, *known) for known in self.rows.labels())

    @property
    def free(self) -> bool:
        """Whether the bias is not penalised."""
        return self.bias_precision == 0.0

    def each_piece(self) -> Iterator[Piece]:
        """As in memory, range by range."""
        return (piece for _, piece in self.pieces())

    def first_piece(self) -> Piece:
        """Some rows, to see of what kind they are."""
        return next(iter(self.pieces([0])))[1]

    def sample(self, n: int, seed: int) -> tuple[MemoryRows, Array, Array]:  # noqa: D102
        from scipy.sparse import vstack

        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.rows))
        matrices: list[Any] = []
        signs: list[Array] = []
        weights: list[Array] = []
        taken, both = 0, self.loss.residual or self.loss.one_class
        for part, piece in self.pieces(order):
            size = min(len(piece.y), max(1, n // min(8, len(order))))
            chosen = np.sort(rng.choice(len(piece.y), size, replace=False))
            if taken >= n:  # there is only one class so far: one row of the other is enough
                chosen = np.flatnonzero(piece.y != signs[0][0])[:1]
            matrices.append(part.batch.X[chosen].copy())
            signs.append((piece.y if piece.targets is None else piece.targets)[chosen])
            weights.append(piece.cost[chosen] / self.C)
            taken += len(chosen)
            both = both or len({*np.concatenate(signs).tolist()}) == 2
            if taken >= n and both:
                break
        rows = MemoryRows(vstack(matrices, format="csr"), self.rows.constant, self.rows.n_threads)
        return rows, np.concatenate(signs), np.concatenate(weights)

    def start_alpha(self, start: Any) -> Array:  # noqa: D102
        alpha = self.vectors.zeros()
        if start is None or start.alpha is None:
            for piece in self.bare_pieces() if self.loss.pull else ():
                alpha[piece.where] = self.loss.pull * piece.upper
                self.vectors.release(alpha)
            return alpha
        given = check_vector(start.alpha, self.rows.n_rows, "start.alpha")
        # Of rows with weights the box is known when they are read: judging clips once more.
        known = self.loss.bounded_dual and not self.rows.source.has_weight
        one = np.array([self.C])
        highest = float(self.loss.upper(one)[0]) if known else np.inf
        lowest = float(np.min(self.loss.lower(one)))
        np.clip(given, lowest if known or lowest == 0 else -np.inf, highest, out=alpha)
        return alpha

    def rescaled(self, alpha: Array, ratio: float) -> Array:  # noqa: D102
        cost = np.full(1, self.C * ratio)
        return rescaled(alpha, self.loss.lower(cost), self.loss.upper(cost), ratio, self.loss)

    def primal_loss(self, joined: Array, b: float) -> Interval:  # noqa: D102
        b = b if self.free else 0.0
        pulled = b * self.pull() if self.loss.pull else ZERO
        return sum((self._loss_of(piece, joined, b) for _, piece in self.pieces()), start=pulled)

    def pull(self) -> Interval:
        """What the loss of one class has sum_i alpha_i be."""
        return self.loss.pull * (self.C * self.total_weight) if self.loss.pull else ZERO

    def _loss_of(self, piece: Piece, joined: Array, b: float) -> Interval:
        error = quick_error(piece.rows, joined)
        look = Pass(joined, 0.0, piece.rows.scores(joined), error).shifted(b)
        return loss_at(piece, self.loss, look.scores, look.error)

    def dual_sums(self, alpha: Array) -> Judged:  # noqa: D102
        return self.balanced(self.sums(alpha))

    def balanced(self, judged: Judged) -> Judged:
        """Exactly, where a free bias asks for it."""
        if self.loss.pull:
            return judged.pulled(self.pull())
        return judged.balanced() if self.free else judged

    def sums(self, alpha: Array) -> Judged:
        """The same of a point that need not be balanced: where a descent begins."""
        return total(self._dual_shares(alpha))

    def _dual_shares(self, alpha: Array) -> Iterator[Judged]:
        for _, piece in self.pieces():
            point = Feasible.at(piece, piece.clipped(alpha[piece.where]))
            combined = piece.rows.combine(point.alpha * piece.y)
            drift = quick_drift(piece.rows, point.sums.size.high)
            yield dual_share(piece, self.loss, point, combined, drift)
            self.vectors.release(alpha)

    def aligned_length(self, alpha: Array) -> float:  # noqa: D102
        found = 0.0
        for _, piece in self.pieces():
            found += inner(np.abs(alpha[piece.where]), np.sqrt(piece.rows.squared_norms))
            self.vectors.release(alpha)
        return found

    def still_has(self, alpha: Any) -> bool:  # noqa: D102
        return True

    def is_feasible(self, alpha: Array, rounding: float) -> bool:  # noqa: D102
        slack, balance, size = rounding * self.C, 0.0, 0.0
        for piece in self.bare_pieces():
            inside = alpha[piece.where]
            if (inside < piece.lower - slack).any() or (inside > piece.upper + slack).any():
                return False
            balance, size = balance + inner(inside, piece.y), size + float(np.abs(inside).sum())
        return not self.free or abs(balance - self.pull().middle) <= rounding * size

    def judge(self, iterate: Iterate, joined: Array) -> Findings:
        """One pass; a point that has to move far to become feasible costs two more."""
        if iterate.ride is None:
            return self.judge_all([self], [iterate], joined[None])[0]
        judged = _Judging(self, iterate, joined)
        for part, piece in self.pieces(iterate.ride.order()):
            judged.see(piece)
            iterate.ride.visit(part, piece)
        return judged.findings()

    @staticmethod
    def judge_all(
        sides: Sequence[DiskSides], iterates: Sequence[Iterate], joined: Array
    ) -> list[Findings]:
        """Of several problems on the same rows, in one pass over the file."""
        judged = [_Judging(*known) for known in zip(sides, iterates, joined, strict=True)]

        def pieces(part: Range) -> list[Piece]:
            return [own.piece(part.rows, part.where, part.labels, part.weight) for own in sides]

        for found in sides[0].rows.each(pieces, None):
            for own, piece in zip(judged, found, strict=True):
                own.see(piece)
        return [own.findings() for own in judged]

    def _scales(self, own: Array | None) -> Scales:
        """What makes up for a free bias."""
        if not self.free or own is None:
            return LEVEL
        up = down = most = 0.0
        for piece in self.bare_pieces():
            signed = piece.clipped(own[piece.where]) * piece.y
            up += float(signed[signed > 0].sum())
            down -= float(signed[signed < 0].sum())
            most += float(piece.upper.sum()) if self.loss.pull else 0.0
            self.vectors.release(own)
        if self.loss.pull:
            return Scales.towards(self.pull().middle, up, most)
        return Scales.between(up, down)

    def best_bias(self, scores: Array) -> float:
        """The free bias that is best for these scores."""
        looks = _Looks(self, scores)
        return looks.best_bias(looks.bracket(), excess=self.pull().middle)

    def held_bias(self, w: Array, excess: float) -> float:
        """As in memory."""
        looks = _Looks(self, self.vectors.zeros())
        for part in self.rows.parts():
            part.rows.scores(w, looks.scores[part.where])
        return looks.best_bias(looks.bracket(), excess=excess if self.loss.unit_slope else 0.0)

    def at_cost(self, shares: Array) -> Array:
        """As in memory; the array is the one that was given."""
        return self._times(shares, lambda piece: piece.cost)

    def share_of_cost(self, alpha: Array) -> Array:
        """As in memory; the array is the one that was given."""

        def inverse(piece: Piece) -> Array:
            return np.divide(1.0, piece.cost, out=np.zeros(len(piece.y)), where=piece.cost > 0)

        return self._times(alpha, inverse)

    def balance_of(self, alpha: Array) -> float:
        """As in memory."""
        return math.fsum(inner(alpha[piece.where], piece.y) for piece in self.bare_pieces())

    def _times(self, vector: Array, factor: Callable[[Piece], Array]) -> Array:
        for piece in self.bare_pieces():
            vector[piece.where] *= factor(piece)
        return vector

    def zeros(self) -> Array:  # noqa: D102
        return self.vectors.zeros()

    def descent(
        self, sums: Judged | None, bias: float, n_blocks: int = 1
    ) -> _core.steps.StreamedDcd:
        """Dual coordinate descent from the dual point that these are the sums of, or from zero.

        The sums are those of the point as it is, before it is balanced for a free bias.
        """
        from_zero = sums is None
        if sums is None:
            sums = Judged(np.zeros(self.rows.n_features + 1), 0.0, ZERO, ZERO, ZERO)
        piece = self.first_piece()
        norms = piece.rows.squared_norms - self.rows.constant**2
        return _core.steps.streamed_dcd(
            piece.rows.view, self.loss.struct, sums.w_alpha, bias,
            sums.balance.middle - self.pull().middle, sums.value.middle,
            float(norms.mean()), float(piece.cost.mean()), self.rows.n_rows, from_zero,
            self.bias_precision, n_blocks, self.rows.n_threads,
        )  # fmt: skip

    def _ascend(self, alpha: Array, sums: Judged, iterate: Iterate) -> None:
        """One pass of coordinate ascent, from a point inside the box to one that is balanced."""
        descent, rng = self.descent(sums, iterate.b), _core.Rng(iterate.step)
        for _, piece in self.pieces():
            mine = np.array(alpha[piece.where])
            resting = np.zeros(len(mine), np.uint8)
            descent.visit(
                piece.rows.view, piece.signed_cost, piece.rows.squared_norms, mine, resting, rng,
                16, piece.targets,
            )  # fmt: skip
            alpha[piece.where] = piece.clipped(mine)
            self.vectors.release(alpha)
        if (scales := self._scales(alpha)) != LEVEL:
            for piece in self.bare_pieces():
                alpha[piece.where] = scales.applied(np.array(alpha[piece.where]), piece)
                self.vectors.release(alpha)

    def error_rate(self, coef: Array, intercept: Array, classes: NDArray[Any]) -> float:
        """The share of rows that these weights misclassify, one row of them for each problem."""
        wrong = 0
        for part in self.rows.parts():
            scores = part.rows.scores_of_all(coef, intercept)
            best = scores.argmax(axis=1) if len(coef) > 1 else (scores[:, 0] > 0).astype(np.intp)
            wrong += int(np.count_nonzero(classes[best] != part.labels))
        return wrong / self.rows.n_rows


class _Judging:
    """A point that is judged range by range; alpha is filled with the dual point."""

    def __init__(self, sides: DiskSides, iterate: Iterate, joined: Array) -> None:
        self.sides, self.iterate, self.joined = sides, iterate, joined
        self.alpha = sides.vectors.zeros()
        self.scales = sides._scales(iterate.alpha)
        waits = sides.free or iterate.direction
        self.looks = _Looks(sides, sides.vectors.zeros()) if waits else None
        self.sum: Judged | None = None

    def see(self, piece: Piece) -> None:
        """A range."""
        share = self._share(piece)
        self.sum = share if self.sum is None else total((self.sum, share))
        self.sides.vectors.release(self.alpha, self.iterate.alpha)

    def _share(self, piece: Piece) -> Judged:
        own, loss = self.iterate.alpha, self.sides.loss
        share, self.alpha[piece.where], look = judge_piece(
            piece, loss, None if own is None else own[piece.where], self.joined, 0.0, self.scales
        )
        if self.looks is not None:
            self.looks.keep(piece, look)
            return replace(share, bracket=bias_bracket(piece, loss, look.scores))
        errors = int(np.count_nonzero((look.scores > 0) != (piece.y > 0)))
        return replace(share, loss=loss_at(piece, loss, look.scores, look.error), errors=errors)

    def findings(self) -> Findings:
        """Once all ranges were seen."""
        assert self.sum is not None
        sides, iterate, joined, alpha = self.sides, self.iterate, self.joined, self.alpha
        judged, b = sides.balanced(self.sum), iterate.b
        if self.looks is not None:
            joined, b, judged = self._with_looks(self.looks, judged)
        primal = 0.5 * inner(joined, joined) + judged.loss.high
        sides.best_judged = min(sides.best_judged, (primal, judged.errors))
        far = iterate.alpha is None or judged.shifted > FAR * judged.total.high
        repaired = far or judged.moved > NEAR * judged.total.high
        loss = judged.loss
        if far:
            sides._ascend(alpha, judged, replace(iterate, b=b))
            judged = sides.dual_sums(alpha)
        return Findings(joined, b, loss, judged, alpha, repaired)

    def _with_looks(self, looks: _Looks, judged: Judged) -> tuple[Array, float, Judged]:
        """The point, its bias and its loss, which ask for all scores."""
        joined, b = self.joined, self.iterate.b
        half, dual = 0.5 * inner(joined, joined), judged.dual().middle
        if self.sides.free and not self.iterate.own_bias:
            b = looks.best_bias(
                judged.bracket, lambda loss: BIAS_ACCURACY * max(half + loss - dual, 0.0),
                self.sides.pull().middle,
            )  # fmt: skip
        if self.iterate.direction:
            s = looks.best_scale(2.0 * half)
            joined, b = s * joined, s * b
            looks.scale(s)
        loss, errors = looks.loss(b if self.sides.free else 0.0)
        loss = loss + b * self.sides.pull() if self.sides.loss.pull else loss
        return joined, b, replace(judged, loss=loss, errors=errors)


class _Looks:
    """The scores of all rows, for what must be known before their losses: a free bias, a scale."""

    def __init__(self, sides: DiskSides, scores: Array) -> None:
        self.sides, self.scores = sides, scores
        self.errors: dict[int, Any] = {}  # of the scores of each range, by its first row

    def keep(self, piece: Piece, look: Pass) -> None:
        """Of a range."""
        self.scores[piece.where] = look.scores
        self.errors[piece.where.start] = look.error
        self.sides.vectors.release(self.scores)

    def bracket(self) -> tuple[float, float]:
        """From the least to the largest breakpoint."""
        found = [
            bias_bracket(piece, self.sides.loss, self.scores[piece.where])
            for piece in self.sides.bare_pieces()
        ]
        return min(low for low, _ in found), max(high for _, high in found)

    def best_bias(
        self,
        bracket: tuple[float, float],
        allowed: Callable[[float], float] = lambda loss: 0.0,
        excess: float = 0.0,
    ) -> float:
        """Whose loss may be more than the least by what is allowed; excess: see `hinge_bias`."""

        def losses(points: Array) -> tuple[Array, Array]:
            values, slopes = excess * points, np.full(len(points), excess)
            for piece in self.sides.bare_pieces():
                own = losses_at(piece, self.sides.loss, self.scores[piece.where], points)
                values, slopes = values + own[0], slopes + own[1]
                self.sides.vectors.release(self.scores)
            return values, slopes

        return narrowed_minimum(losses, *bracket, allowed)

    def best_scale(self, squared_norm: float) -> float:
        """min_s s^2/2 |w|^2 + sum C_i loss(s p_i), s >= 0, nearly."""

        def values(points: Array) -> tuple[Array, Array]:
            found, slopes = 0.5 * squared_norm * points**2, squared_norm * points
            for piece in self.sides.bare_pieces():
                p = piece.margins(self.scores[piece.where])
                for k, s in enumerate(points):
                    found[k] += weighted_sum(piece.cost, self.sides.loss.value(s * p))
                    slopes[k] -= inner(piece.cost * self.sides.loss.slope(s * p), p)
            return found, slopes

        if squared_norm == 0:
            return 1.0
        at_zero = float(values(np.zeros(1))[0][0])
        farthest = math.sqrt(2.0 * at_zero / squared_norm)  # P(s w) is above P(0) from there on
        return narrowed_minimum(values, 0.0, farthest, lambda value: 1e-6 * value)

    def scale(self, s: float) -> None:
        """The scores of s w, rounded, instead of w."""
        for piece in self.sides.bare_pieces():
            self.scores[piece.where] *= s
        self.errors = {first: 2.0 * s * error for first, error in self.errors.items()}

    def loss(self, b: float) -> tuple[Interval, int]:
        """Sum C_i loss with this bias, and how many rows are on the wrong side."""
        found, errors = ZERO, 0
        for piece in self.sides.bare_pieces():
            look = Pass(_NONE, 0.0, self.scores[piece.where], self.errors[piece.where.start])
            shifted = look.shifted(b) if b else look
            found = found + loss_at(piece, self.sides.loss, shifted.scores, shifted.error)
            errors += int(np.count_nonzero((shifted.scores > 0) != (piece.y > 0)))
            self.sides.vectors.release(self.scores)
        return found, errors
