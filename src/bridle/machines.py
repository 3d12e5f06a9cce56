"""Several classes by several linear machines: how they are solved together and how they decide.

    "ovr"             one machine for each class against the rest; the largest score decides
    "ovo"             one machine for each pair of classes; the most votes decide
    "crammer_singer"  one problem for all classes, with one weight vector each; the largest decides

Two classes are one decision function whatever the way, positive for the second class.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.blas import one_blas_thread
from bridle.certificate import Certificate, Record, total
from bridle.checkpoint import Checkpoint
from bridle.losses import Loss
from bridle.rows import is_sparse, view_rows
from bridle.solve import Solution, deferred_interrupt, solve
from bridle.solvers import Solver
from bridle.stopping import AnyOf, Interrupted, Seconds, Status, Stop, ValidationLoss
from numpy.typing import NDArray

Array = NDArray[np.float64]

MultiClass = Literal["ovr", "ovo", "crammer_singer"]
MULTI_CLASS = ("ovr", "ovo", "crammer_singer")

# Sees the number of the problem and its newest record; returning True ends that problem's run.
Watcher = Callable[[int, Record], bool | None]

# Sees the number of the problem and its solution as soon as it is found, and says what to keep of
# it: see `without_dual` and `Weights`.
Keep = Callable[[int, Solution], Solution]

# From the worst to the best: the whole has the worst status of its parts.
_SEVERITY = (
    Status.INFEASIBLE, Status.INTERRUPTED, Status.BUDGET, Status.STALLED, Status.CONVERGED,
)  # fmt: skip


def check_multi_class(name: str) -> None:
    """ValueError if there is no such way."""
    if name not in MULTI_CLASS:
        raise ValueError(f"multi_class must be one of {', '.join(MULTI_CLASS)}, got {name!r}")


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """The machines of "ovo", in order: (positive class, negative class)."""
    return [(1, 0)] if n_classes == 2 else list(combinations(range(n_classes), 2))


def n_functions(multi_class: str, n_classes: int) -> int:
    """How many decision functions there are."""
    if multi_class == "ovo":
        return len(pairs(n_classes))
    return 1 if n_classes == 2 else n_classes


def n_problems(multi_class: str, n_classes: int) -> int:
    """How many problems are solved, each with a certificate."""
    return 1 if multi_class == "crammer_singer" else n_functions(multi_class, n_classes)


def about(multi_class: str, classes: NDArray[Any], k: int) -> str:
    """What to call problem k, where there are several."""
    if multi_class == "ovo":
        i, j = pairs(len(classes))[k]
        return f"{classes[i]} against {classes[j]}"
    return f"class {classes[k]}"


def function_scores(X: Any, coef: Any, intercept: Array, n_threads: int | None = None) -> Array:
    """w.x + b: a column for each decision function. X is checked: NaN, infinity, bad indices."""
    threads = _core.hardware_threads() if n_threads is None else n_threads
    rows, out = view_rows(X, 1.0), np.empty((coef.shape[0], X.shape[0]))
    _core.scan(rows, out[0], threads)
    for k, b in enumerate(intercept):
        w = coef[[k]].toarray()[0] if is_sparse(coef) else coef[k]
        _core.scores(rows, np.append(w, b), out[k], threads)
    return out.T


def class_scores(scores: Array, multi_class: str, n_classes: int) -> Array:
    """From the scores of the decision functions: (n,) for two classes, else one column a class."""
    if n_classes == 2:
        return np.ascontiguousarray(scores[:, 0])
    return votes(scores, n_classes) if multi_class == "ovo" else np.ascontiguousarray(scores)


def decide(scores: Array) -> NDArray[np.intp]:
    """The class of each row, by number, from `class_scores`; the first of equals."""
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


def votes(scores: Array, n_classes: int) -> Array:
    """Votes of the pairs for each class, and a fraction below one half that orders equal votes."""
    count = np.zeros((len(scores), n_classes))
    sums = np.zeros_like(count)
    for k, (i, j) in enumerate(pairs(n_classes)):
        count[:, i] += scores[:, k] >= 0  # a tie is the first class's, as everywhere
        count[:, j] += scores[:, k] < 0
        sums[:, i] += scores[:, k]
        sums[:, j] -= scores[:, k]
    fractions: Array = sums / (3 * (np.abs(sums) + 1))
    return count + fractions


@dataclass(frozen=True)
class Validation:
    """Rows held out to stop by: see `bridle.stopping.ValidationLoss`."""

    X: Any
    codes: NDArray[np.intp]
    sample_weight: Array | None = None
    patience: int = 5

    def rule(self, positive: int, negative: int | None, loss: Loss) -> Stop | None:
        """Of one class against another or (None) all others; None without rows of either."""
        rows = np.arange(len(self.codes))
        if negative is not None:
            rows = np.flatnonzero((self.codes == positive) | (self.codes == negative))
        if not len(rows):
            return None
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        signs = np.where(self.codes[rows] == positive, 1.0, -1.0)
        X = self.X if negative is None else self.X[rows]
        return ValidationLoss(X, signs, loss, weights, self.patience)


@dataclass(frozen=True)
class Machines:
    """The solutions of all problems."""

    solutions: tuple[Solution, ...]

    multi_class: ClassVar[MultiClass]

    @property
    def coef(self) -> Array:
        """One row of weights per decision function."""
        return np.vstack([solution.w for solution in self.solutions])

    @property
    def intercept(self) -> Array:
        """One intercept per decision function."""
        return np.array([solution.b for solution in self.solutions])

    @property
    def certificate(self) -> Certificate:
        """Of the sum of all problems."""
        return total([solution.certificate for solution in self.solutions])

    @property
    def worst_index(self) -> int:
        """Of the solution that ended worst: by status, then by gap."""
        ranks = [(_SEVERITY.index(s.status), -s.certificate.relative_gap) for s in self.solutions]
        return ranks.index(min(ranks))

    @property
    def worst(self) -> Solution:
        """The solution that ended worst."""
        return self.solutions[self.worst_index]

    @property
    def status(self) -> Status:
        """The worst of the statuses."""
        return self.worst.status

    @property
    def epochs(self) -> float:
        """The most that any problem took."""
        return max(solution.epochs for solution in self.solutions)


def without_dual(k: int, solution: Solution) -> Solution:
    """The solution without its dual point, which has a number for each row of the data."""
    return replace(solution, alpha=np.empty(0))


class Weights:
    """Takes the weights out of solutions as they are found: never in memory twice.

    sparse: only those that are not 0, for a CSR matrix.
    """

    def __init__(self, n_functions: int, n_features: int, *, sparse: bool) -> None:
        self._shape, self._sparse = (n_functions, n_features), sparse
        self._table = np.empty((0, 0)) if sparse else np.empty(self._shape)
        self._indices, self._values = np.empty(0, np.int32), np.empty(0)
        self._ends = [0]
        self._waiting: dict[int, Array] = {}  # for those of the functions before them
        self._lock = threading.Lock()

    def take(self, k: int, solution: Solution) -> Solution:
        """Keep the weights here; the rest of the solution goes on without them."""
        if not self._sparse:
            self._table[k] = solution.w
        else:
            with self._lock:
                self._waiting[k] = solution.w
                while (following := len(self._ends) - 1) in self._waiting:
                    self._append(self._waiting.pop(following))
        return replace(solution, w=None)

    def _append(self, w: Array) -> None:
        stored = np.flatnonzero(w)
        begin, end = self._ends[-1], self._ends[-1] + len(stored)
        if end > len(self._values):  # in place, where the system moves pages instead of bytes
            for array in (self._indices, self._values):
                array.resize(max(end, 3 * len(array) // 2), refcheck=False)
        self._indices[begin:end], self._values[begin:end] = stored, w[stored]
        self._ends.append(end)

    def coef(self) -> Any:
        """All of them, once."""
        if not self._sparse:
            return self._table
        from scipy.sparse import csr_matrix

        for array in (self._indices, self._values):
            array.resize(self._ends[-1], refcheck=False)
        ends: Any = np.asarray(self._ends, np.int64 if self._ends[-1] >= 2**31 else np.int32)
        return csr_matrix((self._values, self._indices, ends), shape=self._shape, copy=False)


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
    keep: Keep | None,
    rule_of: Callable[[int], Stop | None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> tuple[Solution, ...]:
    """Solve independent problems, `workers` at a time; each is made when its turn comes.

    rule_of: a further stopping rule for each problem, or None.
    A stopping rule `Seconds` is for all problems together: each gets its share of what is left.
    Ctrl-C ends all runs after their epochs at hand, with the best solutions so far.
    checkpoint: of several problems, each has a file of its own, with its number added to the name.
    """
    clock = Shares(stop, n_problems, workers)

    def one(k: int, interrupted: Callable[[], bool]) -> Solution:
        rule = clock.take() | Interrupted(interrupted)
        own = None if rule_of is None else rule_of(k)
        solution = solve(
            problem_of(k), solver, seed=seed, stop=rule if own is None else rule | own,
            callbacks=() if watch is None else (lambda record: watch(k, record),),
            start=None if start is None else start[k],
            checkpoint=checkpoint if checkpoint is None or n_problems == 1
            else checkpoint.numbered(k),
        )  # fmt: skip
        return solution if keep is None else keep(k, solution)

    with deferred_interrupt() as interrupted:
        if workers == 1:
            return tuple(one(k, interrupted) for k in range(n_problems))
        abandoned = threading.Event()

        def ended() -> bool:
            return interrupted() or abandoned.is_set()

        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(one, k, ended) for k in range(n_problems)]
            try:
                return tuple(future.result() for future in futures)
            except BaseException:
                abandoned.set()  # nobody waits for the others any more
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
