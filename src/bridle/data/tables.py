"""Tables: .csv, .tsv and .parquet, a row for each example and a column for its label.

A column of numbers is one feature. A column of text is hashed: "name=value" is a feature of value 1
among 2^bits that follow those of numbers, found by MurmurHash3, the same everywhere. A model keeps
the `Columns` it was trained with, and other tables are read by their names, in whatever order.

CSV: UTF-8, separated by commas (.tsv: by tabs), quoted as usual. The first line names the columns;
if it holds nothing but numbers there is no such line, and columns are called 1, 2, ... If it holds
numbers and words, a word must stand above a number: else it may be a row, and that is an error. A
column is text if any of its cells is neither a number nor empty. Empty cells among numbers are an
error: what they stand for, only the user knows. Parquet: numbers and booleans, strings; no nulls.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import numpy as np
from bridle.data import fast_csv
from bridle.data.reading import Data, StrPath, Wanted, as_single, data_ending, numbered
from bridle.files.packed import as_text, bytes_of
from numpy.typing import NDArray

ROWS_AT_A_TIME = 20_000
FAST_ROWS_AT_A_TIME = 1 << 18
MOST_HASH_BITS = 30


@dataclass(frozen=True)
class Columns:
    """What the columns of a table mean."""

    label: str
    numbers: tuple[str, ...]
    text: tuple[str, ...]
    hash_bits: int | None
    query: str | None = None  # of rankings

    @property
    def n_features(self) -> int:
        """One for each column of numbers, then the hashed ones."""
        return len(self.numbers) + (1 << self.hash_bits if self.hash_bits is not None else 0)

    def feature_of(self, column: str, value: str) -> int:
        """The number of the feature that a text stands for."""
        import mmh3

        assert self.hash_bits is not None
        word = mmh3.hash(f"{column}={value}", signed=False)
        return len(self.numbers) + word % (1 << self.hash_bits)

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON, for a model file."""
        return {
            "label": self.label, "numbers": list(self.numbers), "text": list(self.text),
            "hash_bits": self.hash_bits, **({} if self.query is None else {"query": self.query}),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """What `as_dict` wrote."""
        bits = fields["hash_bits"]
        numbers, text = (tuple(str(name) for name in fields[key]) for key in ("numbers", "text"))
        query = fields.get("query")
        return cls(
            str(fields["label"]), numbers, text, None if bits is None else _bits(int(bits)),
            None if query is None else str(query),
        )  # fmt: skip


class _TextError(Exception):
    """A column that was taken for numbers holds text."""

    def __init__(self, column: str, value: str, row: int) -> None:
        self.column, self.value, self.row = column, value, row


def read_csv(path: StrPath, wanted: Wanted) -> Data:
    """Rows and labels of a CSV or TSV file."""
    name = os.fsdecode(path)
    text: list[str] = []  # the columns that turned out to be text
    lines = _CsvRows(path, threads=wanted.n_threads != 1)
    while True:
        columns = _columns(lines.names, wanted, tuple(text), name)
        try:
            data = _assemble(columns, lines.names, lines.blocks(columns), name, lines.where)
            if wanted.columns is None and wanted.label_column not in lines.names:
                lines.expect_name_of_labels(columns.label, data.y)
            return data
        except _TextError as found:
            at = f"{name}:{lines.where(found.row)}: column {found.column!r}"
            if wanted.columns is not None:
                raise ValueError(f"{at}: expected a number, found {found.value!r:.40}") from None
            if wanted.hash_bits is None:
                raise ValueError(
                    f"{at}: {found.value!r:.40} is no number; --hash-bits N makes features of text"
                ) from None
            text.append(found.column)


class _CsvRows:
    """The cells of a CSV file, and the lines they are on."""

    def __init__(self, path: StrPath, *, threads: bool) -> None:
        self._threads = threads
        self._name, self._raw = os.fsdecode(path), bytes_of(path)
        self._delimiter = "\t" if data_ending(path) == ".tsv" else ","
        self._fast: dict[str, Any] | None = None
        rows = self._open()
        line, first = next(rows, (0, None))
        if first is None:
            raise ValueError(f"{self._name}: has no rows")
        named = not all(map(_is_number, first))
        self.names = first if named else [str(k + 1) for k in range(len(first))]
        second = next(rows, (0, []))[1] if named else first
        if named and any(map(_is_number, first)):
            self._expect_names(first, second)
        self._named, self._header, self._sample = named, line if named else 0, second
        if len(set(self.names)) != len(self.names):
            double = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"{self._name}:1: two columns are called {double!r:.40}")

    def _expect_names(self, first: list[str], second: list[str]) -> None:
        """Words above numbers show that the first line names the columns: it has numbers, too."""
        above = zip(first, second, strict=False)
        if not any(a.strip() and not _is_number(a) and _is_number(b) for a, b in above):
            number = next(filter(_is_number, first))
            raise ValueError(
                f"{self._name}:1: are these the names of the columns, or a row? {number!r:.40} is "
                "a number; put a line of names above the rows, none of them a number"
            )

    def expect_name_of_labels(self, name: str, labels: Any) -> None:
        """Words above words may be a row: it is one if its label is that of other rows, too."""
        text = labels is not None and labels.dtype.kind == "U"
        if self._named and text and (labels == name).any():
            raise ValueError(
                f"{self._name}:1: are these the names of the columns, or a row? {name!r:.40} is a "
                "label below; put a line of names above the rows, or name the column of labels"
            )

    def where(self, row: int) -> int:
        """The line of a row: looked for when it is needed, in the file."""
        return next(islice(self._open(), row + self._named, None))[0]

    def blocks(self, columns: Columns) -> Iterator[dict[str, Any]]:
        """Columns of many rows at a time: lists of cells, or what `fast_csv` makes of them."""
        cells = self._columns(columns)
        if cells is None:
            yield from self._blocks_in_python()
            return
        n_rows = len(next(iter(cells.values())))
        for first in range(0, n_rows, FAST_ROWS_AT_A_TIME):
            part = slice(first, first + FAST_ROWS_AT_A_TIME)
            yield {name: values[part] for name, values in cells.items()}

    def _columns(self, columns: Columns) -> dict[str, Any] | None:
        """By pyarrow, once; None where it cannot be."""
        if self._fast is None:
            words = {*columns.text, columns.query}
            numbers = {
                name for name, cell in zip(self.names, self._sample, strict=False)
                if name not in words and _is_number(cell)
            }  # fmt: skip
            self._fast = fast_csv.read_columns(
                self._raw,
                self.names,
                numbers,
                self._header,
                self._delimiter,
                threads=self._threads,
            )
        return self._fast

    def _blocks_in_python(self) -> Iterator[dict[str, list[str]]]:
        rows = islice(self._open(), int(self._named), None)
        while block := list(islice(rows, ROWS_AT_A_TIME)):
            for line, cells in block:
                if len(cells) != len(self.names):
                    raise ValueError(
                        f"{self._name}:{line}: expected {len(self.names)} columns, "
                        f"found {len(cells)}"
                    )
            columns = zip(*(cells for _, cells in block), strict=True)
            yield dict(zip(self.names, map(list, columns), strict=True))

    def _open(self) -> Iterator[tuple[int, list[str]]]:
        """Lines and cells of all rows that are not blank, the names among them."""
        reader = csv.reader(as_text(self._raw), delimiter=self._delimiter, strict=True)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except (csv.Error, UnicodeDecodeError) as error:
            line = reader.line_num + isinstance(error, UnicodeDecodeError)
            raise ValueError(f"{self._name}:{line}: no CSV in UTF-8: {error}") from error


