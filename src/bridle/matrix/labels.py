"""Labels and weights of rows, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from numpy.typing import ArrayLike, NDArray

# Of labels that the core reads.
_READ = (np.float64, np.float32, np.int64, np.int32)


def two_values(y: NDArray[Any], n_threads: int) -> tuple[Any, Any, int] | None:
    """The two values that there are, in order, and how often there is the second one.

    None where there are not two, or the core has no way to tell.
    """
    if y.ndim != 1 or y.dtype not in _READ or not y.flags.c_contiguous:
        return None
    found = _core.matrix.two_values(y, n_threads)
    return None if found is None else (y.dtype.type(found[0]), y.dtype.type(found[1]), found[2])


def places_of(y: NDArray[Any], value: Any, n_threads: int) -> NDArray[np.intp]:
    """1 where the label is this one, else 0, of labels that have `two_values`."""
    out = np.empty(len(y), np.int64)
    _core.matrix.equal_to(y, value.item(), out, n_threads)
    return out


def with_signs(
    sizes: Array | float, codes: NDArray[np.intp], positive: int, n_threads: int
) -> Array:
    """These numbers where the code is this one, elsewhere less than 0."""
    out = np.empty(len(codes))
    _core.matrix.with_signs(sizes, codes, positive, out, n_threads)
    return out


def product(a: Array, b: Array | float, n_threads: int) -> Array:
    """a_i b_i."""
    out = np.empty(len(a))
    _core.matrix.product(a, b, out, n_threads)
    return out


def check_labels(y: ArrayLike, n_rows: int, n_threads: int = 1) -> Array:
    """Labels -1 and +1, one for each row, as float64: the caller's own."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_rows:
        raise ValueError(f"y must have one label for each of the {n_rows} rows, got {labels.shape}")
    if labels.dtype.kind in "iuf":
        labels = np.ascontiguousarray(labels, np.float64)
        if (found := two_values(labels, n_threads)) is not None and found[:2] == (-1.0, 1.0):
            return product(labels, 1.0, n_threads)
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
