"""Blocks of rows as they come to a part, and as the core sees them once they were checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector, is_sparse
from bridle.matrix.labels import check_targets
from bridle.objective.losses import inner, loss_from
from bridle.rows.base import Pass, Piece, quick_error
from bridle.rows.cluster.messages import Against, Aside
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray


@dataclass(frozen=True)
class Block:
    """Some rows as they came: a partition or a file, whose name is for errors."""

    name: str
    X: Any
    y: Any
    sample_weight: Any = None
    zero_based: bool = False  # whether the text it came from counts features from 0
    open_ended: bool = False  # whether the data may have more features than these rows show

    def wider(self, n_features: int) -> Block:
        """With so many features, of which these rows have none beyond their own."""
        if not self.open_ended or self.X.shape[1] >= n_features:
            return self
        X = self.X.copy()
        X.resize((X.shape[0], n_features))
        return replace(self, X=X)


class BlockRows:
    """A block that was checked, as the core sees it: without the constant feature."""

    def __init__(self, block: Block, n_threads: int, place: tuple[int, int]) -> None:
        self.name, self.zero_based, self.open_ended = (
            block.name, block.zero_based, block.open_ended,
        )  # fmt: skip
        self.place = place  # the number of the part, and of the block in it
        self._order: tuple[int, Array] | None = None  # see `Aside`, by its seed
        if block.X.shape[0] == 0:
            raise ValueError(f"{self.name} is empty; leave it out, or divide the rows anew")
        try:
            self.rows = MemoryRows(block.X, 0.0, n_threads)
            self.X, self.n_rows, self.n_features = (
                self.rows.X, self.rows.n_rows, self.rows.n_features,
            )  # fmt: skip
            self.y = np.asarray(block.y)
            if self.y.shape != (self.n_rows,):
                raise ValueError(f"{self.n_rows} rows, but labels of shape {self.y.shape}")
            if self.y.dtype.kind == "f" and not np.isfinite(self.y).all():
                raise ValueError("a label is NaN or infinite")
            self.weighted = block.sample_weight is not None
            self.weight = (
                check_vector(block.sample_weight, self.n_rows, "sample_weight")
                if self.weighted
                else np.ones(self.n_rows)
            )
            if (self.weight < 0).any():
                raise ValueError("sample_weight must not be negative")
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        self.nnz = int(self.X.nnz) if hasattr(self.X, "nnz") else int(self.X.size)
        self.codes: NDArray[np.intp] = np.empty(0, np.intp)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data."""
        dtype: np.dtype[Any] = self.X.dtype
        return dtype

    def squares(self, weight: Array | None = None) -> float:
        """Sum |x_i|^2, each so many times."""
        norms = self.rows.squared_norms
        return float(norms.sum()) if weight is None else inner(weight, norms)

    def scores_of_all(self, weights: Array, constants: Array) -> Array:
        """See `MemoryRows`."""
        return self.rows.scores_of_all(weights, constants)

    def look(self, w: Array) -> Pass:
        """The scores of all rows, and how far they may be off."""
        return Pass(w, 0.0, self.rows.scores(w), quick_error(self.rows, w))

    def block(self) -> Block:
        """As it came."""
        weight = self.weight if self.weighted else None
        return Block(self.name, self.X, self.y, weight, self.zero_based, self.open_ended)

    def aside(self, aside: Aside | None) -> NDArray[np.bool_]:
        """Which rows are set aside."""
        if aside is None:
            return np.zeros(self.n_rows, bool)
        if self._order is None or self._order[0] != aside.seed:
            self._order = (aside.seed, self._places(aside.seed))
        places = self._order[1]
        return (places >= aside.low) & (places < aside.high)

    def _places(self, seed: int) -> Array:
        """From 0 to 1, the rows of each class in an order of their own; -1 for those of none."""
        rng, places = np.random.default_rng([seed, *self.place]), np.full(self.n_rows, -1.0)
        order = rng.permutation(self.n_rows)
        for code in np.unique(self.codes[self.codes >= 0]):
            mine = order[(self.codes[order] == code) & (self.weight[order] > 0)]
            # They begin anywhere: where each part has one row, its fold is drawn.
            places[mine] = ((np.arange(len(mine)) + rng.random()) / max(1, len(mine))) % 1.0
        return places

    def piece(self, against: Against) -> Piece:
        """The rows as one problem sees them."""
        loss = loss_from(against.loss)
        if loss.residual:
            y, weight = check_targets(self.y, self.n_rows), self.weight
        else:
            y = np.where(self.codes == against.positive, 1.0, -1.0)
            weight = self.weight * (self.codes >= 0)
        if against.class_weight is not None:
            weight = weight * np.array(against.class_weight)[self.codes]
        if against.aside is not None:
            weight = np.where(self.aside(against.aside), 0.0, weight)
        return Piece.of(self.rows, y, against.C, weight, loss, slice(0, len(y)))

    @property
    def row_bytes(self) -> Array:
        """Of each row: its columns and values, its length, cost and dual variable."""
        if not is_sparse(self.X):
            return np.full(self.n_rows, self.X.shape[1] * self.X.itemsize + 16.0)
        entry = self.X.indices.itemsize + self.X.data.itemsize
        return np.asarray(np.diff(self.X.indptr) * float(entry) + 16.0)

    @property
    def mean_bytes(self) -> float:
        """Of a row."""
        if not is_sparse(self.X):
            return float(self.X.shape[1] * self.X.itemsize + 16)
        entry = self.X.indices.itemsize + self.X.data.itemsize
        return self.nnz / self.n_rows * float(entry) + 16.0

    def take(self, chosen: NDArray[np.intp]) -> tuple[NDArray[Any], ...]:
        """Lengths, columns and values of some rows, or these rows of a dense matrix."""
        if not is_sparse(self.X):
            return (self.X[chosen],)
        if self.nnz < 2**31:  # SciPy wants offsets as narrow as columns, or copies all columns
            narrow = self.X.indptr.astype(self.X.indices.dtype, copy=False)
            own = type(self.X)((self.X.data, self.X.indices, narrow), self.X.shape)[chosen]
            return np.diff(own.indptr), own.indices, own.data
        begins, ends = self.X.indptr[chosen], self.X.indptr[chosen + 1]
        lengths = ends - begins
        places = np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        return lengths.astype(np.int32), self.X.indices[places], self.X.data[places]

    def row(self, i: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """The columns, values and label of a row."""
        if not is_sparse(self.X):
            return np.arange(self.n_features), self.X[i], self.y[i]
        begin, end = int(self.X.indptr[i]), int(self.X.indptr[i + 1])
        return self.X.indices[begin:end].copy(), self.X.data[begin:end].copy(), self.y[i]


LOCAL = 0.1  # epochs that threads work before they hear of each other


# A piece of a block is visited by a thread for itself if in each of its rounds it has so many
# non-zeros for each weight, of which every thread sums a vector.
WORTH = 4.0


def most_at_once(block: Block) -> int:
    """In how many pieces the work on a block is worth it; 1 if it is not as it should be."""
    plain = isinstance(block.X, np.ndarray) or getattr(block.X, "format", "") == "csr"
    if not plain or block.X.ndim != 2 or np.shape(block.y) != block.X.shape[:1]:
        return 1
    entries = block.X.nnz if hasattr(block.X, "nnz") else block.X.size
    worth = int(LOCAL * entries / (WORTH * (block.X.shape[1] + 1)))
    return max(1, min(worth, int(block.X.shape[0]) // 2))


def divided(block: Block, n_blocks: int, n_threads: int) -> list[Block]:
    """A block in as many pieces as give each thread one; one piece if there are enough blocks."""
    n = min(-(-n_threads // n_blocks), most_at_once(block))
    if n <= 1:
        return [block]
    n_rows = block.X.shape[0]
    cuts = np.linspace(0, n_rows, n + 1).astype(int).tolist()
    y, weight = np.asarray(block.y), block.sample_weight
    return [
        replace(
            block, X=block.X[a:b], y=y[a:b],
            sample_weight=None if weight is None else np.asarray(weight)[a:b],
        )
        for a, b in pairwise(cuts)
    ]  # fmt: skip


def check_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Blocks have the same columns, or they are not parts of one problem."""
    if one["zero_based"] != other["zero_based"]:
        zero, rest = (one, other) if one["zero_based"] else (other, one)
        raise ValueError(
            f"{zero['name']} counts features from 0, but {rest['name']} from 1: their columns "
            f"differ; {_hint(one, 'convert both with --zero-based', 'give zero_based=True')}"
        )
    if one["n_features"] != other["n_features"]:
        widest = max(one["n_features"], other["n_features"])
        files = str(one["name"]).endswith(".arrow")
        hint = f"; bridle convert TEXT --features {widest}, or all texts at once" if files else ""
        raise ValueError(
            f"{one['name']} has {one['n_features']} features, but {other['name']} has "
            f"{other['n_features']}{hint}"
        )


def _hint(one: Mapping[str, Any], converted: str, read: str) -> str:
    return converted if str(one["name"]).endswith(".arrow") else read
