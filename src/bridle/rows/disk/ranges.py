"""Rows on disk: they come in ranges, some at a time, read ahead and checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from bridle import _core
from bridle.data.arrow import ArrowError, ArrowRows, Batch
from bridle.files.fingerprint import fingerprint_of
from bridle.matrix.arrays import Array
from bridle.matrix.threads import Threads, check_threads
from bridle.rows.base import DESCENT
from bridle.rows.base import RANGES as IN_RANGES
from bridle.rows.disk.memory import ROW_VECTORS, MemoryPlan, RowVectors
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

# Of the ranges of rows that are read at a time: bytes, and how many there should be at least.
SMALLEST, LARGEST, RANGES = 1 << 17, 4 << 20, 400

# Threads that read ahead: a disk wants to be asked for several ranges at a time, and while some
# wait for it others check what they have read.
READERS = 4

Made = TypeVar("Made")


@dataclass(frozen=True)
class Range:
    """Some rows of a file, at hand; with buffers, valid until the next range is asked for.

    where: its rows among all. labels: as they are in the file. weight: of its rows, or None.
    """

    number: int
    where: slice
    rows: MemoryRows
    labels: NDArray[Any]
    weight: Array | None
    batch: Batch


class DiskRows:
    """The rows of a file in ranges, which come in any order, within the memory that is allowed.

    memory: bytes; None maps the file and leaves it to the system what of it is in memory. constant:
    the value of the constant feature. row_vectors: that solvers need at the worst moment.
    """

    offers = frozenset({IN_RANGES, DESCENT})

    def __init__(
        self,
        source: ArrowRows,
        *,
        constant: float = 0.0,
        memory: int | None = None,
        n_threads: int | None = None,
        row_vectors: int = ROW_VECTORS,
    ) -> None:
        self.source, self.constant = source, constant
        self.n_threads = check_threads(n_threads)
        self.ranges = source.ranges(_range_bytes(source.bytes_in_memory))
        self.sizes = np.array([source.range_bytes(rows) for rows in self.ranges], np.int64)
        self.plan = self._without_copies = None
        if memory is not None:
            self.plan, self._without_copies = (
                MemoryPlan.of(source, self.ranges, memory, row_vectors, copies=copies)
                for copies in (True, False)
            )
        self.vectors = RowVectors(
            source.n_rows, self.plan is not None and self.plan.vectors_on_disk
        )
        self.bytes_read = 0
        self._parts: dict[int, Range] = {}
        self._buffers: list[memoryview] = []

    def parts(self, order: Iterable[int] | None = None) -> Iterator[Range]:
        """The ranges of these numbers; all of them in the order of the file if none are given.

        Only one such pass may be under way at a time: there are no more buffers than planned.
        """
        return self.each(lambda part: part, order)

    def each(self, make: Callable[[Range], Made], order: Iterable[int] | None) -> Iterator[Made]:
        """What `make` makes of each of the ranges; the threads that read ahead do that, too."""
        wanted = list(range(len(self)) if order is None else map(int, order))
        if self.plan is None or self.plan.resident:
            return (make(self._kept(k)) for k in wanted)
        self.source.expect_reads(in_order=order is None)
        return self._read_ahead(wanted, make)

    @property
    def plan_if_held(self) -> MemoryPlan | None:
        """With the vectors in memory if they fit, even where copies of rows would be worth more."""
        return self.plan if self._without_copies is None else self._without_copies

    def hold_vectors(self) -> bool:
        """By that plan from now on, before a solver makes any; whether they are in memory."""
        if self.vectors.on_disk and self._without_copies is not None:
            self.plan, self._buffers = self._without_copies, []
            self.vectors = RowVectors(self.n_rows, self.plan.vectors_on_disk)
        return not self.vectors.on_disk

    def labels(self) -> Iterator[tuple[slice, NDArray[Any], Array | None]]:
        """Of each range its rows, their labels and their weights; reads nothing else of them."""
        batch, labels, weight = -1, np.empty(0), None
        for rows in self.ranges:
            if rows.batch != batch:
                batch = rows.batch
                labels = self.source.column(batch, "label")
                if self.source.has_weight:
                    weight = self.source.column(batch, "weight").astype(np.float64)
            first, inside = int(self.source.batch_rows[batch]), slice(rows.begin, rows.end)
            where = slice(first + rows.begin, first + rows.end)
            yield where, labels[inside], None if weight is None else weight[inside]

    def __len__(self) -> int:
        return len(self.ranges)

    @property
    def n_rows(self) -> int:  # noqa: D102
        return self.source.n_rows

    @property
    def n_features(self) -> int:  # noqa: D102
        return self.source.n_features

    @property
    def nnz(self) -> int:  # noqa: D102
        return self.source.nnz

    @property
    def dtype(self) -> np.dtype[Any]:  # noqa: D102
        return self.source.dtype

    def scores(self, w: Array) -> Array:  # noqa: D102
        out = np.empty(self.n_rows)
        for part in self.parts():
            part.rows.scores(w, out[part.where])
        return out

    def combine(self, a: Array) -> Array:  # noqa: D102
        return self.combine_and_score(a, np.zeros(self.n_features + 1))[0]

    def combine_and_score(self, a: Array, w: Array) -> tuple[Array, Array]:  # noqa: D102
        combined, scores = np.zeros(self.n_features + 1), np.empty(self.n_rows)
        for part in self.parts():
            own, scores[part.where] = part.rows.combine_and_score(np.array(a[part.where]), w)
            combined += own
        return combined, scores

    def take(self, chosen: NDArray[np.intp]) -> MemoryRows:  # noqa: D102
        from scipy.sparse import vstack

        found = []
        for part in self.parts():
            mine = chosen[(chosen >= part.where.start) & (chosen < part.where.stop)]
            if len(mine):
                found.append(part.batch.X[mine - part.where.start].copy())
        return MemoryRows(vstack(found, format="csr"), self.constant, self.n_threads)

    def fingerprint(self, y: Any) -> str:  # noqa: D102
        return fingerprint_of(
            self.source.shape, (self.n_rows,), lambda i: (*self._entries(i), y[i])
        )

    def _entries(self, i: int) -> tuple[NDArray[Any], NDArray[Any]]:
        columns, values, _ = self.source.row(i)
        return columns, values

    def _kept(self, k: int) -> Range:
        if k not in self._parts:
            mapped = self.plan is None
            batch = self.source.view(self.ranges[k]) if mapped else self._load(k, None)
            self._parts[k] = self._range(batch)
        return self._parts[k]

    def _read_ahead(self, numbers: list[int], make: Callable[[Range], Made]) -> Iterator[Made]:
        """All buffers but the one in use are being read into, or have been."""
        assert self.plan is not None
        if not self._buffers:
            self._buffers = [_buffer(self.plan.buffer_bytes) for _ in range(self.plan.buffers)]
        free, todo = list(self._buffers), deque(numbers)
        waiting: deque[tuple[Future[Made], memoryview]] = deque()
        with Threads(min(READERS, len(free) - 1), "bridle-read") as pool:
            try:
                while todo or waiting:
                    while todo and free:
                        buffer = free.pop()
                        future = pool.submit(self._read, todo.popleft(), buffer, make)
                        waiting.append((future, buffer))
                    future, buffer = waiting.popleft()
                    yield future.result()
                    free.append(buffer)
            finally:
                for future, _ in waiting:
                    future.cancel()

    def _read(self, k: int, buffer: memoryview, make: Callable[[Range], Made]) -> Made:
        return make(self._range(self._load(k, buffer)))

    def _load(self, k: int, buffer: memoryview | None) -> Batch:
        batch = self.source.load(self.ranges[k], buffer)
        self.bytes_read += int(self.sizes[k])
        return batch

    def _range(self, batch: Batch) -> Range:
        """Every index and every value is checked before a pass sees it."""
        squared_norms = np.empty(batch.n_rows)
        try:
            view = _core.matrix.csr_rows(
                batch.offsets, batch.columns, batch.values, batch.n_features, self.constant, batch
            )
            in_order = _core.matrix.scan(view, squared_norms, 1)
        except ValueError as error:
            raise self.source.error(batch.number, str(error)) from error
        if not in_order:
            raise self.source.error(batch.number, _disorder(batch))
        if not np.isfinite(batch.labels).all():
            raise self.source.error(batch.number, "a label is not finite")
        rows = MemoryRows.checked(view, squared_norms, self.constant, self.n_threads)
        return Range(
            number=batch.number, where=batch.rows, rows=rows, labels=batch.labels,
            weight=self._weight(batch), batch=batch,
        )  # fmt: skip

    def _weight(self, batch: Batch) -> Array | None:
        if batch.weight is None:
            return None
        weight = batch.weight.astype(np.float64)
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise self.source.error(batch.number, "a weight is negative or not finite")
        return weight


def _range_bytes(total: int) -> int:
    """Small enough that their order mixes the rows: with a few hundred ranges an epoch is worth as
    much as one in which all rows are shuffled, with a dozen half as much (measured). Large enough
    that what is done once for each of them does not count.
    """
    return min(LARGEST, max(SMALLEST, total // RANGES))


def _buffer(size: int) -> memoryview:
    """Aligned as the file is, modulo 64: arrays in it are then aligned too."""
    memory = np.empty(size + 64, np.uint8)
    begin = -memory.ctypes.data % 64
    return memoryview(memory[begin : begin + size].data)


def _disorder(batch: Batch) -> str:
    begin, end = int(batch.offsets[0]), int(batch.offsets[-1])
    inside = batch.columns[begin:end]
    bad = np.flatnonzero(inside[1:] <= inside[:-1]) + 1 + begin
    starts = np.isin(bad, batch.offsets)
    at = int(bad[~starts][0])
    row = int(np.searchsorted(batch.offsets, at, side="right")) - 1
    return (
        f"row {row} has column {batch.columns[at]} after column {batch.columns[at - 1]}; "
        "the columns of a row must increase"
    )


def labels_of(source: ArrowRows, most: int = 1000) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The distinct labels of a file and how many rows have each; reads nothing else of it."""
    counts: dict[float, int] = {}
    for k in range(source.n_batches):
        labels = source.column(k, "label")
        if not np.isfinite(labels).all():
            raise source.error(k, "a label is not finite")
        for label, n in zip(*np.unique(labels, return_counts=True), strict=True):
            counts[float(label)] = counts.get(float(label), 0) + int(n)
        if len(counts) > most:
            raise ArrowError(
                f"{source.path}: more than {most} different labels: these are not classes"
            )
    classes = np.array(sorted(counts))
    return classes, np.array([counts[label] for label in classes.tolist()])
