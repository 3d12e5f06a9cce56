"""From svmlight text to an Arrow file, in bounded memory.

The text, plain or compressed, goes through in blocks of whole lines: one thread unpacks the next
block while all threads parse this one, and a third writes the last. The file is the same for any
number of threads, and takes its name when it is complete.

Whether a text counts its features from 0 or from 1 is known at its end: it counts from 1 unless an
index 0 occurs. Until one does, columns are written as if none would; if one comes after all, the
columns that were written before are raised by one, in place. (Gaps cannot be, nor columns that have
factors: the conversion of a compact file begins again, as it does if its rows turn out not to be
what its packing is for.)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from bridle._core.text import SvmlightError
from bridle._core.text import read_svmlight as _parse
from bridle.data.arrow import AS_THEY_ARE, BATCH_BYTES, ArrowRows, StrPath, sound
from bridle.data.arrow_writing import RowWriter, row_blocks
from bridle.data.compact import Compact, NotCompactError, Packing
from bridle.data.svmlight import ZeroBased, _options
from bridle.files.atomic import replacing
from bridle.files.packed import PackedError, damage_told, name_of, unpacking
from bridle.matrix.threads import Threads

BLOCK_BYTES = 8 << 20  # of text at a time
_NO_ROWS = "expected rows, found no rows"


@dataclass(frozen=True)
class Converted:
    """What was written."""

    n_rows: int
    n_features: int
    nnz: int
    zero_based: bool
    has_qid: bool


def svmlight_to_arrow(
    path: StrPath,
    target: StrPath,
    *,
    n_threads: int | None = None,
    n_features: int | None = None,
    zero_based: ZeroBased = "auto",
    block_bytes: int = BLOCK_BYTES,
    progress: Callable[[int], None] | None = None,
    compact: Compact | None = None,
) -> Converted:
    """Convert a file in svmlight format, plain or compressed by gzip, xz, bzip2 or Zstandard.

    Query ids are kept if the first row has one; then every row needs one. progress: called with the
    number of bytes of the file that have been read so far. n_features and zero_based: for the files
    of one data set, which may not show by themselves how wide they are and from what they count.
    compact: see `write_arrow`.
    """
    name, counted = name_of(path), zero_based

    def convert(packing: Packing) -> Converted:
        with open(path, "rb") as file, replacing(target) as out:
            options = _options(n_threads, np.float32, counted, None, False)
            conversion = _Conversion(out, name, options, packing)
            conversion.run(_blocks(file, name, block_bytes, progress))
            found = conversion.finish(n_features)
            if conversion.batches_to_raise:
                out.flush()
                _raise_columns(out.name, conversion.batches_to_raise)
        return found

    def from_either(packing: Packing) -> Converted:
        nonlocal counted
        try:
            return convert(packing)
        except _ZeroBasedError:
            counted = True  # and what was fitted to columns was to others
            raise NotCompactError(Packing.of(compact)) from None

    return Packing.of(compact).found(from_either)


def arrow_to_arrow(path: StrPath, target: StrPath, *, compact: Compact | None = None) -> Converted:
    """The same rows in batches of our own, from a file of ours or of another tool."""
    rows = ArrowRows(path)

    def convert(packing: Packing) -> None:
        with replacing(target) as out:
            writer = RowWriter(
                out, dtype=rows.dtype, qid=rows.has_qid, weight=rows.has_weight, packing=packing
            )
            for part in rows.ranges(BATCH_BYTES):
                batch = sound(rows, rows.load(part))
                writer.write(
                    batch.offsets, batch.columns.astype(np.int32, copy=False), batch.values,
                    batch.y, qid=batch.qid, weight=batch.weight,
                )  # fmt: skip
            writer.finish(rows.n_features, rows.zero_based)

    Packing.of(compact).found(convert)
    return Converted(rows.n_rows, rows.n_features, rows.nnz, rows.zero_based, rows.has_qid)


class _ZeroBasedError(Exception):
    """It was seen too late for gaps or factors that the text counts from 0."""


class _Conversion:
    def __init__(
        self, out: IO[bytes], name: str, options: dict[str, Any], packing: Packing = AS_THEY_ARE
    ) -> None:
        self.out, self.name, self.options, self.packing = out, name, options, packing
        self.writer: RowWriter | None = None
        self.lines = self.batches = self.nnz = self.width = 0
        self.zero_based = False
        self.batches_to_raise = 0  # written before it was known that the text counts from 0

    def run(self, blocks: Iterator[bytes]) -> None:
        """Parse a block while the next is unpacked and the last is written."""
        with Threads(1, "bridle-unpack") as reading, Threads(1, "bridle-write") as writing:
            coming = reading.submit(next, blocks, b"")
            written: Future[None] | None = None
            while text := coming.result():
                coming = reading.submit(next, blocks, b"")
                parts = self._parsed(text)
                if written is not None:
                    written.result()
                written = None if parts is None else writing.submit(self._write, parts)
            if written is not None:
                written.result()

    def finish(self, n_features: int | None) -> Converted:
        if self.writer is None:
            raise SvmlightError(f"{self.name}:1:1: {_NO_ROWS}")
        if n_features is not None and n_features < self.width:
            raise ValueError(f"{self.name}: has {self.width} features, more than {n_features}")
        self.width = self.width if n_features is None else n_features
        self.writer.finish(self.width, self.zero_based)
        return Converted(
            self.writer.n_rows, self.width, self.nnz, self.zero_based, self.options["qid"]
        )

    def _parsed(self, text: bytes) -> tuple[Any, ...] | None:
        if self.writer is None and not self.lines:
            self.options["qid"] = _has_qid(text)
        array = np.frombuffer(text, np.uint8)
        try:
            parts: tuple[Any, ...] = _parse(array, self.name, mapped=False, **self.options)
        except SvmlightError as error:
            if str(error).endswith(_NO_ROWS):  # comments only
                self.lines += text.count(b"\n")
                return None
            raise SvmlightError(_moved(str(error), self.name, self.lines)) from error
        self.lines += text.count(b"\n")
        return parts

    def _write(self, parts: tuple[Any, ...]) -> None:
        values, columns, indptr, labels, qids, n_features, zero_based = parts
        if zero_based and not self.zero_based:
            if (self.packing.gaps or self.packing.factors) and self.batches:
                raise _ZeroBasedError
            self.zero_based, self.batches_to_raise = True, self.batches
            self.width += self.width > 0
            self.options["zero_based"] = True
        elif self.zero_based and not zero_based:  # parsed before the first index 0 was seen
            columns, n_features = columns + np.int32(1), n_features + 1
        if self.writer is None:
            self.writer = RowWriter(
                self.out, dtype=values.dtype, qid=qids is not None, packing=self.packing
            )
        self.width = max(self.width, n_features)
        self.nnz += len(values)
        for first, end in row_blocks(indptr, BATCH_BYTES, 8):
            self.writer.write(
                indptr[first : end + 1], columns, values, labels[first:end],
                qid=None if qids is None else qids[first:end],
            )  # fmt: skip
            self.batches += 1


def _blocks(
    file: IO[bytes], name: str, block_bytes: int, progress: Callable[[int], None] | None
) -> Iterator[bytes]:
    """The text in blocks of whole lines; a line that is longer makes a longer block."""
    rest = b""
    try:
        for block in _read_blocks(file, name, block_bytes):
            if progress is not None:
                progress(file.tell())
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = block[end:]
            else:
                rest += block
    except PackedError as error:
        raise SvmlightError(str(error)) from error
    if rest:
        yield rest


def _read_blocks(file: IO[bytes], name: str, block_bytes: int) -> Iterator[bytes]:
    stream = unpacking(file, name)
    if stream is None:
        stream = file
    while True:
        with damage_told(name):
            block = stream.read(block_bytes)
        if not block:
            return
        yield block


def _has_qid(text: bytes) -> bool:
    """Whether the first row has a query id."""
    for line in re.finditer(rb"[^\r\n]+", text):
        words = line[0].split(b"#")[0].split()
        if words:
            return len(words) > 1 and words[1].startswith(b"qid:")
    return False


def _moved(message: str, name: str, lines: int) -> str:
    """An error about a block, as one about the text that has so many lines before it."""
    found = re.match(re.escape(name) + r":(\d+):", message)
    if found is None:
        return message
    return f"{name}:{int(found[1]) + lines}:{message[found.end() :]}"


def _raise_columns(path: StrPath, n_batches: int) -> None:
    """Add one to the columns of the first batches."""
    rows = ArrowRows(path)
    with open(path, "r+b") as file:
        for k in range(n_batches):
            span = rows.columns_of(k)
            columns = np.fromfile(file, span.dtype, span.count, offset=span.position - file.tell())
            columns += 1
            file.seek(span.position)
            file.write(columns.tobytes())
        file.flush()
        os.fsync(file.fileno())
    rows.close()
