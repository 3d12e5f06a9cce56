"""Cross-validation on shared rows: what a row's score is by models that have not seen it.

A fold is the same rows with weight zero for those held out: nothing is copied, and a row of weight
zero is in no solver's sum. The rows of each class are dealt out in a random order, so that a class
with two rows or more is in every fold's training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.fitting.labels import Labels, row_costs
from bridle.fitting.multiclass import Effort, solve_multiclass, solve_problems
from bridle.fitting.problems import ClusterProblems, Task, rows_of_pair, sides_of
from bridle.fitting.solutions import Solutions
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix
from bridle.models.deciding import MultiClass, class_scores, decide, n_functions
from bridle.objective import answers
from bridle.rows.cluster.messages import Aside
from bridle.rows.gram import expand
from bridle.rows.scoring import function_scores
from bridle.solving.many import without_dual
from bridle.solving.stopping import AnyOf, Seconds, Status, Stop
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.objective.kernels import Kernel


@dataclass(frozen=True)
class HeldOut:
    """One score for each row and function, by a model that was trained without the row's fold."""

    scores: Array  # (n_rows, n_functions)
    worst_gap: float  # the largest certified relative gap of any fold and class
    message: str  # of the problem with that gap
    interrupted: bool  # by Ctrl-C: the scores are not complete
    multi_class: str = "ovr"

    def measures(self, codes: NDArray[np.intp], weights: Array | None = None) -> answers.Measures:
        """How right they are, by weight."""
        guess = decide(class_scores(self.scores, self.multi_class, int(codes.max()) + 1))
        return answers.of_labels(guess, codes, weights)


NO_FOLD, EVERY_TRAINING = -1, -2  # of rows that are in none, and of those that are never held out


def deal(
    codes: NDArray[np.intp], n_folds: int, seed: int, *, lone: bool = False
) -> NDArray[np.intp]:
    """The fold of each row: the rows of each class are dealt out like cards.

    Rows with a code below zero belong to no class, and to no fold. lone: the only row of a class is
    never held out, rather than refused.
    """
    if n_folds < 2:
        raise ValueError(f"there must be at least two folds, got {n_folds}")
    counts = np.bincount(codes[codes >= 0])
    folds = np.full(len(codes), NO_FOLD, np.intp)
    if lone:
        alone = (codes >= 0) & (counts[codes] < 2)
        folds[alone], codes = EVERY_TRAINING, np.where(alone, NO_FOLD, codes)
    elif counts.min() < 2:
        raise ValueError(
            "cross-validation needs at least two rows of each class, "
            f"but one has {int(counts.min())}"
        )
    order = np.random.default_rng(seed).permutation(len(codes))
    by_class = order[np.argsort(codes[order], kind="stable")]
    dealt = by_class[codes[by_class] >= 0]
    folds[dealt] = np.arange(len(dealt)) % n_folds
    return folds


def held_out_scores(
    X: Any,
    codes: NDArray[np.intp],
    n_classes: int,
    C: float,
    folds: NDArray[np.intp],
    weights: Any,
    *,
    multi_class: MultiClass = "ovr",
    n_threads: int | None = None,
    **options: Any,
) -> HeldOut:
    """Train once without each fold; score its rows.

    weights: a function from the training rows (a mask) to row weights, for weights that depend on
    which rows there are. options: as in `solve_multiclass`.
    """
    X = as_matrix(X)
    scores = np.zeros((len(codes), n_functions(multi_class, n_classes)))
    worst_gap, message = -1.0, ""
    for fold in range(folds.max() + 1):
        test = folds == fold
        row_weights = weights(~test & (folds != NO_FOLD))
        found = solve_multiclass(
            X, codes, n_classes, C, multi_class=multi_class, sample_weight=row_weights,
            n_threads=n_threads, take=without_dual, **options,
        )  # fmt: skip
        if found.status is Status.INTERRUPTED:
            return HeldOut(scores, worst_gap, found.worst.message, True)
        gap = max(solution.certificate.relative_gap for solution in found.solutions)
        if gap > worst_gap:
            worst_gap, message = gap, found.worst.message
        seen = test | (folds == EVERY_TRAINING)
        scores[seen] = _scores(X, seen, found, codes, row_weights, n_threads, options)
    return HeldOut(scores, worst_gap, message, False, multi_class)


