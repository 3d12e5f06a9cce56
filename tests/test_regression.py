"""The estimators of the other losses: scikit-learn's checks, and scikit-learn's answers."""

from __future__ import annotations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.data import write_arrow
from bridle.fitting.problems import Task
from sklearn import linear_model, svm
from sklearn.utils.estimator_checks import parametrize_with_checks

ESTIMATORS = [
    bridle.LogisticRegression(), bridle.LinearSVR(), bridle.QuantileRegressor(), bridle.Ridge(),
]  # fmt: skip


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data(n=300, d=8, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    t = X @ rng.normal(size=d) + 2.0 + 0.5 * rng.standard_t(4, size=n)
    return X, t


@pytest.mark.parametrize("n_classes", [2, 4])
def test_logistic_regression_is_scikit_learns(n_classes):
    X, t = data()
    y = np.digitize(t, np.quantile(t, np.arange(1, n_classes) / n_classes))
    own = bridle.LogisticRegression(0.7, tol=1e-10, multi_class="ovr").fit(X, y)
    for k, row in enumerate(own.coef_):
        signs = y == (1 if n_classes == 2 else k)
        peer = linear_model.LogisticRegression(C=0.7, tol=1e-12, max_iter=10_000).fit(X, signs)
        assert row == pytest.approx(peer.coef_[0], abs=1e-5)
        assert own.intercept_[k] == pytest.approx(peer.intercept_[0], abs=1e-5)
    probability = own.predict_proba(X)
    assert probability.sum(axis=1) == pytest.approx(1.0)
    if n_classes == 2:
        assert probability == pytest.approx(peer.predict_proba(X), abs=1e-5)
    assert own.dual_gap_ == own.certificate_.gap
    assert own.certificate_.relative_gap <= 1e-10


def test_a_logistic_model_keeps_its_probabilities_in_its_file(tmp_path):
    X, t = data()
    own = bridle.LogisticRegression().fit(X, t > 2)
    own.save(tmp_path / "model")
    model = bridle.load_model(tmp_path / "model")
    assert (model.predict_proba(X) == own.predict_proba(X)).all()
    again = bridle.LogisticRegression.load(tmp_path / "model")
    assert (again.predict_proba(X) == own.predict_proba(X)).all()
    assert bridle.certify_model(model, X, t > 2)[0].relative_gap <= 1e-3


def test_ridge_is_scikit_learns_in_its_unit():
    X, t = data()
    own, peer = bridle.Ridge(3.0, tol=1e-10).fit(X, t), linear_model.Ridge(3.0).fit(X, t)
    assert own.coef_ == pytest.approx(peer.coef_, abs=1e-8)
    assert own.intercept_ == pytest.approx(peer.intercept_, abs=1e-8)
    value = ((t - own.predict(X)) ** 2).sum() + 3.0 * (own.coef_**2).sum()
    assert 6.0 * own.certificate_.primal == pytest.approx(value)
    assert own.dual_gap_ == pytest.approx(6.0 * own.certificate_.gap)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_linear_svr_is_scikit_learns(loss):
    X, t = data()
    own = bridle.LinearSVR(epsilon=0.1, C=0.3, loss=loss, tol=1e-9).fit(sp.csr_matrix(X), t)
    peer = svm.LinearSVR(
        epsilon=0.1, C=0.3, loss=loss, tol=1e-10, max_iter=10**6, random_state=0
    ).fit(X, t)
    assert own.coef_ == pytest.approx(peer.coef_, abs=1e-4)
    assert own.intercept_ == pytest.approx(float(np.atleast_1d(peer.intercept_)[0]), abs=1e-4)
    assert own.coef_ == pytest.approx(own.dual_coef_ @ X, abs=1e-4)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_quantile_is_below_its_part_of_the_targets(quantile):
    X, t = data()
    own = bridle.QuantileRegressor(quantile=quantile, C=100.0, tol=1e-6).fit(X, t)
    below = (t < own.predict(X) - 1e-6).mean(), (t <= own.predict(X) + 1e-6).mean()
    assert below[0] <= quantile <= below[1]


def test_what_is_another_model_is_refused_by_name():
    X, t = data(20)
    with pytest.raises(ValueError, match=r"scikit-learn's, alpha \|w\|_1"):
        bridle.QuantileRegressor(penalty="l1").fit(X, t)
    with pytest.raises(ValueError, match="one of targets, not of classes: see LinearSVR"):
        bridle.LinearSVC(loss="squared").fit(X, t > 2)
    with pytest.raises(ValueError, match="is one of classes, not of targets"):
        bridle.fit_regression(X, t, task=Task(loss="hinge"))


def test_regression_models_are_saved_and_solved_on_disk(tmp_path):
    X, t = data()
    own = bridle.LinearSVR(epsilon=0.2, tol=1e-4).fit(X, t)
    own.save(tmp_path / "model")
    model = bridle.load_model(tmp_path / "model")
    assert (model.predict(X) == own.predict(X)).all()
    assert model.objective.formula == bridle.EpsilonInsensitive(0.2)
    write_arrow(tmp_path / "d.arrow", sp.csr_matrix(X), t)
    stored = bridle.LinearSVR(epsilon=0.2, tol=1e-4).fit(bridle.StoredRows(tmp_path / "d.arrow"))
    assert stored.certificate_.primal == pytest.approx(own.certificate_.primal, rel=1e-4)
