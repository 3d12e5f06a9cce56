"""Rows on a GPU: all of them there, or a range at a time while the next one is on its way.

A number for each row stays on the device, as an array of CuPy's; weights are NumPy's. All sums are
added in float64, and the same bits come out every time: w(alpha) in fixed point, the others in a
fixed order.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cached_property
from typing import Any

import numpy as np
from bridle.errors import DeviceError
from bridle.matrix.arrays import Array
from bridle.matrix.csr import row_slice
from bridle.matrix.door import canonical, is_sparse, readable
from bridle.matrix.fingerprint import fingerprint_of_checked
from bridle.matrix.threads import Threads, check_threads
from bridle.objective import rounding
from bridle.objective.losses import inner
from bridle.objective.rounding import TINY, Interval, U, gamma
from bridle.rows.base import DESCENT, PASSES, ClippedDuals, ClippedSum
from bridle.rows.cuda.device import Device, find_device
from bridle.rows.cuda.matrix import (
    DeviceMatrix,
    adopt,
    fingerprint_on_device,
    is_on_device,
    lanes,
    put,
    some_rows,
)
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

THREADS = 256
BLOCKS = 264  # of kernels that sum in a fixed order: the same on every device
NULL = 0  # no array

# Fixed point: sums of magnitude up to 1 have so many bits after the point.
BITS = 62

COPIES, COPIED = 8, 1 << 22  # of the sums of features, and their entries altogether

# Of the device's free memory, rows may take so much; what is left is for vectors.
SHARE = 0.8
EACH_ROW, EACH_FEATURE = 100, 200  # bytes of vectors, at most
RANGE = 1 << 30  # bytes of a range, where they do not fit
CHUNK = 1 << 14  # rows that are spread into a dense matrix at a time

Part = tuple[DeviceMatrix, slice]


class CudaRows:
    """A matrix that was checked on the device; see `bridle.rows.base.Rows`."""

    offers = frozenset({PASSES, DESCENT})

    def __init__(
        self,
        X: Any,
        constant: float = 0.0,
        n_threads: int | None = None,
        device: Device | None = None,
        room: int | None = None,
    ) -> None:
        """room: the bytes that rows may take on the device; None is most of what is free."""
        self.device = find_device() if device is None else device
        self.constant, self.n_threads = constant, check_threads(n_threads)
        self.X = X if is_on_device(X) else readable(X)
        shape = self.X.shape
        self.n_rows, self.n_features = int(shape[0]), int(shape[1])
        for size, name in ((self.n_rows, "rows"), (self.n_features, "columns")):
            if size == 0:
                raise ValueError(f"X has no {name}")
        self._matrix: DeviceMatrix | None = None
        self._ranges = [slice(0, self.n_rows)]
        if is_on_device(X):
            self._matrix = adopt(self.device, X)
        else:
            self._place(self._room() if room is None else room)
        self._scan()

    def _room(self) -> int:
        """Bytes of the device that rows may take, so that vectors find theirs."""
        free = self.device.free_memory()
        vectors = EACH_ROW * self.n_rows + EACH_FEATURE * self.n_features
        if vectors > free:
            raise DeviceError(
                f"the GPU has {free / 1e9:.3g} GB free, but {self.n_rows} rows and "
                f"{self.n_features} features need {vectors / 1e9:.3g} GB beside the matrix"
            )
        return int(min(SHARE * free, free - vectors))

    def _place(self, room: int) -> None:
        """All rows on the device, or ranges of which two fit, to be copied in turn."""
        nbytes = _nbytes(self.X)
        if nbytes <= room:
            self._matrix = put(self.device, self.X)
            return
        target = min(RANGE, room // 3)
        n = max(2, -(-nbytes // max(1, target)))
        edges = _edges(self.X, n)
        self._ranges = [slice(a, b) for a, b in itertools.pairwise(edges) if a < b]

    def _scan(self) -> None:
        """Checks every entry, and finds |x_i|^2 and the largest of everything."""
        xp = self.device.xp
        self.norms = xp.empty(self.n_rows)  # |x_i|^2 with the constant feature
        wrong, largest, most = xp.zeros(1, np.int32), xp.zeros(1), xp.zeros(1, np.int64)
        for part, where in self.parts():
            self._launch("scan", part, part.n_rows, part.nnz, self.constant,
                         self.norms[where], wrong, largest, most)  # fmt: skip
        found = int(self.device.get(wrong)[0])
        if found & 3:
            self._complain(found)
        if found & 4:
            self._in_order()
            return
        self.most_entries = int(self.device.get(most)[0]) + 1
        self.largest_entry = float(self.device.get(largest)[0])
        top, n = float(self.device.get(self.norms.max())), self.most_entries
        self.mean_norm = float(self.device.get(self.norms.mean()))
        self.largest_length = Interval.around(top, gamma(n + 8) * top + n * TINY).root().high

    def _complain(self, found: int) -> None:
        if not is_on_device(self.X):
            MemoryRows(self.X, self.constant, self.n_threads)  # says what and where
        what = "columns out of bounds" if found & 2 else "NaN or infinity"
        raise ValueError(f"X contains {what}")

    def _in_order(self) -> None:
        """Columns in order, and none twice: a copy."""
        if is_on_device(self.X):
            self.X = self.X.copy()
            self.X.sum_duplicates()
            self._matrix = adopt(self.device, self.X)
        else:
            self.X = canonical(self.X)
            if self._matrix is not None:
                self._matrix = put(self.device, self.X)
        self._scan()

    def with_threads(self, n_threads: int | None) -> CudaRows:
        """The same rows for another number of threads, which only copies mind."""
        if n_threads is None:
            return self
        other = copy.copy(self)
        other.n_threads = check_threads(n_threads)
        return other

    @property
    def dense(self) -> bool:
        """Whether every entry is stored."""
        return not hasattr(self.X, "indptr")

    @property
    def lanes(self) -> int:
        """Threads to a row."""
        return lanes(self.nnz / self.n_rows)

    @property
    def resident(self) -> bool:
        """Whether all rows are on the device."""
        return self._matrix is not None

    @property
    def nnz(self) -> int:  # noqa: D102
        return self._matrix.nnz if self._matrix is not None else _entries(self.X)

    @property
    def dtype(self) -> np.dtype[Any]:  # noqa: D102
        found: np.dtype[Any] = self.X.dtype if self._matrix is None else self._matrix.values.dtype
        return found

    @cached_property
    def squared_norms(self) -> Array:
        """|x_i|^2 with the constant feature, in this memory."""
        return self.device.get(self.norms)

    def parts(self, order: Any = None) -> Iterator[Part]:
        """The rows by ranges, in this order; the next one is copied while one is looked at."""
        if self._matrix is not None:
            yield self._matrix, self._ranges[0]
            return
        wanted = [self._ranges[k] for k in (range(len(self._ranges)) if order is None else order)]
        with Threads(1) as pool:
            coming: Future[DeviceMatrix] = pool.submit(self._fetch, wanted[0])
            for k, where in enumerate(wanted):
                part = coming.result()
                if k + 1 < len(wanted):
                    coming = pool.submit(self._fetch, wanted[k + 1])
                yield part, where
                self.device.wait()

    @property
    def n_parts(self) -> int:
        """How many ranges there are."""
        return len(self._ranges)

    @cached_property
    def _apart(self) -> Any:
        """The stream of ranges: its memory is reused by ranges alone, once nobody reads them."""
        return self.device.apart()

    def _fetch(self, where: slice) -> DeviceMatrix:
        with self._apart:
            part = put(self.device, row_slice(self.X, where.start, where.stop))
            self.device.wait()
        return part

    def kernel(self, source: str, name: str, part: DeviceMatrix, **macros: Any) -> Any:
        """A kernel for rows of this kind."""
        return self.device.kernel(source, name, **part.macros, **macros)

    def _launch(self, name: str, part: DeviceMatrix, n_rows: int, *arguments: Any) -> None:
        """A pass over some rows, a group of threads to each."""
        kernel = self.kernel("passes", name, part)
        lanes = part.macros["LANES"]
        blocks = max(1, min(-(-n_rows * lanes // THREADS), 16 * self.device.multiprocessors))
        kernel((blocks,), (THREADS,), (*part.arguments, n_rows, *arguments))

    def put(self, values: Any) -> Any:
        """A vector of float64 on the device."""
        if hasattr(values, "on_device"):
            values = values.on_device
        if isinstance(values, self.device.xp.ndarray):
            return values.astype(np.float64, copy=False)
        return self.device.put(np.asarray(values, np.float64))

    def scores(self, w: Array) -> Any:
        """w.x_i of every row, on the device; the last weight is the constant feature's."""
        return self._look(None, w)[1]

    def combine(self, a: Any) -> Array:  # noqa: D102
        return self.combined(a)[0]

    def combine_and_score(self, a: Any, w: Array) -> tuple[Array, Any]:  # noqa: D102
        (combined, _), scores = self._look(a, w)
        return combined, scores

    def combined(self, a: Any, sizes: tuple[float, float] | None = None) -> tuple[Array, float]:
        """sum a_i x_i, and the length of its error, at most."""
        return self._look(a, None, sizes)[0]

    def look(
        self, a: Any, w: Array, sizes: tuple[float, float] | None = None
    ) -> tuple[Array, float, Any]:
        """Sum a_i x_i, the length of its error, and the scores of w, in one pass.

        sizes: sum |a_i| or a little more, and sum a_i, where they are known.
        """
        (combined, drift), scores = self._look(a, w, sizes)
        return combined, drift, scores

    def _look(
        self, a: Any, w: Array | None, sizes: tuple[float, float] | None = None
    ) -> tuple[tuple[Array, float], Any]:
        """The one pass. Either vector may be None."""
        xp, sums = self.device.xp, None
        a = None if a is None else self.put(a)
        weights = NULL if w is None else self.put(w)
        scores = None if w is None else xp.empty(self.n_rows)
        size = balance = quantum = 0.0
        n = self.n_features
        copies = 1 if self.dense else max(1, min(COPIES, COPIED // n))
        if a is not None:
            size, balance = self._sizes(a) if sizes is None else sizes
            quantum = self._quantum(size)
            sums = xp.zeros(n) if self.dense else xp.zeros((copies, n), np.uint64)
        for part, where in self.parts():
            own = a is not None and not part.dense
            if own or w is not None:
                self._launch(
                    "look", part, part.n_rows, self.constant, weights,
                    NULL if scores is None else scores[where], a[where] if own else NULL,
                    1.0 / quantum if own else 0.0, copies,
                    sums if own else NULL,
                )  # fmt: skip
            if a is not None and part.dense:
                self._combine_dense(part, a[where], sums)
        if sums is None:
            return (np.empty(0), 0.0), scores
        if self.dense:
            summed = self.device.get(sums)
        else:  # whole numbers: their sum has the same bits in any order
            summed = self.device.get(sums.sum(axis=0)).view(np.int64) * quantum
        combined = np.append(summed, self.constant * balance)
        return (combined, self._drift(combined, size, quantum)), scores

    def _sizes(self, a: Any) -> tuple[float, float]:
        """sum |a_i|, or a little more, and sum a_i."""
        size, balance = self.sums("sizes", 2, self.n_rows, a)
        return size.high, balance.middle

    def _quantum(self, size: float) -> float:
        """The unit of fixed point: a power of two, so that no sum is beyond 2^62 of them."""
        reach = size * self.largest_entry
        exponent = math.frexp(reach)[1] if 0 < reach < math.inf else 1
        return math.ldexp(1.0, max(exponent - BITS, -1000))

    def _drift(self, combined: Array, size: float, quantum: float) -> float:
        """The length of the error of sum a_i x_i.

        Each product is rounded, and in fixed point once more to the quantum: the n_j entries of
        feature j are off by n_j / 2 quanta, and sum n_j^2 is at most the rows times the entries. In
        float64 each term goes through the additions of its thread and of the sum over them.
        """
        n = self.n_rows
        terms = n / BLOCKS + self.n_parts + 64 if self.dense else 2.0
        products = gamma(terms + 16) * size * self.largest_length
        entries = 0.0 if self.dense else float(n) * self.nnz
        fixed = 0.5 * quantum * math.sqrt(entries) * (1.0 + 1e-12)
        # The constant feature has its own sum of the a_i.
        bias = gamma(self._roundings + 16) * size * abs(self.constant)
        underflow = n * math.sqrt(self.n_features + 1.0) * TINY
        # The sums are rounded once more, and this norm of theirs by far less than its half.
        stored = 4 * U * math.sqrt(inner(combined, combined))
        return products + fixed + bias + stored + underflow

    def _combine_dense(self, part: DeviceMatrix, a: Any, sums: Any) -> None:
        xp, n = self.device.xp, part.n_features
        width = min(THREADS, -(-n // 32) * 32)
        slots = BLOCKS * THREADS // width
        parts = xp.zeros((slots, n))
        macros = part.macros
        combine = self.device.kernel("passes", "combine_dense", **macros)
        combine((BLOCKS,), (THREADS,), (*part.arguments, part.n_rows, a,
                                        width, parts))  # fmt: skip
        add = self.device.kernel("passes", "add_parts", **macros)
        add((min(n, 4096),), (THREADS,), (parts, slots, n, sums))

    @property
    def _roundings(self) -> float:
        """Of a term of a sum over numbers of rows: its thread's additions, and its block's."""
        return self.n_rows / (BLOCKS * THREADS) + 16

    def sums(self, name: str, n: int, *arguments: Any, **macros: Any) -> list[Interval]:
        """What a kernel of sums.cu sums over rows, as intervals of what was added.

        Of sums that have terms of both signs the caller adds what these sizes allow.
        """
        parts = self.device.xp.zeros((n, BLOCKS))
        kernel = self.device.kernel("sums", name, **macros)
        kernel((BLOCKS,), (THREADS,), (*arguments, parts))
        found = self.device.get(parts)
        part = gamma(self._roundings)
        return [_widened(rounding.total(row), part * rounding.size(row)) for row in found]

    def weighted_gram(self, weights: Any) -> Array:
        """sum_i weights_i x_i x_i', the constant feature last."""
        xp, width = self.device.xp, self.n_features + 1
        gram, factors = xp.zeros((width, width)), xp.sqrt(self.put(weights))
        for part, where in self.parts():
            own = factors[where]
            rows = xp.flatnonzero(own)
            for begin in range(0, int(rows.size), CHUNK):
                chosen = rows[begin : begin + CHUNK].astype(np.int64, copy=False)
                dense = xp.zeros((int(chosen.size), width))
                kernel = self.kernel("passes", "spread", part)
                kernel((BLOCKS,), (THREADS,), (*part.arguments, chosen, int(chosen.size),
                                               self.constant, own, dense))  # fmt: skip
                gram += dense.T @ dense
        return self.device.get(gram)

    def clipped_sum(self, p: Any, e: Any, t: float, *vectors: Any) -> ClippedSum:
        """For line searches: see `bridle.rows.base.ClippedSum`."""
        found = self.sums("clipped", 4, self.n_rows, p, e, t, *vectors)
        return ClippedSum(*(interval.middle for interval in found))

    def clipped_duals(self, p: Any, alpha: Any, sigma: Any, upper: Any) -> ClippedDuals:
        """For newton's steps: see `bridle.rows.base.ClippedDuals`."""
        xp, short = self.device.xp, 1.0 - p
        u = alpha + sigma * short
        a = xp.clip(u, 0.0, upper)
        weights = xp.where((u > 0) & (u < upper), sigma, 0.0)
        bounded = xp.isfinite(upper)
        most = xp.where(bounded, upper, 0.0)
        above = most * xp.maximum(short, 0.0) - bounded * a * short
        return ClippedDuals(a, weights, float(a @ short), float(above.sum()))

    def product(self, a: Any, b: Any) -> Any:
        """a_i b_i, of two numbers for each row."""
        return a * b

    def crowding(self) -> Any:
        """For each row the sum of x_ij^2 times the share of rows that have feature j."""
        xp = self.device.xp
        counts, out = xp.zeros(self.n_features, np.uint32), xp.empty(self.n_rows, self.dtype)
        for part, _ in self.parts():
            self._launch("count_columns", part, part.n_rows, counts)
        for part, where in self.parts():
            self._launch("crowding", part, part.n_rows, counts, 1.0 / self.n_rows,
                         out[where])  # fmt: skip
        return out

    def take(self, chosen: NDArray[np.intp]) -> MemoryRows:  # noqa: D102
        some = some_rows(self.X, chosen) if is_on_device(self.X) else self.X[chosen]
        return MemoryRows(some, self.constant, self.n_threads)

    def fingerprint(self, y: Any) -> str:  # noqa: D102
        named = fingerprint_on_device if is_on_device(self.X) else fingerprint_of_checked
        return named(self.X, y)


def _widened(value: Interval, error: float) -> Interval:
    return value + Interval(-error, error) if error > 0 else value


def _entries(X: Any) -> int:
    return int(X.nnz) if is_sparse(X) else int(X.size)


def _nbytes(X: Any) -> int:
    if not is_sparse(X):
        return int(X.nbytes)
    return int(X.data.nbytes + X.indices.nbytes + 8 * len(X.indptr))


def _edges(X: Any, n: int) -> list[int]:
    """Rows at which n ranges of about as many entries begin, and the end."""
    if not is_sparse(X):
        return [round(k * X.shape[0] / n) for k in range(n + 1)]
    goals = np.linspace(0, X.indptr[-1], n + 1)
    edges = np.searchsorted(X.indptr, goals[1:-1])
    return [0, *(int(edge) for edge in edges), int(X.shape[0])]
