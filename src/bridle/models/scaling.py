"""Features of one size: each divided by its largest absolute value in the training data.

Zeros stay zeros, so that sparse data stay sparse. The penalty is then on the weights of the scaled
features; a model keeps weights for the data as they are, w_j / scale_j, and the scale beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, canonical, is_sparse


def largest_values(X: Any) -> Array:
    """max_i |x_ij| of each feature; 1 for one that is zero everywhere."""
    X = canonical(X)
    if is_sparse(X):
        sizes = np.zeros(X.shape[1])
        np.maximum.at(sizes, X.indices, np.abs(X.data))
    else:
        sizes = np.abs(X).max(axis=0).astype(np.float64)
    return np.where(sizes > 0, sizes, 1.0)


def divided(X: Any, scale: Array) -> Any:
    """A copy of X with its features divided, in X's own precision."""
    X = as_matrix(X)
    if not is_sparse(X):
        return (X / scale).astype(X.dtype)
    X = X.copy()
    X.data = (X.data / scale[X.indices]).astype(X.dtype)
    return X


def resized(scale: Array, n_features: int) -> Array:
    """For data of another width: further features are as they are."""
    kept = scale[:n_features]
    return np.concatenate([kept, np.ones(n_features - len(kept))])
