"""Problems on the same rows whose solver takes them all at once: each has its own run.

Runs whose certificate is due wait for the others, so that one pass over the rows judges many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from bridle.matrix.blas import one_blas_thread
from bridle.matrix.threads import Threads
from bridle.objective.certificate import Certificate, Record
from bridle.problems.linear import LinearProblem, judge_all
from bridle.solvers import Solver
from bridle.solving.interruption import Flag, deferred_interrupt
from bridle.solving.loop import LOG, NOT_FINITE, Callback, SolverRun
from bridle.solving.many import Take, Watcher
from bridle.solving.solution import Keep, Solution
from bridle.solving.stopping import Stop, Verdict

# How many are judged in one pass over the rows.
JUDGED = 8


def solve_together(
    descents: Any,
    problem_of: Callable[[int], LinearProblem],
    numbers: Sequence[int],
    solver: Solver,
    *,
    stop: Stop,
    watch: Watcher | None,
    take: Take | None,
    keep: Keep,
    n_threads: int,
) -> tuple[Solution, ...]:
    """Solve the problems of these numbers; Ctrl-C and `take` as in `solve_each`.

    descents: of the solver, as `bridle.solvers.shared.class_descents`.
    """
    with deferred_interrupt() as interrupted:
        runs = _Runs(descents, problem_of, numbers, solver, stop, watch, take, keep, interrupted)
        others = n_threads if n_threads > 1 else 0
        with one_blas_thread(), Threads(others, sharing=n_threads) as pool:
            while runs.open:
                runs.advance()
                runs.judge(pool)
            runs.finish_alone(pool)
    return tuple(runs.solutions[at] for at in range(len(numbers)))


class _Runs:
    """One run for each problem, by its place among the numbers."""

    def __init__(
        self, descents: Any, problem_of: Callable[[int], LinearProblem], numbers: Sequence[int],
        solver: Solver, stop: Stop, watch: Watcher | None, take: Take | None, keep: Keep,
        interrupted: Flag,
    ) -> None:  # fmt: skip
        self.descents, self.numbers, self.solver = descents, numbers, solver
        self.problem_of, self.take, self.interrupted = problem_of, take, interrupted
        shared = descents.problem
        self.open = {
            at: SolverRun(
                shared, stop, self._watching(watch, k), solver.precision(shared), keep=keep
            )
            for at, k in enumerate(numbers)
        }
        self.alone: dict[int, SolverRun] = {}
        self.solutions: dict[int, Solution] = {}

    def advance(self) -> None:
        """Visits until the certificates of all runs are due, but for those that leave."""
        going = dict(self.open)
        while going:
            clock = time.perf_counter()
            self.descents.advance()
            seconds = (time.perf_counter() - clock) / len(going)
            for at, run in list(going.items()):
                run.last = self.descents.outline(at)
                run.seconds_solver += seconds
                due = run.certificate_due() or run.verdict(self.interrupted()) is not None
                if due or self.descents.leaves(at):
                    self.descents.rest(at)
                    del going[at]
                if not due and self.descents.leaves(at):
                    self.alone[at] = self.open.pop(at)

    def judge(self, pool: Threads) -> None:
        """Certificates of all runs; those that have come to an end leave their solutions."""
        waiting = list(self.open)
        parts = [waiting[begin : begin + JUDGED] for begin in range(0, len(waiting), JUDGED)]
        for answers in list(pool.map(self._judge_some, parts)):
            for at, certificate in answers:
                self.descents.go_on(at, certificate)

    def _judge_some(self, part: list[int]) -> list[tuple[int, Certificate]]:
        """Those that are to go on, with their certificates."""
        clock = time.perf_counter()
        problems = {at: self.problem_of(self.numbers[at]) for at in part}
        for at in part:
            self.open[at].last = self.descents.iterate(at)
            if not self.open[at].is_finite():
                self.open[at].problem = problems.pop(at)
                self._finish(at, self.open[at].out_of_range(self.open[at].left_range(NOT_FINITE)))
        iterates = [last for at in problems if (last := self.open[at].last) is not None]
        judgements = judge_all(list(problems.values()), iterates) if problems else []
        seconds = (time.perf_counter() - clock) / len(part)
        going_on = []
        for at, judgement in zip(problems, judgements, strict=True):
            certificate = self.open[at].judged(judgement, seconds)
            verdict = self.open[at].verdict(self.interrupted())
            if verdict is None:
                going_on.append((at, certificate))
            else:
                self._finish(at, verdict)
        return going_on

    def finish_alone(self, pool: Threads) -> None:
        """Those that have left, each by itself."""
        list(pool.map(self._drive, list(self.alone)))

    def _drive(self, at: int) -> None:
        run = self.open[at] = self.alone.pop(at)
        run.problem = self.problem_of(self.numbers[at])
        verdict = run.drive(self.descents.alone(at, run.problem), self.interrupted)
        self._finish(at, verdict)

    def _finish(self, at: int, verdict: Verdict) -> None:
        found = self.open.pop(at).solution(verdict, self.solver)
        LOG.info("%s %s", found.solver, found.message)
        self.solutions[at] = found if self.take is None else self.take(self.numbers[at], found)

    def _watching(self, watch: Watcher | None, k: int) -> tuple[Callback, ...]:
        if watch is None:
            return ()

        def told(record: Record) -> bool | None:
            try:
                return watch(k, record)
            except KeyboardInterrupt:
                self.interrupted.set()
                return None

        return (told,)
