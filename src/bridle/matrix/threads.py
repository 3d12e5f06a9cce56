"""How many threads."""

from __future__ import annotations

from bridle import _core


def check_threads(n_threads: int | None) -> int:
    """The number of threads; None is as many as the hardware has."""
    if n_threads is None:
        return _core.hardware_threads()
    if int(n_threads) < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    return int(n_threads)
