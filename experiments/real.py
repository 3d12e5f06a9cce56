"""Real sets, by name, from the folder that BRIDLE_DATA names: one class against the rest."""

from __future__ import annotations

import numpy as np
from benchmarks.data import Missing, real

from experiments.common import Data

# The rows to train on, the class, and the rows to test on: a fifth of the former if there are none.
SETS: dict[str, tuple[str, float, str | None]] = {
    "a9a": ("binary/a9a", 1, "binary/a9a.t"),
    "covtype": ("binary/covtype.binary.scale", 1, None),
    "20news": ("multiclass/20news.train.svm", 1, "multiclass/20news.test.svm"),
    "commits": ("multiclass/commits7.100k.svm", 1, None),
}
MOST_TEST_ROWS = 20_000


def named(name: str, rows: int | None = None, cap: float = Data.cap) -> Data:
    """A set whose rows are shuffled, or so many of them."""
    train, positive, test = SETS[name]
    try:
        X, y = real(train, positive)()
        X_test, y_test = (X[:0], y[:0]) if test is None else real(test, positive)()
    except Missing as reason:
        raise SystemExit(f"{name} is not here: {reason}") from None
    order = np.random.default_rng(0).permutation(len(y))
    if test is None:
        held_out, order = np.split(order, [min(len(y) // 5, MOST_TEST_ROWS)])
        X_test, y_test = X[held_out], y[held_out]
    else:
        X_test.resize((X_test.shape[0], X.shape[1]))
    order = order[:rows]
    label = f"{name}, {len(order):,} rows"
    return Data(label, X[order], y[order], X_test, y_test, own=True, cap=cap)
