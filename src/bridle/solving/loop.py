"""The only loop: draws iterates, asks the problem to judge them, and decides when to stop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from bridle import _core
from bridle.errors import DivergenceError, OracleError
from bridle.matrix.arrays import Array
from bridle.objective.certificate import (
    Certificate,
    DualTerms,
    PrimalTerms,
    Record,
    Source,
    Trace,
)
from bridle.problems.base import Judgement, Problem
from bridle.solvers import Iterate, Solver, solver_from
from bridle.solving.checkpoint import Checkpoint, Saver
from bridle.solving.interruption import Flag, Interrupt, cause, check_interrupt, deferred_interrupt
from bridle.solving.solution import Keep, Solution, check_keep
from bridle.solving.stopping import Epochs, Gap, Progress, Status, Stop, Verdict

# A callback sees the newest record, taken at a certificate; returning True ends the run.
Callback = Callable[[Record], bool | None]

LOG = logging.getLogger("bridle")  # a line at the end of each run

NOT_FINITE = "its weights are not finite"
NOTHING_MORE = "since the solver found nothing more to improve"

DEFAULT_STOP: Stop = Gap(1e-3) | Epochs(1000)


def solve(
    problem: Problem,
    solver: str | Solver = "auto",
    *,
    stop: Stop = DEFAULT_STOP,
    callbacks: Iterable[Callback] = (),
    start: Any = None,
    seed: int = 0,
    checkpoint: Checkpoint | None = None,
    keep: Keep = "best",
    interrupt: Interrupt = "raise",
) -> Solution:
    """Minimise the problem's objective until the stopping rule says so.

    Ctrl-C ends the run after the epoch at hand, and is then raised: an `Interruption`, which is a
    KeyboardInterrupt with the best solution so far as its `solution`. interrupt="return" returns
    that solution instead. A second Ctrl-C interrupts at once.
    `start` is a Solution, or anything with w, b and alpha, to go on from.
    checkpoint: where to save the run at intervals; one that resumes is the start.
    keep: which iterate the solution is. "best" is the one of lowest primal value among those that
    were certified; "final" is the last that the solver proposed, as its `output` says (last,
    average, ...), also where a stopping rule would choose. Its certificate, by which the rules then
    stop, has its own primal value and the best dual value; the records of the trace have the best
    primal value, `primal`, and the iterate's, `primal_now`. Either way a free bias is the best one
    for the weights, and what has no length, such as a perceptron, is taken at its best scale.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> found = bridle.solve(problem, "dcd", stop=bridle.Gap(1e-4) | bridle.Seconds(60))
    >>> found.converged, found.certificate.relative_gap <= 1e-4
    (True, True)
    """
    check_keep(keep)
    check_interrupt(interrupt)
    if not isinstance(stop, Stop):
        raise TypeError(f"stop must be a stopping rule, such as Gap(1e-3), got {stop!r}")
    chosen = solver_from(solver, problem)
    chosen.check(problem)
    saver = None if checkpoint is None else checkpoint.opened(problem, chosen.name)
    if saver is not None and saver.start is not None:
        start = saver.start
    run = SolverRun(problem, stop, tuple(callbacks), chosen.precision(problem), saver, keep)
    run.separates = chosen.separates
    iterates = chosen.iterates(
        problem, start=start, rng=_core.Rng(seed & (2**64 - 1)), pace=_pace(stop, problem)
    )
    with deferred_interrupt() as interrupted:
        try:
            verdict = run.drive(iterates, interrupted)
        except OracleError as error:
            error.solution = run.so_far(str(error), chosen)
            raise
    if saver is not None and run.last is not None:
        saver.save(run.last)
    solution = run.solution(verdict, chosen)
    LOG.info("%s %s", solution.solver, solution.message)
    interrupted.raised(interrupt, solution)
    return solution


class _NoNumbersError(Exception):
    """A solver's numbers have left the range of floating point: why it ends, in words."""


