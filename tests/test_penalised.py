"""Penalties with an l1 norm: certificates again in NumPy, optima LIBLINEAR's and scikit-learn's."""

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle import Gap, LinearSVC, LogisticRegression, PenalisedProblem, solve
from sklearn import linear_model, svm

from reference import penalised

STORAGES = {
    "csr32": lambda X: sp.csr_matrix(X, dtype=np.float32),
    "csr64": sp.csr_matrix,
    "dense32": lambda X: np.ascontiguousarray(X, np.float32),
    "dense64": np.ascontiguousarray,
}
BIASES = ("none", "regularised", "free")
LOSSES = ("squared_hinge", "logistic", "smoothed_hinge", "squared", "huber")


def rows(loss, n=150, d=30):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X = X.astype(np.float32).astype(np.float64)  # the same in every storage
    scores = X[:, :6] @ rng.normal(size=6) + 0.5 * rng.normal(size=n) + 0.3
    residual = bridle.objective.losses.LOSSES[loss].residual
    return X, scores if residual else np.sign(scores), rng.uniform(0.2, 3.0, n)


def values(X, y, loss, cost, l1, bias, found, scale=2.0):
    """P and D by their formulas, and whether the dual point is one."""
    loss = bridle.objective.losses.LOSSES[loss]
    w, b, alpha = np.asarray(found.w), found.b, found.alpha
    sign, target = (np.ones(len(y)), y) if loss.residual else (y, np.zeros(len(y)))
    scores = X @ w + b
    p = scores - target if loss.residual else y * scores
    joined = np.append(w, b / scale) if bias == "regularised" else w
    primal = l1 * np.abs(joined).sum() + (1 - l1) / 2 * joined @ joined + cost @ loss.value(p)
    v = X.T @ (alpha * sign)
    if bias == "regularised":
        v = np.append(v, scale * (alpha @ sign))
    if bias == "free":
        assert abs(alpha @ sign) <= 1e-9 * np.abs(alpha).sum()
    dual = loss.dual_value(alpha, cost) + alpha @ target
    if l1 == 1:
        assert np.abs(v).max() <= 1.0 + 1e-12
    else:
        dual -= (np.maximum(np.abs(v) - l1, 0.0) ** 2).sum() / (2 * (1 - l1))
    return primal, dual


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("l1", [1.0, 0.4])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_certificate_is_what_numpy_says(loss, l1, storage, bias):
    X, y, weight = rows(loss)
    problem = PenalisedProblem(
        STORAGES[storage](X), y, 0.1, loss=loss, l1_ratio=l1, bias=bias, bias_scale=2.0,
        sample_weight=weight,
    )  # fmt: skip
    for tol in (0.1, 1e-7):
        found = solve(problem, stop=Gap(tol))
        assert found.converged, found.message
        assert found.solver == "cd"
        primal, dual = values(X, y, loss, 0.1 * weight, l1, bias, found)
        assert found.certificate.primal == pytest.approx(primal, rel=1e-10)
        assert found.certificate.dual == pytest.approx(dual, rel=1e-8)
        assert problem.dual(found.alpha) <= found.certificate.primal
        assert np.all(np.diff(found.trace["relative_gap"]) <= 0)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("l1", [1.0, 0.4])
def test_no_dual_value_is_above_a_primal_one(l1, bias):
    X, y, _ = rows("logistic", 30)
    problem = PenalisedProblem(X, y, 0.3, loss="logistic", l1_ratio=l1, bias=bias)
    rng = np.random.default_rng(1)
    judged = [
        problem.judge(bridle.Iterate(1, 1.0, size * rng.normal(size=30), 0.0, 0.3 * rng.random(30)))
        for size in (0.0, 0.01, 1.0, 100.0)
    ]
    assert max(j.dual for j in judged) <= min(j.primal for j in judged)


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_the_optimum_is_that_of_liblinear(C):
    X, y, _ = rows("squared_hinge")
    ours = LinearSVC(C, penalty="l1", dual=False, tol=1e-8).fit(X, y)
    theirs = svm.LinearSVC(C=C, penalty="l1", dual=False, tol=1e-9, max_iter=10**6).fit(X, y)
    problem = PenalisedProblem(X, y, C, bias="regularised")
    reached = problem.primal(theirs.coef_[0], float(theirs.intercept_[0]))
    assert ours.certificate_.primal == pytest.approx(reached, rel=1e-6)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-3)
    logistic = LogisticRegression(C, penalty="l1", bias="regularised", tol=1e-8).fit(X, y)
    peer = bridle_free_liblinear(C).fit(X, y)
    problem = PenalisedProblem(X, y, C, loss="logistic", bias="regularised")
    reached = problem.primal(peer.coef_[0], float(peer.intercept_[0]))
    assert logistic.certificate_.primal == pytest.approx(reached, rel=1e-6)


