"""Scores and classes of rows that are on a GPU, which stay there."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.rows.cuda.device import find_device
from bridle.rows.cuda.matrix import adopted
from numpy.typing import NDArray


def scores_on_device(X: Any, coef: Any, intercept: Array, multi_class: str) -> Any:
    """w.x + b: a vector of one decision function, else a column for each."""
    if multi_class == "ovo" and len(intercept) > 1:
        raise ValueError('multi_class="ovo" counts the votes in this memory: fetch the rows first')
    device = find_device()
    rows = X if hasattr(X, "indptr") else adopted(device, X)
    if rows.shape[1] != coef.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the model was trained on {coef.shape[1]}"
        )
    weights = coef.toarray() if is_sparse(coef) else coef
    W = device.put(np.ascontiguousarray(weights.T))
    scores = rows.astype(np.float64, copy=False) @ W + device.put(intercept)
    return scores[:, 0] if len(intercept) == 1 else scores


def labels_on_device(scores: Any, classes: NDArray[Any]) -> Any:
    """The class of each row: on the device if the classes are numbers, else in this memory."""
    device = find_device()
    best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
    if classes.dtype.kind in "biuf":
        return device.put(classes)[best]
    return classes[device.get(best)]
