"""One part of the rows of a cluster: some rows, and for each problem over them their alpha.

A part knows nothing of the other parts, nor how its answers travel. Every method is one message:
small arguments, and at most one vector of n_features + 1 numbers each way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bridle import _core
from bridle.files.atomic import replacing
from bridle.matrix.arrays import Array
from bridle.objective.losses import inner, loss_from, weighted_sum
from bridle.objective.rounding import ZERO, Interval
from bridle.rows.base import Judged, Scales, loss_at, losses_at, total
from bridle.rows.cluster.blocks import Block, BlockRows, check_alike, divided, most_at_once
from bridle.rows.cluster.messages import (
    Against,
    Aside,
    FromSnapshot,
    Opened,
    Order,
    PartsLostError,
    Share,
    Step,
)
from bridle.rows.cluster.stored import StoredBlock, StoredRowsOfPart, state_of
from bridle.rows.cluster.visits import PartRun
from numpy.typing import NDArray


class Part:
    """Rows and alpha. With several threads the rows are visited in as many blocks at a time."""

    def __init__(
        self, number: int, blocks: Sequence[Block | StoredBlock], n_threads: int = 1
    ) -> None:  # fmt: skip
        if not blocks:
            raise ValueError(f"part {number} has no rows: there are more parts than partitions")
        held = [block for block in blocks if isinstance(block, Block)]
        widest = max((block.X.shape[1] for block in held if block.open_ended), default=0)
        held = [block.wider(widest) for block in held]
        self.n_crew = 1  # ranges of a disk come one after the other
        if len(held) == len(blocks):
            self.n_crew = min(n_threads, max(map(most_at_once, held)) * len(held))
            held = [piece for block in held for piece in divided(block, len(held), self.n_crew)]
        self.number, self.n_threads = number, n_threads
        stored = [block for block in blocks if not isinstance(block, Block)]
        self.blocks: list[BlockRows | StoredRowsOfPart] = [
            BlockRows(block, n_threads, (number, k)) for k, block in enumerate(held)
        ]
        self.blocks += [
            StoredRowsOfPart(block, n_threads, (number, len(held) + k))
            for k, block in enumerate(stored)
        ]
        first = self.blocks[0]
        for block in self.blocks[1:]:
            check_alike(vars(block), vars(first))
        self.n_features, self.zero_based = first.n_features, first.zero_based
        self.runs: dict[int, PartRun] = {}
        self.snapshots: dict[int, list[Array]] = {}

    def describe(self) -> dict[str, Any]:
        """Sizes, labels and the total weight of each."""
        labels = [np.unique(block.y[block.weight > 0]) for block in self.blocks]
        classes = np.unique(np.concatenate(labels))
        squares = [block.squares(block.weight) for block in self.blocks]
        weights = [
            sum(float(block.weight[block.y == label].sum()) for block in self.blocks)
            for label in classes
        ]
        return {
            "n_rows": sum(block.n_rows for block in self.blocks),
            "n_features": self.n_features,
            "stored": any(isinstance(block, StoredRowsOfPart) for block in self.blocks),
            "name": self.blocks[0].name,
            "nnz": sum(block.nnz for block in self.blocks),
            "dtype": str(np.result_type(*(block.dtype for block in self.blocks))),
            "classes": classes,
            "weights": np.array(weights),
            "squares": sum(squares),
            "weighted": any(block.weighted for block in self.blocks),
            "zero_based": self.zero_based,
            "open_ended": all(block.open_ended for block in self.blocks),
        }

    def widen(self, n_features: int) -> None:
        """To the width of other parts, where rows of texts do not show how wide the data are."""
        for k, own in enumerate(self.blocks):
            block = own.block()
            if (wider := block.wider(n_features)) is not block:
                self.blocks[k] = BlockRows(wider, self.n_threads, own.place)
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
        self, run: int, objective: Against, seed: int, start: FromSnapshot | None,
        saved: str | None, alone: bool = False,
    ) -> Opened:  # fmt: skip
        """Begin to solve a problem: from a start, from a checkpoint that is there, or from zero."""
        chosen: Any = [None] * len(self.blocks)
        found = None if saved is None else read_checkpoint(self._file(saved), self.n_rows)
        if found is not None:
            chosen = np.split(found, np.cumsum([b.n_rows for b in self.blocks])[:-1])
        elif start is not None and start.snapshot in self.snapshots:
            chosen = self.snapshots[start.snapshot]
        ratio = 1.0 if start is None else start.ratio
        made = [
            state_of(block, objective, alpha, ratio)
            for block, alpha in zip(self.blocks, chosen, strict=True)
        ]
        rng = _core.Rng((seed * 1_000_003 + self.number) % 2**64)
        file = None if saved is None else self._file(saved)
        self.runs[run] = PartRun(objective, made, rng, file, self.n_crew, alone)
        return Opened(
            sum(block.squares() for block in self.blocks),
            sum(float(state.cost.sum()) for state in made),
            self.n_rows,
            sum(int(np.count_nonzero(state.cost)) for state in made),
            all(alpha is None for alpha in chosen),
        )

    def run(self, number: int) -> PartRun:
        """A solve; PartsLostError if it began before this part did, which another solve noticed."""
        if number not in self.runs:
            raise PartsLostError([self.number], f"part {self.number} was read again meanwhile")
        return self.runs[number]

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
        return self.run(run).visit(order)

    def settle(self, run: int, kept: float) -> tuple[Array, float, float, float]:
        """Keep that much of the last step.

        Says w(alpha), sum alpha_i y_i, the dual value but for 1/2 |w|^2, and rows inside the box.
        """
        state = self.run(run)
        state.keep(kept)
        w, balance, separable, inside = np.zeros(self.n_features + 1), 0.0, 0.0, 0
        for own in state.states:
            alpha = own.alpha()
            if alpha.any():
                w += own.block.rows.combine(alpha * own.y)
            balance += inner(alpha, own.y)
            separable += own.separable(alpha)
            between = (alpha > own.piece.lower) & (alpha < own.upper)
            inside += int(np.count_nonzero(between))
        return w, balance, separable, float(inside)

    def near(self, run: int, kept: float, anew: bool, w: Array | None, b: float) -> Array:
        """Keep that much of the last step: the bytes of the rows that may move, for each band.

        anew: as if none had been handed out. w: None if it is what was judged last.
        """
        state = self.run(run)
        state.keep(kept)
        for own in state.states if anew else ():
            own.out = []
        sizes: Array = np.sum([own.near(w, b) for own in state.states], axis=0)
        return sizes

    def gather(self, run: int, kept: float, band: int) -> Share:
        """The rows that `near` found in a band."""
        shares = [own.hand_out(band) for own in self.run(run).states]
        columns = zip(*(share.X for share in shares), strict=True)
        return Share(
            tuple(np.concatenate(column) for column in columns),
            np.concatenate([share.signed_cost for share in shares]),
            np.concatenate([share.alpha for share in shares]),
        )

    def accept(self, run: int, kept: float, alphas: list[NDArray[Any]]) -> None:
        """New dual variables of each part's rows that were handed out."""
        states = self.run(run).states
        # They went share by share, and in each block by block.
        lengths = np.array([[len(chosen) for chosen in own.out] for own in states])
        pieces = np.split(alphas[self.number], np.cumsum(lengths.T)[:-1])
        for k, own in enumerate(states):
            own.take_back(pieces[k :: len(states)])

    def totals(self, run: int, kept: float) -> tuple[float, float]:
        """Keep that much of the last step: the sums of positive and negative alpha_i y_i."""
        state = self.run(run)
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
        scales: Scales,
        snapshot: int,
        saved: str | None,
    ) -> Judged:
        """A share of the certificate of w and of alpha, which becomes a snapshot.

        scales: of alpha, which a free bias asks for.
        """
        state = self.run(run)
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
            losses_at(own.piece, own.loss, own.look.scores, biases) for own in self.run(run).states
        ]
        values, slopes = np.sum(found, axis=0)
        return values, slopes

    def judged_loss(self, run: int, b: float) -> Interval:
        """The same for one bias, rounding included."""
        return sum((own.judged_loss(b) for own in self.run(run).states), start=ZERO)

    def scores(self, w: Array) -> Array:
        """w.x of every row."""
        return np.concatenate([block.rows.scores(w) for block in self.blocks])

    def loss(self, against: Against, w: Array, b: float) -> Interval:
        """sum C_i loss of a problem at any weights."""
        loss, found = loss_from(against.loss), ZERO
        for block in self.blocks:
            look = block.look(w).shifted(b)
            found = found + loss_at(block.piece(against), loss, look.scores, look.error)
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
            scores.append(block.scores_of_all(coef, intercept)[mine])
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
            scores = block.scores_of_all(coef, intercept)
            guess = _guess(scores)
            counted = block.codes >= 0
            wrong += int(np.count_nonzero((guess != block.codes) & counted))
            used += int(np.count_nonzero(counted))
        return wrong, used


def _guess(scores: Array) -> NDArray[np.intp]:
    """The class that wins, a column for each function."""
    return scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(np.intp)


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
