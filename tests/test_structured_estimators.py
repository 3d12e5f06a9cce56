"""ChainSVM, MulticlassSVC, StructuredSVM, and how sequences are scored."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import ChainSVM, CuttingPlaneModel, MulticlassSVC, StructuredSVM, load_model, save_model
from bridle.errors import ModelError, OracleError
from bridle.estimators import GapWarning
from bridle.fitting.certification import certify_model
from bridle.objective.segments import score_sequences, segments
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from structured_cases import chain_data
from test_structured import Breaks


def words(n=60, seed=0):
    """Tokens whose label depends on the word, and on the label before."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n):
        tokens = [["the", "cat", "runs", "fast"][k] for k in rng.integers(0, 4, rng.integers(1, 7))]
        labels, before = [], "O"
        for token in tokens:
            before = {"the": "B-NP", "cat": "I-NP" if before == "B-NP" else "B-NP"}.get(token, "O")
            labels.append(before)
        X.append(tokens)
        Y.append(labels)
    return X, Y


def lists(X):
    return [[[f"w={token}", "token"] for token in sequence] for sequence in X]


def dictionaries(X):
    return [[{"w": token, "token": 1.0, "known": True, "odd": False} for token in s] for s in X]


@pytest.mark.parametrize("form", [lists, dictionaries])
def test_chain_svm_on_names(form, tmp_path):
    X, Y = words()
    model = ChainSVM(C=10.0, tol=1e-3).fit(form(X), Y)
    answers = model.predict(form(X))
    assert model.score(form(X), Y) >= 0.95
    assert model.scores(form(X), Y) == score_sequences(Y, answers)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.coef_.shape == (len(model.vocabulary_), len(model.classes_))
    assert model.predict([[], form([["unknown", "cat"]])[0]])[0] == []
    path = tmp_path / "chain.model"
    save_model(path, model.model_)
    loaded = load_model(path)
    assert loaded.predict(form(X)) == answers
    assert loaded.certificate == model.certificate_


def test_chain_svm_on_matrices():
    _, X, Y = chain_data(3, n=40)
    dense = ChainSVM(tol=1e-3).fit(X, Y)
    sparse = ChainSVM(tol=1e-3).fit([sp.csr_array(x) for x in X], Y)
    assert dense.certificate_.primal == pytest.approx(sparse.certificate_.primal, rel=2e-3)
    plain = ChainSVM(tol=1e-3, boundaries=False, fit_intercept=False).fit(X, Y)
    assert plain.certificate_.primal >= dense.certificate_.dual
    assert not plain.start_.any()


def scores_of_every_path(model, x):
    """{path: score} of one matrix, by what the estimator shows of itself."""
    n, K = len(x), len(model.classes_)
    emissions = x @ model.coef_ + model.intercept_
    emissions[0] += model.start_
    emissions[-1] += model.end_
    return {
        path: sum(emissions[t, k] for t, k in enumerate(path))
        + sum(model.transitions_[j, k] for j, k in pairwise(path))
        for path in product(range(K), repeat=n)
    }


@pytest.mark.parametrize("transitions", [True, False])
@pytest.mark.parametrize("plain", [True, False])
def test_max_marginals_and_marginals_equal_brute_force(transitions, plain):
    _, X, Y = chain_data()
    extras = {"boundaries": not plain, "fit_intercept": not plain}
    model = ChainSVM(C=1.0, transitions=transitions, n_threads=2, **extras).fit(X, Y)
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, X[0].shape[1])) for n in (1, 4, 0, 2, 5) for _ in range(9)]
    best, marginals = model.decision_function(X), model.predict_marginals(X)
    for x, y, values, parts in zip(X, model.predict(X), best, marginals, strict=True):
        assert values.shape == (len(x), 3)
        if not len(x):
            assert parts == []
            continue
        score = scores_of_every_path(model, x)
        total = sum(np.exp(value) for value in score.values())
        for t in range(len(x)):
            assert model.classes_[values[t].argmax()] == y[t]
            for k, label in enumerate(model.classes_):
                through = [value for path, value in score.items() if path[t] == k]
                assert values[t, k] == pytest.approx(max(through))
                assert parts[t][label] == pytest.approx(np.exp(through).sum() / total)


def test_marginals_of_scores_that_exp_cannot_hold():
    model = ChainSVM(C=1.0, tol=1e-3).fit([np.eye(2)] * 5, [[0, 1]] * 5)
    (parts,) = model.predict_marginals([1e6 * np.eye(2)])
    assert parts == [{0: 1.0, 1: 0.0}, {0: 0.0, 1: 1.0}]
    assert model.decision_function([]) == [] == model.predict_marginals([])


