"""What the stochastic gradient solvers share: rates, the order of rows, and the loop over epochs.

On f(w) = lam/2 |w|^2 + 1/m sum_i c_i loss(p_i), lam = 1/(m C), the step on k rows A_t is

    w <- (1 - rho_t) w + rho_t (m/k) sum_{i in A_t} C_i slope(p_i) z_i,   rho_t = lam eta_t <= 1.

Written with rho_t, nothing in it overflows, whatever C is. Where the slope is not bounded (squared
hinge) no row moves w further than to where its own loss is 0, or long steps would grow without end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss
from bridle.objective.point import Iterate
from bridle.rows.base import STEPS
from bridle.rows.memory import MemoryRows
from bridle.solvers.base import Iterates, Pace, steps_until_yield

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


RateName = Literal[
    "constant", "eta0/t", "1/(lam sqrt t)", "1/(lam t)", "eta0/(1 + eta0 lam t)",
]  # fmt: skip

Sampling = Literal["epochs", "iid", "without-replacement"]
Output = Literal["last", "average", "tail-average", "random"]

# Bottou's practice: a free bias sees a gradient in every row and needs slower steps.
BIAS_RATE = 0.01


@dataclass(frozen=True)
class StepSettings:
    """How stochastic gradient steps are taken.

    rate: rho_t. steps_before: that led to the start. bias_rate: of a free bias, relative to rho_t.
    """

    rate: _core.steps.Rate
    steps_before: int = 0
    batch: int = 1
    radius: float = math.inf
    bias_rate: float = 0.0
    sampling: Sampling = "epochs"
    bucket: int = 1
    keep_random: bool = False
    averages: bool = False

    def compiled(self) -> _core.steps.SgdSettings:
        """For the core."""
        return _core.steps.SgdSettings(
            rate=self.rate, steps_before=self.steps_before, batch=self.batch, radius=self.radius,
            bias_rate=self.bias_rate, sampling=self.sampling, bucket=self.bucket,
            keep_random=self.keep_random,
        )  # fmt: skip


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise ValueError unless the value is one of a Literal's."""
    allowed = get_args(choices)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def check_positive(**values: float | None) -> None:
    """Raise ValueError unless every value that is given is positive and finite."""
    for name, value in values.items():
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be positive and finite, got {value}")


def check_counts(**values: int | None) -> None:
    """Raise ValueError unless every value that is given is at least 1."""
    for name, value in values.items():
        if value is not None and not value >= 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def rate_of(name: RateName, lam: float, eta0: float = 1.0) -> _core.steps.Rate:
    """rho_t = lam eta_t for one of the named rates eta_t, as scale (offset + t)^-power."""
    if name == "constant":
        return _core.steps.Rate(lam * eta0, 0.0, 0.0)
    if name == "eta0/t":
        return _core.steps.Rate(lam * eta0, 0.0, 1.0)
    if name == "1/(lam sqrt t)":
        return _core.steps.Rate(1.0, 0.0, 0.5)
    if name == "1/(lam t)":
        return _core.steps.Rate(1.0, 0.0, 1.0)
    return _core.steps.Rate(1.0, 1.0 / (lam * eta0), 1.0)


def needs_eta0(name: RateName) -> bool:
    """Whether the rate has a parameter eta_0."""
    return "eta0" in name or name == "constant"


