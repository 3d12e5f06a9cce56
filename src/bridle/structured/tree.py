"""Parsing: a weighted context-free grammar read from trees, decoded by the CKY algorithm.

    w.Psi(x, y) = sum over the binarised tree's nodes of the weights of its rules, A -> B C or
    A -> word, and of (label, cue) for cues at the edges of its span and at its split point;
    Delta(y, y') = the number of labelled constituents (label, begin, end) that only one of the two
    trees has; tags of words do not count.

The loss decomposes over the nodes of y', so that the loss-augmented argmax is exact: see
`core/structured/cky.hpp`. Features at the edges of spans are those of Hall, Durrett & Klein, "Less
grammar, more features", ACL 2014: a rare word's class, a frequent word itself, and its most
frequent tag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
from bridle.data.trees import Tree
from bridle.matrix.arrays import Array
from bridle.objective.rounding import gamma
from bridle.structured.grammar import Grammar
from bridle.structured.sparse import SparseVector
from bridle.structured.trees import difference


class TreeOracle:
    """An oracle for parsing. x is a list of words, y a Tree.

    A sentence that the grammar cannot parse is an error here; `parse` says None.

    Examples
    --------
    >>> trees = bridle.read_trees("(S (NP (DT the) (NN cat)) (VP (VBZ runs)))")
    >>> oracle = bridle.TreeOracle(bridle.Grammar.read(trees))
    >>> oracle.loss(trees[0], trees[0])
    0.0
    """

    def __init__(self, grammar: Grammar, *, n_threads: int = 1) -> None:
        if n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self.grammar, self.n_threads = grammar, n_threads
        self.tables = grammar.tables
        self.n_features = int(self.tables.core.n_weights)

    def as_json(self) -> dict[str, Any]:
        """For model files."""
        return self.grammar.as_json()

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Self:
        """The oracle again."""
        return cls(Grammar.from_json(parts))

    def features(self, x: Sequence[str], y: Tree) -> SparseVector:
        """Counts of rules, of words under symbols, and of cues at spans."""
        tables = self.tables
        if list(x) != y.words:
            raise ValueError(f"the tree has other words than the sentence: {y!s:.80}")
        return tables.features(*tables.encode(x), tables.numbered(y))

    def loss(self, y: Tree, other: Tree) -> float:
        """How many labelled constituents only one of the two has."""
        return float(difference(y, other))

    def argmax(self, x: Sequence[str], w: Array, truth: Tree | None = None) -> Tree:
        """The best parse; with a truth, the one of largest loss plus score."""
        return self.argmax_batch([x], w, None if truth is None else [truth])[0]

    def argmax_batch(
        self, xs: Sequence[Sequence[str]], w: Array, truths: Sequence[Tree] | None = None
    ) -> list[Tree]:
        """The best parse of every sentence."""
        answers = self._answers(xs, w, truths)
        for i, answer in enumerate(answers):
            if answer is None:
                raise ValueError(f"the grammar cannot parse sentence {i}: {' '.join(xs[i])!r:.80}")
        return [answer for answer in answers if answer is not None]

    def parse(self, xs: Sequence[Sequence[str]], w: Array) -> list[Tree | None]:
        """The best parse of every sentence; None where the grammar has none."""
        return self._answers(xs, w, None)

    def outputs(self, x: Sequence[str]) -> Iterator[Tree]:
        """Every parse of a short sentence, by enumeration."""
        terminals, _ = self.tables.encode(x)
        rules = list(self.tables.rule)
        entries = list(self.tables.entry)

        def below(symbol: int, i: int, j: int) -> Iterator[list[tuple[int, int, int]]]:
            if j - i == 1:
                if (int(terminals[i]), symbol) in entries:
                    yield [(symbol, i, j)]
                return
            for parent, left, right in rules:
                if parent == symbol:
                    for k in range(i + 1, j):
                        for a, b in product(below(left, i, k), list(below(right, k, j))):
                            yield [(symbol, i, j), *a, *b]

        for root in self.tables.root:
            for nodes in below(root, 0, len(x)):
                yield self.tables.named(np.array(nodes, np.int32), x)

    def rounding(self, xs: Sequence[Sequence[str]], w: Array) -> Array:
        """How far the value of each answer may be from the best because scores are rounded."""
        n, largest = np.array([float(len(x)) for x in xs]), float(np.abs(w).max(initial=0.0))
        if largest == 0:  # whole numbers are not rounded
            return np.zeros(len(n))
        # A node has fewer than 20 weights and, with the loss, at most two constituents a label.
        labels = max(len(symbol.labels) for symbol in self.grammar.symbols)
        part = gamma(50.0 * float(n.max(initial=0.0)))
        return np.asarray(2.0 * part * n * (40.0 * largest + 4.0 * labels))

    def _answers(
        self, xs: Sequence[Sequence[str]], w: Array, truths: Sequence[Tree] | None
    ) -> list[Tree | None]:
        tables = self.tables
        sentences = [tables.encode(x) for x in xs]
        true = None if truths is None else [tables.numbered(tree) for tree in truths]
        answers = tables.parse(sentences, w, true, n_threads=self.n_threads)
        return [
            None if nodes is None else tables.named(nodes, x)
            for nodes, x in zip(answers, xs, strict=True)
        ]
