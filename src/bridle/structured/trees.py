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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from bridle.structured.segments import Score

DEEPEST = 400  # nested brackets in a tree


@dataclass(frozen=True)
class Tree:
    """A label over smaller trees, or over one word (the label is then its tag)."""

    label: str
    children: tuple[Tree | str, ...]

    def __post_init__(self) -> None:
        children = self.children
        fits = isinstance(children, tuple) and (
            (len(children) == 1 and isinstance(children[0], Tree | str))
            or (len(children) > 1 and all(isinstance(child, Tree) for child in children))
        )
        if not fits or not isinstance(self.label, str) or not self.label:
            raise ValueError(
                f"a tree is a label over a tuple of trees or of one word, "
                f"got {self.label!r:.40} over {children!r:.60}"
            )

    @property
    def is_tag(self) -> bool:
        """Whether this is the tag of one word."""
        return len(self.children) == 1 and isinstance(self.children[0], str)

    def tagged_words(self) -> Iterator[tuple[str, str]]:
        """(word, tag), from left to right."""
        open_ = [self]  # no recursion: the best parse of a long sentence may nest deeply
        while open_:
            node = open_.pop()
            for child in reversed(node.children):
                if isinstance(child, str):
                    yield child, node.label
                else:
                    open_.append(child)

    @property
    def words(self) -> list[str]:
        """The sentence."""
        return [word for word, _ in self.tagged_words()]

    def __str__(self) -> str:
        pieces: list[str] = []
        open_: list[Tree | str | None] = [self]  # None closes a bracket
        while open_:
            item = open_.pop()
            if isinstance(item, Tree):
                pieces.append(f" ({item.label}")
                open_ += [None, *reversed(item.children)]
            else:
                pieces.append(")" if item is None else f" {item}")
        return "".join(pieces)[1:]


def read_trees(text: str) -> list[Tree]:
    """Trees in brackets, as in the Penn treebank: (S (NP (DT the) (NN cat)) (VP (VBZ runs))).

    A bracket without a label around a tree is left out.
    """
    trees: list[Tree] = []
    open_: list[tuple[str, list[Tree | str]]] = []
    for line, token, begins in _tokens(text):
        if token == "(":
            if len(open_) == DEEPEST:
                raise ValueError(f"line {line}: more than {DEEPEST} nested brackets")
            open_.append(("", []))
        elif token == ")":
            if not open_:
                raise ValueError(f"line {line}: a bracket is closed that was not opened")
            tree = _closed(*open_.pop(), line)
            if open_:
                open_[-1][1].append(tree)
            else:
                trees.append(tree)
        elif not open_:
            raise ValueError(f"line {line}: {token!r:.40} outside of brackets")
        elif begins:
            open_[-1] = (token, [])
        else:
            open_[-1][1].append(token)
    if open_:
        raise ValueError(f"{len(open_)} brackets are not closed at the end")
    return trees


def _tokens(text: str) -> Iterator[tuple[int, str, bool]]:
    """(line, token, whether it follows an opening bracket at once)."""
    after_open = False
    for number, line in enumerate(text.splitlines(), 1):
        for token in line.replace("(", " ( ").replace(")", " ) ").split():
            yield number, token, after_open and token not in "()"
            after_open = token == "("


def _closed(label: str, children: list[Tree | str], line: int) -> Tree:
    if not label and len(children) == 1 and isinstance(children[0], Tree):
        return children[0]
    if not label or not children:
        raise ValueError(f"line {line}: a bracket needs a label and something inside")
    words = sum(isinstance(child, str) for child in children)
    if words and len(children) > 1:
        raise ValueError(f"line {line}: ({label} ...) has words beside other things")
    return Tree(label, tuple(children))


def clean(tree: Tree) -> Tree | None:
    """Without traces (-NONE-) and what they leave empty, functions (NP-SBJ) and X over X.

    None if nothing is left.
    """
    if tree.is_tag:
        return None if tree.label == "-NONE-" else tree
    kept = [clean(child) for child in tree.children if isinstance(child, Tree)]
    children = tuple(child for child in kept if child is not None)
    if not children:
        return None
    # -LRB- is a label of its own, and so is what comes before the first - or = of any other.
    label = tree.label if tree.label[0] == "-" else tree.label.split("-")[0].split("=")[0]
    only = children[0]
    if len(children) == 1 and isinstance(only, Tree) and only.label == label and not only.is_tag:
        return only
    return Tree(label, children)


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
