"""LogisticRegressionCV: a grid search's scores by the same code as LinearSVCCV, gaps certified."""

from inspect import signature

import bridle
import numpy as np
import pytest
from bridle import LogisticRegression, LogisticRegressionCV
from sklearn.linear_model import LogisticRegressionCV as Theirs
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, PredefinedSplit, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import matrix

CS = np.geomspace(0.01, 10.0, 4)


@parametrize_with_checks(
    [
        LogisticRegressionCV(Cs=3, cv=3),
        LogisticRegressionCV(Cs=2, cv=2, multi_class="ovr", l1_ratios=[0.0, 0.5]),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def data(n_classes):
    X, y = matrix.small_data(n_rows=150)
    return X, y if n_classes == 2 else y + 2.0 * (X[:, 0] > 0.5)


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
@pytest.mark.parametrize(
    ("n_classes", "ways"), [(2, "multinomial"), (3, "multinomial"), (3, "ovr")]
)
def test_the_scores_of_a_grid_search(n_classes, ways, scoring):
    X, y = data(n_classes)
    folds = StratifiedKFold(4)
    ours = LogisticRegressionCV(CS, cv=folds, tol=1e-8, multi_class=ways, scoring=scoring).fit(X, y)
    each = LogisticRegression(tol=1e-8, multi_class=ways)
    grid = GridSearchCV(each, {"C": CS}, cv=folds, scoring=scoring).fit(X, y)
    assert ours.scores_.shape == (4, 1, len(CS))
    mean = ours.scores_.mean(axis=(0, 1))
    assert mean == pytest.approx(grid.cv_results_["mean_test_score"], abs=1e-4)
    assert grid.best_params_["C"] == ours.C_
    assert ours.coef_ == pytest.approx(grid.best_estimator_.coef_, abs=1e-3)
    assert ours.score(X, y) == pytest.approx(grid.score(X, y), abs=1e-4)
    assert np.all(ours.gaps_ <= 1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_choice_of_scikit_learns(n_classes):
    if "use_legacy_attributes" not in signature(Theirs).parameters:
        pytest.skip("this scikit-learn has other shapes of scores")
    X, y = data(n_classes)
    ours = LogisticRegressionCV(4, cv=3, tol=1e-8, scoring="neg_log_loss").fit(X, y)
    theirs = Theirs(
        Cs=4, l1_ratios=(0.0,), cv=3, tol=1e-8, solver="newton-cholesky", scoring="neg_log_loss",
        use_legacy_attributes=False,
    ).fit(X, y)  # fmt: skip
    assert ours.Cs_ == pytest.approx(theirs.Cs_)
    assert pytest.approx(theirs.C_) == ours.C_
    assert ours.scores_ == pytest.approx(theirs.scores_, rel=1e-3, abs=1e-5)
    assert ours.predict_proba(X) == pytest.approx(theirs.predict_proba(X), abs=1e-3)


@pytest.mark.filterwarnings("ignore:all weights are 0")  # of a search, at the smallest C
def test_the_mix_of_penalties_is_chosen_too(tmp_path):
    X, y = data(2)
    ours = LogisticRegressionCV(CS, l1_ratios=[0.0, 0.5, 1.0], cv=3, tol=1e-7).fit(X, y)
    assert ours.scores_.shape == ours.gaps_.shape == (3, 3, len(CS))
    mean = ours.scores_.mean(axis=0)
    best = np.unravel_index(mean.argmax(), mean.shape)
    assert (ours.l1_ratio_, ours.C_) == (ours.l1_ratios_[best[0]], ours.Cs_[best[1]])
    for k, mix in enumerate([{}, {"penalty": "elasticnet", "l1_ratio": 0.5}, {"penalty": "l1"}]):
        alone = LogisticRegression(CS[1], tol=1e-7, **mix)
        grid = GridSearchCV(alone, {"C": CS}, cv=3).fit(X, y)
        assert mean[k] == pytest.approx(grid.cv_results_["mean_test_score"])
    sparse = LogisticRegressionCV([0.5], l1_ratios=[0.7], cv=2).fit(X, y)
    sparse.save(tmp_path / "m")
    again = LogisticRegressionCV.load(tmp_path / "m")
    assert list(again.l1_ratios) == [0.7]
    assert np.array_equal(again.predict_proba(X), sparse.predict_proba(X))


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_the_same_choice_for_any_number_of_threads(penalty):
    X, y = data(3)

    def chosen(n_threads):
        model = LogisticRegressionCV(
            3, cv=3, penalty=penalty, multi_class="ovr" if penalty == "l1" else "multinomial",
            random_state=0, n_threads=n_threads,
        ).fit(X, y)  # fmt: skip
        return model.scores_, model.gaps_, model.coef_

    alone = chosen(1)
    for one, other in zip(alone, chosen(3), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("ways", ["multinomial", "ovr"])
def test_a_fold_that_holds_out_a_whole_class(ways):
    """Its rows are scored as low as can be: the best intercept without any of them."""
    X, y = matrix.small_data()
    labels = np.where(y > 0, "a", "b").astype(object)
    labels[7] = "c"
    folds = PredefinedSplit(np.arange(len(y)) % 3)
    found = LogisticRegressionCV([0.1, 1.0], cv=folds, multi_class=ways, class_weight="balanced")
    found.fit(X, labels)
    assert np.isfinite(found.scores_).all()
    assert list(found.classes_) == ["a", "b", "c"]


def test_rows_of_weight_zero_are_none():
    X, y = data(3)
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], len(y))
    split = [(np.flatnonzero(weight > 0), np.arange(0, len(y), 3))]
    found = LogisticRegressionCV([1.0], cv=split, tol=1e-8).fit(X, y, weight)
    train = weight.copy()
    train[::3] = 0.0
    own = LogisticRegression(1.0, tol=1e-8).fit(X, y, train)
    hits = own.predict(X[::3]) == y[::3]
    assert found.scores_[0, 0, 0] == pytest.approx(np.average(hits, weights=weight[::3]))


def test_what_it_refuses_by_name():
    X, y = data(3)
    for wrong, options in {
        'penalty="elasticnet" needs an l1_ratio': {"penalty": "elasticnet"},
        "l1_ratios must be numbers from 0 to 1": {"l1_ratios": [2.0]},
        "take the place of penalty": {"l1_ratios": [0.0], "penalty": "l1"},
        'C is not chosen with multi_class="ovo"': {"multi_class": "ovo"},
        'multi_class="multinomial" has no penalty="l1"': {"penalty": "l1"},
        "Cs must be at least 1": {"Cs": 0},
    }.items():
        with pytest.raises(ValueError, match=wrong):
            LogisticRegressionCV(**options).fit(X, y)


def test_probabilities_in_a_file(tmp_path):
    X, y = data(3)
    model = LogisticRegressionCV(3, cv=2).fit(X, y)
    model.save(tmp_path / "m")
    known = bridle.load_model(tmp_path / "m")
    assert np.array_equal(known.predict_proba(X), model.predict_proba(X))
    assert LogisticRegressionCV.load(tmp_path / "m").Cs == [model.C_]
    assert log_loss(y, known.predict_proba(X)) < np.log(3)
