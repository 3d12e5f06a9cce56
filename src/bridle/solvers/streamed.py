"""Epochs over rows on disk: ranges of rows in random order, the rows of each in random buckets.

Dual coordinate descent as in dcd.py. Rows that rest at their bounds are left out as there; once
the others fit into the memory that is allowed they are copied into it, and the epochs go on with
them alone, without reading, until it is time to look at all rows again.

Within an epoch an iterate goes out from time to time, so that a run can be stopped or
saved; it claims no gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.rows import check_vector
from bridle.solvers.base import Array, Iterate, Iterates
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.streamed_problem import Piece, StreamedProblem

# Bytes of rows between two iterates, at least.
STRETCH = 1 << 29


def stretches(problem: StreamedProblem, rng: _core.Rng) -> Iterator[NDArray[np.int64]]:
    """The ranges of an epoch in random order, in pieces of at least STRETCH bytes."""
    order = np.empty(len(problem.stream), np.int64)
    rng.permutation(order)
    sizes = np.cumsum(problem.stream.sizes[order])
    cuts = np.flatnonzero(np.diff(sizes // STRETCH)) + 1
    yield from np.split(order, cuts)


@dataclass
class Kept:
    """Copies of the rows that do not rest."""

    number: NDArray[np.int64]  # of each row, among all
    offsets: NDArray[np.int64]
    columns: NDArray[Any]
    values: NDArray[Any]
    signed_cost: Array
    squared_norms: Array
    alpha: Array
    resting: NDArray[np.uint8]
    n_rows: int = 0
    nnz: int = 0

    @classmethod
    def room(cls, problem: StreamedProblem, n_rows: int, nnz: int) -> Kept:
        """For so many rows and entries."""
        source = problem.source
        return cls(
            number=np.empty(n_rows, np.int64), offsets=np.zeros(n_rows + 1, np.int64),
            columns=np.empty(nnz, source.column_dtype), values=np.empty(nnz, source.dtype),
            signed_cost=np.empty(n_rows), squared_norms=np.empty(n_rows), alpha=np.empty(n_rows),
            resting=np.zeros(n_rows, np.uint8),
        )  # fmt: skip

    @staticmethod
    def bytes_for(problem: StreamedProblem, n_rows: int, nnz: int) -> int:
        """Of memory, the solver's own record of these rows included."""
        source = problem.source
        return 100 * n_rows + nnz * (source.column_dtype.itemsize + source.dtype.itemsize)

    def append(self, piece: Piece, alpha: Array, resting: NDArray[np.uint8]) -> None:
        """The rows of a piece that do not rest."""
        left_out = resting | (piece.cost == 0)
        chosen = np.flatnonzero(left_out == 0)
        mine = slice(self.n_rows, self.n_rows + len(chosen))
        self.nnz = _core.append_rows(
            piece.part.rows, left_out, self.nnz, self.offsets[mine.start + 1 : mine.stop + 1],
            self.columns, self.values,
        )  # fmt: skip
        self.number[mine] = chosen + piece.where.start
        self.signed_cost[mine] = piece.signed_cost[chosen]
        self.squared_norms[mine] = piece.part.squared_norms[chosen]
        self.alpha[mine] = alpha[chosen]
        self.n_rows = mine.stop

    def rows(self, problem: StreamedProblem) -> _core.Rows:
        """As the kernels see them, once all have been appended."""
        return _core.csr_rows(
            self.offsets[: self.n_rows + 1], self.columns, self.values, problem.n_features,
            problem.constant_feature, self,
        )  # fmt: skip


