"""Every estimator in a file and back, in a pickle and back; and what all of them have in common."""

import pickle

import bridle
import numpy as np
import pytest
from bridle import (
    SVC,
    ChainSVM,
    LinearSVC,
    LinearSVCCV,
    ModelError,
    MulticlassSVC,
    MultilabelSVC,
    MultivariateSVC,
    OnlineSVC,
    RankSVM,
    TreeSVM,
)
from bridle.data.trees import read_trees
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
    "SVC": lambda: (SVC(probability=True), *rows()),
    "SVC, two": lambda: (SVC(kernel="linear"), *two()),
    "MulticlassSVC": lambda: (MulticlassSVC(), *rows()),
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
    assert again.certificate_.primal == model.certificate_.primal
    if hasattr(model, "predict_proba"):
        known = bridle.load_model(tmp_path / "m").predict_proba(X)
        np.testing.assert_allclose(known, model.predict_proba(X))
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes()[-200:] == (tmp_path / "m").read_bytes()[-200:]


def test_what_no_file_gives_back(tmp_path):
    X, y = two()
    OnlineSVC(random_state=0).fit(X, y).save(tmp_path / "m")
    with pytest.raises(TypeError, match="load it as a LinearSVC"):
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
        LinearSVC(penalty="l1").fit(X, y)
    joint = LinearSVC(multi_class="crammer_singer").fit(*rows())
    hinge = LinearSVC(multi_class="crammer_singer", loss="hinge").fit(*rows())
    assert np.array_equal(joint.coef_, hinge.coef_)
