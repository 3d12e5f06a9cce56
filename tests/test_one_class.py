"""LinearOneClassSVM: LIBSVM's and LIBLINEAR's answers, its certificate, its files, its commands."""

from __future__ import annotations

import json

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from bridle import LinearOneClassSVM, OneClass
from bridle.cli import main
from bridle.rows.cluster.local import LocalParts
from click.testing import CliRunner
from sklearn import svm
from sklearn.linear_model import SGDOneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

STORAGES = [np.ascontiguousarray, sp.csr_matrix]


# Of rows on all sides of the origin, as some checks have them, it says that w = 0 is the optimum.
@pytest.mark.filterwarnings("ignore:all weights are 0")
@parametrize_with_checks([LinearOneClassSVM()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def data(n=300, n_features=12, seed=0):
    """Around a point that is not the origin."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, n_features)) + 0.8) * (rng.random((n, n_features)) < 0.7)


def problem(X, nu=0.2, **further):
    return bridle.LinearProblem(X, None, loss=OneClass(nu), bias="free", **further)


def values(X, weight, nu, w, b, alpha):
    """P and D of scikit-learn's documentation, in plain NumPy."""
    s = X @ w
    rho = -b
    primal = 0.5 * w @ w + weight @ np.maximum(0.0, rho - s) - nu * weight.sum() * rho
    v = X.T @ alpha
    return primal, -0.5 * v @ v


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.8, 1.0])
def test_certificates(nu, dtype, storage):
    X = storage(data().astype(dtype))
    weight = np.random.default_rng(1).integers(0, 4, size=X.shape[0]) * 0.7
    tol = 1e-5 if dtype == np.float32 else 1e-9
    found = bridle.solve(
        problem(X, nu, sample_weight=weight), stop=bridle.Gap(tol) | bridle.Epochs(5000)
    )
    assert found.converged, found.message
    dense = np.asarray(X.todense() if sp.issparse(X) else X, np.float64)
    primal, dual = values(dense, weight, nu, found.w, found.b, found.alpha)
    assert (found.alpha >= 0).all()
    assert (found.alpha <= weight).all()
    assert found.alpha.sum() == pytest.approx(nu * weight.sum(), rel=1e-12)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-9)
    assert found.certificate.dual <= dual * (1 - 1e-15) + 1e-12 * abs(dual)
    assert dual <= primal + 1e-12 * abs(primal)
    assert (primal - dual) <= tol * abs(dual) * (1 + 1e-6)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_the_optimum_is_libsvms_and_liblinears(nu):
    X = data()
    ours = problem(X, nu)
    found = bridle.solve(ours, stop=bridle.Gap(1e-9) | bridle.Epochs(10**4))
    libsvm = svm.OneClassSVM(kernel="linear", nu=nu, tol=1e-9).fit(X)
    theirs = ours.primal(libsvm.coef_[0], float(libsvm.intercept_[0]))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_allclose(found.w, libsvm.coef_[0], atol=1e-3 * np.abs(found.w).max())
    tool = pytest.importorskip("liblinear.liblinearutil")
    model = tool.train(
        tool.problem(np.ones(len(X)), sp.csr_matrix(X), bias=-1),
        tool.parameter(f"-s 21 -n {nu} -e 1e-8 -q"),
    )
    w = np.ctypeslib.as_array(model.w, (X.shape[1],)).copy()
    assert found.certificate.primal == pytest.approx(ours.primal(w, -model.rho), rel=1e-6)


@pytest.mark.skipif(
    sklearn.__version__.startswith("1.6"), reason="scikit-learn 1.6 has weights twice as large"
)
def test_the_half_space_is_that_of_sgd():
    X = data(2000)
    ours = LinearOneClassSVM(nu=0.3, tol=1e-6).fit(X)
    theirs = SGDOneClassSVM(nu=0.3, random_state=0, tol=None, max_iter=1000).fit(X)
    scale = 0.3 * len(X)
    np.testing.assert_allclose(
        ours.coef_[0] / scale, theirs.coef_, atol=0.05 * np.abs(theirs.coef_).max()
    )
    assert ours.offset_[0] / scale == pytest.approx(theirs.offset_[0], rel=0.05)
    assert ours.offset_.shape == theirs.offset_.shape


@pytest.mark.parametrize("storage", STORAGES)
def test_the_estimator(storage, tmp_path):
    X = storage(data())
    model = LinearOneClassSVM(nu=0.2, tol=1e-8).fit(X)
    peer = svm.OneClassSVM(kernel="linear", nu=0.2, tol=1e-9).fit(X)
    reach = np.abs(peer.decision_function(X)).max()
    for name in ("decision_function", "score_samples"):
        own, other = getattr(model, name)(X), getattr(peer, name)(X)
        np.testing.assert_allclose(own, other, atol=1e-4 * reach)
    outside = np.mean(model.predict(X) < 0)
    assert outside <= 0.2 + 1e-9
    assert outside >= 0.2 - 13 / X.shape[0]  # but for those on the boundary
    assert model.coef_.shape == (1, X.shape[1])
    np.testing.assert_allclose(model.dual_coef_ @ X, model.coef_, rtol=1e-3)
    assert model.dual_gap_ == model.certificate_.gap
    model.save(tmp_path / "one", dual=True)
    again = LinearOneClassSVM.load(tmp_path / "one")
    assert again.nu == 0.2
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert np.array_equal(again.dual_coef_, model.dual_coef_)
    held = bridle.load_model(tmp_path / "one")
    assert held.predict(X).tolist() == model.predict(X).tolist()
    (proven,) = bridle.certify_model(held, X)
    assert proven.relative_gap <= 1e-6


