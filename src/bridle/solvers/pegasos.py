"""Pegasos: primal estimated subgradient solver.

    min_w  f(w) = lam/2 |w|^2 + 1/m sum_i c_i max(0, 1 - p_i),   lam = 1/(m C).

Step t draws k rows A_t and moves by 1/(lam t) against a subgradient on them:

    w <- (1 - 1/t) w + 1/(lam t k) sum_{i in A_t, p_i < 1} c_i z_i,

then, if projecting, onto the ball |w| <= 1/sqrt(lam) that holds the optimum (Shalev-Shwartz, Singer
& Srebro, "Pegasos: primal estimated sub-gradient solver for SVM", ICML 2007). A step costs the
non-zeros of its rows, whatever the number of features. The squared hinge replaces the indicator
p_i < 1 by 2 (1 - p_i)_+.

Every w in the span of the rows has a dual point for free, w = w(alpha): in shuffled whole epochs
without projection alpha even lies inside the box (the problem clips it otherwise).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.solvers.base import Array, Iterate, Iterates, Solver, steps_until_yield

if TYPE_CHECKING:
    from bridle.problem import LinearProblem


@dataclass(frozen=True)
class Pegasos(Solver):
    """Stochastic subgradient steps at rate 1/(lam t).

    batch: rows in a step (k). project: onto the ball that holds the optimum. start: "zero" or
    "random" (uniform in direction, on half the ball's radius). sampling: "epochs" walks shuffled
    epochs, "iid" draws with replacement, "without-replacement" draws distinct rows for each batch.
    output: the "last" iterate, the "average" of all, the "tail-average" (since the last power of
    two of epochs), or a "random" iterate.
    """

    batch: int = 1
    project: bool = True
    start: Literal["zero", "random"] = "zero"
    sampling: Literal["epochs", "iid", "without-replacement"] = "epochs"
    output: Literal["last", "average", "tail-average", "random"] = "last"

    name: ClassVar[str] = "pegasos"
    losses: ClassVar[tuple[str, ...]] = ("hinge", "squared_hinge")

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")
        for field, allowed in (
            ("start", ("zero", "random")),
            ("sampling", ("epochs", "iid", "without-replacement")),
            ("output", ("last", "average", "tail-average", "random")),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(
                    f"{field} must be one of {', '.join(allowed)}, got {getattr(self, field)!r}"
                )

    def iterates(
        self,
        problem: LinearProblem,
        *,
        start: Any = None,
        rng: _core.Rng,
        pace: Callable[[int], int | None] | None = None,
    ) -> Iterates:
        """One iterate after each epoch's worth of steps, or sooner if the pace asks for it."""
        batch = min(self.batch, problem.n_rows)
        radius = math.sqrt(problem.loss.squared_radius(problem.cost)) if self.project else math.inf
        per_epoch = max(1, problem.n_rows // batch)
        # A warm start counts as an epoch: at t = 1 the step would forget where it came from.
        steps_before = per_epoch if start is not None else 0
        kernel = _core.pegasos(
            problem.rows, problem.loss.name, problem.signed_cost, problem.squared_norms,
            self._start(problem, start, rng), problem.start_alpha(start), steps_before, batch,
            radius, self.sampling, self.output == "random",
        )  # fmt: skip
        averaging = self.output.endswith("average")
        if averaging:
            kernel.restart_average()
        which = "average" if averaging else self.output
        w, alpha = np.zeros(problem.n_features + 1), np.zeros(problem.n_rows)
        step, next_restart = 0, per_epoch
        while True:
            if self.output == "tail-average" and step >= next_restart:
                kernel.restart_average()
                next_restart *= 2
            n = steps_until_yield(pace, step, per_epoch - step % per_epoch)
            kernel.run(n, rng)
            step += n
            kernel.output(which, w, alpha)
            yield Iterate(step, step * batch / problem.n_rows, *problem.split(w), alpha)

    def _start(self, problem: LinearProblem, start: Any, rng: _core.Rng) -> Array:
        if start is not None:
            return problem.join(start.w, start.b)
        if self.start == "zero":
            return np.zeros(problem.n_features + 1)
        w: Array = np.array([rng.uniform() - 0.5 for _ in range(problem.n_features)] + [0.0])
        radius = math.sqrt(problem.loss.squared_radius(problem.cost))
        return w * (0.5 * radius / float(np.linalg.norm(w)))
