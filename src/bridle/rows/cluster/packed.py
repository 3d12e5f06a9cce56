"""Messages as they travel: of a long vector most of whose entries are one value, only the others.

A part that has few of the features sends few numbers, and w is short while few features have a
weight. Nothing is rounded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHORT = 256  # entries that are sent as they are


@dataclass(frozen=True)
class Packed:
    """A vector: this value everywhere but at some places."""

    size: int
    most: np.floating[Any]
    where: NDArray[np.int32]
    values: NDArray[Any]

    def vector(self) -> NDArray[Any]:
        """All entries."""
        found = np.full(self.size, self.most)
        found[self.where] = self.values
        return found


def pack(message: Any) -> Any:
    """The same message, with vectors packed that become smaller by it."""
    if isinstance(message, np.ndarray):
        return _shorter(message)
    return _through(message, pack)


def unpack(message: Any) -> Any:
    """What was packed."""
    return message.vector() if isinstance(message, Packed) else _through(message, unpack)


def weight_of(message: Any) -> int:
    """The bytes of the arrays in a message."""
    if isinstance(message, np.ndarray):
        return int(message.nbytes)
    if isinstance(message, list | tuple):
        return sum(map(weight_of, message))
    return sum(map(weight_of, vars(message).values())) if hasattr(message, "__dict__") else 0


def _shorter(vector: NDArray[Any]) -> Any:
    if vector.ndim != 1 or vector.dtype.kind != "f" or not SHORT < len(vector) < 2**31:
        return vector
    # A value that most entries have is the median, of some entries as well as of all.
    most = np.sort(vector[:: len(vector) // SHORT])[SHORT // 2]
    where = np.flatnonzero(vector != most)
    if len(where) * (4 + vector.itemsize) >= vector.nbytes:
        return vector
    return Packed(len(vector), most, where.astype(np.int32), vector[where])


def _through(message: Any, change: Callable[[Any], Any]) -> Any:
    """The message with its items, or its fields, changed."""
    if isinstance(message, list | tuple) and not hasattr(message, "_fields"):
        return type(message)(map(change, message))
    if is_dataclass(message) and hasattr(message, "__dict__") and not isinstance(message, type):
        other = copy.copy(message)
        for name, value in vars(message).items():
            object.__setattr__(other, name, change(value))  # it may be frozen
        return other
    return message