def read_parquet(path: StrPath, wanted: Wanted) -> Data:
    """Rows and labels of a Parquet file."""
    name = os.fsdecode(path)
    pa, table = _parquet_table(path, name)
    names = list(table.column_names)
    if len(set(names)) != len(names):
        raise ValueError(f"{name}: two columns have the same name")
    texts = tuple(n for n in names if _is_arrow_text(pa.types, table.schema.field(n).type))
    columns = _columns(names, wanted, texts, name)
    if columns.text and columns.hash_bits is None:
        raise ValueError(
            f"{name}: column {columns.text[0]!r} is text; --hash-bits N makes features of it"
        )
    query = () if columns.query is None else (columns.query,)
    used = {columns.label, *columns.numbers, *columns.text, *query} & set(names)
    block = {n: _parquet_column(pa, table.column(n), n, columns, n in texts, name) for n in used}
    if not table.num_rows:
        raise ValueError(f"{name}: has no rows")
    try:
        return _assemble(columns, names, iter([block]), name, lambda row: row + 1)
    except _TextError as found:
        raise ValueError(
            f"{name}: row {found.row + 1}: column {found.column!r}: expected a number, "
            f"found {found.value!r:.40}"
        ) from None


def _parquet_table(path: StrPath, name: str) -> tuple[Any, Any]:
    """Pyarrow and the table."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(f"{name}: needs pyarrow: pip install 'bridle[parquet]'") from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        first = (str(error).splitlines() or ["?"])[0]
        raise ValueError(f"{name}: not a Parquet file that can be read: {first:.200}") from error
    return pa, table


def _parquet_column(
    pa: Any, values: Any, column: str, columns: Columns, is_text: bool, name: str
) -> Any:
    """Numbers as float64, or a list of strings."""
    if values.null_count:
        row = values.is_null().to_numpy().argmax() + 1
        raise ValueError(f"{name}: row {row}: column {column!r} is null")
    kind = values.type
    if is_text:
        return values.cast(pa.string()).to_pylist()
    if column in columns.text:
        raise ValueError(f"{name}: column {column!r} is {kind}, but text to the model")
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return values.to_numpy().astype(np.float64)
    raise ValueError(f"{name}: column {column!r} is neither numbers nor text, but {kind}")


def _columns(names: list[str], wanted: Wanted, text: tuple[str, ...], where: str) -> Columns:
    """As in training, or as the user says."""
    if wanted.columns is not None:
        known = wanted.columns
        given = wanted.label_column
        label = known.label if given is None else _named(names, given, where)
        missing = [name for name in (*known.numbers, *known.text) if name not in names]
        if missing:
            raise ValueError(f"{where}: has no column {missing[0]!r:.40}, which the model uses")
        query = _query(names, wanted, where) if wanted.queries else None
        return Columns(label, known.numbers, known.text, known.hash_bits, query)
    label = _label(names, wanted, where)
    query = _query(names, wanted, where) if wanted.queries else None
    bits = None if wanted.hash_bits is None else _bits(wanted.hash_bits)
    features = [name for name in names if name not in (label, query)]
    numbers = tuple(name for name in features if name not in text)
    return Columns(label, numbers, tuple(name for name in features if name in text), bits, query)


def _query(names: list[str], wanted: Wanted, where: str) -> str:
    kept = None if wanted.columns is None else wanted.columns.query
    given = wanted.qid_column or kept or "qid"
    if wanted.qid_column is None and given not in names:
        raise ValueError(f"{where}: which column has the query ids? Say --qid-column NAME")
    return _named(names, given, where)


def _label(names: list[str], wanted: Wanted, where: str) -> str:
    if wanted.label_column is not None:
        return _named(names, wanted.label_column, where)
    if "label" in names or not wanted.labels:
        return "label"
    raise ValueError(
        f"{where}: which column is the label? Say --label-column NAME (or a number, -1 for the "
        f"last); there are: {_listed(names)}"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def _named(names: list[str], given: str, where: str) -> str:
    """The column with this name, or this number."""
    if given in names:
        return given
    try:
        number = int(given)
        return names[number - 1 if number > 0 else number] if number else names[len(names)]
    except (ValueError, IndexError):
        raise ValueError(
            f"{where}: has no column {given!r:.40}; there are: {_listed(names)}"
        ) from None


def _assemble(
    columns: Columns, names: list[str], blocks: Iterator[dict[str, Any]], where: str, line: Any
) -> Data:
    """The matrix: numbers first, hashed text after them."""
    import scipy.sparse as sp

    labelled = columns.label in names
    parts, labels, queries = [], [], []
    known: dict[tuple[str, str], int] = {}
    before = 0
    for block in blocks:
        n = len(next(iter(block.values())))
        numbers = np.empty((n, len(columns.numbers)), np.float32)
        for k, name in enumerate(columns.numbers):
            numbers[:, k] = _numbers(name, block[name], before, where, line)
        found = [_csr(numbers)]
        if columns.hash_bits is not None:
            found.append(_hashed(columns, block, n, known))
        parts.append(sp.hstack(found, format="csr") if len(found) > 1 else found[0])
        if labelled:
            labels.append(block[columns.label])
        if columns.query is not None:
            queries.append(np.array(_strings(block[columns.query])))
        before += n
    if not parts:
        raise ValueError(f"{where}: has no rows")
    X = parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")
    X.sum_duplicates()
    y = _labels(labels, where) if labelled else None
    qid = None if columns.query is None else numbered(np.concatenate(queries))
    return Data(sp.csr_matrix(X), y, False, columns, qid=qid)


def _csr(dense: NDArray[np.float32]) -> Any:
    """The rows without their zeros; of rows without zeros, faster than SciPy finds them."""
    from scipy.sparse import csr_matrix

    if not dense.all() or dense.shape[0] * dense.shape[1] >= 2**31:
        return csr_matrix(dense)
    indices = np.tile(np.arange(dense.shape[1], dtype=np.int32), dense.shape[0])
    offsets = np.arange(dense.shape[0] + 1, dtype=np.int32) * np.int32(dense.shape[1])
    return csr_matrix((dense.ravel(), indices, offsets), shape=dense.shape)


def _strings(cells: Any) -> Any:
    """As a list, if they are pyarrow's."""
    return cells.to_pylist() if hasattr(cells, "to_pylist") else cells


