"""A trained parser: what TreeSVM leaves behind. Needs no scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from bridle.data.trees import Tree
from bridle.matrix.arrays import Array
from bridle.matrix.threads import check_threads
from bridle.models.structural import Arrays, Fields, StructuralModel, finite_weights
from bridle.structured.grammar import Grammar
from bridle.structured.tree import TreeOracle
from numpy.typing import NDArray


@dataclass(frozen=True)
class TreeModel(StructuralModel):
    """A trained parser: a grammar and its weights."""

    w: Array
    grammar: Grammar
    n_rows: int

    kind: ClassVar[str] = "tree"

    def __post_init__(self) -> None:
        finite_weights(self.w, (self.grammar.tables.core.n_weights,))

    @cached_property
    def oracle(self) -> TreeOracle:
        """The oracle of this grammar."""
        return TreeOracle(self.grammar)

    def parse(
        self, sentences: Sequence[Sequence[str]], *, n_threads: int | None = None
    ) -> list[Tree | None]:
        """The best parse of every sentence; None where the grammar has none."""
        threads = check_threads(n_threads)
        return TreeOracle(self.grammar, n_threads=threads).parse(sentences, self.w)

    def predict(
        self, sentences: Sequence[Sequence[str]], *, n_threads: int | None = None
    ) -> list[Tree]:
        """The best parse of every sentence; a flat tree where the grammar has none."""
        parses = self.parse(sentences, n_threads=n_threads)
        return [
            flat_tree(self.grammar, x) if tree is None else tree
            for x, tree in zip(sentences, parses, strict=True)
        ]

    def own_parts(self) -> tuple[Fields, Arrays]:
        """Of the weights only those that are not 0."""
        used = np.flatnonzero(self.w)
        fields = {"grammar": self.grammar.as_json(), "n_rows": self.n_rows}
        return fields, {"indices": used, "weights": self.w[used]}

    @classmethod
    def own_arguments(  # noqa: D102
        cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        grammar = Grammar.from_json(fields["grammar"])
        indices, weights = arrays["indices"], arrays["weights"]
        w = np.zeros(grammar.tables.core.n_weights)
        if indices.dtype.kind != "i" or weights.dtype.kind != "f":
            raise ValueError("weights need whole numbers for their places")
        if indices.ndim != 1 or indices.shape != weights.shape:
            raise ValueError("there must be one index for each weight")
        if len(indices) and not 0 <= indices.min() <= indices.max() < len(w):
            raise ValueError("a weight for something that the grammar does not have")
        w[indices] = weights
        return {"w": w, "grammar": grammar, "n_rows": int(fields["n_rows"])}


def flat_tree(grammar: Grammar, words: Sequence[str]) -> Tree:
    """The most frequent root over the most frequent tags: what is left without a parse."""
    root = max(grammar.roots, key=lambda s: grammar.roots[s]).labels[0]
    tags = []
    for word in words:
        seen = grammar.lexicon[grammar.terminal(word)]
        tags.append(Tree(max(seen, key=lambda s: seen[s]).labels[-1], (word,)))
    return Tree(root, tuple(tags))


__all__ = ["TreeModel", "flat_tree"]
