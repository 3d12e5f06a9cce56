"""Probabilities: calibrated on rows that the scoring model has not seen; equal to the peers'."""

import warnings

import numpy as np
import pytest
from bridle import LinearSVC, LinearSVCCV
from bridle.fitting.calibration import fit_calibrator
from bridle.fitting.folds import deal, held_out_scores
from bridle.models.calibration import Monotone, SigmoidMap, probabilities
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import PredefinedSplit
from sklearn.utils.estimator_checks import check_estimator


def noisy(n, d=10, n_classes=2, noise=2.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(1).standard_normal((d, n_classes))
    X = rng.standard_normal((n, d))
    scores = X @ truth + noise * rng.gumbel(size=(n, n_classes))
    return X, np.array([f"class {k}" for k in range(n_classes)])[scores.argmax(axis=1)]


@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_equals_scikit_learns_calibration_on_the_same_folds(method, n_classes):
    X, y = noisy(200, n_classes=n_classes)
    model = LinearSVC(0.1, probability=method, random_state=3, tol=1e-6).fit(X, y)
    folds = deal(np.unique(y, return_inverse=True)[1], 5, seed=3)
    peer = CalibratedClassifierCV(
        LinearSVC(0.1, random_state=3, tol=1e-6), cv=PredefinedSplit(folds), ensemble=False,
        method="sigmoid" if method == "platt" else "isotonic",
    ).fit(X, y)  # fmt: skip
    ours, theirs = model.predict_proba(X), peer.predict_proba(X)
    # Two optimisers of one convex function. Isotonic: support vectors have scores that differ by
    # rounding alone; equal for us, not for scikit-learn. On other scores the maps agree: see below.
    if method == "platt":
        assert np.abs(ours - theirs).max() < 2e-3
    truth = np.eye(n_classes)[np.unique(y, return_inverse=True)[1]]
    assert np.mean((ours - truth) ** 2) < np.mean((theirs - truth) ** 2) + 5e-3
    assert ours.shape == (200, n_classes)
    assert np.allclose(ours.sum(axis=1), 1.0)
    assert ours.min() >= 0


@pytest.mark.parametrize("seed", range(20))
def test_isotonic_equals_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 60)
    scores = np.round(rng.normal(size=n), rng.integers(1, 4))  # with ties
    positive, weights = rng.random(n) < 1 / (1 + np.exp(-2 * scores)), rng.choice([1.0, 2.5], n)
    found = fit_calibrator("isotonic", scores, positive, weights)
    peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    peer.fit(scores, positive.astype(float), sample_weight=weights)
    asked = np.concatenate([scores, 3 * rng.normal(size=200)])
    np.testing.assert_allclose(found(asked), peer.predict(asked), atol=1e-9)


def test_sigmoid_is_the_optimum():
    rng = np.random.default_rng(0)
    scores = 50 * rng.standard_normal(80)
    positive = scores + 60 * rng.standard_normal(80) > 0
    weights = rng.uniform(0.1, 3, 80)
    found = fit_calibrator("platt", scores, positive, weights)
    n1, n0 = weights[positive].sum(), weights[~positive].sum()
    target = np.where(positive, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def cost(ab):
        z = ab[0] * scores + ab[1]
        return weights @ (np.logaddexp(0, z) - target * z)

    best = minimize(
        cost, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12}
    )
    assert cost([found.slope, found.offset]) <= best.fun + 1e-9


@pytest.mark.parametrize("scores", [np.zeros(6), np.array([-3.0, -2, -1, 1, 2, 3]), np.ones(6)])
def test_sigmoid_of_hard_cases_is_finite(scores):
    found = fit_calibrator("platt", scores, np.arange(6) > 2, np.ones(6))
    p = found(scores)
    assert np.isfinite(p).all()
    assert ((p > 0) & (p < 1)).all()
    assert found(np.array([-1e308, 1e308])).min() >= 0


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_far_better_than_calibrating_on_the_training_margins(method):
    """With more features than the rows can hold, training margins say nothing about new rows."""
    X, y = noisy(150, d=100, noise=4.0)
    Xt, yt = noisy(3000, d=100, noise=4.0, seed=1)
    model = LinearSVC(10.0, probability=method, random_state=0).fit(X, y)
    seen = fit_calibrator(method, model.decision_function(X), y == "class 1", np.ones(150))
    naive = probabilities([seen], model.decision_function(Xt))
    said = model.predict_proba(Xt)
    # Squares and not logarithms: an isotonic map says 0 and 1 at its ends.
    ours, theirs = (brier_score_loss(yt == "class 1", p[:, 1]) for p in (said, naive))
    assert ours < 0.25
    assert theirs > ours + 0.02


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_several_classes_on_new_rows(method):
    X, y = noisy(1500, n_classes=3)
    Xt, yt = noisy(4000, n_classes=3, seed=5)
    p = LinearSVC(0.1, probability=method, random_state=0).fit(X, y).predict_proba(Xt)
    frequencies = np.unique(yt, return_counts=True)[1] / len(yt)
    assert np.abs(p.mean(axis=0) - frequencies).max() < 0.05
    know_nothing = np.tile(frequencies, (len(yt), 1))
    assert log_loss(yt, p) < log_loss(yt, know_nothing) - 0.1


