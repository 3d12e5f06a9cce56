"""Several problems solved together: threads, shared seconds, Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from bridle.matrix.blas import one_blas_thread
from bridle.matrix.threads import Threads
from bridle.objective.certificate import Record
from bridle.solvers import Solver
from bridle.solving.checkpoint import Checkpoint
from bridle.solving.interruption import deferred_interrupt
from bridle.solving.loop import solve
from bridle.solving.solution import Keep, Solution
from bridle.solving.stopping import AnyOf, Interrupted, Seconds, Stop, Suboptimality

# Sees the number of the problem and its newest record; returning True ends that problem's run.
Watcher = Callable[[int, Record], bool | None]

# Sees the number of the problem and its solution as soon as it is found, and says what to take of
# it: see `without_dual` and `Weights`.
Take = Callable[[int, Solution], Solution]


def without_dual(k: int, solution: Solution) -> Solution:
    """The solution without its dual point, which has a number for each row of the data."""
    return replace(solution, alpha=np.empty(0))


def solve_each(
    n_problems: int,
    problem_of: Callable[[int], Any],
    solver: str | Solver,
    *,
    stop: Stop,
    watch: Watcher | None,
    start: Sequence[Any] | None,
    seed: int,
    workers: int,
    n_threads: int,
    take: Take | None,
    rule_of: Callable[[int], Stop | None] | None = None,
    checkpoint: Checkpoint | None = None,
    keep: Keep = "best",
) -> tuple[Solution, ...]:
    """Solve independent problems, `workers` at a time; each is made when its turn comes.

    n_threads: of all that are at work together; each may use as many as the others leave.
    rule_of: a further stopping rule for each problem, or None.
    A stopping rule `Seconds` is for all problems together: each gets its share of what is left.
    Ctrl-C ends all runs after their epochs at hand, with the best solutions so far.
    take: what to take of each solution. keep: as in `solve`.
    checkpoint: of several problems, each has a file of its own, with its number added to the name.
    """
    if n_problems > 1 and any(isinstance(rule, Suboptimality) for rule in stop.rules):
        raise ValueError(
            f"suboptimality is of one problem, and there are {n_problems}, whose optima differ: "
            "stop at a gap"
        )
    clock = Shares(stop, n_problems, workers)

    def told(k: int, record: Record) -> bool | None:
        assert watch is not None
        try:
            return watch(k, record)
        except KeyboardInterrupt:
            interrupted.set()
            return None

    def one(k: int, interrupted: Callable[[], bool]) -> Solution:
        rule = clock.take() | Interrupted(interrupted)
        own = None if rule_of is None else rule_of(k)
        solution = solve(
            problem_of(k), solver, seed=seed, stop=rule if own is None else rule | own,
            callbacks=() if watch is None else (lambda record: told(k, record),),
            start=None if start is None else start[k],
            checkpoint=checkpoint if checkpoint is None or n_problems == 1
            else checkpoint.numbered(k), keep=keep, interrupt="return",
        )  # fmt: skip
        return solution if take is None else take(k, solution)

    with deferred_interrupt() as interrupted:
        if workers == 1:
            return tuple(one(k, interrupted) for k in range(n_problems))
        abandoned = threading.Event()

        def ended() -> bool:
            return interrupted() or abandoned.is_set()

        def one_of_many(k: int) -> Solution:
            try:
                return one(k, ended)
            except BaseException:
                abandoned.set()  # nobody waits for the others any more
                raise

        with one_blas_thread(), Threads(workers, sharing=n_threads) as pool:
            try:
                return tuple(pool.map(one_of_many, range(n_problems)))
            except BaseException:
                abandoned.set()
                raise


class Shares:
    """Shares out the seconds that are left among the problems that have not begun."""

    def __init__(self, stop: Stop, n_problems: int, workers: int) -> None:
        self._others = tuple(rule for rule in stop.rules if not isinstance(rule, Seconds))
        budgets = [rule.s for rule in stop.rules if isinstance(rule, Seconds)]
        self._deadline = time.perf_counter() + min(budgets) if budgets else None
        self._waiting, self._workers = n_problems, workers
        self._lock = threading.Lock()

    def take(self) -> Stop:
        """The stopping rule of the next problem."""
        if self._deadline is None:
            return AnyOf(self._others)
        with self._lock:
            left = max(0.0, self._deadline - time.perf_counter())
            share = left * min(1.0, self._workers / self._waiting)
            self._waiting -= 1
        return AnyOf((*self._others, Seconds(share)))
