"""The first hour of five users: each a session from beginning to end, looked at as they would.

Every step asserts what its user would look at. Data are small: what is asked is not how good the
methods are, but whether what one types first works, and says what it should.
"""

from __future__ import annotations

import gzip
import json
import logging
import pickle
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass

import bridle
import numpy as np
import pytest
from bridle.cli import main
from bridle.data import make_corpus, write_svmlight
from click.testing import CliRunner
from sklearn import svm as sklearn_svm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Types a command in an empty folder; what is printed, if it ended as it should."""
    monkeypatch.chdir(tmp_path)

    def type_(line, code=0, stdin=None):
        ran = CliRunner().invoke(main, shlex.split(line)[1:], input=stdin, catch_exceptions=False)
        assert ran.exit_code == code, f"{line}\n{ran.output}"
        return ran

    return type_


# --- a user of scikit-learn ---------------------------------------------------------------------


@pytest.fixture
def ctrl_c():
    """Pressed once, by a callback; Python hears it, also in the background of a shell."""
    before, pressed = signal.signal(signal.SIGINT, signal.default_int_handler), []

    def press(record):
        if not pressed:
            pressed.append(record)
            signal.raise_signal(signal.SIGINT)

    yield press
    signal.signal(signal.SIGINT, before)


def test_a_user_of_scikit_learn_swaps_the_import(ctrl_c):
    X, y = load_digits(return_X_y=True)
    X, y = X[:900] / 16.0, y[:900]
    theirs = sklearn_svm.LinearSVC(dual="auto", tol=1e-6, random_state=0).fit(X, y)
    ours = bridle.LinearSVC(dual="auto", tol=1e-6, random_state=0).fit(X, y)
    assert (ours.predict(X) == theirs.predict(X)).all()  # the defaults mean the same
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)

    grid = {"linearsvc__C": [0.01, 1.0], "linearsvc__loss": ["hinge", "squared_hinge"]}
    search = GridSearchCV(make_pipeline(StandardScaler(), bridle.LinearSVC()), grid, cv=3)
    best = search.fit(X, y).best_estimator_
    assert search.best_score_ > 0.85
    assert best[-1].certificate_.relative_gap <= 1e-3
    own = cross_val_score(bridle.LinearSVC(), X, y, cv=3)
    assert own == pytest.approx(cross_val_score(sklearn_svm.LinearSVC(), X, y, cv=3), abs=0.01)
    assert bridle.LinearSVCCV([0.01, 1.0], cv=3, scoring="f1_macro").fit(X, y).score(X, y) > 0.95

    cancer = load_breast_cancer(as_frame=True)
    table = (cancer.data - cancer.data.mean()) / cancer.data.std()
    few = SelectFromModel(bridle.LinearSVC(C=0.05, penalty="l1")).fit(table, cancer.target)
    assert 0 < few.get_support().sum() < 20
    ranked = RFE(bridle.LinearSVC(), n_features_to_select=5).fit(table, cancer.target)
    assert ranked.support_.sum() == 5
    model = bridle.LinearSVC(C=0.1, class_weight="balanced").fit(table, cancer.target)
    assert list(model.feature_names_in_) == list(cancer.data.columns)
    assert "worst" in str(bridle.explain(model, n=3))
    odds = CalibratedClassifierCV(model, cv=3).fit(table, cancer.target).predict_proba(table)
    direct = clone(model).set_params(probability="platt", random_state=0)
    direct = direct.fit(table, cancer.target).predict_proba(table)
    assert np.corrcoef(odds[:, 1], direct[:, 1])[0, 1] > 0.99

    kernel = bridle.SVC(C=10.0, gamma=0.05).fit(X, y)
    assert (kernel.predict(X) == sklearn_svm.SVC(C=10.0, gamma=0.05).fit(X, y).predict(X)).all()

    with pytest.warns(ConvergenceWarning, match="certified gap of .*raise max_iter") as caught:
        bridle.LinearSVC(C=1e4, tol=1e-9, solver="dcd", max_iter=3).fit(X, y)
    assert caught[0].message.relative_gap > 1e-9

    with pytest.raises(KeyboardInterrupt) as stopped:
        cross_val_score(bridle.LinearSVC(C=1e4, tol=1e-9, callback=ctrl_c), X, y, cv=5)
    assert stopped.value.solution.coef_.shape == (10, 64)  # of the fold at hand


# --- a user of LIBLINEAR and SVM-light ----------------------------------------------------------


def test_a_user_of_liblinear_types_what_they_always_type(shell, tmp_path):
    X, y = make_corpus(900, n_features=300, seed=0)
    y = np.where(y > 0, 7, 3)  # labels of their own
    for name, part in {"a.svm": slice(600), "b.svm": slice(600, 900)}.items():
        write_svmlight(tmp_path / name, X[part], y[part])
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress((tmp_path / "a.svm").read_bytes()))

    told = shell("bridle train -s 3 -c 0.5 -B 1 -w7 2 a.svm a.model").stderr
    assert "--loss hinge --bias regularised --weight 7=2" in told
    shell("bridle train -q -s 3 -c 0.5 -B 1 -w7 2 a.svm.gz gz.model")
    assert bridle.load_model("gz.model").coef.tolist() == bridle.load_model("a.model").coef.tolist()
    # the same objective as the estimator's class_weight, and as scikit-learn's, which is LIBLINEAR
    peer = sklearn_svm.LinearSVC(C=0.5, loss="hinge", class_weight={7: 2}, tol=1e-6).fit(
        X[:600], y[:600]
    )
    proof = bridle.from_sklearn(peer, X[:600], y[:600]).certificate
    ours = bridle.load_model("a.model").certificate
    assert ours.primal == pytest.approx(proof.primal, rel=2e-3)
    assert proof.relative_gap < 0.01
    again = bridle.LinearSVC(0.5, loss="hinge", class_weight={7: 2}).fit(X[:600], y[:600])
    assert again.certificate_.primal == pytest.approx(ours.primal, rel=2e-3)

    assert "Cross Validation Accuracy = " in shell("bridle train -s 2 -v 3 a.svm").stdout
    assert "error " in shell("bridle predict b.svm a.model out").stderr
    labels = (tmp_path / "out").read_text().split()
    assert set(labels) == {"3", "7"}
    assert np.mean(np.array(labels, int) == y[600:]) > 0.8
    piped = shell("bridle predict - a.model", stdin=(tmp_path / "b.svm").read_bytes())
    assert piped.stdout.split() == labels

    # their file says the same, by their own rule: a line a feature, the bias last
    shell("bridle export a.model a.liblinear")
    head, _, rows = (tmp_path / "a.liblinear").read_text().partition("\nw\n")
    weights = np.array(rows.split(), float)
    first = int(head.partition("label ")[2].split()[0])
    assert "nr_feature 300" in head
    decided = np.hstack([X[600:].toarray(), np.ones((300, 1))]) @ weights > 0
    assert (np.where(decided, first, 10 - first) == np.array(labels, int)).all()

    assert "Missing option '-c'" in shell("bridle import a.liblinear back.model", code=2).stderr
    shell("bridle import a.liblinear back.model -c 0.5")
    assert "certified gap" in shell("bridle certify a.svm back.model").stdout
    shell("bridle train -q -s 0 -b 1 a.svm odds.model")
    header, *lines = shell("bridle predict -b 1 b.svm odds.model").stdout.splitlines()
    assert header.split() == ["labels", "3", "7"]
    assert all(abs(sum(map(float, line.split()[1:])) - 1) < 1e-5 for line in lines)

    shell("bridle train -q a.svm free.model --bias free")
    shell("bridle export free.model free.light --format svmlight")  # SVM-light's, and back
    shell("bridle import free.light light.model -c 1")
    X_b = X[600:]
    np.testing.assert_allclose(
        bridle.load_model("light.model").resized(300).decision_function(X_b),
        bridle.load_model("free.model").decision_function(X_b), rtol=1e-6, atol=1e-8,
    )  # fmt: skip
    for wrong in ("train none.svm", "train a.svm -c -1", "train a.svm --gapp 1", "predict a.svm"):
        lines = shell(f"bridle {wrong}", code=2).stderr.splitlines()
        assert len(lines) == 1, wrong
        assert lines[0].startswith("bridle: ")
    shell("bridle train -q a.svm late.model -c 100 --max-epochs 1", code=3)
    assert (tmp_path / "late.model").exists()


# --- someone who ranks, and works with language -------------------------------------------------


def letor(n_queries=25, n_documents=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_queries * n_documents, 6))
    grade = np.clip(np.rint(X[:, 0] + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(len(X))), 0, 2)
    return X, grade, np.repeat([f"query {q:02d}" for q in range(n_queries)], n_documents)


def as_in_the_tutorial(sentence, k):
    """The features of crfsuite's tutorial."""
    word, tag = sentence[k]
    features = {
        "bias": 1.0, "word.lower()": word.lower(), "word[-3:]": word[-3:], "postag": tag,
        "word.istitle()": word.istitle(),
    }  # fmt: skip
    if k:
        features |= {"-1:postag": sentence[k - 1][1]}
    else:
        features["BOS"] = True
    return features