def test_chain_svm_names_what_is_wrong():
    X, Y = words(5)
    with pytest.raises(ValueError, match="sequence 1 has"):
        ChainSVM().fit(lists(X), [Y[0], [*Y[1], "O"], *Y[2:]])
    with pytest.raises(TypeError, match="sequence 0, token 0: "):
        ChainSVM().fit([["abc"]], [["O"]])
    with pytest.raises(TypeError, match="sequence 0, token 1: "):
        ChainSVM().fit([[["a"], [1]]], [["O", "B"]])
    with pytest.raises(TypeError, match="finite"):
        ChainSVM().fit([[{"a": float("nan")}]], [["O"]])
    with pytest.raises(ValueError, match="two different labels"):
        ChainSVM().fit([[["a"]]], [["O"]])
    with pytest.warns(GapWarning):
        ChainSVM(max_iter=1, tol=1e-9).fit(lists(X), Y)


def test_segments_by_hand():
    assert list(segments(["B-A", "I-A", "O", "B-A", "B-A", "I-B"])) == [
        ("A", 0, 2), ("A", 3, 4), ("A", 4, 5), ("B", 5, 6),
    ]  # fmt: skip
    assert list(segments(["I-A", "I-A", "O", "I-B"])) == [("A", 0, 2), ("B", 3, 4)]
    assert list(segments(["B-A", "E-A", "S-A", "S-B", "I-B"])) == [
        ("A", 0, 2), ("A", 2, 3), ("B", 3, 4), ("B", 4, 5),
    ]  # fmt: skip
    # Without types, as conlleval counts them; other labels are segments of their own.
    assert list(segments(["B", "I", "O", "I", "B"])) == [("", 0, 2), ("", 3, 4), ("", 4, 5)]
    assert list(segments(["N", "N", "O", "V"])) == [("N", 0, 1), ("N", 1, 2), ("V", 3, 4)]
    scores = score_sequences([["B-A", "I-A", "O", "B-B"]], [["B-A", "O", "O", "B-B"]])
    assert (scores.segments.true, scores.segments.found, scores.segments.correct) == (2, 2, 1)
    assert scores.segments.f1 == 0.5
    assert scores.accuracy == 0.75
    assert "FB1:  50.00" in str(scores)


def test_segments_agree_with_seqeval():
    seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling")
    rng = np.random.default_rng(0)
    labels = ["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"]
    for _ in range(300):
        sequence = [labels[k] for k in rng.integers(0, len(labels), 8)]
        theirs = [(kind, a, b + 1) for kind, a, b in seqeval.get_entities(sequence)]
        assert list(segments(sequence)) == theirs


def multiclass_data(seed=0, n=120, d=8, K=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X @ rng.normal(size=(d, K)) + rng.normal(size=(n, K))).argmax(axis=1)
    return X, y


@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_crammer_singer_agrees_with_liblinear(C, fit_intercept):
    X, y = multiclass_data()
    ours = MulticlassSVC(C=C, tol=1e-5, fit_intercept=fit_intercept, max_iter=20_000).fit(X, y)
    theirs = LinearSVC(
        multi_class="crammer_singer", C=C, tol=1e-8, fit_intercept=fit_intercept, max_iter=10**6
    ).fit(X, y)

    def primal(coef, intercept):
        scores = X @ coef.T + intercept
        augmented = scores + 1.0
        rows = np.arange(len(y))
        augmented[rows, y] -= 1.0
        hinge = augmented.max(axis=1) - scores[rows, y]
        return 0.5 * (np.sum(coef**2) + np.sum(np.square(intercept))) + C * hinge.sum()

    optimum = primal(theirs.coef_, theirs.intercept_)
    assert primal(ours.coef_, ours.intercept_) == pytest.approx(ours.certificate_.primal, rel=1e-9)
    assert ours.certificate_.dual <= optimum * (1 + 1e-9)
    assert ours.certificate_.primal == pytest.approx(optimum, rel=2e-5)


def test_costs_matter():
    X, y = multiclass_data(1)
    cost = 1.0 - np.eye(4)
    cost[0, 1:] = 20.0  # never miss class 0
    plain, careful = (
        MulticlassSVC(C=0.1, cost=c, tol=1e-3, max_iter=5000).fit(X, y).predict(X)
        for c in (None, cost)
    )
    assert np.sum((y == 0) & (careful != 0)) < np.sum((y == 0) & (plain != 0))


