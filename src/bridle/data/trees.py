"""Trees in brackets, as treebanks have them: files to trees and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

DEEPEST = 400  # nested brackets in a tree


@dataclass(frozen=True)
class Tree:
    """A label over smaller trees, or over one word (the label is then its tag).

    Examples
    --------
    >>> print(bridle.Tree("NP", (bridle.Tree("DT", ("the",)), bridle.Tree("NN", ("cat",)))))
    (NP (DT the) (NN cat))
    """

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

    Examples
    --------
    >>> bridle.read_trees("(S (NP (DT the) (NN cat)) (VP (VBZ runs)))")[0].words
    ['the', 'cat', 'runs']
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