def bucket_size(n_rows: int, bucket: int) -> int:
    """Neighbours that make up a bucket of a shuffled epoch: few enough to leave 1000 buckets."""
    return max(1, min(bucket, n_rows // 1000))


def start_weights(problem: LinearProblem, start: Any) -> tuple[Array, float]:
    """The joined weights and the free bias to start from."""
    if start is None:
        return np.zeros(problem.n_features + 1), 0.0
    return problem.join(start.w, start.b), float(start.b) if problem.bias == "free" else 0.0


def sgd_iterates(
    problem: LinearProblem,
    *,
    start: Any,
    rng: _core.Rng,
    pace: Pace,
    rate: _core.steps.Rate,
    batch: int = 1,
    radius: float = math.inf,
    sampling: Sampling = "epochs",
    output: Output = "last",
    bucket: int = 32,
    start_w: Array | None = None,
    average_from: int = 0,
    recalibrate: Callable[[Array, float], _core.steps.Rate] | None = None,
    recalibrate_every: int | None = None,
) -> Iterates:
    """One iterate after each epoch's worth of steps, or sooner if the pace asks for it.

    average_from: the epoch after which "average" begins to average.
    """
    batch = min(batch, problem.n_rows)
    per_epoch = max(1, problem.n_rows // batch)
    w, b = start_weights(problem, start)
    settings = StepSettings(
        rate=rate,
        # A warm start counts as an epoch: a first step at rate 1 would forget where it came from.
        # One that was saved knows how many steps led to it.
        steps_before=max(per_epoch, getattr(start, "step", 0)) if start is not None else 0,
        batch=batch, radius=radius, sampling=sampling,
        bias_rate=BIAS_RATE if problem.bias == "free" else 0.0,
        bucket=bucket_size(problem.n_rows, bucket), keep_random=output == "random",
        averages=output.endswith("average"),
    )  # fmt: skip
    steps = gradient_steps(
        problem, w if start_w is None else start_w, b, problem.start_alpha(start), settings
    )
    averaging = output.endswith("average")
    alpha = np.zeros(problem.n_rows)
    step, next_restart = 0, average_from * per_epoch
    while True:
        if averaging and step >= next_restart:
            steps.restart_average()
            next_restart = max(per_epoch, 2 * next_restart) if output == "tail-average" else 2**62
        if recalibrate is not None and recalibrate_every and step and step % recalibrate_every == 0:
            b = steps.output("last", w, alpha)
            steps.set_rate(recalibrate(w, b), 0)
        n = steps_until_yield(pace, step, per_epoch - step % per_epoch, batch)
        if recalibrate_every:
            n = min(n, recalibrate_every - step % recalibrate_every)
        if problem.bias == "free" and step % per_epoch == 0:
            steps.set_bias(_best_bias(problem, steps, w, alpha))
        steps.run(n, rng)
        step += n
        started = averaging and next_restart != average_from * per_epoch
        which = "average" if started else "last" if averaging else output
        b = steps.output(which, w, alpha)
        yield Iterate(step, step * batch / problem.n_rows, *problem.split(w, b), alpha)


def gradient_steps(
    problem: LinearProblem, w: Array, b: float, alpha: Array, settings: StepSettings
) -> Any:
    """What takes the steps: compiled where the rows and the loss allow it."""
    if STEPS not in problem.offers:
        from bridle.solvers.shared.stored import StoredSteps

        return StoredSteps(problem, w, b, alpha, settings)
    if problem.loss.core is None:
        from bridle.solvers.shared.foreign import ForeignSteps

        return ForeignSteps(problem, w, b, alpha, settings)
    return compiled_steps(problem.rows, problem.loss, problem.signed_cost, w, b, alpha, settings)


def compiled_steps(
    rows: MemoryRows,
    loss: Loss,
    signed_cost: Array,
    w: Array,
    b: float,
    alpha: Array,
    settings: StepSettings,
) -> _core.steps.StochasticGradient:
    """Stochastic gradient steps on rows in memory, by the core."""
    return _core.steps.stochastic_gradient(
        rows.view, loss.struct, signed_cost, rows.squared_norms, w, b, alpha, settings.compiled()
    )


def _best_bias(problem: LinearProblem, steps: Any, w: Array, alpha: Array) -> float:
    """The exact b for the present w.

    Nothing pulls b back, so steps that shrink like 1/t may never bring it home; between epochs it
    is put where it belongs.
    """
    steps.output("last", w, alpha)
    scores = problem.scores(w[:-1])
    return float(problem.sides.best_bias(scores))