@dataclass
class _Best:
    """The best primal and the best dual point, kept apart."""

    w: Any = None
    b: float = 0.0
    primal: float = np.inf
    scores: Array | None = None
    primal_terms: PrimalTerms | None = None
    primal_rounding: float = 0.0
    alpha: Array | None = None
    dual: float = -np.inf
    dual_terms: DualTerms | None = None
    dual_rounding: float = 0.0
    source: Source = "solver"
    assumption: str | None = None

    def update(self, judgement: Judgement, problem: Problem) -> None:
        if self.w is None or judgement.primal < self.primal:
            self.w, self.b, self.primal = judgement.w, judgement.b, judgement.primal
            self.scores, self.primal_rounding = judgement.scores, judgement.primal_rounding
            self.primal_terms = judgement.terms and judgement.terms[0]
        # Dual variables that were lost with a machine prove nothing that could be looked at again.
        gone = self.alpha is None or not problem.still_has(self.alpha)
        if gone or judgement.dual > self.dual:
            self.alpha, self.dual, self.source = judgement.alpha, judgement.dual, judgement.source
            self.dual_rounding = judgement.dual_rounding
            self.dual_terms = judgement.terms and judgement.terms[1]
        self.assumption = problem.assumption
        certificate = self.certificate
        if certificate is not None and certificate.dual > certificate.primal:
            raise problem.contradicted(certificate)

    @property
    def certificate(self) -> Certificate | None:
        return None if self.w is None else self._proven(self.primal, self.primal_rounding)

    def certificate_of(self, judgement: Judgement) -> Certificate:
        """Of another point than the best, by the best dual value."""
        return self._proven(judgement.primal, judgement.primal_rounding)

    def _proven(self, primal: float, primal_rounding: float) -> Certificate:
        rounding = min(primal_rounding + self.dual_rounding, primal - self.dual)
        return Certificate(primal, self.dual, self.source, rounding, self.assumption)


@dataclass(frozen=True)
class _Choice:
    """The iterate with the lowest held-out loss, where that is what is asked for."""

    judgement: Judgement
    epoch: float
    loss: float