def test_held_out_rows_do_not_touch_their_own_scores():
    """Turning round a fold's labels changes every score but the fold's own."""
    X, y = noisy(60)
    codes = (y == "class 1").astype(np.intp)
    folds = deal(codes, 3, seed=0)
    flipped = np.where(folds == 0, 1 - codes, codes)
    one, two = (
        held_out_scores(X, c, 2, 1.0, folds, lambda mask: mask.astype(float)).scores[:, 0]
        for c in (codes, flipped)
    )
    assert np.array_equal(one[folds == 0], two[folds == 0])
    assert not np.allclose(one[folds != 0], two[folds != 0])


def test_every_class_is_dealt_evenly():
    codes = np.repeat([0, 1, 2, -1], [50, 12, 2, 7])
    folds = deal(codes, 5, seed=0)
    assert (folds[codes == -1] == -1).all()
    for k, n in ((0, 50), (1, 12), (2, 2)):
        counts = np.bincount(folds[codes == k], minlength=5)
        assert counts.max() - counts.min() <= 1
        assert counts.sum() == n
    with pytest.raises(ValueError, match="at least two rows of each class"):
        deal(np.array([0, 0, 0, 1]), 5, seed=0)
    with pytest.raises(ValueError, match="at least two folds"):
        deal(codes, 1, seed=0)


def test_off_by_default():
    X, y = noisy(50)
    model = LinearSVC(random_state=0).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert 'probability="platt"' in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="probability must be one of"):
        LinearSVC(probability="yes").fit(X, y)
    model.probability = "platt"
    with pytest.raises(NotFittedError, match="fit again"):
        model.predict_proba(X)


def test_weights_of_rows_count_and_those_of_classes_do_not_tilt():
    X, y = noisy(400)
    weights = np.where(y == "class 1", 9.0, 1.0)
    plain = LinearSVC(probability="platt", random_state=0).fit(X, y).predict_proba(X)[:, 1]
    by_row = LinearSVC(probability="platt", random_state=0).fit(X, y, weights)
    by_class = LinearSVC(probability="platt", random_state=0, class_weight={"class 1": 9.0})
    assert by_row.predict_proba(X)[:, 1].mean() > 0.8
    assert by_class.fit(X, y).predict_proba(X)[:, 1].mean() == pytest.approx(plain.mean(), abs=0.03)


def test_rows_of_weight_zero_are_absent():
    X, y = noisy(100)
    weights = np.ones(100)
    weights[:50] = 0
    turned = y.copy()
    turned[:50] = np.where(y[:50] == "class 1", "class 0", "class 1")
    a, b = (
        LinearSVC(probability="platt", random_state=0).fit(X, labels, weights)
        for labels in (y, turned)
    )
    # The deal of the other rows depends on the order alone.
    assert np.allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-6)


def test_threads_storage_and_clone_do_not_matter():
    X, y = noisy(120, n_classes=3)
    one = LinearSVC(probability="platt", random_state=0, n_threads=1).fit(X, y)
    two = clone(one).set_params(n_threads=2).fit(sparse.csr_array(X), y)
    assert np.allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-9)
    assert np.allclose(np.log(one.predict_proba(X)), one.predict_log_proba(X))


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_saved_and_loaded(tmp_path, method):
    X, y = noisy(120, n_classes=3)
    model = LinearSVC(probability=method, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = LinearSVC.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert isinstance(loaded.calibrators_[0], SigmoidMap if method == "platt" else Monotone)


def test_a_fold_that_falls_short_is_said():
    X, y = noisy(400)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LinearSVC(
            1e3, solver="pegasos", max_iter=1, probability="platt", random_state=0, tol=1e-9
        ).fit(X, y)
    assert any("a fold of the calibration" in str(w.message) for w in caught)
    assert all(issubclass(w.category, ConvergenceWarning) for w in caught)


def test_with_the_chosen_C():
    X, y = noisy(100)
    model = LinearSVCCV(5, cv=3, probability="platt", random_state=0).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 0.6


def test_scikit_learn_checks():
    """All but two kinds, which contradict calibration by folds and by class.

    Two equal rows may fall into different folds, which one row of weight 2 cannot; and the checks
    want the largest score and the largest probability to be of one class, always.
    """
    expected = {
        "check_classifiers_train": "each class has a calibration of its own",
        "check_sample_weight_equivalence_on_dense_data": "folds are dealt by rows",
        "check_sample_weight_equivalence_on_sparse_data": "folds are dealt by rows",
    }
    results = check_estimator(
        LinearSVC(probability="platt"), expected_failed_checks=expected, on_skip=None, on_fail=None
    )
    failed = [r["check_name"] for r in results if r["status"] == "failed"]
    assert failed == []
