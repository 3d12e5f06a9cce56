"""C by cross-validation, in a fraction of a grid search's time.

Three things make it fast, and none of them is approximate:

- the data is checked and read in place once; a fold is the same rows with weight zero for those
  held out;
- in each fold the values of C are solved in order, each from the last one's solution, within
  groups of a decade: to go on from a smaller C than that saves little, and groups, folds and
  classes are solved at the same time;
- a solution says how good it is at other values of C (see `bridle.path`), at the best length of its
  weights there: where the last one is already within the gap at the next C, that is its solution,
  certified, without solving.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bridle.fitting.c_path import Sums, start_at
from bridle.fitting.labels import Labels, class_weights, row_costs
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import ClusterProblems, InMemory, Task, check_joint, problems_in_memory
from bridle.fitting.refusals import refuse
from bridle.matrix.arrays import Array
from bridle.matrix.blas import one_blas_thread
from bridle.matrix.threads import Threads
from bridle.models.deciding import decide
from bridle.objective.best_scale import scale_within
from bridle.objective.certificate import Certificate
from bridle.objective.losses import inner
from bridle.objective.point import Point
from bridle.objective.rounding import Interval, U, gamma
from bridle.problems.linear import LinearProblem
from bridle.problems.multinomial import MultinomialProblem
from bridle.rows.base import quick_error
from bridle.rows.cluster.messages import Aside
from bridle.solving.loop import solve
from bridle.solving.many import Shares
from bridle.solving.solution import Solution
from bridle.solving.stopping import AnyOf, Interrupted, Seconds, Stop
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.intp]
# From rows held out and their decision values, of one shape (n,) for two classes, to a score.
Measure = Callable[[Indices, Array], float]


@dataclass(frozen=True)
class Choice:
    """The best C, and what is known of the others.

    scores: (n_folds, n_Cs), the accuracy on the rows held out, by their weights, or what is
    measured instead. gaps: the largest certified relative gap of any class; infinite where
    cross-validation ended before that C was tried. The score is then nan, and C the best of those
    that the most folds have tried.
    """

    C: float
    Cs: Array
    scores: Array
    gaps: Array
    n_solves: int

    @property
    def standing(self) -> tuple[int, float]:
        """How many folds have tried C, and its mean score: what is better is larger."""
        at = int(np.searchsorted(self.Cs, self.C))
        tried = np.isfinite(self.gaps[:, at])
        return int(tried.sum()), float(np.nanmean(self.scores[:, at])) if tried.any() else -np.inf

    @property
    def tried_everywhere(self) -> int:
        """How many values of C all folds have tried."""
        return int(np.isfinite(self.gaps).all(axis=0).sum())


def choose_cost(
    X: Any,
    labels: Labels,
    weights: Array | None,
    folds: Sequence[Indices],
    Cs: int | ArrayLike,
    *,
    task: Task,
    effort: Effort,
    interrupted: Callable[[], bool],
    measure: Measure | None = None,
) -> Choice:
    """The smallest of those with the highest mean accuracy on the rows that each fold holds out.

    Cs: how many values to try, of linear problems with the l2 penalty, or these values. Rows count
    by their weights and by those of their classes, as they do in the objective. measure: instead of
    the accuracy, and without weights.
    """
    problems = problems_in_memory(X, labels, task, weights, effort.n_threads, effort.device)
    row = np.ones(problems.n_rows) if weights is None else weights
    grid = _grid(Cs, problems, row)
    costs = [_held_out(row, rows, labels, task) for rows in folds]
    jobs = [
        _Job(rows, k, own) for rows, own in zip(folds, costs, strict=True)
        for k in range(len(problems))
    ]  # fmt: skip
    runs = _run_all(problems, jobs, _decades(grid), effort, interrupted)
    counted = row_costs(labels, row, task.class_weight)
    assert counted is not None
    scores, gaps = np.empty((len(folds), len(grid))), np.empty((len(folds), len(grid)))
    for f, rows in enumerate(folds):
        parts = runs[f * len(problems) : (f + 1) * len(problems)]
        gaps[f] = np.max([run.gaps for run in parts], axis=0)
        if measure is None:
            scores[f] = _accuracy(parts, problems.codes()[rows], counted[rows])
        else:
            scores[f] = [measure(rows, values) for values in _values(parts)]
    scores[~np.isfinite(gaps)] = np.nan
    return _best_of(grid, scores, gaps, sum(run.n_solves for run in runs))


def _best_of(grid: Array, scores: Array, gaps: Array, n_solves: int) -> Choice:
    counts = np.isfinite(gaps).sum(axis=0)
    best = np.flatnonzero(counts == counts.max())
    C = float(grid[best[np.argmax(np.nanmean(scores[:, best], axis=0))]])
    return Choice(C, grid, scores, gaps, n_solves)


def choose_cost_on_cluster(
    parts: Any,
    n_folds: int,
    Cs: int | ArrayLike,
    *,
    task: Task,
    effort: Effort,
    interrupted: Callable[[], bool],
) -> Choice:
    """The same of rows on a cluster: the folds are of every part's rows, which stay there."""
    if n_folds < 2:
        raise ValueError(f"there must be at least two folds, got {n_folds}")
    problems = ClusterProblems(parts, task)
    check_joint("cluster", task, problems.labels.n_classes)
    if task.penalty != "l2":
        refuse("cluster", {"penalty": task.penalty})
    grid = _grid_of(Cs, problems.facts.mean_square)
    everything = class_weights(task.class_weight, problems.labels.classes, problems.labels.totals)
    scores, gaps = np.full((n_folds, len(grid)), np.nan), np.full((n_folds, len(grid)), np.inf)
    tol, n_solves = effort.stop.gap, 0
    assert tol is not None
    shares = Shares(effort.stop | Interrupted(interrupted), n_folds * len(problems), 1)
    for f in range(n_folds):
        aside = Aside.fold(f, n_folds, effort.seed)
        own = problems.without(aside)
        counted = own.counting(everything)
        runs = [
            _run_on_cluster(
                own.problem(k), grid, tol, effort, _Budget(shares.take(), interrupted)
            )
            for k in range(len(own))
        ]  # fmt: skip
        n_solves += sum(run.n_solves for run in runs)
        gaps[f] = np.max([run.gaps for run in runs], axis=0)
        for j in np.flatnonzero(np.isfinite(gaps[f])):
            coef = np.stack([run.points[j][0] for run in runs])
            intercept = np.array([run.points[j][1] for run in runs])
            scores[f, j] = counted.accuracy(coef, intercept)
    return _best_of(grid, scores, gaps, n_solves)


