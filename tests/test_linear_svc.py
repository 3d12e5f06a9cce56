"""LinearSVC: scikit-learn's own checks, its certificate recomputed in NumPy, and its promises."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from bridle import LinearProblem, Pegasos, Status, StochasticGradientDescent
from bridle.errors import ModelError
from bridle.estimators import GapWarning, LinearSVC
from bridle.matrix.fingerprint import fingerprint
from bridle.models.storage import load_model
from bridle.problems.base import Judgement
from scipy import sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_iris, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks


@parametrize_with_checks(
    [
        LinearSVC(),
        LinearSVC(loss="squared_hinge"),
        LinearSVC(bias="free"),
        LinearSVC(keep="final"),
    ]
)  # not fit_intercept=False: one check needs a half-plane that does not touch the origin
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def noisy(n=300, d=20, n_classes=2, seed=0, dtype=np.float64):
    """Overlapping classes with labels that are strings."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    scores = X @ rng.standard_normal((d, n_classes)) + rng.standard_normal((n, n_classes))
    return X, np.array([f"class {k}" for k in range(n_classes)])[scores.argmax(axis=1)]


def gap_in_numpy(X, signs, w, b, alpha, C, loss):
    """P, D with a regularised intercept, in plain NumPy."""
    X = X.toarray() if sparse.issparse(X) else X
    X1 = np.hstack([X.astype(np.float64), np.ones((len(signs), 1))])
    w1, wa = np.append(w, b), X1.T @ (alpha * signs)
    slack = np.maximum(0, 1 - signs * (X1 @ w1))
    if loss == "hinge":
        assert np.all((alpha >= 0) & (alpha <= C))
        return w1 @ w1 / 2 + np.sum(C * slack), alpha.sum() - wa @ wa / 2
    return w1 @ w1 / 2 + np.sum(C * slack**2), np.sum(alpha - alpha**2 / (4 * C)) - wa @ wa / 2


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certificates_hold_in_numpy(loss, n_classes, storage, dtype):
    X, y = noisy(n_classes=n_classes, dtype=dtype)
    model = LinearSVC(0.3, loss=loss, store_dual=True, random_state=0).fit(storage(X), y)
    targets = model.classes_[1:] if n_classes == 2 else model.classes_
    assert model.coef_.shape == (len(targets), X.shape[1])
    for k, target in enumerate(targets):
        signs = np.where(y == target, 1.0, -1.0)
        primal, dual = gap_in_numpy(
            X, signs, model.coef_[k], model.intercept_[k], model.dual_coef_[k] * signs,
            np.full(len(y), 0.3), loss,
        )  # fmt: skip
        assert primal == pytest.approx(model.certificates_[k].primal, rel=1e-9)
        assert dual == pytest.approx(model.certificates_[k].dual, rel=1e-9)
        assert (primal - dual) / primal <= 1e-3
    assert model.certificate_.primal == pytest.approx(
        sum(c.primal for c in model.certificates_), rel=1e-14
    )
    assert model.certificate_.dual == pytest.approx(
        sum(c.dual for c in model.certificates_), rel=1e-14
    )
    assert model.status_ is Status.CONVERGED
    last = model.trace_[-1]
    assert last.primal == pytest.approx(model.certificate_.primal)
    assert np.all(np.diff(model.trace_["relative_gap"]) <= 1e-15)
    assert model.score(storage(X), y) > 0.7


