"""The arrays that everything here is computed with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def in_memory(values: Any) -> Array:
    """A vector as NumPy's array: itself, or a copy of one of CuPy's."""
    found: Array = values if isinstance(values, np.ndarray) else values.get()
    return found


def everywhere(value: float, n: int) -> Array:
    """One number for each of n rows, which takes the memory of one; not to be written to."""
    return np.broadcast_to(np.float64(value), (n,))


def number_or_all(values: Array | float) -> Array | float:
    """The one number of `everywhere`, for the core; else the array."""
    if isinstance(values, float) or values.strides != (0,) or not len(values):
        return values
    return float(values[0])
