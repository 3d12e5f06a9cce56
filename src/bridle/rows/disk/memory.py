"""A promise about memory: what of the data may be in memory at a time, so that all of it fits.

The promise is about the most that the whole process has resident, the interpreter and its libraries
included. What is needed whatever the rows are (weights, dual variables) is counted first; what is
left goes to the rows: all of them if they fit, else a few ranges of them that take turns, and a
copy of those that solvers still work on.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.data.arrow import ArrowRows, RowRange
from bridle.files.mapped import release_pages
from numpy.typing import NDArray

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SLACK = 10 << 20  # libraries that are loaded later, stacks, what malloc keeps

# What is resident at the start differs from run to run by some pages. The plan decides which rows
# are copied and when, hence every bit of the result: it should not.
_GRAIN = 4 << 20

_WEIGHT_VECTORS = 20  # float64 vectors of the width of the data, at the worst moment

# float64 vectors of the length of the data, at the worst moment: alpha of the solver, of the point
# that is being judged, of the best one so far, and of the start.
ROW_VECTORS = 4

_PER_ROW = 160  # bytes beside a row in use: labels, costs, scores, the solver's record
_MOST_BUFFERS = 6

# Where copies have room for less than this part of the rows, each MiB more saves more reading than
# dual variables in a file cost: 1.6 million rows took 29 epochs with none, 11 with 2 %, 9 with 3 %,
# 8 with 6 % and 7 with 10 % or more (C = 1; a file adds about a tenth to the processor time).
_ENOUGH_COPIES = 1 / 20


def parse_size(text: str) -> int:
    """Bytes: "2G", "500M", "1.5GiB"; the units are powers of 1024."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError(f"{text!r} is no size; write it as 500M or 2G")
    return int(float(found[1]) * 1024 ** _UNITS[found[2].upper()])


def show_size(n_bytes: float) -> str:
    """For people."""
    for unit in ("bytes", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.4g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.4g} GiB"


def resident_bytes() -> int:
    """What this process has resident now; where the system does not say, the most it has had."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


class TooLittleMemoryError(ValueError):
    """What is allowed is too little. needed: bytes for the whole process."""

    def __init__(self, allowed: int, needed: int, what: str, features: int) -> None:
        self.needed, self.features = needed, features
        super().__init__(
            f"{show_size(allowed)} of memory are too few for {what}: at least {show_size(needed)} "
            f"are needed, most of it for the program and {features} features"
        )


@dataclass(frozen=True)
class MemoryPlan:
    """What may be in memory.

    resident: all rows, once read. buffers: else, ranges at a time, each of at most buffer_bytes.
    keep_bytes: for copies of rows. spare: that nobody has asked for. vectors_on_disk: whether
    vectors of the length of the data are in a temporary file instead of in memory.
    """

    resident: bool
    buffers: int
    buffer_bytes: int
    keep_bytes: int
    vectors_on_disk: bool
    spare: int = 0

    @classmethod
    def of(
        cls,
        rows: ArrowRows,
        ranges: list[RowRange],
        memory: int,
        row_vectors: int = ROW_VECTORS,
        *,
        copies: bool = True,
    ) -> MemoryPlan:
        """How to keep within so many bytes; ValueError if that cannot be.

        row_vectors: of the length of the data, in float64. copies: whether the solver copies rows.
        Then vectors that fit go to disk nevertheless, where copies would have too little room.
        """
        sizes = [rows.range_bytes(part) + 64 for part in ranges]
        working = 2 * _PER_ROW * max(part.n_rows for part in ranges)
        program = -(-resident_bytes() // _GRAIN) * _GRAIN + _SLACK
        fixed = program + 8 * _WEIGHT_VECTORS * (rows.n_features + 1) + working
        vectors = (8 * row_vectors + 2) * rows.n_rows  # and a byte or two of flags
        largest = max(sizes)
        everything = sum(sizes) + 32 * rows.n_rows
        if fixed + vectors + everything <= memory:
            return cls(True, 0, 0, 0, False, memory - fixed - vectors - everything)
        needed = (_MOST_BUFFERS * largest + _ENOUGH_COPIES * everything) if copies else 2 * largest
        on_disk = fixed + vectors + needed > memory
        left = memory - fixed - (0 if on_disk else vectors)
        if left < 2 * largest:
            raise TooLittleMemoryError(memory, fixed + 2 * largest, str(rows.path), rows.n_features)
        buffers = min(_MOST_BUFFERS, left // largest)
        return cls(False, buffers, largest, left - buffers * largest, on_disk)


class RowVectors:
    """Makes vectors with one entry for each row: in memory, or as a mapped temporary file.

    Those on disk are used a slice at a time; `release` then takes their pages out of memory.
    """

    def __init__(self, n_rows: int, on_disk: bool) -> None:
        self.n_rows, self.on_disk = n_rows, on_disk

    def zeros(self, dtype: Any = np.float64) -> NDArray[Any]:
        """A new vector."""
        if not self.on_disk:
            return np.zeros(self.n_rows, dtype)
        # The system removes the file when the vector is gone, however the process ends.
        with tempfile.TemporaryFile(prefix="bridle-") as file:
            size = self.n_rows * np.dtype(dtype).itemsize
            try:
                file.truncate(size)
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)  # an error now, not a crash later
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"{error.strerror} (wanted: {show_size(size)} for dual variables, for which "
                    "the memory that is allowed has no room; TMPDIR names another folder)",
                    tempfile.gettempdir(),
                ) from error
            return np.memmap(file, dtype, "r+", shape=(self.n_rows,))

    def release(self, *vectors: NDArray[Any] | None) -> None:
        """The pages of vectors on disk need not stay in memory."""
        for vector in vectors:
            release_pages(vector)
