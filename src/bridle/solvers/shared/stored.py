"""Epochs over rows on disk: ranges of rows in random order, the rows of each in random buckets.

Dual coordinate descent as in dcd.py. Rows that rest at their bounds are left out as there. The
others are copied into the memory that is allowed as they come. When that is full, the copies are
visited some more times and make room: rows that were read once are worth several visits (Yu, Hsieh,
Chang & Lin, "Large linear classification when data cannot fit in memory", KDD 2010; Chang & Roth,
"Selective block minimization for faster convergence of limited memory large-scale linear models",
KDD 2011). If all of an epoch's are still there at its end, the epochs go on with them alone,
without reading, until it is time to look at all rows again.

Within an epoch an iterate goes out from time to time, so that a run can be stopped or saved; it
claims no gap. In the first epoch from zero, whose steps are those of m/t v (core/dcd.hpp), its w is
m/t v and its alpha that of v: both are true points, and whoever goes on from alpha does so with
epochs like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.matrix.door import check_vector
from bridle.objective.point import Iterate
from bridle.solvers.base import Array, Iterates
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.problems.streamed import Piece, StreamedProblem


# Bytes of rows between two iterates, at least.
STRETCH = 1 << 29


# Copies of rows are visited again before they make room for others: so often that this takes about
# this part of an epoch of all rows, and at least once. That is next to nothing beside the reading,
# most of it falls to the few rows that move to the end, and those are what reading is for.
AGAIN, MOST_AGAIN = 0.6, 8


# Of memory beside the entries of a copied row, the solver's own record of it included.
ROW_BYTES = 100


SOME = 1 << 13  # rows


def stretches(problem: StreamedProblem, rng: _core.Rng) -> Iterator[NDArray[np.int64]]:
    """The ranges of an epoch in random order, in pieces of at least STRETCH bytes."""
    order = np.empty(len(problem.stream), np.int64)
    rng.permutation(order)
    sizes = np.cumsum(problem.stream.sizes[order])
    cuts = np.flatnonzero(np.diff(sizes // STRETCH)) + 1
    yield from np.split(order, cuts)


@dataclass
class Kept:
    """Copies of rows that do not rest, in a bounded number of bytes."""

    most_bytes: int
    number: NDArray[np.int64]  # of each row, among all
    offsets: NDArray[np.int64]
    columns: NDArray[Any]
    values: NDArray[Any]
    signed_cost: Array
    squared_norms: Array
    alpha: Array
    resting: NDArray[np.uint8]
    n_rows: int = 0

    @classmethod
    def within(cls, problem: StreamedProblem, most_bytes: int) -> Kept:
        """For as many rows or entries as fit, whichever there are more of.

        The arrays have more room than the memory: what is not written to needs none.
        """
        source = problem.source
        n_rows = most_bytes // ROW_BYTES
        nnz = most_bytes // (source.column_dtype.itemsize + source.dtype.itemsize)
        return cls(
            most_bytes=most_bytes,
            number=np.empty(n_rows, np.int64), offsets=np.zeros(n_rows + 1, np.int64),
            columns=np.empty(nnz, source.column_dtype), values=np.empty(nnz, source.dtype),
            signed_cost=np.empty(n_rows), squared_norms=np.empty(n_rows), alpha=np.empty(n_rows),
            resting=np.zeros(n_rows, np.uint8),
        )  # fmt: skip

    @property
    def nnz(self) -> int:
        """The stored entries."""
        return int(self.offsets[self.n_rows])

    def has_room(self, n_rows: int, nnz: int) -> bool:
        """For so many more."""
        entry_bytes = self.columns.itemsize + self.values.itemsize
        n_bytes = (self.n_rows + n_rows) * ROW_BYTES + (self.nnz + nnz) * entry_bytes
        return n_bytes <= self.most_bytes

    def append(self, piece: Piece, chosen: NDArray[np.int64], alpha: Array) -> None:
        """These rows of a piece, for which there is room."""
        mine = slice(self.n_rows, self.n_rows + len(chosen))
        _core.append_rows(
            piece.part.rows, chosen, self.nnz, self.offsets[mine.start + 1 : mine.stop + 1],
            self.columns, self.values,
        )  # fmt: skip
        self.number[mine] = chosen + piece.where.start
        self.signed_cost[mine] = piece.signed_cost[chosen]
        self.squared_norms[mine] = piece.part.squared_norms[chosen]
        self.alpha[mine] = alpha[chosen]
        self.resting[mine] = 0
        self.n_rows = mine.stop

    def clear(self) -> None:
        """Make room."""
        self.n_rows = 0

    def show(self, visit: Any, problem: StreamedProblem, rng: _core.Rng, bucket: int) -> None:
        """To the kernel, which visits those that do not rest."""
        n = self.n_rows
        rows = _core.csr_rows(
            self.offsets[: n + 1], self.columns, self.values, problem.n_features,
            problem.constant_feature, self,
        )  # fmt: skip
        visit(
            rows, self.signed_cost[:n], self.squared_norms[:n], self.alpha[:n], self.resting[:n],
            rng, bucket,
        )  # fmt: skip


class Descent:
    """The state of dual coordinate descent on a streamed problem.

    kept: where copies of rows go, if there is memory for any. all_kept: it has all rows that do not
    rest, and the next epoch reads nothing.
    """

    def __init__(self, problem: StreamedProblem, start: Any, *, bucket: int, n_blocks: int) -> None:
        self.problem, self.bucket = problem, bucket
        self.alpha = problem.start_alpha(start)
        self.from_zero = not self.alpha.any()
        problem.vectors.release(self.alpha)
        bias = 0.0 if start is None else float(start.b)
        sums = None if self.from_zero else problem.sums(self.alpha)
        self.kernel = problem.descent(sums, bias, n_blocks)
        self.resting = problem.vectors.zeros(np.uint8)
        plan = problem.stream.plan
        self.kept = Kept.within(problem, plan.keep_bytes) if plan and plan.keep_bytes else None
        self.all_kept = False
        self.w = np.zeros(problem.n_features + 1)
        self._copying = not self.from_zero  # in that epoch no row rests, and none comes twice
        self._made_room = False  # in this epoch
        self._again = 1

    def visit(self, piece: Piece, rng: _core.Rng) -> None:
        """Every row of a piece that does not rest, once."""
        where = piece.where
        alpha, resting = np.array(self.alpha[where]), np.array(self.resting[where])
        self.kernel.visit(
            piece.part.rows, piece.signed_cost, piece.part.squared_norms, alpha, resting, rng,
            self.bucket,
        )  # fmt: skip
        self.alpha[where], self.resting[where] = alpha, resting
        if self.kept is not None and self._copying:
            chosen = np.flatnonzero((resting == 0) & (piece.cost != 0))
            offsets = piece.part.batch.offsets
            nnz = int((offsets[chosen + 1] - offsets[chosen]).sum())
            if not self.kept.has_room(len(chosen), nnz):
                self._make_room(self.kept, rng)
            if self.kept.has_room(len(chosen), nnz):
                self.kept.append(piece, chosen, alpha)
        self.problem.vectors.release(self.alpha, self.resting)

    def _make_room(self, kept: Kept, rng: _core.Rng) -> None:
        """A last look at the copies."""
        for _ in range(self._again):
            kept.show(self.kernel.visit_again, self.problem, rng, self.bucket)
        self._write_down(kept)
        kept.clear()
        self._made_room = True

    def _write_down(self, kept: Kept) -> None:
        """What is known of the copies, some at a time: if the vectors are on disk, few pages."""
        for begin in range(0, kept.n_rows, SOME):
            some = slice(begin, min(begin + SOME, kept.n_rows))
            mine = kept.number[some]
            self.alpha[mine] = kept.alpha[some]
            self.resting[mine] = kept.resting[some]
            self.problem.vectors.release(self.alpha, self.resting)

    def visit_kept(self, rng: _core.Rng) -> int:
        """An epoch on the copies alone; how many rows it visits."""
        assert self.kept is not None
        kept, n = self.kept, self.kept.n_rows
        n_visits = n - int(np.count_nonzero(kept.resting[:n]))
        kept.show(self.kernel.visit, self.problem, rng, self.bucket)
        self._write_down(kept)
        return n_visits

    def end_epoch(self, rng: _core.Rng) -> _core.DcdEpoch:
        """What the epoch saw; decides where the next one reads its rows."""
        if self.kept is not None and self._copying and not self.all_kept:
            if self._made_room:
                self._make_room(self.kept, rng)
            self.all_kept = self.kept.n_rows > 0
        self._copying, self._made_room = True, False
        done = self.kernel.end_epoch()
        often = AGAIN * self.problem.n_rows / max(1, done.active)
        self._again = min(MOST_AGAIN, max(1, round(often)))
        return done

    def wake_all(self) -> None:
        """The next epoch visits every row."""
        if self.kept is not None:
            self.kept.clear()
        self.all_kept = False
        self.resting[:] = 0
        self.problem.vectors.release(self.resting)

    def iterate(self, step: int, epoch: float, estimate: float | None) -> Iterate:
        """Where it is."""
        self.kernel.weights(self.w)
        w, b = self.problem.split(self.w, self.kernel.bias)
        return Iterate(step, epoch, w, b, self.alpha, gap_estimate=estimate)


def descend(
    problem: StreamedProblem, *, start: Any, rng: _core.Rng, bucket: int, n_blocks: int
) -> Iterates:
    """Dual coordinate descent: an iterate after each epoch, and some within."""
    from bridle.solvers.shared.gap_estimates import GapEstimate

    state = Descent(problem, start, bucket=bucket, n_blocks=n_blocks)
    step, epoch, whole_gap = 0, 0.0, np.inf
    # The second epoch from zero sees most of all what the first one did before it knew w, and is
    # much further at its end; the rate of the third is then too good to last.
    estimate = GapEstimate(0.5, (1.5, 0.4)) if state.from_zero else GapEstimate(1.0)
    n_bytes = int(problem.stream.sizes.sum())
    while True:
        # The kernel knows only of the rows that it was shown: copies are never all of them.
        from_disk = not state.all_kept
        if from_disk:
            seen = 0
            for order in stretches(problem, rng):
                if seen:
                    yield state.iterate(step, epoch + seen / n_bytes, np.inf)
                for piece in problem.pieces(order):
                    state.visit(piece, rng)
                    step += len(piece.y)
                seen += int(problem.stream.sizes[order].sum())
            epoch += 1
        else:
            n_visits = state.visit_kept(rng)
            step += n_visits
            epoch += n_visits / problem.n_rows
        done = state.end_epoch(rng)
        whole = from_disk and done.whole
        if whole:
            whole_gap = done.gap
        if done.active == 0 or (not whole and done.gap <= 0.1 * whole_gap):
            state.wake_all()
        primal = done.dual + done.gap
        guess = estimate.after(done.gap / primal) if 0 < primal < np.inf else None
        certificate = yield state.iterate(step, epoch, guess)
        if certificate is not None:
            estimate.learn(certificate.relative_gap)
            if not whole:
                state.wake_all()


class StreamedGradient:
    """Stochastic gradient steps that go from range to range: _core.StochasticGradient's methods.

    An epoch takes the ranges in random order; each gives as many steps as it has rows, or whole
    minibatches of them.
    """

    def __init__(
        self, problem: StreamedProblem, w: Array, b: float, alpha: Array, settings: Any
    ) -> None:
        self.problem = problem
        piece = problem.first_piece()
        self.kernel = _core.stochastic_gradient(
            piece.part.rows, problem.loss.name, piece.signed_cost, piece.part.squared_norms,
            w, b, check_vector(alpha, problem.n_rows, "alpha"), settings,
        )  # fmt: skip

    def run(self, n_steps: int, rng: _core.Rng) -> None:
        """An epoch's steps, spread over all ranges in proportion to their rows."""
        rows = done = 0
        for order in stretches(self.problem, rng):
            for piece in self.problem.pieces(order):
                part = piece.part
                rows += len(piece.y)
                steps = rows * n_steps // self.problem.n_rows - done
                if steps:
                    self.kernel.enter(
                        part.rows, piece.signed_cost, part.squared_norms, piece.where.start
                    )
                    self.kernel.run(steps, rng)
                done += steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)
