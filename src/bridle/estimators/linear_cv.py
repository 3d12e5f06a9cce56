"""LinearSVCCV: LinearSVC with C chosen by cross-validation, in a fraction of a grid search's time.

Three things make it fast, and none of them is approximate:

- the data is checked and read in place once; a fold is the same rows with weight zero for those
  held out;
- in each fold the values of C are solved in order, each from the last one's solution;
- a solution says how good it is at other values of C (see `bridle.path`), at the best length of its
  weights there: where the last one is already within `tol` at the next C, that is its solution,
  certified, without solving.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bridle.estimators.base import encode_labels, row_weights, seed_from, with_class_weight
from bridle.estimators.linear import _MATRIX, LinearSVC
from bridle.estimators.stored import is_stored
from bridle.fitting.c_path import Start, Sums
from bridle.matrix.blas import one_blas_thread
from bridle.objective.best_scale import scale_within
from bridle.objective.bias import Bias
from bridle.objective.certificate import Certificate
from bridle.objective.losses import Loss, inner, weighted_sum
from bridle.problems.linear import LinearProblem
from bridle.rows.cluster.dask_rows import is_remote
from bridle.solvers import Solver
from bridle.solving.interruption import deferred_interrupt
from bridle.solving.loop import solve
from bridle.solving.many import Shares
from bridle.solving.solution import Solution
from bridle.solving.stopping import AnyOf, Epochs, Gap, Interrupted, Seconds, Stop
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.validation import validate_data

Array = NDArray[np.float64]

# The part of max_seconds that is for the choice of C; the rest is for the last fit.
CHOOSING = 0.8


class LinearSVCCV(LinearSVC):
    """LinearSVC whose C is chosen by cross-validated accuracy; then fitted on all rows.

    Parameters
    ----------
    Cs : how many values of C to try, spaced evenly in the logarithm from 1e-3 to 1e3 (in units of
        1 / mean |x|^2, so that scaling the data does not matter), or the values themselves.
    cv : the number of stratified folds, or one of scikit-learn's splitters.

    max_seconds : for the whole fit. Cross-validation has four fifths of it, shared out among the
        folds; each takes its values of C from the smallest on, as far as it gets.

    All others, and what is not listed here, as in LinearSVC.

    Attributes
    ----------
    C_ : the best C: the smallest of those with the highest mean accuracy.
    Cs_ : the values that were tried, in order.
    scores_ : (n_folds, n_Cs), the accuracy on the rows held out; rows count by their sample and
        class weights, as they do in the objective.
    gaps_ : (n_folds, n_Cs), the largest certified relative gap of any class; infinite where time or
        Ctrl-C ended cross-validation before that C was tried. The score is then nan, and C_
        the best of those that the most folds have tried.
    n_solves_ : problems that were solved; the others of n_folds * n_Cs * n_problems were certified
        by a neighbour's solution.
    """

    warm_start = False  # C differs from fit to fit

    def __init__(
        self,
        Cs: int | ArrayLike = 20,
        *,
        cv: Any = 5,
        loss: str | Loss = "hinge",
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        bias: Bias | None = None,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        store_dual: bool | None = None,
        probability: Literal["platt", "isotonic", False] = False,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.store_dual = store_dual
        self.probability = probability

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | float | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> LinearSVCCV:
        """Choose C, then train on all rows. groups: for splitters that want them.

        Ctrl-C ends the fit after the epochs at hand, with a model and its gap.
        """
        began = time.perf_counter()
        if is_remote(X) or is_stored(X):
            raise TypeError(
                "LinearSVCCV needs all rows in this memory; of rows on disk or on a cluster, fit a "
                "LinearSVC for each C, or use bridle.path, and score on rows held out"
            )
        X, labels = validate_data(self, X, y, **_MATRIX)
        weights = row_weights(sample_weight, X.shape[0])
        classes, codes = encode_labels(labels, weights)
        positives = [1] if len(classes) == 2 else list(range(len(classes)))
        problem = LinearProblem(
            X, np.where(codes == positives[0], 1.0, -1.0), loss=self.loss, bias=self._bias(),
            bias_scale=self.intercept_scaling, n_threads=self.n_threads,
        )  # fmt: skip
        self.Cs_ = _grid(self.Cs, problem)
        row = np.ones(len(codes)) if weights is None else weights
        folds = []
        for _, test in check_cv(self.cv, labels, classifier=True).split(X, labels, groups):
            train = row.copy()
            train[test] = 0.0
            scaled = with_class_weight(train, self.class_weight, classes, codes)
            assert scaled is not None
            folds.append(_Fold(test, scaled))
        counted = with_class_weight(row, self.class_weight, classes, codes)
        assert counted is not None
        with deferred_interrupt() as interrupted:
            runs = self._run(problem, folds, positives, codes, began, interrupted)
            self._choose(runs, folds, positives, codes, counted)
            self._fit(X, classes, codes, weights, self.C_, self._rest(began, interrupted))
        return self

    def _rest(self, began: float, interrupted: Callable[[], bool]) -> Stop:
        """When the last fit has to stop."""
        stop = Gap(self.tol) | Epochs(self.max_iter) | Interrupted(interrupted)
        if self.max_seconds is None:
            return stop
        return stop | self._share(max(0.0, began + self.max_seconds - time.perf_counter()))

    def _run(
        self,
        problem: LinearProblem,
        folds: list[_Fold],
        positives: list[int],
        codes: Any,
        began: float,
        interrupted: Callable[[], bool],
    ) -> list[list[_Run]]:
        """One run over all C for each fold and class, in parallel threads."""
        jobs = [(fold, k) for fold in folds for k in positives]
        workers = min(problem.n_threads, len(jobs))
        seed = seed_from(self.random_state)

        stop = Gap(self.tol) | Epochs(self.max_iter) | Interrupted(interrupted)
        if self.max_seconds is not None:
            spent = time.perf_counter() - began
            stop = stop | Seconds(max(0.0, CHOOSING * self.max_seconds - spent))
        shares = Shares(stop, len(jobs), workers)

        def one(job: tuple[_Fold, int]) -> _Run:
            fold, k = job
            own = problem.variant(
                y=np.where(codes == k, 1.0, -1.0), sample_weight=fold.weights,
                n_threads=problem.n_threads // workers,
            )  # fmt: skip
            budget = _Budget(shares.take(), interrupted)
            return _run_fold(own, self.Cs_, self.tol, self.solver, budget, seed, fold.test)

        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            runs = list(pool.map(one, jobs))
        n = len(positives)
        return [runs[i : i + n] for i in range(0, len(runs), n)]

    def _choose(
        self,
        runs: list[list[_Run]],
        folds: list[_Fold],
        positives: list[int],
        codes: NDArray[np.intp],
        weights: Array,
    ) -> None:
        self.scores_ = np.empty((len(folds), len(self.Cs_)))
        self.gaps_ = np.array([np.max([run.gaps for run in parts], axis=0) for parts in runs])
        self.n_solves_ = sum(run.n_solves for parts in runs for run in parts)
        for f, (fold, parts) in enumerate(zip(folds, runs, strict=True)):
            scores = np.stack([run.scores for run in parts])  # class x C x row
            if len(positives) == 1:
                predicted = (scores[0] > 0).astype(np.intp)
            else:
                predicted = scores.argmax(axis=0)
            held = weights[fold.test]
            right = predicted == codes[fold.test]
            self.scores_[f] = right @ held / held.sum() if held.any() else np.nan
        tried = np.isfinite(self.gaps_)
        self.scores_[~tried] = np.nan
        counts = tried.sum(axis=0)
        best = np.flatnonzero(counts == counts.max())
        self.C_ = float(self.Cs_[best[np.argmax(np.nanmean(self.scores_[:, best], axis=0))]])
        if not tried.all():
            n_all = int(np.sum(counts == len(folds)))
            warnings.warn(
                f"cross-validation ended early: {n_all} of {len(self.Cs_)} values of C were tried "
                f"in all {len(folds)} folds (raise max_seconds, or try fewer)",
                ConvergenceWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class _Fold:
    test: NDArray[np.intp]
    weights: Array  # zero for the rows held out


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
    scores: Array  # (n_Cs, rows held out)
    gaps: Array
    n_solves: int


def _grid(Cs: int | ArrayLike, problem: LinearProblem) -> Array:
    if isinstance(Cs, (int, np.integer)):
        if Cs < 1:
            raise ValueError(f"Cs must be at least 1, got {Cs}")
        constant = problem.bias_scale**2 if problem.bias == "regularised" else 0.0
        unit = 1.0 / (float(problem.squared_norms.mean()) - constant or 1.0)
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
    sums: Sums
    scores: Array  # of all rows
    margins: Array

    @classmethod
    def of(cls, problem: LinearProblem, solution: Solution) -> _Solved:
        """The look is the certificate's, where that has kept what it saw."""
        scores = solution.scores
        if scores is None:
            scores = problem.scores(solution.w, solution.b)
        return cls(problem, solution, Sums.of(problem, solution), scores, problem.y * scores)

    def at(self, C: float) -> tuple[float, Certificate]:
        """The scale at which these weights do well at another, larger C; their certificate there.

        Where all rows are within the margin the weights grow as C does; where hardly any are, a
        little more length buys what is left of the loss.
        """
        found = self.sums.certificate(C)
        if not self.problem.loss.unit_slope:
            return 1.0, found
        weights, squared_norm = self.problem.sample_weight, 2.0 * self.sums.half_squared_norm
        s = scale_within(self.margins, squared_norm, C * weights, 1.0, C / self.sums.C)
        loss = weighted_sum(weights, self.problem.loss.value(s * self.margins))
        primal = 0.5 * s * s * squared_norm + C * loss
        if primal >= found.primal:
            return 1.0, found
        return s, Certificate(primal, min(found.dual, primal), found.source)

    def start(self, C: float) -> Start:
        """Where to go on from at a larger C: rows at their bound go with it, as far as is good.

        As far as D(alpha + t d) = D + t sum_i d_i (1 - p_i) - t^2/2 |w(d)|^2 rises. Where most rows
        are at their bound, that is all the way.
        """
        start = Start.at(C, self.problem, self.solution)
        alpha = self.solution.alpha
        d = start.alpha - alpha
        moving = np.count_nonzero(d)
        if not self.problem.loss.unit_slope or not 0 < 2 * moving < np.count_nonzero(alpha):
            return start
        w = self.problem.weights(d)
        constant = self.problem.constant_feature * inner(d, self.problem.y)
        curvature = inner(w, w) + constant**2
        rise = float(d.sum()) - inner(d, self.margins)
        t = min(max(rise / curvature, 0.0), 1.0) if curvature > 0 else 1.0
        return Start(start.w, start.b, alpha + t * d)


def _run_fold(
    problem: LinearProblem,
    Cs: Array,
    tol: float,
    solver: str | Solver,
    budget: _Budget,
    seed: int,
    test: NDArray[np.intp],
) -> _Run:
    scores, gaps, n_solves = np.zeros((len(Cs), len(test))), np.full(len(Cs), np.inf), 0
    solved: _Solved | None = None
    for j, C in enumerate(map(float, Cs)):
        scale, certificate = (1.0, None) if solved is None else solved.at(C)
        if solved is None or certificate is None or certificate.relative_gap > tol:
            if solved is not None and budget.spent():
                break
            here = problem.variant(C=C)
            start = None if solved is None else solved.start(C)
            solution = solve(here, solver, stop=budget.rest(), start=start, seed=seed)
            solved = _Solved.of(here, solution)
            scale, certificate = 1.0, solution.certificate
            n_solves += 1
        scores[j], gaps[j] = scale * solved.scores[test], certificate.relative_gap
    return _Run(scores, gaps, n_solves)
