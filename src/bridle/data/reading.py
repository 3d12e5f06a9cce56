"""One door for data files: the ending of a name says which reader opens it.

    .npz              SciPy's CSR arrays, or a dense X, with the labels y: `bridle.data.npz`
    .csv .tsv         a table with a label column: `bridle.data.tables`
    .parquet          the same; needs pyarrow (extra `parquet`)
    .arrow            rows as record batches: `bridle.data.arrow` (extra `arrow`)
    anything else     svmlight: `bridle.data.svmlight`

Text may be compressed by gzip, xz, bzip2 or Zstandard (`.csv.gz`). What is an open file and no
name, as standard input, is svmlight. Whichever way they came in, the same rows are the same
numbers: float32, in CSR without the zeros of a table. A reader is a function and a line in READERS.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.files.packed import ENDINGS, Source
from bridle.matrix.csr import CsrArrays
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.data.tables import Columns

StrPath = str | os.PathLike[str]

# ending -> (module, function from (path, Wanted) to Data)
READERS = {
    ".npz": ("bridle.data.npz", "read"),
    ".csv": ("bridle.data.tables", "read_csv"),
    ".tsv": ("bridle.data.tables", "read_csv"),
    ".parquet": ("bridle.data.tables", "read_parquet"),
    ".arrow": ("bridle.data.arrow", "read"),
}


@dataclass(frozen=True)
class Wanted:
    r"""How to read: what the user said, and what is known from files that were read before.

    Examples
    --------
    >>> with open("people.csv", "w") as file:
    ...     count = file.write("age,job,income\n30,cook,low\n50,clerk,high\n")
    >>> wanted = bridle.data.Wanted(label_column="income", hash_bits=8)
    >>> bridle.data.read_data("people.csv", wanted).X.shape  # age, and 2^8 for words
    (2, 257)
    """

    n_threads: int | None = None
    zero_based: Any = "auto"  # of svmlight
    columns: Columns | None = None  # of a table: as in training
    label_column: str | None = None  # of a table: a name, or a number from 1 (or from the end: -1)
    hash_bits: int | None = None  # of a table: hash columns of text into 2^bits features
    queries: bool = False  # whether rows must have the ids of their queries
    qid_column: str | None = None  # of a table, with queries; None: "qid"
    labels: bool = True  # whether a table must have a column of labels


@dataclass(frozen=True)
class Data:
    """Rows and labels, and how to read other files of the same kind.

    Examples
    --------
    >>> bridle.data.write_svmlight("rows.svm", *bridle.data.make_corpus(500, seed=0))
    >>> data = bridle.data.read_data("rows.svm")
    >>> data.X.shape[0], len(data.y)
    (500, 500)
    """

    X: Any
    y: Any  # None: a table without the label column
    zero_based: bool = False
    columns: Columns | None = None
    weight: Any = None  # of each row; None if all weigh the same
    qid: Any = None  # of each row, where queries are wanted


def read_data(path: StrPath, wanted: Wanted | None = None) -> Data:
    """Read a data file of any kind that is known.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> bridle.data.write_npz("rows.npz", X, y)
    >>> bridle.data.read_data("rows.npz").X.nnz == X.nnz
    True
    """
    return with_matrix(read_arrays(path, wanted))


def with_matrix(data: Data) -> Data:
    """The same data; where X is CsrArrays, a SciPy matrix of these arrays takes its place."""
    return replace(data, X=data.X.tocsr()) if isinstance(data.X, CsrArrays) else data


def read_arrays(source: Source, wanted: Wanted | None = None) -> Data:
    """As read_data; X of an svmlight file is CsrArrays, for those who can do without SciPy."""
    wanted = Wanted() if wanted is None else wanted
    if isinstance(source, str | os.PathLike) and (ending := data_ending(source)) in READERS:
        module, function = READERS[ending]
        found: Data = getattr(importlib.import_module(module), function)(source, wanted)
        if wanted.queries and found.qid is None:
            raise ValueError(f"{os.fsdecode(source)}: has no query ids (qid), one for each row")
        return found
    from bridle.data.svmlight import read_arrays_and_base, read_queries_and_base

    if wanted.queries:
        matrix, y, qid, zero_based = read_queries_and_base(
            source, n_threads=wanted.n_threads, zero_based=wanted.zero_based
        )
        return Data(matrix, y, zero_based, qid=qid)

    X, y, zero_based = read_arrays_and_base(
        source, n_threads=wanted.n_threads, zero_based=wanted.zero_based
    )
    return Data(X, y, zero_based)


def data_ending(path: StrPath) -> str:
    """The last part of the name that does not speak of compression, in small letters."""
    name = Path(os.fsdecode(path).lower())
    return name.with_suffix("").suffix if name.suffix in ENDINGS else name.suffix


def numbered(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Query ids as integers; words by the order in which they first occur."""
    with contextlib.suppress(ValueError):
        whole = ids.astype(np.int64)
        if ids.dtype.kind == "U" or (whole == ids).all():
            return whole
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes].astype(np.int64)


def as_single(values: Any, where: str) -> NDArray[np.float32]:
    """Float32, rounded from doubles; an error for what is not finite there."""
    with np.errstate(over="ignore"):
        single = np.asarray(values).astype(np.float32)
    if not np.isfinite(single).all():
        raise ValueError(f"{where}: has values that are not finite in single precision")
    return single