@dataclass(frozen=True)
class _Points:
    points: list[tuple[Array, float]]  # w and b of each C that was tried
    gaps: Array
    n_solves: int


def _run_on_cluster(
    problem: LinearProblem, Cs: Array, tol: float, effort: Effort, budget: _Budget
) -> _Points:
    """Each C from the last one's solution, which may be good enough."""
    points: list[tuple[Array, float]] = []
    gaps, n_solves = np.full(len(Cs), np.inf), 0
    here, solution, sums = problem, None, None
    for j, C in enumerate(map(float, Cs)):
        certificate = None if sums is None else sums.certificate(C)
        if solution is None or certificate is None or certificate.relative_gap > tol:
            if solution is not None and budget.spent():
                break
            start: Point | None = None if solution is None else start_at(C, here, solution)
            here = problem.variant(C=C)
            solution = solve(
                here, effort.solver, stop=budget.rest(), start=start, seed=effort.seed,
                keep=effort.keep, interrupt="return",
            )  # fmt: skip
            here.sides.close()
            sums, certificate = Sums.of(here, solution), solution.certificate
            n_solves += 1
        points.append((solution.w, solution.b))
        gaps[j] = certificate.relative_gap
    return _Points(points, gaps, n_solves)


@dataclass(frozen=True)
class _Job:
    """Class k against the rest, without the rows of a fold, which weigh nothing."""

    test: Indices
    k: int
    weights: Array


def _held_out(row: Array, test: Indices, labels: Labels, task: Task) -> Array:
    train = row.copy()
    train[test] = 0.0
    costs = row_costs(labels, train, task.class_weight)
    assert costs is not None
    return costs


