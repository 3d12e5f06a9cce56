"""Steps in Python, for losses that the compiled core does not know: slow, and right.

The same updates as core/linear takes for the losses it has a struct for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.point import Iterate
from bridle.rows.foreign import entries_of, visit
from bridle.solvers.base import Iterates

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem
    from bridle.solvers.shared.stochastic import StepSettings


def descend_foreign(problem: LinearProblem, *, start: Any, rng: _core.Rng) -> Iterates:
    """Dual coordinate descent: an iterate after each shuffled epoch."""
    alpha = problem.start_alpha(start)
    w = problem.rows.combine(alpha * problem.y)
    order = np.empty(problem.n_rows, np.int64)
    epoch = 0
    while True:
        rng.permutation(order)
        visit(problem.sides.piece, problem.loss, alpha, w, order)
        epoch += 1
        yield Iterate(epoch * problem.n_rows, float(epoch), *problem.split(w), alpha)


class ForeignSteps:
    """Stochastic gradient steps on any loss: StochasticGradient's methods.

    w = s v and alpha = s a, so that a step costs the non-zeros of its rows.
    """

    def __init__(
        self, problem: LinearProblem, w: Array, b: float, alpha: Array, settings: StepSettings
    ) -> None:
        if settings.keep_random:
            raise ValueError(f"output='random' needs a compiled loss, not {problem.loss.name}")
        self.problem, self.settings, self.rate = problem, settings, settings.rate
        self.v, self.a, self.s, self.b = np.array(w), np.array(alpha), 1.0, b
        self.t, self.order = settings.steps_before, np.empty(0, np.int64)
        self.entries = entries_of(problem.rows)
        self.restart_average()

    def set_rate(self, rate: _core.steps.Rate, steps_before: int) -> None:
        """Another schedule, from now on."""
        self.rate, self.t = rate, steps_before

    def set_bias(self, b: float) -> None:
        """A free bias."""
        self.b = b

    def restart_average(self) -> None:
        """Averages begin here."""
        self.averaged = 0
        self.mean_w, self.mean_a, self.mean_b = np.zeros_like(self.v), np.zeros_like(self.a), 0.0

    def run(self, n_steps: int, rng: _core.Rng) -> None:
        """So many steps."""
        for _ in range(n_steps):
            self._step(self._draw(rng))
            if self.settings.averages:
                self._average()

    def output(self, which: str, w: Array, alpha: Array) -> float:
        """Writes down the last point or the average; its bias."""
        if which == "average" and self.averaged:
            w[:], alpha[:] = self.mean_w, self.mean_a
            return self.mean_b
        w[:], alpha[:] = self.s * self.v, self.s * self.a
        return self.b

    def _draw(self, rng: _core.Rng) -> list[int]:
        batch, m = self.settings.batch, self.problem.n_rows
        if self.settings.sampling == "iid":
            return [rng.below(m) for _ in range(batch)]
        if len(self.order) < batch or self.settings.sampling == "without-replacement":
            self.order = np.empty(m, np.int64)
            rng.permutation(self.order)
        rows, self.order = self.order[:batch].tolist(), self.order[batch:]
        return rows  # type: ignore[no-any-return]

    def _step(self, rows: list[int]) -> None:
        problem = self.problem
        self.t += 1
        rho = self.rate.at(self.t)
        pulls = [self._pull(i, rho) for i in rows]
        self.s *= 1.0 - rho
        if not 1e-100 < abs(self.s) < 1e100:  # also at rho = 1, where nothing is left
            self.v, self.a, self.s = self.s * self.v, self.s * self.a, 1.0
        for i, pull in zip(rows, pulls, strict=True):
            columns, values = self.entries(i)
            self.v[columns] += (pull * problem.y[i] / self.s) * values
            self.a[i] += pull / self.s
            if self.settings.bias_rate:
                self.b += self.settings.bias_rate * pull * problem.y[i]
        if np.isfinite(self.settings.radius):
            length = abs(self.s) * float(np.linalg.norm(self.v))
            self.s *= min(1.0, self.settings.radius / length) if length > 0 else 1.0

    def _pull(self, i: int, rho: float) -> float:
        """rho (m/k) C_i slope(p_i); where that has no bound, no further than loss 0."""
        problem, batch = self.problem, self.settings.batch
        columns, values = self.entries(i)
        p = problem.y[i] * (self.s * float(self.v[columns] @ values) + self.b)
        if problem.targets is not None:
            p -= float(problem.targets[i])
        slope = float(problem.loss.slope(np.array([p]))[0])
        pull = rho * problem.n_rows / batch * float(problem.cost[i]) * slope
        norm = float(problem.squared_norms[i])
        if problem.loss.bounded_dual or norm == 0 or not self.rate.clip:
            return pull
        furthest = (problem.loss.target - (1.0 - rho) * p) / norm
        return float(min(pull, max(0.0, furthest)) if pull > 0 else max(pull, min(0.0, furthest)))

    def _average(self) -> None:
        self.averaged += 1
        share = 1.0 / self.averaged
        self.mean_w += share * (self.s * self.v - self.mean_w)
        self.mean_a += share * (self.s * self.a - self.mean_a)
        self.mean_b += share * (self.b - self.mean_b)
