"""A context-free grammar, read from trees; see `tree` for its weights and its oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

from bridle.data.trees import Tree
from bridle.structured.tables import Tables, branches_of, label_of
from bridle.structured.trees import Node, Symbol, binarise, word_class

Rule = tuple[Symbol, Symbol, Symbol]  # parent, left child, right child


@dataclass(frozen=True)
class Grammar:
    """Rules of a treebank, and how often each was seen.

    rules: in order of their left child. lexicon: for each terminal its symbols. A terminal is a
    word that was seen often enough, or a class of rare words; "" is a class that was never seen,
    which can be whatever rare words were. cues: terminals that have weights of their own at the
    edges of spans.

    Examples
    --------
    >>> trees = bridle.read_trees("(S (NP (DT the) (NN cat)) (VP (VBZ runs)))")
    >>> len(bridle.Grammar.read(trees).rules)
    2
    """

    order: int
    symbols: tuple[Symbol, ...]
    rules: dict[Rule, int]
    lexicon: dict[str, dict[Symbol, int]]
    roots: dict[Symbol, int]
    cues: tuple[str, ...]

    @classmethod
    def read(
        cls, trees: Sequence[Tree], *, order: int = 0, rare: int = 1, frequent: int = 10
    ) -> Self:
        """From trees. order: of the Markov chain over siblings, see `trees`. rare: words seen no
        more often than this are replaced by their class. frequent: how often a word must be seen
        to be a cue itself.
        """
        if not trees:
            raise ValueError("there are no trees to read a grammar from")
        if order < 0 or rare < 0:
            raise ValueError(f"order and rare must not be negative, got {order} and {rare}")
        counts = Counter(word for tree in trees for word in tree.words)
        rules: Counter[Rule] = Counter()
        roots: Counter[Symbol] = Counter()
        lexicon: dict[str, Counter[Symbol]] = {"": Counter()}
        for tree in trees:
            nodes, words = binarise(tree, order), tree.words
            roots[nodes[0].symbol] += 1
            rules.update(_rules(nodes))
            for symbol, begin, end in nodes:
                if end - begin == 1:
                    word = words[begin]
                    known = counts[word] > rare
                    terminal = word if known else word_class(word)
                    lexicon.setdefault(terminal, Counter())[symbol] += 1
                    if not known:
                        lexicon[""][symbol] += 1
        if not lexicon[""]:  # no rare words at all: an unseen one may be anything
            for seen in [*lexicon.values()]:
                lexicon[""].update(seen)
        symbols = {s for rule in rules for s in rule}.union(roots, *lexicon.values())
        cues = [t for t, seen in lexicon.items() if t.startswith("<") or seen.total() >= frequent]
        return cls(
            order,
            tuple(sorted(symbols, key=_sorting)),
            {rule: rules[rule] for rule in sorted(rules, key=_by_left)},
            {t: {s: seen[s] for s in sorted(seen, key=_sorting)} for t, seen in lexicon.items()},
            dict(sorted(roots.items(), key=lambda item: _sorting(item[0]))),
            tuple(sorted(cues)),
        )

    def terminal(self, word: str) -> str:
        """The word itself, its class, or ""."""
        if word and word in self.lexicon:
            return word
        name = word_class(word)
        return name if name in self.lexicon else ""

    @cached_property
    def labels(self) -> list[tuple[tuple[str, ...], bool]]:
        """What spans have weights for: the labels of symbols, whole nodes and parts apart."""
        return sorted({label_of(symbol) for symbol in self.symbols})

    @cached_property
    def tables(self) -> Tables:
        """The same with numbers instead of names."""
        return Tables(self)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle: without the tables, which are made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def as_json(self) -> dict[str, Any]:
        """For model files."""
        number = {symbol: k for k, symbol in enumerate(self.symbols)}
        return {
            "order": self.order, "cues": list(self.cues),
            "symbols": [[list(s.labels), None if s.before is None else list(s.before)]
                        for s in self.symbols],
            "rules": [[*(number[s] for s in rule), n] for rule, n in self.rules.items()],
            "lexicon": {t: [[number[s], n] for s, n in seen.items()]
                        for t, seen in self.lexicon.items()},
            "roots": [[number[s], n] for s, n in self.roots.items()],
        }  # fmt: skip

    @classmethod
    def from_json(cls, parts: Mapping[str, Any]) -> Self:
        """The grammar again; ValueError, TypeError or KeyError if it is none."""
        symbols = tuple(
            Symbol(_strings(labels), None if before is None else _strings(before))
            for labels, before in parts["symbols"]
        )
        if len(set(symbols)) < len(symbols) or not all(symbol.labels for symbol in symbols):
            raise ValueError("the symbols of a grammar must be different and have labels")

        def symbol(k: int) -> Symbol:
            if not isinstance(k, int) or not 0 <= k < len(symbols):
                raise ValueError(f"a grammar without a symbol {k!r:.20}")
            return symbols[k]

        rules = {(symbol(a), symbol(b), symbol(c)): int(n) for a, b, c, n in parts["rules"]}
        if list(rules) != sorted(rules, key=_by_left):
            raise ValueError("the rules of a grammar must be in order")
        lexicon = {
            str(terminal): {symbol(k): int(n) for k, n in seen}
            for terminal, seen in dict(parts["lexicon"]).items()
        }
        roots = {symbol(k): int(n) for k, n in parts["roots"]}
        if not roots or "" not in lexicon or not all(lexicon.values()):
            raise ValueError("a grammar needs roots, and symbols for every word")
        counts = [
            *rules.values(),
            *roots.values(),
            *(n for s in lexicon.values() for n in s.values()),
        ]
        if min(counts) < 1:
            raise ValueError("what a grammar has was seen at least once")
        cues = _strings(parts["cues"])
        if len(set(cues)) < len(cues):
            raise ValueError("the cues of a grammar must be different")
        if any(s.before is not None for s in set(roots).union(*lexicon.values())):
            raise ValueError("a part of a node can be neither a root nor the symbol of a word")
        return cls(int(parts["order"]), symbols, rules, lexicon, roots, cues)


def _strings(names: Any) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise TypeError("names must be strings")
    return tuple(names)


def _sorting(symbol: Symbol) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    return symbol.labels, symbol.before is not None, symbol.before or ()


def _by_left(rule: Rule) -> tuple[Any, Any, Any]:
    parent, left, right = rule
    return _sorting(left), _sorting(right), _sorting(parent)


def _rules(nodes: Sequence[Node]) -> Iterator[Rule]:
    """The binary rules of a tree, parents first."""
    for k, rule, _ in branches_of(nodes):
        yield nodes[k].symbol, nodes[rule[0]].symbol, nodes[rule[1]].symbol
