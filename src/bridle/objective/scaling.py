"""The two ways to write one objective: C sum loss, and lam with the mean loss."""

from __future__ import annotations


def lam_to_C(lam: float, n_rows: int) -> float:  # noqa: N802
    """The C of 1/2 |w|^2 + C sum loss that equals lam/2 |w|^2 + 1/m sum loss: 1 / (m lam)."""
    return 1.0 / (n_rows * lam)


def C_to_lam(C: float, n_rows: int) -> float:  # noqa: N802
    """The lam of lam/2 |w|^2 + 1/m sum loss that equals 1/2 |w|^2 + C sum loss: 1 / (m C)."""
    return 1.0 / (n_rows * C)


def check_C(C: float) -> float:  # noqa: N802
    """C itself; ValueError if it is not positive."""
    if not C > 0:
        raise ValueError(f"C must be positive, got {C}")
    return float(C)
