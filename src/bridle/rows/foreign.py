"""Dual coordinate ascent in Python, for losses that the compiled core does not know.

Slow, and right: the twin of the compiled step for any loss that has a `step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.objective.losses import Loss
from bridle.rows.base import Piece
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.rows.memory import MemoryRows

Entries = tuple[Any, NDArray[Any]]


def entries_of(rows: MemoryRows) -> Callable[[int], Entries]:
    """The columns and values of a row, with the constant feature last."""
    X, constant, last = rows.X, rows.constant, rows.n_features
    if not is_sparse(X):
        everything = slice(None)

        def dense(i: int) -> Entries:
            return everything, np.append(X[i].astype(np.float64), constant)

        return dense
    indptr, indices, data = X.indptr, X.indices, X.data

    def sparse(i: int) -> Entries:
        own = slice(int(indptr[i]), int(indptr[i + 1]))
        return np.append(indices[own], last), np.append(data[own].astype(np.float64), constant)

    return sparse


def visit(
    piece: Piece, loss: Loss, alpha: Array, w: Array, order: NDArray[Any], b: float = 0.0
) -> None:
    """The best alpha_i of each row in turn; alpha and w = w(alpha) are moved in place.

    b: a bias that stays where it is.
    """
    entries, norms = entries_of(piece.rows), piece.rows.squared_norms
    for i in order.tolist():
        if piece.cost[i] == 0:
            continue
        columns, values = entries(i)
        y = piece.y[i]
        p = y * (float(w[columns] @ values) + b)
        if piece.targets is not None:
            p -= float(piece.targets[i])
        new = loss.step(float(alpha[i]), p, float(norms[i]), float(piece.cost[i]))
        w[columns] += (new - alpha[i]) * y * values
        alpha[i] = new


def ascend(piece: Piece, loss: Loss, alpha: Array, b: float, seed: int) -> None:
    """One pass over all rows in random order, from a point inside the box; b is a free bias."""
    w = piece.rows.combine(alpha * piece.y)
    visit(piece, loss, alpha, w, np.random.default_rng(seed).permutation(len(alpha)), b)
    alpha[:] = piece.clipped(alpha)
