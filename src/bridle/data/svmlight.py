"""The svmlight / LIBSVM text format: ``label [qid:query] index:value ... [# comment]``.

Dialect
-------
Labels
    Any finite number (``1``, ``+1``, ``-1.0``, ``1e3``). Several labels in a row (``1,3``) are an
    error.
Indices
    Integers up to 2^31 - 2. They may come in any order and are sorted; the same index twice in a
    row is an error, because tools disagree on what it means. With ``zero_based="auto"`` a file in
    which index 0 occurs counts from zero, any other from one. With ``zero_based=False`` index 0 is
    an error.
Values
    Any finite number, rounded correctly to a double, then to ``dtype``. ``nan`` and ``inf`` are
    errors, and so is what does not fit in ``dtype``. Zeros that are written out are kept.
Query ids
    ``qid:`` and an integer, once, before the features. Ignored unless asked for; if asked for,
    every row needs one.
Layout
    Spaces and tabs separate; Windows line ends, blank lines, lines with only a comment, a missing
    final newline and a UTF-8 byte order mark are fine. A ``#`` begins a comment anywhere. A text
    without any row is an error.

An error reads ``file:line:column: expected ..., found ...``, counted from 1, in bytes. With several
errors it is the first that is reported. Neither it nor the result depends on the number of threads.

Memory
------
The file is mapped, not loaded, and its pages are handed back as they are parsed. The arrays are
allocated once at (nearly always) their final size, and NumPy takes them over without a copy. So the
peak is the result itself: 8 bytes per non-zero and 12 per row (float32), plus a few megabytes. A
compressed file is unpacked into memory first and adds its unpacked size.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, Literal, overload

import numpy as np
from bridle._core.text import SvmlightError
from bridle._core.text import format_svmlight as _format
from bridle._core.text import read_svmlight as _read
from bridle.files.atomic import replacing
from bridle.files.packed import (
    LONGEST,
    PackedError,
    Source,
    name_of,
    opened,
    packer_of,
    unpacked,
)
from bridle.matrix.csr import CsrArrays
from bridle.matrix.door import canonical
from numpy.typing import ArrayLike, DTypeLike, NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "SvmlightError",
    "read_svmlight",
    "read_svmlight_and_base",
    "read_svmlight_bytes",
    "write_svmlight",
]

StrPath = str | os.PathLike[str]
ZeroBased = bool | Literal["auto"]

_MOST_COLUMNS = 2**31 - 2
_CHUNK_BYTES = 2 << 20  # parsed at a time by a thread
_WRITE_NONZEROS = 1 << 18  # formatted at a time


@overload
def read_svmlight(
    path: StrPath,
    *,
    n_threads: int | None = ...,
    dtype: DTypeLike = ...,
    qid: Literal[False] = ...,
    zero_based: ZeroBased = ...,
    n_features: int | None = ...,
) -> tuple[csr_matrix, NDArray[np.float64]]: ...


@overload
def read_svmlight(
    path: StrPath,
    *,
    n_threads: int | None = ...,
    dtype: DTypeLike = ...,
    qid: Literal[True],
    zero_based: ZeroBased = ...,
    n_features: int | None = ...,
) -> tuple[csr_matrix, NDArray[np.float64], NDArray[np.int64]]: ...


def read_svmlight(
    path: StrPath,
    *,
    n_threads: int | None = None,
    dtype: DTypeLike = np.float32,
    qid: bool = False,
    zero_based: ZeroBased = "auto",
    n_features: int | None = None,
) -> Any:
    """Read a file in svmlight format, plain or compressed by gzip, xz, bzip2 or Zstandard.

    Parameters
    ----------
    path
        The file. Compression is recognised by its first bytes, not by its name. It must not be
        truncated by another process while it is read.
    n_threads
        How many threads parse; all available processors if None.
    dtype
        ``float32`` or ``float64``, of the values of X.
    qid
        Whether to return the query ids too.
    zero_based
        Whether the first feature is number 0 (True), number 1 (False), or to be found out.
    n_features
        The width of X. By default the largest index seen; an index beyond it is an error.

    Returns
    -------
    X : scipy.sparse.csr_matrix
        One row per line, indices in ascending order, 32-bit (indptr is 64-bit from 2^31 non-zeros).
    y : ndarray of float64
        The labels.
    qid : ndarray of int64
        The query ids, if asked for.

    Raises
    ------
    SvmlightError
        If the text is malformed; a ValueError that says where and why. The module's documentation
        says what is accepted.

    Examples
    --------
    >>> bridle.data.write_svmlight("rows.svm", *bridle.data.make_corpus(500, seed=0))
    >>> X, y = bridle.data.read_svmlight("rows.svm")
    >>> X.shape[0], X.dtype
    (500, dtype('float32'))
    """
    return _labelled(_parts(path, _options(n_threads, dtype, zero_based, n_features, qid)))


def read_svmlight_and_base(
    path: StrPath, *, n_threads: int | None = None, zero_based: ZeroBased = "auto"
) -> tuple[csr_matrix, NDArray[np.float64], bool]:
    r"""X, y as `read_svmlight` reads them, and whether the file counts its features from zero.

    Other files of the same data (a test set) should be read with that answer as ``zero_based``:
    feature 0 need not occur in them.

    Examples
    --------
    >>> with open("rows.svm", "w") as file:
    ...     count = file.write("1 0:0.5 2:1\n")
    >>> X, y, zero_based = bridle.data.read_svmlight_and_base("rows.svm")
    >>> zero_based
    True
    """
    X, y, zero = read_arrays_and_base(path, n_threads=n_threads, zero_based=zero_based)
    return X.tocsr(), y, zero


def read_arrays_and_base(
    source: Source, *, n_threads: int | None = None, zero_based: ZeroBased = "auto"
) -> tuple[CsrArrays, NDArray[np.float64], bool]:
    """The same without SciPy."""
    parts = _parts(source, _options(n_threads, np.float32, zero_based, None, False))
    return _arrays(parts), parts[3], bool(parts[-1])


def read_queries_and_base(
    source: Source, *, n_threads: int | None = None, zero_based: ZeroBased = "auto"
) -> tuple[csr_matrix, NDArray[np.float64], NDArray[np.int64], bool]:
    """X, y and the query ids of a file where every row has one; else as above."""
    parts = _parts(source, _options(n_threads, np.float32, zero_based, None, True))
    X, y, qid = _labelled(parts)
    return X, y, qid, bool(parts[-1])


def _parts(source: Source, options: dict[str, Any]) -> tuple[Any, ...]:
    name = name_of(source)
    with opened(source) as file:
        text, mapped = _text_of(file, name)
        parts: tuple[Any, ...] = _read(
            np.frombuffer(text, np.uint8), name, mapped=mapped, **options
        )
    return parts


@overload
def read_svmlight_bytes(
    data: bytes | bytearray | memoryview,
    name: str = ...,
    *,
    n_threads: int | None = ...,
    dtype: DTypeLike = ...,
    qid: Literal[False] = ...,
    zero_based: ZeroBased = ...,
    n_features: int | None = ...,
) -> tuple[csr_matrix, NDArray[np.float64]]: ...


@overload
def read_svmlight_bytes(
    data: bytes | bytearray | memoryview,
    name: str = ...,
    *,
    n_threads: int | None = ...,
    dtype: DTypeLike = ...,
    qid: Literal[True],
    zero_based: ZeroBased = ...,
    n_features: int | None = ...,
) -> tuple[csr_matrix, NDArray[np.float64], NDArray[np.int64]]: ...


def read_svmlight_bytes(
    data: bytes | bytearray | memoryview,
    name: str = "<bytes>",
    *,
    n_threads: int | None = None,
    dtype: DTypeLike = np.float32,
    qid: bool = False,
    zero_based: ZeroBased = "auto",
    n_features: int | None = None,
) -> Any:
    r"""Read text in svmlight format, plain or compressed, that is already in memory.

    ``name`` is what errors call it; the rest is as in `read_svmlight`. The bytes are not copied.

    Examples
    --------
    >>> X, y = bridle.data.read_svmlight_bytes(b"+1 1:0.5 3:2\n-1 2:1\n")
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]], dtype=float32)
    """
    import io

    options = _options(n_threads, dtype, zero_based, n_features, qid)
    text, name = data, name_of(name)
    if packer_of(bytes(memoryview(data)[:LONGEST])) is not None:
        text, _ = _text_of(io.BytesIO(data), name)
    return _labelled(_read(np.frombuffer(text, np.uint8), name, mapped=False, **options))


def read_svmlight_block(
    data: bytes, name: str, *, zero_based: ZeroBased = "auto"
) -> tuple[csr_matrix, NDArray[np.float64], bool]:
    """X, y of some lines of a stream, and whether they count their features from zero."""
    options = _options(1, np.float32, zero_based, None, False)
    parts = _read(np.frombuffer(data, np.uint8), name, mapped=False, **options)
    X, y = _labelled(parts)
    return X, y, bool(parts[-1])


def write_svmlight(
    path: StrPath,
    X: Any,
    y: ArrayLike,
    *,
    qid: ArrayLike | None = None,
    zero_based: bool = False,
) -> None:
    r"""Write rows in svmlight format, with the shortest decimals that read back the same.

    The text goes to a temporary file beside ``path``, which then replaces it: nobody sees half a
    file. X is a SciPy sparse matrix or a dense array; stored zeros are written, duplicate entries
    are summed. A file with ``zero_based=True`` should be read back with ``zero_based=True``: if
    column 0 is empty, that cannot be found out from the text.

    Examples
    --------
    >>> bridle.data.write_svmlight("rows.svm", [[0.0, 1.5]], [1])
    >>> with open("rows.svm") as file:
    ...     file.read()
    '1 2:1.5\n'
    """
    X = _canonical_csr(X)
    y = np.ascontiguousarray(y, dtype=np.float64)
    if y.shape != (X.shape[0],):
        raise ValueError(f"y has shape {y.shape}, expected ({X.shape[0]},)")
    if not (np.isfinite(y).all() and np.isfinite(X.data).all()):
        raise ValueError("X and y must be finite: the format has no nan or inf")
    qids = None if qid is None else _checked_qids(qid, X.shape[0])
    indices = X.indices.astype(np.int32, copy=False)
    with replacing(path) as file:
        for first, end in _row_blocks(X.indptr):
            file.write(_format(X.indptr, indices, X.data, y, qids, zero_based, first, end))


def format_rows(X: csr_matrix, labels: ArrayLike) -> bytes:
    """The text of rows in canonical form, counting features from 1."""
    values = np.ascontiguousarray(labels, np.float64)
    text = _format(
        X.indptr, X.indices.astype(np.int32), X.data, values, None, False, 0, len(values)
    )
    return bytes(text)


def _options(
    n_threads: int | None,
    dtype: DTypeLike,
    zero_based: ZeroBased,
    n_features: int | None,
    qid: bool,
) -> dict[str, Any]:
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, not {kind}")
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto', not {zero_based!r}")
    if n_threads is None:
        n_threads = _available_processors()
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, not {n_threads}")
    if n_features is not None and n_features < 0:
        raise ValueError(f"n_features must not be negative, but is {n_features}")
    return {
        "single_precision": kind == np.float32,
        "zero_based": None if zero_based == "auto" else bool(zero_based),
        "qid": bool(qid),
        "n_features": n_features,
        "n_threads": n_threads,
        "chunk_bytes": _CHUNK_BYTES,
    }


def _available_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _labelled(parts: tuple[Any, ...]) -> Any:
    X, labels, qids = _arrays(parts).tocsr(), parts[3], parts[4]
    return (X, labels) if qids is None else (X, labels, qids)


def _arrays(parts: tuple[Any, ...]) -> CsrArrays:
    values, indices, indptr, labels, _, n_features, _ = parts
    return CsrArrays(values, indices, indptr, (len(labels), n_features))


def _text_of(file: IO[bytes], name: str) -> tuple[Any, bool]:
    """The text of an open file, and whether it is mapped rather than held in memory."""
    packer = packer_of(file.read(LONGEST))
    file.seek(0)
    if packer is not None or not _is_regular(file):
        try:
            return unpacked(file, name), False
        except PackedError as error:
            raise SvmlightError(str(error)) from error
    if os.fstat(file.fileno()).st_size == 0:  # cannot be mapped
        return b"", False
    import mmap

    text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_SEQUENTIAL"):
        text.madvise(mmap.MADV_SEQUENTIAL)
    return text, True


def _is_regular(file: IO[bytes]) -> bool:
    """Whether there is something to map: not of a pipe, nor of bytes in memory."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:  # without a number of its own
        return False


def _canonical_csr(X: Any) -> Any:
    from scipy.sparse import csr_matrix

    rows = csr_matrix(canonical(X))
    if rows.shape[1] > _MOST_COLUMNS:
        raise ValueError(f"X has {rows.shape[1]} columns, the format allows {_MOST_COLUMNS}")
    return rows


def _checked_qids(qid: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    given = np.asarray(qid)
    qids = np.ascontiguousarray(given, dtype=np.int64)
    if qids.shape != (n_rows,):
        raise ValueError(f"qid has shape {qids.shape}, expected ({n_rows},)")
    if (qids < 0).any() or not np.array_equal(qids, given):
        raise ValueError("qid must hold integers that are not negative")
    return qids


def _row_blocks(indptr: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows with about `_WRITE_NONZEROS` non-zeros each."""
    n_rows = len(indptr) - 1
    first = 0
    while first < n_rows:
        end = int(np.searchsorted(indptr, int(indptr[first]) + _WRITE_NONZEROS))
        end = min(max(end, first + 1), n_rows, first + _WRITE_NONZEROS)
        yield first, end
        first = end