def bridle_free_liblinear(C):
    return penalised(l1_ratio=1, C=C, solver="liblinear", tol=1e-9, max_iter=10**6)


@pytest.mark.parametrize("l1", [1.0, 0.3])
def test_the_squared_loss_is_the_lasso_and_the_elastic_net(l1):
    X, t, _ = rows("squared")
    found = solve(PenalisedProblem(X, t, 0.2, loss="squared", l1_ratio=l1, bias="free"),
                  stop=Gap(1e-8))  # fmt: skip
    peer = linear_model.ElasticNet(
        alpha=1.0 / (2 * 0.2 * len(t)), l1_ratio=l1, tol=1e-10, max_iter=10**6
    ).fit(X, t)
    assert np.allclose(found.w, peer.coef_, atol=1e-4)
    assert found.b == pytest.approx(peer.intercept_, abs=1e-4)


def test_an_elastic_net_is_sagas_and_its_model_is_saved(tmp_path):
    X, y, weight = rows("logistic")
    ours = LogisticRegression(0.5, penalty="elasticnet", l1_ratio=0.6, tol=1e-8)
    ours.fit(X, y, sample_weight=weight)
    peer = penalised(C=0.5, l1_ratio=0.6, solver="saga", tol=1e-9, max_iter=10**6).fit(
        X, y, sample_weight=weight
    )
    assert np.allclose(ours.coef_, peer.coef_, atol=1e-4)
    ours.save(tmp_path / "m")
    again = LogisticRegression.load(tmp_path / "m")
    assert (again.penalty, again.l1_ratio) == ("elasticnet", 0.6)
    assert np.array_equal(again.decision_function(X), ours.decision_function(X))


@pytest.mark.parametrize("bias", BIASES)
def test_weights_begin_at_c_min(bias):
    X, y, _ = rows("logistic")
    formula = {"loss": "logistic", "bias": bias}
    least = bridle.C_min(X, y, **formula)
    assert least == pytest.approx(1.0 / bridle.lambda_max(X, y, **formula))
    if bias == "none":
        assert least == pytest.approx(svm.l1_min_c(X, y, loss="log", fit_intercept=False))
    points = list(bridle.l1_path(X, y, [0.999 * least, 1.05 * least, 20 * least], **formula))
    weights = [p.coef.nnz + (bias == "regularised" and p.intercept != 0) for p in points]
    assert weights[0] == 0
    assert 0 < weights[1] < weights[2]
    assert max(p.certificate.relative_gap for p in points) <= 1e-3
    assert pytest.approx(least) == next(bridle.l1_path(X, y, 3, **formula)).C


def test_what_it_cannot_have_is_refused_by_name(tmp_path):
    X, y, _ = rows("logistic")
    for parameters in ({"loss": "hinge"}, {"dual": True}, {"penalty": "elasticnet"}):
        with pytest.raises(ValueError, match="Unsupported set of arguments"):
            LinearSVC(**{"penalty": "l1", **parameters}).fit(X, y)
    with pytest.raises(ValueError, match="dcd needs"):
        LinearSVC(penalty="l1", solver="dcd").fit(X, y)
    with pytest.raises(ValueError, match="cd needs an l1 penalty"):
        LinearSVC(solver="cd").fit(X, y)
    with pytest.raises(ValueError, match="needs an l1_ratio"):
        LogisticRegression(penalty="elasticnet").fit(X, y)
    with pytest.raises(ValueError, match='has no penalty="l1"'):
        LogisticRegression(penalty="l1").fit(X, np.arange(len(y)) % 3)
    bridle.data.write_arrow(tmp_path / "d.arrow", sp.csr_matrix(X, dtype=np.float32), y)
    with pytest.raises(ValueError, match="penalty='l1' needs the rows in memory"):
        LinearSVC(penalty="l1").fit(bridle.StoredRows(tmp_path / "d.arrow"))
