"""SVR and OneClassSVM: scikit-learn's checks, its answers, its attributes, files."""

from __future__ import annotations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle import SVR, OneClassSVM
from sklearn import svm
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

STORAGES = [np.asarray, sp.csr_matrix]
PAIRS = [(SVR, svm.SVR), (OneClassSVM, svm.OneClassSVM)]


@parametrize_with_checks([SVR(), SVR(kernel="linear", bias="none"), OneClassSVM()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def values(model, X):
    """f of each row, whatever it is called."""
    return getattr(model, "decision_function", model.predict)(X)


def data(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) + 1.0
    return X, np.sin(X[:, 0]) + X[:, 1] * 0.5 + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize(("own", "peer"), PAIRS)
def test_equal_scikit_learns(own, peer, kernel, storage):
    X, t = data()
    ours = own(kernel=kernel, gamma=0.3, tol=1e-10).fit(storage(X), t)
    theirs = peer(kernel=kernel, gamma=0.3, tol=1e-8).fit(storage(X), t)
    scale = np.abs(values(theirs, X)).max()
    np.testing.assert_allclose(values(ours, X), values(theirs, X), atol=1e-4 * scale)
    scale = np.abs(theirs.dual_coef_).max()
    dense = [np.zeros((1, len(t))), np.zeros((1, len(t)))]
    for table, model in zip(dense, (ours, theirs), strict=True):
        table[:, model.support_] = sp.csr_matrix(model.dual_coef_).toarray()
    if kernel == "rbf":  # elsewhere there are several optima
        np.testing.assert_allclose(dense[0], dense[1], atol=1e-4 * scale)
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert sp.issparse(ours.dual_coef_) == sp.issparse(theirs.dual_coef_)
    assert (ours.n_support_ == len(ours.support_)).all()
    if kernel == "linear":
        own_coef, peer_coef = (sp.csr_matrix(m.coef_).toarray() for m in (ours, theirs))
        np.testing.assert_allclose(own_coef, peer_coef, atol=1e-3 * np.abs(peer_coef).max())
    assert ours.dual_gap_ == ours.certificate_.gap
    assert ours.certificate_.relative_gap <= 1e-10


@pytest.mark.parametrize("storage", STORAGES)
def test_one_class_scores_are_scikit_learns(storage):
    X, _ = data()
    ours = OneClassSVM(nu=0.2, tol=1e-10).fit(storage(X))
    theirs = svm.OneClassSVM(nu=0.2, tol=1e-8).fit(storage(X))
    assert ours.offset_ == pytest.approx(theirs.offset_, rel=1e-5)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), atol=1e-4 * theirs.offset_[0]
    )
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-4)


@pytest.mark.parametrize("own", [SVR, OneClassSVM])
def test_kernels_of_ones_own(own):
    X, t = data()
    same = values(own(gamma=0.3, tol=1e-8).fit(X, t), X)
    called = own(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3), tol=1e-8).fit(X, t)
    given = own(kernel="precomputed", tol=1e-8).fit(rbf_kernel(X, gamma=0.3), t)
    np.testing.assert_allclose(values(called, X), same, atol=1e-6)
    np.testing.assert_allclose(values(given, rbf_kernel(X, gamma=0.3)), same, atol=1e-6)


def test_files_hold_them(tmp_path):
    X, t = data()
    for storage in STORAGES:
        SVR(epsilon=0.3, C=2.0).fit(storage(X), t).save(tmp_path / "r")
        OneClassSVM(nu=0.3).fit(storage(X)).save(tmp_path / "o")
        regression, one = SVR.load(tmp_path / "r"), OneClassSVM.load(tmp_path / "o")
        assert (regression.epsilon, regression.C, one.nu) == (0.3, 2.0, 0.3)
        assert one.offset_ == -one.intercept_
        assert bridle.load_model(tmp_path / "o").predict(X).tolist() == one.predict(X).tolist()
        assert (
            bridle.load_model(tmp_path / "r").predict(X).tolist() == regression.predict(X).tolist()
        )


def test_a_row_of_weight_two_is_two_rows_and_negative_ones_are_none():
    X, t = data(60)
    weight = np.where(np.arange(60) < 20, 2.0, 1.0)
    weight[50:] = -1.0
    rows = np.r_[np.arange(50), np.arange(20)]
    for own in (SVR, OneClassSVM):
        weighted = own(gamma=0.3).fit(X, t, sample_weight=weight)
        repeated = own(gamma=0.3).fit(X[rows], t[rows])
        np.testing.assert_allclose(values(weighted, X), values(repeated, X), atol=1e-6)
        with pytest.raises(ValueError, match="all samples have zero or negative weights"):
            own().fit(X, t, sample_weight=np.zeros(60))


@pytest.mark.parametrize("own", [SVR, OneClassSVM])
def test_same_bits_for_any_number_of_threads(own):
    X, t = data(3000)
    found = [own(n_threads=n, tol=1e-4).fit(X, t) for n in (1, 2, 3, 8, 16)]
    for other in found[1:]:
        assert np.array_equal(found[0].dual_coef_, other.dual_coef_)
        assert np.array_equal(found[0].intercept_, other.intercept_)


def test_what_was_not_reached_is_said():
    X, t = data(1000)
    with pytest.warns(bridle.GapWarning, match="raise max_iter"):
        SVR(C=1e4, gamma=5.0, tol=1e-9, max_iter=0).fit(X, t)
