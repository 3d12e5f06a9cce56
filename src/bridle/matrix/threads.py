"""How many threads."""

from __future__ import annotations

from bridle import _core

MOST = 2**15  # more than any machine has


def check_threads(n_threads: int | None) -> int:
    """The number of threads; None is as many as the hardware has."""
    if n_threads is None:
        return _core.hardware_threads()
    if not 1 <= int(n_threads) < MOST:
        raise ValueError(f"n_threads must be at least 1, and below {MOST}, got {n_threads}")
    return int(n_threads)
