"""Labels and weights of rows, checked."""

from __future__ import annotations

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from numpy.typing import ArrayLike


def check_labels(y: ArrayLike, n_rows: int) -> Array:
    """Labels -1 and +1, one for each row, as float64."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_rows:
        raise ValueError(f"y must have one label for each of the {n_rows} rows, got {labels.shape}")
    positive = labels == 1
    if not (positive | (labels == -1)).all() or positive.all() or not positive.any():
        values = set(np.unique(labels).tolist())
        shown = ", ".join(map(str, sorted(values)[:5])) + (", ..." if len(values) > 5 else "")
        raise ValueError(
            f"y must hold the two labels -1 and +1, got {shown}; the estimators encode any labels"
        )
    return labels.astype(np.float64)


def check_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array:
    """A weight for each row: ones if none are given."""
    if sample_weight is None:
        return np.ones(n_rows)
    weights = check_vector(sample_weight, n_rows, "sample_weight")
    if (weights < 0).any():
        raise ValueError("sample_weight must not be negative")
    if not (weights > 0).any():
        raise ValueError("sample_weight must not be zero everywhere")
    return weights


# Targets whose squares, times a cost, are still numbers.
LARGEST_TARGET = 1e70


def check_targets(y: ArrayLike, n_rows: int) -> Array:
    """The numbers that a regression is to find, one for each row, as float64."""
    targets = check_vector(y, n_rows, "y")
    largest = float(np.abs(targets).max(initial=0.0))
    if largest > LARGEST_TARGET:
        raise ValueError(
            f"y holds targets up to {largest:.3g}, beyond {LARGEST_TARGET:g}: scale them"
        )
    return targets
