"""Every estimator in a file and back, in a pickle and back; and what all of them have in common."""

import io
import pickle
import warnings
from unittest import mock

import bridle
import numpy as np
import pytest
from bridle import (
    SVC,
    SVR,
    ChainSVM,
    LinearSVC,
    LinearSVCCV,
    LogisticRegressionCV,
    ModelError,
    MulticlassSVC,
    MultilabelSVC,
    MultivariateSVC,
    OneClassSVM,
    OnlineSVC,
    RankSVM,
    TreeSVM,
)
from bridle.cli import main
from bridle.data import write_svmlight
from bridle.data.trees import read_trees
from bridle.objective.kernels import KERNELS
from bridle.objective.losses import LOSSES
from bridle.solvers import REGISTRY
from click.testing import CliRunner
from sklearn.metrics import f1_score, make_scorer


def rows(n=120, d=4, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal((d, n_classes)) + rng.normal(size=(n, n_classes))).argmax(1)


def two(**options):
    X, y = rows(n_classes=2, **options)
    return X, y


def chains():
    X = [[["a", "x"], ["b"], ["a"]], [["b"], ["a", "x"]]] * 3
    return X, [["1", "2", "1"], ["2", "1"]] * 3


def trees():
    found = read_trees("(S (N a) (V b))(S (N a) (V c))")
    return [tree.words for tree in found], found


def labels():
    X, y = rows()
    return X, np.eye(3, dtype=int)[y]


