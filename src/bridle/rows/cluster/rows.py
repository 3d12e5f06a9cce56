"""The rows of all parts as one matrix, and what the talk with the parts costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from bridle.files.fingerprint import fingerprint_of, sampled_rows
from bridle.matrix.arrays import Array
from bridle.rows.base import ROUNDS
from bridle.rows.cluster.blocks import check_alike
from bridle.rows.cluster.messages import PartsLostError
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray


class Parts(Protocol):
    """Where the parts are, and how to talk to them."""

    bytes_moved: int
    seconds_overhead: float
    unwanted: list[tuple[str, int]]  # snapshots and runs that nobody can ask for any more

    def __len__(self) -> int:
        """How many parts."""

    def call(self, method: str, *arguments: Any, only: Sequence[int] | None = None) -> list[Any]:
        """The answers of all parts, or of some, in order; PartsLostError if one began anew."""


@dataclass
class Report:
    """What the talk with the parts cost."""

    rounds: int = 0
    gathered: int = 0  # rounds that were worked on in one place
    certificates: int = 0
    losses: list[str] = field(default_factory=list)  # parts that were lost, in words


class ClusterRows:
    """The rows of all parts, as one matrix without a constant feature; see `bridle.rows.base`."""

    offers = frozenset({ROUNDS})
    constant = 0.0
    n_threads = 1  # a worker has threads of its own

    def __init__(self, parts: Parts, classes: NDArray[Any] | None = None) -> None:
        self.parts, self.report = parts, Report()
        self.facts = Facts.of(parts)
        self.classes = self.facts.classes if classes is None else np.asarray(classes)
        if len(self.classes) < 2:
            raise ValueError(f"the rows must be of at least two classes, got {len(self.classes)}")
        self.ask("encode", self.classes)

    @property
    def n_rows(self) -> int:  # noqa: D102
        return self.facts.n_rows

    @property
    def n_features(self) -> int:  # noqa: D102
        return self.facts.n_features

    @property
    def nnz(self) -> int:  # noqa: D102
        return self.facts.nnz

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data, in which the parts work."""
        return self.facts.dtype

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """A call that needs no run: parts that are lost learn their classes, and it is repeated."""
        while True:
            try:
                return self.parts.call(method, *arguments)
            except PartsLostError as lost:
                self.encode(lost.numbers)

    def encode(self, numbers: Sequence[int]) -> None:
        """Parts that began anew learn the classes."""
        while True:
            try:
                self.parts.call("encode", self.classes, only=numbers)
                return
            except PartsLostError as lost:
                numbers = sorted({*numbers, *lost.numbers})

    def scores(self, w: Array) -> Array:  # noqa: D102
        return np.concatenate(self.ask("scores", w))

    def combine(self, a: Array) -> Array:  # noqa: D102
        return np.asarray(np.sum(self.ask("combine", a, self._starts()), axis=0))

    def combine_and_score(self, a: Array, w: Array) -> tuple[Array, Array]:  # noqa: D102
        return self.combine(a), self.scores(w)

    def take(self, chosen: NDArray[np.intp]) -> MemoryRows:  # noqa: D102
        from scipy.sparse import csr_matrix

        found = self._rows(chosen.tolist())
        columns, values = ([found[i][k] for i in chosen.tolist()] for k in (0, 1))
        ends = np.cumsum([0, *map(len, columns)])
        shape = (len(chosen), self.n_features)
        matrix = csr_matrix((np.concatenate(values), np.concatenate(columns), ends), shape=shape)
        return MemoryRows(matrix.astype(self.dtype), self.constant, self.n_threads)

    def fingerprint(self, y: Any = None) -> str:
        """Of the rows and their labels: that of the same rows on one machine."""
        rows = self._rows(sampled_rows(self.n_rows))
        return fingerprint_of((self.n_rows, self.n_features), (self.n_rows,), rows.__getitem__)

    def _rows(self, wanted: list[int]) -> dict[int, tuple[Any, Any, Any]]:
        """Columns, values and label of each."""
        found = self.ask("sample", wanted, self._starts())
        return {i: row for part in found for i, row in part.items()}

    def _starts(self) -> list[int]:
        """Where the rows of each part begin."""
        sizes = [one["n_rows"] for one in self.ask("describe")]
        return [0, *np.cumsum(sizes)[:-1].tolist()]


@dataclass(frozen=True)
class Facts:
    """What the parts have in common, and in sum."""

    n_rows: int
    n_features: int
    nnz: int
    dtype: np.dtype[Any]
    classes: NDArray[Any]
    weights: Array  # of each class
    weighted: bool
    zero_based: bool  # how the files' texts counted features
    mean_square: float  # |x|^2, by weight

    @classmethod
    def of(cls, parts: Parts) -> Facts:
        """Asks all parts."""
        found = call_until_done(parts, "describe")
        first = found[0]
        for other in found[1:]:
            check_alike(other, first)
        classes = np.unique(np.concatenate([one["classes"] for one in found]))
        weights = np.zeros(len(classes))
        for one in found:
            weights[np.searchsorted(classes, one["classes"])] += one["weights"]
        return cls(
            sum(one["n_rows"] for one in found), first["n_features"],
            sum(one["nnz"] for one in found),
            np.result_type(*(np.dtype(one["dtype"]) for one in found)), classes, weights,
            any(one["weighted"] for one in found), first["zero_based"],
            sum(one["squares"] for one in found) / max(float(weights.sum()), 1e-300),
        )  # fmt: skip


def take_unwanted(parts: Parts) -> list[tuple[str, int]]:
    """What the parts are to forget, once."""
    gone, parts.unwanted[:] = list(parts.unwanted), []
    return gone


def call_until_done(parts: Parts, method: str, *arguments: Any) -> list[Any]:
    """A call that needs no state of the parts: if some are lost, once more."""
    while True:
        try:
            return parts.call(method, *arguments)
        except PartsLostError:
            continue
