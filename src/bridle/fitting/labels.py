"""Labels and weights of rows, in one shape wherever the rows are.

    classes    the labels, in order
    totals     the weight of all rows of each class
    codes      of rows in memory: the place of each row's label among the classes, or -1

A row's cost is C times its own weight times that of its class, in every problem that it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.labels import places_of, two_values
from bridle.objective.losses import Loss
from numpy.typing import ArrayLike, NDArray

# By label, or one for each class, or a function from the classes to those.
ClassWeight = Mapping[Any, float] | Sequence[float] | Callable[[Any], Any] | str | None


@dataclass(frozen=True)
class Labels:
    """What is known of the labels."""

    classes: NDArray[Any]
    totals: Array
    codes: NDArray[np.intp] | None = None  # None: of rows that are elsewhere

    @property
    def n_classes(self) -> int:
        """How many there are."""
        return len(self.classes)


class OneClassError(ValueError):
    """All rows have one label: there is nothing to learn."""

    def __init__(self, label: Any, rows: str = "rows") -> None:
        super().__init__(f"the {rows} must be of at least two classes, got 1 class: {label}")
        self.label = label


def check_of_classes(loss: Loss) -> None:
    """ValueError if rows of this loss have no classes."""
    if loss.one_class:
        raise ValueError(f"the loss {loss.name!r} is of rows without labels: see LinearOneClassSVM")
    if loss.residual:
        raise ValueError(
            f"the loss {loss.name!r} is one of targets, not of classes: see LinearSVR, "
            "QuantileRegressor and Ridge, or bridle.fit_regression"
        )


def classes_of(
    y: NDArray[Any], n_threads: int = 1
) -> tuple[NDArray[Any], NDArray[np.intp], Array | None]:
    """As np.unique(y, return_inverse=True), without sorting where there are two classes.

    And how many rows each class has, where that was seen.
    """
    if (found := two_values(y, n_threads)) is not None:
        low, high, n = found
        counts = np.array([len(y) - n, n], np.float64)
        return np.array([low, high]), places_of(y, high, n_threads), counts
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes, None


def encode(y: ArrayLike, weights: Array | None = None, n_threads: int = 1) -> Labels:
    """The labels of rows in memory.

    A row of weight zero is as good as absent: a class that has no other rows does not exist, and
    its rows get the code -1.
    """
    classes, codes, counts = classes_of(np.asarray(y), n_threads)
    if weights is not None:
        seen = np.bincount(codes, weights=weights > 0, minlength=len(classes)) > 0
        codes = np.where(seen, np.cumsum(seen) - 1, -1)[codes]
        classes = classes[seen]
    if len(classes) < 2:
        rows = "rows" if weights is None else "rows with positive sample weights"
        raise OneClassError(classes[0], rows)
    if counts is None or weights is not None:
        counts = totals(codes, len(classes), weights)
    return Labels(classes, counts, codes)


def totals(codes: NDArray[np.intp], n_classes: int, weights: Array | None) -> Array:
    """The weight of all rows of each class."""
    used = slice(None) if codes.min(initial=0) >= 0 else codes >= 0
    own = None if weights is None else weights[used]
    return np.bincount(codes[used], weights=own, minlength=n_classes).astype(np.float64)


def row_weights(sample_weight: ArrayLike | float | None, n_rows: int) -> Array | None:
    """The user's weights, checked; None if there are none."""
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        sample_weight = np.full(n_rows, sample_weight)
    weights = check_vector(sample_weight, n_rows, "sample_weight")
    if (weights < 0).any():
        raise ValueError("sample_weight must not be negative")
    if not weights.any():
        raise ValueError("sample_weight must not be zero everywhere")
    return weights


def class_weights(wanted: ClassWeight, classes: NDArray[Any], totals: Array) -> Array | None:
    """One weight for each class, or None if nothing is wanted.

    "balanced" gives every class the same total; a class that a mapping does not name weighs 1.
    """
    if wanted is None:
        return None
    if isinstance(wanted, str):
        if wanted != "balanced":
            raise ValueError(f'class_weight must be a dict, "balanced" or None, got {wanted!r}')
        # A class without weight, in a fold that holds all its rows out, has none to balance.
        return np.asarray(totals.sum() / (len(classes) * np.where(totals > 0, totals, 1.0)))
    if not isinstance(wanted, Mapping):
        given: Any = wanted(classes) if callable(wanted) else wanted
        return check_vector(given, len(classes), "class_weight")
    missing = [label for label in classes.tolist() if label not in wanted]
    if missing and len(classes) - len(missing) != len(wanted):
        raise ValueError(f"The classes, {missing}, are not in class_weight")
    return np.array([float(wanted.get(label, 1.0)) for label in classes.tolist()])


def class_weight_info(per_class: Array | None) -> dict[str, Any]:
    """The weight of each class, for `certify`, in the form that `LinearModel` describes."""
    if per_class is None:
        return {}
    return {"class_weight": per_class.tolist(), "class_weight_in": "every problem"}


def row_costs(labels: Labels, weights: Array | None, wanted: ClassWeight) -> Array | None:
    """Row weights times the weight of each row's class; None if nothing weighs anything.

    "balanced" balances by these weights: of a fold, by those of its training rows.
    """
    assert labels.codes is not None
    if wanted is None:
        return weights
    own = np.ones(len(labels.codes)) if weights is None else weights
    sums = totals(labels.codes, labels.n_classes, own)
    per_class = class_weights(wanted, labels.classes, sums)
    assert per_class is not None
    return np.asarray(own * per_class[labels.codes], np.float64)
