"""The two ways to write one objective: C sum loss, and lam with the mean loss."""

from __future__ import annotations

import math

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import rounding


def lam_to_C(lam: float, n_rows: int) -> float:  # noqa: N802
    """The C of 1/2 |w|^2 + C sum loss that equals lam/2 |w|^2 + 1/m sum loss: 1 / (m lam).

    Examples
    --------
    >>> bridle.lam_to_C(1e-4, 20_000)
    0.5
    """
    return 1.0 / (n_rows * lam)


def C_to_lam(C: float, n_rows: int) -> float:  # noqa: N802
    """The lam of lam/2 |w|^2 + 1/m sum loss that equals 1/2 |w|^2 + C sum loss: 1 / (m C).

    Examples
    --------
    >>> bridle.C_to_lam(0.5, 20_000)
    0.0001
    """
    return 1.0 / (n_rows * C)


# Numbers whose products and squares are still numbers.
SMALLEST, LARGEST = 1e-150, 1e150
LEAST = 1e-290  # of a product that has all of its digits


def check_C(C: float) -> float:  # noqa: N802
    """C itself; ValueError if it is not positive, or too small or too large to compute with."""
    try:
        positive = C > 0
    except TypeError:
        raise TypeError(f"C must be a number, got {C!r}") from None
    if not positive:
        raise ValueError(f"C must be positive, got {C}")
    if not (SMALLEST <= C <= LARGEST or math.inf == C):
        raise ValueError(f"C must lie between {SMALLEST:g} and {LARGEST:g}, or be inf, got {C}")
    return float(C)


def costs(C: float, weight: Array) -> tuple[Array, Array]:
    """C_i = C c_i, rounded, and the same rounded towards 0: the bounds of boxes.

    An infinite C of nothing is nothing.
    """
    if np.isinf(C):
        infinite = np.where(weight > 0, C, 0.0)
        return infinite, infinite
    with np.errstate(over="ignore"):
        cost = C * weight
    if not np.isfinite(cost.sum()):
        raise ValueError(
            f"the costs C c_i of the rows overflow: C = {C:g}, the largest weight is "
            f"{weight.max():g}"
        )
    if ((cost < LEAST) & (weight > 0)).any():
        least = float(weight[weight > 0].min())
        raise ValueError(
            f"the costs C c_i of some rows are next to nothing: C = {C:g}, the smallest weight is "
            f"{least:g}; give such rows the weight 0"
        )
    return cost, rounding.below(cost, rounding.is_power_of_two(weight) | (weight == 0))


def check_bias_scale(bias_scale: float) -> float:
    """The value of the constant feature; ValueError if it is none to compute with."""
    if not SMALLEST <= bias_scale <= LARGEST:
        raise ValueError(
            f"bias_scale must lie between {SMALLEST:g} and {LARGEST:g}, got {bias_scale}"
        )
    return float(bias_scale)


def check_range(largest_cost: float, longest_row: float) -> None:
    """ValueError if products of C_i and |x_i|^2 come near the end of what float64 can hold."""
    product = largest_cost * longest_row**2
    if not (largest_cost <= LARGEST and product <= LARGEST):
        raise ValueError(
            f"C times the sample weights is up to {largest_cost:.3g} and rows are up to "
            f"{longest_row:.3g} long: their products, C |x|^2, are too large for float64; scale "
            f"the features, or take a smaller C"
        )
