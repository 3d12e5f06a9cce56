"""Several labels at once: which ones a row has, and which like to be together.

    w.Psi(x, y) = sum_l y_l weights[l].x + sum_{l < m} y_l y_m pairs[l, m],   y in {0, 1}^L;
    Delta(y, y') = the number of labels that differ: Hamming's loss.

Without pairs each label is decided on its own. With them the best set of labels is found exactly by
branch and bound (`core/structured/multilabel.hpp`), which may take time exponential in the number
of labels: MOST_LABELS is where this ends in an error instead. (Finley & Joachims, "Training
structural SVMs when exact inference is intractable", ICML 2008, where exact inference is the
reference.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.rounding import gamma
from bridle.structured.bounds import length_above
from bridle.structured.sparse import SparseVector, from_entries
from numpy.typing import NDArray

MOST_LABELS = 24  # with pairs
Labels = tuple[int, ...]


def best_sets(scores: Array, pairs: Array | None, n_threads: int) -> NDArray[np.uint8]:
    """The best set of labels for every row of scores; pairs: weights above the diagonal."""
    if pairs is None:
        return (scores > 0).astype(np.uint8)
    sets = np.empty(scores.shape, np.uint8)
    _core.structured.label_sets(scores, pairs, sets, np.empty(len(scores)), n_threads)
    return sets


class MultilabelOracle:
    """An oracle for sets of labels. x is a vector or a pair (indices, values), y a tuple of 0, 1.

    w holds the weights, input by input (n_inputs x n_labels), then those of the pairs (0, 1),
    (0, 2), ..., (1, 2), ...

    Examples
    --------
    >>> import numpy as np
    >>> oracle = bridle.MultilabelOracle(n_inputs=2, n_labels=2)
    >>> oracle.argmax([1.0, 0.0], np.array([1.0, -1.0, 0.0, 0.0, 0.0]))  # inputs, then the pair
    (1, 0)
    """

    def __init__(
        self, n_inputs: int, n_labels: int, *, pairs: bool = True, n_threads: int = 1
    ) -> None:
        if n_inputs < 1 or n_labels < 1:
            raise ValueError(f"there are {n_inputs} inputs and {n_labels} labels")
        if pairs and n_labels > MOST_LABELS:
            raise ValueError(
                f"the best set of {n_labels} labels cannot be searched with pairs, only up to "
                f"{MOST_LABELS}; use pairs=False"
            )
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self.n_inputs, self.n_labels, self.pairs = n_inputs, n_labels, pairs
        self.n_threads = n_threads
        self._upper = np.triu_indices(n_labels if pairs else 0, 1)
        self.n_features = n_inputs * n_labels + (len(self._upper[0]) if pairs else 0)

    def features(self, x: Any, y: Labels) -> SparseVector:
        """x for each label that is set, then which pairs are."""
        indices, values = self._entries(x)
        chosen = self._check(y)
        on = np.flatnonzero(chosen)
        places = [(indices[:, None] * self.n_labels + on).ravel()]
        amounts = [np.repeat(values, len(on))]
        if self.pairs:
            both = np.flatnonzero(chosen[self._upper[0]] & chosen[self._upper[1]])
            places.append(self.n_inputs * self.n_labels + both)
            amounts.append(np.ones(len(both)))
        return from_entries(np.concatenate(places), np.concatenate(amounts))

    def loss(self, y: Labels, other: Labels) -> float:
        """How many labels differ."""
        return float(np.count_nonzero(self._check(y) != self._check(other)))

    def argmax(self, x: Any, w: Array, truth: Labels | None = None) -> Labels:
        """The best set of labels; with a truth, the one of largest loss plus score."""
        return self.argmax_batch([x], w, None if truth is None else [truth])[0]

    def argmax_batch(
        self, xs: Sequence[Any], w: Array, truths: Sequence[Labels] | None = None
    ) -> list[Labels]:
        """The best set for every row."""
        table, pairs = self.weights(w)
        scores = np.empty((len(xs), self.n_labels))
        for row, x in zip(scores, xs, strict=True):
            indices, values = self._entries(x)
            row[:] = values @ table[indices]
        if truths is not None:  # a label adds 1 where the truth has not got it, else it saves 1
            scores += 1.0 - 2.0 * np.array([self._check(y) for y in truths])
        return [tuple(row) for row in best_sets(scores, pairs, self.n_threads).tolist()]

    def rounding(self, xs: Sequence[Any], w: Array) -> Array:
        """How far the value of each answer may be from the best because scores are rounded."""
        entries = [self._entries(x)[1] for x in xs]
        lengths = np.array([length_above(values) for values in entries])
        # sum_l |x||w_l| <= |x| sqrt(L) |table|, and as much for the pairs; twice, for two sets.
        size = (lengths + self.n_labels) * (self.n_labels * length_above(w))
        longest = max(map(len, entries), default=0)
        part = gamma(longest + 4 * self.n_labels**2 + 8)
        return np.asarray(2.0 * part * (size + self.n_labels))

    def weights(self, w: Array) -> tuple[Array, Array | None]:
        """The parts of w: n_inputs x n_labels, and the pairs as a matrix above its diagonal."""
        table, rest = np.split(w, [self.n_inputs * self.n_labels])
        pairs = None
        if self.pairs:
            pairs = np.zeros((self.n_labels, self.n_labels))
            pairs[self._upper] = rest
        return table.reshape(self.n_inputs, self.n_labels), pairs

    def as_json(self) -> dict[str, Any]:
        """For model files."""
        return {"n_inputs": self.n_inputs, "n_labels": self.n_labels, "pairs": self.pairs}

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Self:
        """The oracle again."""
        return cls(int(parts["n_inputs"]), int(parts["n_labels"]), pairs=bool(parts["pairs"]))

    def outputs(self, x: Any) -> Iterator[Labels]:
        """Every set of labels."""
        return product((0, 1), repeat=self.n_labels)

    def _entries(self, x: Any) -> tuple[NDArray[np.int64], Array]:
        if isinstance(x, tuple):
            return np.asarray(x[0], np.int64), np.asarray(x[1], np.float64)
        values = np.asarray(x, np.float64)
        if values.shape != (self.n_inputs,):
            raise ValueError(f"x has shape {values.shape}, expected ({self.n_inputs},)")
        return np.arange(self.n_inputs), values

    def _check(self, y: Any) -> NDArray[np.bool_]:
        chosen = np.asarray(y)
        if chosen.shape != (self.n_labels,) or not np.isin(chosen, (0, 1)).all():
            raise ValueError(f"labels must be {self.n_labels} times 0 or 1, got {y!r:.60}")
        return chosen.astype(bool)
