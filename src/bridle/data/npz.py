"""NumPy's .npz archives.

    data, indices, indptr, shape, format="csr"      the arrays of scipy.sparse.save_npz, or
    X                                               a dense matrix;
    y                                               the labels: numbers or strings, one per row;
    qid                                             for rankings, the query of each row

`write_npz` makes one. Nothing is unpickled.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np
from bridle.data.reading import Data, StrPath, Wanted, as_single, numbered
from numpy.typing import ArrayLike, NDArray


def read(path: StrPath, wanted: Wanted) -> Data:
    """Rows and labels."""
    name = os.fsdecode(path)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise ValueError("a single array")
            parts = {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError,
            RuntimeError, SyntaxError, OSError) as error:  # fmt: skip
        if isinstance(error, OSError) and error.filename is not None:  # it could not be opened
            raise
        raise ValueError(f"{name}: not an .npz archive that can be read: {error}") from error
    try:
        X = _matrix(parts, name)
        qid = _query_ids(parts, X.shape[0]) if wanted.queries else None
        return Data(X, _labels(parts, X.shape[0]), qid=qid)
    except KeyError as error:
        raise ValueError(
            f"{name}: has no array {error}; an archive has y, and X or the parts of a CSR matrix "
            f"(see bridle.data.write_npz); this one has: {', '.join(parts) or 'nothing'}"
        ) from error
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        message = str(error)
        raise ValueError(message if message.startswith(name) else f"{name}: {message}") from error


def write_npz(path: StrPath, X: Any, y: ArrayLike, *, qid: ArrayLike | None = None) -> None:
    """Rows (CSR or dense), labels and query ids, if there are any, in one compressed archive.

    Examples
    --------
    >>> bridle.data.write_npz("rows.npz", [[0.0, 1.0]], [1])
    >>> bridle.data.read_data("rows.npz").y
    array([1.])
    """
    from bridle.files.atomic import replacing
    from bridle.matrix.door import as_matrix, is_sparse

    X, labels = as_matrix(X), np.asarray(y)
    if labels.dtype == object:
        labels = labels.astype(str)
    if labels.shape != (X.shape[0],):
        raise ValueError(f"y has shape {labels.shape}, expected ({X.shape[0]},)")
    parts = {"X": X}
    queries = {} if qid is None else {"qid": np.asarray(qid)}
    if is_sparse(X):
        parts = {
            "data": X.data, "indices": X.indices, "indptr": X.indptr,
            "shape": np.array(X.shape), "format": np.array(b"csr"),
        }  # fmt: skip
    with replacing(path) as file:
        np.savez_compressed(file, allow_pickle=False, y=labels, **parts, **queries)


def _matrix(parts: dict[str, Any], name: str) -> Any:
    from scipy.sparse import csr_matrix

    if not all(isinstance(part, np.ndarray) for part in parts.values()):
        raise ValueError("a part of the archive is no array")
    if "X" in parts:
        if parts["X"].ndim != 2 or parts["X"].dtype.kind not in "biuf":
            raise ValueError(f"X must be a matrix of numbers, got {_about(parts['X'])}")
        return csr_matrix(as_single(parts["X"], name))
    kind = parts["format"].item()
    if kind not in (b"csr", "csr"):
        raise ValueError(f"the format of a sparse matrix must be 'csr', found {kind!r:.20}")
    if parts["data"].dtype.kind not in "biuf":
        raise ValueError(f"data must be numbers, got {_about(parts['data'])}")
    if any(parts[key].dtype.kind not in "iu" or parts[key].ndim != 1
           for key in ("indices", "indptr", "shape")):  # fmt: skip
        raise ValueError("indices, indptr and shape must be vectors of integers")
    rows, width = (int(n) for n in parts["shape"])
    if not 0 <= width < 2**31 - 1:
        raise ValueError(f"{width} features: too many")
    X = csr_matrix(
        (as_single(parts["data"], name), parts["indices"], parts["indptr"]), shape=(rows, width)
    )
    X.check_format(full_check=True)
    X.sum_duplicates()
    return X


def _labels(parts: dict[str, Any], n_rows: int) -> NDArray[Any]:
    y = parts["y"]
    if y.shape != (n_rows,) or y.dtype.kind not in "biufU":
        raise ValueError(f"y must have one label for each of {n_rows} rows, got {_about(y)}")
    if n_rows == 0:
        raise ValueError("has no rows")
    if y.dtype.kind == "U":
        return np.asarray(y)
    if not np.isfinite(y).all():
        raise ValueError("y has labels that are not finite")
    return np.asarray(y, np.float64)


def _query_ids(parts: dict[str, Any], n_rows: int) -> NDArray[np.int64]:
    qid = parts["qid"]
    if qid.shape != (n_rows,) or qid.dtype.kind not in "iuU":
        raise ValueError(f"qid must have one id for each of {n_rows} rows, got {_about(qid)}")
    return numbered(qid)


def _about(array: NDArray[Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"