def test_same_bits_for_any_number_of_threads():
    X = data(5000)
    one, three = (LinearOneClassSVM(n_threads=n).fit(X) for n in (1, 3))
    assert np.array_equal(one.coef_, three.coef_)
    assert np.array_equal(one.intercept_, three.intercept_)


def test_what_there_is_not():
    X, y = data(50), np.r_[np.ones(25), -np.ones(25)]
    for nu in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="nu must be above 0"):
            LinearOneClassSVM(nu=nu).fit(X)
    for bias in ("none", "regularised"):
        with pytest.raises(ValueError, match='needs bias="free"'):
            bridle.LinearProblem(X, None, loss="one_class", bias=bias)
    with pytest.raises(ValueError, match="see LinearOneClassSVM"):
        bridle.LinearSVC(loss="one_class").fit(X, y)
    with pytest.raises(ValueError, match="see LinearOneClassSVM"):
        bridle.OnlineSVC(loss="one_class").partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="see LinearOneClassSVM"):
        bridle.solve_one_vs_rest(X, np.arange(50) % 3, 3, loss="one_class", bias="free")
    with pytest.raises(ValueError, match="one of targets, not of classes"):
        bridle.OnlineSVM([-1, 1], loss="squared")
    with pytest.raises(ValueError, match="not available on a cluster"):
        bridle.LinearProblem(LocalParts(X, y, 2), loss="one_class", bias="free")
    with pytest.raises(bridle.errors.DeviceError, match="not one_class"):
        bridle.LinearProblem(X, None, loss="one_class", bias="free", device="cuda")
    with pytest.raises(ValueError, match="no steps for an offset"):
        bridle.solve(problem(X), "gd")
    with pytest.raises(ValueError, match="C only makes the weights longer"):
        bridle.path(X, y, 0.1, 1.0, loss="one_class", bias="free")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("memory", [None, "2G"])
def test_on_disk(memory, weighted, tmp_path):
    from bridle.data import write_arrow

    X = sp.csr_matrix(data(4000, 30).astype(np.float32))
    weight = np.random.default_rng(1).random(4000) if weighted else None
    write_arrow(tmp_path / "d.arrow", X, np.ones(4000), weight=weight)
    model = LinearOneClassSVM(nu=0.2, tol=1e-4).fit(
        bridle.StoredRows(tmp_path / "d.arrow", memory=memory)
    )
    assert model.certificate_.relative_gap <= 1e-4
    here = problem(X, 0.2, sample_weight=weight)
    primal = here.primal(model.coef_[0], float(model.intercept_[0]))
    assert primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    optimum = bridle.solve(here, stop=bridle.Gap(1e-6)).certificate
    assert model.certificate_.dual <= optimum.primal
    assert optimum.dual <= model.certificate_.primal


@pytest.mark.parametrize("surrounded", [np.zeros((20, 3)), np.r_[data(100), -data(100)]])
def test_no_half_space_is_the_best_and_says_what_it_takes_for_granted(surrounded):
    there = problem(surrounded, 0.5)
    found = bridle.solve(there)
    assert found.converged, found.message
    assert (found.certificate.primal, found.certificate.dual) == (0.0, 0.0)
    assert not found.w.any()
    assert "0 but for rounding" in found.certificate.assumption
    assert there.variant(sample_weight=np.arange(len(surrounded))).assumption is None


def test_a_row_without_weight_does_not_make_nothing_of_the_others(tmp_path):
    """It makes the bounds of rounding so wide that the combination of rows might be 0."""
    X = data(4000, 5) + 2.0
    weight = np.r_[0.0, np.ones(3999)]
    X[0] *= 1e14
    bridle.data.write_arrow(tmp_path / "d.arrow", sp.csr_matrix(X), weight, weight=weight)
    stored = problem(bridle.StoredRows(tmp_path / "d.arrow"), 0.3)
    found = bridle.solve(stored, stop=bridle.Gap(1e-3) | bridle.Epochs(5)).certificate
    X, weight = X[1:], weight[1:]
    w = X.mean(axis=0)
    nearest = (X @ w).min()
    w *= 0.3 * len(X) * nearest / (w @ w)
    primal, _ = values(X, weight, 0.3, w, -(X @ w).min(), weight)
    assert primal < 0
    assert found.dual <= primal
    assert found.assumption is None


def bridle_(*words, code=0):
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == code, done.output
    return done