@dataclass
class SolverRun:
    """One run: what it has seen so far, and when it is to be judged and to end."""

    problem: Problem
    stop: Stop
    callbacks: tuple[Callback, ...]
    dtype: np.dtype[Any]  # in which the solver works
    saver: Saver | None = None
    keep: Keep = "best"
    separates: str | None = None  # what it means that the solver ends
    best: _Best = field(default_factory=_Best)
    choice: _Choice | None = None
    trace: Trace = field(default_factory=Trace)
    last: Iterate | None = None
    seconds_solver: float = 0.0
    seconds_certify: float = 0.0
    judged_step: int = -1
    next_epoch: float = 0.0
    halted: bool = False
    interrupted: Flag = field(default_factory=Flag)
    judgement: Judgement | None = None  # the last one
    began: float = field(default_factory=time.perf_counter)

    def drive(self, iterates: Any, interrupted: Flag) -> Verdict:
        """Draw iterates until a verdict; the last one that can be judged has then been."""
        self.interrupted = interrupted
        try:
            return self._drive(iterates, interrupted)
        except _NoNumbersError as error:
            return self.out_of_range(str(error))

    def _drive(self, iterates: Any, interrupted: Flag) -> Verdict:
        answer: Certificate | None = None
        while True:
            clock = time.perf_counter()
            try:
                self.last = iterates.send(answer)
            except StopIteration:
                return self.exhausted()
            except DivergenceError as error:
                raise _NoNumbersError(f"since {error},") from error
            except ArithmeticError as error:
                raise _NoNumbersError(self.left_range(str(error))) from error
            finally:
                self.seconds_solver += time.perf_counter() - clock
            if self.saver is not None:
                self.saver.note(self.last)
            answer = self.judge() if self.certificate_due() else None
            verdict = self.verdict(interrupted())
            if verdict is not None:
                if self.judged_step != self.last.step:
                    self.judge(alone=True)  # an epoch more would lead nowhere
                    # What was about to stop for its budget may turn out to have converged.
                    verdict = self._infeasible() or self.stop.verdict(self.progress()) or verdict
                return verdict

    def certificate_due(self) -> bool:
        """Whether a certificate is worth its price now.

        When a free estimate says that the goal may be reached; else at geometric intervals, or as
        often as certificates are less than a tenth of the work, at about an epoch each. A solver
        that has an estimate is trusted with it: unless somebody watches, or the problem may fail
        and the best so far be asked for, certificates before the goal are then no more than a
        twentieth of the work. The clock has no say: solvers see
        certificates, and the same seed must give the same bits.
        """
        assert self.last is not None
        if self.stop.watches:
            return True
        tol, estimate = self.stop.gap, self.last.gap_estimate
        if estimate is not None and tol is not None:
            if estimate <= tol:
                return True
            if self.problem.dear or not (self.callbacks or self.problem.may_fail):
                return len(self.trace) + 1 <= 0.05 * self.last.epoch
        cheap = len(self.trace) < 0.1 * self.last.epoch
        if self.last.epoch < self.next_epoch and not cheap:
            return False
        self.next_epoch = self.last.epoch * (2.0 if estimate is not None else 1.25)
        return True

    def judge(self, *, alone: bool = False) -> Certificate | None:
        """Ask the problem for a certificate of the last iterate.

        alone: without the solver's next epoch.
        """
        assert self.last is not None
        clock = time.perf_counter()
        if not self.is_finite():
            raise _NoNumbersError(self.left_range(NOT_FINITE))
        if alone and self.last.ride is not None:
            self.last = replace(self.last, ride=None)
        judgement = self.problem.judge(self.last)
        if self.last.ride is not None:
            self.last = replace(self.last, alpha=judgement.alpha)
        return self.judged(judgement, time.perf_counter() - clock)

    def is_finite(self) -> bool:
        """Whether the last iterate can be judged."""
        assert self.last is not None
        weights = getattr(self.last.w, "coefficients", self.last.w)
        return bool(np.isfinite(self.last.b) and np.isfinite(weights).all())

    def judged(self, judgement: Judgement, seconds: float) -> Certificate:
        """Take note of what the problem says of the last iterate, which it took so long to say."""
        assert self.last is not None
        self.best.update(judgement, self.problem)
        self.judgement = judgement
        self.seconds_certify += seconds
        self.judged_step = self.last.step
        certificate = self.best.certificate
        assert certificate is not None
        record = Record(
            epoch=self.last.epoch, step=self.last.step,
            seconds_solver=self.seconds_solver, seconds_certify=self.seconds_certify,
            primal=certificate.primal, dual=certificate.dual, primal_now=judgement.primal,
            validation=self.stop.scores(judgement.w, judgement.b),
            goal=self.stop.gap if self.stop.gap and self.stop.gap < 1 else None,
        )  # fmt: skip
        self.trace.append(record)
        if self.stop.chooses:
            loss = record.validation["validation_loss"]
            if self.choice is None or loss < self.choice.loss:
                self.choice = _Choice(judgement, self.last.epoch, loss)
        self._tell(record)
        return certificate

    def _tell(self, record: Record) -> None:
        try:
            for callback in self.callbacks:
                self.halted |= callback(record) is True
        except KeyboardInterrupt:  # of a host that handles Ctrl-C in its own way
            self.interrupted.set()

    def verdict(self, interrupted: bool) -> Verdict | None:
        """Why to stop now, or None."""
        verdict = self._infeasible() or self.stop.verdict(self.progress())
        if verdict is not None:
            return verdict
        if interrupted:
            return Verdict(Status.INTERRUPTED, cause())
        if self.halted:
            return Verdict(Status.INTERRUPTED, "by a callback")
        if self.stalled():
            return Verdict(Status.STALLED, self._limit())
        return None

    def _infeasible(self) -> Verdict | None:
        if self.judgement is None or self.judgement.infeasible is None:
            return None
        rows = self.judgement.rows_of_proof
        return Verdict(
            Status.INFEASIBLE, f"since a combination of {rows} rows proves that no w separates them"
        )

    def stalled(self) -> bool:
        """Whether the gap is of the order of rounding and has not moved for ten certificates."""
        if len(self.trace) <= 10:
            return False
        now, before = self.trace[-1].relative_gap, self.trace[-11].relative_gap
        floor = 200 * float(np.finfo(self.dtype).eps)
        return bool((now <= floor or self._is_rounding()) and now >= 0.99 * before)

    def _is_rounding(self) -> bool:
        """Whether most of the gap is what rounding may have done to the two values."""
        certificate = self.best.certificate
        return certificate is not None and certificate.rounding > 0.5 * certificate.gap

    def _limit(self) -> str:
        """What precision there is, and what would be needed."""
        certificate, asked = self.best.certificate, self.stop.gap
        limit = f"at the limit of {self.dtype} precision"
        if certificate is None or not self._is_rounding() or not asked:
            return limit
        # Bounds grow with the unit roundoff: a tenth of the gap that is asked for may be rounding.
        part = certificate.rounding / max(abs(certificate.primal), abs(certificate.dual))
        needed = math.log2(10.0 * part / asked) if part > 0 else 0.0
        return (
            f"{limit}: of the gap {part:.1e} is rounding in float64; about {53 + needed:.0f} bits "
            f"instead of its 53 would be needed"
        )

    def exhausted(self) -> Verdict:
        """The solver has nothing more to propose."""
        if self.last is None:
            raise RuntimeError("the solver proposed nothing")
        if self.judged_step != self.last.step:
            self.judge()
        verdict = self._infeasible() or self.stop.verdict(self.progress())
        if verdict is not None:
            return verdict
        if self.separates is not None:
            self.keep = "final"  # an earlier iterate of a lower value may not separate
            after = f"{self.separates}, after {self.last.epoch:.4g} epochs,"
            return Verdict(Status.SEPARATED, after)
        return Verdict(Status.STALLED, self._limit() if self._is_rounding() else NOTHING_MORE)

    def out_of_range(self, because: str) -> Verdict:
        """The solver's numbers have left the range of floating point: what it had before counts."""
        if self.best.w is None:
            step, epoch = (0, 0.0) if self.last is None else (self.last.step, self.last.epoch)
            self.last = replace(self.problem.origin(), step=step, epoch=epoch)
            self.judge()
        return self.stop.verdict(self.progress()) or Verdict(Status.STALLED, because)

    def left_range(self, what: str) -> str:
        """Why the run ends, where its numbers do."""
        return (
            f"since its numbers left the range of {self.dtype} ({what}); scale the features, or "
            f"choose another solver or rate,"
        )

    def progress(self) -> Progress:
        """What the stopping rules see."""
        assert self.last is not None
        seconds = time.perf_counter() - self.began
        return Progress(self.last, seconds, self.certificate, self.trace)

    @property
    def certificate(self) -> Certificate | None:
        """Of what the rules stop by: the best point, or the last one if that is to be kept."""
        if self.keep == "final" and self.judgement is not None:
            return self.best.certificate_of(self.judgement)
        return self.best.certificate

    def so_far(self, because: str, solver: Solver) -> Solution | None:
        """The best solution when something failed; None before the first iterate.

        Before the first certificate nothing is known of the primal value: it is infinite.
        """
        if self.last is None:
            return None
        if self.best.w is None:
            self.best.w, self.best.b = np.array(self.last.w), self.last.b
            # No objective is negative: the dual value of nothing.
            self.best.alpha, self.best.dual = np.zeros_like(self.last.alpha), 0.0
        return self.solution(Verdict(Status.INTERRUPTED, f"by {because}"), solver)

    def solution(self, verdict: Verdict, solver: Solver) -> Solution:
        """What the run leaves behind."""
        assert self.last is not None
        certificate = self.best.certificate
        assert certificate is not None
        assert self.best.w is not None
        assert self.best.alpha is not None
        w, b, scores = self.best.w, self.best.b, self.best.scores
        terms, chosen = self.best.primal_terms, self._chosen()
        if chosen is not None:
            w, b, scores = chosen.w, chosen.b, chosen.scores
            terms = chosen.terms and chosen.terms[0]
            certificate = self.best.certificate_of(chosen)
            verdict = self._about_choice(verdict, certificate)
        return Solution(
            w=w, b=b, alpha=self.best.alpha, certificate=certificate,
            status=verdict.status, trace=self.trace, epochs=self.last.epoch, steps=self.last.step,
            solver=solver.called(self.problem, self.last),
            message=_message(verdict, certificate, self.stop.goal),
            proof=self.judgement and self.judgement.infeasible, scores=scores,
            primal_terms=terms, dual_terms=self.best.dual_terms, place=self.problem.place,
        )  # fmt: skip

    def _chosen(self) -> Judgement | None:
        """The point that is the solution, unless that is the best."""
        if self.keep == "final":
            return self.judgement
        return None if self.choice is None else self.choice.judgement

    def _about_choice(self, verdict: Verdict, certificate: Certificate) -> Verdict:
        """What ended the run, and which of its iterates is the solution."""
        if self.keep == "final" or self.choice is None:
            return verdict
        converged = verdict.status is Status.CONVERGED
        again = self.stop.verdict(replace(self.progress(), certificate=certificate))
        if converged and again is not None and again.status is Status.CONVERGED:
            return verdict
        because = (
            f"{verdict.because}, with the weights of epoch {self.choice.epoch:.4g}, whose held-out "
            f"loss of {self.choice.loss:.4g} is the lowest,"
        )
        return Verdict(Status.BUDGET if converged else verdict.status, because)


