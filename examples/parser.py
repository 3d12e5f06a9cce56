"""A parser: on the treebank in the folder BRIDLE_DATA, or on a toy one. Run: python parser.py

The grammar is read from the training trees. Its weights are those of an unsmoothed probabilistic
grammar (log relative frequencies), or those of a structural SVM, which also looks at the words at
the edges of a span.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from bridle import TreeSVM
from bridle.data.trees import Tree, clean, read_trees
from bridle.models.tree import flat_tree
from bridle.structured.grammar import Grammar
from bridle.structured.tree import TreeOracle
from bridle.structured.trees import score_trees

TOY = """
(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))))
(S (NP (DT the) (NN man)) (VP (VBZ sees) (NP (NP (DT the) (NN dog)) (PP (IN of) (NP (NNP Mary))))))
(S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (NNP John)) (PP (IN with) (NP (DT a) (NN glass)))))
(S (NP (NNP Mary)) (VP (VBZ likes) (NP (DT the) (NN park))))
(S (NP (NNP Mary)) (VP (VBZ likes) (NP (NP (DT the) (NN man)) (PP (IN of) (NP (NNP John))))))
(S (NP (DT the) (NN man)) (VP (VBZ runs) (PP (IN with) (NP (DT the) (NN dog)))))
(S (NP (NP (DT a) (NN cat)) (PP (IN of) (NP (NNP John)))) (VP (VBZ runs)))
(S (NP (NNP John)) (VP (VBZ likes) (NP (NNP Mary)) (PP (IN with) (NP (DT a) (NN dog)))))
(S (NP (NP (DT the) (NN glass)) (PP (IN of) (NP (DT the) (NN man)))) (VP (VBZ runs)))
(S (NP (NNP Mary)) (VP (VBZ sees) (NP (DT the) (NN cat)) (PP (IN with) (NP (DT the) (NN glass)))))
"""
HELD_OUT = """
(S (NP (NNP John)) (VP (VBZ sees) (NP (NP (DT a) (NN park)) (PP (IN of) (NP (DT the) (NN cat))))))
(S (NP (DT the) (NN cat)) (VP (VBZ likes) (NP (DT the) (NN dog)) (PP (IN with) (NP (NNP John)))))
(S (NP (NNP Peter)) (VP (VBZ runs) (PP (IN with) (NP (DT the) (NN man)))))
"""


def treebank(most_words: int = 20) -> tuple[list[Tree], list[Tree]]:
    """Four fifths of the sentences to train on and, of the last fifth, the short ones to test on.

    Training sentences have up to twice as many words: they are where more grammar is.
    """
    archive = zipfile.ZipFile(Path(os.environ["BRIDLE_DATA"]) / "structured" / "treebank.zip")
    names = sorted(name for name in archive.namelist() if name.endswith(".mrg"))
    read = [clean(tree) for name in names for tree in read_trees(archive.read(name).decode())]
    trees = [tree for tree in read if tree is not None]
    cut = len(trees) * 4 // 5
    train = [tree for tree in trees[:cut] if len(tree.words) <= 2 * most_words]
    return train, [tree for tree in trees[cut:] if len(tree.words) <= most_words]


def probabilistic(train: list[Tree], sentences: list[list[str]], order: int) -> list[Tree]:
    """The answers of the unsmoothed probabilistic grammar."""
    grammar = Grammar.read(train, order=order)
    parses = TreeOracle(grammar).parse(sentences, grammar.tables.log_probabilities())
    return [
        flat_tree(grammar, x) if tree is None else tree
        for x, tree in zip(sentences, parses, strict=True)
    ]


def main() -> None:
    if "BRIDLE_DATA" in os.environ:
        train, test = treebank()
    else:
        train, test = read_trees(TOY), read_trees(HELD_OUT)
    sentences = [tree.words for tree in test]
    for order in (0, 1):
        score = score_trees(test, probabilistic(train, sentences, order))
        print(f"probabilistic grammar, order {order}: labelled bracket F1 {100 * score.f1:.1f}")
    toy = {} if "BRIDLE_DATA" in os.environ else {"C": 10.0, "rare": 0, "frequent": 3}
    model = TreeSVM(**toy).fit([tree.words for tree in train], train)
    print(model.certificate_)
    print(f"TreeSVM: labelled bracket F1 {100 * model.score(sentences, test):.1f}")
    print(model.predict(sentences[1:2])[0])


if __name__ == "__main__":
    main()