def test_costs_are_part_of_the_model_file(tmp_path):
    X, y = multiclass_data(1)
    cost = 1.0 - np.eye(4)
    cost[0, 1:] = 20.0
    model = MulticlassSVC(C=0.1, cost=cost, max_iter=5000).fit(X, y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    (again,) = certify_model(loaded, X, y)
    assert again.primal == pytest.approx(model.certificate_.primal, rel=1e-9)


def test_crammer_singer_agrees_with_the_liblinear_program(tmp_path):
    program = shutil.which("liblinear-train") or shutil.which("train")
    if program is None:
        pytest.skip("liblinear's program is not installed")
    X, y = multiclass_data(3)
    lines = (
        f"{k} " + " ".join(f"{j}:{v:.17g}" for j, v in enumerate(x, 1))
        for x, k in zip(X, y, strict=True)
    )
    (tmp_path / "data").write_text("\n".join(lines) + "\n")
    settings = ["-q", "-s", "4", "-c", "0.5", "-e", "1e-8"]
    files = [tmp_path / "data", tmp_path / "m"]
    subprocess.run([program, *settings, *files], check=True, capture_output=True)
    header, _, table = (tmp_path / "m").read_text().partition("w\n")
    (order,) = (line.split()[1:] for line in header.splitlines() if line.startswith("label"))
    theirs = np.loadtxt(table.splitlines())[:, np.argsort(np.array(order, int))]
    scores = X @ theirs
    rows = np.arange(len(y))
    behind = scores + 1.0 - np.eye(4)[y] - scores[rows, y][:, None]
    optimum = 0.5 * np.sum(theirs**2) + 0.5 * behind.max(axis=1).sum()
    ours = MulticlassSVC(C=0.5, tol=1e-5, fit_intercept=False, max_iter=20_000).fit(X, y)
    assert ours.certificate_.dual <= optimum * (1 + 1e-9)
    assert ours.certificate_.primal == pytest.approx(optimum, rel=2e-5)


def test_any_cost_matrix_agrees_with_a_quadratic_programme():
    X, y = multiclass_data(4, n=25, d=3, K=3)
    cost = np.random.default_rng(0).uniform(0.5, 3.0, (3, 3)) * (1 - np.eye(3))
    model = CuttingPlaneModel(9, caps=np.full(25, 0.7))
    for i, (x, k) in enumerate(zip(X, y, strict=True)):
        for other in range(3):
            if other != k:
                g = np.zeros((3, 3))
                g[k], g[other] = x, -x
                model.add(g.ravel(), cost[k, other], i)
    ours = MulticlassSVC(C=0.7, cost=cost, tol=1e-6, fit_intercept=False, max_iter=50_000)
    assert ours.fit(X, y).certificate_.primal == pytest.approx(model.solve(1e-12).value, rel=2e-6)


@parametrize_with_checks([MulticlassSVC()])
def test_multiclass_svc_is_an_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", ["bcfw", "n-slack"])
def test_multiclass_solvers_agree(solver):
    X, y = multiclass_data(2)
    one, other = (MulticlassSVC(solver=s, C=0.1, max_iter=5000).fit(X, y) for s in ("auto", solver))
    assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=2e-3)


def test_structured_svm():
    oracle, X, Y = chain_data(0)
    model = StructuredSVM(oracle, C=5.0, tol=1e-2).fit(X, Y)
    assert model.certificate_.relative_gap <= 1e-2
    assert len(model.predict(X)) == len(X)
    broken = StructuredSVM(Breaks(oracle, "raises", X[5], 4), C=5.0, tol=1e-9)
    with pytest.raises(OracleError, match="sample 5: the oracle raised KeyError"):
        broken.fit(X, Y)
    assert np.isfinite(broken.coef_).all()


def test_a_structured_model_file_holds_no_oracle(tmp_path):
    oracle, X, Y = chain_data(0)
    model = StructuredSVM(oracle, C=5.0, tol=1e-2).fit(X, Y)
    model.save(tmp_path / "model")
    data = load_model(tmp_path / "model")
    assert data.oracle_name == "ChainOracle"
    assert data.predict(X, oracle) == model.predict(X)
    loaded = StructuredSVM.load(tmp_path / "model", oracle)
    assert loaded.predict(X) == model.predict(X)
    assert loaded.certificate_ == model.certificate_
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    other, _, _ = chain_data(0, n_labels=5)
    with pytest.raises(ValueError, match="for the oracle ChainOracle"):
        StructuredSVM.load(tmp_path / "model", other)
    with pytest.raises(ValueError, match="rescaling must be"):
        replace(data, rescaling="none")
    save_model(tmp_path / "bad", replace(data, info={"solver": "bcfw", "status": "fine"}))
    with pytest.raises(ModelError, match=r"bad: malformed model: info\.status: "):
        StructuredSVM.load(tmp_path / "bad", oracle)
    chain = ChainSVM().fit(X, Y)
    chain.save(tmp_path / "chain")
    with pytest.raises(ModelError, match="not structured"):
        StructuredSVM.load(tmp_path / "chain", oracle)


@pytest.mark.skipif("BRIDLE_DATA" not in os.environ, reason="needs BRIDLE_DATA")
def test_handwritten_words():
    data = np.load(Path(os.environ["BRIDLE_DATA"]) / "structured" / "ocr_letters.npz")
    starts = np.flatnonzero(np.diff(data["word"])) + 1
    X = np.split(np.unpackbits(data["X"], axis=1).astype(np.float32), starts)
    Y = np.split(data["y"], starts)
    fold = data["fold"][np.concatenate([[0], starts])]
    train, test = np.flatnonzero(fold == 0), np.flatnonzero(fold != 0)
    model = ChainSVM().fit([X[i] for i in train], [Y[i].tolist() for i in train])
    error = 1 - model.score([X[i] for i in test], [Y[i].tolist() for i in test])
    assert error <= 0.201
