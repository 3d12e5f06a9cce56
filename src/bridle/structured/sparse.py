"""Sparse vectors: what joint features and their differences are kept as."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.structured.bounds import length_above
from numpy.typing import NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class SparseVector:
    """The entries of a vector that are not 0, by increasing index."""

    indices: Indices
    values: Array

    def dot(self, w: Array) -> float:
        """The inner product with a dense vector."""
        return float(self.values @ w[self.indices])

    def add_to(self, w: Array, scale: float) -> None:
        """w += scale * self."""
        w[self.indices] += scale * self.values

    def scaled(self, factor: float) -> SparseVector:
        """factor * self."""
        return SparseVector(self.indices, factor * self.values)

    def minus(self, other: SparseVector) -> SparseVector:
        """self - other."""
        if np.array_equal(self.indices, other.indices):
            return _without_zeros(self.indices, self.values - other.values)
        return from_entries(
            np.concatenate([self.indices, other.indices]),
            np.concatenate([self.values, -other.values]),
        )

    @cached_property
    def length(self) -> float:
        """|self|, from above."""
        return length_above(self.values)

    @property
    def squared_norm(self) -> float:
        """|self|^2."""
        return float(self.values @ self.values)


def from_entries(indices: Any, values: Any) -> SparseVector:
    """A vector from entries in any order, where equal indices add up."""
    unique, inverse = np.unique(np.asarray(indices, np.int64), return_inverse=True)
    sums: Any = np.bincount(inverse.ravel(), np.asarray(values, np.float64), len(unique))
    return _without_zeros(unique, sums)


def _without_zeros(indices: Indices, values: Array) -> SparseVector:
    stored = values != 0
    return SparseVector(indices[stored], values[stored])


def sparse_vector(features: Any, n_features: int) -> SparseVector:
    """What `features` returned; ValueError says what is wrong with it."""
    if isinstance(features, SparseVector):
        vector = features
    elif isinstance(features, tuple):
        vector = _from_pair(features)
    elif hasattr(features, "tocoo"):
        coo = features.tocoo()
        if coo.shape[-1] != n_features or (coo.data.size and np.prod(coo.shape) != n_features):
            raise ValueError(f"features have shape {coo.shape}, expected (1, {n_features})")
        vector = from_entries(coo.coords[-1] if hasattr(coo, "coords") else coo.col, coo.data)
    else:
        dense = np.asarray(features, np.float64)
        if dense.shape != (n_features,):
            raise ValueError(f"features have shape {dense.shape}, expected ({n_features},)")
        vector = SparseVector(np.flatnonzero(dense), dense[dense != 0])
    inside = vector.indices.size == 0 or (
        vector.indices[0] >= 0 and vector.indices[-1] < n_features
    )
    if not inside:
        raise ValueError(f"features have an index outside 0..{n_features - 1}")
    if not np.isfinite(vector.values).all():
        raise ValueError("features contain NaN or infinity")
    return vector


def _from_pair(features: tuple[Any, ...]) -> SparseVector:
    if (
        len(features) != 2
        or np.ndim(features[0]) != 1
        or np.shape(features[0]) != np.shape(features[1])
    ):
        raise ValueError("features must be an array or a pair (indices, values) of equal sizes")
    indices = np.asarray(features[0])
    if indices.size and indices.dtype.kind not in "iu":
        raise ValueError(
            f"features as (indices, values) need whole numbers first, got {indices.dtype}"
        )
    return from_entries(indices, features[1])