def test_on_the_command_line(tmp_path):
    from bridle.data import write_svmlight

    X = data()
    train, model = tmp_path / "d.svm", tmp_path / "one.model"
    labels = np.where(np.arange(len(X)) < 290, 1.0, -1.0)
    write_svmlight(train, X, labels)
    bridle_("train", train, model, "--loss", "one_class:nu=0.3", "--gap", "1e-8", "--proof")
    ours = LinearOneClassSVM(nu=0.3, tol=1e-8).fit(X)
    assert LinearOneClassSVM.load(model).offset_[0] == pytest.approx(ours.offset_[0], rel=1e-6)
    said = bridle_("predict", train, model, "--json", tmp_path / "out")
    report = json.loads(said.stdout)
    answers = np.loadtxt(tmp_path / "out")
    assert answers.tolist() == ours.predict(X).tolist()
    assert report["outside_test"] == pytest.approx(np.mean(answers < 0))
    assert report["error_test"] == pytest.approx(np.mean(answers != labels))
    proven = json.loads(bridle_("certify", train, model, "--json").stdout)
    assert proven["trained_on_these_data"] is True
    assert proven["relative_gap"] <= 1e-6
    dialect = bridle_("train", "-s", "21", "-n", "0.3", "-e", "1e-7", train, tmp_path / "d.model")
    assert "--loss one_class:nu=0.3" in dialect.stderr
    same = LinearOneClassSVM.load(tmp_path / "d.model")
    np.testing.assert_allclose(same.coef_, ours.coef_, rtol=1e-4)
    for words, why in (
        (("-s", "21", "-B", "1"), "an offset of its own"),
        (("-s", "3", "-n", "0.1"), "-n is for the one-class machine"),
        (("--loss", "one_class", "-c", "2"), "nu takes its place"),
        (("--loss", "one_class", "--folds", "3"), "is for rows with labels"),
    ):
        assert why in bridle_("train", *words, train, tmp_path / "no", code=2).stderr


def test_compare(tmp_path):
    from bridle.data import write_svmlight

    write_svmlight(tmp_path / "d.svm", data(), np.ones(300))
    told = bridle_("compare", tmp_path / "d.svm", "--loss", "one_class", "--bias", "free", "--json")
    (run,) = json.loads(told.stdout)["runs"]
    assert run["solver"] == "dcd"
    assert 0 <= run["suboptimality"] <= 1e-3


def test_liblinears_files(tmp_path):
    tool = pytest.importorskip("liblinear.liblinearutil")
    X = data()
    rows = sp.csr_matrix(X)
    model = tool.train(
        tool.problem(np.ones(len(X)), rows, bias=-1), tool.parameter("-s 21 -n 0.3 -e 1e-6 -q")
    )
    tool.save_model(str(tmp_path / "theirs"), model)
    with pytest.raises(bridle.errors.ModelError, match="nu of its training"):
        bridle.import_model(tmp_path / "theirs")
    ours = bridle.import_model(tmp_path / "theirs", nu=0.3)
    said, _, scores = tool.predict([1] * len(X), rows, model, "-q")
    rounded = 1e-8 * abs(ours.intercept)  # so near to it a row is on the boundary
    np.testing.assert_allclose(ours.decision_function(X), np.ravel(scores), rtol=0, atol=rounded)
    clear = np.abs(np.ravel(scores)) > rounded
    assert ours.predict(X)[clear].tolist() == np.array(said)[clear].tolist()
    assert ours.certificate.relative_gap == np.inf
    (proven,) = bridle.certify_model(ours, X)
    assert proven.relative_gap <= 1e-3
    bridle.export_model(tmp_path / "back.liblinear", ours)
    back = tool.load_model(str(tmp_path / "back.liblinear"))
    again, _, _ = tool.predict([1] * len(X), rows, back, "-q")
    assert again == said


def test_the_import_command(tmp_path):
    from bridle.data import write_svmlight

    X = data()
    write_svmlight(tmp_path / "d.svm", X, np.ones(len(X)))
    LinearOneClassSVM(nu=0.3).fit(X).save(tmp_path / "m")
    bridle_("export", tmp_path / "m", tmp_path / "m.liblinear")
    words = ("import", tmp_path / "m.liblinear", tmp_path / "again")
    assert "-n" in bridle_(*words, code=2).stderr
    bridle_(*words, "-n", "0.3", "--data", tmp_path / "d.svm")
    assert bridle.load_model(tmp_path / "again").certificate.relative_gap <= 1e-3
    assert "nu must be above 0" in bridle_(*words, "-n", "2", code=2).stderr
    bridle.export_model(tmp_path / "two", bridle.LinearSVC().fit(X, X[:, 0] > 1), "liblinear")
    said = bridle_("import", tmp_path / "two", tmp_path / "again", "-n", "0.3", code=2).stderr
    assert "Missing option '-c'" in said  # its C is not to be guessed


def test_onnx_says_the_same():
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from bridle.exchange.onnx import build

    X = data().astype(np.float32)
    model = LinearOneClassSVM(nu=0.3).fit(X)
    session = onnxruntime.InferenceSession(build(model.to_model()).SerializeToString())
    label, scores = session.run(["label", "scores"], {"X": X})
    assert label.tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-9, atol=1e-9)