def _run_all(
    problems: InMemory,
    jobs: list[_Job],
    groups: list[Array],
    effort: Effort,
    interrupted: Callable[[], bool],
) -> list[_Run]:
    """One run over all C for each fold and class; the groups of C in parallel threads."""
    parts = [(job, Cs) for Cs in reversed(groups) for job in jobs]  # large C take longest
    workers = min(problems.n_threads, len(parts), problems.most_at_once)
    stop = effort.stop | Interrupted(interrupted)
    shares, tol = Shares(stop, len(parts), workers), effort.stop.gap
    assert tol is not None

    def one(part: tuple[_Job, Array]) -> _Run:
        job, Cs = part
        own, present = problems.weighing(job.k, job.weights)
        run = _run_group(own, Cs, tol, effort, _Budget(shares.take(), interrupted), job.test)
        return run if present is None else run.widened(present, problems.labels.n_classes)

    with one_blas_thread(), Threads(workers, sharing=problems.n_threads) as pool:
        runs = list(pool.map(one, parts))
    return [_Run.of(runs[at :: len(jobs)][::-1]) for at in range(len(jobs))]


def _accuracy(parts: list[_Run], codes: Indices, weights: Array) -> Array:
    """Of each C, on the rows held out."""
    if not weights.any():
        return np.full(len(parts[0].gaps), np.nan)
    predicted = np.stack([decide(values) for values in _values(parts)])
    return np.asarray((predicted == codes) @ weights / weights.sum())


def _values(parts: list[_Run]) -> list[Array]:
    """Of each C, the decision values of the rows held out."""
    if len(parts) == 1:
        return list(parts[0].scores)
    return list(np.stack([run.scores for run in parts], axis=-1))  # C x row x class


class _Budget:
    """A stopping rule whose seconds are for several solves together."""

    def __init__(self, stop: Stop, interrupted: Callable[[], bool]) -> None:
        seconds = [rule.s for rule in stop.rules if isinstance(rule, Seconds)]
        self._others = AnyOf(tuple(r for r in stop.rules if not isinstance(r, Seconds)))
        self._deadline = time.perf_counter() + min(seconds) if seconds else np.inf
        self._interrupted = interrupted

    def spent(self) -> bool:
        """Whether another solve has no time."""
        return self._interrupted() or time.perf_counter() >= self._deadline

    def rest(self) -> Stop:
        """The rule for the next solve."""
        if self._deadline == np.inf:
            return self._others
        return self._others | Seconds(max(0.0, self._deadline - time.perf_counter()))


@dataclass(frozen=True)
class _Run:
    scores: Array  # (n_Cs, rows held out), with the classes of a joint problem last
    gaps: Array
    n_solves: int

    @classmethod
    def of(cls, groups: list[_Run]) -> _Run:
        """Of all groups of C, in their order."""
        return cls(
            np.concatenate([run.scores for run in groups]),
            np.concatenate([run.gaps for run in groups]),
            sum(run.n_solves for run in groups),
        )

    def widened(self, present: NDArray[np.intp], n_classes: int) -> _Run:
        """With the scores of classes that had no rows, which are as low as can be."""
        scores = np.full((*self.scores.shape[:-1], n_classes), -np.inf)
        scores[..., present] = self.scores
        return replace(self, scores=scores)


def _decades(grid: Array) -> list[Array]:
    """Values of C in order, by groups of which none spans more than a factor of ten."""
    groups: list[Array] = []
    while len(grid):
        n = int(np.searchsorted(grid, 10.0 * grid[0], side="right"))
        groups.append(grid[:n])
        grid = grid[n:]
    return groups


def _grid(Cs: int | ArrayLike, problems: InMemory, weights: Array) -> Array:
    if not isinstance(Cs, (int, np.integer)):
        return _grid_of(Cs, 1.0)
    constant = problems.task.bias_scale**2 if problems.task.bias == "regularised" else 0.0
    # A weight is so many copies: of this mean, too.
    mean = float(np.average(problems.base.rows.squared_norms, weights=weights))
    return _grid_of(Cs, mean - constant)


def _grid_of(Cs: int | ArrayLike, mean_square: float) -> Array:
    """mean_square: of the rows, without a constant feature."""
    if isinstance(Cs, (int, np.integer)):
        if Cs < 1:
            raise ValueError(f"Cs must be at least 1, got {Cs}")
        unit = 1.0 / (mean_square or 1.0)
        return unit * np.geomspace(1e-3, 1e3, int(Cs))
    values = np.unique(np.asarray(Cs, np.float64))
    if values.ndim != 1 or not len(values) or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"Cs must be positive finite numbers, got {Cs}")
    return values


