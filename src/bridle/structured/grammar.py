"""Parsing: a weighted context-free grammar read from trees, decoded by the CKY algorithm.

    w.Psi(x, y) = sum over the binarised tree's nodes of the weights of its rules, A -> B C or
    A -> word, and of (label, cue) for cues at the edges of its span and at its split point;
    Delta(y, y') = the number of labelled constituents (label, begin, end) that only one of the two
    trees has; tags of words do not count.

The loss decomposes over the nodes of y', so that the loss-augmented argmax is exact: see
`core/cky.hpp`. Features at the edges of spans are those of Hall, Durrett & Klein, "Less grammar,
more features", ACL 2014: a rare word's class, a frequent word itself, and its most frequent tag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Self

import numpy as np
from bridle import _core
from bridle.data.trees import Tree
from bridle.structured.sparse import Array, SparseVector, from_entries
from bridle.structured.trees import Node, Symbol, binarise, debinarise, difference, word_class
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Rule = tuple[Symbol, Symbol, Symbol]  # parent, left child, right child

N_LENGTHS = 12  # spans of this many words or more are alike
N_CUES = 2  # of a word: what it is, and its most frequent tag
MOST_CELLS = 1 << 27  # spans times symbols of a sentence: 2 GB for each thread


@dataclass(frozen=True)
class Grammar:
    """Rules of a treebank, and how often each was seen.

    rules: in order of their left child. lexicon: for each terminal its symbols. A terminal is a
    word that was seen often enough, or a class of rare words; "" is a class that was never seen,
    which can be whatever rare words were. cues: terminals that have weights of their own at the
    edges of spans.
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
        return sorted({_label(symbol) for symbol in self.symbols})

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


def _label(symbol: Symbol) -> tuple[tuple[str, ...], bool]:
    return symbol.labels, symbol.before is not None


def _rules(nodes: Sequence[Node]) -> Iterator[Rule]:
    """The binary rules of a tree, parents first."""
    for k, rule, _ in _branches(nodes):
        yield nodes[k].symbol, nodes[rule[0]].symbol, nodes[rule[1]].symbol


def _branches(nodes: Sequence[Any]) -> Iterator[tuple[int, tuple[int, int], int]]:
    """For each node with children: its place, theirs, and where the right one begins."""
    at = {(begin, end): k for k, (_, begin, end) in enumerate(nodes)}
    for k, (_, begin, end) in enumerate(nodes):
        if end - begin > 1:
            split = nodes[k + 1][2]
            yield k, (k + 1, at[split, end]), split


def _tables_of(grammar: Grammar) -> Tables:
    return grammar.tables