def _message(verdict: Verdict, certificate: Certificate, goal: Gap | None) -> str:
    if verdict.status is Status.INFEASIBLE:
        return f"stopped {verdict.because}"
    verb = "converged" if verdict.status is Status.CONVERGED else "stopped"
    text = f"{verb} {verdict.because} at a certified gap of"
    if goal is None:
        return f"{text} {certificate.relative_gap:.1e}"
    whose = " of the dual value" if goal.relative_to == "dual" else ""
    return f"{text} {goal.of(certificate):.1e}{whose}; asked for {goal.tol:.1e}"


def _pace(stop: Stop, problem: Problem) -> Callable[..., int | None]:
    """So that Steps(n) and Epochs(n) are exact: no more than what is left of n."""

    def left(step: int, rows: int = 1) -> int | None:
        limits = [] if stop.steps is None else [stop.steps]
        if stop.epochs is not None and math.isfinite(stop.epochs):
            limits.append(_steps_in(stop.epochs, rows, problem.n_rows))
        return min(limits) - step if limits else None

    return left


def _steps_in(epochs: float, rows: int, n_rows: int) -> int:
    """The fewest steps of so many rows whose epochs, as iterates have them, are no fewer."""
    n = math.ceil(epochs * n_rows / rows)
    return next(k for k in (n - 1, n, n + 1) if k * rows / n_rows >= epochs)
