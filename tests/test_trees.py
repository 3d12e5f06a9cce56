"""Parsing: trees there and back, CKY against brute force and a plain twin, TreeSVM."""

from __future__ import annotations

import copy
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from bridle import TreeSVM, load_model, save_model
from bridle.data.trees import Tree, clean, read_trees
from bridle.models.tree import TreeModel, flat_tree
from bridle.structured.grammar import Grammar
from bridle.structured.tree import TreeOracle
from bridle.structured.trees import (
    binarise,
    constituents,
    debinarise,
    difference,
    score_trees,
    word_class,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from structured_cases import TOY_TREES, tree_data

CAT = "(S (NP (DT the) (JJ big) (JJ black) (NN cat)) (VP (VBZ runs)))"

words = st.sampled_from(["a", "b", "c"]).map(lambda word: Tree("T", (word,)))
trees = st.recursive(
    words,
    lambda inner: st.builds(
        Tree, st.sampled_from("XYZ"), st.lists(inner, min_size=1, max_size=4).map(tuple)
    ),
    max_leaves=12,
)


@given(tree=trees, order=st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_binarised_and_back(tree, order):
    nodes = binarise(tree, order)
    assert len(nodes) == 2 * len(tree.words) - 1
    assert debinarise(nodes, tree.words) == tree
    assert read_trees(str(tree)) == [tree]
    assert difference(tree, tree) == 0


def test_binarisation_by_hand():
    (tree,) = read_trees(CAT)
    found = [("+".join(s.labels), s.before, i, j) for s, i, j in binarise(tree, 1)]
    assert found == [
        ("S", None, 0, 5), ("NP", None, 0, 4), ("DT", None, 0, 1), ("NP", ("DT",), 1, 4),
        ("JJ", None, 1, 2), ("NP", ("JJ",), 2, 4), ("JJ", None, 2, 3), ("NN", None, 3, 4),
        ("VP+VBZ", None, 4, 5),
    ]  # fmt: skip


def test_constituents_and_scores_by_hand():
    (truth,) = read_trees(CAT)
    assert constituents(truth) == {("S", 0, 5): 1, ("NP", 0, 4): 1, ("VP", 4, 5): 1}
    (answer,) = read_trees("(S (NP (DT the)) (VP (JJ big) (JJ black) (NN cat) (VBZ runs)))")
    assert difference(truth, answer) == 4  # tags do not count
    score = score_trees([truth], [answer])
    assert (score.true, score.found, score.correct) == (3, 3, 1)
    with pytest.raises(ValueError, match="sentence 0: the trees have other words"):
        score_trees([truth], read_trees("(S (A a))"))


def test_cleaning():
    (tree,) = read_trees(
        "( (S (NP-SBJ-1 (NP (PRP he))) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)))) "
        "(-LRB- -LRB-) (. .)))"
    )
    assert str(clean(tree)) == (
        "(S (NP (PRP he)) (VP (VBD was) (VP (VBN seen))) (-LRB- -LRB-) (. .))"
    )
    assert clean(read_trees("(S (NP (-NONE- *)))")[0]) is None


@pytest.mark.parametrize(("text", "message"), [
    ("(S (NP a)", "1 brackets are not closed"), ("(S a))", "line 1: a bracket is closed"),
    ("\nword", "line 2: 'word' outside"), ("(S ())", "needs a label"),
    ("(S a b)", "words beside"), ("(S (NP a) b)", "words beside"), ("(S)", "something inside"),
    ("(" * 10_000, "nested"), ("(A " * 10_000, "nested"),
])  # fmt: skip
def test_bad_brackets(text, message):
    with pytest.raises(ValueError, match=message):
        read_trees(text)


@pytest.mark.parametrize("children", ["dog", (), ("a", "b"), (Tree("N", ("a",)), "b"), ["a"], (1,)])
def test_what_is_no_tree(children):
    with pytest.raises(ValueError, match="a tree is a label over"):
        Tree("NN", children)
    with pytest.raises(ValueError, match="a tree is a label over"):
        Tree("", ("a",))


def test_long_sentences_nest_deeply():
    (tree,) = read_trees("(S (A a) (S (A a) (S (A a) (B b))))")
    model = TreeSVM(C=1.0, rare=0).fit([tree.words], [tree])
    sentence = ["a"] * 1200 + ["b"]
    (answer,) = model.predict([sentence])
    assert answer.words == sentence
    assert str(answer).count("(S ") == constituents(answer).total() == 1200
    assert model.score([sentence], [answer]) == 1.0


def test_a_parser_can_be_copied_and_sent_to_another_process():
    treebank = read_trees(TOY_TREES)
    sentences = [tree.words for tree in treebank]
    model = TreeSVM(C=1.0, rare=0).fit(sentences, treebank)
    oracle = model.model_.oracle
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert copied.predict(sentences) == model.predict(sentences)
    again = pickle.loads(pickle.dumps(oracle))
    assert again.grammar == oracle.grammar
    assert again.argmax_batch(sentences, model.coef_) == model.predict(sentences)


def test_a_sentence_that_is_too_long():
    oracle, _, _ = tree_data()
    with pytest.raises(ValueError, match="sentence 1 has 20000 words, too many to parse with"):
        oracle.parse([["a"], ["a"] * 20_000], np.zeros(oracle.n_features))


def test_word_classes():
    assert word_class("1999") == "<number>"
    assert word_class("Smithing") == "<Xxing>"
    assert word_class("re-elected") == "<x-ed>"
    assert word_class("--") == "<signs>"
    assert word_class("A") == "<X>"


def plain_cky(tables, terminals, cues, w, truth=None):
    """The value of the best parse, in plain Python: the same dynamic programme, without tricks."""
    n, n_labels = len(terminals), len(tables.grammar.labels)
    at = {} if truth is None else {(i, j): s for s, i, j in truth.tolist()}

    def names(s, i, j):
        symbol = tables.grammar.symbols[s]
        if symbol.before is not None:
            return []
        return list(symbol.labels[:-1] if j - i == 1 else symbol.labels)

    def cue(t, c):
        return int(cues[t, c]) if 0 <= t < n else 0

    def weight(s, feature):
        return w[tables.first_feature + feature * n_labels + tables.label[s]]

    def node(s, i, j):
        value = weight(s, 6 * tables.n_cues + min(j - i, 12) - 1)
        for c in range(cues.shape[1]):
            for kind, t in enumerate((i, i - 1, j - 1, j)):
                value += weight(s, kind * tables.n_cues + cue(t, c))
        if truth is not None:
            rest = names(at[i, j], i, j) if (i, j) in at else []
            for name in names(s, i, j):
                value += -1 if name in rest else 1
                if name in rest:
                    rest.remove(name)
        return value

    def split(s, k):
        return sum(
            weight(s, 4 * tables.n_cues + cue(k - 1, c)) + weight(s, 5 * tables.n_cues + cue(k, c))
            for c in range(cues.shape[1])
        )

    best = {}
    for (terminal, s), e in tables.entry.items():
        for i in np.flatnonzero(terminals == terminal).tolist():
            best[s, i, i + 1] = w[len(tables.rule) + e] + node(s, i, i + 1)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            for (a, b, c), r in tables.rule.items():
                for k in range(i + 1, j):
                    if (b, i, k) in best and (c, k, j) in best:
                        value = best[b, i, k] + best[c, k, j] + w[r] + split(a, k) + node(a, i, j)
                        best[a, i, j] = max(best.get((a, i, j), -np.inf), value)
    return max(
        best.get((s, 0, n), -np.inf) + w[tables.first_root + r] for s, r in tables.root.items()
    )


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("augmented", [False, True])
def test_the_kernel_equals_its_plain_twin(order, augmented):
    treebank = read_trees(TOY_TREES) + read_trees(CAT)
    oracle = TreeOracle(Grammar.read(treebank, order=order, rare=0, frequent=1))
    tables = oracle.tables
    rng = np.random.default_rng(order)
    for tree in treebank:
        x = tree.words
        sentence, truth = tables.encode(x), tables.numbered(tree)
        w = rng.normal(size=oracle.n_features)
        answer = oracle.argmax(x, w, tree if augmented else None)
        value = oracle.features(x, answer).dot(w)
        if augmented:
            value += oracle.loss(tree, answer) - constituents(tree).total()
        expected = plain_cky(tables, *sentence, w, truth if augmented else None)
        assert value == pytest.approx(expected, rel=1e-12)


def test_the_number_of_threads_changes_nothing():
    oracle, X, _ = tree_data(n=40)
    w = np.random.default_rng(1).normal(size=oracle.n_features)
    threaded = TreeOracle(oracle.grammar, n_threads=3)
    assert oracle.argmax_batch(X, w) == threaded.argmax_batch(X, w)


def test_the_kernel_checks_its_arrays():
    oracle, X, Y = tree_data()
    tables, w = oracle.tables, np.zeros(oracle.n_features)
    terminals, cues = tables.encode(X[0])
    with pytest.raises(ValueError, match="w has"):
        tables.parse([(terminals, cues)], w[:-1])
    with pytest.raises(ValueError, match="terminals contains"):
        tables.parse([(terminals + 1000, cues)], w)
    with pytest.raises(ValueError, match="cues has an entry"):
        tables.parse([(terminals, cues - 1000)], w)
    with pytest.raises(ValueError, match="does not fit its sentence"):
        tables.parse([(terminals, cues)], w, [tables.numbered(Y[0]) + np.int32(50)])
    with pytest.raises(ValueError, match="has no words"):
        tables.parse([(terminals[:0], cues[:0])], w)


def test_what_is_not_of_the_grammar():
    oracle, _, _ = tree_data()
    (other,) = read_trees("(Q (A a) (B b))")
    with pytest.raises(ValueError, match="no symbol"):
        oracle.features(["a", "b"], other)
    with pytest.raises(ValueError, match="other words"):
        oracle.features(["a"], other)
    with pytest.raises(ValueError, match="no trees"):
        Grammar.read([])


def test_a_sentence_without_a_parse():
    (tree,) = read_trees("(S (NP (N cats)) (VP (V run)))")
    grammar = Grammar.read([tree], rare=0)
    oracle = TreeOracle(grammar)
    w = np.zeros(oracle.n_features)
    assert oracle.parse([["cats", "run", "run"]], w) == [None]
    with pytest.raises(ValueError, match="cannot parse sentence 0: 'cats run run'"):
        oracle.argmax(["cats", "run", "run"], w)
    assert str(flat_tree(grammar, ["cats", "run", "run"])) == "(S (N cats) (V run) (V run))"


def test_probabilities_are_relative_frequencies():
    grammar = Grammar.read(read_trees("(S (A a) (B b)) (S (A a) (B c)) (S (B b) (A a))"), rare=0)
    tables = grammar.tables
    p = np.exp(tables.log_probabilities())
    np.testing.assert_allclose(sorted(p[: len(tables.rule)]), [1 / 3, 2 / 3])
    (tree,) = read_trees("(S (A a) (B c))")
    score = TreeOracle(grammar).features(tree.words, tree).dot(tables.log_probabilities())
    assert score == pytest.approx(np.log(2 / 3 * 1 / 3))


def test_tree_svm(tmp_path):
    treebank = read_trees(TOY_TREES)
    del treebank[1]  # another tree of the first one's sentence
    sentences = [tree.words for tree in treebank]
    model = TreeSVM(C=10.0, tol=1e-3, rare=0).fit(sentences, treebank)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.score(sentences, treebank) == 1.0
    path = tmp_path / "parser.model"
    save_model(path, model.model_)
    loaded = load_model(path)
    new = [["a", "unseen", "c"], ["b", "b"]]
    assert loaded.predict(new) == model.predict(new)
    assert loaded.certificate == model.certificate_
    assert loaded.grammar == model.grammar_


def test_a_model_file_that_lies():
    treebank = read_trees(TOY_TREES)
    model = TreeSVM(C=1.0, rare=0).fit([tree.words for tree in treebank], treebank).model_
    fields, arrays = model.parts()
    for wrong in (
        {"rules": [[0, 0, 99, 1]]}, {"symbols": [[["S"], None], [["S"], None]]}, {"roots": []},
        {"lexicon": {}}, {"symbols": [[[3], None]]}, {"symbols": 7}, {"roots": [[0, 0]]},
        {"cues": ["a", "a"]},
    ):  # fmt: skip
        bad = fields | {"grammar": fields["grammar"] | wrong}
        with pytest.raises((ValueError, TypeError, KeyError)):
            TreeModel.from_parts(bad, arrays)
    with pytest.raises(ValueError, match="does not have"):
        TreeModel.from_parts(fields, arrays | {"indices": arrays["indices"] + 10**6})


def test_tree_svm_names_what_is_wrong():
    (tree,) = read_trees(CAT)
    with pytest.raises(ValueError, match="tree 1 has other words"):
        TreeSVM().fit([tree.words, ["a"]], [tree, tree])
    with pytest.raises(ValueError, match="1 sentences but 2 trees"):
        TreeSVM().fit([tree.words], [tree, tree])
    with pytest.raises(TypeError, match="tree 0 is a str; read_trees"):
        TreeSVM().fit([tree.words], [CAT])
    with pytest.raises(ValueError, match="must not be negative"):
        TreeSVM(order=-1).fit([tree.words], [tree])
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        TreeSVM(n_threads=0).fit([tree.words], [tree])
    model = TreeSVM().fit([tree.words], [tree])
    for sentences in (["the cat runs"], ["the", "cat"], [[1, 2]]):
        with pytest.raises(TypeError, match="a sentence must be a list of words"):
            model.predict(sentences)
    with pytest.raises(ValueError, match="sentence 0 has no words"):
        model.predict([[]])


@pytest.mark.skipif("BRIDLE_DATA" not in os.environ, reason="needs BRIDLE_DATA")
def test_better_than_the_probabilistic_grammar():
    archive = zipfile.ZipFile(Path(os.environ["BRIDLE_DATA"]) / "structured" / "treebank.zip")
    names = sorted(name for name in archive.namelist() if name.endswith(".mrg"))
    read = [clean(tree) for name in names for tree in read_trees(archive.read(name).decode())]
    short = [tree for tree in read if tree is not None and len(tree.words) <= 12]
    cut = len(short) * 4 // 5
    train, test = short[:cut], short[cut:]
    sentences = [tree.words for tree in test]
    model = TreeSVM(tol=0.1).fit([tree.words for tree in train], train)
    grammar = model.grammar_
    parses = TreeOracle(grammar).parse(sentences, grammar.tables.log_probabilities())
    plain = [parse or flat_tree(grammar, x) for x, parse in zip(sentences, parses, strict=True)]
    assert model.score(sentences, test) > score_trees(test, plain).f1 + 0.03
