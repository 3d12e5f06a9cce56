"""Epochs over rows on disk: ranges of rows in random order, the rows of each in random buckets.

Dual coordinate descent as in dcd.py. Rows that rest at their bounds are left out as there. The
others are copied into the memory that is allowed as they come. When that is full, the copies are
visited some more times and make room: rows that were read once are worth several visits (Yu, Hsieh,
Chang & Lin, "Large linear classification when data cannot fit in memory", KDD 2010; Chang & Roth,
"Selective block minimization for faster convergence of limited memory large-scale linear models",
KDD 2011). If all of an epoch's are still there at its end, the epochs go on with them alone,
without reading, until it is time to look at all rows again.

A certificate reads the file, too. Where the next epoch would do so in any case, it comes along:
each range is judged as the iterate left it, and then visited. If the gap is reached, the visits
were in vain; if not, the reading was not.

Within an epoch an iterate goes out from time to time, so that a run can be stopped or saved; it
claims no gap. In the first epoch from zero, whose steps are those of m/t v
(core/linear/dcd/state.hpp), its w is m/t v and its alpha that of v: both are true points, and
whoever goes on from alpha does so with epochs like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.rows.base import Piece
from bridle.rows.disk.kept import Kept
from bridle.solvers.base import Iterates
from bridle.solvers.shared.gap_estimates import GapEstimate, relative_to
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.objective.certificate import Certificate
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


def shuffled(rows: DiskRows, rng: _core.Rng) -> NDArray[np.int64]:
    """The ranges of an epoch in random order."""
    order = np.empty(len(rows), np.int64)
    rng.permutation(order)
    return order


def stretches(rows: DiskRows, rng: _core.Rng) -> Iterator[NDArray[np.int64]]:
    """The same in pieces of at least STRETCH bytes."""
    order = shuffled(rows, rng)
    sizes = np.cumsum(rows.sizes[order])
    cuts = np.flatnonzero(np.diff(sizes // STRETCH)) + 1
    yield from np.split(order, cuts)


class Descent:
    """The state of dual coordinate descent on rows on disk.

    kept: where copies of rows go, if there is memory for any. all_kept: it has all rows that do not
    rest, and the next epoch reads nothing.
    """

    def __init__(
        self,
        problem: LinearProblem,
        start: Any,
        *,
        bucket: int,
        n_blocks: int,
        keep: int | None = None,
    ) -> None:
        """keep: bytes for copies of rows; None: all that are left."""
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
        if keep is None:
            keep = plan.keep_bytes if plan is not None else 0
        self.kept = Kept.within(self.sides.rows, keep) if keep else None
        self.all_kept = False
        self.w = np.zeros(problem.n_features + 1)
        self._copying = not self.from_zero  # in that epoch no row rests, and none comes twice
        self._made_room = False  # in this epoch
        self._again = 1
        self.step, self.epoch, self.whole_gap = 0, 0.0, np.inf
        # The second epoch from zero sees most of all what the first one did before it knew w, and
        # is much further at its end; the rate of the third is then too good to last.
        self.gap = GapEstimate(0.5, (1.5, 0.4)) if self.from_zero else GapEstimate(1.0)

    def _first_bias(self, start: Any) -> float:
        """As in memory: a free one of a regression, where it is best for no weights."""
        if start is not None:
            return float(start.b)
        if self.problem.loss.pull:
            return self.problem.intercept(self.alpha)
        if not self.sides.free or not self.problem.loss.residual:
            return 0.0
        return self.sides.best_bias(self.vectors.zeros())

    def visit(self, part: Range, piece: Piece, rng: _core.Rng) -> None:
        """Every row of a range that does not rest, once."""
        self.step += len(piece.y)
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

    def visit_kept(self, rng: _core.Rng) -> None:
        """An epoch on the copies alone, which counts by its visits."""
        assert self.kept is not None
        kept, n = self.kept, self.kept.n_rows
        n_visits = n - int(np.count_nonzero(kept.resting[:n]))
        kept.show(self.descent.visit, self.sides.rows, rng, self.bucket)
        self._write_down(kept)
        self.step += n_visits
        self.epoch += n_visits / self.problem.n_rows

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

    def after_epoch(self, rng: _core.Rng, from_disk: bool) -> tuple[float | None, bool]:
        """A guess at the gap after an epoch, and whether it has visited every row."""
        done = self.end_epoch(rng)
        # The descent knows only of the rows that it was shown: copies are never all of them.
        whole = from_disk and done.whole
        if whole:
            self.whole_gap = done.gap
        if done.active == 0 or (not whole and done.gap <= 0.1 * self.whole_gap):
            self.wake_all()
        size = relative_to(done.dual, done.gap)
        return self.gap.after(done.gap / size) if 0 < size < np.inf else None, whole

    def learn(self, relative_gap: float, whole: bool) -> None:
        """From a certificate, which an epoch of this kind has not sufficed for."""
        self.gap.learn(relative_gap)
        if not whole:
            self.wake_all()

    def wake_all(self) -> None:
        """The next epoch visits every row."""
        if self.kept is not None:
            self.kept.clear()
        self.all_kept = False
        self.resting[:] = 0
        self.vectors.release(self.resting)

    def iterate(
        self, epoch: float, estimate: float | None, ride: NextEpoch | None = None
    ) -> Iterate:
        """Where it is."""
        self.descent.weights(self.w)
        w, b = self.problem.split(self.w, self.descent.bias)
        return Iterate(self.step, epoch, w, b, self.alpha, gap_estimate=estimate, ride=ride)


class NextEpoch:
    """An epoch that a certificate may take along. taken: whether one did."""

    def __init__(self, state: Descent, whole: bool, rng: _core.Rng) -> None:
        """whole: whether the epoch before it has visited every row."""
        self.state, self.whole, self.rng = state, whole, rng
        self.taken = False

    def order(self) -> NDArray[np.int64]:
        """The ranges of the epoch. If not all rows were looked at by the last one, it does so."""
        self.taken = True
        if not self.whole:
            self.state.wake_all()
        return shuffled(self.state.sides.rows, self.rng)

    def visit(self, part: Range, piece: Piece) -> None:
        """A range."""
        self.state.visit(part, piece, self.rng)


def descend(
    problem: LinearProblem, *, start: Any, rng: _core.Rng, bucket: int, n_blocks: int
) -> Iterates:
    """Dual coordinate descent: an iterate after each epoch, and some within."""
    state = Descent(problem, start, bucket=bucket, n_blocks=n_blocks)
    rows = problem.rows
    n_bytes = int(rows.sizes.sum())
    ride: NextEpoch | None = None
    while True:
        from_disk = not state.all_kept
        if ride is not None and ride.taken:
            state.epoch += 1
        elif from_disk:
            seen = 0
            for order in stretches(rows, rng):
                if seen:
                    yield state.iterate(state.epoch + seen / n_bytes, np.inf)
                for part, piece in problem.sides.pieces(order):
                    state.visit(part, piece, rng)
                seen += int(rows.sizes[order].sum())
            state.epoch += 1
        else:
            state.visit_kept(rng)
        guess, whole = state.after_epoch(rng, from_disk)
        ride = None if state.all_kept else NextEpoch(state, whole, rng)
        certificate = yield state.iterate(state.epoch, guess, ride)
        if certificate is not None:
            state.learn(certificate.relative_gap, whole or (ride is not None and ride.taken))


class StoredClasses:
    """The descents of several problems on the same rows, which are read once for all of them.

    As `bridle.solvers.shared.class_descents`: each has dual variables, weights, copies and rest of
    its own. n: how many problems there is memory for, the first ones.
    """

    # float64 vectors of one more problem at the worst moment, of the length and of the width.
    ROW_VECTORS, WEIGHT_VECTORS = 4, 12
    MEMORY = 1 << 29  # where nothing was said of memory

    def __init__(
        self, problems: Sequence[LinearProblem], seed: int, *, bucket: int, n_blocks: int, keep: int
    ) -> None:
        self.problem, self.n, self.rng = problems[0], len(problems), _core.Rng(seed)
        self.states = [
            Descent(problem, None, bucket=bucket, n_blocks=n_blocks, keep=keep)
            for problem in problems
        ]
        self.guesses: list[float | None] = [None] * self.n
        self.whole = [True] * self.n
        self.rests = [False] * self.n

    @classmethod
    def within(
        cls, problems: Sequence[LinearProblem], seed: int, *, bucket: int, n_blocks: int
    ) -> StoredClasses | None:
        """As many as there is memory for; None if that is only one of several."""
        first = problems[0]
        plan = first.rows.plan_if_held
        if first.loss.core is None or (plan is not None and plan.vectors_on_disk):
            return None
        each = (8 * cls.ROW_VECTORS + 2) * first.n_rows
        each += 8 * cls.WEIGHT_VECTORS * (first.n_features + 1)
        left = cls.MEMORY if plan is None else plan.keep_bytes + plan.spare
        n = min(len(problems), left // each)
        if n < min(2, len(problems)):
            return None
        first.rows.hold_vectors()
        keep = 0 if plan is None else max(0, plan.keep_bytes - n * each) // n
        return cls(problems[:n], seed, bucket=bucket, n_blocks=n_blocks, keep=keep)

    def advance(self) -> None:
        """An epoch of all that do not rest."""
        going = [k for k in range(self.n) if not self.rests[k]]
        reading = [k for k in going if not self.states[k].all_kept]
        for k in going:
            if k not in reading:
                self.states[k].visit_kept(self.rng)
        if reading:
            self._read_for([self.states[k] for k in reading])
        for k in going:
            state = self.states[k]
            state.epoch += k in reading
            self.guesses[k], self.whole[k] = state.after_epoch(self.rng, k in reading)

    def _read_for(self, states: list[Descent]) -> None:
        def pieces(part: Range) -> tuple[Range, list[Piece]]:
            known = part.rows, part.where, part.labels, part.weight
            return part, [state.sides.piece(*known) for state in states]

        for order in stretches(self.problem.rows, self.rng):
            for part, found in self.problem.rows.each(pieces, order):
                for state, piece in zip(states, found, strict=True):
                    state.visit(part, piece, self.rng)

    def outline(self, k: int) -> Iterate:
        """Where problem k is, but for the arrays."""
        state = self.states[k]
        return Iterate(state.step, state.epoch, None, gap_estimate=self.guesses[k], solver="dcd")

    def iterate(self, k: int) -> Iterate:
        """Where problem k is."""
        return replace(self.states[k].iterate(self.states[k].epoch, self.guesses[k]), solver="dcd")

    def rest(self, k: int) -> None:
        """No more visits for problem k, for now."""
        self.rests[k] = True

    def go_on(self, k: int, certificate: Certificate) -> None:
        """More visits for problem k, which has this certificate."""
        self.states[k].learn(certificate.relative_gap, self.whole[k])
        self.rests[k] = False

    def leaves(self, k: int) -> bool:
        """Nobody goes on alone: the reading is what costs."""
        return False


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
        if not problem.rows.hold_vectors():
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
