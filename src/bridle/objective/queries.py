"""Queries: rows that are ranked among themselves, and their grades."""

from __future__ import annotations

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.labels import check_weights
from numpy.typing import ArrayLike, NDArray

Offsets = NDArray[np.int64]


def query_offsets(qid: ArrayLike, n_rows: int) -> Offsets:
    """Where each query begins, and the end: the rows of a query must stand together.

    qid: whole numbers, or names.
    """
    ids = np.asarray(qid)
    if ids.dtype.kind in "OUS":
        ids = ids.astype(str)
    if ids.shape != (n_rows,):
        raise ValueError(f"qid must have one number for each of the {n_rows} rows, got {ids.shape}")
    if ids.dtype.kind == "f":
        if not np.isfinite(ids).all():
            raise ValueError("qid contains NaN or infinity")
        if (ids != np.floor(ids)).any():
            raise ValueError("qid must be whole numbers")
    elif ids.dtype.kind not in "iuU":
        raise ValueError(f"qid must be whole numbers or names, got dtype {ids.dtype}")
    if n_rows and ids.dtype.kind != "U" and ids.min() < 0:
        row = int(np.flatnonzero(ids < 0)[0])
        raise ValueError(f"qid must not be negative, got {ids[row]} in row {row}")
    begins = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    seen, first = np.unique(ids[begins], return_index=True)
    if len(seen) < len(begins):
        again = int(np.setdiff1d(np.arange(len(begins)), first)[0])
        raise ValueError(
            f"the rows of query {ids[begins[again]]} do not stand together: it begins again in row "
            f"{begins[again]}; sort the rows by qid"
        )
    return np.append(begins, n_rows).astype(np.int64)


def ids_of_group(group: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """Query ids from the numbers of rows of the queries, in order."""
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError("group must be the numbers of rows of the queries, in order")
    if sizes.sum() != n_rows:
        raise ValueError(f"the sizes in group add up to {sizes.sum()}, but there are {n_rows} rows")
    return np.repeat(np.arange(len(sizes)), sizes)


def weights_of_queries(sample_weight: ArrayLike, qid: ArrayLike | None, n_rows: int) -> Array:
    """One weight for each query, from one for each row, which is the same within a query.

    What a loss of whole rankings would be in which a document counts twice, nobody has said.
    """
    weights = check_weights(sample_weight, n_rows)
    offsets = np.array([0, n_rows]) if qid is None else query_offsets(qid, n_rows)
    per_query = weights[offsets[:-1]]
    other = np.flatnonzero(weights != np.repeat(per_query, np.diff(offsets)))
    if len(other):
        raise ValueError(
            f"sample_weight must be the same for all rows of a query: row {other[0]} weighs "
            f"{weights[other[0]]:g}, the first of its query another number"
        )
    return np.asarray(per_query)


def check_grades(y: ArrayLike, n_rows: int) -> Array:
    """Relevance grades: finite numbers."""
    grades = np.asarray(y)
    if grades.dtype.kind not in "biuf":
        raise ValueError(f"y must be numbers, grades of relevance, got dtype {grades.dtype}")
    return check_vector(grades, n_rows, "y")
