"""A cheap name for a data set: a hash of its shape and of about 1000 of its rows and labels."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def sampled_rows(n_rows: int) -> list[int]:
    """The rows that a fingerprint looks at."""
    return sorted(set(np.linspace(0, n_rows - 1, 1000).astype(np.int64).tolist()))


def digest_of(shape: tuple[int, int], label_shape: tuple[int, ...]) -> Any:
    """What the rows are added to: columns (<i8) and values (<f4) that are not 0, and the label."""
    return hashlib.blake2b(repr((shape, label_shape)).encode(), digest_size=16)


def fingerprint_of(
    shape: tuple[int, int],
    label_shape: tuple[int, ...],
    row: Callable[[int], tuple[NDArray[Any], NDArray[Any], Any]],
) -> str:
    """The same for rows that a function gives: columns, values and the label of row i."""
    digest = digest_of(shape, label_shape)
    for i in sampled_rows(shape[0]):
        columns, values, label = row(i)
        if values.dtype != np.float32:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
        if not values.all():
            columns, values = columns[values != 0], values[values != 0]
        if (columns[1:] < columns[:-1]).any():
            order = np.argsort(columns, kind="stable")
            columns, values = columns[order], values[order]
        digest.update(columns.astype("<i8").tobytes())
        digest.update(values.astype("<f4", copy=False).tobytes())
        digest.update(label_bytes(label))
    return str(digest.hexdigest())


def label_bytes(label: Any) -> bytes:
    """Of a number, its value; of anything else, its name."""
    if isinstance(label, np.number | np.bool_ | int | float):
        return struct.pack("<d", float(label))
    return str(label).encode()
