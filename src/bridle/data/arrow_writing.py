"""Rows to an Arrow file of the columns that `bridle.data.arrow` names, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from bridle.data.arrow import (
    AS_THEY_ARE,
    BATCH_BYTES,
    COMPACT_FORMAT,
    DIGITS,
    FACTORED_FORMAT,
    FORMAT,
    LATE,
    StrPath,
    pyarrow_module,
)
from bridle.data.compact import Compact, Packer, Packing
from bridle.files.atomic import replacing
from numpy.typing import ArrayLike, NDArray


class RowWriter:
    """Writes batches to an open file; `finish` completes it.

    The number of features is known at the end only, and the schema comes first (and once more at
    the end): places of fixed width are kept for it, and filled in.
    """

    def __init__(
        self,
        file: IO[bytes],
        *,
        dtype: Any,
        qid: bool = False,
        weight: bool = False,
        packing: Packing = AS_THEY_ARE,
    ) -> None:
        pa = pyarrow_module()
        self._file, self._packer = file, Packer(packing, dtype)
        fields = [("label", pa.float64())]
        fields += [("qid", pa.int64())] if qid else []
        fields += [("weight", pa.float64())] if weight else []
        fields += [("scale", pa.float64())] if packing.factors else []
        kind = pa.from_numpy_dtype(dtype)
        inside = {"gaps": pa.uint16()} if packing.gaps else {"indices": pa.int32()}
        if packing.factors:
            inside |= {"codes": pa.uint16(), "rest": kind}
        else:
            inside["values"] = pa.dictionary(pa.uint16(), kind) if packing.numbers else kind
        as_list = pa.list_ if packing.factors else pa.large_list
        fields += [
            (name, as_list(pa.field("item", kind, nullable=False))) for name, kind in inside.items()
        ]
        self._places = {name: os.urandom(DIGITS // 2).hex().encode() for name in LATE}
        self._factors = packing.factors.metadata() if packing.factors else {}
        self._schema = pa.schema(
            [pa.field(name, kind, nullable=False) for name, kind in fields],
            {
                b"bridle.format": str(_format_of(packing)).encode(),
                **{name.encode(): place for name, place in self._places.items()},
                **self._factors,
            },
        )
        # A batch brings the values that are new in it.
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        self._writer = pa.ipc.new_file(file, self._schema, options=options)
        self.n_rows = 0

    def write(
        self, offsets: NDArray[Any], columns: NDArray[Any], values: NDArray[Any],
        labels: NDArray[Any], *, qid: NDArray[Any] | None = None,
        weight: NDArray[Any] | None = None,
    ) -> None:  # fmt: skip
        """One batch: rows offsets[i]..offsets[i + 1] of columns and values."""
        pa = pyarrow_module()
        begin, end = int(offsets[0]), int(offsets[-1])
        ends = np.asarray(offsets, np.int64) - begin
        columns = np.ascontiguousarray(columns[begin:end])
        values = np.ascontiguousarray(self._packer.rounded(values[begin:end]))
        self.n_rows += len(labels)
        packed = self._values(ends, columns, values)
        if packed is None:
            return
        given = {"label": labels, "qid": qid, "weight": weight, **packed}
        if self._packer.packing.gaps:
            gap_ends, gaps = self._packer.gaps(ends, columns)
            given["gaps"] = gap_ends, pa.array(gaps)
        else:
            given["indices"] = ends, pa.array(columns, pa.int32())
        arrays = []
        for field in self._schema:
            found = given[field.name]
            if isinstance(found, tuple):
                wide = pa.types.is_large_list(field.type)
                where = pa.array(found[0], pa.int64() if wide else pa.int32())
                lists = pa.LargeListArray if wide else pa.ListArray
                arrays.append(lists.from_arrays(where, found[1], type=field.type))
            else:
                arrays.append(pa.array(found, field.type))
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _values(
        self, ends: NDArray[np.int64], columns: NDArray[Any], values: NDArray[Any]
    ) -> dict[str, Any] | None:
        """The columns of the file that hold them; None if this is not how they will be held."""
        pa, packer = pyarrow_module(), self._packer
        if packer.packing.factors is not None:
            scale, codes, rest_ends, rest = packer.products(ends, columns, values)
            return {
                "scale": scale, "codes": (ends, pa.array(codes)),
                "rest": (rest_ends, pa.array(rest)),
            }  # fmt: skip
        if not packer.packing.numbers:
            return {"values": (ends, pa.array(values))}
        numbers = packer.numbers(ends, columns, values)
        if numbers is None:
            return None
        held = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(packer.known))
        return {"values": (ends, held)}

    def finish(self, n_features: int, zero_based: bool) -> None:
        """Write the footer, and what is known now into the places kept for it."""
        self._packer.finish()
        self._writer.close()
        self._file.flush()
        size = self._file.tell()
        known = {"bridle.n_features": n_features, "bridle.zero_based": int(zero_based)}
        with open(self._file.name, "rb") as written:
            long = sum(map(len, self._factors.values()))
            head = os.pread(written.fileno(), (1 << 16) + long, 0)
            # At the very end: the footer's size in four bytes, and "ARROW1".
            footer = int.from_bytes(os.pread(written.fileno(), 4, size - 10), "little") + 10
            tail = os.pread(written.fileno(), footer, size - footer)
        for name, place in self._places.items():
            text = str(known[name]).zfill(DIGITS).encode()
            for part, start in ((head, 0), (tail, size - footer)):
                os.pwrite(self._file.fileno(), text, start + part.index(place))


def write_arrow(
    path: StrPath,
    X: Any,
    y: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    zero_based: bool = False,
    batch_bytes: int = BATCH_BYTES,
    compact: Compact | None = None,
) -> None:
    """Write rows in batches of about so many bytes: all of the file, or nothing.

    X is a SciPy sparse matrix or a dense array. float32 values stay float32. zero_based: whether
    texts of the same data call the first feature number 0. compact: "exact" takes fewer bytes for
    the same rows, "float16" for values that are rounded to 16 bits (see docs/scale.md).

    Examples
    --------
    >>> bridle.data.write_arrow("rows.arrow", [[0.0, 1.0]], [1])
    >>> bridle.data.read_arrow("rows.arrow")[0].toarray()
    array([[0., 1.]])
    """
    from bridle.data.svmlight import _canonical_csr, _checked_qids

    X = _canonical_csr(X)
    n_rows = X.shape[0]
    labels = _checked(y, n_rows, "y")
    weights = None if weight is None else _checked(weight, n_rows, "weight")
    qids = None if qid is None else _checked_qids(qid, n_rows)
    if not np.isfinite(X.data).all():
        raise ValueError("X must be finite")

    def write(packing: Packing) -> None:
        with replacing(path) as file:
            writer = RowWriter(
                file, dtype=X.dtype, qid=qids is not None, weight=weights is not None,
                packing=packing,
            )  # fmt: skip
            for first, end in row_blocks(X.indptr, batch_bytes, X.data.itemsize + 4):
                writer.write(
                    X.indptr[first : end + 1], X.indices, X.data, labels[first:end],
                    qid=None if qids is None else qids[first:end],
                    weight=None if weights is None else weights[first:end],
                )  # fmt: skip
            writer.finish(X.shape[1], zero_based)

    Packing.of(compact).found(write)


def _format_of(packing: Packing) -> int:
    if packing.factors is not None:
        return FACTORED_FORMAT
    return FORMAT if packing.compact is None else COMPACT_FORMAT


def row_blocks(
    indptr: NDArray[Any], batch_bytes: int, entry_bytes: int
) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows of about so many bytes each, at least one row."""
    n_rows = len(indptr) - 1
    # Each row costs 8 bytes of offsets twice and 8 of its label beside its entries.
    ends = np.arange(n_rows + 1, dtype=np.int64) * 24
    ends += (indptr.astype(np.int64) - int(indptr[0])) * entry_bytes
    first = 0
    while first < n_rows:
        end = int(np.searchsorted(ends, ends[first] + batch_bytes, side="right")) - 1
        end = min(max(end, first + 1), n_rows)
        yield first, end
        first = end


def _checked(values: ArrayLike, n_rows: int, name: str) -> NDArray[np.float64]:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (n_rows,):
        raise ValueError(f"{name} has shape {array.shape}, expected ({n_rows},)")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array
