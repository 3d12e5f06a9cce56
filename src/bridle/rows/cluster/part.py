"""One part of the rows of a cluster: some rows, and for each problem over them their alpha.

A part knows nothing of the other parts, nor how its answers travel. Every method is one message:
small arguments, and at most one vector of n_features + 1 numbers each way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bridle import _core
from bridle.files.atomic import replacing
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector, is_sparse
from bridle.matrix.labels import check_targets
from bridle.matrix.threads import Threads
from bridle.objective.dual import rescaled
from bridle.objective.losses import Loss, inner, loss_from, weighted_sum
from bridle.objective.rounding import ZERO, Interval
from bridle.rows.base import (
    Judged,
    Pass,
    Piece,
    bias_bracket,
    judge_piece,
    loss_at,
    losses_at,
    quick_error,
    total,
)
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray


@dataclass(frozen=True)
class Block:
    """Some rows as they came: a partition or a file, whose name is for errors."""

    name: str
    X: Any
    y: Any
    sample_weight: Any = None
    zero_based: bool = False  # whether the text it came from counts features from 0
    open_ended: bool = False  # whether the data may have more features than these rows show

    def wider(self, n_features: int) -> Block:
        """With so many features, of which these rows have none beyond their own."""
        if not self.open_ended or self.X.shape[1] >= n_features:
            return self
        X = self.X.copy()
        X.resize((X.shape[0], n_features))
        return replace(self, X=X)


@dataclass(frozen=True)
class Aside:
    """Rows that are set aside: they weigh nothing in a problem, and can be looked at afterwards.

    Every part puts the rows of each class in a random order of its own, from 0 to 1; aside are
    those from `low` on and below `high`. The same seed gives the same orders.
    """

    seed: int
    low: float
    high: float

    @classmethod
    def fold(cls, k: int, n: int, seed: int) -> Aside:
        """Fold k of n."""
        return cls(seed, k / n, (k + 1) / n)


@dataclass(frozen=True)
class Against:
    """Which problem over the rows: class `positive` against the rest, at this C."""

    C: float
    loss: str | Loss
    bias: str
    bias_scale: float
    positive: int
    class_weight: tuple[float, ...] | None = None
    aside: Aside | None = None


@dataclass(frozen=True)
class FromSnapshot:
    """Dual variables to go on from: those of a snapshot, which was taken at another C."""

    snapshot: int
    ratio: float  # the new C over that one


@dataclass(frozen=True)
class Opened:
    """Sums over the rows of a part that the start of a solve needs."""

    squared_norm: float  # without the constant feature
    cost: float
    n_rows: int
    n_useful: int  # rows that cost something


@dataclass(frozen=True)
class Order:
    """What a part is to do in a round."""

    kept: float  # the part of the last round's step that the line search kept
    w: NDArray[Any]
    b: float
    response: float  # d b / d sum alpha y
    caution: NDArray[Any] | None  # S of each feature and, last, of the bias; None as before
    epochs: float  # of local work
    bucket: int


@dataclass(frozen=True)
class Step:
    """What it did: sum d_alpha_i z_i, and the changes of the other parts of the dual."""

    step: NDArray[Any]
    separable: float
    balance: float
    curvature: float
    gap: float  # seen on the way
    visits: int
    inside: int


# A row may move if its margin need change no more than this for it: how far to look, widest first.
BANDS = (0.5, 0.2, 0.1, 0.05, 0.0)


@dataclass(frozen=True)
class Share:
    """Rows that may move, with their signed costs and dual variables."""

    X: tuple[NDArray[Any], ...]  # lengths, columns and values, or one dense block
    signed_cost: Array
    alpha: NDArray[Any]


@dataclass(frozen=True)
class Near:
    """The bytes of the rows that may move, for each band, and the gap of all rows."""

    sizes: Array
    gap: float  # sum C_i loss + alpha_i (margin) - the separable dual, which is P - D


# A piece of a block is visited by a thread for itself if in each of its rounds it has so many
# non-zeros for each weight, of which every thread sums a vector.
WORTH = 4.0


class Part:
    """Rows and alpha. With several threads the rows are visited in as many blocks at a time."""

    def __init__(self, number: int, blocks: list[Block], n_threads: int = 1) -> None:
        if not blocks:
            raise ValueError(f"part {number} has no rows: there are more parts than partitions")
        widest = max((block.X.shape[1] for block in blocks if block.open_ended), default=0)
        blocks = [block.wider(widest) for block in blocks]
        self.n_crew = min(n_threads, max(map(_most_at_once, blocks)) * len(blocks))
        blocks = [piece for block in blocks for piece in _divided(block, len(blocks), self.n_crew)]
        self.number, self.n_threads = number, n_threads
        self.blocks = [_Rows(block, n_threads, (number, k)) for k, block in enumerate(blocks)]
        first = self.blocks[0]
        for block in self.blocks[1:]:
            check_alike(vars(block), vars(first))
        self.n_features, self.zero_based = first.n_features, first.zero_based
        self.runs: dict[int, _Run] = {}
        self.snapshots: dict[int, list[Array]] = {}

    def describe(self) -> dict[str, Any]:
        """Sizes, labels and the total weight of each."""
        labels = [np.unique(block.y[block.weight > 0]) for block in self.blocks]
        classes = np.unique(np.concatenate(labels))
        squares = [inner(block.weight, block.rows.squared_norms) for block in self.blocks]
        weights = [
            sum(float(block.weight[block.y == label].sum()) for block in self.blocks)
            for label in classes
        ]
        return {
            "n_rows": sum(block.n_rows for block in self.blocks),
            "n_features": self.n_features,
            "name": self.blocks[0].name,
            "nnz": sum(block.nnz for block in self.blocks),
            "dtype": str(np.result_type(*(block.X.dtype for block in self.blocks))),
            "classes": classes,
            "weights": np.array(weights),
            "squares": sum(squares),
            "weighted": any(block.weighted for block in self.blocks),
            "zero_based": self.zero_based,
            "open_ended": all(block.open_ended for block in self.blocks),
        }

    def widen(self, n_features: int) -> None:
        """To the width of other parts, where rows of texts do not show how wide the data are."""
        blocks = [block.block() for block in self.blocks]
        wider = [block.wider(n_features) for block in blocks]
        if any(one is not other for one, other in zip(wider, blocks, strict=True)):
            self.blocks = [
                _Rows(block, self.n_threads, (self.number, k)) for k, block in enumerate(wider)
            ]
            self.n_features = self.blocks[0].n_features

    def sample(self, wanted: list[int], starts: list[int]) -> dict[int, tuple[Any, Any, Any]]:
        """Columns, values and label of those wanted rows that are here, counted over all parts.

        starts: where each part's rows begin in that count.
        """
        begin, found = starts[self.number], {}
        for block in self.blocks:
            for i in wanted:
                if begin <= i < begin + block.n_rows:
                    found[i] = block.row(i - begin)
            begin += block.n_rows
        return found

    def encode(self, classes: NDArray[Any]) -> None:
        """The place of each row's label among the classes; -1 if it has none there."""
        for block in self.blocks:
            place = np.searchsorted(classes, block.y).clip(0, len(classes) - 1)
            block.codes = np.where(classes[place] == block.y, place, -1)

    def codes(self) -> NDArray[np.intp]:
        """The place of each row's label among the classes."""
        return np.concatenate([block.codes for block in self.blocks])

    def open(
        self, run: int, objective: Against, seed: int, start: FromSnapshot | None, saved: str | None
    ) -> Opened:
        """Begin to solve a problem: from a start, from a checkpoint that is there, or from zero."""
        chosen: Any = [None] * len(self.blocks)
        found = None if saved is None else read_checkpoint(self._file(saved), self.n_rows)
        if found is not None:
            chosen = np.split(found, np.cumsum([b.n_rows for b in self.blocks])[:-1])
        elif start is not None and start.snapshot in self.snapshots:
            chosen = self.snapshots[start.snapshot]
        ratio = 1.0 if start is None else start.ratio
        made = [
            _State.start(block, objective, alpha, ratio)
            for block, alpha in zip(self.blocks, chosen, strict=True)
        ]
        rng = _core.Rng((seed * 1_000_003 + self.number) % 2**64)
        file = None if saved is None else self._file(saved)
        self.runs[run] = _Run(objective, made, rng, file, self.n_crew)
        return Opened(
            sum(float(block.rows.squared_norms.sum()) for block in self.blocks),
            sum(float(state.cost.sum()) for state in made),
            self.n_rows,
            sum(int(np.count_nonzero(state.cost)) for state in made),
        )

    def _file(self, saved: str) -> str:
        return f"{saved}-{self.number}.npy"

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return sum(block.n_rows for block in self.blocks)

    def forget(self, unwanted: list[tuple[str, int]]) -> None:
        """Nobody can ask for these any more. A run that is over needs no checkpoint."""
        for kind, number in unwanted:
            if kind == "snapshot":
                self.snapshots.pop(number, None)
            elif (run := self.runs.pop(number, None)) is not None and run.saved is not None:
                Path(run.saved).unlink(missing_ok=True)

    def several(self, method: str, calls: list[tuple[Any, ...]]) -> list[Any]:
        """The answers to several messages of one kind, which came as one."""
        return [getattr(self, method)(*arguments) for arguments in calls]

    def visit(self, run: int, order: Order) -> Step:
        """A round: local epochs on the subproblem of CoCoA+, from the weights of all parts."""
        return self.runs[run].visit(order)

    def settle(self, run: int, kept: float) -> tuple[Array, float, float]:
        """Keep that much of the last step: w(alpha), sum alpha_i y_i, and rows inside the box."""
        state = self.runs[run]
        state.keep(kept)
        w, balance, inside = np.zeros(self.n_features + 1), 0.0, 0
        for own in state.states:
            alpha = own.alpha()
            w += own.block.rows.combine(alpha * own.y)
            balance += inner(alpha, own.y)
            between = (alpha > own.piece.lower) & (alpha < own.upper)
            inside += int(np.count_nonzero(between))
        return w, balance, float(inside)

    def near(self, run: int, kept: float, w: Array, b: float) -> Near:
        """Keep that much of the last step, and look which rows may move."""
        state = self.runs[run]
        state.keep(kept)
        for own in state.states:
            own.out = []
        return self._near(run, w, b)

    def _near(self, run: int, w: Array, b: float) -> Near:
        found = [own.near(w, b) for own in self.runs[run].states]
        sizes = np.sum([one.sizes for one in found], axis=0)
        return Near(sizes, sum(one.gap for one in found))

    def gather(self, run: int, kept: float, band: int) -> Share:
        """The rows that `near` found in a band."""
        shares = [own.hand_out(band) for own in self.runs[run].states]
        columns = zip(*(share.X for share in shares), strict=True)
        return Share(
            tuple(np.concatenate(column) for column in columns),
            np.concatenate([share.signed_cost for share in shares]),
            np.concatenate([share.alpha for share in shares]),
        )

    def accept(self, run: int, kept: float, alphas: list[NDArray[Any]], w: Array, b: float) -> Near:
        """New dual variables of each part's rows that were handed out; which others may move."""
        states = self.runs[run].states
        # They went share by share, and in each block by block.
        lengths = np.array([[len(chosen) for chosen in own.out] for own in states])
        pieces = np.split(alphas[self.number], np.cumsum(lengths.T)[:-1])
        for k, own in enumerate(states):
            own.take_back(pieces[k :: len(states)])
        return self._near(run, w, b)

    def totals(self, run: int, kept: float) -> tuple[float, float]:
        """Keep that much of the last step: the sums of positive and negative alpha_i y_i."""
        state = self.runs[run]
        state.keep(kept)
        up = down = 0.0
        for own in state.states:
            alpha = own.alpha()
            signed = alpha * own.y
            up += float(signed[signed > 0].sum())
            down -= float(signed[signed < 0].sum())
        return up, down

    def judge(
        self,
        run: int,
        kept: float,
        w: Array,
        scales: tuple[float, float],
        snapshot: int,
        saved: str | None,
    ) -> Judged:
        """A share of the certificate of w and of alpha, which becomes a snapshot.

        scales: of alpha above and below, which a free bias asks for.
        """
        state = self.runs[run]
        state.keep(kept)
        alphas: list[Array] = []
        judged = total(own.judge(w, scales, alphas) for own in state.states)
        self.snapshots[snapshot] = alphas
        if saved is not None:
            write_checkpoint(self._file(saved), np.concatenate(alphas))
        return judged

    def losses(self, run: int, biases: Array) -> tuple[Array, Array]:
        """Sum C_i loss at the scores last judged, for each bias, and its slope."""
        found = [
            losses_at(own.piece, own.loss, own.look.scores, biases) for own in self.runs[run].states
        ]
        values, slopes = np.sum(found, axis=0)
        return values, slopes

    def judged_loss(self, run: int, b: float) -> Interval:
        """The same for one bias, rounding included."""
        return sum((own.judged_loss(b) for own in self.runs[run].states), start=ZERO)

    def scores(self, w: Array) -> Array:
        """w.x of every row."""
        return np.concatenate([block.rows.scores(w) for block in self.blocks])

    def loss(self, against: Against, w: Array, b: float) -> Interval:
        """sum C_i loss of a problem at any weights."""
        loss, found = loss_from(against.loss), ZERO
        for piece in (block.piece(against) for block in self.blocks):
            look = Pass(w, 0.0, piece.rows.scores(w), quick_error(piece.rows, w)).shifted(b)
            found = found + loss_at(piece, loss, look.scores, look.error)
        return found

    def signs(self, against: Against) -> tuple[Array, Array]:
        """The sign, or the target, and the cost of every row in a problem."""
        pieces = [block.piece(against) for block in self.blocks]
        labels = [p.y if p.targets is None else p.targets for p in pieces]
        return np.concatenate(labels), np.concatenate([p.cost for p in pieces])

    def held(
        self, against: Against, coef: Array, intercept: Array
    ) -> tuple[Array, NDArray[np.intp], Array]:
        """Of the rows that are set aside: their scores, their classes and their own weights."""
        scores, codes, weights = [], [], []
        for block in self.blocks:
            mine = block.aside(against.aside)
            scores.append(block.rows.scores_of_all(coef, intercept)[mine])
            codes.append(block.codes[mine])
            weights.append(block.weight[mine])
        return np.concatenate(scores), np.concatenate(codes), np.concatenate(weights)

    def held_loss(self, against: Against, w: Array, b: float) -> tuple[float, float, float]:
        """Of the rows that are set aside, by their weights: losses, errors, and how many."""
        loss, everything = loss_from(against.loss), replace(against, C=1.0, aside=None)
        losses = errors = count = 0.0
        for block in self.blocks:
            mine, piece = block.aside(against.aside), block.piece(everything)
            cost = np.where(mine, piece.cost, 0.0)
            margins = piece.margins(block.rows.scores(w) + b)
            losses += weighted_sum(cost, loss.value(margins))
            errors += float(cost[margins <= 0].sum())
            count += float(cost.sum())
        return losses, errors, count

    def held_hits(self, against: Against, coef: Array, intercept: Array) -> tuple[float, float]:
        """The weight of the rows that are set aside and guessed rightly, and of all of them."""
        scores, codes, weights = self.held(against, coef, intercept)
        if against.class_weight is not None:
            weights = weights * np.array(against.class_weight)[codes]
        return float(weights[_guess(scores) == codes].sum()), float(weights.sum())

    def totals_without(self, aside: Aside | None, n_classes: int) -> Array:
        """The weight of the rows of each class that are not set aside."""
        found = np.zeros(n_classes)
        for block in self.blocks:
            used = (block.codes >= 0) & ~block.aside(aside)
            found += np.bincount(block.codes[used], block.weight[used], n_classes)
        return found

    def squared_radius(self, against: Against) -> float:
        """A share of the bound on |w*|^2 of a regression."""
        loss = loss_from(against.loss)
        return sum(block.piece(against).squared_radius(loss) for block in self.blocks)

    def combine(self, a: Array, starts: list[int]) -> Array:
        """sum a_i x_i over the rows that are here; a is of all rows."""
        begin, found = starts[self.number], np.zeros(self.n_features + 1)
        for block in self.blocks:
            found += block.rows.combine(np.array(a[begin : begin + block.n_rows]))
            begin += block.n_rows
        return found

    def alpha(self, snapshot: int) -> Array:
        """The dual variables of a snapshot, in the order of the rows."""
        return np.concatenate(self.snapshots[snapshot])

    def errors(self, coef: Array, intercept: Array) -> tuple[int, int]:
        """How many rows of a known class a model gets wrong, and how many there are."""
        wrong = used = 0
        for block in self.blocks:
            scores = block.rows.scores_of_all(coef, intercept)
            guess = _guess(scores)
            counted = block.codes >= 0
            wrong += int(np.count_nonzero((guess != block.codes) & counted))
            used += int(np.count_nonzero(counted))
        return wrong, used


