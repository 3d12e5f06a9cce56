"""The two ways to write one objective: C sum loss, and lam with the mean loss."""

from __future__ import annotations

import math


def lam_to_C(lam: float, n_rows: int) -> float:  # noqa: N802
    """The C of 1/2 |w|^2 + C sum loss that equals lam/2 |w|^2 + 1/m sum loss: 1 / (m lam)."""
    return 1.0 / (n_rows * lam)


def C_to_lam(C: float, n_rows: int) -> float:  # noqa: N802
    """The lam of lam/2 |w|^2 + 1/m sum loss that equals 1/2 |w|^2 + C sum loss: 1 / (m C)."""
    return 1.0 / (n_rows * C)


# Numbers whose products and squares are still numbers.
SMALLEST, LARGEST = 1e-150, 1e150


def check_C(C: float) -> float:  # noqa: N802
    """C itself; ValueError if it is not positive, or too small or too large to compute with."""
    if not C > 0:
        raise ValueError(f"C must be positive, got {C}")
    if not (SMALLEST <= C <= LARGEST or math.inf == C):
        raise ValueError(f"C must lie between {SMALLEST:g} and {LARGEST:g}, or be inf, got {C}")
    return float(C)


def check_range(largest_cost: float, longest_row: float) -> None:
    """ValueError if products of C_i and |x_i|^2 come near the end of what float64 can hold."""
    product = largest_cost * longest_row**2
    if not (largest_cost <= LARGEST and product <= LARGEST):
        raise ValueError(
            f"C times the sample weights is up to {largest_cost:.3g} and rows are up to "
            f"{longest_row:.3g} long: their products, C |x|^2, are too large for float64; scale "
            f"the features, or take a smaller C"
        )