def _scores(
    X: Any,
    test: NDArray[np.bool_],
    found: Solutions,
    codes: NDArray[np.intp],
    weights: Array,
    n_threads: int | None,
    options: Mapping[str, Any],
) -> Array:
    """Of the rows held out, by each function."""
    kernel: Kernel | None = options.get("kernel")
    if kernel is None:
        return function_scores(X[test], found.coef, found.intercept, n_threads)
    n_classes, ways = int(codes.max()) + 1, found.multi_class
    table = []
    for k, solution in enumerate(found.solutions):
        rows = rows_of_pair(codes, sides_of(ways, n_classes, k), weights)
        part = X[test][:, rows] if kernel.given else X[test]
        table.append(expand(kernel, part, X[rows], solution.w.coefficients, n_threads))
    return np.stack(table, axis=1) + found.intercept


def without_folds(
    X: Any,
    labels: Labels,
    weights: Array | None,
    task: Task,
    effort: Effort,
    n_folds: int,
    *,
    lone: bool = False,
) -> tuple[HeldOut, Array]:
    """The scores of every row by a model without it, and the rows' weights in what is made of them.

    Classes weigh in the objective, not in what is measured. lone: as in `deal`.
    """
    assert labels.codes is not None
    row = np.ones(len(labels.codes)) if weights is None else weights
    counted = np.where(row > 0, labels.codes, -1)
    folds = deal(counted, n_folds, effort.seed, lone=lone)

    def training(mask: NDArray[np.bool_]) -> Array | None:
        return row_costs(labels, np.where(mask, row, 0.0), task.class_weight)

    held = held_out_scores(
        X, counted, labels.n_classes, task.C, folds, training, multi_class=task.multi_class,
        cost=task.cost, solver=effort.solver, stop=effort.stop, seed=effort.seed,
        n_threads=effort.n_threads, watch=effort.watch, keep=effort.keep,
        kernel=None if task.kernel is None else task.kernel.kernel, penalty=task.penalty,
        l1_ratio=task.l1_ratio, **task.formula,
    )  # fmt: skip
    return held, np.where(folds != NO_FOLD, row, 0.0)


def without_folds_on_cluster(
    problems: ClusterProblems, effort: Effort, n_folds: int
) -> tuple[HeldOut, NDArray[np.intp], Array]:
    """As `without_folds`, with the classes of the rows; these come fold by fold, part by part."""
    worst_gap, message = -1.0, ""
    found: list[tuple[Array, NDArray[np.intp], Array]] = []
    for k in range(n_folds):
        own = problems.without(Aside.fold(k, n_folds, effort.seed))
        solved = solve_problems(own, effort, take=without_dual)
        interrupted = solved.status is Status.INTERRUPTED
        gap = max(solution.certificate.relative_gap for solution in solved.solutions)
        if gap > worst_gap or interrupted:
            worst_gap, message = gap, solved.worst.message
        found.append(own.held(solved.coef, solved.intercept))
        if interrupted:
            break
    scores, codes, weights = (np.concatenate(part) for part in zip(*found, strict=True))
    return HeldOut(scores, worst_gap, message, interrupted), codes, weights


def cross_validated(
    X: Any, labels: Labels, weights: Array | None, task: Task, effort: Effort, n_folds: int
) -> tuple[answers.Measures | None, float]:
    """How right rows that were held out are, by their weights, and the worst gap of any fold.

    Nothing if Ctrl-C left folds unsolved. The seconds in `effort.stop` are for all folds.
    """
    effort = replace(effort, stop=shared(effort.stop, n_folds))
    held, _ = without_folds(X, labels, weights, task, effort, n_folds)
    assert labels.codes is not None
    return None if held.interrupted else held.measures(labels.codes, weights), held.worst_gap


def shared(stop: Stop, n_fits: int) -> Stop:
    """The rule of one fit among several that share the seconds evenly."""
    return AnyOf(tuple(
        Seconds(rule.s / n_fits) if isinstance(rule, Seconds) else rule for rule in stop.rules
    ))  # fmt: skip
