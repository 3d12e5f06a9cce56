"""Several classes through one option: one versus rest, one versus one, Crammer & Singer."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from bridle import LinearModel, LinearSVC, Status, load_model, save_model
from bridle.estimators import GapWarning, MulticlassSVC
from bridle.fitting.certification import certify_model
from bridle.models.calibration import SigmoidMap, coupled
from bridle.models.deciding import pairs
from click.testing import CliRunner
from scipy import sparse
from scipy.optimize import minimize
from sklearn import svm
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.multiclass import OneVsOneClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

WAYS = ("ovr", "ovo", "crammer_singer")


def noisy(n=240, d=8, n_classes=4, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ np.random.default_rng(1).standard_normal((d, n_classes))
    scores += noise * rng.standard_normal((n, n_classes))
    return X, np.array([f"class {k}" for k in range(n_classes)])[scores.argmax(axis=1)]


@parametrize_with_checks([LinearSVC(multi_class="ovo"), LinearSVC(multi_class="crammer_singer")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_are_solved_on_their_own_rows(loss, weighted):
    X, y = noisy()
    weights = np.random.default_rng(5).uniform(0, 2, len(y)) if weighted else np.ones(len(y))
    weights[:20] = 1.0 - weighted
    model = LinearSVC(
        0.5, loss=loss, multi_class="ovo", store_dual=True, random_state=0, tol=1e-6
    ).fit(X, y, weights)  # fmt: skip
    assert model.coef_.shape == (6, 8)
    assert model.dual_coef_.shape == (6, len(y))
    X1 = np.hstack([X, np.ones((len(X), 1))])
    for k, (i, j) in enumerate(pairs(4)):
        rows = np.isin(y, model.classes_[[i, j]])
        signs = np.where(y[rows] == model.classes_[i], 1.0, -1.0)
        costs = 0.5 * weights[rows]
        assert not model.dual_coef_[k][~rows].any()
        alpha = model.dual_coef_[k][rows] * signs
        assert alpha.min() >= 0
        w, wa = np.append(model.coef_[k], model.intercept_[k]), X1[rows].T @ (alpha * signs)
        slack = np.maximum(0, 1 - signs * (X1[rows] @ w))
        if loss == "hinge":
            assert np.all(alpha <= costs * (1 + 1e-12))
            primal, dual = w @ w / 2 + costs @ slack, alpha.sum() - wa @ wa / 2
        else:
            primal = w @ w / 2 + costs @ slack**2
            squares = np.divide(alpha**2, 4 * costs, out=np.zeros_like(alpha), where=costs > 0)
            dual = np.sum(alpha - squares) - wa @ wa / 2
        assert primal == pytest.approx(model.certificates_[k].primal, rel=1e-9)
        assert dual == pytest.approx(model.certificates_[k].dual, rel=1e-9)
    assert model.certificate_.primal == pytest.approx(
        sum(c.primal for c in model.certificates_), rel=1e-14
    )


def test_one_versus_one_decides_as_scikit_learns():
    X, y = noisy()
    options = {"loss": "hinge", "bias": "free", "tol": 1e-9, "random_state": 0}
    ours = LinearSVC(multi_class="ovo", **options).fit(X, y)
    theirs = svm.SVC(kernel="linear", tol=1e-8, decision_function_shape="ovr").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    wrapped = OneVsOneClassifier(LinearSVC(**options)).fit(X, y)
    assert np.array_equal(ours.predict(X), wrapped.predict(X))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_crammer_singer_is_scikit_learns_and_its_primal_holds_in_numpy(
    storage, fit_intercept, n_classes
):
    X, y = noisy(n_classes=n_classes)
    model = LinearSVC(
        0.3, multi_class="crammer_singer", fit_intercept=fit_intercept, tol=1e-6, max_iter=10_000
    ).fit(storage(X), y)  # fmt: skip
    peer = svm.LinearSVC(
        C=0.3, multi_class="crammer_singer", loss="hinge", fit_intercept=fit_intercept, tol=1e-8,
        max_iter=10**6,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-2 * np.abs(peer.coef_).max())
    assert np.mean(model.predict(X) == peer.predict(X)) > 0.99
    assert len(model.certificates_) == 1
    table = np.hstack([model.coef_, model.intercept_[:, None]])
    if n_classes == 2:
        assert table.shape == (1, X.shape[1] + 1)
        table = np.vstack([-table / 2, table / 2])
    X1 = np.hstack([X, np.ones((len(X), 1))])
    codes = np.searchsorted(model.classes_, y)
    scores, rows = X1 @ table.T, np.arange(len(X))
    ahead = scores - scores[rows, codes][:, None] + 1
    ahead[rows, codes] = 0
    primal = np.sum(table**2) / 2 + 0.3 * np.sum(ahead.max(axis=1))
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert model.certificate_.relative_gap <= 1e-6
    shape = (len(X),) if n_classes == 2 else (len(X), n_classes)
    assert model.decision_function(X).shape == shape


def test_crammer_singer_is_multiclass_svc():
    X, y = noisy()
    weights = np.random.default_rng(0).uniform(0, 2, len(y))
    one = LinearSVC(0.3, multi_class="crammer_singer", random_state=0).fit(X, y, weights)
    other = MulticlassSVC(0.3, random_state=0).fit(X, y, weights)
    assert np.array_equal(one.coef_, other.coef_)
    assert one.certificate_ == other.certificate_


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_model_files_decide_the_same(way, n_classes, tmp_path):
    X, y = noisy(n_classes=n_classes)
    model = LinearSVC(0.3, multi_class=way, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    read = load_model(tmp_path / "model")
    again = LinearSVC.load(tmp_path / "model")
    assert read.multi_class == again.multi_class == way
    for other in (read, again):
        assert np.array_equal(other.predict(X), model.predict(X))
        assert np.array_equal(other.decision_function(X), model.decision_function(X))
    assert again.certificate_ == read.certificate == model.certificate_
    with pytest.raises(ValueError, match="the label class 9 is none of the model's classes"):
        certify_model(read, X[:1], ["class 9"])
    proven = certify_model(read, X, y)
    assert len(proven) == len(read.certificates)
    for claimed, found in zip(read.certificates, proven, strict=True):
        assert found.primal == pytest.approx(claimed.primal, rel=1e-9)
        assert found.dual >= claimed.dual * (1 - 1e-3)
        assert found.relative_gap <= claimed.relative_gap + 1e-3


@pytest.mark.parametrize("way", WAYS)
def test_the_command_line_reads_them(way, tmp_path):
    from bridle.cli import main
    from bridle.data import write_svmlight

    X, y = noisy()
    codes = np.searchsorted(np.unique(y), y).astype(float)
    write_svmlight(tmp_path / "data", sparse.csr_matrix(X), codes)
    model = LinearSVC(0.3, multi_class=way, random_state=0).fit(X, codes)
    save_model(tmp_path / "model", LinearModel.from_estimator(model))
    files = [str(tmp_path / name) for name in ("data", "model", "out")]
    result = CliRunner().invoke(main, ["predict", *files])
    assert result.exit_code == 0, result.output
    assert np.array_equal(np.loadtxt(files[2]), model.predict(X))
    result = CliRunner().invoke(main, ["certify", *files[:2]])
    assert result.exit_code == 0, result.output
    assert "certified gap" in result.output


def test_a_model_that_does_not_fit_its_way_is_refused():
    X, y = noisy()
    model = LinearModel.from_estimator(LinearSVC(multi_class="ovo", random_state=0).fit(X, y))
    fields, arrays = model.parts()
    with pytest.raises(ValueError, match="coef of shape"):
        LinearModel.from_parts(fields | {"multi_class": "crammer_singer"}, arrays)
    with pytest.raises(ValueError, match="multi_class must be one of"):
        LinearModel.from_parts(fields | {"multi_class": "tournament"}, arrays)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_probabilities(way, n_classes, method, tmp_path):
    X, y = noisy(1200, n_classes=n_classes, noise=2.0)
    test, truth = noisy(1000, n_classes=n_classes, noise=2.0, seed=9)
    model = LinearSVC(0.1, multi_class=way, probability=method, random_state=0).fit(X, y)
    p = model.predict_proba(test)
    assert p.shape == (1000, n_classes)
    assert p.min() >= 0
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    shares = [np.mean(y == label) for label in model.classes_]
    guess = log_loss(truth, np.tile(shares, (1000, 1)))
    assert log_loss(truth, 0.999 * p + 0.001 / n_classes) < 0.85 * guess
    assert np.mean(model.classes_[p.argmax(axis=1)] == truth) > 0.95 * model.score(test, truth)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(LinearSVC.load(tmp_path / "model").predict_proba(test), p)
    np.testing.assert_array_equal(load_model(tmp_path / "model").predict_proba(test), p)
    assert f"multi_class='{way}'" in repr(load_model(tmp_path / "model"))


def test_coupled_probabilities_are_the_optimum():
    rng = np.random.default_rng(0)
    duels, scores = pairs(4), 2 * rng.standard_normal((5, 6))
    calibrators = [SigmoidMap(*ab) for ab in rng.uniform(0.5, 1.0, (6, 2))]
    found = coupled(calibrators, scores, duels)
    for row, p in zip(scores, found, strict=True):
        r = [float(c(np.array(s))) for c, s in zip(calibrators, row, strict=True)]

        def cost(p, r=r):
            squares = (((1 - r[k]) * p[i] - r[k] * p[j]) ** 2 for k, (i, j) in enumerate(duels))
            return sum(squares)

        best = minimize(
            cost, np.full(4, 0.25), bounds=[(0, 1)] * 4, method="SLSQP",
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1}, options={"ftol": 1e-14},
        )  # fmt: skip
        np.testing.assert_allclose(p, best.x, atol=1e-4)
    # Pairs that agree with some p give that p back.
    p = np.array([0.1, 0.2, 0.3, 0.4])
    logit = np.array([[np.log(p[i] / p[j]) for i, j in duels]])
    np.testing.assert_allclose(coupled([SigmoidMap(1.0, 0.0)] * 6, logit, duels)[0], p, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"multi_class": "tournament"}, "multi_class must be one of ovr, ovo, crammer_singer"),
        ({"bias": "free"}, "cannot leave the intercept unpenalised"),
        ({"store_dual": True}, "store_dual needs one dual variable for each row"),
        ({"warm_start": True}, "warm_start needs one dual variable for each row"),
        ({"solver": "dcd"}, "dcd"),
    ],
)
def test_what_crammer_singer_cannot_have_is_refused(options, message):
    X, y = noisy()
    with pytest.raises(ValueError, match=message):
        LinearSVC(**{"multi_class": "crammer_singer"} | options).fit(X, y)


def test_warm_start_of_pairs():
    X, y = noisy(3000, 200, n_classes=3)
    model = LinearSVC(
        1e-3, multi_class="ovo", warm_start=True, random_state=0, solver="dcd"
    ).fit(X, y)  # fmt: skip
    cold, before = model.n_iter_, model.certificate_
    model.fit(X, y)
    assert model.n_iter_ <= max(2, cold // 3)
    assert model.certificate_.primal <= before.primal * (1 + 1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_same_bits_for_any_number_of_threads(way):
    X, y = noisy(600, 30)
    model = LinearSVC(0.01, multi_class=way, random_state=1)
    models = [clone(model).set_params(n_threads=n).fit(X, y) for n in (1, 2, 5)]
    for other in models[1:]:
        assert np.array_equal(other.coef_, models[0].coef_)
        assert np.array_equal(other.intercept_, models[0].intercept_)
        assert other.certificates_ == models[0].certificates_


@pytest.mark.parametrize("way", WAYS)
def test_a_budget_ends_in_a_model_with_its_gap(way):
    X, y = noisy()
    with pytest.warns(GapWarning, match="certified gap"):
        model = LinearSVC(1000.0, multi_class=way, max_iter=1, tol=1e-6).fit(X, y)
    assert model.status_ is Status.BUDGET
    assert 1e-6 < model.certificate_.relative_gap <= 1
    assert ("of 6 pairs fell short" in model.message_) == (way == "ovo")


# Many classes.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_sparse_weights_decide_the_same(way, n_classes, tmp_path):
    X, y = noisy(n_classes=n_classes)
    X[:, 3] = 0.0  # no row has it: its weights are zeros
    model = LinearSVC(0.3, multi_class=way, random_state=0).fit(X, y)
    thin = LinearSVC(0.3, multi_class=way, random_state=0, sparse_coef=True).fit(X, y)
    assert sparse.issparse(thin.coef_)
    assert thin.coef_.nnz == np.count_nonzero(model.coef_) < model.coef_.size
    assert np.array_equal(thin.coef_.toarray(), model.coef_)
    assert np.array_equal(thin.decision_function(X), model.decision_function(X))
    assert np.array_equal(model.sparsify().predict(X), thin.predict(X))
    thin.save(tmp_path / "model")
    read = load_model(tmp_path / "model")
    assert sparse.issparse(read.coef)
    assert np.array_equal(read.predict(X), thin.predict(X))
    assert np.array_equal(LinearSVC.load(tmp_path / "model").predict(X), thin.predict(X))
    assert read.resized(12).coef.shape[1] == 12
    assert len(certify_model(read, X, y)) == len(thin.certificates_)
    assert isinstance(model.densify().coef_, np.ndarray)


def test_warm_start_from_sparse_weights():
    X, y = noisy(3000, 200, n_classes=3)
    model = LinearSVC(1e-3, warm_start=True, random_state=0, sparse_coef=True).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ <= max(2, cold // 3)


MEASURE = """
    import sys
    import numpy as np
    from scipy import sparse
    from bridle import LinearSVC

    def peak():  # not getrusage: that of a child begins with its parent's
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if "VmHWM" in line)

    rng = np.random.default_rng(0)
    n, d, n_classes, words = 3000, 120_000, 100, 10
    y = rng.integers(0, n_classes, n)
    columns = 40 * ((y[:, None] * 30 + rng.integers(0, 60, (n, words))) % 3000)  # hashed
    X = sparse.csr_matrix(
        (np.ones(n * words, np.float32), columns.ravel(), np.arange(0, n * words + 1, words)),
        shape=(n, d),
    )
    LinearSVC().fit(X[:50], y[:50] % 2)  # imports
    before = peak()
    LinearSVC(random_state=0, n_threads=2, tol=0.5, **{options}).fit(X, y).predict(X)
    print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_memory_of_many_classes():
    """100 classes, 120,000 features of which 3000 occur, 3000 rows.

    Dense weights are 92 MB, sparse ones 3 MB, the dual variables 2 MB. No weights are there twice.
    """

    def megabytes(options: str) -> float:
        code = textwrap.dedent(MEASURE).replace("{options}", options)
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        return float(run.stdout)

    sparse_weights = megabytes("dict(sparse_coef=True)")
    dense_weights = megabytes("dict()")
    # Sparse weights took 48 MB in one of five runs, why is not known: far from 92 all the same.
    assert sparse_weights < 75
    assert 92 < dense_weights < 92 + 75