SENTENCES = [
    "The/DT/B-NP cat/NN/I-NP sees/VBZ/B-VP a/DT/B-NP dog/NN/I-NP ././O",
    "A/DT/B-NP bird/NN/I-NP sings/VBZ/B-VP ././O",
    "Mary/NNP/B-NP likes/VBZ/B-VP the/DT/B-NP big/JJ/I-NP bird/NN/I-NP ././O",
    "Dogs/NNS/B-NP bark/VBP/B-VP at/IN/B-PP the/DT/B-NP cat/NN/I-NP ././O",
]


def test_someone_who_ranks_documents(shell, tmp_path):
    X, grade, qid = letor()
    train, test = slice(180), slice(180, 300)
    for loss in ("map", "ndcg@5", "pairs"):
        model = bridle.RankSVM(loss, C=1.0).fit(X[train], grade[train], qid=qid[train])
        assert model.certificate_.relative_gap <= 1e-3
        scores = model.predict(X[test])
        assert model.score(X[test], grade[test], qid=qid[test]) > 0.75
    sizes = bridle.RankSVM("pairs").fit(X[train], grade[train], group=[12] * 15)
    assert np.array_equal(sizes.coef_, model.coef_)  # LightGBM's way to say which query
    found = bridle.metrics.ndcg(grade[test], scores, qid[test], k=5).mean()
    tables = [(a.reshape(10, 12)) for a in (2.0 ** grade[test] - 1, scores)]
    assert found == pytest.approx(ndcg_score(*tables, k=5))  # of gains, as LightGBM's is
    with pytest.warns(UserWarning, match="there is no qid: all rows are taken for one query"):
        bridle.RankSVM().fit(X, grade)
    with pytest.warns(UserWarning, match="all weights are 0"):
        bridle.RankSVM().fit(0 * X, grade, qid=qid)

    lines = ["query,label," + ",".join(f"x{j}" for j in range(6))]
    lines += [f"{q},{g:g},{','.join(map(str, x))}" for q, g, x in zip(qid, grade, X, strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    write_svmlight(tmp_path / "no-qid.svm", X, grade)
    shell("bridle rank train all.csv r.model --qid-column query --loss ndcg@5 --scale --quiet")
    shell("bridle rank predict all.csv r.model scores.txt")
    told = shell("bridle rank eval all.csv r.model --qid-column query --summary --json").stdout
    overall = json.loads(told)["overall"]
    scores = np.loadtxt(tmp_path / "scores.txt")
    assert overall["NDCG@5"] == pytest.approx(bridle.metrics.ndcg(grade, scores, qid, k=5).mean())
    assert overall["MAP"] > 0.8
    assert "expected qid:" in shell("bridle rank train no-qid.svm", code=2).stderr


def test_someone_who_tags_and_parses(shell, tmp_path):
    split = [[tuple(token.split("/")) for token in line.split()] for line in SENTENCES]
    X = [[as_in_the_tutorial([t[:2] for t in s], k) for k in range(len(s))] for s in split]
    y = [[label for *_, label in s] for s in split]
    tagger = bridle.ChainSVM(C=1.0).fit(X, y)
    assert tagger.certificate_.relative_gap <= 1e-2
    assert [list(answer) for answer in tagger.predict(X)] == y
    assert "FB1: 100.00" in str(tagger.scores(X, y))  # as conlleval writes it
    marginals = tagger.predict_marginals(X)[0][0]
    assert sum(marginals.values()) == pytest.approx(1.0)
    assert max(marginals, key=marginals.get) == "B-NP"
    assert "postag:VBZ" in str(bridle.explain(tagger, n=3)).partition("B-VP against")[2]

    text = "\n\n".join("\n".join(" ".join(t) for t in s) for s in split) + "\n\n"
    (tmp_path / "chunks.txt").write_text(text)
    shell("bridle tag train chunks.txt chunks.model -c 1 --quiet --max-seconds 60")
    out = shell("bridle tag predict - chunks.model", stdin=text).stdout
    assert [line.split()[-1] for line in out.splitlines() if line] == [
        label for labels in y for label in labels
    ]
    (tmp_path / "answers.txt").write_text(out)
    assert "100.00" in shell("bridle tag eval answers.txt").stdout

    tree = "(S (NP (DT the) (NN {})) (VP (VBZ sees) (NP (DT a) (NN {}))))\n"
    (tmp_path / "trees.mrg").write_text(tree.format("cat", "dog") + tree.format("dog", "bird"))
    shell("bridle parse train trees.mrg trees.model --quiet")
    (tmp_path / "plain.txt").write_text("a bird sees the cat\n")
    parsed = shell("bridle parse predict plain.txt trees.model").stdout
    assert parsed.startswith("(S (NP (DT a) (NN bird)) (VP (VBZ sees)")
    assert "F1 100.00" in shell("bridle parse eval trees.mrg trees.model").stdout


# --- an engineer in production ------------------------------------------------------------------


def test_an_engineer_puts_a_model_into_production(shell, tmp_path, caplog):
    X, y = make_corpus(3000, n_features=400, seed=1)
    with caplog.at_level(logging.INFO, logger="bridle"):
        model = bridle.LinearSVC(C=1.0, random_state=0, probability="platt").fit(X, y)
    assert any("certified gap" in line for line in caplog.messages)  # in the log, not on the screen
    twice = bridle.LinearSVC(C=1.0, random_state=0, probability="platt", n_jobs=2).fit(X, y)
    assert pickle.dumps(twice.coef_) == pickle.dumps(model.coef_)  # the same bits

    late = bridle.LinearSVC(
        C=1e4, tol=1e-12, solver="dcd", max_seconds=0.05, interrupt="return", loss="hinge"
    )
    with pytest.warns(bridle.GapWarning, match="stopped after .* s at a certified gap"):
        late.fit(X, y)
    assert late.score(X, y) > 0.8  # the best so far

    model.save("m.model")
    assert (tmp_path / "m.model").stat().st_size < 8 * 400 + 4096  # no number for each row
    read = bridle.load_model("m.model")
    assert np.array_equal(read.predict_proba(X), model.predict_proba(X))
    (proof,) = bridle.certify_model(model, X, y)
    assert proof.relative_gap <= 1e-3
    service = (
        "import sys, bridle; m = bridle.load_model('m.model');"
        "print(m.n_features, 'sklearn' in sys.modules)"
    )
    command = [sys.executable, "-c", service]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["400", "False"]
    damaged = bytearray((tmp_path / "m.model").read_bytes())
    damaged[-20] ^= 1
    (tmp_path / "bad.model").write_bytes(damaged)
    with pytest.raises(bridle.ModelError, match=r"bad\.model"):
        bridle.load_model("bad.model")
    old = pickle.dumps(model).replace(bridle.__version__.encode(), b"0.0.9")
    with pytest.warns(UserWarning, match=r"pickled by bridle 0\.0\.9"):
        assert np.array_equal(pickle.loads(old).predict(X), model.predict(X))

    write_svmlight(tmp_path / "rows.svm", X, y)
    report = json.loads(
        shell("bridle train rows.svm cli.model -c 1 --loss squared_hinge --json").stdout
    )
    assert report["status"] == "converged"
    assert report["primal"] == pytest.approx(model.certificate_.primal, rel=2e-3)
    found = json.loads(shell("bridle certify rows.svm cli.model --json").stdout)
    assert found["trained_on_these_data"]
    assert found["relative_gap"] <= 1.1e-3
    lines = (tmp_path / "rows.svm").read_bytes().splitlines(keepends=True)
    shell("bridle train - stream.model --lam 1e-4 --block 500", stdin=b"".join(lines[:2000]))
    stream = bridle.OnlineSVC.load("stream.model")  # goes on where the pipe ended
    stream.partial_fit(X[2000:], y[2000:])
    assert stream.n_rows_seen_ == 3000
    assert stream.progressive_error_ < 0.25
    assert "stray.model: there is no folder" in " ".join(
        shell("bridle train rows.svm no/stray.model", code=2).stderr.split()
    )


def test_an_engineer_serves_a_model_elsewhere(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, y = make_corpus(500, n_features=100, nnz_per_row=20, seed=1)
    X = X.toarray().astype(np.float32)
    for model in (bridle.LinearSVC(probability="isotonic"), bridle.SVC(probability=True)):
        bridle.export_model(tmp_path / "m.onnx", model.fit(X, y))
        session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
        answers = dict(
            zip([o.name for o in session.get_outputs()], session.run(None, {"X": X}), strict=True)
        )
        assert np.array_equal(answers["label"], model.predict(X))
        np.testing.assert_allclose(answers["scores"], model.decision_function(X), atol=1e-9)
        np.testing.assert_allclose(answers["probabilities"], model.predict_proba(X), atol=1e-9)
    with pytest.raises(bridle.ModelError, match="do not go to ONNX"):
        bridle.export_model(
            tmp_path / "m.onnx", bridle.ChainSVM().fit([[["a"], ["b"]]], [["x", "y"]])
        )


# --- a researcher -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounded(bridle.Loss):
    """(1 - p)^2 / 2 for 0 < p < 1, 1/2 - p below."""

    name = "rounded"
    smooth = True

    def value(self, p):
        return np.where(p < 0, 0.5 - p, 0.5 * np.maximum(0, 1 - p) ** 2)

    def slope(self, p):
        return np.clip(1 - p, 0, 1)

    def upper(self, cost):
        return cost

    def dual_value(self, alpha, cost):
        return float(alpha.sum() - np.sum(alpha**2 / (2 * cost)))


@dataclass(frozen=True)
class DualAscent(bridle.Solver):
    """alpha <- clip(alpha + rate (1 - y X w)), the w of this alpha."""

    rate: float = 0.01

    name = "ascent"

    def iterates(self, problem, *, start=None, rng, pace=None):
        alpha = np.zeros(problem.n_rows)
        step = 0
        while True:
            w = problem.rows.combine(alpha * problem.y)
            alpha = np.clip(
                alpha + self.rate * (1 - problem.y * problem.rows.scores(w)), 0, problem.upper
            )
            step += 1
            w = problem.rows.combine(alpha * problem.y)
            yield bridle.Iterate(step, float(step), *problem.split(w), alpha)


class TwoBits:
    """An output of two bits, whose score is a sum over them."""

    n_features = 4

    def features(self, x, y):
        return np.concatenate([x * y[0], x * y[1]])

    def loss(self, y, other):
        return float(y[0] != other[0]) + float(y[1] != other[1])

    def outputs(self, x):
        return [(a, b) for a in (0, 1) for b in (0, 1)]

    def argmax(self, x, w, truth=None):
        return max(
            self.outputs(x),
            key=lambda y: self.features(x, y) @ w + (self.loss(truth, y) if truth else 0.0),
        )


def test_a_researcher_checks_and_compares():
    X, y = make_corpus(800, n_features=200, seed=2)
    problem = bridle.LinearProblem(X, y, C=0.5)
    found = bridle.solve(problem, "dcd", stop=bridle.Gap(1e-6))
    w, alpha = found.w, found.alpha  # the proof, by hand
    primal = 0.5 * w @ w + 0.5 * np.maximum(0, 1 - y * (X @ w)).sum()
    v = X.T @ (alpha * y)
    assert 0 <= alpha.min() <= alpha.max() <= 0.5
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual == pytest.approx(alpha.sum() - 0.5 * v @ v, rel=1e-6)
    gaps = found.trace["relative_gap"]
    assert (np.diff(gaps) <= 0).all()

    three = bridle.solve(problem, "pegasos", stop=bridle.Steps(300))
    assert three.trace[-1].step == 300
    known = bridle.Suboptimality(0.01, optimum=found.certificate.primal)
    near = bridle.solve(problem, "sgd-s", stop=known | bridle.Epochs(500))
    assert near.certificate.primal <= 1.01 * found.certificate.primal
    compared = bridle.compare(problem, ["dcd", "pegasos", DualAscent()], gap=0.01)
    assert [run.name for run in compared.runs] == ["dcd", "pegasos", "ascent"]
    assert all(run.certificate.relative_gap <= 0.01 for run in compared.runs)
    assert "suboptimality" in str(compared)

    path = bridle.path(X, y, 0.1, 10.0, gap=0.01)
    assert path.complete
    assert path.at(1.0)[1].relative_gap <= 0.01
    peer = SGDClassifier(loss="hinge", alpha=bridle.C_to_lam(0.5, 800), random_state=0).fit(X, y)
    judged = bridle.certify(
        peer.coef_[0], X, y, 0.5, b=peer.intercept_[0], bias="free", loss="hinge"
    )
    assert 0 < judged.relative_gap < 0.5
    assert bridle.check_gradient(problem, np.random.default_rng(0).normal(size=200)) < 1e-3
    margin = bridle.margin_report(problem, w, found.b, alpha)
    assert margin.margin == pytest.approx(2 / np.linalg.norm(w))
    assert margin.support_vectors == np.count_nonzero(alpha)


def test_a_researcher_brings_their_own():
    X, y = make_corpus(400, n_features=100, nnz_per_row=20, seed=2)
    X = X.toarray()
    bridle.check_loss(Rounded())  # an error says what is wrong with it
    own = bridle.LinearSVC(0.1, loss=Rounded(), fit_intercept=False).fit(X, y)
    w = own.coef_[0]
    primal = 0.5 * w @ w + 0.1 * Rounded().value(y * (X @ w)).sum()
    assert own.certificate_.primal == pytest.approx(primal)
    assert own.certificate_.relative_gap <= 1e-3
    with pytest.raises(ValueError, match="ascent"):  # it is a method of the hinge
        bridle.solve(bridle.LinearProblem(X, y, 0.1, loss="logistic"), DualAscent())

    points = np.random.default_rng(0).normal(size=(60, 2))
    answers = [(int(x[0] > 0), int(x[1] > 0)) for x in points]
    said = str(bridle.check_oracle(TwoBits(), zip(points[:5], answers, strict=False)))
    assert said == "5 samples, 5 of them against brute force: no problems"
    model = bridle.StructuredSVM(TwoBits()).fit(list(points), answers)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.score(list(points), answers) > 0.9
