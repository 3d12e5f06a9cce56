"""A bar that fills as the certified gap falls: equal steps for equal factors."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from bridle.objective.certificate import Record


WIDTH = 30
DEFAULT_GOAL = 1e-3  # of a run that asks for no gap


class ProgressBar:
    """A callback for `solve` and for every estimator: LinearSVC(callback=ProgressBar()).

    goal: the gap that is asked for; None is what the run itself asks for, its `tol`. A run that is
    told apart from the last one by its falling epochs, or that reaches the goal, gets a line of its
    own. Written to `stream`, standard error unless given.

    Examples
    --------
    >>> import sys
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, callbacks=[bridle.ProgressBar(stream=sys.stdout)])
    [...] certified gap ... s
    """

    def __init__(self, goal: float | None = None, *, stream: TextIO | None = None) -> None:
        if goal is not None and not 0 < goal < 1:
            raise ValueError(f"goal must be between 0 and 1, got {goal}")
        self.goal, self.stream = goal, stream
        self._epoch = 0.0
        self._open = False  # whether the cursor is at the end of a bar

    def __repr__(self) -> str:
        return "ProgressBar()" if self.goal is None else f"ProgressBar({self.goal})"

    def __call__(self, record: Record) -> None:
        """Draw the newest record."""
        out = sys.stderr if self.stream is None else self.stream
        if self._open and record.epoch < self._epoch:
            out.write("\n")
        gap, goal = record.relative_gap, self.goal or record.goal or DEFAULT_GOAL
        done = 0.0
        if 0 <= gap < 1:
            done = 1.0 if gap <= goal else math.log(gap) / math.log(goal)
        filled = int(done * WIDTH)
        seconds = record.seconds_solver + record.seconds_certify
        out.write(
            f"\r[{'#' * filled}{'.' * (WIDTH - filled)}] certified gap {gap:.1e} of "
            f"{goal:.1e}, epoch {record.epoch:.4g}, {seconds:.1f} s "
        )
        self._open, self._epoch = done < 1.0, record.epoch
        if not self._open:
            out.write("\n")
        out.flush()
