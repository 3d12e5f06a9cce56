"""The linear problem on rows that are on disk: the same objective and the same certificates.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i loss(p_i),   p_i = y_i (w.x_i + b),   C_i = C weight_i,

Everything that is summed over rows is summed range by range, in the order of the file, so that one
pass over the file gives both values of a certificate. What is kept for every row is its dual
variable; labels and weights come with the rows, and so do their squared lengths.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle import _core
from bridle.data.arrow import ArrowRows, open_arrow
from bridle.files.fingerprint import fingerprint_of
from bridle.matrix.door import check_vector
from bridle.matrix.threads import check_threads
from bridle.objective.bias import Bias
from bridle.objective.losses import Hinge, Loss, inner
from bridle.objective.point import Iterate
from bridle.problems.base import Judgement
from bridle.problems.linear import FAR, ROUNDING, Array, LinearObjective, LinearProblem
from bridle.rows.disk.memory import RowVectors
from bridle.rows.disk.ranges import Part, RowStream, labels_of
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Piece:
    """A part of the rows, with what this problem makes of their labels and weights."""

    part: Part
    y: Array
    cost: Array
    signed_cost: Array
    upper: Array

    @property
    def where(self) -> slice:
        """Its rows among all."""
        return self.part.where


@dataclass(frozen=True)
class Sums:
    """Of all rows, at a dual point: w(alpha), sum alpha_i y_i, the dual but for 1/2 |w|^2."""

    w: Array
    balance: float
    separable: float

    @property
    def dual(self) -> float:
        """D(alpha)."""
        return self.separable - 0.5 * inner(self.w, self.w)


class StreamedProblem(LinearObjective):
    """1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)) on the rows of an Arrow file.

    rows: the file, or its path. positive: the label that is +1, all others being -1; by default the
    larger of two. memory: the most bytes that this process may have resident; None maps the file
    and leaves that to the system. The other parameters are those of LinearProblem. A free bias and
    the hard margin need all scores at once and are for rows in memory.
    """

    kind: ClassVar[str] = "streamed"
    certificates_cost_reading: ClassVar[bool] = True

    def __init__(
        self,
        rows: ArrowRows | str,
        C: float = 1.0,
        *,
        positive: float | None = None,
        loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
        bias: Bias = "none",
        bias_scale: float = 1.0,
        memory: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        self._set_objective(C, loss, bias, bias_scale)
        if bias == "free" or self.hard_margin:
            what = "a free bias" if bias == "free" else "the hard margin"
            raise ValueError(f"{what} needs all rows in memory; here they are read in batches")
        self.source = rows if isinstance(rows, ArrowRows) else open_arrow(rows)
        self.n_threads = check_threads(n_threads)
        self.n_rows, self.n_features = self.source.shape
        self.classes, self.class_counts = labels_of(self.source)
        self.stream = RowStream(self.source, constant=self.constant_feature, memory=memory)
        self._set_positive(positive)

    def variant(self, *, positive: float | None = None, C: float | None = None) -> StreamedProblem:
        """The same rows with another class as +1, or another C."""
        other = copy.copy(self)
        other._set_objective(self.C if C is None else C, self.loss, self.bias, self.bias_scale)
        other._set_positive(self.positive if positive is None else positive)
        return other

    def _set_positive(self, positive: float | None) -> None:
        if len(self.classes) < 2:
            raise ValueError(f"{self.source.path}: all rows have the label {self.classes[0]:g}")
        if positive is None:
            if len(self.classes) > 2:
                raise ValueError(
                    f"{self.source.path}: has {len(self.classes)} classes; say which is positive"
                )
            positive = float(self.classes[1])
        if positive not in self.classes:
            raise ValueError(f"{self.source.path}: no row has the label {positive:g}")
        self.positive = float(positive)
        # Of the best weights that were judged: their primal value and the rows they misclassify.
        self.best_judged: tuple[float, int] = (np.inf, self.n_rows)

    @property
    def total_cost(self) -> float:
        """Sum of C_i."""
        if not self.source.has_weight:
            return self.C * self.n_rows
        sums = [self.source.column(k, "weight").sum() for k in range(self.source.n_batches)]
        return self.C * math.fsum(sums)

    @property
    def squared_radius(self) -> float:
        """A bound on |w*|^2."""
        return self.loss.squared_radius(np.array([self.total_cost]))

    def identity(self) -> dict[str, Any]:
        """What tells this problem from others: that of a LinearProblem on the same rows."""
        digest, weighted = hashlib.blake2b(digest_size=16), False
        for k in range(self.source.n_batches if self.source.has_weight else 0):
            weight = self.source.column(k, "weight").astype(np.float64)
            weighted = weighted or bool((weight != 1).any())
            digest.update(weight.tobytes())
        data = fingerprint_of(self.source.shape, (self.n_rows,), self._signed_row)
        return self._identity(data, digest.hexdigest() if weighted else "none")

    def _signed_row(self, i: int) -> tuple[NDArray[Any], NDArray[Any], float]:
        columns, values, label = self.source.row(i)
        return columns, values, 1.0 if label == self.positive else -1.0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data, in which solvers work."""
        return self.source.dtype

    @property
    def vectors(self) -> RowVectors:
        """Makes vectors with an entry for each row."""
        return self.stream.vectors

    def pieces(self, order: Any = None) -> Iterator[Piece]:
        """The rows of these ranges, or of all."""
        return self.stream.each(self._piece, order)

    def _piece(self, part: Part) -> Piece:
        y = np.where(part.labels == self.positive, 1.0, -1.0)
        cost = np.full(len(y), self.C) if part.weight is None else self.C * part.weight
        return Piece(part, y, cost, np.copysign(cost, y), self.loss.upper(cost))

    def first_piece(self) -> Piece:
        """Some rows, to see of what kind they are."""
        return next(iter(self.pieces([0])))

    def sample(self, n: int, seed: int = 0) -> LinearProblem:
        """The problem on about n rows in memory, both classes present, with the same lam."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.stream))
        matrices: list[Any] = []
        signs: list[Array] = []
        weights: list[Array] = []
        taken, both = 0, False
        for piece in self.pieces(order):
            size = min(len(piece.y), max(1, n // min(8, len(order))))
            chosen = np.sort(rng.choice(len(piece.y), size, replace=False))
            if taken >= n:  # there is only one class so far: one row of the other is enough
                chosen = np.flatnonzero(piece.y != signs[0][0])[:1]
            matrices.append(piece.part.batch.X[chosen].copy())
            signs.append(piece.y[chosen])
            weights.append(piece.cost[chosen] / self.C)
            taken += len(chosen)
            both = both or len({*np.concatenate(signs).tolist()}) == 2
            if taken >= n and both:
                break
        from scipy.sparse import vstack

        return LinearProblem(
            vstack(matrices, format="csr"), np.concatenate(signs), self.C * self.n_rows / taken,
            loss=self.loss, bias=self.bias, bias_scale=self.bias_scale,
            sample_weight=np.concatenate(weights), n_threads=self.n_threads,
        )  # fmt: skip

    def start_alpha(self, start: Any) -> Array:
        """A new vector with the start's dual variables inside the box, or zeros."""
        alpha = self.vectors.zeros()
        if start is None or start.alpha is None:
            return alpha
        given = check_vector(start.alpha, self.n_rows, "start.alpha")
        highest = self.C * (np.inf if self.loss.name == "squared_hinge" else 1.0)
        # Of rows with weights the box is known when they are read: judging clips once more.
        np.clip(given, 0.0, np.inf if self.source.has_weight else highest, out=alpha)
        return alpha

    def primal(self, w: ArrayLike, b: float = 0.0) -> float:
        """P(w, b)."""
        self._check_bias(b)
        joined = self.join(w, b)
        losses = []
        for piece in self.pieces():
            scores = np.empty(len(piece.y))
            _core.scores(piece.part.rows, joined, scores, self.n_threads)
            losses.append(inner(piece.cost, self.loss.value(piece.y * scores)))
        return 0.5 * inner(joined, joined) + math.fsum(losses)

    def dual(self, alpha: ArrayLike) -> float:
        """D(alpha); minus infinity outside the feasible set."""
        given = check_vector(alpha, self.n_rows, "alpha")
        for piece in self.pieces():
            inside, slack = given[piece.where], ROUNDING * self.C
            if (inside < -slack).any() or (inside > piece.upper + slack).any():
                return -np.inf
        return self.sums(given).dual

    def weights(self, alpha: ArrayLike) -> Array:
        """w(alpha) = sum_i alpha_i y_i x_i."""
        return self.sums(check_vector(alpha, self.n_rows, "alpha")).w[:-1]

    def sums(self, alpha: Array) -> Sums:
        """One pass over the rows."""
        w, part = np.zeros(self.n_features + 1), np.empty(self.n_features + 1)
        balance, separable = [], []
        for piece in self.pieces():
            inside = np.asarray(alpha[piece.where])
            _core.combine(piece.part.rows, inside * piece.y, part, self.n_threads)
            w += part
            balance.append(inner(inside, piece.y))
            separable.append(self.loss.dual_value(inside, piece.cost))
            self.vectors.release(alpha)
        return Sums(w, math.fsum(balance), math.fsum(separable))

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the iterate and the dual value of its feasible point, in one pass.

        A point that has to move far to become feasible costs two more: one of coordinate ascent.
        """
        joined = self.join(iterate.w, iterate.b)
        alpha, own = self.vectors.zeros(), iterate.alpha
        w, part = np.zeros(self.n_features + 1), np.empty(self.n_features + 1)
        losses, balance, separable, moved = [], [], [], []
        size, errors = 0.0, 0
        for piece in self.pieces():
            inside = np.zeros(len(piece.y)) if own is None else np.asarray(own[piece.where])
            clipped = np.clip(inside, 0.0, piece.upper)
            scores = np.empty(len(piece.y))
            _core.combine_and_score(
                piece.part.rows, clipped * piece.y, part, joined, scores, self.n_threads
            )
            w += part
            alpha[piece.where] = clipped
            losses.append(inner(piece.cost, self.loss.value(piece.y * scores)))
            balance.append(inner(clipped, piece.y))
            separable.append(self.loss.dual_value(clipped, piece.cost))
            moved.append(float(np.abs(clipped - inside).sum()))
            size += float(clipped.sum())
            errors += int(np.count_nonzero((scores > 0) != (piece.y > 0)))
            self.vectors.release(alpha, own)
        primal = 0.5 * inner(joined, joined) + math.fsum(losses)
        self.best_judged = min(self.best_judged, (primal, errors))
        found = Sums(w, math.fsum(balance), math.fsum(separable))
        far = own is None or math.fsum(moved) > FAR * size
        if far:
            self._ascend(alpha, found, iterate)
            found = self.sums(alpha)
        dual = found.dual
        if dual < 0:  # the origin is feasible and does better
            alpha, dual = self.vectors.zeros(), 0.0
        source: Any = "repair" if far or math.fsum(moved) > 1e-6 * size else "solver"
        return Judgement(joined[:-1].copy(), iterate.b, primal, alpha, dual, source)

    def descent(self, sums: Sums | None, bias: float, n_blocks: int = 1) -> _core.StreamedDcd:
        """Dual coordinate descent from the dual point that these are the sums of, or from zero."""
        from_zero = sums is None
        if sums is None:
            sums = Sums(np.zeros(self.n_features + 1), 0.0, 0.0)
        piece = self.first_piece()
        norms = piece.part.squared_norms - self.constant_feature**2
        return _core.streamed_dcd(
            piece.part.rows, self.loss.name, sums.w, bias, sums.balance, sums.separable,
            float(norms.mean()), float(piece.cost.mean()), self.n_rows, from_zero,
            self.bias_precision, n_blocks, self.n_threads,
        )  # fmt: skip

    def _ascend(self, alpha: Array, sums: Sums, iterate: Iterate) -> None:
        """One pass of coordinate ascent, from a point inside the box."""
        kernel, rng = self.descent(sums, iterate.b), _core.Rng(iterate.step)
        for piece in self.pieces():
            mine = np.array(alpha[piece.where])
            resting = np.zeros(len(mine), np.uint8)
            kernel.visit(
                piece.part.rows, piece.signed_cost, piece.part.squared_norms, mine, resting, rng, 16
            )
            alpha[piece.where] = np.clip(mine, 0.0, piece.upper)
            self.vectors.release(alpha)

    def error_rate(self, coef: Array, intercept: Array, classes: NDArray[Any]) -> float:
        """The share of rows that these weights misclassify, one row of them for each problem."""
        wrong = 0
        for part in self.stream.parts():
            scores = np.empty((len(coef), part.rows.n_rows))
            for k, w in enumerate(coef):
                # The rows have their constant feature: its weight gives the intercept.
                b = intercept[k] / self.constant_feature if self.constant_feature else 0.0
                _core.scores(part.rows, np.append(w, b), scores[k], self.n_threads)
            best = scores.argmax(axis=0) if len(coef) > 1 else (scores[0] > 0).astype(np.int64)
            wrong += int(np.count_nonzero(classes[best] != part.labels))
        return wrong / self.n_rows
