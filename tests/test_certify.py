"""certify(): a certificate for weights that other tools made."""

import bridle
import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC
from sklearn.svm import LinearSVC as SklearnLinearSVC


def data(n=400, d=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X @ rng.standard_normal(d) + 2 * rng.standard_normal(n) + 0.5 > 0, 1.0, -1.0)
    return X, y


def primal(X, y, w, b, C, *, loss="hinge", bias="regularised", bias_scale=1.0):
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    penalised = w @ w + ((b / bias_scale) ** 2 if bias == "regularised" else 0.0)
    return penalised / 2 + np.sum(C * (slack if loss == "hinge" else slack**2))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_the_primal_is_exact_and_the_bound_holds(loss, bias, storage):
    X, y = data()
    rng = np.random.default_rng(1)
    C, scale = rng.uniform(0.0, 2.0, len(y)), 3.0
    w, b = rng.standard_normal(X.shape[1]), 0.0 if bias == "none" else 0.7
    found = bridle.certify(
        w, storage(X), y, 0.5, b=b, bias=bias, bias_scale=scale, loss=loss, sample_weight=C / 0.5
    )
    exact = primal(X, y, w, b, C, loss=loss, bias=bias, bias_scale=scale)
    assert found.primal == pytest.approx(exact, rel=1e-12)
    assert found.source == "dual-solver"
    # Random weights are far from optimal, and the bound is below what a good solution reaches.
    problem = bridle.LinearProblem(
        X, y, 0.5, loss=loss, bias=bias, bias_scale=scale, sample_weight=C / 0.5
    )
    best = bridle.solve(problem, stop=bridle.Gap(1e-7) | bridle.Epochs(10**5))
    assert found.dual <= best.certificate.primal * (1 + 1e-12)
    assert best.certificate.primal - found.dual <= 0.05 * found.gap


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_scikit_learns_linear_svc(loss):
    X, y = data()
    fit = SklearnLinearSVC(C=0.3, loss=loss, tol=1e-8, max_iter=10**6, random_state=0).fit(X, y)
    w, b = fit.coef_[0], fit.intercept_[0]
    found = bridle.certify(w, X, y, 0.3, b=b, bias="regularised", loss=loss)
    assert found.primal == pytest.approx(primal(X, y, w, b, 0.3, loss=loss), rel=1e-12)
    assert 0 <= found.relative_gap < 1e-6


def test_an_early_stop_shows():
    X, y = data()
    with pytest.warns(UserWarning, match="converge"):
        fit = SklearnLinearSVC(C=0.3, loss="hinge", max_iter=1, random_state=0).fit(X, y)
    found = bridle.certify(fit.coef_[0], X, y, 0.3, b=fit.intercept_[0])
    assert found.relative_gap > 1e-3


def test_sgd_classifier():
    X, y = data()
    lam = 1e-3
    C = bridle.lam_to_C(lam, len(y))
    sgd = SGDClassifier(loss="hinge", alpha=lam, random_state=0).fit(X, y)
    w, b = sgd.coef_[0], float(sgd.intercept_[0])
    found = bridle.certify(w, X, y, C, b=b, bias="free")
    assert found.primal == pytest.approx(primal(X, y, w, b, C, bias="free"), rel=1e-12)
    optimal = SVC(kernel="linear", C=C, tol=1e-6).fit(X, y)
    best = primal(X, y, optimal.coef_[0], optimal.intercept_[0], C, bias="free")
    truth = found.primal - best
    assert truth > 0
    # The certified gap covers the true one, and is not much larger.
    assert truth * (1 - 1e-6) <= found.gap <= 1.1 * truth


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": np.ones(3)}, r"w must have shape \(15,\), got \(3,\)"),
        ({"w": np.full(15, np.nan)}, "w contains NaN"),
        ({"y": np.ones(7)}, "one label for each of the 400 rows"),
        ({"y": np.zeros(400)}, "labels -1 and \\+1"),
        ({"C": 0.0}, "C must be positive"),
        ({"bias": "none", "b": 1.0}, "this problem has no bias"),
        ({"bias": "fixed"}, "bias must be one of"),
        ({"sample_weight": np.ones(3)}, r"sample_weight must have shape \(400,\)"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    X, y = data()
    arguments = {"w": np.ones(15), "X": X, "y": y} | change
    with pytest.raises(ValueError, match=message):
        bridle.certify(**arguments)


def test_without_a_bias_mode_the_intercept_decides():
    X, y = data()
    w = np.ones(15)
    assert bridle.certify(w, X, y).primal == pytest.approx(primal(X, y, w, 0.0, 1.0))
    assert bridle.certify(w, X, y, b=2.0).primal == pytest.approx(primal(X, y, w, 2.0, 1.0))


def test_a_budget_still_gives_a_true_bound():
    X, y = data()
    found = bridle.certify(np.zeros(15), X, y, 1e4, max_seconds=0.0)
    assert found.dual <= found.primal == pytest.approx(400 * 1e4, rel=1e-14)
