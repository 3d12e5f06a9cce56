"""Chains of labels: sequences of feature rows, one label a row, decoded by Viterbi's algorithm.

    w.Psi(x, y) = sum_t emission[y_t].x_t + sum_{t > 1} transition[y_{t-1}][y_t],
    Delta(y, y') = sum_t cost[y_t, y'_t]; Hamming's loss unless given.

w holds the emissions, feature by feature (n_features x K), then the K x K transitions, previous
label first. Without transitions each row is decided on its own; sequences of one row are then the
multiclass SVM of Crammer & Singer, with any cost matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bridle import _core
from bridle.errors import OracleError
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse, make_rows
from bridle.matrix.threads import check_threads
from bridle.objective.rounding import TINY, gamma
from bridle.structured.bounds import MORE, Errors, longest_column
from bridle.structured.problem import SCALARS, Constraint, Cut, StructuredBase
from bridle.structured.sparse import from_entries
from numpy.typing import ArrayLike, NDArray

Labels = NDArray[np.int32]
Offsets = NDArray[np.int64]


def check_cost(cost: ArrayLike | None, n_labels: int) -> Array:
    """A K x K matrix of losses with a zero diagonal; Hamming's if there is none."""
    if cost is None:
        return 1.0 - np.eye(n_labels)
    matrix = np.ascontiguousarray(cost, np.float64)
    if matrix.shape != (n_labels, n_labels):
        raise ValueError(f"cost must have shape ({n_labels}, {n_labels}), got {matrix.shape}")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all() and not matrix.diagonal().any()):
        raise ValueError("cost must be finite and not negative, with a zero diagonal")
    return matrix


class Chains:
    """Sequences as the compiled core reads them: rows of X, cut at `offsets`.

    bias: the value of a constant feature, which gets the last row of the emissions; 0 for none.
    """

    def __init__(
        self,
        X: Any,
        offsets: ArrayLike,
        n_labels: int,
        *,
        labels: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        transitions: bool = True,
        bias: float = 0.0,
        n_threads: int = 1,
    ) -> None:
        self.X, self.rows, squared_norms = make_rows(X, bias, n_threads)
        self.offsets: Offsets = np.ascontiguousarray(offsets, np.int64)
        given = np.zeros(self.rows.n_rows, np.int32) if labels is None else labels
        self.labels: Labels = np.ascontiguousarray(given, np.int32)
        self.cost = check_cost(cost, n_labels)
        self.n_labels, self.transitions, self.bias = n_labels, transitions, bias
        self.n_threads = n_threads
        self.core = _core.structured.chain(
            self.rows, self.offsets, self.labels, self.cost.ravel(), n_labels, transitions
        )

        # For bounds on rounding.
        self.n_emissions = self.rows.n_features + (bias != 0)
        counts = np.diff(self.X.indptr) if is_sparse(self.X) else [self.rows.n_features]
        self.row_size = int(max(counts)) + 1
        self.row_lengths = np.sqrt(
            squared_norms * (1.0 + gamma(self.row_size + 8)) + self.row_size * TINY
        )
        self.sequence_lengths = np.diff(self.offsets)
        self.longest = int(self.sequence_lengths.max(initial=0))
        self.sequence_of_row = np.repeat(np.arange(self.n_sequences), self.sequence_lengths)
        self.highest_costs = self.cost.max(axis=1)[self.labels]

    @property
    def n_sequences(self) -> int:
        """How many sequences there are."""
        return len(self.offsets) - 1

    def argmax(self, w: Array, *, augmented: bool) -> tuple[Labels, Array, Array]:
        """The best path of every sequence, its value, and (if augmented) the score of the truth."""
        paths = np.empty(self.rows.n_rows, np.int32)
        values, truths = np.empty(self.n_sequences), np.empty(self.n_sequences)
        self.core.argmax(w, augmented, paths, values, truths, self.n_threads)
        return paths, values, truths

    def max_marginals(self, w: Array) -> Array:
        """Of every row and label, the value of the best path that goes through it."""
        best = np.empty(self.rows.n_rows * self.n_labels)
        self.core.max_through(w, best, self.n_threads)
        return best.reshape(-1, self.n_labels)

    def marginals(self, w: Array) -> Array:
        """Of every row and label, the part of the paths through it, each counted exp(value)."""
        sums = np.empty(self.rows.n_rows * self.n_labels)
        self.core.log_sum_through(w, sums, self.n_threads)
        table = sums.reshape(-1, self.n_labels)
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.sum(axis=1, keepdims=True)
        return table