class Descent:
    """The state of dual coordinate descent on a streamed problem."""

    def __init__(self, problem: StreamedProblem, start: Any, *, bucket: int, n_blocks: int) -> None:
        from bridle.streamed_problem import Sums

        self.problem, self.bucket = problem, bucket
        self.alpha = problem.start_alpha(start)
        warm = start is not None and start.alpha is not None and bool(self.alpha.any())
        problem.vectors.release(self.alpha)
        sums = problem.sums(self.alpha) if warm else Sums(np.zeros(problem.n_features + 1), 0, 0)
        bias = 0.0 if start is None else float(start.b)
        self.kernel = problem.descent(sums, bias, n_blocks)
        self.resting = problem.vectors.zeros(np.uint8)
        self.kept: Kept | None = None
        self.room: Kept | None = None  # being filled in this epoch
        self.w = np.zeros(problem.n_features + 1)

    def visit(self, piece: Piece, rng: _core.Rng) -> None:
        """Every row of a piece that does not rest, once."""
        where = piece.where
        alpha, resting = np.array(self.alpha[where]), np.array(self.resting[where])
        self.kernel.visit(
            piece.part.rows, piece.signed_cost, piece.part.squared_norms, alpha, resting, rng,
            self.bucket,
        )  # fmt: skip
        self.alpha[where], self.resting[where] = alpha, resting
        if self.room is not None:
            self.room.append(piece, alpha, resting)
        self.problem.vectors.release(self.alpha, self.resting)

    def visit_kept(self, rng: _core.Rng) -> None:
        """An epoch on the copies alone."""
        kept = self.kept
        assert kept is not None
        n = kept.n_rows
        self.kernel.visit(
            kept.rows(self.problem), kept.signed_cost[:n], kept.squared_norms[:n], kept.alpha[:n],
            kept.resting[:n], rng, self.bucket,
        )  # fmt: skip
        self.alpha[kept.number[:n]] = kept.alpha[:n]

    def end_epoch(self) -> _core.StreamedEpoch:
        """What the epoch saw; decides where the next one reads its rows."""
        done = self.kernel.end_epoch()
        plan = self.problem.stream.plan
        if self.kept is None and plan is not None and not plan.resident and done.active:
            if self.room is not None:
                self.kept, self.room = self.room, None
            elif Kept.bytes_for(self.problem, done.active, done.active_nnz) <= plan.keep_bytes:
                # No more rows than these will be active after the next epoch.
                self.room = Kept.room(self.problem, done.active, done.active_nnz)
        return done

    def wake_all(self) -> None:
        """The next epoch visits every row."""
        self.kept = self.room = None
        self.resting[:] = 0
        self.problem.vectors.release(self.resting)
        self.kernel.forget_bounds()

    def iterate(self, step: int, epoch: float, estimate: float | None) -> Iterate:
        """Where it is."""
        self.kernel.weights(self.w)
        w, b = self.problem.split(self.w, self.kernel.bias)
        return Iterate(step, epoch, w, b, self.alpha, gap_estimate=estimate)


def descend(
    problem: StreamedProblem, *, start: Any, rng: _core.Rng, bucket: int, n_blocks: int
) -> Iterates:
    """Dual coordinate descent: an iterate after each epoch, and some within."""
    from bridle.solvers.dcd import GapEstimate

    state = Descent(problem, start, bucket=bucket, n_blocks=n_blocks)
    step, epoch, whole_gap = 0, 0.0, np.inf
    estimate = GapEstimate()
    estimate.epoch = 3  # the first epochs here are like all others
    n_bytes = int(problem.stream.sizes.sum())
    while True:
        if state.kept is not None:
            state.visit_kept(rng)
            step += state.kept.n_rows
            epoch += state.kept.n_rows / problem.n_rows
        else:
            seen = 0
            for order in stretches(problem, rng):
                if seen:
                    yield state.iterate(step, epoch + seen / n_bytes, np.inf)
                for piece in problem.pieces(order):
                    state.visit(piece, rng)
                    step += len(piece.y)
                seen += int(problem.stream.sizes[order].sum())
            epoch += 1
        # The kernel knows only of the rows that it was shown: copies are never all of them.
        whole = state.kept is None
        done = state.end_epoch()
        whole = whole and done.whole
        if whole:
            whole_gap = done.gap
        elif done.gap <= 0.1 * whole_gap:
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
