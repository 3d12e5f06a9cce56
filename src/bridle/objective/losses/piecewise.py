"""Losses that are linear or quadratic between their kinks: one formula, and five numbers each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import rounding
from bridle.objective.losses.base import Loss, Shape, squares_over
from bridle.objective.rounding import DualSums, Interval, sums_of


class PiecewiseQuadratic(Loss):
    """Whatever has a `shape`."""

    core: ClassVar[str | None] = "piecewise_quadratic"
    residual: ClassVar[bool] = True
    target: ClassVar[float] = 0.0
    second_order: ClassVar[bool] = True

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        """Its numbers."""
        raise NotImplementedError

    @property
    def steepest(self) -> float:  # type: ignore[override]
        """The largest second derivative."""
        return 1.0 / self.shape.curve if self.shape.curve else np.inf

    @property
    def struct(self) -> Any:  # noqa: D102
        return self.core, [self.target, *self.shape]

    def value(self, p: Array) -> Array:  # noqa: D102
        beyond, a = self._answer(p)
        return np.asarray(beyond * a - 0.5 * self.shape.curve * a**2)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return self._answer(p)[1]

    def _answer(self, p: Array) -> tuple[Array, Array]:
        """How far r is beyond the tube, and the a that is best."""
        low, high, tube, curve = self.shape
        r = self.target - np.asarray(p, np.float64)
        beyond = np.copysign(np.maximum(np.abs(r) - tube, 0.0), r) if tube else r
        if curve:
            return beyond, np.clip(beyond / curve, low, high)
        return beyond, np.where(beyond > 0, high, np.where(beyond < 0, low, 0.0))

    def curvature(self, p: Array) -> Array:
        """The second derivative, between the kinks."""
        a, (low, high, tube, curve) = self.slope(p), self.shape
        return np.asarray((a > low) & (a < high) & ((a != 0) | (tube == 0))) / curve

    def lower(self, cost: Array) -> Array | float:  # noqa: D102
        return self._bound(self.shape.low, cost) if self.shape.low else 0.0

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return self._bound(self.shape.high, cost)

    @staticmethod
    def _bound(times: float, cost: Array) -> Array:
        if np.isinf(times):
            return np.where(cost > 0, times, 0.0)
        # No bound is further out than it should be.
        exact = rounding.is_power_of_two(np.abs(np.array([times]))) | (cost == 0)
        return rounding.below(times * cost, exact)

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return self.dual_between(alpha, cost).middle

    def dual_between(  # noqa: D102
        self, alpha: Array, cost: Array, sums: DualSums | None = None, n_threads: int = 1
    ) -> Interval:
        found, (_, _, tube, curve) = rounding.ZERO, self.shape
        sums = sums or sums_of(alpha, n_threads)
        if self.target:
            found = self.target * sums.total
        if tube:
            found = found - tube * sums.size
        if curve:
            found = found - 0.5 * curve * squares_over(alpha, cost, sums, n_threads)
        return found


def _check(**positive: float) -> None:
    for name, value in positive.items():
        if not (value > 0 and np.isfinite(value)):
            raise ValueError(f"{name} must be positive and finite, got {value}")


@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseQuadratic):
    """max(0, |p| - epsilon).

    Examples
    --------
    >>> import numpy as np
    >>> bridle.EpsilonInsensitive(epsilon=0.5).value(np.array([-1.0, 1.0, 2.0]))
    array([0.5, 0.5, 1.5])
    """

    epsilon: float = 0.1

    name: ClassVar[str] = "epsilon_insensitive"

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)

    @property
    def shape(self) -> Shape:  # type: ignore[override]  # noqa: D102
        return Shape(tube=float(self.epsilon))


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """max(0, |p| - epsilon)^2.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.SquaredEpsilonInsensitive(epsilon=0.5).value(np.array([-1.0, 0.25, 2.5]))
    array([0.25, 0.  , 4.  ])
    """

    name: ClassVar[str] = "squared_epsilon_insensitive"
    bounded_dual: ClassVar[bool] = False
    smooth: ClassVar[bool] = True

    @property
    def shape(self) -> Shape:  # type: ignore[override]  # noqa: D102
        return Shape(-np.inf, np.inf, tube=float(self.epsilon), curve=0.5)


@dataclass(frozen=True)
class Squared(PiecewiseQuadratic):
    """p^2.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.Squared().value(np.array([-1.0, 0.0, 3.0]))
    array([1., 0., 9.])
    """

    name: ClassVar[str] = "squared"
    bounded_dual: ClassVar[bool] = False
    smooth: ClassVar[bool] = True

    @property
    def shape(self) -> Shape:  # type: ignore[override]  # noqa: D102
        return Shape(-np.inf, np.inf, curve=0.5)


@dataclass(frozen=True)
class Pinball(PiecewiseQuadratic):
    """quantile |p| where the target is above, (1 - quantile) |p| where it is below.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.Pinball(quantile=0.9).value(np.array([-1.0, 0.0, 1.0]))  # answers less targets
    array([0.9, 0. , 0.1])
    """

    quantile: float = 0.5

    name: ClassVar[str] = "pinball"

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must lie between 0 and 1, got {self.quantile}")

    @property
    def shape(self) -> Shape:  # type: ignore[override]  # noqa: D102
        return Shape(self.quantile - 1.0, float(self.quantile))


@dataclass(frozen=True)
class Huber(PiecewiseQuadratic):
    """p^2 / 2 up to |p| = delta, from there on delta |p| - delta^2 / 2.

    Examples
    --------
    >>> import numpy as np
    >>> bridle.Huber(delta=1.0).value(np.array([-0.5, 0.0, 3.0]))
    array([0.125, 0.   , 2.5  ])
    """

    delta: float = 1.0

    name: ClassVar[str] = "huber"
    smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(delta=self.delta)

    @property
    def shape(self) -> Shape:  # type: ignore[override]  # noqa: D102
        return Shape(-self.delta, float(self.delta), curve=1.0)


@dataclass(frozen=True)
class SmoothedHinge(PiecewiseQuadratic):
    """The hinge with its kink rounded off: (1 - p)^2 / (2 gamma) down to p = 1 - gamma.

    From there on 1 - p - gamma / 2 (Shalev-Shwartz & Zhang, "Stochastic dual coordinate ascent
    methods for regularized loss minimization", JMLR 2013).

    Examples
    --------
    >>> import numpy as np
    >>> bridle.SmoothedHinge(gamma=1.0).value(np.array([-1.0, 0.0, 0.5]))
    array([1.5  , 0.5  , 0.125])
    """

    gamma: float = 1.0

    name: ClassVar[str] = "smoothed_hinge"
    residual: ClassVar[bool] = False
    target: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(gamma=self.gamma)

    @property
    def shape(self) -> Shape:  # type: ignore[override]  # noqa: D102
        return Shape(low=0.0, curve=float(self.gamma))


def _check_epsilon(epsilon: float) -> None:
    if not (epsilon >= 0 and np.isfinite(epsilon)):
        raise ValueError(f"epsilon must not be negative, and finite, got {epsilon}")
