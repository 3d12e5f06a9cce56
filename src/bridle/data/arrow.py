"""Rows on disk: an Arrow IPC file of record batches, which pandas, polars and DuckDB read too.

Columns
-------
label
    float64, or any other number.
qid, weight
    Optional: integers, and numbers that are not negative.
indices, values
    Lists of the same length in every row: the columns (int32 or int64, from 0, strictly increasing)
    and what stands in them (float32 or float64). We write ``large_list``, whose offsets have 64
    bits; ``list`` is read as well.

The schema's metadata says ``bridle.format`` (1), ``bridle.n_features`` and ``bridle.zero_based``
(1 if texts of the same data count features from 0). A file without them, from another tool, is read
too: its width is then the largest column that occurs.

A compact file (``bridle.format`` 2) has gaps instead of indices, and numbers of values where these
are few: see `bridle.data.compact`. It is smaller, and unpacked when it is read. One with factors of
its values (3) has ``scale``, ``codes`` and ``rest`` instead of values: see `bridle.data.factored`.

The file is mapped, not loaded: the arrays of a batch are views of the file, and together they are a
CSR matrix. Nothing in them is trusted: offsets are checked when a batch is looked at, columns and
values when a problem is made of them. Compressed files cannot be mapped and are refused.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from bridle import _core
from bridle.data.compact import MOST_VALUES, Packing
from bridle.data.factored import COLUMNS as COLUMN_FACTORS
from bridle.data.factored import FEW, Factors
from bridle.matrix.csr import check_csr
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.data.reading import Data, Wanted
    from scipy.sparse import csr_matrix

__all__ = ["ArrowError", "ArrowRows", "Batch", "open_arrow", "read_arrow"]

StrPath = str | os.PathLike[str]

FORMAT, COMPACT_FORMAT, FACTORED_FORMAT = 1, 2, 3
# Of a batch that we write, about: rows on disk are then read in whole batches, each in one piece.
BATCH_BYTES = 2 << 20
_FLOATS = ("float32", "float64")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_MOST_FEATURES = 2**31 - 1
_ALIGNMENT = 64  # of arrays in a buffer
_MOST_LOST = 6 * _ALIGNMENT  # between the arrays of a batch that are read in one piece
_MAGIC = 8  # bytes before the first schema
_METADATA = (
    b"bridle.format", b"bridle.n_features", b"bridle.zero_based", COLUMN_FACTORS, FEW
)  # fmt: skip
LATE = ("bridle.n_features", "bridle.zero_based")  # what is known when all rows were seen
AS_THEY_ARE = Packing.of(None)
DIGITS = 20  # of the places that are kept for these


class ArrowError(ValueError):
    """A file that is not what it should be: the message names the file, the batch and the row.

    Examples
    --------
    >>> with open("rows.arrow", "w") as file:
    ...     count = file.write("anything")
    >>> try:
    ...     bridle.data.open_arrow("rows.arrow")
    ... except bridle.data.ArrowError as error:
    ...     print(error)
    rows.arrow...
    """


@dataclass(frozen=True)
class Batch:
    """Some rows: views of the file, or of a buffer that it was read into.

    offsets has one entry more than there are rows; row i is columns[offsets[i]:offsets[i + 1]].
    """

    number: int
    first_row: int
    offsets: NDArray[np.int64]
    columns: NDArray[Any]
    values: NDArray[Any]
    labels: NDArray[Any]
    qid: NDArray[Any] | None
    weight: NDArray[Any] | None
    n_features: int

    @property
    def n_rows(self) -> int:  # noqa: D102
        return len(self.offsets) - 1

    @property
    def nnz(self) -> int:  # noqa: D102
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def rows(self) -> slice:
        """Where these rows are among all rows of the file."""
        return slice(self.first_row, self.first_row + self.n_rows)

    @property
    def X(self) -> csr_matrix:  # noqa: N802
        """The rows as a SciPy matrix, without a copy, not checked: LinearProblem does that."""
        from scipy.sparse import csr_matrix

        X = csr_matrix((self.n_rows, self.n_features), dtype=self.values.dtype)
        X.data, X.indices = self.values, self.columns
        X.indptr = cast(Any, self.offsets)
        return X

    @property
    def y(self) -> NDArray[np.float64]:
        """The labels as float64."""
        return self.labels.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Span:
    """An array inside the file."""

    position: int
    dtype: np.dtype[Any]
    count: int

    @property
    def end(self) -> int:
        return self.position + self.count * self.dtype.itemsize

    def view(self, memory: Any, origin: int) -> NDArray[Any]:
        if self.count == 0:
            return np.empty(0, self.dtype)
        return np.frombuffer(memory, self.dtype, self.count, self.position - origin)


@dataclass(frozen=True)
class _Spans:
    """Where the arrays of one batch are. columns: or gaps. values: or their numbers, or codes.

    scale, rest_offsets, rest: with these codes.
    """

    n_rows: int
    label: Span
    qid: Span | None
    weight: Span | None
    index_offsets: Span
    columns: Span
    value_offsets: Span
    values: Span
    scale: Span | None = None
    rest_offsets: Span | None = None
    rest: Span | None = None

    @property
    def by_row(self) -> list[Span]:
        """With an entry for each row, or one more."""
        spans = (
            self.label, self.qid, self.weight, self.index_offsets, self.value_offsets, self.scale,
            self.rest_offsets,
        )  # fmt: skip
        return [span for span in spans if span is not None]

    @property
    def all(self) -> list[Span]:
        inside = self.columns, self.values, self.rest
        return [span for span in (*self.by_row, *inside) if span is not None and span.count > 0]

    @property
    def begin(self) -> int:
        return min((span.position for span in self.all), default=0)

    @property
    def end(self) -> int:
        return max((span.end for span in self.all), default=0)


@dataclass(frozen=True)
class RowRange:
    """Some rows of a batch, and where their entries are among those of the batch."""

    batch: int
    begin: int
    end: int
    first_index: int
    first_value: int
    n_indices: int  # or gaps
    nnz: int
    first_rest: int = 0  # of the values by themselves
    n_rest: int = 0

    @property
    def n_rows(self) -> int:
        return int(self.end - self.begin)


class _Room:
    """Where arrays go: one behind the other into a buffer, or each into memory of its own."""

    def __init__(self, buffer: memoryview | None) -> None:
        self._buffer, self._used = buffer, 0

    def array(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """One that nothing has been written to."""
        if self._buffer is None:
            return np.empty(count, dtype)
        return np.frombuffer(self.bytes(count * dtype.itemsize), dtype)

    def bytes(self, count: int, past: int = 0) -> memoryview:
        """Of the buffer, from so many bytes past a multiple of _ALIGNMENT on."""
        assert self._buffer is not None
        begin = self._used + past
        self._used = begin + count + -(begin + count) % _ALIGNMENT
        return self._buffer[begin : begin + count]


class ArrowRows:
    """An open file of rows. Its batches are views of the file.

    Attributes: path, n_rows, n_features, n_batches, nnz, dtype (of the values), column_dtype,
    has_qid, has_weight, zero_based (whether texts of these data count features from 0), batch_rows
    (the first row of each batch, and the number of rows).

    Examples
    --------
    >>> bridle.data.write_arrow("rows.arrow", *bridle.data.make_corpus(500, seed=0))
    >>> rows = bridle.data.open_arrow("rows.arrow")
    >>> rows.shape, rows.batch(0).X.shape[1]
    ((500, 47236), 47236)
    """

    __arrow_rows__ = True  # see `bridle.rows.homes`

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self._descriptor = os.open(path, os.O_RDONLY)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._map: Any = _mapped(self._descriptor, self.path)
        self._known: NDArray[Any] | None  # what the numbers of values stand for
        self._open()

    def _open(self) -> None:
        pa = pyarrow_module()
        base = np.frombuffer(self._map, np.uint8).ctypes.data if len(self._map) else 0
        try:
            reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self._map)))
            schema, n_batches = reader.schema, reader.num_record_batches
            _check_schema(schema, self.path)
            metadata = schema.metadata or {}
            if _METADATA[0] in metadata:
                # The schema is in the file twice: a width that was damaged would cost all memory.
                first = pa.ipc.read_schema(pa.BufferReader(pa.py_buffer(self._map)[_MAGIC:]))
                if any((first.metadata or {}).get(key) != metadata.get(key) for key in _METADATA):
                    raise ValueError("its two schemas do not agree")
        except ArrowError:
            raise
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise ArrowError(
                f"{self.path}: not a complete Arrow file: {_first_line(error)}"
            ) from error
        self._note_kinds(schema, metadata)
        self.has_qid, self.has_weight = "qid" in schema.names, "weight" in schema.names
        self._spans = []
        if n_batches and pa.types.is_dictionary(schema.field(self._values_name).type.value_type):
            reader = self._with_dictionary()
        for k in range(n_batches):
            self._spans.append(self._locate(reader, k, base))
            self.release()  # a look at a header may bring 2 MiB of a cached file into memory
        counts = [spans.n_rows for spans in self._spans]
        self.batch_rows: NDArray[np.int64] = np.concatenate([[0], np.cumsum(counts)]).astype(
            np.int64
        )
        self.n_rows = int(self.batch_rows[-1])
        if self.n_rows == 0:
            raise ArrowError(f"{self.path}: has no rows")
        self.zero_based = bool(metadata.get(b"bridle.zero_based", b"0").lstrip(b"0") == b"1")
        self.n_features = self._width(metadata)
        if self.n_features == 0:
            raise ArrowError(f"{self.path}: has no features")

    def _with_dictionary(self) -> Any:
        """A reader that has read the dictionary, the pieces of which are all over the file.

        It asks for all of them at once: where the system caches 2 MiB a page, half of a file was in
        memory then. So these are copies; what is read later are views.
        """
        pa = pyarrow_module()
        source = _MappedSource(self)
        reader = pa.ipc.open_file(pa.PythonFile(source, mode="r"))
        try:
            reader.get_batch(0)
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise self.error(0, f"damaged: {_first_line(error)}") from error
        source.copying = False
        return reader

    def _note_kinds(self, schema: Any, metadata: dict[bytes, bytes]) -> None:
        """How the columns and the values of rows are written."""
        self._as_gaps = "indices" not in schema.names
        self._known, self._factors = None, None
        self._values_name = "values" if "values" in schema.names else "codes"
        if self._values_name == "codes":
            try:
                self._factors = Factors.of(metadata)
            except ValueError as error:
                raise ArrowError(f"{self.path}: the factors of its values: {error}") from error
        numbers = schema.field("rest" if self._factors else "values")
        self.dtype = _numpy_dtype(numbers.type.value_type)
        self.column_dtype: np.dtype[Any] = np.dtype(np.int32)
        if not self._as_gaps:
            self.column_dtype = _numpy_dtype(schema.field("indices").type.value_type)

    def _locate(self, reader: Any, k: int, base: int) -> _Spans:
        """Where batch k is in the file; reads its header and nothing else of it."""
        pa = pyarrow_module()
        try:
            batch = reader.get_batch(k)
            batch.validate()  # of lengths; offsets are checked when they are used
        except (pa.ArrowException, OSError, ValueError, EOFError) as error:
            raise self.error(k, f"damaged: {_first_line(error)}") from error
        for name in batch.schema.names:
            known = name in COLUMNS or (self._factors is not None and name in IN_CODES)
            if known and batch.column(name).null_count:
                raise self.error(k, f"column {name} has missing values")
        spans = _SpanFinder(base, len(self._map))
        try:
            n = batch.num_rows
            name = "gaps" if self._as_gaps else "indices"
            index_offsets, columns = spans.of_list(batch.column(name))
            value_offsets, values = spans.of_list(batch.column(self._values_name))
            self._note(getattr(batch.column(self._values_name).values, "dictionary", None))
            coded: tuple[Span | None, ...] = None, None, None
            if self._factors is not None:
                rest = spans.of_list(batch.column("rest"))
                coded = spans.of_numbers(batch.column("scale")), *rest
            return _Spans(
                n_rows=n,
                label=spans.of_numbers(batch.column("label")),
                qid=spans.of_numbers(batch.column("qid")) if self.has_qid else None,
                weight=spans.of_numbers(batch.column("weight")) if self.has_weight else None,
                index_offsets=index_offsets, columns=columns,
                value_offsets=value_offsets, values=values,
                scale=coded[0], rest_offsets=coded[1], rest=coded[2],
            )  # fmt: skip
        except ValueError as error:
            raise self.error(k, str(error)) from error

    def _note(self, dictionary: Any) -> None:
        """What numbers of values stand for: the same in all batches, and no longer in the file."""
        if dictionary is None:
            return
        if dictionary.null_count or len(dictionary) > MOST_VALUES:
            raise ValueError("damaged: the dictionary of values")
        if self._known is None:
            # Not by pyarrow's to_numpy, which loads pandas: 50 MB of what is allowed.
            count, room = dictionary.offset + len(dictionary), dictionary.buffers()[1]
            if count and room is None:
                raise ValueError("damaged: the dictionary of values")
            found = np.frombuffer(room if count else b"", self.dtype, count)
            self._known = found[dictionary.offset :].copy()
        if len(dictionary) != len(self._known):
            raise ValueError("has a dictionary of values of its own")

    def _width(self, metadata: dict[bytes, bytes]) -> int:
        text = metadata.get(b"bridle.n_features", b"")
        if b"bridle.format" not in metadata:  # from another tool
            self.n_features = np.iinfo(self.column_dtype).max
            widest = -1
            for rows in self.ranges(BATCH_BYTES):
                batch = self.load(rows)
                used = batch.columns[batch.offsets[0] : batch.offsets[-1]]
                widest = max(widest, int(used.max(initial=-1)))
                if widest >= _MOST_FEATURES:  # weights for all of them would cost all memory
                    raise self.error(
                        rows.batch, f"has column {widest}; there may be {_MOST_FEATURES} features"
                    )
            return widest + 1
        version = metadata.get(b"bridle.format", b"?").decode("ascii", "replace")
        if version not in map(str, (FORMAT, COMPACT_FORMAT, FACTORED_FORMAT)):
            raise ArrowError(
                f"{self.path}: written in format {version} of bridle; this version reads {FORMAT} "
                f"to {FACTORED_FORMAT}"
            )
        if not (text.isdigit() and len(text) <= DIGITS and int(text) <= _MOST_FEATURES):
            raise ArrowError(f"{self.path}: the number of features is {text!r:.40}")
        return int(text)

    @property
    def n_batches(self) -> int:  # noqa: D102
        return len(self._spans)

    @property
    def nnz(self) -> int:
        """The stored entries."""
        return sum(spans.values.count for spans in self._spans)

    @property
    def shape(self) -> tuple[int, int]:  # noqa: D102
        return self.n_rows, self.n_features

    @property
    def compact(self) -> bool:
        """Whether rows are unpacked when they are read."""
        return self._as_gaps or self._known is not None or self._factors is not None

    @property
    def bytes_in_memory(self) -> int:
        """The size of all batches, unpacked."""
        return sum(map(self._unpacked_bytes, self._spans))

    def __len__(self) -> int:
        return self.n_batches

    def __iter__(self) -> Iterator[Batch]:
        return (self.batch(k) for k in range(self.n_batches))

    def batch(self, k: int) -> Batch:
        """Views of the mapped file: valid as long as these rows are open."""
        return self.view(self._whole(k))

    def view(self, rows: RowRange) -> Batch:
        """Some rows of a batch, as views of the mapped file; of a compact file, unpacked."""
        if self.compact:
            return self.load(rows)
        spans = self._spans[rows.batch]
        some, ends = slice(rows.begin, rows.end), slice(rows.begin, rows.end + 1)
        return self._assemble(
            rows, lambda span, part: span.view(self._map, 0)[part], spans, some, ends,
            slice(None), slice(None), slice(None), _Room(None),
        )  # fmt: skip

    def load(self, rows: int | RowRange, buffer: memoryview | None = None) -> Batch:
        """A batch, or some rows of it, read into the buffer, or into memory of its own.

        Nothing of it stays mapped. The buffer must have `range_bytes(rows)` bytes.
        """
        part = self._whole(rows) if isinstance(rows, int) else rows
        spans, room = self._spans[part.batch], _Room(buffer)
        piece = self._in_one_piece(part, room) if buffer is not None else None

        def read(span: Span, some: slice) -> NDArray[Any]:
            if piece is not None:
                return span.view(piece, spans.begin)[some]
            begin, end, _ = some.indices(span.count)
            found = room.array(end - begin, span.dtype)
            position = span.position + begin * span.dtype.itemsize
            self._read(part.batch, position, found.view(np.uint8).data)
            return found

        return self._assemble(
            part, read, spans, slice(part.begin, part.end), slice(part.begin, part.end + 1),
            slice(part.first_index, part.first_index + part.n_indices),
            slice(part.first_value, part.first_value + part.nnz),
            slice(part.first_rest, part.first_rest + part.n_rest), room,
        )  # fmt: skip

    def _in_one_piece(self, part: RowRange, room: _Room) -> memoryview | None:
        """A whole batch whose arrays lie side by side, as ours do: a disk is asked once for it."""
        spans = self._spans[part.batch]
        used = part.n_rows, part.n_indices, part.nnz, part.n_rest
        there = spans.n_rows, spans.columns.count, spans.values.count, _count(spans.rest)
        lost = spans.end - spans.begin - sum(span.end - span.position for span in spans.all)
        if used != there or lost > _MOST_LOST:
            return None
        piece = room.bytes(spans.end - spans.begin, spans.begin % _ALIGNMENT)
        self._read(part.batch, spans.begin, piece)
        return piece

    def expect_reads(self, *, in_order: bool) -> None:
        """Tell the system how rows will be loaded: what to read ahead on its own, if anything."""
        if hasattr(os, "posix_fadvise"):
            advice = os.POSIX_FADV_NORMAL if in_order else os.POSIX_FADV_RANDOM
            os.posix_fadvise(self._descriptor, 0, 0, advice)

    def ranges(self, most_bytes: int) -> list[RowRange]:
        """All rows in order, in ranges of about so many bytes at most; reads their ends only."""
        return [
            part
            for k, spans in enumerate(self._spans)
            for part in self._cut(k, -(-self._unpacked_bytes(spans) // most_bytes))
        ]

    def _unpacked_bytes(self, spans: _Spans) -> int:
        """The size of a batch in memory."""
        if not self.compact:
            return spans.end - spans.begin
        return sum(span.end - span.position for span in spans.by_row) + (
            spans.values.count * (self.column_dtype.itemsize + self.dtype.itemsize)
        )

    def range_bytes(self, rows: RowRange) -> int:
        """The size of a buffer to load these rows into."""
        spans = self._spans[rows.batch]
        per_row = sum(span.dtype.itemsize for span in spans.by_row)
        needed = rows.n_rows * per_row + rows.nnz * spans.values.dtype.itemsize
        needed += rows.n_indices * spans.columns.dtype.itemsize
        if self._as_gaps:
            needed += rows.nnz * self.column_dtype.itemsize
        if self._known is not None or self._factors is not None:
            needed += (rows.nnz + rows.n_rest) * self.dtype.itemsize
        return needed + (8 + 6 * self.compact) * _ALIGNMENT

    def row(self, i: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
        """The columns, the values and the label of one row, read from the file."""
        k = int(np.searchsorted(self.batch_rows, i, side="right")) - 1
        batch = self.load(self._between(k, np.array([0, 1]) + (i - int(self.batch_rows[k])))[0])
        some = slice(int(batch.offsets[0]), int(batch.offsets[1]))
        return batch.columns[some], batch.values[some], batch.labels[0]

    def columns_of(self, k: int) -> Span:
        """Where in the file the columns of batch k are."""
        return self._spans[k].columns

    def column(self, k: int, name: str) -> NDArray[Any]:
        """The column label, qid or weight of batch k, read into memory of its own."""
        span: Span = getattr(self._spans[k], name)
        memory = np.empty(span.count, span.dtype)
        self._read(k, span.position, memory.view(np.uint8).data)
        return memory

    def _whole(self, k: int) -> RowRange:
        return self._cut(k, 1)[0] if self._spans[k].n_rows else RowRange(k, 0, 0, 0, 0, 0, 0)

    def _cut(self, k: int, n_ranges: int) -> list[RowRange]:
        """The rows of batch k in so many ranges; none if it has no rows."""
        n_rows = self._spans[k].n_rows
        cuts = np.unique(np.linspace(0, n_rows, max(1, n_ranges) + 1).astype(np.int64))
        return self._between(k, cuts)

    def _between(self, k: int, cuts: NDArray[np.int64]) -> list[RowRange]:
        """The ranges of rows of batch k between these numbers."""
        spans = self._spans[k]
        indices = self._entries(k, spans.index_offsets, cuts, spans.columns.count, "indices")
        values = self._entries(k, spans.value_offsets, cuts, spans.values.count, "values")
        rest = [0] * len(cuts)
        if spans.rest_offsets is not None:
            rest = self._entries(k, spans.rest_offsets, cuts, _count(spans.rest), "rest")
        if not self._as_gaps and indices[-1] - indices[0] != values[-1] - values[0]:
            self._offsets_of(k)  # says in which row
        return [
            RowRange(
                k,
                begin,
                end,
                indices[i],
                values[i],
                indices[i + 1] - indices[i],
                values[i + 1] - values[i],
                rest[i],
                rest[i + 1] - rest[i],
            )
            for i, (begin, end) in enumerate(pairwise(cuts.tolist()))
        ]

    def _entries(
        self, k: int, offsets: Span, cuts: NDArray[np.int64], size: int, name: str
    ) -> list[int]:
        """The offsets at these rows."""
        if offsets.count == 0:
            return [0] * len(cuts)
        found, memory = [], np.empty(1, offsets.dtype)
        for cut in cuts.tolist():
            self._read(
                k, offsets.position + cut * offsets.dtype.itemsize, memory.view(np.uint8).data
            )
            found.append(int(memory[0]))
        if found[0] < 0 or found[-1] > size or found != sorted(found):
            raise self._bad_offsets(k, name, size)
        return found

    def _offsets_of(self, k: int) -> None:
        """Check the offsets of a batch, both lists' against each other."""
        spans = self._spans[k]
        arrays = [span.view(self._map, 0) for span in (spans.index_offsets, spans.value_offsets)]
        self._same_lengths(k, 0, *(array.astype(np.int64) for array in arrays))

    def _read(self, k: int, begin: int, memory: Any) -> None:
        size, done = len(memory), 0
        while done < size:
            n = os.preadv(self._descriptor, [memory[done:]], begin + done)
            if n == 0:
                raise self.error(k, "the file has become shorter while it was read")
            done += n

    def _assemble(
        self, rows: RowRange, read: Any, spans: _Spans, some: slice, ends: slice,
        indices: slice, entries: slice, alone: slice, room: _Room,
    ) -> Batch:  # fmt: skip
        """A batch of the arrays that `read` gives, its offsets checked."""
        k = rows.batch
        columns, values = read(spans.columns, indices), read(spans.values, entries)
        skipped = indices.start or 0, entries.start or 0
        offsets = self._offsets(
            k, read(spans.index_offsets, ends), skipped[0], len(columns), "indices"
        )
        other = self._offsets(k, read(spans.value_offsets, ends), skipped[1], len(values), "values")
        if self._as_gaps:
            columns = self._columns(rows, offsets, columns, other, room)
            offsets = other
        elif offsets[0] != other[0]:
            columns, values = columns[offsets[0] :], values[other[0] :]
            offsets, other = offsets - offsets[0], other - other[0]
        self._same_lengths(k, rows.begin, offsets, other)
        if self._known is not None:
            values = self._values(k, values, self._known, room)
        if self._factors is not None:
            held = read(spans.scale, some), read(spans.rest_offsets, ends), read(spans.rest, alone)
            values = self._products(rows, offsets, values, columns, held, room)
        return Batch(
            number=k, first_row=int(self.batch_rows[k]) + rows.begin, offsets=offsets,
            columns=columns, values=values, labels=read(spans.label, some),
            qid=None if spans.qid is None else read(spans.qid, some),
            weight=None if spans.weight is None else read(spans.weight, some),
            n_features=self.n_features,
        )  # fmt: skip

    def _columns(
        self, rows: RowRange, gap_offsets: NDArray[np.int64], gaps: NDArray[Any],
        offsets: NDArray[np.int64], room: _Room,
    ) -> NDArray[Any]:  # fmt: skip
        """Unpacked."""
        columns = room.array(rows.nnz, self.column_dtype)
        try:
            _core.compact.columns_of_gaps(gap_offsets, gaps, offsets, self.n_features, columns)
        except ValueError as error:
            raise self.error(rows.batch, str(error)) from error
        return columns

    def _values(
        self, k: int, codes: NDArray[Any], known: NDArray[Any], room: _Room
    ) -> NDArray[Any]:
        """What these numbers stand for."""
        values = room.array(len(codes), self.dtype)
        try:
            _core.compact.values_of_codes(codes, known, values)
        except ValueError as error:
            raise self.error(k, str(error)) from error
        return values

    def _products(
        self, rows: RowRange, offsets: NDArray[np.int64], codes: NDArray[Any],
        columns: NDArray[Any], held: tuple[NDArray[Any], ...], room: _Room,
    ) -> NDArray[Any]:  # fmt: skip
        """What these codes stand for. held: the scale, and the offsets and values of the rest."""
        assert self._factors is not None
        k, (scale, ends, rest) = rows.batch, held
        values = room.array(len(codes), self.dtype)
        rest_offsets = self._offsets(k, ends, rows.first_rest, len(rest), "rest")
        try:
            _core.compact.values_of_factors(
                offsets, codes, columns, scale, rest_offsets, rest, self._factors.columns,
                self._factors.few, values,
            )  # fmt: skip
        except ValueError as error:
            raise self.error(k, str(error)) from error
        return values

    def _same_lengths(
        self, k: int, first: int, offsets: NDArray[np.int64], other: NDArray[np.int64]
    ) -> None:
        lengths, others = np.diff(offsets), np.diff(other)
        if not np.array_equal(lengths, others):
            row = int(np.argmax(lengths != others))
            raise self.error(
                k, f"row {first + row} has {lengths[row]} indices and {others[row]} values"
            )

    def _offsets(
        self, k: int, offsets: NDArray[Any], skipped: int, size: int, name: str
    ) -> NDArray[np.int64]:
        """As 64-bit numbers that count from the first entry that was not skipped."""
        if len(offsets) == 0:  # a batch without rows may leave its only offset out
            return np.zeros(1, np.int64)
        wide = offsets.astype(np.int64, copy=False)
        if skipped:
            wide = wide - skipped
        if wide[0] < 0 or wide[-1] > size or bool((wide[1:] < wide[:-1]).any()):
            raise self._bad_offsets(k, name, size)
        return wide

    def _bad_offsets(self, k: int, name: str, size: int) -> ArrowError:
        return self.error(k, f"the offsets of {name} do not increase within its {size} entries")

    def error(self, k: int, what: str) -> ArrowError:
        """An error about batch k."""
        return ArrowError(f"{self.path}: batch {k}: {what}")

    def release(self) -> None:
        """Pages of the mapped file that were looked at need not stay in memory."""
        import mmap

        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file. Views that are still in use stay valid."""
        self._close()
        self._map = b""

    def __enter__(self) -> ArrowRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return ArrowRows, (self.path,)

    def __repr__(self) -> str:
        return (
            f"ArrowRows({self.path!r}: {self.n_rows:,} rows, {self.n_features:,} features, "
            f"{self.nnz:,} non-zeros, {self.n_batches} batches)"
        )


class _MappedSource:
    """The mapped file, as pyarrow reads it. copying: whether it gets copies, or views."""

    closed = False

    def __init__(self, rows: ArrowRows) -> None:
        self._rows, self._memory = rows, pyarrow_module().py_buffer(rows._map)
        self.copying, self._position = True, 0

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._memory.size}
        self._position = begin[whence] + offset
        return self._position

    def read_buffer(self, size: int) -> Any:
        found = self._memory[self._position : self._position + size]
        self._position += found.size
        if self.copying:
            found = found.to_pybytes()
            self._rows.release()
        return found

    def read(self, size: int) -> bytes:
        return bytes(self.read_buffer(size))

    def close(self) -> None:
        """The rows close the file."""


def open_arrow(path: StrPath) -> ArrowRows:
    """The rows of an Arrow file, mapped. Needs the extra `arrow`.

    Examples
    --------
    >>> bridle.data.write_arrow("rows.arrow", *bridle.data.make_corpus(500, seed=0))
    >>> bridle.data.open_arrow("rows.arrow").shape
    (500, 47236)
    """
    return ArrowRows(path)


def read(path: StrPath, wanted: Wanted) -> Data:
    """For `bridle.data.reading`: all rows, in memory."""
    from bridle.data.reading import Data

    rows = open_arrow(path)
    X, y, qid, weight = _joined(rows)
    return Data(X, y, rows.zero_based, weight=weight, qid=qid if wanted.queries else None)


def read_arrow(path: StrPath, *, qid: bool = False) -> Any:
    """X, y and, if asked for, the query ids, in memory: of a single batch, views of the file.

    Examples
    --------
    >>> bridle.data.write_arrow("rows.arrow", *bridle.data.make_corpus(500, seed=0))
    >>> X, y = bridle.data.read_arrow("rows.arrow")
    >>> X.shape
    (500, 47236)
    """
    rows = open_arrow(path)
    if qid and not rows.has_qid:
        raise ArrowError(f"{rows.path}: has no column qid")
    X, y, queries, _ = _joined(rows)
    return (X, y, queries) if qid else (X, y)


def sound(rows: ArrowRows, batch: Batch) -> Batch:
    """The batch, once its offsets, columns and values are known to be what a matrix may have."""
    try:
        check_csr(batch.offsets, batch.columns, batch.values, batch.n_features)
    except ValueError as error:
        raise rows.error(batch.number, str(error)) from error
    return batch


def _joined(rows: ArrowRows) -> Any:
    """X, y, the query ids and the weights, where there are such."""
    from scipy.sparse import csr_matrix

    numbers = range(rows.n_batches)
    queries = weight = None
    if rows.has_qid:
        queries = np.concatenate([rows.column(k, "qid").astype(np.int64) for k in numbers])
    if rows.has_weight:
        weight = np.concatenate([rows.column(k, "weight").astype(np.float64) for k in numbers])
    if rows.n_batches == 1:
        batch = sound(rows, rows.batch(0))
        return batch.X, batch.y, queries, weight
    columns = np.empty(rows.nnz, rows.column_dtype)
    values = np.empty(rows.nnz, rows.dtype)
    offsets = np.zeros(rows.n_rows + 1, np.int64)
    y = np.empty(rows.n_rows)
    used = 0
    for k in numbers:
        batch = sound(rows, rows.load(k))
        stored = slice(int(batch.offsets[0]), int(batch.offsets[-1]))
        columns[used : used + batch.nnz] = batch.columns[stored]
        values[used : used + batch.nnz] = batch.values[stored]
        where = batch.rows
        offsets[where.start + 1 : where.stop + 1] = batch.offsets[1:] - batch.offsets[0] + used
        y[where] = batch.labels
        used += batch.nnz
    X: Any = csr_matrix((rows.n_rows, rows.n_features), dtype=values.dtype)
    X.data, X.indices, X.indptr = values[:used], columns[:used], offsets
    return X, y, queries, weight


def _count(span: Span | None) -> int:
    return 0 if span is None else span.count


COLUMNS = ("label", "qid", "weight", "indices", "gaps", "values")
IN_CODES = ("scale", "codes", "rest")  # instead of values


def _check_schema(schema: Any, path: str) -> None:
    pa = pyarrow_module()
    names = schema.names
    in_codes = "codes" in names and "values" not in names
    wanted = (
        "label",
        "gaps" if "gaps" in names and "indices" not in names else "indices",
        *(IN_CODES if in_codes else ("values",)),
    )
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ArrowError(
            f"{path}: no column {', '.join(missing)}; rows have label, indices and values, and "
            f"may have qid and weight; this file has {', '.join(map(repr, names[:8])) or 'none'}"
        )
    if len(set(names)) != len(names):
        raise ArrowError(f"{path}: two columns have the same name")
    numbers = {
        "label": (*_FLOATS, *_INTEGERS), "qid": _INTEGERS, "weight": (*_FLOATS, *_INTEGERS),
        "scale": ("float64",),
    }  # fmt: skip
    inside = {
        "indices": ("int32", "int64"), "gaps": ("uint16",), "values": _FLOATS,
        "codes": ("uint16",), "rest": ("float32",),
    }  # fmt: skip
    for name in (*COLUMNS, *(IN_CODES if in_codes else ())):
        if name not in names:
            continue
        kind = schema.field(name).type
        allowed = numbers.get(name) or inside[name]
        found: Any = kind
        shown = " or ".join(allowed)
        if name in inside:
            shown = f"a list of {shown}"
            found = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 0
            if (
                name == "values"
                and found
                and pa.types.is_dictionary(found)
                and found.index_type == "uint16"
            ):
                found = found.value_type
        if found not in [pa.type_for_alias(word) for word in allowed]:
            raise ArrowError(f"{path}: column {name} must be {shown}, but is {kind}")


class _SpanFinder:
    """Turns arrays that are views of the mapped file into places in it."""

    def __init__(self, base: int, size: int) -> None:
        self.base, self.size = base, size

    def of_numbers(self, array: Any) -> Span:
        return self._span(array.buffers()[1], _numpy_dtype(array.type), array.offset, len(array))

    def of_list(self, array: Any) -> tuple[Span, Span]:
        pa = pyarrow_module()
        wide = pa.types.is_large_list(array.type)
        dtype = np.dtype(np.int64 if wide else np.int32)
        count = len(array) + 1 if len(array) else 0
        offsets = self._span(array.buffers()[1], dtype, array.offset, count)
        inside = array.values
        if inside.null_count:
            raise ValueError("a list has missing values inside")
        return offsets, self.of_numbers(getattr(inside, "indices", inside))

    def _span(self, buffer: Any, dtype: np.dtype[Any], offset: int, count: int) -> Span:
        if count == 0:
            return Span(0, dtype, 0)
        if buffer is None:
            raise ValueError("damaged: an array has no memory")
        position = buffer.address - self.base
        if not 0 <= position < self.size:
            raise ValueError("is compressed; write the file without compression, to map it")
        span = Span(position + offset * dtype.itemsize, dtype, count)
        if offset < 0 or count < 0 or span.end > position + buffer.size or span.end > self.size:
            raise ValueError("damaged: an array is shorter than its length")
        if span.position % dtype.itemsize:
            raise ValueError("damaged: an array is not aligned")
        return span


def _numpy_dtype(kind: Any) -> np.dtype[Any]:
    kind = getattr(kind, "value_type", kind)  # of a dictionary
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype


def _mapped(descriptor: int, path: str) -> Any:
    import mmap

    if os.fstat(descriptor).st_size == 0:  # cannot be mapped
        raise ArrowError(f"{path}: is empty")
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def pyarrow_module() -> Any:
    """pyarrow, which is optional."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise ImportError(
            "Arrow files need pyarrow: pip install 'bridle[arrow]'", name="pyarrow"
        ) from error
    return pyarrow
