"""Epochs over rows on disk: ranges of rows in random order, the rows of each in random buckets.

Dual coordinate descent as in dcd.py. Rows that rest at their bounds are left out as there. The
others are copied into the memory that is allowed as they come. When that is full, the copies are
visited some more times and make room: rows that were read once are worth several visits (Yu, Hsieh,
Chang & Lin, "Large linear classification when data cannot fit in memory", KDD 2010; Chang & Roth,
"Selective block minimization for faster convergence of limited memory large-scale linear models",
KDD 2011). If all of an epoch's are still there at its end, the epochs go on with them alone,
without reading, until it is time to look at all rows again.

Within an epoch an iterate goes out from time to time, so that a run can be stopped or saved; it
claims no gap. In the first epoch from zero, whose steps are those of m/t v
(core/linear/dcd/state.hpp), its w is m/t v and its alpha that of v: both are true points, and
whoever goes on from alpha does so with epochs like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.rows.base import Piece
from bridle.rows.disk.kept import Kept
from bridle.solvers.base import Iterates
from bridle.solvers.shared.gap_estimates import GapEstimate
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem
    from bridle.rows.disk.ranges import DiskRows, Range
    from bridle.rows.disk.sides import DiskSides


# Bytes of rows between two iterates, at least.
STRETCH = 1 << 29

# Copies of rows are visited again before they make room for others: so often that this takes about
# this part of an epoch of all rows, and at least once. That is next to nothing beside the reading,
# most of it falls to the few rows that move to the end, and those are what reading is for.
AGAIN, MOST_AGAIN = 0.6, 8

SOME = 1 << 13  # rows


def stretches(rows: DiskRows, rng: _core.Rng) -> Iterator[NDArray[np.int64]]:
    """The ranges of an epoch in random order, in pieces of at least STRETCH bytes."""
    order = np.empty(len(rows), np.int64)
    rng.permutation(order)
    sizes = np.cumsum(rows.sizes[order])
    cuts = np.flatnonzero(np.diff(sizes // STRETCH)) + 1
    yield from np.split(order, cuts)


class Descent:
    """The state of dual coordinate descent on rows on disk.

    kept: where copies of rows go, if there is memory for any. all_kept: it has all rows that do not
    rest, and the next epoch reads nothing.
    """

    def __init__(self, problem: LinearProblem, start: Any, *, bucket: int, n_blocks: int) -> None:
        self.problem, self.bucket = problem, bucket
        self.sides: DiskSides = problem.sides
        self.vectors = self.sides.vectors
        self.alpha = problem.start_alpha(start)
        self.from_zero = not self.alpha.any()
        self.vectors.release(self.alpha)
        bias = self._first_bias(start)
        sums = None if self.from_zero else self.sides.sums(self.alpha)
        self.descent = self.sides.descent(sums, bias, n_blocks)
        self.resting = self.vectors.zeros(np.uint8)
        plan = self.sides.rows.plan
        keep = plan.keep_bytes if plan is not None else 0
        self.kept = Kept.within(self.sides.rows, keep) if keep else None
        self.all_kept = False
        self.w = np.zeros(problem.n_features + 1)
        self._copying = not self.from_zero  # in that epoch no row rests, and none comes twice
        self._made_room = False  # in this epoch
        self._again = 1

    def _first_bias(self, start: Any) -> float:
        """As in memory: a free one of a regression, where it is best for no weights."""
        if start is not None:
            return float(start.b)
        if not self.sides.free or not self.problem.loss.residual:
            return 0.0
        return self.sides.best_bias(self.vectors.zeros())

    def visit(self, part: Range, piece: Piece, rng: _core.Rng) -> None:
        """Every row of a range that does not rest, once."""
        where = piece.where
        alpha, resting = np.array(self.alpha[where]), np.array(self.resting[where])
        self.descent.visit(
            piece.rows.view, piece.signed_cost, piece.rows.squared_norms, alpha, resting, rng,
            self.bucket, piece.targets,
        )  # fmt: skip
        self.alpha[where], self.resting[where] = alpha, resting
        if self.kept is not None and self._copying:
            chosen = np.flatnonzero((resting == 0) & (piece.cost != 0))
            offsets = part.batch.offsets
            nnz = int((offsets[chosen + 1] - offsets[chosen]).sum())
            if not self.kept.has_room(len(chosen), nnz):
                self._make_room(self.kept, rng)
            if self.kept.has_room(len(chosen), nnz):
                self.kept.append(piece, chosen, alpha)
        self.vectors.release(self.alpha, self.resting)

    def _make_room(self, kept: Kept, rng: _core.Rng) -> None:
        """A last look at the copies."""
        for _ in range(self._again):
            kept.show(self.descent.visit_again, self.sides.rows, rng, self.bucket)
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
            self.vectors.release(self.alpha, self.resting)

    def visit_kept(self, rng: _core.Rng) -> int:
        """An epoch on the copies alone; how many rows it visits."""
        assert self.kept is not None
        kept, n = self.kept, self.kept.n_rows
        n_visits = n - int(np.count_nonzero(kept.resting[:n]))
        kept.show(self.descent.visit, self.sides.rows, rng, self.bucket)
        self._write_down(kept)
        return n_visits

    def end_epoch(self, rng: _core.Rng) -> _core.steps.DcdEpoch:
        """What the epoch saw; decides where the next one reads its rows."""
        if self.kept is not None and self._copying and not self.all_kept:
            if self._made_room:
                self._make_room(self.kept, rng)
            self.all_kept = self.kept.n_rows > 0
        self._copying, self._made_room = True, False
        done: _core.steps.DcdEpoch = self.descent.end_epoch()
        often = AGAIN * self.problem.n_rows / max(1, done.active)
        self._again = min(MOST_AGAIN, max(1, round(often)))
        return done

    def wake_all(self) -> None:
        """The next epoch visits every row."""
        if self.kept is not None:
            self.kept.clear()
        self.all_kept = False
        self.resting[:] = 0
        self.vectors.release(self.resting)

    def iterate(self, step: int, epoch: float, estimate: float | None) -> Iterate:
        """Where it is."""
        self.descent.weights(self.w)
        w, b = self.problem.split(self.w, self.descent.bias)
        return Iterate(step, epoch, w, b, self.alpha, gap_estimate=estimate)


def descend(
    problem: LinearProblem, *, start: Any, rng: _core.Rng, bucket: int, n_blocks: int
) -> Iterates:
    """Dual coordinate descent: an iterate after each epoch, and some within."""
    state = Descent(problem, start, bucket=bucket, n_blocks=n_blocks)
    step, epoch, whole_gap = 0, 0.0, np.inf
    # The second epoch from zero sees most of all what the first one did before it knew w, and is
    # much further at its end; the rate of the third is then too good to last.
    estimate = GapEstimate(0.5, (1.5, 0.4)) if state.from_zero else GapEstimate(1.0)
    rows = problem.rows
    n_bytes = int(rows.sizes.sum())
    while True:
        # The descent knows only of the rows that it was shown: copies are never all of them.
        from_disk = not state.all_kept
        if from_disk:
            seen = 0
            for order in stretches(rows, rng):
                if seen:
                    yield state.iterate(step, epoch + seen / n_bytes, np.inf)
                for part, piece in problem.sides.pieces(order):
                    state.visit(part, piece, rng)
                    step += len(piece.y)
                seen += int(rows.sizes[order].sum())
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


class StoredSteps:
    """Compiled steps that go from range to range, with the methods of those in memory.

    An epoch takes the ranges in random order; each gives as many steps as it has rows, or whole
    minibatches of them. make: the steps on the first piece. enter: begins with another one, and
    returns what must outlive the steps there.
    """

    COUNTS = ("updates", "hinge", "gap")  # what a run of steps counts

    def __init__(
        self,
        problem: LinearProblem,
        make: Callable[[Piece], Any],
        enter: Callable[[Any, Piece], Any],
        sampling: str,
    ) -> None:
        if sampling != "epochs":
            raise ValueError(f"rows on disk are sampled in epochs; sampling={sampling!r} is not")
        if problem.sides.vectors.on_disk:
            raise ValueError(
                "the dual variables of stochastic solvers must fit into memory: allow more, or "
                "use dcd"
            )
        if problem.loss.core is None:
            raise ValueError(
                f"rows on disk need a loss that the compiled core knows; it has no "
                f"{problem.loss.name}"
            )
        self.problem, self._enter = problem, enter
        self.steps = make(problem.sides.first_piece())
        self._counted: dict[str, float] = {}

    def run(self, n_steps: int, rng: _core.Rng) -> None:
        """An epoch's steps, spread over all ranges in proportion to their rows."""
        rows = done = 0
        counted = dict.fromkeys((name for name in self.COUNTS if hasattr(self.steps, name)), 0.0)
        for order in stretches(self.problem.rows, rng):
            for _, piece in self.problem.sides.pieces(order):
                rows += len(piece.y)
                steps = rows * n_steps // self.problem.n_rows - done
                if steps:
                    alive = self._enter(self.steps, piece)
                    self.steps.run(steps, rng)
                    del alive
                    for name in counted:
                        counted[name] += getattr(self.steps, name)
                done += steps
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        return self._counted[name] if name in self._counted else getattr(self.steps, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inside = name in ("bias", "total", "weighted_sum")  # what may be set from outside
        object.__setattr__(self.steps if inside else self, name, value)
