"""A convex function bounded from below by its cuts: the master problem of cutting-plane methods.

    min_w  1/2 |w|^2 + sum_g cap_g max(0, max_{c in g} R_c - w.G_c)

Its dual is a small quadratic programme over the weights of the cuts,

    max_beta  R.beta - 1/2 |sum_c beta_c G_c|^2,   beta >= 0,   sum_{c in g} beta_c <= cap_g,

with w = sum_c beta_c G_c. One group of cap 1 is the one-slack formulation (Joachims, Finley & Yu,
"Cutting-plane training of structural SVMs", Machine Learning 2009); a group for each row, with cap
C_i, is the n-slack one (Tsochantaridis, Joachims, Hofmann & Altun, JMLR 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.csr import CsrArrays
from bridle.matrix.door import view_rows
from bridle.rows.memory import MemoryRows
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class ModelPoint:
    """The minimiser of a cutting-plane model."""

    w: Array
    value: float  # of the dual: a lower bound on every function that lies above the cuts
    beta: Array  # one weight for each cut
    gap: float  # the model's minimum is at most value + gap


class CuttingPlaneModel:
    """Keeps cuts and their Gram matrix, and minimises the model that they make.

    dimension: of w. caps: the sum that the weights of each group may reach. idle: a cut that had no
    weight in so many solves is dropped by `drop_idle`. sparse: cuts have few non-zeros; they may
    then be given as (indices, values), too.

    Examples
    --------
    >>> import numpy as np
    >>> model = bridle.CuttingPlaneModel(2)  # 1/2 |w|^2 + max(0, r - w.g, ...)
    >>> model.add(np.array([2.0, 0.0]), 1.0)
    0
    >>> model.solve().w
    array([0.5, 0. ])
    """

    def __init__(
        self,
        dimension: int,
        *,
        caps: ArrayLike = (1.0,),
        idle: int = 50,
        sparse: bool = False,
    ) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {dimension}")
        if idle < 1:
            raise ValueError(f"idle must be at least 1, got {idle}")
        self.dimension = dimension
        self.idle = idle
        self.caps = np.ascontiguousarray(caps, np.float64)
        if self.caps.ndim != 1 or not (np.isfinite(self.caps).all() and (self.caps >= 0).all()):
            raise ValueError("caps must be a list of finite numbers that are not negative")
        self._cuts: _Cuts = _SparseCuts(dimension) if sparse else _DenseCuts(dimension)
        self._gram = np.empty((0, 0))
        self.r = np.empty(0)
        self.group: Indices = np.empty(0, np.int64)
        self.beta = np.empty(0)
        self._idle_for: Indices = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.r)

    @property
    def gram(self) -> Array:
        """G_c . G_d for all pairs of cuts."""
        n = len(self)
        return self._gram[:n, :n]

    def add(self, g: Any, r: float, group: int = 0) -> int:
        """Add the cut r - w.g to a group and return its position."""
        if not 0 <= group < len(self.caps):
            raise ValueError(f"group {group} is outside 0..{len(self.caps) - 1}")
        if not np.isfinite(r):
            raise ValueError(f"a cut's constant must be finite, got {r}")
        position = len(self)
        products = self._cuts.append(g)
        if not np.isfinite(products).all():
            raise ValueError("a cut contains NaN or infinity, or its length overflows")
        if position == len(self._gram):
            larger = np.zeros((max(16, 2 * position),) * 2)
            larger[:position, :position] = self.gram
            self._gram = larger
        self._gram[position, : position + 1] = products
        self._gram[: position + 1, position] = products
        self.r = np.append(self.r, float(r))
        self.group = np.append(self.group, group)
        self.beta = np.append(self.beta, 0.0)
        self._idle_for = np.append(self._idle_for, 0)
        return position

    def solve(self, tolerance: float = 1e-9) -> ModelPoint:
        """Minimise the model, from the last weights, to a gap of `tolerance` times its value."""
        result = _core.steps.simplex_qp(
            self.gram, self.r, self.group, self.caps, self.beta, tolerance
        )
        self._idle_for = np.where(self.beta > 0, 0, self._idle_for + 1)
        return ModelPoint(self.weights(), result.value, self.beta.copy(), result.gap)

    def weights(self, beta: ArrayLike | None = None) -> Array:
        """sum_c beta_c G_c, for the current weights unless given."""
        chosen = self.beta if beta is None else np.ascontiguousarray(beta, np.float64)
        return self._cuts.combine(chosen)

    def products(self, w: ArrayLike) -> Array:
        """w.G_c for every cut."""
        return self._cuts.products(np.ascontiguousarray(w, np.float64))

    def cuts(self) -> Any:
        """All G_c, as rows of a sparse matrix."""
        return self._cuts.matrix()

    def drop_idle(self) -> Indices:
        """Forget cuts that have been idle for long; the positions of those kept, in order."""
        keep = np.flatnonzero(self._idle_for < self.idle)
        if len(keep) < len(self):
            self._gram = np.ascontiguousarray(self._gram[np.ix_(keep, keep)])
            self._cuts.keep(keep)
            self.r, self.group, self.beta = self.r[keep], self.group[keep], self.beta[keep]
            self._idle_for = self._idle_for[keep]
        return keep


class _Cuts(Protocol):
    def append(self, g: Any) -> Array:
        """Add a cut; its products with all cuts, itself last."""

    def combine(self, beta: Array) -> Array:
        """sum_c beta_c G_c."""

    def products(self, w: Array) -> Array:
        """w.G_c for every cut."""

    def keep(self, positions: Indices) -> None:
        """Forget all others."""

    def matrix(self) -> Any:
        """Every cut, as a row of a sparse matrix."""


class _DenseCuts:
    def __init__(self, dimension: int) -> None:
        self._cuts = np.empty((8, dimension))
        self._n = 0

    def append(self, g: Any) -> Array:
        if self._n == len(self._cuts):
            self._cuts = np.concatenate([self._cuts, np.empty_like(self._cuts)])
        g = np.asarray(g, np.float64)
        if g.shape != self._cuts.shape[1:]:
            raise ValueError(f"a cut must have shape {self._cuts.shape[1:]}, got {g.shape}")
        self._cuts[self._n] = g
        self._n += 1
        products: Array = self._cuts[: self._n] @ self._cuts[self._n - 1]
        return products

    def combine(self, beta: Array) -> Array:
        used = np.flatnonzero(beta)
        w: Array = beta[used] @ self._cuts[used]
        return w

    def products(self, w: Array) -> Array:
        products: Array = self._cuts[: self._n] @ w
        return products

    def matrix(self) -> Any:
        from scipy.sparse import csr_array

        return csr_array(self._cuts[: self._n])

    def keep(self, positions: Indices) -> None:
        self._n = len(positions)
        self._cuts[: self._n] = self._cuts[positions]


class _SparseCuts:
    """Compressed rows that grow, read by the same kernels as data."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._offsets: list[int] = [0]
        self._columns: Indices = np.empty(64, np.int64)
        self._values = np.empty(64)

    def append(self, g: Any) -> Array:
        columns, values = self._entries(g)
        begin, end = self._offsets[-1], self._offsets[-1] + len(columns)
        while end > len(self._columns):
            self._columns = np.concatenate([self._columns, np.empty_like(self._columns)])
            self._values = np.concatenate([self._values, np.empty_like(self._values)])
        self._columns[begin:end], self._values[begin:end] = columns, values
        self._offsets.append(end)
        scattered = np.zeros(self._dimension + 1)
        scattered[columns] = values
        return self._rows().scores(scattered)

    def combine(self, beta: Array) -> Array:
        return self._rows().combine(beta)[:-1]

    def products(self, w: Array) -> Array:
        return self._rows().scores(np.append(w, 0.0))

    def matrix(self) -> Any:
        from scipy.sparse import csr_array

        end = self._offsets[-1]
        return csr_array(
            (self._values[:end].copy(), self._columns[:end].copy(), np.array(self._offsets)),
            shape=(len(self._offsets) - 1, self._dimension),
        )

    def keep(self, positions: Indices) -> None:
        offsets = np.array(self._offsets)
        lengths = np.diff(offsets)[positions]
        ends = np.cumsum(lengths)
        take = np.arange(ends[-1] if len(ends) else 0)
        take += np.repeat(offsets[positions] - (ends - lengths), lengths)
        self._columns[: len(take)] = self._columns[take]
        self._values[: len(take)] = self._values[take]
        self._offsets = [0, *ends.tolist()]

    def _rows(self) -> MemoryRows:
        offsets = np.array(self._offsets, np.int64)
        cuts = CsrArrays(self._values, self._columns, offsets, (len(offsets) - 1, self._dimension))
        return MemoryRows.checked(view_rows(cuts, 0.0), np.empty(0), 0.0, 1)

    def _entries(self, g: Any) -> tuple[Indices, Array]:
        if isinstance(g, tuple):
            columns, values = np.asarray(g[0], np.int64), np.asarray(g[1], np.float64)
        elif hasattr(g, "tocsr"):
            row = g.tocsr().reshape(1, -1).tocsr()
            row.sum_duplicates()
            columns, values = row.indices.astype(np.int64), row.data.astype(np.float64)
        else:
            values = np.asarray(g, np.float64)
            if values.shape != (self._dimension,):
                raise ValueError(f"a cut must have shape ({self._dimension},), got {values.shape}")
            columns = np.flatnonzero(values)
            values = values[columns]
        _check_entries(columns, values, self._dimension)
        return columns, values


def _check_entries(columns: Indices, values: Array, dimension: int) -> None:
    if columns.ndim != 1 or columns.shape != values.shape:
        raise ValueError("a sparse cut needs one index for each value")
    if len(columns) and not (columns.min() >= 0 and columns.max() < dimension):
        raise ValueError(f"a sparse cut has an index outside 0..{dimension - 1}")
    if len(np.unique(columns)) < len(columns):
        raise ValueError("a sparse cut has an index twice")


__all__: Sequence[str] = ["CuttingPlaneModel", "ModelPoint"]