@pytest.mark.parametrize("n_classes", [2, 3])
def test_optimum_is_scikit_learns(n_classes):
    X, y = noisy(n_classes=n_classes)
    ours = LinearSVC(loss="squared_hinge", tol=1e-9, random_state=0).fit(X, y)
    theirs = svm.LinearSVC(tol=1e-9, max_iter=100_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=1e-4, atol=1e-5
    )
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_free_bias_is_libsvms():
    X, y = noisy(n=120, d=4)
    ours = LinearSVC(loss="hinge", bias="free", tol=1e-9, max_iter=100_000).fit(X, y)
    theirs = svm.SVC(kernel="linear", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


def test_biases():
    X, y = noisy()
    assert LinearSVC(fit_intercept=False).fit(X, y).intercept_ == 0
    model = LinearSVC(bias="none").fit(X, y)
    assert model.intercept_ == 0
    scaled = LinearSVC(intercept_scaling=10.0, tol=1e-9).fit(X, y)
    appended = LinearSVC(bias="none", tol=1e-9).fit(np.hstack([X, np.full((len(X), 1), 10.0)]), y)
    assert scaled.intercept_[0] == pytest.approx(appended.coef_[0, -1] * 10.0, abs=1e-5)
    with pytest.raises(ValueError, match="bias must be one of none, regularised, free"):
        LinearSVC(bias="fixed").fit(X, y)


# Small fits go to the limit of precision: the same optimum however the data is presented.


def test_small_fits_are_exact():
    X, y = noisy(n=40, d=6)
    rng = np.random.default_rng(3)
    repeats = rng.integers(0, 4, len(y))
    order = rng.permutation(repeats.sum())
    weighted = LinearSVC(random_state=0).fit(X, y, sample_weight=repeats)
    repeated = LinearSVC(random_state=5).fit(
        np.repeat(X, repeats, axis=0)[order], np.repeat(y, repeats)[order]
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    assert weighted.certificate_.relative_gap < 1e-13


def test_large_fits_stop_at_tol():
    X, y = noisy(n=2000, d=300)
    model = LinearSVC(1e-3, random_state=0, tol=0.05).fit(X, y)
    assert 1e-4 < model.certificate_.relative_gap <= 0.05


def test_zero_weight_is_absence():
    X, y = noisy(n_classes=3)
    weights = np.where(y == "class 1", 0.0, 2.0)
    model = LinearSVC(random_state=0, class_weight="balanced").fit(X, y, weights)
    dropped = LinearSVC(random_state=0, class_weight="balanced").fit(
        X[weights > 0], y[weights > 0], 2
    )
    assert list(model.classes_) == ["class 0", "class 2"]
    np.testing.assert_allclose(model.coef_, dropped.coef_, rtol=1e-6)
    with pytest.raises(ValueError, match="at least two classes, got 1 class: class 2"):
        LinearSVC().fit(X, y, y == "class 2")


def test_class_weights_are_row_weights():
    X, y = noisy(n_classes=3)
    weight = {"class 0": 1.0, "class 1": 5.0, "class 2": 0.1}
    by_class = LinearSVC(class_weight=weight, random_state=0).fit(X, y)
    by_row = LinearSVC(random_state=0).fit(X, y, [weight[label] for label in y])
    np.testing.assert_allclose(by_class.coef_, by_row.coef_)
    counts = {label: int((y == label).sum()) for label in weight}
    explicit = {label: len(y) / (3 * n) for label, n in counts.items()}
    np.testing.assert_allclose(
        LinearSVC(class_weight="balanced", random_state=0).fit(X, y).coef_,
        LinearSVC(class_weight=explicit, random_state=0).fit(X, y).coef_,
    )
    with pytest.raises(ValueError, match="class_weight must be"):
        LinearSVC(class_weight="fair").fit(X, y)


# The data is not copied.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("index", [None, np.int32, np.int64])
def test_data_is_not_copied(dtype, n_classes, index, monkeypatch):
    X, y = noisy(n=2000, d=400, n_classes=n_classes, dtype=dtype)
    if index is not None:
        X = sparse.csr_matrix(X)
        X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    seen = []
    judge = LinearProblem.judge

    def spy(self, iterate) -> Judgement:
        seen.append(self.X)
        return judge(self, iterate)

    monkeypatch.setattr(LinearProblem, "judge", spy)
    tracemalloc.start()
    try:
        # One thread: without a global lock, classes would have their scratch at the same time.
        model = LinearSVC(1e-4, tol=0.5, random_state=0, n_threads=1).fit(X, y)
        model.predict(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    data = X if index is None else X.data
    for used in seen:
        assert np.shares_memory(data, used if index is None else used.data)
        if index is not None:
            assert np.shares_memory(X.indices, used.indices)
    assert peak < data.nbytes / 2


def test_reads_what_load_svmlight_file_returns(tmp_path):
    X, y = noisy()
    path = tmp_path / "data.svm"
    dump_svmlight_file(X, y == "class 1", str(path))
    read, labels = load_svmlight_file(str(path))
    read.indices, read.indptr = read.indices.astype(np.int64), read.indptr.astype(np.int64)
    model = LinearSVC(random_state=0).fit(read, labels)
    np.testing.assert_allclose(model.coef_, LinearSVC(random_state=0).fit(X, y).coef_, rtol=1e-6)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_column_names(library):
    frames = pytest.importorskip(library)
    X, y = noisy(d=3)
    frame = frames.DataFrame({name: X[:, k] for k, name in enumerate(["a", "b", "c"])})
    model = LinearSVC(random_state=0).fit(frame, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert np.array_equal(model.predict(frame), LinearSVC(random_state=0).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])


# Determinism, threads, interruption, budgets.


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("solver", ["dcd", "interior-point"])
def test_the_number_of_threads_changes_nothing(n_classes, solver):
    X, y = noisy(n=2000, d=100, n_classes=n_classes)
    model = LinearSVC(1e-3, solver=solver, random_state=1, store_dual=True)
    models = [clone(model).set_params(n_threads=n).fit(X, y) for n in (1, 2, 7)]
    for model in models[1:]:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert np.array_equal(model.dual_coef_, models[0].dual_coef_)
        assert model.certificate_ == models[0].certificate_


def test_random_state():
    X, y = noisy(n=1000, d=20)

    def fit(state):
        return LinearSVC(1e-2, tol=0.1, solver="dcd", random_state=state).fit(X, y).coef_

    assert not np.array_equal(fit(1), fit(2))
    assert np.array_equal(fit(1), fit(1))
    assert np.array_equal(fit(np.random.RandomState(1)), fit(np.random.RandomState(1)))
    assert np.isfinite(fit(None)).all()
    with pytest.raises(ValueError, match="seed"):
        fit("luck")


@pytest.mark.parametrize("n_classes", [2, 4])
def test_warning_carries_the_gap(n_classes):
    X, y = noisy(n_classes=n_classes)
    with pytest.warns(
        ConvergenceWarning, match="stopped after 1 epochs at a certified gap of"
    ) as log:
        model = LinearSVC(C=1000, max_iter=1, tol=1e-4, random_state=0).fit(X, y)
    (warning,) = [w.message for w in log]
    assert isinstance(warning, GapWarning)
    assert warning.relative_gap == max(c.relative_gap for c in model.certificates_) > 1e-4
    assert warning.tol == 1e-4
    assert "asked for 1.0e-04" in str(warning)
    assert model.status_ is Status.BUDGET
    assert model.n_iter_ == 1
    assert str(pickle.loads(pickle.dumps(warning))) == str(warning)
    if n_classes > 2:
        assert "4 of 4 classes fell short; the farthest, class class" in model.message_


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_time_limit_ends_in_a_model_of_every_class(n_threads):
    X, y = noisy(n=500, d=50, n_classes=8)
    with pytest.warns(GapWarning, match="classes fell short"):
        model = LinearSVC(
            C=1e4,
            tol=1e-12,
            solver="dcd",
            max_iter=10**9,
            max_seconds=0.4,
            n_threads=n_threads,
            random_state=0,
        ).fit(X, y)
    assert model.status_ is Status.BUDGET
    assert all(np.isfinite(certificate.relative_gap) for certificate in model.certificates_)


def test_errors_in_threads_are_raised():
    X, y = noisy(n_classes=3)
    with pytest.raises(ValueError, match="unknown solver 'magic'"):
        LinearSVC(solver="magic", n_threads=3).fit(X, y)
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        LinearSVC(n_threads=0).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_warm_start_goes_on_from_the_dual_point(n_classes):
    X, y = noisy(n=2000, d=200, n_classes=n_classes)
    model = LinearSVC(1e-3, tol=1e-3, warm_start=True, random_state=0).fit(X, y)
    cold = model.n_iter_
    before = model.certificate_
    model.fit(X, y)
    assert model.n_iter_ <= max(2, cold // 3)
    assert model.certificate_.primal <= before.primal * (1 + 1e-3)
    model.set_params(C=5e-4).fit(X, y)  # the old point is clipped into the new box
    assert model.certificate_.relative_gap <= 1e-3
    model.fit(X[:100], y[:100])  # other rows: no dual point to go on from
    assert model.dual_coef_.shape[1] == 100
    model.fit(X[:, :5], y)
    assert model.coef_.shape[1] == 5


def test_warm_start_of_a_primal_solver_uses_the_weights():
    X, y = noisy(n=2000, d=30)
    model = LinearSVC(0.01, warm_start=True, random_state=0).fit(X, y)
    assert model.certificate_.relative_gap < 1e-3
    model.set_params(solver=Pegasos(), max_iter=1, tol=0.9)
    best = model.certificate_.primal
    model.fit(X[:1999], y[:1999])
    assert model.certificate_.primal < 1.2 * best


def test_dual_coef_is_kept_for_two_classes_or_on_request():
    X, y = noisy(n_classes=3)
    two = y != "class 2"
    assert LinearSVC().fit(X[two], y[two]).dual_coef_.shape == (1, two.sum())
    assert not hasattr(LinearSVC(store_dual=False).fit(X[two], y[two]), "dual_coef_")
    assert not hasattr(LinearSVC().fit(X, y), "dual_coef_")
    model = LinearSVC(store_dual=True).fit(X, y)
    assert model.dual_coef_.shape == (3, len(y))
    np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_, atol=1e-5)
    assert not hasattr(model.set_params(store_dual=False).fit(X, y), "dual_coef_")


def test_works_inside_scikit_learns_tools(capsys):
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(LinearSVC(random_state=0, max_iter=10_000), {"C": [0.1, 1.0]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    assert capsys.readouterr().out == ""
    copy = clone(search.best_estimator_)
    copy.set_params(verbose=1).fit(X, y)
    assert "class 2: epoch 1, primal" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], "row 0, column 1"),
        (sparse.csr_matrix([[1.0, 0.0], [0.0, np.inf]]), "row 1, column 1"),
    ],
)
def test_bad_values_are_located(X, message):
    with pytest.raises(ValueError, match=message):
        LinearSVC().fit(X, [0, 1])
    good = LinearSVC().fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    with pytest.raises(ValueError, match=message):
        good.predict(X)


def test_relabelled_problems_share_the_data():
    X, y = noisy()
    problem = LinearProblem(X, np.where(y == "class 0", 1, -1), bias="regularised", n_threads=2)
    other = problem.variant(y=-problem.y, n_threads=1)
    assert other.X is problem.X
    assert other.rows.view is problem.rows.view
    assert other.squared_norms is problem.squared_norms
    assert np.array_equal(other.y, -problem.y)
    w = np.ones(X.shape[1])
    assert other.primal(-w) == problem.primal(w)
    with pytest.raises(ValueError, match="labels -1 and \\+1"):
        problem.variant(y=np.zeros(len(y)))


def test_quiet_at_default_settings():
    X, y = noisy(n=500, d=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearSVC().fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_saved_and_loaded(n_classes, tmp_path):
    X, y = noisy(d=3, n_classes=n_classes)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b", "c"])
    model = LinearSVC(0.5, bias="free", random_state=0).fit(frame, y, np.full(len(y), 2.0))
    model.save(tmp_path / "model")
    again = LinearSVC.load(tmp_path / "model")
    assert np.array_equal(again.decision_function(frame), model.decision_function(frame))
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert again.certificates_ == model.certificates_
    assert again.get_params()["C"] == 0.5
    assert again.get_params()["bias"] == "free"
    assert load_model(tmp_path / "model").objective.weighted
    with pytest.raises(NotFittedError):
        LinearSVC().save(tmp_path / "nothing")


def test_the_file_knows_its_data(tmp_path):
    """Also after a detour through another estimator."""
    X, y = noisy(d=3, n_classes=3)
    LinearSVC(0.5, class_weight="balanced", random_state=0).fit(X, y).save(tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert (model.fingerprint, model.n_rows) == (fingerprint(X, y), len(y))
    LinearSVC.load(tmp_path / "model").save(tmp_path / "again")
    again = load_model(tmp_path / "again")
    assert (again.fingerprint, again.n_rows, again.info) == (
        model.fingerprint, model.n_rows, model.info,
    )  # fmt: skip
    assert again.objective == model.objective


def test_the_proof_that_no_margin_is_hard_is_kept():
    X, y = noisy(n=60, d=2)
    with pytest.warns(GapWarning):
        model = LinearSVC(np.inf, solver="dcd", random_state=0).fit(X, y)
    assert model.status_ is Status.INFEASIBLE
    assert model.proof_.sum() == pytest.approx(1.0)
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    assert np.abs((model.proof_ * signs) @ X).max() < 1e-6
    assert LinearSVC(random_state=0).fit(X, y).proof_ is None


def test_another_kind_of_model_is_no_linear_svc(tmp_path, monkeypatch):
    class Other:
        kind = "chain"

    monkeypatch.setattr("bridle.estimators.base.load_model", lambda path: Other())
    with pytest.raises(ModelError, match="a model of kind 'chain', which is no LinearSVC"):
        LinearSVC.load(tmp_path / "model")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_final_weights_are_kept_on_request(n_classes):
    X, y = noisy(n_classes=n_classes)
    hovering = StochasticGradientDescent(rate="constant", eta0=0.5)

    def fitted(keep):
        model = LinearSVC(solver=hovering, tol=0, max_iter=7, random_state=1, keep=keep)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GapWarning)
            return model.fit(X, y)

    best, final = fitted("best"), fitted("final")
    for k, trace in enumerate(final.traces_):
        assert final.certificates_[k].primal == trace[-1].primal_now
        assert best.certificates_[k].primal == min(trace["primal_now"])
        assert best.certificates_[k].dual == final.certificates_[k].dual
    assert final.certificate_.primal > best.certificate_.primal
    with pytest.raises(ValueError, match='keep must be "best" or "final"'):
        LinearSVC(keep="last").fit(X, y)
