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
