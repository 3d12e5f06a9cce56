"""Parts in this process, one after the other: for tests, and to simulate a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bridle.matrix.door import as_matrix
from bridle.rows.cluster.blocks import Block
from bridle.rows.cluster.packed import pack, weight_of
from bridle.rows.cluster.part import Part


class LocalParts:
    """The rows of X in n_parts parts. `calls` counts messages, `bytes_moved` what they would weigh.

    Consecutive rows make a part, or shuffled ones if a seed is given. n_threads: of each part.
    """

    __row_parts__ = True  # see `bridle.rows.homes`

    def __init__(
        self, X: Any, y: Any, n_parts: int, sample_weight: Any = None, *,
        shuffle: int | None = None, n_threads: int = 1,
    ) -> None:  # fmt: skip
        X, y = as_matrix(X), np.asarray(y)
        if not 1 <= n_parts <= X.shape[0]:
            raise ValueError(f"n_parts must lie between 1 and {X.shape[0]} rows, got {n_parts}")
        rows = np.arange(X.shape[0])
        if shuffle is not None:
            rows = np.random.default_rng(shuffle).permutation(rows)
        weight = None if sample_weight is None else np.asarray(sample_weight)
        self.order = rows  # of the gathered dual variables, among the rows of X
        self._blocks = [
            Block(f"part {k}", X[own], y[own], None if weight is None else weight[own])
            for k, own in enumerate(np.array_split(rows, n_parts))
        ]
        self.n_threads = n_threads
        self.parts = [Part(k, [block], n_threads) for k, block in enumerate(self._blocks)]
        self.calls, self.bytes_moved, self.seconds_overhead = 0, 0, 0.0
        self.unwanted: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self.parts)

    def call(self, method: str, *arguments: Any, only: Sequence[int] | None = None) -> list[Any]:
        """The answers of all parts, or of some, in order."""
        chosen = range(len(self)) if only is None else only
        self.calls += 1
        answers = [getattr(self.parts[k], method)(*arguments) for k in chosen]
        self.bytes_moved += len(answers) * weight_of(pack(arguments)) + weight_of(pack(answers))
        return answers

    def lose(self, k: int) -> None:
        """What happens when a worker dies: the rows are read again, and nothing else is known."""
        self.parts[k] = Part(k, [self._blocks[k]], self.n_threads)
