"""A grammar with numbers instead of names, as the compiled core reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.data.trees import Tree
from bridle.matrix.arrays import Array
from bridle.structured.sparse import SparseVector, from_entries
from bridle.structured.trees import Node, Symbol, binarise, debinarise, word_class
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.structured.grammar import Grammar

Ids = NDArray[np.int32]

N_LENGTHS = 12  # spans of this many words or more are alike
N_CUES = 2  # of a word: what it is, and its most frequent tag
MOST_CELLS = 1 << 27  # spans times symbols of a sentence: 2 GB for each thread


def label_of(symbol: Symbol) -> tuple[tuple[str, ...], bool]:
    """What its spans have weights for: its labels, whole nodes and parts apart."""
    return symbol.labels, symbol.before is not None


def branches_of(nodes: Sequence[Any]) -> Iterator[tuple[int, tuple[int, int], int]]:
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
        self.label = np.array([number[label_of(s)] for s in grammar.symbols], np.int32)
        self._number_cues()
        rules = np.array(list(self.rule), np.int32).reshape(-1, 3)
        per_terminal = [len(seen) for seen in grammar.lexicon.values()]
        self.core = _core.structured.grammar(
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
        branches = list(branches_of(places))
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
        """As `score_edges` and `finish` of core/structured/cky.hpp add their weights."""
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
