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
from bridle.errors import DivergenceError
from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss
from bridle.objective.point import Iterate
from bridle.rows.base import STEPS, Piece
from bridle.rows.memory import MemoryRows
from bridle.solvers.base import Iterates, Pace, steps_until_yield

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


RateName = Literal[
    "constant", "eta0/t", "1/(lam sqrt t)", "1/(lam t)", "eta0/(1 + eta0 lam t)",
]  # fmt: skip

Sampling = Literal["epochs", "iid", "without-replacement"]
Output = Literal["last", "average", "tail-average", "random"]

# Bottou's practice: a free bias sees a gradient in every row, as if it were a feature that all rows
# have, and nothing pulls it back. At the rate of w it overshoots: hence slower steps, and the exact
# best value between epochs.
BIAS_RATE = 0.01

DIVERGED = 1e100  # a weight that no rate that converges leads to


@dataclass(frozen=True)
class StepSettings:
    """How stochastic gradient steps are taken.

    rate: rho_t. steps_before: that led to the start. bias_rate: of a free bias, relative to rho_t;
    `bias_rate_of` has the usual one.
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


def check_divergence(rate: _core.steps.Rate, step: int, w: Array, b: float = 0.0) -> None:
    """Raise DivergenceError if the weights have run away, as they may at a rate without a clip."""
    if rate.clip or np.abs(w).max(initial=abs(b)) <= DIVERGED:  # which NaN is not
        return
    raise DivergenceError(
        f"the weights diverge at this rate: by step {step} they are above {DIVERGED:g}, with "
        f"lam eta_t = {rate.at(step):.3g} (beyond 2 every step makes them longer)"
    )


def bias_rate_of(problem: LinearProblem, bias_rate: float | None) -> float:
    """Of a free bias, relative to the rate of w: what is asked for, or the usual one."""
    if problem.bias != "free":
        return 0.0
    return BIAS_RATE if bias_rate is None else bias_rate


def check_counts(**values: int | None) -> None:
    """Raise ValueError unless every value that is given is at least 1."""
    for name, value in values.items():
        if value is not None and not value >= 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def rate_of(
    name: RateName, lam: float, eta0: float = 1.0, *, clip: bool = True
) -> _core.steps.Rate:
    """rho_t = lam eta_t for one of the named rates eta_t, as scale (offset + t)^-power."""
    if name == "constant":
        return _core.steps.Rate(lam * eta0, 0.0, 0.0, clip)
    if name == "eta0/t":
        return _core.steps.Rate(lam * eta0, 0.0, 1.0, clip)
    # The others are never above 1; the clip that is left keeps single rows from going too far.
    if name == "1/(lam sqrt t)":
        return _core.steps.Rate(1.0, 0.0, 0.5, clip)
    if name == "1/(lam t)":
        return _core.steps.Rate(1.0, 0.0, 1.0, clip)
    return _core.steps.Rate(1.0, 1.0 / (lam * eta0), 1.0, clip)


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
    bias_rate: float | None = None,
    recalibrate: Callable[[Array, float], _core.steps.Rate] | None = None,
    recalibrate_every: int | None = None,
) -> Iterates:
    """One iterate after each epoch's worth of steps, or sooner if the pace asks for it.

    average_from: the epoch after which "average" begins to average. bias_rate: of a free bias,
    relative to the rate, which is then left to its steps; None takes slow ones, 0 none, and both
    the exact best value between epochs.
    """
    own_bias = bool(bias_rate)
    batch = min(batch, problem.n_rows)
    per_epoch = max(1, problem.n_rows // batch)
    w, b = start_weights(problem, start)
    settings = StepSettings(
        rate=rate,
        # A warm start counts as an epoch: a first step at rate 1 would forget where it came from.
        # One that was saved knows how many steps led to it.
        steps_before=max(per_epoch, getattr(start, "step", 0)) if start is not None else 0,
        batch=batch, radius=radius, sampling=sampling,
        bias_rate=bias_rate_of(problem, bias_rate),
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
        if problem.bias == "free" and not own_bias and step % per_epoch == 0:
            steps.output("last", w, alpha)
            before = 0.0 if bias_rate is None else (settings.steps_before + step) / per_epoch
            balance = before * problem.sides.balance_of(alpha)
            steps.set_bias(problem.sides.held_bias(problem.join(w[:-1]), -balance))
        steps.run(n, rng)
        step += n
        started = averaging and next_restart != average_from * per_epoch
        which = "average" if started else "last" if averaging else output
        b = steps.output(which, w, alpha)
        check_divergence(rate, settings.steps_before + step, w, b)
        yield Iterate(
            step, step * batch / problem.n_rows, *problem.split(w, b), alpha,
            own_bias=own_bias,
        )  # fmt: skip


def gradient_steps(
    problem: LinearProblem, w: Array, b: float, alpha: Array, settings: StepSettings
) -> Any:
    """What takes the steps: compiled where the rows and the loss allow it."""
    if STEPS in problem.offers and problem.loss.core is None:
        from bridle.solvers.shared.foreign import ForeignSteps

        return ForeignSteps(problem, w, b, alpha, settings)

    def make(piece: Piece) -> Any:
        return compiled_steps(
            piece.rows, problem.loss, piece.signed_cost, w, b, alpha, settings, piece.targets
        )

    def enter(steps: Any, piece: Piece) -> Any:
        steps.enter(
            piece.rows.view, piece.signed_cost, piece.rows.squared_norms, piece.where.start,
            piece.targets,
        )  # fmt: skip
        return piece

    return steps_on(problem, make, enter, settings.sampling)


def steps_on(
    problem: LinearProblem,
    make: Callable[[Piece], Any],
    enter: Callable[[Any, Piece], Any],
    sampling: Sampling = "epochs",
) -> Any:
    """Compiled steps on all rows in memory, or on the ranges of a file one after the other.

    make, enter: see `bridle.solvers.shared.stored.StoredSteps`.
    """
    if STEPS in problem.offers:
        return make(problem.sides.piece)
    from bridle.solvers.shared.stored import StoredSteps

    return StoredSteps(problem, make, enter, sampling)


def compiled_steps(
    rows: MemoryRows,
    loss: Loss,
    signed_cost: Array,
    w: Array,
    b: float,
    alpha: Array,
    settings: StepSettings,
    targets: Array | None = None,
) -> _core.steps.StochasticGradient:
    """Stochastic gradient steps on rows in memory, by the core."""
    return _core.steps.stochastic_gradient(
        rows.view, loss.struct, signed_cost, rows.squared_norms, w, b, alpha, settings.compiled(),
        targets,
    )  # fmt: skip


def perceptron_steps(
    problem: LinearProblem, a: Array, counts: Array, *, sampling: Sampling, **settings: Any
) -> Any:
    """Those of the perceptron with margin, see core/linear/margin_perceptron.hpp."""

    def make(piece: Piece) -> Any:
        return _core.steps.margin_perceptron(
            piece.rows.view, piece.signed_cost / problem.C, piece.rows.squared_norms, a, counts,
            sampling=sampling, **settings,
        )  # fmt: skip

    def enter(steps: Any, piece: Piece) -> Any:
        weight = piece.signed_cost / problem.C
        steps.enter(piece.rows.view, weight, piece.rows.squared_norms, piece.where.start)
        return piece, weight

    steps = steps_on(problem, make, enter, sampling)
    if counts.any():
        steps.weighted_sum = float(problem.sides.at_cost(counts.copy()).sum()) / problem.C
    return steps