CASES = {
    "LinearSVC": lambda: (LinearSVC(), *rows()),
    "LinearSVC, pairs": lambda: (LinearSVC(multi_class="ovo", probability="platt"), *rows()),
    "LinearSVCCV": lambda: (LinearSVCCV([0.1, 1.0], cv=2), *rows()),
    "LogisticRegressionCV": lambda: (LogisticRegressionCV(2, cv=2), *rows()),
    "SVC": lambda: (SVC(probability=True), *rows()),
    "SVR": lambda: (SVR(), *rows()),
    "OneClassSVM": lambda: (OneClassSVM(nu=0.2), *rows()),
    "SVC, two": lambda: (SVC(kernel="linear"), *two()),
    "MulticlassSVC": lambda: (MulticlassSVC(), *rows()),
    "MultivariateSVC": lambda: (MultivariateSVC("f1"), *two()),
    "MultivariateSVC, roc": lambda: (MultivariateSVC("roc"), *two()),
    "OnlineSVC": lambda: (OnlineSVC(random_state=0), *rows()),
    "RankSVM": lambda: (RankSVM("pairs"), *two()),
    "ChainSVM": lambda: (ChainSVM(), *chains()),
    "TreeSVM": lambda: (TreeSVM(), *trees()),
    "MultilabelSVC": lambda: (MultilabelSVC(), *labels()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_file_gives_the_estimator_back(name, tmp_path):
    model, X, y = CASES[name]()
    model.fit(X, y)
    model.save(tmp_path / "m")
    again = type(model).load(tmp_path / "m")
    assert type(again) is type(model)
    assert list(map(str, again.predict(X))) == list(map(str, model.predict(X)))
    if hasattr(model, "certificate_"):
        assert again.certificate_.primal == model.certificate_.primal
    if hasattr(model, "predict_proba"):
        known = bridle.load_model(tmp_path / "m").predict_proba(X)
        np.testing.assert_allclose(known, model.predict_proba(X))
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes()[-200:] == (tmp_path / "m").read_bytes()[-200:]


@pytest.mark.parametrize("rate", ["decaying", "constant"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_stream_is_learned_on_from_a_file(rate, n_classes, tmp_path):
    X, y = rows(n_classes=n_classes)
    weights = {k: k + 1.0 for k in range(n_classes)}
    model = OnlineSVC(rate=rate, class_weight=weights)
    model.partial_fit(X[:50], y[:50], classes=range(n_classes))
    model.partial_fit(X[50:80], y[50:80]).save(tmp_path / "m")
    again = OnlineSVC.load(tmp_path / "m")
    for learner in (model, again):
        learner.partial_fit(X[80:], y[80:])
    assert np.array_equal(again.coef_, model.coef_)
    assert np.array_equal(again.intercept_, model.intercept_)
    assert again.progressive_error_ == model.progressive_error_
    assert again.n_rows_seen_ == len(X)
    assert again.class_weight == weights


def test_what_no_file_gives_back(tmp_path):
    X, y = two()
    LinearSVC().fit(X, y).save(tmp_path / "m")
    with pytest.raises(ModelError, match="does not say how to learn on: load it as a LinearSVC"):
        OnlineSVC.load(tmp_path / "m")
    assert np.isin(LinearSVC.load(tmp_path / "m").predict(X), y).all()
    with pytest.raises(ModelError, match="which is no SVC"):
        SVC.load(tmp_path / "m")
    with pytest.raises(ModelError, match="load it as a LinearSVC"):
        MulticlassSVC.load(tmp_path / "m")
    with pytest.raises(ModelError, match="which is no MultivariateSVC"):
        MultivariateSVC.load(tmp_path / "m")


def test_the_dual_is_left_out_unless_it_is_asked_for(tmp_path):
    X, y = two(n=2000)
    model = LinearSVC().fit(X, y)
    model.save(tmp_path / "small")
    model.save(tmp_path / "large", dual=True)
    assert LinearSVC.load(tmp_path / "small").predict(X).tolist() == model.predict(X).tolist()
    assert bridle.load_model(tmp_path / "large").alpha.shape == (1, 2000)
    sizes = [(tmp_path / name).stat().st_size for name in ("small", "large")]
    assert sizes[1] - sizes[0] > 8 * 2000


@pytest.mark.parametrize("name", CASES)
def test_a_pickle_says_which_version_wrote_it(name):
    model, X, y = CASES[name]()
    again = pickle.loads(pickle.dumps(model.fit(X, y)))
    assert list(map(str, again.predict(X))) == list(map(str, model.predict(X)))
    assert not hasattr(again, "_bridle_version")
    state = model.__getstate__() | {"_bridle_version": "0.0.9"}
    with pytest.warns(UserWarning, match=r"was pickled by bridle 0\.0\.9, and is read by"):
        type(model).__new__(type(model)).__setstate__(state)


def test_n_jobs_is_another_name():
    X, y = rows()
    for model in (LinearSVC(n_jobs=2), SVC(n_jobs=1), MulticlassSVC(n_jobs=1), RankSVM(n_jobs=1)):
        model.fit(X, y)
    with pytest.raises(ValueError, match="two names of one number"):
        LinearSVC(n_threads=2, n_jobs=1).fit(X, y)


def test_c_is_chosen_by_what_one_asks_for():
    X, y = two(n=300, d=8)
    y = np.where((y == 1) & (np.random.default_rng(1).random(len(y)) < 0.3), 1, 0)  # a rare class
    found = LinearSVCCV([1e-3, 1e-2, 1.0], cv=3, scoring="f1").fit(X, y)
    same = LinearSVCCV([1e-3, 1e-2, 1.0], cv=3, scoring=make_scorer(f1_score)).fit(X, y)
    assert np.array_equal(found.scores_, same.scores_)
    assert found.Cs_[found.scores_.mean(axis=0).argmax()] == found.C_
    fold = np.arange(len(y)) % 3 == 0
    split = [(np.flatnonzero(~fold), np.flatnonzero(fold))]
    one = LinearSVCCV([1e-2], cv=split, scoring="roc_auc", tol=1e-8).fit(X, y)
    own = LinearSVC(1e-2, tol=1e-8).fit(X[~fold], y[~fold])
    area = bridle.metrics.roc_area(y[fold], own.decision_function(X[fold]))
    np.testing.assert_allclose(one.scores_[0, 0], area, atol=1e-6)


def test_classes_of_a_stream_weigh_as_their_rows_do():
    X, y = rows()
    weight = np.where(y == 1, 3.0, 1.0)
    by_class = OnlineSVC(class_weight={1: 3.0}, random_state=0).fit(X, y)
    by_row = OnlineSVC(random_state=0).fit(X, y, sample_weight=weight)
    assert np.array_equal(by_class.coef_, by_row.coef_)
    streamed = OnlineSVC(class_weight={1: 3.0}).partial_fit(X, y, classes=[0, 1, 2])
    plain = OnlineSVC().partial_fit(X, y, classes=[0, 1, 2], sample_weight=weight)
    assert np.array_equal(streamed.coef_, plain.coef_)
    OnlineSVC(class_weight="balanced").fit(X, y)
    with pytest.raises(ValueError, match="partial_fit does not know how many rows"):
        OnlineSVC(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


def test_defaults_that_say_what_scikit_learns_say():
    X, y = two()
    assert LinearSVC().loss == LinearSVCCV().loss == "squared_hinge"
    model = LinearSVC(penalty="l2", dual="auto").fit(X, y)
    assert np.array_equal(model.coef_, LinearSVC(dual=True).fit(X, y).coef_)
    with pytest.raises(ValueError, match="Unsupported set of arguments: penalty='l1'"):
        LinearSVC(penalty="l1", loss="hinge").fit(X, y)
    joint = LinearSVC(multi_class="crammer_singer").fit(*rows())
    hinge = LinearSVC(multi_class="crammer_singer", loss="hinge").fit(*rows())
    assert np.array_equal(joint.coef_, hinge.coef_)


def test_queries_by_name_and_by_size():
    X, y = two(n=60)
    qid = np.repeat([3, 1, 2], 20)
    plain = RankSVM("pairs").fit(X, y, qid)
    names = RankSVM("pairs").fit(X, y, np.array(["c", "a", "b"])[np.repeat(np.arange(3), 20)])
    sizes = RankSVM("pairs").fit(X, y, group=[20, 20, 20])
    assert np.array_equal(plain.coef_, names.coef_)
    assert np.array_equal(plain.coef_, sizes.coef_)
    assert bridle.metrics.queries(["b", "b", "a"]).tolist() == ["b", "a"]
    for wrong, options in {
        "add up to 59": {"group": [20, 39]},
        "one of qid, group": {"group": [60], "qid": qid},
    }.items():
        with pytest.raises(ValueError, match=wrong):
            RankSVM("pairs").fit(X, y, **options)


def test_a_ranker_says_what_it_did_not_get_and_what_came_of_it():
    X, y = two(n=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="there is no qid: all rows are taken for one query"):
            RankSVM().fit(X, y)
        with pytest.raises(UserWarning, match="all weights are 0"):
            RankSVM().fit(0 * X, y, qid=np.zeros(60, int))


def test_a_chain_is_explained_label_by_label():
    X, y = chains()
    told = bridle.explain(ChainSVM().fit(X, y), n=2)
    assert [side.label for side in told.sides] == ["1", "2"]
    assert told.sides[0].towards[0][0] in ("a", "x")
    assert told.sides[1].towards[0][0] == "b"


def test_a_bar_fills_up_to_what_the_run_asks_for():
    X, y = two(n=200)
    stream = io.StringIO()
    LinearSVC(tol=0.05, solver="dcd", callback=bridle.ProgressBar(stream=stream)).fit(X, y)
    assert "of 5.0e-02" in stream.getvalue()
    assert "asked for" in LinearSVC().fit(X, y).message_


def test_a_run_says_how_it_ended_to_whoever_listens(caplog):
    with caplog.at_level("INFO", logger="bridle"):
        LinearSVC().fit(*two())
    assert any("certified gap" in line for line in caplog.messages)


def test_each_ending_has_its_own_advice():
    X, y = two(n=200)
    with pytest.warns(bridle.GapWarning, match="raise max_iter or max_seconds"):
        LinearSVC(1e3, tol=1e-9, max_iter=2, solver="dcd").fit(X, y)
    with pytest.warns(bridle.GapWarning) as seen:
        LinearSVC(np.inf, solver="dcd").fit(X, y)
    assert "choose a finite C" in str(seen[0].message)
    assert "max_iter" not in str(seen[0].message)


ELSEWHERE = """
from bridle import DualCoordinateDescent, SquaredHinge
from bridle.objective.kernels.rbf import Rbf
from bridle.structured.ranking.roc import Roc

class Mine(DualCoordinateDescent):
    name = "mine"

class Round(SquaredHinge):
    name = "round"

class Bell(Rbf):
    name = "bell"

class Area(Roc):
    name = "area"
"""
NAMED = """
[bridle.solvers]
mine = elsewhere:Mine
[bridle.losses]
round = elsewhere:Round
[bridle.kernels]
bell = elsewhere:Bell
[bridle.ranking_losses]
area = elsewhere:Area
"""


@mock.patch.dict(REGISTRY)
@mock.patch.dict(LOSSES)
@mock.patch.dict(KERNELS)
def test_what_other_packages_install_is_known_by_its_name(monkeypatch, tmp_path):
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    info = tmp_path / "elsewhere-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n")
    (info / "entry_points.txt").write_text(NAMED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    X, y = two()
    assert LinearSVC(solver="mine").fit(X, y).solver_ == "mine"
    problem = bridle.LinearProblem(X, 2.0 * y - 1)
    assert [run.name for run in bridle.compare(problem, ["mine"]).runs] == ["mine"]
    with pytest.raises(ValueError, match="unknown solver 'nobody'"):
        bridle.solve(problem, "nobody")
    round_ = LinearSVC(loss="round").fit(X, y)
    assert np.array_equal(round_.coef_, LinearSVC(loss="squared_hinge").fit(X, y).coef_)
    bell = bridle.SVC(kernel="bell", gamma=0.5).fit(X, y)
    assert np.array_equal(bell.predict(X), SVC(gamma=0.5).fit(X, y).predict(X))
    qid = np.repeat(np.arange(6), 20)
    area = RankSVM("area").fit(X, y, qid=qid)
    assert np.array_equal(area.coef_, RankSVM("roc").fit(X, y, qid=qid).coef_)
    write_svmlight("rows.svm", X, y)
    write_svmlight("ranks.svm", X, y, qid=qid + 1)
    for line in (
        "train rows.svm -q --loss round --solver mine", "train rows.svm -q --kernel bell",
        "rank train ranks.svm --quiet --loss area",
    ):  # fmt: skip
        ran = CliRunner().invoke(main, line.split(), catch_exceptions=False)
        assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize("model", [
    LinearSVC(), LinearSVC(penalty="l1", C=1e-6), LinearSVCCV([0.1, 1.0], cv=2),
    SVC(kernel="linear"), MulticlassSVC(), bridle.LogisticRegression(), bridle.Ridge(),
    bridle.LinearSVR(epsilon=9.0), MultivariateSVC(), OnlineSVC(),
], ids=str)  # fmt: skip
def test_weights_that_are_all_0_are_told_of(model):
    X, y = two(n=60)
    if getattr(model, "penalty", "l2") == "l2":
        X = 0 * X
    with pytest.warns(UserWarning, match="all weights are 0: every row gets the same answer"):
        model.fit(X, y)
    assert len(set(model.predict(X))) == 1


def test_a_tagger_whose_weights_are_all_0_tells_of_them():
    with pytest.warns(UserWarning, match="all weights are 0"):
        ChainSVM(boundaries=False, transitions=False, fit_intercept=False).fit(
            [np.zeros((2, 1))], [["1", "2"]]
        )