class _Rows:
    """A block that was checked, as the core sees it: without the constant feature."""

    def __init__(self, block: Block, n_threads: int, place: tuple[int, int]) -> None:
        self.name, self.zero_based, self.open_ended = (
            block.name, block.zero_based, block.open_ended,
        )  # fmt: skip
        self.place = place  # the number of the part, and of the block in it
        self._order: tuple[int, Array] | None = None  # see `Aside`, by its seed
        if block.X.shape[0] == 0:
            raise ValueError(f"{self.name} is empty; leave it out, or divide the rows anew")
        try:
            self.rows = MemoryRows(block.X, 0.0, n_threads)
            self.X, self.n_rows, self.n_features = (
                self.rows.X, self.rows.n_rows, self.rows.n_features,
            )  # fmt: skip
            self.y = np.asarray(block.y)
            if self.y.shape != (self.n_rows,):
                raise ValueError(f"{self.n_rows} rows, but labels of shape {self.y.shape}")
            if self.y.dtype.kind == "f" and not np.isfinite(self.y).all():
                raise ValueError("a label is NaN or infinite")
            self.weighted = block.sample_weight is not None
            self.weight = (
                check_vector(block.sample_weight, self.n_rows, "sample_weight")
                if self.weighted
                else np.ones(self.n_rows)
            )
            if (self.weight < 0).any():
                raise ValueError("sample_weight must not be negative")
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        self.nnz = int(self.X.nnz) if hasattr(self.X, "nnz") else int(self.X.size)
        self.codes: NDArray[np.intp] = np.empty(0, np.intp)

    def block(self) -> Block:
        """As it came."""
        weight = self.weight if self.weighted else None
        return Block(self.name, self.X, self.y, weight, self.zero_based, self.open_ended)

    def aside(self, aside: Aside | None) -> NDArray[np.bool_]:
        """Which rows are set aside."""
        if aside is None:
            return np.zeros(self.n_rows, bool)
        if self._order is None or self._order[0] != aside.seed:
            self._order = (aside.seed, self._places(aside.seed))
        places = self._order[1]
        return (places >= aside.low) & (places < aside.high)

    def _places(self, seed: int) -> Array:
        """From 0 to 1, the rows of each class in an order of their own; -1 for those of none."""
        rng, places = np.random.default_rng([seed, *self.place]), np.full(self.n_rows, -1.0)
        order = rng.permutation(self.n_rows)
        for code in np.unique(self.codes[self.codes >= 0]):
            mine = order[(self.codes[order] == code) & (self.weight[order] > 0)]
            # They begin anywhere: where each part has one row, its fold is drawn.
            places[mine] = ((np.arange(len(mine)) + rng.random()) / max(1, len(mine))) % 1.0
        return places

    def piece(self, against: Against) -> Piece:
        """The rows as one problem sees them."""
        loss = loss_from(against.loss)
        if loss.residual:
            y, weight = check_targets(self.y, self.n_rows), self.weight
        else:
            y = np.where(self.codes == against.positive, 1.0, -1.0)
            weight = self.weight * (self.codes >= 0)
        if against.class_weight is not None:
            weight = weight * np.array(against.class_weight)[self.codes]
        if against.aside is not None:
            weight = np.where(self.aside(against.aside), 0.0, weight)
        return Piece.of(self.rows, y, against.C, weight, loss, slice(0, len(y)))

    @property
    def row_bytes(self) -> Array:
        """Of each row: its columns and values, its length, cost and dual variable."""
        if not is_sparse(self.X):
            return np.full(self.n_rows, self.X.shape[1] * self.X.itemsize + 16.0)
        entry = self.X.indices.itemsize + self.X.data.itemsize
        return np.asarray(np.diff(self.X.indptr) * float(entry) + 16.0)

    def take(self, chosen: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        """Lengths, columns and values of some rows, or these rows of a dense matrix."""
        if not is_sparse(self.X):
            return (self.X[chosen],)
        found = self.X[chosen]
        return np.diff(found.indptr).astype(np.int32), found.indices, found.data

    def row(self, i: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """The columns, values and label of a row."""
        if not is_sparse(self.X):
            return np.arange(self.n_features), self.X[i], self.y[i]
        begin, end = int(self.X.indptr[i]), int(self.X.indptr[i + 1])
        return self.X.indices[begin:end].copy(), self.X.data[begin:end].copy(), self.y[i]


@dataclass
class _State:
    """One problem's view of a block: signs, costs, and the descent that holds alpha."""

    block: _Rows
    piece: Piece
    loss: Loss
    descent: Any
    whole_gap: float = np.inf  # when all rows were last visited
    epoch_gap: float = 0.0  # seen in the epoch at hand
    look: Pass = field(default_factory=lambda: Pass(np.empty(0), 0.0, np.empty(0), 0.0))
    out: list[NDArray[np.intp]] = field(default_factory=list)  # rows that were handed out
    band: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))  # see `near`

    @classmethod
    def start(cls, block: _Rows, against: Against, alpha: Array | None, ratio: float) -> _State:
        loss, piece = loss_from(against.loss), block.piece(against)
        start = np.zeros(len(piece.y))
        if alpha is not None:
            start = piece.clipped(rescaled(alpha, piece.lower, piece.upper, ratio, loss))
        return cls(block, piece, loss, _descent(piece, loss, start))

    @property
    def y(self) -> Array:
        return self.piece.y

    @property
    def cost(self) -> Array:
        return self.piece.cost

    @property
    def upper(self) -> Array:
        return self.piece.upper

    def alpha(self) -> Array:
        out = np.empty(len(self.y))
        self.descent.alpha(out)
        out[np.isnan(out)] = 0.0  # what has overflown float32 proves nothing
        return self.piece.clipped(out)  # float32 may have rounded past the bound

    def near(self, w: Array, b: float) -> Near:
        """Of these rows; those that were handed out are not counted."""
        margins = self.piece.margins(self.block.rows.scores(w.astype(np.float64)) + b)
        alpha, room = self.alpha(), 1e-6 * self.cost  # float32 has rounded
        # The narrowest band in which a row is: -1 if it was handed out or rests in all of them.
        self.band = np.full(len(alpha), -1, np.int8)
        for k, width in enumerate(BANDS):
            most, least = (self.cost * self.loss.slope(margins + d) for d in (-width, width))
            self.band[(alpha < most - room) | (alpha > least + room)] = k
        for chosen in self.out:
            self.band[chosen] = -1
        sizes = self.block.row_bytes
        gap = weighted_sum(self.cost, self.loss.value(margins)) + inner(alpha, margins)
        return Near(
            np.array([sizes[self.band >= k].sum() for k in range(len(BANDS))]),
            gap - self.loss.dual_value(alpha, self.cost),
        )

    def hand_out(self, band: int) -> Share:
        """The rows that `near` found in a band."""
        chosen = np.flatnonzero(self.band >= band)
        self.out.append(chosen)
        alpha = self.alpha()[chosen].astype(self.block.X.dtype)
        return Share(self.block.take(chosen), self.piece.signed_cost[chosen], alpha)

    def take_back(self, pieces: list[NDArray[Any]]) -> None:
        """New dual variables of the rows that were handed out: the descent begins anew."""
        alpha = self.alpha()
        for chosen, new in zip(self.out, pieces, strict=True):
            alpha[chosen] = new
        self.descent = _descent(self.piece, self.loss, alpha)
        self.whole_gap, self.epoch_gap = np.inf, 0.0

    def judge(self, w: Array, scales: tuple[float, float], alphas: list[Array]) -> Judged:
        """A share of the certificate; the point that was judged goes to the list."""
        # The last weight is the constant feature's, of which these rows know nothing: it is b.
        joined, b = np.append(w[:-1], 0.0), float(w[-1])
        judged, alpha, self.look = judge_piece(
            self.piece, self.loss, self.alpha(), joined, b, scales
        )
        alphas.append(alpha)
        bracket = bias_bracket(self.piece, self.loss, self.look.scores)
        return replace(judged, loss=self.judged_loss(0.0), bracket=bracket)

    def judged_loss(self, b: float) -> Interval:
        """Sum C_i loss at the scores last judged, with a bias more."""
        look = self.look.shifted(b) if b != 0 else self.look
        return loss_at(self.piece, self.loss, look.scores, look.error)


