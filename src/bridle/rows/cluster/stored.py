"""Rows of a part that stay on its worker's disk: an Arrow file that is read in ranges.

In memory are a few vectors of the length of the file (labels, dual variables, scores) and some
ranges at a time. A round takes ranges in random order, and visits each as `dcd` does: a quarter of
its rows says which of the others rest, and those are left out until they are woken. How far it is
show the ranges that come next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bridle import _core
from bridle.data.arrow import open_arrow
from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss, inner
from bridle.rows.base import Judged, Pass, Piece, Scales, judge_piece, quick_error, total
from bridle.rows.cluster.blocks import BlockRows
from bridle.rows.cluster.messages import Against, FirstShare
from bridle.rows.cluster.state import State
from bridle.rows.disk.memory import TooLittleMemoryError, resident_bytes
from bridle.rows.disk.ranges import DiskRows, Range
from numpy.typing import NDArray

# float64 vectors of the length of the file, at the worst moment: labels, signs, their places among
# the classes, costs twice, dual variables now and before the round, of two snapshots and of what
# becomes one; scores, bands and bounds while it is looked at which rows may move.
VECTORS = 16

FIRST = 0.25  # of a range's rows, by which it is known which of the others rest


@dataclass(frozen=True)
class StoredBlock:
    """A file that does not fit into memory. memory: of the whole process."""

    name: str
    memory: int

    def fits(self) -> bool:
        """Whether so much memory is enough for all rows."""
        plan = DiskRows(open_arrow(self.name), memory=self.memory, row_vectors=VECTORS).plan
        return plan is not None and plan.resident


def shared_memory(files: list[str], memory: int) -> list[StoredBlock]:
    """Each of several files with what it may take, so that all together keep the promise."""
    sizes = [open_arrow(file).bytes_in_memory for file in files]
    now = resident_bytes()
    blocks = [
        StoredBlock(file, now + int((memory - now) * size / sum(sizes)))
        for file, size in zip(files, sizes, strict=True)
    ]
    needed, features = 0, 0
    for block, size in zip(blocks, sizes, strict=True):
        try:
            block.fits()
        except TooLittleMemoryError as error:  # of its share: say it of the whole
            needed = max(needed, now + int((error.needed - now) * sum(sizes) / size))
            features = error.features
    if needed:
        what = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
        raise TooLittleMemoryError(memory, needed, what, features)
    return blocks


class StoredRowsOfPart(BlockRows):
    """As `BlockRows`, but the rows stay where they are: every pass reads them."""

    def __init__(self, block: StoredBlock, n_threads: int, place: tuple[int, int]) -> None:
        source = open_arrow(block.name)
        self.name, self.zero_based, self.open_ended = block.name, source.zero_based, False
        self.place, self._order = place, None
        self.disk = DiskRows(source, memory=block.memory, n_threads=n_threads, row_vectors=VECTORS)
        if not self.disk.hold_vectors():
            raise ValueError(
                f"{block.name}: {source.n_rows} rows need {8 * VECTORS} bytes of memory each, "
                "whatever their features: allow more, or divide them among more workers"
            )
        self.n_rows, self.n_features, self.nnz = source.n_rows, source.n_features, source.nnz
        if self.n_rows == 0:
            raise ValueError(f"{self.name} is empty; leave it out, or divide the rows anew")
        self.weighted = source.has_weight
        self.y, self.weight = np.empty(self.n_rows), np.ones(self.n_rows)
        self.norms = np.empty(self.n_rows)
        for part in self.disk.parts():  # checked, too
            self.y[part.where], self.norms[part.where] = part.labels, part.rows.squared_norms
            if part.weight is not None:
                self.weight[part.where] = part.weight
        self.codes = np.empty(0, np.intp)
        self.rows: Any = self.disk

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data."""
        return self.disk.dtype

    def squares(self, weight: Array | None = None) -> float:
        """Sum |x_i|^2, each so many times."""
        return float(self.norms.sum()) if weight is None else inner(weight, self.norms)

    def scores_of_all(self, weights: Array, constants: Array) -> Array:
        """See `MemoryRows`."""
        out = np.empty((self.n_rows, len(weights)))
        for part in self.disk.parts():
            out[part.where] = part.rows.scores_of_all(weights, constants)
        return out

    def look(self, w: Array) -> Pass:
        """The scores of all rows, and how far they may be off."""
        out, error = np.empty(self.n_rows), 0.0
        for part in self.disk.parts():
            part.rows.scores(w, out[part.where])
            error = max(error, quick_error(part.rows, w))
        return Pass(w, 0.0, out, error)

    @property
    def mean_bytes(self) -> float:
        """Of a row."""
        entry = self.disk.source.column_dtype.itemsize + self.dtype.itemsize
        return self.nnz / self.n_rows * float(entry) + 16.0

    @property
    def row_bytes(self) -> Array:
        """Of each row, about: all of them alike."""
        return np.full(self.n_rows, self.mean_bytes)

    def take(self, chosen: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        """Lengths, columns and values of some rows."""
        source = self.disk.source
        lengths: list[Any] = [np.empty(0, np.int32)]
        columns: list[Any] = [np.empty(0, source.column_dtype)]
        values: list[Any] = [np.empty(0, source.dtype)]
        for part in self.disk.parts(self.ranges_of(chosen)):
            begin, end = np.searchsorted(chosen, (part.where.start, part.where.stop))
            own = part.batch.X[chosen[begin:end] - part.where.start]
            lengths.append(np.diff(own.indptr).astype(np.int32))
            columns.append(own.indices.copy())
            values.append(own.data.copy())
        return np.concatenate(lengths), np.concatenate(columns), np.concatenate(values)

    def ranges_of(self, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        """The ranges in which these rows are."""
        return np.unique(np.searchsorted(self.begins, chosen, side="right") - 1)

    @property
    def begins(self) -> NDArray[np.int64]:
        """The first row of each range."""
        sizes = [part.n_rows for part in self.disk.ranges]
        return np.concatenate([[0], np.cumsum(sizes)[:-1]])

    def row(self, i: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """The columns, values and label of a row."""
        return self.disk.source.row(i)


def state_of(block: BlockRows, against: Against, alpha: Array | None, ratio: float) -> State:
    """One problem's view of a block, wherever its rows are."""
    kind = StoredState if isinstance(block, StoredRowsOfPart) else State
    return kind.start(block, against, alpha, ratio)


class StoredState(State):
    """The same of rows on disk."""

    @staticmethod
    def descend(block: Any, piece: Piece, loss: Loss, alpha: Array) -> StoredDescent:
        """The descent that holds alpha."""
        return StoredDescent(block, piece, loss, alpha)

    def judge_rows(self, w: Array, b: float, scales: Scales) -> tuple[Judged, Array, Pass]:
        """The dual's share, the feasible alpha, and a look at the rows."""
        own, errors = self.alpha(), [0.0]
        scores = np.empty(len(own))

        def share(part: Range) -> Judged:
            judged, alpha, look = judge_piece(
                sliced(self.piece, part), self.loss, own[part.where].copy(), w, b, scales
            )
            own[part.where], scores[part.where] = alpha, look.scores
            errors.append(float(np.max(look.error)))
            return judged

        judged = total(share(part) for part in self.block.disk.parts())
        return judged, own, Pass(w, 0.0, scores, max(errors))


def sliced(piece: Piece, part: Range) -> Piece:
    """The rows of a range that is at hand."""
    own = part.where
    lower = piece.lower if np.ndim(piece.lower) == 0 else np.asarray(piece.lower)[own]
    return replace(
        piece, rows=part.rows, y=piece.y[own], cost=piece.cost[own],
        signed_cost=piece.signed_cost[own], lower=lower, upper=piece.upper[own],
        targets=None if piece.targets is None else piece.targets[own], where=own,
    )  # fmt: skip


@dataclass
class _Done:
    """What a visit saw."""

    visits: int = 0
    inside: int = 0
    balance: float = 0.0


@dataclass
class _Moved:
    """How far the rows are from where they were."""

    rows: int = 0
    separable: float = 0.0
    balance: float = 0.0
    curvature: float = 0.0

    def add(self, move: Any) -> None:
        self.rows += move.rows
        self.separable += move.separable
        self.balance += move.balance
        self.curvature += move.curvature


class StoredDescent:
    """Coordinate descent on ranges that are read when it is their turn; as `_core.steps.DcdPart`.

    A range is visited at most once in a round, so that what a round did is the sum of what it did
    to its ranges.
    """

    def __init__(self, block: StoredRowsOfPart, piece: Piece, loss: Loss, alpha: Array) -> None:
        self.block, self.piece, self.loss = block, piece, loss
        self._alpha = np.array(alpha)
        self._resting = (piece.cost == 0).astype(np.uint8)
        self._before: dict[int, tuple[slice, Array]] = {}  # of ranges visited in this round
        self._order: list[int] = []  # ranges that are left of the epoch, the next one last
        self._move, self._caution = _Moved(), np.empty(0)
        self._begins = block.begins

    def set_alpha(self, rows: NDArray[np.int64], alpha: Array) -> None:
        """Of these rows, from outside, which are then in play."""
        self.keep(1.0)
        self._alpha[rows] = alpha
        self._resting[rows] = self.piece.cost[rows] == 0

    @property
    def n_active(self) -> int:
        """Rows in play."""
        return int(np.count_nonzero(self._resting == 0))

    def set_caution(self, caution: Array) -> None:
        """See `DcdPart`."""
        self._caution = np.array(caution)

    def visit(
        self, rng: Any, bucket: int, share: float, w: Array, b: float, response: float,
        step: Array, balance: float = 0.0, first: FirstShare | None = None,
    ) -> _Done:  # fmt: skip
        """The next share of an epoch, and no more than is left of it."""
        w, done = np.array(w), _Done()
        caution = self._caution if len(self._caution) else np.ones(len(w))
        for part in self.block.disk.parts(self._next(rng, share)):
            descent, own = self._descent(part), np.zeros(len(w))
            for piece in (1.0,) if first else (FIRST, 1.0):
                own[:] = 0.0
                found = descent.visit(rng, bucket, piece, w, b, response, own, balance, first)
                step += own
                w += caution * own
                b += caution[-1] * response * found.balance
                balance += caution[-1] * found.balance
                done.visits, done.inside = done.visits + found.visits, done.inside + found.inside
                done.balance += found.balance
                first = first and first.after(found.visits)
            self._take(part, descent)
        return done

    def _descent(self, part: Range, resting: int = 0) -> Any:
        """On the rows of a range that are in play, or on those that rest."""
        piece, mine = sliced(self.piece, part), self._resting[part.where] == resting
        alpha = self._alpha[part.where].copy()
        descent = _core.steps.dcd_part(
            part.rows.view, self.loss.struct, np.where(mine, piece.signed_cost, 0.0),
            part.rows.squared_norms, alpha, piece.targets,
        )  # fmt: skip
        if len(self._caution):
            descent.set_caution(self._caution)
        return descent

    def _take(self, part: Range, descent: Any) -> None:
        """What a visit made of the dual variables of a range."""
        before = self._alpha[part.where].copy()
        after, resting = np.empty(len(before)), np.empty(len(before), np.uint8)
        descent.alpha(after)
        descent.resting(resting)
        self._move.add(descent.moved())
        self._before[part.where.start] = part.where, before
        self._alpha[part.where] = after
        self._resting[part.where] |= resting

    def _next(self, rng: Any, share: float) -> list[int]:
        """Ranges with about so many of the rows in play, of those that are left of this epoch."""
        counts = np.add.reduceat(self._resting == 0, self._begins, dtype=np.int64)
        if not any(counts[k] for k in self._order):
            self._order = self._shuffled(rng, counts)
        chosen, left = [], share * float(counts.sum())
        while self._order and left > 0:
            k = self._order.pop()
            if counts[k] and int(self._begins[k]) not in self._before:
                chosen.append(k)
                left -= counts[k]
        return chosen

    def _shuffled(self, rng: Any, counts: NDArray[np.int64]) -> list[int]:
        order = np.empty(len(counts), np.int64)
        rng.permutation(order)
        return [int(k) for k in order if counts[k]]

    def look(self, rng: Any, n: int, w: Array, bias: float) -> Any:
        """The gap at these weights, by the ranges that come next: by n rows, and of two ranges."""
        counts = np.diff([*self._begins, len(self._alpha)])
        order = [*reversed(self._order), *reversed(self._shuffled(rng, counts))]
        enough = int(np.searchsorted(np.cumsum(counts[order]), n)) + 1
        chosen = list(dict.fromkeys(order[: max(2, enough)]))
        each, times = -(-n // len(chosen)), len(self._alpha) / float(counts[chosen].sum())
        gaps, squares = [0.0, 0.0], [0.0, 0.0]  # of rows in play, of those that rest
        for part in self.block.disk.parts(chosen):
            for kind in (0, 1):
                own = self._descent(part, kind).look(rng, each, w, bias).active
                gaps[kind] += times * own.gap
                squares[kind] += (times * own.error) ** 2
        return _Look(*(_Sample(g, e**0.5) for g, e in zip(gaps, squares, strict=True)))

    def scores(self, w: Array, bias: float, out: Array) -> None:
        """Of the rows in play; NaN for those that rest."""
        out[:] = np.nan
        chosen = self.block.ranges_of(np.flatnonzero(self._resting == 0))
        for part in self.block.disk.parts(chosen):
            part.rows.scores(w, out[part.where])
            out[part.where] += bias
        out[self._resting == 1] = np.nan

    def moved(self) -> _Moved:
        """Since the last `keep`."""
        return self._move

    def keep(self, part: float) -> None:
        """Goes this part of the way."""
        if part != 1.0:
            for where, before in self._before.values():
                self._alpha[where] = before + part * (self._alpha[where] - before)
        self._before, self._move = {}, _Moved()

    def unshrink(self) -> None:
        """All rows are in play."""
        self._resting[:] = self.piece.cost == 0
        self._order = []

    def alpha(self, out: Array) -> None:
        """The dual variables."""
        out[:] = self._alpha


@dataclass(frozen=True)
class _Sample:
    """As `_core.steps.DcdSample`."""

    gap: float
    error: float


@dataclass(frozen=True)
class _Look:
    """As `_core.steps.DcdLook`."""

    active: _Sample
    resting: _Sample
