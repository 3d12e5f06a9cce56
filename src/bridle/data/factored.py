"""Values as products of a number of their row, one of their column and one of a few.

So are weighted words: the rarity of the word, a function of how often it is there, and one over the
length of the row. Logarithms are sums then, a_i + b_j + t_k, whose t is the same for most entries:
a and b by least squares whose weights fall with what is left over (Geman & McClure's), which end on
the most frequent t. Where a product is off by some floats, by rounding in another order or to some
digits, its code says by how many; a value that is no such product stands by itself. So no bit is
lost, whatever the fit.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import _core
from numpy.typing import NDArray

# Where the factors are in the metadata of a file: base64 of little-endian float32 and float64.
COLUMNS, FEW = b"bridle.column_factors", b"bridle.factors"

MOST_FEW = 128
SAMPLE = 1 << 20  # entries that a fit looks at
_ROUNDS, _FINEST = 40, 3e-8  # of a fit; what is left over then is the rounding of float32
_ALIKE = 1e-4  # logarithms that belong to the same factor
_LOGS = -87.0, 88.0  # of the columns' factors: those of float32
_OTHERS = 8  # times the rows that were looked at, where there are more: about


@dataclass(frozen=True, eq=False)
class Factors:
    """Of a file. columns: one of each, 0 where it is not known. few: the others, increasing."""

    columns: NDArray[np.float32]
    few: NDArray[np.float64]

    def packed(
        self, offsets: NDArray[np.int64], columns: NDArray[Any], values: NDArray[np.float32]
    ) -> tuple[NDArray[Any], ...]:
        """The scale of each row, codes, and the offsets and values of those by themselves."""
        found: Any = _core.compact.factored(offsets, columns, values, self.columns, self.few)
        packed: tuple[NDArray[Any], ...] = found
        return packed

    def metadata(self) -> dict[bytes, bytes]:
        """For the schema of a file."""
        return {
            COLUMNS: base64.b64encode(self.columns.astype("<f4").tobytes()),
            FEW: base64.b64encode(self.few.astype("<f8").tobytes()),
        }

    @classmethod
    def of(cls, metadata: dict[bytes, bytes]) -> Factors:
        """From there; ValueError if they are none."""
        raw = [base64.b64decode(metadata.get(key, b"?"), validate=True) for key in (COLUMNS, FEW)]
        columns, few = np.frombuffer(raw[0], "<f4"), np.frombuffer(raw[1], "<f8")
        return cls(columns.astype(np.float32), few.astype(np.float64))


def fitted(
    offsets: NDArray[np.int64],
    columns: NDArray[Any],
    values: NDArray[np.float32],
    *,
    all_of_them: bool = True,
) -> Factors | None:
    """To some rows; None where it would not save a fifth of the bytes of their values.

    all_of_them: there are no others, which the factors of the columns would be worth more for.
    """
    n, used = len(offsets) - 1, values != 0
    row = np.repeat(np.arange(n), np.diff(offsets))[used]
    names, column = np.unique(columns[used], return_inverse=True)
    value = values[used].astype(np.float64)
    if not len(value):
        return None
    _, b, left = _sums(row, column, np.log(np.abs(value)), n)
    of_columns = np.zeros(int(names[-1]) + 1, np.float32)
    of_columns[names] = np.exp(np.clip(b, *_LOGS))
    factors = Factors(of_columns, _frequent(np.sign(value), left))
    _, codes, _, rest = factors.packed(offsets, columns, values)
    once = 2 * sum(map(len, factors.metadata().values()))
    n_bytes = codes.nbytes + rest.nbytes + 12 * n + once // (1 if all_of_them else _OTHERS)
    return factors if n_bytes <= 0.8 * values.nbytes else None


def _sums(
    row: NDArray[np.int64], column: NDArray[Any], logs: NDArray[np.float64], n_rows: int
) -> tuple[NDArray[np.float64], ...]:
    """a, b and what is left of logs = a_row + b_column."""
    n_columns = int(column.max()) + 1
    b, left, finest = np.zeros(n_columns), logs, np.inf
    for _ in range(_ROUNDS):
        weight = 1.0 / (1.0 + (left / finest) ** 2)
        a = _mean(row, weight, logs - b[column], n_rows)
        b = _mean(column, weight, logs - a[row], n_columns)
        left = logs - a[row] - b[column]
        finest = max(_FINEST, 0.6 * min(finest, 1.0))
    return a, b, left


def _mean(
    group: NDArray[Any], weight: NDArray[np.float64], of: NDArray[np.float64], n_groups: int
) -> NDArray[np.float64]:
    total = np.bincount(group, weight, n_groups)
    found = np.zeros(n_groups)
    return np.divide(np.bincount(group, weight * of, n_groups), total, out=found, where=total > 0)


def _frequent(sign: NDArray[np.float64], logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The factors that most values have."""
    about = np.round(logs / _ALIKE)
    order = np.lexsort((logs, about, sign))
    begins = np.flatnonzero(
        np.append(True, (np.diff(about[order]) != 0) | (np.diff(sign[order]) != 0))
    )
    counts = np.diff(begins, append=len(order))
    most = np.argsort(-counts, kind="stable")[:MOST_FEW]
    middle = order[begins[most] + counts[most] // 2]
    return np.unique(sign[middle] * np.exp(logs[middle]))
