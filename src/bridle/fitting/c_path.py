"""The path over C: solutions that together certify every C between two ends.

A pair (w, alpha) for one C says something of every other C'. With the row weights v_i, C_i = C v_i,

    P(C') = 1/2 |w|^2 + C' L,                 L = sum_i v_i loss(p_i),
    D(C') = s S - s^2 (1/2 N + Q/C'),         S = sum alpha_i, N = |w(alpha)|^2,

where s alpha is feasible for C' (hinge: s <= C'/C, Q = 0; squared hinge: any s >= 0,
Q = sum alpha_i^2 / (4 v_i)) and s is the best such scale. For every other loss s = C'/C, which
leaves alpha_i / C_i as it was. With V, the dual value but for 1/2 |w(alpha)|^2,

    D(C') >= s V - s^2 N / 2,                 since -loss* is concave, and min loss >= 0 at 0.

P is linear and D concave in C', so those whose relative gap is at most epsilon form an interval,
whose ends bisection finds without another look at the data. Of a solution to epsilon/4 it is of the
order of sqrt(epsilon) in log C, so that O(1/sqrt(epsilon)) solves cover any range (Giesen, Jaggi &
Laue, "Approximating parameterized convex optimization problems", 2012).

Some values of C are solved at once, about four intervals apart; then each hole between two of them,
with as many as its ends' intervals say that it takes, from the nearer end's solution. Which values
these are depends on the solutions at the ends alone, not on who was first: solves that have nothing
to do with each other go on at the same time.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.fitting.problems import Task, linear_problem
from bridle.matrix.arrays import Array
from bridle.matrix.blas import one_blas_thread
from bridle.matrix.threads import HEARING, Threads
from bridle.objective import answers
from bridle.objective.bias import Bias
from bridle.objective.certificate import Certificate, Source
from bridle.objective.losses import Hinge, Loss
from bridle.objective.point import Point
from bridle.objective.rounding import ZERO, Interval
from bridle.problems.linear import LinearProblem
from bridle.rows.cuda.device import Where
from bridle.rows.memory import MemoryRows
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt, check_interrupt, deferred_interrupt
from bridle.solving.loop import solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, Gap, Interrupted, Seconds, Stop
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Sums:
    """What a solution needs to be judged at another C, in O(1), rounding included."""

    C: float
    half_squared_norm: Interval  # 1/2 |w|^2, of the primal's weights
    loss: Interval  # L
    alpha: Interval  # S
    squared_norm: Interval  # N, of the dual's weights
    curvature: Interval  # Q
    value: Interval  # V
    bounded: bool  # hinge: alpha_i <= C_i
    quadratic: bool  # the hinge or its square: any scale up to a bound is feasible

    @classmethod
    def of(cls, problem: LinearProblem, solution: Solution) -> Sums:
        """Without a look at the data."""
        of_w, of_alpha = solution.primal_terms, solution.dual_terms
        if of_w is None or of_alpha is None:
            raise ValueError("this solution does not say what its certificate is made of")
        bounded, S = problem.loss.bounded_dual, of_alpha.total
        curvature = ZERO
        if problem.loss.quadratic and not bounded:
            curvature = (S - of_alpha.value).within(0.0, math.inf) * problem.C
        return cls(
            problem.C, of_w.half_norm, of_w.loss / problem.C, S, of_alpha.squared_norm, curvature,
            of_alpha.value, bounded, problem.loss.quadratic,
        )  # fmt: skip

    def certificate(self, C: float) -> Certificate:
        """The certificate of the same w and of the best scale of the same alpha at another C."""
        dual = self._scaled(C) if self.quadratic else self._in_proportion(C)
        primal = self.half_squared_norm + self.loss * C
        rounding = primal.width + dual.width
        source: Source = "repair" if self.C != C else "solver"
        return Certificate(primal.high, max(dual.low, 0.0), source, rounding)

    def _scaled(self, C: float) -> Interval:
        half = 0.5 * self.squared_norm + self.curvature / C
        # Whatever scale is feasible proves something: the best one need not be known exactly.
        scale = self.alpha.low / (2.0 * half.high) if half.high > 0 else 0.0
        if self.bounded:
            scale = min(scale, (Interval(C, C) / self.C).low)
        scale = max(scale, 0.0) if math.isfinite(scale) else 0.0
        s = Interval(scale, scale)
        return s * self.alpha - s.squared() * half

    def _in_proportion(self, C: float) -> Interval:
        scale = (Interval(C, C) / self.C).low
        s = Interval(scale, scale)
        return s * self.value - 0.5 * (s.squared() * self.squared_norm)

    def edge(self, gap: float, towards: float) -> float:
        """The C nearest to `towards` up to which the relative gap stays within `gap`."""
        if self._is_proof(towards, gap):
            return towards
        here = inside = math.log(self.C)
        outside = math.log(towards)
        while abs(outside - inside) > 1e-6:
            middle = 0.5 * (inside + outside)
            if self._gap_about(math.exp(middle)) <= gap:
                inside = middle
            else:
                outside = middle
        # That was without rounding, to be quick.
        step = math.copysign(1e-6, inside - here)
        while (inside - here) * step > 0 and not self._is_proof(math.exp(inside), gap):
            inside, step = inside - step, 2.0 * step
        return math.exp(inside) if (inside - here) * step > 0 else self.C

    def _is_proof(self, C: float, gap: float) -> bool:
        return self.certificate(C).relative_gap <= gap

    def _gap_about(self, C: float) -> float:
        """The relative gap at another C, but for rounding."""
        scale = C / self.C
        if not self.quadratic:
            dual = scale * self.value.middle - 0.5 * scale**2 * self.squared_norm.middle
        else:
            half = 0.5 * self.squared_norm.middle + self.curvature.middle / C
            best = self.alpha.middle / (2.0 * half) if half > 0 else 0.0
            best = min(best, scale) if self.bounded else best
            dual = best * self.alpha.middle - best**2 * half
        primal = self.half_squared_norm.middle + self.loss.middle * C
        return (primal - max(dual, 0.0)) / primal if primal > 0 else 0.0


@dataclass(frozen=True)
class PathPoint:
    """A solution at C that is certified from `low` to `high`."""

    C: float
    low: float
    high: float
    solution: Solution
    sums: Sums


@dataclass(frozen=True)
class Path(Sequence[PathPoint]):
    """Solutions in the order of C whose intervals cover the range, if `complete`.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> found = bridle.path(X, y, 0.01, 1.0, gap=0.1)
    >>> found.complete, found.points[0].C
    (True, 0.01)
    """

    points: tuple[PathPoint, ...]
    gap: float
    complete: bool

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self.points)

    def __getitem__(self, index: Any) -> Any:
        return self.points[index]

    def at(self, C: float) -> tuple[Solution, Certificate]:
        """The solution that is best at this C, and its certificate there."""
        low, high = self.points[0].low, self.points[-1].high
        if not low <= C <= high:
            raise ValueError(f"C = {C} is outside the path, which covers {low:.6g} to {high:.6g}")
        best = min(self.points, key=lambda point: point.sums.certificate(C).relative_gap)
        return best.solution, best.sums.certificate(C)

    def errors(self, X: Any, y: ArrayLike) -> Array:
        """The fraction of rows of (X, y) that each solution gets wrong."""
        labels = np.asarray(y)
        scores = (np.asarray(X @ p.solution.w).ravel() + p.solution.b for p in self.points)
        return np.array([float(np.mean(np.where(s > 0, 1, -1) != labels)) for s in scores])

    def measures(self, X: Any, y: ArrayLike, loss: Loss) -> dict[str, Array]:
        """How right each solution is: see `bridle.objective.answers`."""
        found = [
            answers.of_scores(loss, np.asarray(X @ p.solution.w).ravel() + p.solution.b, y)
            for p in self.points
        ]
        return {name: np.array([one[name] for one in found]) for name in found[0]}

    def __str__(self) -> str:
        # A solve that stopped short ends the path.
        done = [point for point in self.points if point.solution.converged]
        covers = f"to a gap of {self.gap:.3g}"
        if done:
            ends = f"{done[0].low:.6g} to {done[-1].high:.6g}"
            covers = f"{len(done)} solutions certify every C from {ends} {covers}"
        else:
            covers = f"no C is certified {covers}"
        if self.complete:
            return covers
        last = self.points[-1]
        if last.solution.converged:
            return f"{covers}; there it was interrupted"
        return f"{covers}; at C = {last.C:.6g} the solver {last.solution.message}"


def path(
    X: Any,
    y: ArrayLike | None,
    C_min: float,
    C_max: float,
    *,
    gap: float = 1e-3,
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    bias_scale: float = 1.0,
    sample_weight: ArrayLike | None = None,
    solver: str | Solver = "auto",
    max_seconds: float | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    device: Where = "cpu",
    callback: Callable[[PathPoint], None] | None = None,
    interrupt: Interrupt = "raise",
) -> Path:
    """Solve for every C from C_min to C_max to a certified relative gap.

    X may be on disk or on a cluster: StoredRows or DaskRows, with y=None, or a collection of Dask;
    of rows in memory, several C are solved at the same time. max_seconds: for each of them.
    device: as in `LinearProblem`; rows are copied there once. callback: sees the solutions in the
    order of C, each as soon as those of smaller C are known.
    Ctrl-C ends the path, and is then raised with the path so far as its `solution`;
    interrupt="return" returns that instead.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> found = bridle.path(X, y, 0.01, 1.0, gap=0.1)
    >>> all(found.at(C)[1].relative_gap <= 0.1 for C in (0.01, 0.1, 1.0))
    True
    """
    if not 0 < C_min <= C_max < math.inf:
        raise ValueError(f"need 0 < C_min <= C_max < inf, got {C_min} and {C_max}")
    if not 0 < gap < 1:
        raise ValueError(f"gap must lie between 0 and 1, got {gap}")
    check_interrupt(interrupt)
    task = Task(C_min, loss, bias, bias_scale)
    problem = linear_problem(
        X, y, task, sample_weight=sample_weight, n_threads=n_threads, device=device
    )
    stop: Stop = Gap(gap / 4) | Epochs(10**5)
    if max_seconds is not None:
        stop = stop | Seconds(max_seconds)
    points: list[PathPoint] = []
    with deferred_interrupt() as interrupted:
        for point in path_points(problem, C_max, gap, solver, stop, seed, interrupted):
            points.append(point)
            if callback is not None:
                try:
                    callback(point)
                except KeyboardInterrupt:
                    interrupted.set()
    complete = points[-1].solution.converged and points[-1].high >= C_max
    found = Path(tuple(points), gap, complete)
    interrupted.raised(interrupt, found)
    return found


def path_points(
    problem: LinearProblem,
    C_max: float,
    gap: float,
    solver: str | Solver,
    stop: Stop,
    seed: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[PathPoint]:
    """Points from problem.C up to C_max whose intervals meet, in the order of C.

    Ends early if a solve stops short of its gap, since no interval follows from that one: it is
    then the last point.
    """
    if problem.loss.one_class:
        raise ValueError("a path over C needs labels: of one class C only makes the weights longer")
    if not problem.loss.certifiable:
        raise ValueError(f"a path needs a loss that can be certified, not {problem.loss.name}")
    at_once = isinstance(problem.rows, MemoryRows)
    workers = problem.n_threads if at_once else 1
    search = _Search(problem, C_max, gap, solver, stop, seed, interrupted)
    with one_blas_thread(), Threads(workers if workers > 1 else 0, sharing=workers) as pool:
        try:
            yield from search.points(pool, workers)
        except BaseException:
            search.abandoned.set()  # nobody waits for the others any more
            raise


class _Search:
    """What was solved, what is being solved, and what is to be solved next."""

    def __init__(
        self, problem: LinearProblem, C_max: float, gap: float, solver: str | Solver, stop: Stop,
        seed: int, interrupted: Callable[[], bool],
    ) -> None:  # fmt: skip
        self.problem, self.C_min, self.C_max, self.gap = problem, problem.C, C_max, gap
        self.solver, self.stop, self.seed, self.interrupted = solver, stop, seed, interrupted
        self.abandoned = threading.Event()
        self.limit = math.inf  # the smallest C whose solve has stopped short
        self.found: dict[float, PathPoint | None] = {}  # None: not yet
        self.ready: list[tuple[float, PathPoint | None]] = []
        self._plan([(C, None) for C in self._first()])

    def points(self, pool: Threads, workers: int) -> Iterator[PathPoint]:
        """In the order of C, each as soon as those before are known."""
        told: PathPoint | None = None
        going: set[Future[PathPoint]] = set()
        while going or self.ready:
            going |= self._begin(pool, workers - len(going))
            done, going = wait(going, HEARING, FIRST_COMPLETED)
            for future in done:
                self._note(future.result())
            for point in self._further(told):
                told = point
                yield point
        short = [point for _, point in sorted(self.found.items()) if not _converged(point)]
        if short and (told is None or not self.interrupted()):
            assert short[0] is not None
            yield short[0]

    def _first(self) -> list[float]:
        """Values of C, about four intervals apart."""
        n = math.ceil(math.log(self.C_max / self.C_min) / (13.0 * math.sqrt(self.gap)))
        return np.geomspace(self.C_min, self.C_max, n + 1).tolist() if n else [self.C_min]

    def _plan(self, solves: list[tuple[float, PathPoint | None]]) -> None:
        self.found |= {C: None for C, _ in solves}
        self.ready = sorted(self.ready + solves, key=lambda solve: solve[0])

    def _begin(self, pool: Threads, n: int) -> set[Future[PathPoint]]:
        """The next solves, up to n, of the smallest C; the first of all in any case."""
        begun: set[Future[PathPoint]] = set()
        while self.ready and len(begun) < n:
            C, start = self.ready.pop(0)
            if self.C_min == C or not self._ended(C):
                begun.add(pool.submit(self._solve, C, start))
        return begun

    def _ended(self, C: float) -> bool:
        """Whether a solve at this C is of no more use."""
        return self.interrupted() or self.abandoned.is_set() or self.limit < C

    def _solve(self, C: float, start: PathPoint | None) -> PathPoint:
        tried, begin = self.problem.variant(C=C), None
        if start is not None:
            begin = start_at(C, self.problem.variant(C=start.C), start.solution)
        solution = solve(
            tried, self.solver, stop=self.stop | Interrupted(lambda: self._ended(C)),
            start=begin, seed=self.seed, interrupt="return",
        )  # fmt: skip
        sums = Sums.of(tried, solution)
        if not solution.converged:
            return PathPoint(C, C, C, solution, sums)
        low, high = sums.edge(self.gap, self.C_min), sums.edge(self.gap, self.C_max)
        return PathPoint(C, low, high, solution, sums)

    def _note(self, point: PathPoint) -> None:
        """Keeps the point; the holes beside it are next, where their other ends are known."""
        self.found[point.C] = point
        if not _converged(point):
            self.limit = min(self.limit, point.C)
        grid = sorted(self.found)
        at = grid.index(point.C)
        ends = [self.found[C] for C in grid[max(at - 1, 0) : at + 2]]
        for left, right in itertools.pairwise(ends):
            if left is not None and right is not None and _converged(left):
                self._plan(_between(left, right))

    def _further(self, told: PathPoint | None) -> Iterator[PathPoint]:
        """Points beyond the last one that was told whose intervals meet."""
        for C, point in sorted(self.found.items()):
            if told is not None and C <= told.C:
                continue
            apart = told is not None and point is not None and point.low > told.high
            if point is None or not _converged(point) or apart or (told and self.interrupted()):
                return
            told = point
            yield point


def _converged(point: PathPoint | None) -> bool:
    return point is not None and point.solution.converged


def _between(left: PathPoint, right: PathPoint) -> list[tuple[float, PathPoint | None]]:
    """Values of C for the hole between two points, each with the nearer one of them."""
    if left.high >= right.low:
        return []
    up, down = math.log(left.high / left.C), math.log(right.C / right.low)
    n = min(16, math.ceil(math.log(right.low / left.high) / max(up + down, 1e-6)))
    # Each in the middle of its part of the hole.
    Cs = np.geomspace(left.high, right.low, 2 * n + 1)[1::2].tolist()
    starts = [left if C * C < left.C * right.C or not _converged(right) else right for C in Cs]
    return list(zip(Cs, starts, strict=True))


def start_at(C: float, problem: LinearProblem, solution: Solution) -> Point:
    """The solution of a problem, to go on from at another C: rows at their bound go with it."""
    return Point(solution.w, solution.b, problem.rescaled(solution.alpha, C))
