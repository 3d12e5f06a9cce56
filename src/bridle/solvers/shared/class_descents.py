"""Dual coordinate descent for each class against the rest, all of them at once.

The rows are read once for many classes; each class has its own dual variables, weights, bias and
shrinking, and rests as soon as it seems to be as good as was asked for. One that has few rows left
in play goes on alone: they are others than those of other classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.certificate import Certificate
from bridle.objective.point import Iterate
from bridle.problems.linear import LinearProblem
from bridle.solvers.base import Iterates
from bridle.solvers.dcd import descend_in_memory
from bridle.solvers.shared.gap_estimates import MANY_ROWS
from numpy.typing import NDArray


@dataclass
class _Class:
    """What is known of one class."""

    visits: int = 0
    guess: float | None = None
    correction: float = 1.0
    whole: bool = True  # the epoch at hand visits every row
    rests: bool = False
    whole_gap: float = math.inf  # when all rows were last looked at
    resting: float = 0.0  # what rows at rest cost then, and how far off that may be
    active: float = 0.0  # what the others cost
    leaves: bool = False  # the others, to go on alone

    def has_come_far(self, report: Any) -> bool:
        """Whether the rows in play are a good deal more accurate than all were."""
        return not report.whole and report.gap <= 0.1 * self.whole_gap

    def look(self, report: Any, drawn: Any) -> None:
        """Rows that were drawn among all show the gap."""
        self.whole_gap, self.active = drawn.gap, drawn.gap - drawn.resting
        self.resting = drawn.resting + 2 * drawn.resting_error
        self._say(report.dual, drawn.gap, 2 * drawn.error)

    def count(self, report: Any) -> None:
        """An epoch saw the gap of the rows in play; the others had better cost no more now."""
        self.active = report.gap
        if report.whole:
            self.whole_gap, self.resting = report.gap, 0.0
        self._say(report.dual, self.active + self.resting, 0.0)

    def _say(self, dual: float, gap: float, error: float) -> None:
        primal, estimate = dual + gap, self.correction * (gap + error)
        self.guess = estimate / primal if 0 < primal < math.inf else None

    def wakes(self, report: Any) -> bool:
        """Whether it is time to visit all rows again: those at rest cost more than the others."""
        return report.active == 0 or (not report.whole and self.resting > self.active)


class ClassDescents:
    """The descents of n classes on the rows of a problem, whatever its labels.

    codes: the class of each row, 0 to n - 1; a row of any other is of the rest everywhere.
    """

    DRAWN = 4096  # rows that show how far it is
    OFTEN = 2  # as many visits for each that is drawn
    # Of a line of classes, so many that still need a row are not worth a visit together: alone, the
    # weights of a class fit a closer cache.
    LINE = 16
    FEW = 2

    def __init__(
        self, problem: LinearProblem, codes: NDArray[Any], n: int, seed: int, bucket: int
    ) -> None:
        self.problem, self._seed, self._bucket = problem, seed, bucket
        self._rng = _core.Rng(seed)
        self._core = _core.steps.class_descents(
            problem.rows.view, problem.loss.struct, problem.cost,
            np.ascontiguousarray(codes, np.int64), problem.squared_norms, n,
            problem.bias_precision, problem.n_threads,
        )  # fmt: skip
        self._n_useful = max(1, int(np.count_nonzero(problem.cost)))
        self._share = 0.25 if self._n_useful >= MANY_ROWS else 1.0
        self._looked_at = 0  # visits of all classes at the last look
        self._classes = [_Class() for _ in range(n)]
        # Of each class, who says when it crawls; then it leaves, and what it does alone is made of
        # its iterates, the problem, the watch and random numbers.
        self.watches: Sequence[Any] = ()
        self.followed_by: Callable[..., Iterates] | None = None

    def advance(self) -> None:
        """Some visits for all classes that do not rest, and a look at how far each is."""
        finished = self._core.visit(self._rng, self._bucket, self._share)
        going = [(k, s) for k, s in enumerate(self._classes) if not s.rests]
        reports = {k: self._core.report(k) for k, _ in going}
        for k, state in going:
            state.visits, state.whole = reports[k].visits, reports[k].whole
        suspicious = finished and any(s.has_come_far(reports[k]) for k, s in going)
        # By what each class visits for itself: which of them share a visit depends on the threads.
        visits = sum(state.visits for state in self._classes)
        if suspicious or visits - self._looked_at > self.OFTEN * self.DRAWN * len(going):
            self._looked_at = visits
            drawn = self._core.sample(self._rng, self.DRAWN)
            for k, state in going:
                state.look(reports[k], drawn[k])
        elif finished:
            for k, state in going:
                state.count(reports[k])
        if finished:
            self._end_epoch(going, reports)
        for (_, state), watch in zip(going, self._watching(going), strict=False):
            state.leaves |= watch.crawls(state.visits / self._n_useful, state.guess)

    def _watching(self, going: list[tuple[int, _Class]]) -> list[Any]:
        return [self.watches[k] for k, _ in going] if self.watches else []

    def _end_epoch(self, going: list[tuple[int, _Class]], reports: dict[int, Any]) -> None:
        """Who leaves, or wakes."""
        lines = -(-len(self._classes) // self.LINE)
        few = self.FEW * self._n_useful
        all_leave = sum(report.active for report in reports.values()) <= few * lines
        for k, state in going:
            state.leaves = all_leave or reports[k].active * self.LINE <= few
            if not state.leaves and state.wakes(reports[k]):
                self._core.unshrink(k)

    def outline(self, k: int) -> Iterate:
        """Where class k is, but for the arrays."""
        state = self._classes[k]
        return Iterate(
            state.visits, state.visits / self._n_useful, None, gap_estimate=state.guess,
            solver="dcd",
        )  # fmt: skip

    def iterate(self, k: int) -> Iterate:
        """Where class k is, in arrays of their own."""
        outline = self.outline(k)
        w: Array = np.empty(self.problem.n_features + 1)
        alpha: Array = np.empty(self.problem.n_rows)
        self._core.weights(k, w)
        self._core.alpha(k, alpha)
        split, b = self.problem.split(w, self._core.bias(k))
        return Iterate(
            outline.step, outline.epoch, split, b, alpha, outline.gap_estimate, outline.solver
        )

    def rest(self, k: int) -> None:
        """No more visits for class k, for now."""
        self._classes[k].rests = True
        self._core.run(k, False)

    def leaves(self, k: int) -> bool:
        """Whether class k had better go on alone."""
        return self._classes[k].leaves

    def alone(self, k: int, problem: LinearProblem) -> Iterates:
        """The iterates of class k from here on."""
        alpha = np.empty(problem.n_rows)
        descent = self._core.alone(k)
        descent.alpha(alpha)
        rng = _core.Rng(self._seed)
        found = descend_in_memory(
            problem, descent, alpha, rng, self._bucket, self._classes[k].visits
        )
        if self.followed_by is None:
            return found
        return self.followed_by(found, problem, self.watches[k], rng)

    def go_on(self, k: int, certificate: Certificate) -> None:
        """More visits for class k, which has this certificate."""
        state, gap = self._classes[k], certificate.relative_gap
        if state.guess:
            state.correction = min(10.0, max(1.0, state.correction * gap / state.guess))
        if not state.whole and (state.guess is None or gap > state.guess):
            self._core.unshrink(k)
        state.rests = False
        self._core.run(k, True)
