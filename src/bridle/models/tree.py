"""Training and using a parser: what TreeSVM is made of. Needs no scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from bridle import _core
from bridle.data.trees import Tree
from bridle.objective.certificate import Certificate
from bridle.structured.grammar import Grammar, TreeOracle
from bridle.structured.oracle import Array
from numpy.typing import NDArray


@dataclass(frozen=True)
class TreeModel:
    """A trained parser: a grammar and its weights."""

    w: Array
    grammar: Grammar
    C: float
    certificate: Certificate
    n_rows: int
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "tree"

    def __post_init__(self) -> None:
        n_weights = self.grammar.tables.core.n_weights
        if self.w.shape != (n_weights,):
            raise ValueError(f"{len(self.w)} weights do not fit a grammar of {n_weights}")
        if not np.isfinite(self.w).all():
            raise ValueError("the weights contain NaN or infinity")

    @cached_property
    def oracle(self) -> TreeOracle:
        """The oracle of this grammar."""
        return TreeOracle(self.grammar)

    def parse(
        self, sentences: Sequence[Sequence[str]], *, n_threads: int | None = None
    ) -> list[Tree | None]:
        """The best parse of every sentence; None where the grammar has none."""
        threads = _core.hardware_threads() if n_threads is None else n_threads
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

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`: of the weights only those that are not 0."""
        from bridle.files.container import json_number
        from bridle.models.header import certificates_to_json

        used = np.flatnonzero(self.w)
        fields = {
            "grammar": self.grammar.as_json(), "C": json_number(self.C), "n_rows": self.n_rows,
            "certificates": certificates_to_json((self.certificate,)), "info": self.info,
        }  # fmt: skip
        return fields, {"indices": used, "weights": self.w[used]}

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        from bridle.models.header import certificates_from_json

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
        (certificate,) = certificates_from_json(fields["certificates"])
        return cls(
            w, grammar, float(fields["C"]), certificate, int(fields["n_rows"]),
            dict(fields["info"]),
        )  # fmt: skip


def flat_tree(grammar: Grammar, words: Sequence[str]) -> Tree:
    """The most frequent root over the most frequent tags: what is left without a parse."""
    root = max(grammar.roots, key=lambda s: grammar.roots[s]).labels[0]
    tags = []
    for word in words:
        seen = grammar.lexicon[grammar.terminal(word)]
        tags.append(Tree(max(seen, key=lambda s: seen[s]).labels[-1], (word,)))
    return Tree(root, tuple(tags))


__all__ = ["TreeModel", "flat_tree"]