def _guess(scores: Array) -> NDArray[np.intp]:
    """The class that wins, a column for each function."""
    return scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)


def _descent(piece: Piece, loss: Loss, alpha: Array) -> Any:
    rows = piece.rows
    return _core.steps.dcd_part(
        rows.view, loss.struct, piece.signed_cost, rows.squared_norms, alpha, piece.targets
    )


@dataclass
class _Run:
    objective: Against
    states: list[_State]
    rng: Any
    saved: str | None  # where its checkpoint is
    n_threads: int = 1
    caution: Array = field(default_factory=lambda: np.empty(0))
    # Of blocks that are visited at the same time: see `_Crew`.
    crew: _Crew | None = None

    def keep(self, part: float) -> None:
        for state in self.states:
            state.descent.keep(part)

    def visit(self, order: Order) -> Step:
        self.keep(order.kept)
        if order.caution is not None:
            self.caution = order.caution.astype(np.float64)
            for state in self.states if self.n_threads == 1 else ():
                state.descent.set_caution(self.caution)
        if self.n_threads > 1:
            self.crew = self.crew or _Crew(self.states, self.n_threads, self.rng)
            return self._step(order, *self.crew.visit(order, self.caution))
        w = np.array(order.w, np.float64)
        step, own = np.zeros(len(w)), np.zeros(len(w))
        b, left = order.b, order.epochs
        gap = 0.0
        visits = inside = 0
        while left > 1e-9:
            share = min(1.0, left)
            for state in self.states:
                own[:] = 0.0
                done = state.descent.visit(self.rng, order.bucket, share, w, b, order.response, own)
                step += own
                w += self.caution * own
                b += self.caution[-1] * order.response * done.balance
                gap, visits, inside = gap + done.gap, visits + done.visits, inside + done.inside
                _unshrink(state, done)
            left -= share
        return self._step(order, step, gap, visits, inside)

    def _step(self, order: Order, step: Array, gap: float, visits: int, inside: int) -> Step:
        moves = [state.descent.moved() for state in self.states]
        return Step(
            step.astype(order.w.dtype),
            sum(move.separable for move in moves), sum(move.balance for move in moves),
            sum(move.curvature for move in moves), gap, visits, inside,
        )  # fmt: skip


