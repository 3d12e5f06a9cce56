"""Several classes by one linear problem each: class k against the rest.

    min_{w_k, b_k}  1/2 |w_k|^2 + sum_i C_i loss(y_ik (w_k.x_i + b_k)),   y_ik = +1 if row i is of
                                                                         class k, else -1.

Two classes are one problem, with the second class as +1. The problems are independent: they run in
parallel threads on the same data, and the certificate of the whole is the sum of theirs. What is
computed does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from bridle.fitting.classes import Machines, Validation
from bridle.models.deciding import MultiClass
from bridle.objective.bias import Bias
from bridle.objective.kernels import Kernel
from bridle.objective.losses import Hinge, Loss
from bridle.problems.kernel import KernelProblem
from bridle.problems.linear import LinearProblem
from bridle.solvers import Solver
from bridle.solving.checkpoint import Checkpoint
from bridle.solving.loop import DEFAULT_STOP
from bridle.solving.many import Keep, Watcher, solve_each
from bridle.solving.stopping import Stop
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class OneVsRest(Machines):
    """One solution per problem: a single one for two classes."""

    multi_class: ClassVar[MultiClass] = "ovr"


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
    keep: Keep | None = None,
    validation: Validation | None = None,
    kernel: Kernel | None = None,
    checkpoint: Checkpoint | None = None,
) -> OneVsRest:
    """Solve the problem of each class against the rest: linear, or with the given kernel.

    codes: the class of each row, 0 to n_classes - 1; a row of any other is of the rest, always.
    own_weight: one for each class; the rows of a class weigh so much in that class's own problem,
    and as ever among the rest of the others' (as in LIBLINEAR). Two classes share one problem.
    start: what to go on from, one per problem. keep: what to keep of each solution.
    validation: rows to stop by, where linear problems are solved.
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

    def problem_of(k: int) -> Any:
        if len(positives) == 1:
            return problem
        labels = _signs(codes, positives[k])
        changes: Any = {} if own_weight is None else {"sample_weight": row_weights(k)}
        return problem.variant(y=labels, n_threads=problem.n_threads // workers, **changes)

    def rule_of(k: int) -> Stop | None:
        assert validation is not None
        return validation.rule(positives[k], None, problem.loss)

    return OneVsRest(
        solve_each(
            len(positives), problem_of, solver, stop=stop, watch=watch, start=start, seed=seed,
            workers=workers, keep=keep, rule_of=rule_of if validation is not None else None,
            checkpoint=checkpoint,
        )
    )  # fmt: skip


def own_weights(codes: NDArray[Any], k: int, weights: Array) -> Array:
    """Row weights of the problem of class k: its own rows count weights[k], the rest 1.

    Two classes share one problem, in which each class has its weight.
    """
    own, rest = (weights[1], weights[0]) if len(weights) == 2 else (weights[k], 1.0)
    return np.where(codes == (1 if len(weights) == 2 else k), own, float(rest))


def _signs(codes: NDArray[Any], k: int) -> Array:
    """+1 for the rows of class k, -1 for the others."""
    return np.where(codes == k, 1.0, -1.0)
