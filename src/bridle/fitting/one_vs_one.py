"""Several classes by one linear problem for each pair of them: class i against class j.

    min_{w_ij, b_ij}  1/2 |w_ij|^2 + sum_{rows of i, j} C_r loss(y_r (w_ij.x_r + b_ij)),
                      y_r = +1 for class i, else -1.

K (K - 1) / 2 small problems, each on a copy of its own rows, which is made when its turn comes. The
classes are elected by the votes of the pairs (`bridle.machines.votes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from bridle import _core
from bridle.fitting.classes import Machines, Validation
from bridle.matrix.door import as_matrix
from bridle.matrix.labels import check_weights
from bridle.models.deciding import MultiClass, pairs
from bridle.objective.bias import Bias
from bridle.objective.losses import Hinge, Loss, loss_from
from bridle.problems.linear import LinearProblem
from bridle.solvers import Solver
from bridle.solving.loop import DEFAULT_STOP
from bridle.solving.many import Keep, Watcher, solve_each
from bridle.solving.stopping import Stop
from numpy.typing import ArrayLike, NDArray


class OneVsOne(Machines):
    """One solution per pair of classes; the entries of alpha belong to `rows_of` the pair."""

    multi_class: ClassVar[MultiClass] = "ovo"


def rows_of(
    codes: NDArray[Any], pair: tuple[int, int], sample_weight: NDArray[np.float64]
) -> NDArray[np.intp]:
    """The rows of the two classes that have a weight."""
    return np.flatnonzero(np.isin(codes, pair) & (sample_weight > 0))


def solve_one_vs_one(
    X: Any,
    codes: ArrayLike,
    n_classes: int,
    C: float = 1.0,
    *,
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    bias_scale: float = 1.0,
    sample_weight: ArrayLike | None = None,
    solver: str | Solver = "auto",
    stop: Stop = DEFAULT_STOP,
    watch: Watcher | None = None,
    start: Sequence[Any] | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    keep: Keep | None = None,
    validation: Validation | None = None,
) -> OneVsOne:
    """Solve the problem of each pair of classes. Arguments as in `solve_one_vs_rest`."""
    codes = np.asarray(codes)
    if n_classes < 2:
        raise ValueError(f"there must be at least two classes, got {n_classes}")
    threads = _core.hardware_threads() if n_threads is None else n_threads
    if threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    X = as_matrix(X)
    weights = check_weights(sample_weight, X.shape[0])
    duels = pairs(n_classes)
    workers = min(threads, len(duels))

    def problem_of(k: int) -> LinearProblem:
        rows = rows_of(codes, duels[k], weights)
        return LinearProblem(
            X[rows], np.where(codes[rows] == duels[k][0], 1.0, -1.0), C, loss=loss, bias=bias,
            bias_scale=bias_scale, sample_weight=weights[rows], n_threads=threads // workers,
        )  # fmt: skip

    def rule_of(k: int) -> Stop | None:
        assert validation is not None
        return validation.rule(*duels[k], loss_from(loss))

    return OneVsOne(
        solve_each(
            len(duels), problem_of, solver, stop=stop, watch=watch, start=start, seed=seed,
            workers=workers, keep=keep, rule_of=rule_of if validation is not None else None,
        )
    )  # fmt: skip
