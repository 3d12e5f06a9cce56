"""When neither bound moves any more, and how far they are apart."""

from __future__ import annotations

import numpy as np


def relative(gap: float, primal: float, dual: float = 0.0) -> float:
    """gap / max(primal, |dual|), 0 where there is nothing to be gained."""
    size = primal if primal > 0 else abs(dual)
    return max(gap, 0.0) / size if size > 0 else 0.0


class Standstill:
    """Notices when neither bound has moved, beyond rounding, for a number of iterations."""

    def __init__(self, patience: int = 20) -> None:
        self._patience = patience
        self._best = (np.inf, -np.inf)
        self._since = 0

    def __call__(self, primal: float, dual: float) -> bool:
        """Whether to give up after an iteration with these values."""
        low, high = self._best
        if primal < low - 1e-14 * abs(primal) or dual > high + 1e-14 * abs(high):
            self._since = 0
            self._best = (min(primal, low), max(dual, high))
        else:
            self._since += 1
        return self._since >= self._patience