class ChainProblem(StructuredBase):
    """The structural SVM on chains, with oracle passes and bcfw in the compiled core.

    X: a matrix with a row for each position of each sequence, read in place. offsets: sequence i is
    the rows offsets[i] to offsets[i + 1]. labels: 0..n_labels-1 for each row.

    Examples
    --------
    >>> import numpy as np
    >>> X, labels = np.eye(4), [0, 1, 0, 1]  # two sequences of two positions
    >>> problem = bridle.ChainProblem(X, [0, 2, 4], labels, n_labels=2, C=1.0)
    >>> bridle.solve(problem, "bcfw").certificate.relative_gap <= 1e-3
    True
    """

    def __init__(
        self,
        X: Any,
        offsets: ArrayLike,
        labels: ArrayLike,
        n_labels: int,
        C: float = 1.0,
        *,
        cost: ArrayLike | None = None,
        transitions: bool = True,
        bias: float = 0.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> None:
        threads = check_threads(n_threads)
        self.chains = Chains(
            X, offsets, n_labels, labels=labels, cost=cost, transitions=transitions, bias=bias,
            n_threads=max(1, threads),
        )  # fmt: skip
        super().__init__(
            self.chains.n_sequences, self.chains.core.n_weights, C, sample_weight, n_threads
        )

    def hinges_above(self, w: Array) -> Array:  # noqa: D102
        _, values, truths = self._pass(w)
        return np.maximum(values - truths + self._slips(w), 0.0)

    def _slips(self, w: Array) -> Array:
        """How far value - truth may be from the exact maximum, for rounding of w, too.

        The score of any path is a sum of products, each rounded as often as a row has features and
        a sequence has positions, at most. Of two paths, one of which is the best.
        """
        chains = self.chains
        emissions, transitions = np.split(w, [chains.n_emissions * chains.n_labels])
        table = emissions.reshape(-1, chains.n_labels)
        length = longest_column(table)
        position = length * chains.row_lengths + chains.highest_costs
        size: Array = np.bincount(chains.sequence_of_row, position, self.n_rows).astype(np.float64)
        size += chains.sequence_lengths * float(np.abs(transitions).max(initial=0.0))
        part = gamma(chains.row_size + 4 * chains.longest + SCALARS)
        tiny = chains.sequence_lengths * (chains.row_size * TINY)
        return np.asarray(3.0 * MORE * part * size + tiny)

    @property
    def least_loss(self) -> float:
        """The smallest cost of a wrong label; 0, which proves no margin, if some cost nothing."""
        K = self.chains.n_labels
        return float(self.chains.cost[~np.eye(K, dtype=bool)].min(initial=np.inf))

    def cut(self, w: Array) -> Cut:  # noqa: D102
        paths, values, truths = self._pass(w)
        cost, core = self.cost, self.chains.core
        features, losses = np.zeros(self.n_features), np.empty(self.n_rows)
        core.differences(paths, cost, features)
        core.losses(paths, losses)
        value = float(cost @ np.maximum(values - truths, 0.0))
        wrong = paths != self.chains.labels
        return Cut(features, float(cost @ losses), value, self._errors_of_sum(wrong, losses))

    def _errors_of_sum(self, wrong: NDArray[np.bool_], losses: Array) -> Errors:
        """Errors of a cut, where these rows have wrong labels."""
        chains = self.chains
        # An entry of W changes twice, at most, at each wrong label, and so it does for transitions.
        entries = 2 * wrong * chains.row_lengths
        if chains.transitions:
            after = np.zeros_like(wrong)
            after[1:] = wrong[:-1]
            entries = entries + 2.0 * (wrong | after)
        size = self.cost @ np.bincount(chains.sequence_of_row, entries, self.n_rows)
        part = gamma(4 * int(wrong.sum()) + SCALARS)
        tiny = chains.rows.n_rows * chains.row_size * TINY
        loss = gamma(self.n_rows + chains.longest + SCALARS) * float(self.cost @ losses)
        return Errors(MORE * part * float(size) + tiny, MORE * loss + tiny)

    def constraint(self, i: int, w: Array) -> Constraint:  # noqa: D102
        path, loss = self.chains.core.answer(i, w)
        return self._constraint(i, path, loss)

    def constraints(self, w: Array) -> Sequence[Constraint]:  # noqa: D102
        paths, _, _ = self._pass(w)
        losses = np.empty(self.n_rows)
        self.chains.core.losses(paths, losses)
        return [
            self._constraint(i, paths[self._positions(i)], float(losses[i]))
            for i in range(self.n_rows)
        ]

    def blocks(self, *, average: bool) -> Any:  # noqa: D102
        return _core.structured.chain_frank_wolfe(self.chains.core, self.cost)

    def _pass(self, w: Array) -> tuple[Labels, Array, Array]:
        paths, values, truths = self.chains.argmax(w, augmented=True)
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise OracleError(bad, "its score is not finite")
        return paths, values, truths

    def _constraint(self, i: int, path: Labels, loss: float) -> Constraint:
        indices, values = self.chains.core.difference(i, path)
        n = len(path)
        part = gamma(2 * n + 2) if n > 1 else 0.0  # a single position has nothing to add up
        errors = Errors(part * float(np.abs(values).sum()), gamma(n + 2) * loss if n > 1 else 0.0)
        terms = (indices, values) if self.hard_margin else None
        return Constraint(from_entries(indices, values), loss, errors, terms)

    def _positions(self, i: int) -> slice:
        return slice(int(self.chains.offsets[i]), int(self.chains.offsets[i + 1]))