LOCAL = 0.1  # epochs that threads work before they hear of each other


class _Crew:
    """Blocks of a part that are visited at the same time, each from the weights of all.

    As the parts of a cluster among each other: each block is cautious of the others, feature by
    feature, by how much their steps pushed it the same way of late. That is of this part alone, and
    multiplies the caution that all parts have. The order of the blocks is fixed and each has random
    numbers of its own: nothing depends on which thread was first.
    """

    def __init__(self, states: list[_State], n_threads: int, rng: Any) -> None:
        self.n_threads = n_threads
        self.waves = [
            states[begin : begin + n_threads] for begin in range(0, len(states), n_threads)
        ]
        self.rngs = [[_core.Rng(rng.next()) for _ in wave] for wave in self.waves]
        self.together: Array = np.empty(0)
        self.apart: Array = np.empty(0)
        self.worked = self.told = 0.0  # epochs

    def visit(self, order: Order, caution: Array) -> tuple[Array, float, int, int]:
        """The blocks' steps in sum; the gap seen, visits, and rows inside."""
        w, b, left = np.array(order.w, np.float64), order.b, order.epochs
        step, gap, visits, inside = np.zeros(len(w)), 0.0, 0, 0
        if order.caution is not None or self.worked >= self.told:
            self._tell(caution)
        with Threads(self.n_threads, "bridle-part") as pool:
            while left > 1e-9:
                share = min(LOCAL, left)
                for wave, rngs in zip(self.waves, self.rngs, strict=True):
                    found = list(pool.map(partial(_visit, order, share, w, b), wave, rngs))
                    balance = sum(done.balance for _, done in found)
                    self._learn([own for own, _ in found])
                    for state, (own, done) in zip(wave, found, strict=True):
                        step += own
                        w = w + caution * own
                        gap, visits = gap + done.gap, visits + done.visits
                        inside += done.inside
                        _unshrink(state, done)
                    b += caution[-1] * order.response * balance
                left -= share
                self.worked += share
        return step, gap, visits, inside

    def _learn(self, steps: list[Array]) -> None:
        if not len(self.apart):
            self.together, self.apart = np.zeros(len(steps[0])), np.zeros(len(steps[0]))
        self.together = (1 - LOCAL) * self.together + np.sum(steps, axis=0) ** 2
        self.apart = (1 - LOCAL) * self.apart + np.sum([own * own for own in steps], axis=0)

    def _tell(self, caution: Array) -> None:
        """The blocks hear how cautious they must be: often at first, then once an epoch."""
        self.told = self.worked + min(1.0, max(LOCAL, self.worked))
        most = float(self.n_threads)
        own = np.full(len(caution), most)
        if len(self.apart):
            whole = float(self.apart.sum())
            overall = float(self.together.sum()) / whole if whole > 0 else most
            own = np.full(len(caution), overall)
            np.divide(self.together, self.apart, out=own, where=self.apart > 0)
        total = caution * np.clip(own, 1.0, most)
        total[-1] = caution[-1] * most  # the bias, which all of them push
        for wave in self.waves:
            for state in wave:
                state.descent.set_caution(total)


