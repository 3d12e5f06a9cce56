"""Multinomial logistic regression: every certificate again in NumPy, the optimum scikit-learn's."""

from inspect import signature

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle import Gap, LogisticRegression, solve
from bridle.problems.multinomial import MultinomialProblem
from scipy.special import logsumexp, softmax, xlogy
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.utils.class_weight import compute_class_weight

STORAGES = {
    "csr32": lambda X: sp.csr_matrix(X, dtype=np.float32),
    "csr64": sp.csr_matrix,
    "dense32": lambda X: np.ascontiguousarray(X, np.float32),
    "dense64": np.ascontiguousarray,
}
BIASES = ("none", "regularised", "free")


def rows(n=90, d=6, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X = X.astype(np.float32).astype(np.float64)  # the same in every storage
    y = np.argmax(X[:, :classes] + rng.normal(size=(n, classes)), axis=1)
    return X, y, rng.uniform(0.1, 3.0, n)


def values(X, y, cost, bias, table, p, scale=2.0):
    """P and D by their formulas."""
    constant = {"none": 0.0, "regularised": scale, "free": 1.0}[bias]
    joined = np.column_stack([X, np.full(len(X), constant)])
    full = table if bias != "none" else np.vstack([table, np.zeros(table.shape[1])])
    scores, truth = joined @ full, np.eye(table.shape[1])[y]
    penalised = slice(None, -1) if bias == "free" else slice(None)
    losses = logsumexp(scores, axis=1) - (scores * truth).sum(axis=1)
    primal = 0.5 * (full[penalised] ** 2).sum() + cost @ losses
    pulled = joined.T @ (cost[:, None] * (truth - p))
    assert np.allclose(p.sum(axis=1), 1.0)
    assert (p >= 0).all()
    if bias == "free":
        assert np.abs(pulled[-1]).max() <= 1e-9 * cost.sum()
    return primal, -cost @ xlogy(p, p).sum(axis=1) - 0.5 * (pulled[penalised] ** 2).sum()


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("storage", STORAGES)
def test_the_certificate_is_what_numpy_says(storage, bias):
    X, y, weight = rows()
    problem = MultinomialProblem(
        STORAGES[storage](X), y, 4, 0.7, bias=bias, bias_scale=2.0, sample_weight=weight
    )
    for tol in (0.1, 1e-8):
        found = solve(problem, stop=Gap(tol))
        assert found.converged
        assert found.solver == "auto (newton)"
        table = found.w.reshape(-1, 4)
        primal, dual = values(X, y, 0.7 * weight, bias, table, found.alpha)
        assert found.certificate.primal == pytest.approx(primal, rel=1e-10)
        assert found.certificate.dual == pytest.approx(dual, rel=1e-8)
        assert problem.dual(found.alpha) <= found.certificate.primal
        assert np.all(np.diff(found.trace["relative_gap"]) <= 0)


@pytest.mark.parametrize("bias", BIASES)
def test_no_dual_value_is_above_a_primal_one(bias):
    X, y, weight = rows(30)
    problem = MultinomialProblem(X, y, 4, 0.3, bias=bias, sample_weight=weight)
    rng = np.random.default_rng(1)
    duals, primals = [], []
    for size in (0.0, 0.1, 1.0, 10.0, 1000.0):
        p = problem.balanced(softmax(size * rng.normal(size=(30, 4)), axis=1))
        duals.append(problem.dual(p))
        primals.append(problem.primal(size * rng.normal(size=problem.n_features)))
        judged = problem.judge(bridle.Iterate(1, 1.0, size * rng.normal(size=problem.n_features)))
        duals.append(judged.dual)
        primals.append(judged.primal)
    assert np.isfinite(duals).all()
    assert max(duals) <= min(primals)
    assert problem.dual(np.full((30, 4), 0.3)) == -np.inf


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 0.5, 1: 2.0, 2: 1.0, 3: 1.0}])
def test_the_optimum_is_that_of_scikit_learn(fit_intercept, class_weight):
    if (
        class_weight == "balanced"
        and "sample_weight" not in signature(compute_class_weight).parameters
    ):
        pytest.skip("this scikit-learn balances numbers of rows, not their weights")
    X, y, weight = rows()
    settings = {"C": 0.8, "fit_intercept": fit_intercept, "class_weight": class_weight}
    ours = LogisticRegression(tol=1e-9, **settings).fit(X, y, sample_weight=weight)
    theirs = Theirs(tol=1e-10, max_iter=10000, **settings).fit(X, y, sample_weight=weight)
    assert np.allclose(ours.coef_, theirs.coef_, atol=2e-5)
    assert np.allclose(ours.intercept_, theirs.intercept_, atol=2e-5)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    per_class = {None: np.ones(4), "balanced": None}.get(
        class_weight if not isinstance(class_weight, dict) else "", np.array([0.5, 2.0, 1.0, 1.0])
    )
    if per_class is None:
        per_class = weight.sum() / (4 * np.bincount(y, weight))
    bias = "free" if fit_intercept else "none"
    table = np.vstack([theirs.coef_.T, theirs.intercept_[None]] if fit_intercept
                      else [theirs.coef_.T])  # fmt: skip
    cost = 0.8 * weight * per_class[y]
    primal, _ = values(X, y, cost, bias, table, np.full((len(X), 4), 0.25) if bias == "none"
                       else np.tile(np.bincount(y, cost) / cost.sum(), (len(X), 1)))  # fmt: skip
    assert ours.certificate_.primal == pytest.approx(primal, rel=1e-6)
    assert ours.certificate_.dual <= primal


