"""Solving the problems of one fit, and the ways to several classes as functions of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.fitting.labels import Labels, check_of_classes
from bridle.fitting.problems import (
    AgainstRest,
    ClusterProblems,
    KernelChoice,
    Problems,
    StoredProblems,
    Task,
    problems_in_memory,
)
from bridle.fitting.solutions import Solutions
from bridle.models.deciding import MultiClass, check_multi_class
from bridle.objective.bias import Bias
from bridle.objective.losses import Hinge, Loss, loss_from
from bridle.rows.cuda.device import Where
from bridle.solvers import Solver, solver_from
from bridle.solving.checkpoint import Checkpoint
from bridle.solving.loop import DEFAULT_STOP
from bridle.solving.many import Take, Watcher, solve_each
from bridle.solving.solution import Keep, Solution
from bridle.solving.stopping import Stop, Suboptimality
from bridle.solving.together import solve_together
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from bridle.fitting.early_stopping import Validation
    from bridle.objective.kernels import Kernel


# Classes are solved together as long as their dual variables and weights, 4 bytes each for float32
# data, take no more than this; and so many in any case.
MEMORY = 2**29
FEWEST = 16


@dataclass(frozen=True)
class Effort:
    """How to go about it: nothing here changes what is to be learned.

    stop: a rule `Seconds` in it is for all problems together. watch: sees the number of each
    problem and its newest record, and may end it. keep: which iterates the solutions are, the
    "best" or the "final" ones, as in `solve`. device: as in `LinearProblem`.
    """

    solver: str | Solver = "auto"
    stop: Stop = DEFAULT_STOP
    seed: int = 0
    n_threads: int | None = None
    watch: Watcher | None = None
    checkpoint: Any = None  # a Checkpoint; on a cluster, a folder
    keep: Keep = "best"
    device: Where = "cpu"


def solve_problems(
    problems: Problems,
    effort: Effort,
    *,
    start: Sequence[Any] | None = None,
    take: Take | None = None,
    validation: Validation | None = None,
) -> Solutions:
    """Solve each, as many at a time as they have workers.

    start: what to go on from, one per problem. take: what to take of each solution. validation:
    rows to stop by. Ctrl-C ends all runs after their epochs at hand, with the best solutions so
    far.
    """

    def finish(k: int, solution: Solution) -> Solution:
        solution = problems.finished(k, solution)
        return solution if take is None else take(k, solution)

    def rule(k: int) -> Stop | None:
        return None if validation is None else problems.rule(k, validation)

    saves = effort.checkpoint if isinstance(effort.checkpoint, Checkpoint) else None
    if start is None and validation is None and saves is None:
        found = _together(problems, effort, finish)
        if found is not None:
            return problems.collect(found)
    return problems.collect(
        solve_each(
            len(problems), problems.problem, problems.solver(effort.solver), stop=effort.stop,
            watch=effort.watch, start=start, seed=effort.seed, workers=problems.workers,
            n_threads=problems.n_threads, take=finish, rule_of=rule, checkpoint=saves,
            keep=effort.keep,
        )
    )  # fmt: skip


def _together(problems: Problems, effort: Effort, take: Take) -> tuple[Solution, ...] | None:
    """Each class against the rest, all at once, where the solver can do that; else None."""
    if len(problems) == 1 or any(isinstance(rule, Suboptimality) for rule in effort.stop.rules):
        return None  # which several problems cannot have
    if isinstance(problems, StoredProblems | ClusterProblems):
        return _side_by_side(problems, effort, take)
    if not isinstance(problems, AgainstRest):
        return None
    solver = solver_from(effort.solver, problems.base)
    solver.check(problems.base)
    each = 4 * (problems.n_rows + problems.n_features)
    if each > problems.base.rows.nnz:
        return None  # what each class has of its own is no longer small against the rows
    at_once = max(FEWEST, MEMORY // each)
    found: list[Solution] = []
    for begin in range(0, len(problems), at_once):
        numbers = range(begin, min(begin + at_once, len(problems)))
        codes, seed = problems.codes() - begin, effort.seed & (2**64 - 1)
        descents = solver.together(problems.base, codes, len(numbers), seed)
        if descents is None:
            return None
        found += solve_together(
            descents, problems.problem, numbers, solver, stop=effort.stop, watch=effort.watch,
            take=take, keep=effort.keep, n_threads=problems.n_threads,
        )  # fmt: skip
    return tuple(found)


def _side_by_side(
    problems: StoredProblems | ClusterProblems, effort: Effort, take: Take
) -> tuple[Solution, ...] | None:
    """The same of rows elsewhere, which are read, or sent for, once for all."""
    own = [problems.problem(k) for k in range(len(problems))]
    solver = solver_from(effort.solver, own[0])
    solver.check(own[0])
    found: list[Solution] = []
    while len(found) < len(own):
        begin = len(found)
        descents = solver.side_by_side(own[begin:], effort.seed & (2**64 - 1))
        if descents is None:
            return None
        found += solve_together(
            descents, problems.problem, range(begin, begin + descents.n), solver,
            stop=effort.stop, watch=effort.watch, take=take, keep=effort.keep, n_threads=1,
        )  # fmt: skip
    return tuple(found)


def solve_multiclass(
    X: Any,
    codes: ArrayLike,
    n_classes: int,
    C: float = 1.0,
    *,
    multi_class: MultiClass = "ovr",
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    bias_scale: float = 1.0,
    cost: ArrayLike | None = None,
    kernel: Kernel | None = None,
    penalty: str = "l2",
    l1_ratio: float | None = None,
    sample_weight: ArrayLike | None = None,
    start: Sequence[Any] | None = None,
    take: Take | None = None,
    validation: Validation | None = None,
    **effort: Any,
) -> Solutions:
    """Solve the problems of several classes: linear, or with the given kernel.

    codes: the class of each row, 0 to n_classes - 1; a row of any other has no class, and is of the
    rest wherever there is one. cost: of confusing classes, for "crammer_singer". penalty, l1_ratio:
    as in `Task`. start: what to go on from, one per problem. take: what to take of each solution.
    validation: rows to stop by. Others: as in `Effort`.

    Examples
    --------
    >>> X, _ = bridle.data.make_corpus(300, seed=0)
    >>> codes = [k % 4 for k in range(300)]
    >>> bridle.solve_multiclass(X, codes, 4, C=0.1, loss="squared_hinge").coef.shape
    (4, 47236)
    """
    check_multi_class(multi_class)
    check_of_classes(loss_from(loss))
    numbers = np.asarray(codes)
    if n_classes < 2:
        raise ValueError(f"there must be at least two classes, got {n_classes}")
    labels = Labels(np.arange(n_classes), np.full(n_classes, np.nan), numbers)
    chosen = None if kernel is None else KernelChoice(kernel)
    task = Task(
        C, loss, bias, bias_scale, multi_class, cost=cost, kernel=chosen, penalty=penalty,
        l1_ratio=l1_ratio,
    )  # fmt: skip
    how = Effort(**effort)
    problems = problems_in_memory(X, labels, task, sample_weight, how.n_threads, how.device)
    return solve_problems(problems, how, start=start, take=take, validation=validation)


def solve_one_vs_rest(
    X: Any, codes: ArrayLike, n_classes: int, C: float = 1.0, **options: Any
) -> Solutions:
    """One class after the other against the rest; options as in `solve_multiclass`.

    Examples
    --------
    >>> X, _ = bridle.data.make_corpus(300, seed=0)
    >>> found = bridle.solve_one_vs_rest(X, [k % 3 for k in range(300)], 3, C=0.1)
    >>> len(found.solutions), found.certificate.relative_gap <= 1e-3
    (3, True)
    """
    return solve_multiclass(X, codes, n_classes, C, multi_class="ovr", **options)


def solve_one_vs_one(
    X: Any, codes: ArrayLike, n_classes: int, C: float = 1.0, **options: Any
) -> Solutions:
    """One class against another, for each pair; options as in `solve_multiclass`.

    Examples
    --------
    >>> X, _ = bridle.data.make_corpus(300, seed=0)
    >>> found = bridle.solve_one_vs_one(X, [k % 4 for k in range(300)], 4, C=0.1)
    >>> len(found.solutions)  # pairs of classes
    6
    """
    return solve_multiclass(X, codes, n_classes, C, multi_class="ovo", **options)


def solve_crammer_singer(
    X: Any, codes: ArrayLike, n_classes: int, C: float = 1.0, **options: Any
) -> Solutions:
    """All classes in one problem; options as in `solve_multiclass`.

    Examples
    --------
    >>> X, _ = bridle.data.make_corpus(300, seed=0)
    >>> found = bridle.solve_crammer_singer(X, [k % 3 for k in range(300)], 3, C=0.1)
    >>> found.certificate.relative_gap <= 1e-3
    True
    """
    return solve_multiclass(X, codes, n_classes, C, multi_class="crammer_singer", **options)