@dataclass(frozen=True)
class _Solved:
    """A solution, and what one look at all rows says of it: those held out, and other C."""

    problem: LinearProblem
    solution: Solution
    scores: Array  # of all rows
    sums: Sums
    margins: Array
    error: float  # of the margins, at most

    @classmethod
    def of(cls, problem: LinearProblem, solution: Solution) -> _Solved:
        """The look is the certificate's, where that has kept what it saw."""
        scores = _scores(problem, solution)
        joined = problem.join(solution.w, solution.b)
        error = quick_error(problem.rows, joined) + gamma(16) * abs(solution.b)
        sums = Sums.of(problem, solution)
        return cls(problem, solution, scores, sums, problem.y * scores, error)

    def at(self, C: float) -> tuple[float, Certificate | None]:
        """The scale at which these weights do well at another, larger C; their certificate there.

        Where all rows are within the margin the weights grow as C does; where hardly any are, a
        little more length buys what is left of the loss. None of a loss without certificates.
        """
        loss = self.problem.loss
        if not loss.certifiable:
            return 1.0, None
        found = self.sums.certificate(C)
        if not loss.unit_slope:
            return 1.0, found
        cost, half = C * self.problem.sample_weight, self.sums.half_squared_norm
        s = scale_within(self.margins, 2.0 * half.high, cost, 1.0, C / self.sums.C)
        # The weights that are meant are s w, each of them rounded.
        scaled = Interval.around(s, 4 * U * s).squared() * half
        error = 2.0 * s * self.error
        losses = loss.sum_between(s * self.margins, error, cost) * Interval.around(1.0, 4 * U)
        primal = scaled + losses
        if primal.high >= found.primal:
            return 1.0, found
        return s, Certificate(primal.high, found.dual, found.source, primal.width + found.rounding)

    def start(self, C: float) -> Point:
        """Where to go on from at a larger C: rows at their bound go with it, as far as is good.

        As far as D(alpha + t d) = D + t sum_i d_i (1 - p_i) - t^2/2 |w(d)|^2 rises. Where most rows
        are at their bound, that is all the way.
        """
        start = start_at(C, self.problem, self.solution)
        alpha = np.asarray(self.solution.alpha)
        d = start.alpha - alpha
        moving = np.count_nonzero(d)
        if not self.problem.loss.unit_slope or not 0 < 2 * moving < np.count_nonzero(alpha):
            return start
        w = self.problem.weights(d)
        constant = self.problem.constant_feature * inner(d, self.problem.y)
        curvature = inner(w, w) + constant**2
        rise = float(d.sum()) - inner(d, self.margins)
        t = min(max(rise / curvature, 0.0), 1.0) if curvature > 0 else 1.0
        return Point(start.w, start.b, alpha + t * d)


@dataclass(frozen=True)
class _Apart:
    """A solution that says nothing of other C: one of all classes, or with an l1 norm."""

    solution: Solution
    scores: Array

    def at(self, C: float) -> tuple[float, None]:
        """Not certified there."""
        return 1.0, None

    def start(self, C: float) -> Solution:
        """Where to go on from at a larger C."""
        return self.solution


def _looked_at(problem: Any, solution: Solution) -> _Solved | _Apart:
    if isinstance(problem, LinearProblem):
        return _Solved.of(problem, solution)
    return _Apart(solution, _scores(problem, solution))


def _scores(problem: Any, solution: Solution) -> Array:
    found = solution.scores
    return problem.scores(solution.w, solution.b) if found is None else np.asarray(found)


def _run_group(
    problem: Any,
    Cs: Array,
    tol: float,
    effort: Effort,
    budget: _Budget,
    test: NDArray[np.intp],
) -> _Run:
    wide = (problem.n_classes,) if isinstance(problem, MultinomialProblem) else ()
    scores, gaps, n_solves = np.zeros((len(Cs), len(test), *wide)), np.full(len(Cs), np.inf), 0
    solved: _Solved | _Apart | None = None
    for j, C in enumerate(map(float, Cs)):
        scale, certificate = (1.0, None) if solved is None else solved.at(C)
        if solved is None or certificate is None or certificate.relative_gap > tol:
            if solved is not None and budget.spent():
                break
            here = problem.variant(C=C)
            start = None if solved is None else solved.start(C)
            solution = solve(
                here, effort.solver, stop=budget.rest(), start=start, seed=effort.seed,
                keep=effort.keep, interrupt="return",
            )  # fmt: skip
            solved = _looked_at(here, solution)
            scale, certificate = 1.0, solution.certificate
            n_solves += 1
        scores[j], gaps[j] = scale * solved.scores[test], certificate.relative_gap
    return _Run(scores, gaps, n_solves)
