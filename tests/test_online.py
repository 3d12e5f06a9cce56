"""Learning from a stream: what it learns, what it says of itself, and targets that move."""

import numpy as np
import pytest
from bridle import LinearProblem, LinearSVC, OnlineSVC, OnlineSVM, lam_to_C, load_model, save_model
from bridle.data import make_corpus
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks


def blocks(X, y, size):
    for begin in range(0, X.shape[0], size):
        yield X[begin : begin + size], y[begin : begin + size]


def stream(n=4000, d=20, n_classes=2, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ np.random.default_rng(1).standard_normal((d, n_classes))
    return X, (scores + noise * rng.standard_normal((n, n_classes))).argmax(axis=1)


def twin(X, signs, lam, eta0, rate, weights):
    """The same steps, row by row, in NumPy: the last w and the mean of all weighted by t."""
    w, mean = np.zeros(X.shape[1] + 1), np.zeros(X.shape[1] + 1)
    total = 0
    for t, (x, y, c) in enumerate(zip(X, signs, weights, strict=True), start=1):
        total += t
        mean += t / total * (w - mean)
        x1 = np.append(x, 1.0)
        eta = eta0 if rate == "constant" else eta0 / (1 + lam * eta0 * t)
        step = c if y * (w @ x1) < 1 else 0.0
        w = (1 - lam * eta) * w + eta * step * y * x1
    return w, mean


@pytest.mark.parametrize("rate", ["decaying", "constant"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_are_those_of_the_formula(rate, storage, weighted):
    X, y = stream(300, 5)
    weights = np.random.default_rng(0).uniform(0, 2, 300) if weighted else np.ones(300)
    model = OnlineSVM([0, 1], 0.01, rate=rate, eta0=0.1)
    for i in range(300):  # blocks of one row: the mean within a block is exact
        model.learn(storage(X[i : i + 1]), y[i : i + 1], weights[i : i + 1] if weighted else None)
    last, mean = twin(X, 2.0 * y - 1, 0.01, 0.1, rate, weights)
    expected = last if rate == "constant" else mean
    np.testing.assert_allclose(model.coef[0], expected[:-1], rtol=1e-9, atol=1e-12)
    assert model.intercept[0] == pytest.approx(expected[-1], rel=1e-9)
    assert model.n_rows == 300


@pytest.mark.parametrize("rate", ["decaying", "constant"])
def test_it_hardly_matters_how_the_stream_is_cut(rate):
    X, y = stream()
    models = []
    for size in (50, 1000):
        model = OnlineSVM([0, 1], 1e-3, rate=rate, eta0=0.05)
        for part in blocks(X, y, size):
            model.learn(*part)
        models.append(model)
    one, other = (model.coef[0] for model in models)
    tolerance = 1e-9 if rate == "constant" else 0.1
    assert np.abs(one - other).max() <= tolerance * np.abs(one).max()


def test_progressive_error_is_of_rows_not_yet_seen():
    X, y = stream(noise=2.0)
    model, wrong, counted = OnlineSVM([0, 1], 1e-3), 0, 0
    assert np.isnan(model.progressive_error)
    for part, labels in blocks(X, y, 100):
        before = model.predict(part) if counted or model.n_rows else None
        error = model.learn(part, labels)
        if before is not None:
            wrong, counted = wrong + np.sum(before != labels), counted + 100
            assert error == model.progressive_error == pytest.approx(wrong / counted)
            assert model.last_error == pytest.approx(np.mean(before != labels))
        else:
            assert np.isnan(error)
    test, truth = stream(20_000, seed=7, noise=2.0)
    # An honest estimate: about the error of the final model, on the side of the earlier ones.
    assert abs(np.mean(model.predict(test) != truth) - model.progressive_error) < 0.03


@pytest.mark.parametrize("n_classes", [2, 4])
def test_one_pass_learns_nearly_as_much_as_the_optimum(n_classes):
    X, y = stream(6000, n_classes=n_classes)
    test, truth = stream(4000, n_classes=n_classes, seed=5)
    model = OnlineSVM(range(n_classes), 1e-3)
    for part in blocks(X, y, 500):
        model.learn(*part)
    best = LinearSVC(lam_to_C(1e-3, len(y)), random_state=0).fit(X, y)
    assert np.mean(model.predict(test) == truth) > best.score(test, truth) - 0.01
    shape = (4000,) if n_classes == 2 else (4000, n_classes)
    assert model.decision_function(test).shape == shape


def test_sparse_text_in_float32():
    X, y = make_corpus(6000, seed=0)
    model = OnlineSVM([-1, 1], 1e-4)
    for part in blocks(X[:5000], y[:5000], 500):
        model.learn(*part)
    assert np.mean(model.predict(X[5000:]) == y[5000:]) > 0.85


def test_a_constant_rate_follows_a_target_that_moves():
    """The direction that separates the classes turns by half a circle over the stream."""
    rng = np.random.default_rng(0)
    n, errors = 20_000, {}
    angle = np.linspace(0, np.pi, n)
    X = rng.standard_normal((n, 10))
    y = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0, 1, -1)
    for rate in ("decaying", "constant"):
        model = OnlineSVM([-1, 1], 1e-3, rate=rate)
        for part in blocks(X, y, 200):
            model.learn(*part)
        errors[rate] = model.progressive_error
    assert errors["constant"] < 0.1
    assert errors["decaying"] > 2 * errors["constant"]


def test_a_decaying_rate_is_better_where_nothing_moves():
    X, y = stream(20_000, noise=3.0)
    test, truth = stream(20_000, noise=3.0, seed=5)
    errors = {}
    for rate in ("decaying", "constant"):
        model = OnlineSVM([0, 1], 1e-3, rate=rate)
        for part in blocks(X, y, 200):
            model.learn(*part)
        errors[rate] = np.mean(model.predict(test) != truth)
    assert errors["decaying"] < errors["constant"]


def test_features_grow_with_the_blocks():
    X, y = stream(1000, 12)
    X[:500, 8:] = 0.0
    grown, fixed = (OnlineSVM([0, 1], 1e-3, eta0=0.1, n_features=n) for n in (0, 12))
    for model, first in ((grown, X[:500, :8]), (fixed, X[:500])):
        model.learn(first, y[:500])
        model.learn(sparse.csr_matrix(X[500:, :12]), y[500:])
        model.learn(X[:200, :8], y[:200])  # narrower than before
    assert grown.n_features == 12
    np.testing.assert_allclose(grown.coef, fixed.coef, rtol=1e-12)
    np.testing.assert_allclose(grown.decision_function(X), fixed.decision_function(X), rtol=1e-9)
    wide = np.hstack([X, np.ones((1000, 3))])  # features that no row had
    np.testing.assert_allclose(grown.decision_function(wide), grown.decision_function(X))
    assert grown.decision_function(X[:, :8]).shape == (1000,)


def test_it_claims_nothing_until_it_is_certified(tmp_path):
    X, y = stream(n_classes=3)
    model = OnlineSVM([0, 1, 2], 1e-2)
    for part in blocks(X, y, 400):
        model.learn(*part)
    save_model(tmp_path / "model", model.to_model())
    read = load_model(tmp_path / "model")
    assert read.certificate.relative_gap == np.inf
    assert np.array_equal(read.predict(X), model.predict(X))
    found = model.certify(X, y)
    for k, certificate in enumerate(found):
        signs = np.where(y == k, 1.0, -1.0)
        problem = LinearProblem(X, signs, lam_to_C(1e-2, len(y)), bias="regularised")
        value = problem.primal(model.coef[k], float(model.intercept[k]))
        assert certificate.primal == pytest.approx(value)
        assert 0 <= certificate.relative_gap < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": [1]}, "at least two classes"),
        ({"lam": 0.0}, "lam must be positive"),
        ({"eta0": -1.0}, "eta0 must be positive"),
        ({"rate": "clever"}, "rate must be one of 'decaying', 'constant'"),
        ({"loss": "cubic"}, "loss"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        OnlineSVM(**{"classes": [0, 1]} | options)


def test_bad_blocks():
    model = OnlineSVM(["no", "yes"])
    with pytest.raises(ValueError, match="nothing has been learned"):
        model.to_model()
    with pytest.raises(ValueError, match="the label maybe is none of the classes no, yes"):
        model.learn(np.ones((2, 3)), ["yes", "maybe"])
    with pytest.raises(ValueError, match="X has 2 rows, but y has 3 labels"):
        model.learn(np.ones((2, 3)), ["yes", "no", "no"])
    with pytest.raises(ValueError, match="row 1, column 0"):
        model.learn(np.array([[1.0], [np.nan]]), ["yes", "no"])
    assert model.n_rows == 0


# The estimator.


@parametrize_with_checks(
    [OnlineSVC()],
    # A row of weight 2 is one step of twice the length, two rows are two steps.
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "weights scale steps",
        "check_sample_weight_equivalence_on_sparse_data": "weights scale steps",
        "check_class_weight_classifiers": "a weight of 1000 is one step, not a thousand rows",
    },
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_partial_fit_is_the_learner(n_classes):
    X, y = stream(2000, n_classes=n_classes)
    labels = np.array(["a", "b", "c"])[y]
    model = OnlineSVC(1e-3, rate="constant")
    learner = OnlineSVM(["a", "b", "c"][:n_classes], 1e-3, rate="constant")
    for part, own in blocks(X, labels, 250):
        model.partial_fit(part, own, classes=["a", "b", "c"][:n_classes])
        error = learner.learn(part, own)
    assert np.array_equal(model.coef_, learner.coef)
    assert model.progressive_error_ == error < 0.2
    assert model.n_rows_seen_ == 2000
    assert np.array_equal(model.predict(X), learner.predict(X))
    assert list(model.classes_) == ["a", "b", "c"][:n_classes]


def test_partial_fit_goes_on_after_fit_and_fit_forgets():
    X, y = stream(2000)
    model = OnlineSVC(1e-3, random_state=0).fit(X[:1000], y[:1000])
    before = model.coef_.copy()
    assert model.n_rows_seen_ == 10_000
    model.partial_fit(X[1000:], y[1000:])
    assert model.n_rows_seen_ == 11_000
    assert not np.array_equal(model.coef_, before)
    assert np.array_equal(model.fit(X[:1000], y[:1000]).coef_, before)


def test_rows_seen_before_are_not_counted():
    X, y = stream(3000, d=200, noise=6.0)  # noise that can be learned by heart
    model = OnlineSVC(1e-5, random_state=0, passes=30).fit(X, y)
    once = OnlineSVC(1e-5, random_state=0, passes=1).fit(X, y)
    assert model.progressive_error_ == once.progressive_error_
    assert 1 - model.score(X, y) < model.progressive_error_ - 0.05


@pytest.mark.parametrize("balanced", [False, True])
def test_a_certificate_counts_classes_as_the_objective_does(balanced):
    X, y = stream(600)
    y = np.where(np.arange(len(y)) % 4, 0, y)  # fewer of one class
    if balanced:
        model = OnlineSVC(1e-2, class_weight="balanced", random_state=0).fit(X, y)
        each = len(y) / (2 * np.bincount(y))
    else:
        model, each = OnlineSVC(1e-2, class_weight={1: 5.0}), np.array([1.0, 5.0])
        model.partial_fit(X, y, classes=[0, 1])
    margins = np.where(y == 1, 1, -1) * model.decision_function(X)
    costs = lam_to_C(1e-2, len(y)) * each[y]
    squares = model.coef_[0] @ model.coef_[0] + model.intercept_[0] ** 2
    primal = 0.5 * squares + costs @ np.maximum(0, 1 - margins)
    assert model.certify(X, y).primal == pytest.approx(primal, rel=1e-9)


def test_the_estimator_has_a_certificate_only_when_it_is_asked_for(tmp_path):
    X, y = stream()
    model = OnlineSVC(1e-2).partial_fit(X, y, classes=[0, 1])
    assert not hasattr(model, "certificate_")
    certificate = model.certify(X, y)
    assert model.certificate_ is certificate
    assert 0 <= certificate.relative_gap < 0.2
    model.partial_fit(X, y)
    assert not hasattr(model, "certificate_")
    model.save(tmp_path / "model")
    again = LinearSVC.load(tmp_path / "model")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.certificate_.relative_gap == np.inf


def test_calls_that_do_not_fit():
    X, y = stream(100)
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        OnlineSVC().partial_fit(X, y)
    model = OnlineSVC().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="the label 7 is none of the classes 0, 1, 2"):
        model.partial_fit(X, np.full(100, 7))
    with pytest.raises(ValueError, match="passes must be at least 1"):
        OnlineSVC(passes=0).fit(X, y)


def test_a_first_block_that_is_refused_leaves_nothing_behind():
    X, y = np.eye(4), np.array([0, 1, 2, 1])
    model = OnlineSVC()
    with pytest.raises(ValueError, match="the label 2 is none of the classes"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.partial_fit(X, y, classes=[0, 1, 2])
    assert model.n_rows_seen_ == 4
