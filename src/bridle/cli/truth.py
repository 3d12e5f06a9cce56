"""What the labels of a file are to a linear problem: the loss says whether signs or targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle.cli.shared import InputError, plain

if TYPE_CHECKING:
    from bridle.objective.losses import Loss

Truth = Callable[[Any], Any]


def truth_of(loss: Loss, y: Any, data: Path) -> Truth:
    """From the labels of any file like this one: -1 and +1, which is the larger; or the numbers.

    Of one class they do not count.
    """
    import numpy as np

    if loss.one_class:
        return lambda values: np.ones(len(values))
    if loss.residual:
        return lambda values: np.asarray(values, np.float64)
    labels = np.unique(y)
    if len(labels) != 2:
        raise InputError(f"{data}: this command needs two classes, found {len(labels)}")

    def signs(values: Any) -> Any:
        other = values[~np.isin(values, labels)]
        if len(other):
            raise InputError(f"the test data have the label {plain(other[0])}, unknown in {data}")
        return np.where(values == labels[1], 1.0, -1.0)

    return signs


def widened(X: Any, n_features: int) -> Any:
    """Test rows with as many features as the training rows, of which the others decide nothing."""
    X = X.copy()
    X.resize((X.shape[0], n_features))
    return X