class Tables:
    """A grammar with numbers instead of names, as the compiled core reads it."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.symbol = {symbol: k for k, symbol in enumerate(grammar.symbols)}
        self.rule = {tuple(self.symbol[s] for s in rule): k for k, rule in enumerate(grammar.rules)}
        self.terminal = {t: k for k, t in enumerate(grammar.lexicon)}
        self.entry: dict[tuple[int, int], int] = {}  # (terminal, symbol)
        for t, seen in enumerate(grammar.lexicon.values()):
            for s in seen:
                self.entry[t, self.symbol[s]] = len(self.entry)
        self.root = {self.symbol[s]: k for k, s in enumerate(grammar.roots)}
        number = {label: k for k, label in enumerate(grammar.labels)}
        self.label = np.array([number[_label(s)] for s in grammar.symbols], np.int32)
        self._number_cues()
        rules = np.array(list(self.rule), np.int32).reshape(-1, 3)
        per_terminal = [len(seen) for seen in grammar.lexicon.values()]
        self.core = _core.grammar(
            n_symbols=len(self.symbol), n_terminals=len(self.terminal), n_labels=len(number),
            n_cues=self.n_cues, n_lengths=N_LENGTHS, label=self.label,
            parent=np.ascontiguousarray(rules[:, 0]), left=np.ascontiguousarray(rules[:, 1]),
            right=np.ascontiguousarray(rules[:, 2]),
            entries_of=np.cumsum([0, *per_terminal]).astype(np.int64),
            entry_symbol=np.array([s for _, s in self.entry], np.int32),
            roots=np.array(list(self.root), np.int32), **_overlaps(grammar.symbols),
        )  # fmt: skip
        self.first_root = len(self.rule) + len(self.entry)
        self.first_feature = self.first_root + len(self.root)

    def __reduce__(self) -> tuple[Any, ...]:
        return _tables_of, (self.grammar,)

    def _number_cues(self) -> None:
        """Cue 0 is outside of the sentence; then the words and classes, then the tags."""
        lexicon = self.grammar.lexicon
        words = {terminal: k for k, terminal in enumerate(self.grammar.cues, 1)}
        guess = {t: max(seen, key=lambda s: seen[s]).labels[-1] for t, seen in lexicon.items()}
        tags = {tag: k for k, tag in enumerate(sorted(set(guess.values())), 1 + len(words))}
        self.n_cues = 1 + len(words) + len(tags)
        self._word_cue = words
        self._tag_cue = {t: tags[tag] for t, tag in guess.items()}

    def encode(self, words: Sequence[str]) -> tuple[Ids, Ids]:
        """The terminals of a sentence, and the cues of each."""
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"a sentence must be a list of words, got {words!r:.60}")
        terminals = [self.grammar.terminal(word) for word in words]
        cues = [
            # A word that is known but rare is seen as its class here.
            (self._word_cue.get(t) or self._word_cue.get(word_class(word), 0), self._tag_cue[t])
            for t, word in zip(terminals, words, strict=True)
        ]
        numbers = np.array([self.terminal[t] for t in terminals], np.int32)
        return numbers, np.array(cues, np.int32).reshape(len(words), N_CUES)

    def numbered(self, tree: Tree) -> Ids:
        """(symbol, begin, end) of the binarised tree; ValueError if the grammar lacks a symbol."""
        nodes = binarise(tree, self.grammar.order)
        try:
            return np.array([(self.symbol[s], i, j) for s, i, j in nodes], np.int32)
        except KeyError as error:
            raise ValueError(f"the grammar has no symbol {error}") from None

    def named(self, nodes: Ids, words: Sequence[str]) -> Tree:
        """The tree of numbered nodes."""
        symbols = self.grammar.symbols
        return debinarise([Node(symbols[s], i, j) for s, i, j in nodes.tolist()], words)

    def features(self, terminals: Ids, cues: Ids, nodes: Ids) -> SparseVector:
        """Psi of a numbered tree; ValueError if the grammar lacks one of its rules."""
        places = nodes.tolist()
        branches = list(_branches(places))
        try:
            indices = [self.first_root + self.root[places[0][0]]]
            indices += [
                self.rule[places[k][0], places[a][0], places[b][0]] for k, (a, b), _ in branches
            ]
            indices += [
                len(self.rule) + self.entry[int(terminals[i]), s]
                for s, i, j in places if j - i == 1
            ]  # fmt: skip
        except KeyError as error:
            raise ValueError(f"the tree is not one of the grammar's: no rule {error}") from None
        spans = self._span_features(cues, nodes, branches)
        return from_entries(np.concatenate([indices, spans]), np.ones(len(indices) + len(spans)))

    def _span_features(self, cues: Ids, nodes: Ids, branches: Sequence[Any]) -> NDArray[np.int64]:
        """As `score_edges` and `finish` of core/cky.hpp add their weights."""
        padded = np.zeros((len(cues) + 2, cues.shape[1]), np.int64)
        padded[1:-1] = cues  # token t is in row t + 1
        labels, begin, end = self.label[nodes[:, 0]].astype(np.int64), nodes[:, 1], nodes[:, 2]
        kinds = [padded[begin + 1], padded[begin], padded[end], padded[end + 1]]
        found = [self._at(k * self.n_cues + cue, labels) for k, cue in enumerate(kinds)]
        lengths = 6 * self.n_cues + np.minimum(end - begin, N_LENGTHS) - 1
        found.append(self._at(lengths[:, None], labels))
        if branches:
            inner = labels[[k for k, _, _ in branches]]
            split = np.array([split for _, _, split in branches])
            found.append(self._at(4 * self.n_cues + padded[split], inner))
            found.append(self._at(5 * self.n_cues + padded[split + 1], inner))
        return np.concatenate(found)

    def _at(self, features: Any, labels: Any) -> NDArray[np.int64]:
        n_labels = len(self.grammar.labels)
        places: Any = self.first_feature + features * n_labels + labels[:, None]
        return np.asarray(places, np.int64).ravel()

    def parse(
        self,
        sentences: Sequence[tuple[Ids, Ids]],
        w: Array,
        truths: Sequence[Ids] | None = None,
        *,
        n_threads: int = 1,
    ) -> list[Ids | None]:
        """The best numbered tree of every encoded sentence, None where there is no parse."""
        if not sentences:
            return []
        lengths = [len(terminals) for terminals, _ in sentences]
        if 0 in lengths:
            raise ValueError(f"sentence {lengths.index(0)} has no words")
        longest = max(lengths)
        n_cells = longest * (longest + 1) // 2 * (2 + len(self.symbol))
        if n_cells > MOST_CELLS:
            raise ValueError(
                f"sentence {lengths.index(longest)} has {longest} words, too many to parse with "
                f"{len(self.symbol)} symbols; split it"
            )
        offsets = np.cumsum([0, *lengths]).astype(np.int64)
        nodes = np.empty((2 * int(offsets[-1]) - len(lengths), 3), np.int32)
        values = np.empty(len(lengths))
        self.core.parse(
            offsets, np.concatenate([terminals for terminals, _ in sentences]),
            np.concatenate([cues for _, cues in sentences]), w,
            None if truths is None else np.concatenate(truths), nodes, values, n_threads,
        )  # fmt: skip
        bounds = 2 * offsets - np.arange(len(offsets))
        return [
            nodes[a:b] if value > -np.inf else None
            for (a, b), value in zip(pairwise(bounds.tolist()), values.tolist(), strict=True)
        ]

    def log_probabilities(self) -> Array:
        """The weights of the unsmoothed probabilistic grammar: log relative frequencies."""
        grammar = self.grammar
        total: Counter[Symbol] = Counter()
        for rule, n in grammar.rules.items():
            total[rule[0]] += n
        for terminal, seen in grammar.lexicon.items():
            if terminal:  # "" repeats what the classes have
                total.update(seen)
        w = np.zeros(self.core.n_weights)
        w[: len(self.rule)] = [np.log(n / total[rule[0]]) for rule, n in grammar.rules.items()]
        w[len(self.rule) : self.first_root] = [
            np.log(n / total[s]) for seen in grammar.lexicon.values() for s, n in seen.items()
        ]
        roots = np.array(list(grammar.roots.values()), float)
        w[self.first_root : self.first_feature] = np.log(roots / roots.sum())
        return w


def _overlaps(symbols: Sequence[Symbol]) -> dict[str, Any]:
    """How many constituents symbols stand for, and how many each two have in common."""
    size: list[float] = []
    offsets, others, common = [0], [], []
    for over_words in (True, False):
        counts = [Counter(_constituents(symbol, over_words)) for symbol in symbols]
        size += [float(count.total()) for count in counts]
        with_label: dict[str, list[int]] = {}
        for k, count in enumerate(counts):
            for label in count:
                with_label.setdefault(label, []).append(k)
        for count in counts:
            for k in sorted({k for label in count for k in with_label[label]}):
                others.append(k)
                common.append(float((count & counts[k]).total()))
            offsets.append(len(others))
    return {
        "size": np.array(size), "overlaps_of": np.array(offsets, np.int64),
        "overlap_symbol": np.array(others, np.int32), "overlap": np.array(common, np.float64),
    }  # fmt: skip


def _constituents(symbol: Symbol, over_word: bool) -> tuple[str, ...]:
    if symbol.before is not None:
        return ()
    return symbol.labels[:-1] if over_word else symbol.labels


class TreeOracle:
    """An oracle for parsing. x is a list of words, y a Tree.

    A sentence that the grammar cannot parse is an error here; `parse` says None.
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