def test_weights_are_copies_of_rows():
    X, y, _ = rows()
    times = np.arange(len(y)) % 3
    ours = LogisticRegression(tol=1e-9).fit(X, y, sample_weight=times)
    again = LogisticRegression(tol=1e-9).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert ours.certificate_.primal == pytest.approx(again.certificate_.primal, rel=1e-8)
    assert np.allclose(ours.coef_, again.coef_, atol=1e-5)


def test_its_model_is_saved_and_its_probabilities_are_the_softmax(tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    ours = LogisticRegression(C=2.0, tol=1e-6).fit(X, names[y])
    ours.save(tmp_path / "m")
    again = LogisticRegression.load(tmp_path / "m")
    assert again.multi_class == "multinomial"
    assert np.array_equal(again.predict(X), ours.predict(X))
    p = softmax(ours.decision_function(X), axis=1)
    assert np.allclose(again.predict_proba(X), p)
    assert np.allclose(bridle.load_model(tmp_path / "m").predict_proba(X), p)
    assert ours.certificates_ == [ours.certificate_]
    assert not hasattr(ours, "dual_coef_")


def test_a_warm_start_takes_fewer_steps():
    X, y = load_iris(return_X_y=True)
    ours = LogisticRegression(tol=1e-6, warm_start=True).fit(X, y)
    first = ours.n_iter_
    ours.C = 1.01
    assert ours.fit(X, y).n_iter_ < first


def test_two_classes_are_one_function_and_ovr_is_there_on_request():
    X, y = load_iris(return_X_y=True)
    two = LogisticRegression(tol=1e-8).fit(X, y == 1)
    assert two.coef_.shape == (1, 4)
    assert two.dual_coef_.shape == (1, 150)
    several = LogisticRegression(multi_class="ovr", tol=1e-8).fit(X, y)
    assert len(several.certificates_) == 3


def test_what_it_cannot_have_is_refused_by_name(tmp_path):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r'store_dual .* multi_class="multinomial"'):
        LogisticRegression(store_dual=True).fit(X, y)
    with pytest.raises(ValueError, match='has the loss "logistic", not "squared_hinge"'):
        bridle.LinearSVC(multi_class="multinomial").fit(X, y)
    with pytest.raises(ValueError, match="pegasos needs"):
        LogisticRegression(solver="pegasos").fit(X, y)
    with pytest.raises(ValueError, match="C = inf has no solution"):
        bridle.MultinomialProblem(X, y, 3, np.inf)
    assert LogisticRegression(C=np.inf).fit(X, y).score(X, y) > 0.97  # all but that


def test_several_classes_on_disk_are_refused_by_name(tmp_path):
    X, y = load_iris(return_X_y=True)
    for classes in (y, y == 1):
        floats = sp.csr_matrix(X, dtype=np.float32)
        bridle.data.write_arrow(tmp_path / "d.arrow", floats, classes * 1.0)
        stored = bridle.StoredRows(tmp_path / "d.arrow")
        if classes is y:
            with pytest.raises(ValueError, match='"multinomial" needs the rows in memory'):
                LogisticRegression(fit_intercept=False).fit(stored)
        else:
            LogisticRegression(fit_intercept=False).fit(stored)