def _visit(
    order: Order, share: float, w: Array, b: float, state: _State, rng: Any
) -> tuple[Array, Any]:
    """A share of an epoch of a block, from these weights: its step, and what it saw."""
    own = np.zeros(len(w))
    return own, state.descent.visit(rng, order.bucket, share, w, b, order.response, own)


def _most_at_once(block: Block) -> int:
    """In how many pieces the work on a block is worth it; 1 if it is not as it should be."""
    plain = isinstance(block.X, np.ndarray) or getattr(block.X, "format", "") == "csr"
    if not plain or block.X.ndim != 2 or np.shape(block.y) != block.X.shape[:1]:
        return 1
    entries = block.X.nnz if hasattr(block.X, "nnz") else block.X.size
    worth = int(LOCAL * entries / (WORTH * (block.X.shape[1] + 1)))
    return max(1, min(worth, int(block.X.shape[0]) // 2))


def _divided(block: Block, n_blocks: int, n_threads: int) -> list[Block]:
    """A block in as many pieces as give each thread one; one piece if there are enough blocks."""
    n = min(-(-n_threads // n_blocks), _most_at_once(block))
    if n <= 1:
        return [block]
    n_rows = block.X.shape[0]
    cuts = np.linspace(0, n_rows, n + 1).astype(int).tolist()
    y, weight = np.asarray(block.y), block.sample_weight
    return [
        replace(
            block, X=block.X[a:b], y=y[a:b],
            sample_weight=None if weight is None else np.asarray(weight)[a:b],
        )
        for a, b in pairwise(cuts)
    ]  # fmt: skip


def _unshrink(state: _State, done: Any) -> None:
    """As in dcd: once the active rows are far more accurate, the others deserve a look."""
    state.epoch_gap += done.gap
    if not done.finished:
        return
    gap, state.epoch_gap = state.epoch_gap, 0.0
    if done.whole:
        state.whole_gap = gap
    elif gap <= 0.1 * state.whole_gap:
        state.descent.unshrink()


def check_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Blocks have the same columns, or they are not parts of one problem."""
    if one["zero_based"] != other["zero_based"]:
        zero, rest = (one, other) if one["zero_based"] else (other, one)
        raise ValueError(
            f"{zero['name']} counts features from 0, but {rest['name']} from 1: their columns "
            f"differ; {_hint(one, 'convert both with --zero-based', 'give zero_based=True')}"
        )
    if one["n_features"] != other["n_features"]:
        widest = max(one["n_features"], other["n_features"])
        files = str(one["name"]).endswith(".arrow")
        hint = f"; see bridle convert --features {widest}" if files else ""
        raise ValueError(
            f"{one['name']} has {one['n_features']} features, but {other['name']} has "
            f"{other['n_features']}{hint}"
        )


def _hint(one: Mapping[str, Any], converted: str, read: str) -> str:
    return converted if str(one["name"]).endswith(".arrow") else read


def write_checkpoint(path: str, alpha: Array) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    with replacing(path) as file:
        np.save(file, alpha)


def read_checkpoint(path: str, n_rows: int) -> Array | None:
    """The dual variables in a file; None if there is none, or none of these rows."""
    if not Path(path).exists():
        return None
    alpha: Array = np.load(path, allow_pickle=False)
    return alpha if alpha.shape == (n_rows,) and np.isfinite(alpha).all() else None