def _numbers(name: str, cells: Any, before: int, where: str, line: Any) -> NDArray[np.float32]:
    values = cells if isinstance(cells, np.ndarray) else None
    if hasattr(cells, "to_pylist"):
        values = fast_csv.as_numbers(cells)
    if values is None:
        cells = _strings(cells)
        values = _parsed(cells)
    if values is None:
        bad = next(k for k, cell in enumerate(cells) if not _is_number(cell))
        words = [k for k, cell in enumerate(cells) if cell.strip() and not _is_number(cell)]
        if words:
            raise _TextError(name, cells[words[0]], before + words[0])
        raise ValueError(f"{where}:{line(before + bad)}: column {name!r} has an empty cell")
    try:
        return as_single(values, where)
    except ValueError:
        with np.errstate(over="ignore"):
            bad = int(np.argmin(np.isfinite(values.astype(np.float32))))
        raise ValueError(
            f"{where}:{line(before + bad)}: column {name!r}: {cells[bad]} is not finite in single "
            "precision"
        ) from None


def _hashed(
    columns: Columns, block: dict[str, Any], n_rows: int, known: dict[tuple[str, str], int]
) -> Any:
    from scipy.sparse import csr_matrix

    assert columns.hash_bits is not None
    first, width = len(columns.numbers), 1 << columns.hash_bits
    indices = np.empty((n_rows, len(columns.text)), np.int32)
    for k, name in enumerate(columns.text):
        values, codes = block[name], None
        if hasattr(values, "to_pylist"):
            values, codes = fast_csv.distinct(values)
        features = np.empty(len(values), np.int32)
        for i, value in enumerate(values):
            key = (name, value)
            if key not in known:
                known[key] = columns.feature_of(name, value) - first
            features[i] = known[key]
        indices[:, k] = features if codes is None else features[codes]
    ones = np.ones(indices.size, np.float32)
    offsets = np.arange(n_rows + 1) * indices.shape[1]
    return csr_matrix((ones, indices.ravel(), offsets), shape=(n_rows, width))


def _labels(blocks: list[Any], where: str) -> NDArray[Any]:
    if blocks and all(isinstance(block, np.ndarray) for block in blocks):
        numbers = np.concatenate(blocks)
        if np.isfinite(numbers).all():
            return np.asarray(numbers, np.float64)
    values = [value for block in blocks for value in _strings(block)]
    text = bool(values) and isinstance(values[0], str)
    parsed = _parsed(values) if text else np.asarray(values, np.float64)
    if parsed is not None:
        if np.isfinite(parsed).all():
            return parsed
        raise ValueError(f"{where}: has labels that are not finite")
    if any(not str(value).strip() for value in values):
        raise ValueError(f"{where}: has rows without a label")
    return np.array([str(value) for value in values])


def _parsed(cells: list[str]) -> NDArray[np.float64] | None:
    """None if any of the cells is no number; Python's 1_000 is none."""
    try:
        values = np.array(list(map(float, cells)))
    except ValueError:
        return None
    return None if "_" in "".join(cells) else values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _is_arrow_text(types: Any, kind: Any) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _bits(bits: int) -> int:
    if not 1 <= bits <= MOST_HASH_BITS:
        raise ValueError(f"hash bits must lie between 1 and {MOST_HASH_BITS}, got {bits}")
    return bits
