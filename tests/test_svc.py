"""SVC: scikit-learn's checks, its attributes against LIBSVM's, and the leave-one-out bound."""

from __future__ import annotations

import warnings

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.estimators import SVC
from bridle.estimators.base import GapWarning
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks


@parametrize_with_checks(
    [SVC(), SVC(multi_class="ovr", kernel="linear", decision_function_shape="ovo")]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", ["pegasos", "sgd", "norma", "budgeted-pegasos"])
def test_stochastic_solvers_have_the_default_bias(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + 0.7 > 0, 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)  # they are not given the time
        model = SVC(solver=solver, max_iter=20, random_state=0).fit(X, y)
    assert model.solver_ == solver
    assert model.score(X, y) > 0.9


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_equals_libsvm_on_three_classes(iris, kernel, storage):
    X, y = iris
    ours = SVC(kernel=kernel, C=2.0, tol=1e-9).fit(storage(X), y)
    theirs = svm.SVC(kernel=kernel, C=2.0, tol=1e-9, decision_function_shape="ovo").fit(X, y)
    pairs = clone(ours).set_params(decision_function_shape="ovo").fit(storage(X), y)
    np.testing.assert_allclose(
        pairs.decision_function(storage(X)), theirs.decision_function(X), atol=1e-3
    )
    assert (ours.predict(storage(X)) == theirs.predict(X)).all()
    assert ours.dual_coef_.shape == (2, len(ours.support_))
    dense = np.zeros((2, len(y)))
    dense[:, ours.support_] = sp.csr_matrix(ours.dual_coef_).toarray()
    expected = np.zeros((2, len(y)))
    expected[:, theirs.support_] = theirs.dual_coef_
    if kernel == "rbf":  # elsewhere the dual solution need not be unique
        np.testing.assert_allclose(dense, expected, atol=2e-3)
        assert set(ours.support_) >= set(theirs.support_)
    assert ours.n_support_.sum() == len(ours.support_)
    assert ours.certificate_.relative_gap <= 1e-9


def test_two_classes_and_weights(iris):
    X, y = iris
    y = y == "b"
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    ours = SVC(tol=1e-8, gamma=0.5, class_weight={True: 2.0}).fit(X, y, sample_weight=weight)
    theirs = svm.SVC(tol=1e-8, gamma=0.5, class_weight={True: 2.0}).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert ours.dual_coef_.shape == (1, len(ours.support_))
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])


def test_one_versus_rest(iris):
    X, y = iris
    ours = SVC(multi_class="ovr", tol=1e-8).fit(X, y)
    assert ours.decision_function(X).shape == (len(y), 3)
    for k, name in enumerate(ours.classes_):
        theirs = svm.SVC(tol=1e-8, gamma=ours.kernel_.gamma).fit(X, y == name)
        np.testing.assert_allclose(
            ours.decision_function(X)[:, k], theirs.decision_function(X), atol=1e-3
        )


def test_precomputed_and_callable(iris):
    X, y = iris
    reference = SVC(kernel="linear", tol=1e-7).fit(X, y)
    by_matrix = SVC(kernel="precomputed", tol=1e-7).fit(X @ X.T, y)
    by_function = SVC(kernel=lambda A, B: A @ B.T, tol=1e-7).fit(X, y)
    new = X[::7] + 0.05
    expected = reference.decision_function(new)
    np.testing.assert_allclose(by_matrix.decision_function(new @ X.T), expected, atol=1e-2)
    np.testing.assert_allclose(by_function.decision_function(new), expected, atol=1e-2)
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(X @ X.T, y)
    assert search.best_score_ > 0.9


def test_leave_one_out_error_is_bounded():
    rng = np.random.default_rng(1)
    for seed in range(3):
        X = rng.normal(size=(60, 2))
        y = (X[:, 0] + 0.8 * rng.normal(size=60)) > 0
        for kernel, C in (("rbf", 0.3), ("linear", 0.02)):
            machine = SVC(kernel=kernel, C=C, gamma=0.5, tol=1e-6).fit(X, y)
            error = 1 - cross_val_score(clone(machine), X, y, cv=LeaveOneOut()).mean()
            assert error <= machine.loo_error_bounds_[0] + 1e-12, (seed, kernel)
    assert SVC(C=0.3, tol=1e-6).fit(X * 5, X[:, 0] > 0).loo_error_bounds_[0] < 1


def test_an_unreached_gap_is_a_warning_that_says_it(iris):
    X, y = iris
    with pytest.warns(GapWarning, match="True against False: stopped"):
        SVC(kernel="linear", C=1000.0, tol=1e-12, max_iter=0).fit(X, y == "b")
    machine = SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0, max_seconds=1)
    with pytest.warns(GapWarning, match="not positive semi-definite"):
        machine.fit(X - X.mean(axis=0), y == "a")
    assert machine.certificate_.relative_gap == np.inf


def test_is_exported():
    assert bridle.SVC is SVC
