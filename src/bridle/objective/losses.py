"""The losses, as functions of the margin p = y (w.x + b), with what their duals need.

The primal is 1/2 |w|^2 + sum_i C_i loss(p_i). Its dual is

    D(alpha) = sum_i -C_i loss*(-alpha_i / C_i) - 1/2 |sum_i alpha_i z_i|^2,   z_i = y_i x_i,

with loss* the convex conjugate; the first sum is `dual_value` here, finite for
0 <= alpha_i <= `upper(C_i)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Loss(Protocol):
    """What a problem asks of a loss."""

    name: ClassVar[str]
    target: ClassVar[float]  # the margin from which on the loss is 0

    def value(self, p: Array) -> Array:
        """The loss at margins p."""

    def slope(self, p: Array) -> Array:
        """Minus a subgradient of the loss at margins p; never negative."""

    def upper(self, cost: Array) -> Array:
        """The largest feasible dual variable of a row of this cost."""

    def dual_value(self, alpha: Array, cost: Array) -> float:
        """The part of the dual that is not 1/2 |w|^2."""

    def squared_radius(self, cost: Array) -> float:
        """A bound on |w*|^2."""


def inner(a: Array, b: Array) -> float:
    """The inner product, not by BLAS.

    Its threads would cost more than they save here, and the last bits depend on their number.
    """
    return float(np.einsum("i,i->", a, b))


def weighted_sum(cost: Array, values: Array) -> float:
    """Sum of cost times value, where an infinite cost of nothing is nothing."""
    if np.isinf(cost).any():
        return float(np.sum(np.where(values > 0, cost, 0.0) * values)) if values.any() else 0.0
    return inner(cost, values)


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - p)."""

    name: ClassVar[str] = "hinge"
    target: ClassVar[float] = 1.0

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - p)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return (p < 1.0).astype(np.float64)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return float(alpha.sum())

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return float(cost.sum())


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - p)^2."""

    name: ClassVar[str] = "squared_hinge"
    target: ClassVar[float] = 1.0

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, 1.0 - p) ** 2

    def slope(self, p: Array) -> Array:  # noqa: D102
        return 2.0 * np.maximum(0.0, 1.0 - p)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return np.where(cost > 0, np.inf, 0.0)

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        used = alpha > 0
        return float(alpha.sum() - np.sum(alpha[used] ** 2 / (4.0 * cost[used])))

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return float(cost.sum()) / 2.0


@dataclass(frozen=True)
class PerceptronLoss:
    """max(0, -p): pays for misclassified rows only.

    With a regulariser the minimum is w = 0 and every dual value is at most 0, so no relative gap
    below 1 can be certified: it is minimised for the direction that w has on its way.
    """

    name: ClassVar[str] = "perceptron"
    target: ClassVar[float] = 0.0

    def value(self, p: Array) -> Array:  # noqa: D102
        return np.maximum(0.0, -p)

    def slope(self, p: Array) -> Array:  # noqa: D102
        return (p <= 0.0).astype(np.float64)

    def upper(self, cost: Array) -> Array:  # noqa: D102
        return cost

    def dual_value(self, alpha: Array, cost: Array) -> float:  # noqa: D102
        return 0.0

    def squared_radius(self, cost: Array) -> float:  # noqa: D102
        return 0.0


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Hinge(), SquaredHinge(), PerceptronLoss())}


def loss_from(loss: str | Loss) -> Loss:
    """A loss by its name, or the loss itself."""
    if not isinstance(loss, str):
        return loss
    try:
        return LOSSES[loss]
    except KeyError:
        known = ", ".join(map(repr, LOSSES))
        raise ValueError(f"unknown loss {loss!r}; known losses: {known}") from None
