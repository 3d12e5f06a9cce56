"""Several classes by one linear problem each: class k against the rest.

    min_{w_k, b_k}  1/2 |w_k|^2 + sum_i C_i loss(y_ik (w_k.x_i + b_k)),   y_ik = +1 if row i is of
                                                                         class k, else -1.

Two classes are one problem, with the second class as +1. The problems are independent: they run in
parallel threads on the same data, and the certificate of the whole is the sum of theirs. What is
computed does not depend on the number of threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.blas import one_blas_thread
from bridle.certificate import Certificate, Record, total
from bridle.kernel_problem import KernelProblem
from bridle.kernels import Kernel
from bridle.losses import Hinge, Loss
from bridle.problem import Bias, LinearProblem
from bridle.solve import DEFAULT_STOP, Solution, deferred_interrupt, solve
from bridle.solvers import Solver
from bridle.stopping import AnyOf, Interrupted, Seconds, Status, Stop
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# Sees the number of the problem and its newest record; returning True ends that problem's run.
Watcher = Callable[[int, Record], bool | None]

# From the worst to the best: the whole has the worst status of its parts.
_SEVERITY = (
    Status.INFEASIBLE, Status.INTERRUPTED, Status.BUDGET, Status.STALLED, Status.CONVERGED,
)  # fmt: skip


@dataclass(frozen=True)
class OneVsRest:
    """One solution per problem: a single one for two classes."""

    solutions: tuple[Solution, ...]

    @property
    def coef(self) -> Array:
        """One row of weights per problem."""
        return np.vstack([solution.w for solution in self.solutions])

    @property
    def intercept(self) -> Array:
        """One intercept per problem."""
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
        """CONVERGED if every problem is."""
        return self.worst.status

    @property
    def epochs(self) -> float:
        """The most that any problem took."""
        return max(solution.epochs for solution in self.solutions)


def solve_one_vs_rest(
    X: Any,
    codes: ArrayLike,
    n_classes: int,
    C: float = 1.0,
    *,
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    bias_scale: float = 1.0,
    sample_weight: ArrayLike | None = None,
    own_weight: ArrayLike | None = None,
    solver: str | Solver = "auto",
    stop: Stop = DEFAULT_STOP,
    watch: Watcher | None = None,
    start: Sequence[Any] | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    kernel: Kernel | None = None,
) -> OneVsRest:
    """Solve the problem of each class against the rest: linear, or with the given kernel.

    codes: the class of each row, 0 to n_classes - 1; a row of any other is of the rest, always.
    own_weight: one for each class; the rows of a class weigh so much in that class's own problem,
    and as ever among the rest of the others' (as in LIBLINEAR). Two classes share one problem.
    start: what to go on from, one per problem.
    A stopping rule `Seconds` is for all problems together: each gets its share of what is left.
    Ctrl-C ends all runs after their epochs at hand, with the best solutions so far.
    """
    codes = np.asarray(codes)
    if n_classes < 2:
        raise ValueError(f"there must be at least two classes, got {n_classes}")
    positives = [1] if n_classes == 2 else list(range(n_classes))
    labels = _signs(codes, positives[0])
    base = None if sample_weight is None else np.asarray(sample_weight, np.float64)

    def row_weights(k: int) -> Array | None:
        if own_weight is None:
            return base
        own = own_weights(codes, k, np.asarray(own_weight, np.float64))
        return own if base is None else own * base

    options: dict[str, Any] = {
        "bias": bias, "bias_scale": bias_scale, "sample_weight": row_weights(0),
        "n_threads": n_threads,
    }  # fmt: skip
    problem: Any = (
        LinearProblem(X, labels, C, loss=loss, **options)
        if kernel is None
        else KernelProblem(X, labels, C, kernel=kernel, **options)
    )
    workers = min(problem.n_threads, len(positives))
    clock = _Shares(stop, len(positives), workers)

    def one(k: int, interrupted: Callable[[], bool]) -> Solution:
        own = problem
        if len(positives) > 1:
            labels = _signs(codes, positives[k])
            changes: Any = {} if own_weight is None else {"sample_weight": row_weights(k)}
            own = problem.variant(y=labels, n_threads=problem.n_threads // workers, **changes)
        return solve(
            own, solver, seed=seed, stop=clock.take() | Interrupted(interrupted),
            callbacks=() if watch is None else (lambda record: watch(k, record),),
            start=None if start is None else start[k],
        )  # fmt: skip

    with deferred_interrupt() as interrupted:
        if workers == 1:
            return OneVsRest(tuple(one(k, interrupted) for k in range(len(positives))))
        abandoned = threading.Event()

        def ended() -> bool:
            return interrupted() or abandoned.is_set()

        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(one, k, ended) for k in range(len(positives))]
            try:
                return OneVsRest(tuple(future.result() for future in futures))
            except BaseException:
                abandoned.set()  # nobody waits for the others any more
                raise


def own_weights(codes: NDArray[Any], k: int, weights: Array) -> Array:
    """Row weights of the problem of class k: its own rows count weights[k], the rest 1.

    Two classes share one problem, in which each class has its weight.
    """
    own, rest = (weights[1], weights[0]) if len(weights) == 2 else (weights[k], 1.0)
    return np.where(codes == (1 if len(weights) == 2 else k), own, float(rest))


def _signs(codes: NDArray[Any], k: int) -> Array:
    """+1 for the rows of class k, -1 for the others."""
    return np.where(codes == k, 1.0, -1.0)


class _Shares:
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
