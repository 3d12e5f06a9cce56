"""Parse trees: brackets, binarisation and back, and how parses are scored.

A context-free grammar in Chomsky's normal form has nodes with two children, and nodes over one
word. Every tree becomes such a one, and back:

- A chain of single children (S over VP) becomes one node with the labels of the chain.
- A node with more than two children, (NP (DT) (JJ) (NN)), becomes nested nodes: NP over DT and the
  rest, whose symbol has the same labels and, as `before`, the labels of the last `order` siblings
  to its left. That is a Markov chain over siblings (Klein & Manning, "Accurate unlexicalized
  parsing", ACL 2003); a large order is the treebank's own grammar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bridle.data.trees import Tree
from bridle.objective.segments import Score


class Symbol(NamedTuple):
    """A node of a binary tree: labels of one span, from the top; with `before`, part of a node."""

    labels: tuple[str, ...]
    before: tuple[str, ...] | None = None


class Node(NamedTuple):
    """A symbol over the words begin to end."""

    symbol: Symbol
    begin: int
    end: int


def binarise(tree: Tree, order: int) -> list[Node]:
    """The binary tree, parents before children and left before right: 2 n - 1 nodes."""
    return _binarise(tree, order, 0)


def _binarise(tree: Tree, order: int, begin: int) -> list[Node]:
    labels = [tree.label]
    while len(tree.children) == 1 and isinstance(tree.children[0], Tree):
        tree = tree.children[0]
        labels.append(tree.label)
    chain = tuple(labels)
    if tree.is_tag:
        return [Node(Symbol(chain), begin, begin + 1)]
    parts: list[list[Node]] = []
    at = begin
    for child in tree.children:
        assert isinstance(child, Tree)
        parts.append(_binarise(child, order, at))
        at = parts[-1][0].end
    siblings = [part[0].symbol.labels[0] for part in parts]
    nodes = [Node(Symbol(chain), begin, at)]
    for k, part in enumerate(parts[:-2], 1):
        before = tuple(siblings[max(0, k - order) : k])
        nodes += [*part, Node(Symbol(chain, before), part[0].end, at)]
    return [*nodes, *parts[-2], *parts[-1]]


def debinarise(nodes: Sequence[Node], words: Sequence[str]) -> Tree:
    """The tree that `binarise` would make these nodes of."""
    finished: list[list[Tree]] = []  # children first: from the last node to the first
    for symbol, begin, end in reversed(nodes):
        inside: tuple[Tree | str, ...]
        if end - begin == 1:
            inside = (words[begin],)
        else:
            left, right = finished.pop(), finished.pop()
            inside = (*left, *right)
        if symbol.before is not None:
            finished.append([child for child in inside if isinstance(child, Tree)])
            continue
        for label in reversed(symbol.labels):
            inside = (Tree(label, inside),)
        finished.append([child for child in inside if isinstance(child, Tree)])
    return finished.pop()[0]


Constituent = tuple[str, int, int]


def constituents(tree: Tree) -> Counter[Constituent]:
    """(label, begin, end) of every node but the tags, with their numbers."""
    found: Counter[Constituent] = Counter()
    at = 0
    open_: list[tuple[Tree, int | None]] = [(tree, None)]  # with its beginning: children are done
    while open_:
        node, begin = open_.pop()
        if begin is not None:
            found[node.label, begin, at] += 1
        elif node.is_tag:
            at += 1
        else:
            open_.append((node, at))
            open_ += [(child, None) for child in reversed(node.children) if isinstance(child, Tree)]
    return found


def difference(truth: Tree, answer: Tree) -> int:
    """How many labelled constituents only one of the two trees has."""
    a, b = constituents(truth), constituents(answer)
    return a.total() + b.total() - 2 * (a & b).total()


def score_trees(truth: Sequence[Tree], answers: Sequence[Tree]) -> Score:
    """Labelled brackets of all sentences, in the truth, in the answers and in both."""
    if len(truth) != len(answers):
        raise ValueError(f"there are {len(truth)} true trees but {len(answers)} answers")
    for i, (tree, answer) in enumerate(zip(truth, answers, strict=True)):
        if tree.words != answer.words:
            raise ValueError(f"sentence {i}: the trees have other words: {tree!s:.80}")
    counts = [0, 0, 0]
    for a, b in zip(map(constituents, truth), map(constituents, answers), strict=True):
        for k, counted in enumerate((a, b, a & b)):
            counts[k] += counted.total()
    return Score(*counts)


SUFFIXES = (
    "tion", "ment", "ness", "able", "ible", "ing", "ity", "ous", "ive", "ate", "ion", "ers", "est",
    "ed", "ly", "er", "al", "ic", "es", "s", "y",
)  # fmt: skip


@lru_cache(100_000)
def word_class(word: str) -> str:
    """What can be seen of a word that was never seen: digits, capitals, hyphens, its ending."""
    if any(letter.isdigit() for letter in word):
        return "<number>" if word[0].isdigit() and word[-1].isdigit() else "<digits>"
    if not any(letter.isalpha() for letter in word):
        return "<signs>"
    shape = "Xx" if word[0].isupper() else "x"
    if word.isupper():
        shape = "X"
    if "-" in word:
        shape += "-"
    ending = next((s for s in SUFFIXES if word.lower().endswith(s) and len(word) > len(s) + 1), "")
    return f"<{shape}{ending}>"
