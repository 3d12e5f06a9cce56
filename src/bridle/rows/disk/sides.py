"""Rows on disk as one problem sees them: labels and weights come with the rows.

Everything that is summed over rows is summed range by range, in the order of the file, so that one
pass over the file gives both values of a certificate. What is kept for every row is its dual
variable.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from bridle import _core
from bridle.files.fingerprint import fingerprint_of
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.labels import check_targets
from bridle.objective.dual import rescaled
from bridle.objective.losses import Loss, inner
from bridle.objective.point import Iterate
from bridle.objective.rounding import ZERO, Interval
from bridle.rows.base import (
    Findings,
    Judged,
    Piece,
    dual_share,
    judge_piece,
    loss_at,
    quick_drift,
    quick_error,
    total,
)
from bridle.rows.disk.memory import RowVectors
from bridle.rows.disk.ranges import DiskRows, Range
from bridle.rows.memory import FAR, NEAR, MemoryRows
from numpy.typing import NDArray


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
        if self.loss.residual:  # whose labels are numbers
            return math.nan
        if positive not in self.classes:
            raise ValueError(f"{self.rows.source.path}: no row has the label {positive:g}")
        return float(positive)

    @property
    def vectors(self) -> RowVectors:
        """Makes vectors with an entry for each row."""
        return self.rows.vectors

    def total_cost(self) -> float:
        """Sum of C_i."""
        source = self.rows.source
        if not source.has_weight:
            return self.C * self.rows.n_rows
        sums = [source.column(k, "weight").sum() for k in range(source.n_batches)]
        return self.C * math.fsum(sums)

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
        return columns, values, 1.0 if label == self.positive else -1.0

    def pieces(self, order: Any = None) -> Iterator[tuple[Range, Piece]]:
        """The rows of these ranges, or of all."""
        return self.rows.each(self._piece, order)

    def _piece(self, part: Range) -> tuple[Range, Piece]:
        if self.loss.residual:
            labels = check_targets(part.labels, len(part.labels))
        else:
            labels = np.where(part.labels == self.positive, 1.0, -1.0)
        return part, Piece.of(part.rows, labels, self.C, part.weight, self.loss, part.where)

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
        taken, both = 0, self.loss.residual
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
        return sum((self._loss_of(piece, joined) for _, piece in self.pieces()), start=ZERO)

    def _loss_of(self, piece: Piece, joined: Array) -> Interval:
        error = quick_error(piece.rows, joined)
        return loss_at(piece, self.loss, piece.rows.scores(joined), error)

    def dual_sums(self, alpha: Array) -> Judged:  # noqa: D102
        return total(self._dual_shares(alpha))

    def _dual_shares(self, alpha: Array) -> Iterator[Judged]:
        for _, piece in self.pieces():
            inside = piece.clipped(alpha[piece.where])
            a = inside * piece.y
            drift = quick_drift(piece.rows, a)
            yield dual_share(piece, self.loss, inside, piece.rows.combine(a), drift)
            self.vectors.release(alpha)

    def still_has(self, alpha: Any) -> bool:  # noqa: D102
        return True

    def is_feasible(self, alpha: Array, rounding: float) -> bool:  # noqa: D102
        slack = rounding * self.C
        for _, piece in self.pieces():
            inside = alpha[piece.where]
            if (inside < piece.lower - slack).any() or (inside > piece.upper + slack).any():
                return False
        return True

    def judge(self, iterate: Iterate, joined: Array) -> Findings:
        """One pass; a point that has to move far to become feasible costs two more."""
        alpha, own = self.vectors.zeros(), iterate.alpha
        judged = total(self._shares(alpha, own, joined))
        primal = 0.5 * inner(joined, joined) + judged.loss.high
        self.best_judged = min(self.best_judged, (primal, judged.errors))
        far = own is None or judged.moved > FAR * judged.total.high
        repaired = far or judged.moved > NEAR * judged.total.high
        loss = judged.loss
        if far:
            self._ascend(alpha, judged, iterate)
            judged = self.dual_sums(alpha)
        return Findings(joined, iterate.b, loss, judged, alpha, repaired)

    def _shares(self, alpha: Array, own: Array | None, joined: Array) -> Iterator[Judged]:
        """Of each range; alpha is filled with the point that is judged."""
        for _, piece in self.pieces():
            mine = None if own is None else own[piece.where]
            share, alpha[piece.where], look = judge_piece(
                piece, self.loss, mine, joined, 0.0, (1.0, 1.0)
            )
            errors = int(np.count_nonzero((look.scores > 0) != (piece.y > 0)))
            loss = loss_at(piece, self.loss, look.scores, look.error)
            yield replace(share, loss=loss, errors=errors)
            self.vectors.release(alpha, own)

    def zeros(self) -> Array:  # noqa: D102
        return self.vectors.zeros()

    def descent(
        self, sums: Judged | None, bias: float, n_blocks: int = 1
    ) -> _core.steps.StreamedDcd:
        """Dual coordinate descent from the dual point that these are the sums of, or from zero."""
        from_zero = sums is None
        if sums is None:
            sums = Judged(np.zeros(self.rows.n_features + 1), 0.0, ZERO, ZERO, ZERO)
        piece = self.first_piece()
        norms = piece.rows.squared_norms - self.rows.constant**2
        return _core.steps.streamed_dcd(
            piece.rows.view, self.loss.struct, sums.w_alpha, bias,
            sums.balance.middle, sums.value.middle,
            float(norms.mean()), float(piece.cost.mean()), self.rows.n_rows, from_zero,
            self.bias_precision, n_blocks, self.rows.n_threads,
        )  # fmt: skip

    def _ascend(self, alpha: Array, sums: Judged, iterate: Iterate) -> None:
        """One pass of coordinate ascent, from a point inside the box."""
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

    def error_rate(self, coef: Array, intercept: Array, classes: NDArray[Any]) -> float:
        """The share of rows that these weights misclassify, one row of them for each problem."""
        # The rows have their constant feature: its weight gives the intercept.
        b = intercept / self.rows.constant if self.rows.constant else 0.0 * intercept
        W = np.concatenate([coef.T, b[None]])
        wrong = 0
        for part in self.rows.parts():
            scores = part.rows.scores_of_all(W)
            best = scores.argmax(axis=1) if len(coef) > 1 else (scores[:, 0] > 0).astype(np.intp)
            wrong += int(np.count_nonzero(classes[best] != part.labels))
        return wrong / self.rows.n_rows
