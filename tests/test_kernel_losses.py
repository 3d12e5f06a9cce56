"""Kernel machines of every loss, and of one class: certificates in plain NumPy, others' optima."""

from __future__ import annotations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.problems.kernel import Expansion
from scipy.optimize import minimize
from sklearn import svm

from test_kernel import gram, make_data

import reference
from matrix import targets_of

BIASES = ("none", "regularised", "free")
LOSSES = [name for name in reference.LOSSES if name not in ("logistic", "perceptron", "one_class")]
STORAGES = [np.ascontiguousarray, sp.csr_matrix]


def made(loss, bias="free", *, n_rows=150, dtype=np.float64, storage=np.ascontiguousarray, C=2.0):
    X, y = make_data(n_rows, dtype=dtype)
    t = targets_of(X.astype(np.float64)) if loss in reference.RESIDUAL else y
    weight = np.random.default_rng(3).integers(0, 4, size=n_rows)
    scale = 1.5 if bias == "regularised" else 1.0
    problem = bridle.KernelProblem(
        storage(X), t, C, loss=loss, gamma=0.4, bias=bias, bias_scale=scale, sample_weight=weight
    )
    return problem, t


def features(problem, scale=1e-13):
    """Rows whose inner products are the kernel values: then the problem is a linear one."""
    values, vectors = np.linalg.eigh(gram(problem.X, problem.kernel))
    return vectors * np.sqrt(np.maximum(values, scale))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("loss", LOSSES)
def test_certificates(loss, bias, dtype, storage):
    problem, t = made(loss, bias, dtype=dtype, storage=storage)
    found = bridle.solve(problem, "smo", stop=bridle.Gap(1e-7) | bridle.Seconds(60))
    assert found.converged, found.message
    Phi, c = features(problem), problem.cost
    how = {"loss": loss, "bias": bias, "bias_scale": problem.bias_scale}
    w = Phi.T @ found.w.coefficients
    primal = reference.primal(Phi, t, w, found.b, c, **how)
    dual = reference.dual(Phi, t, found.alpha, c, **how)
    reference.assert_feasible(t, found.alpha, c * (1 + 1e-15), loss=loss, bias=bias)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-8)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-8)
    assert problem.primal(found.w, found.b) == pytest.approx(primal, rel=1e-8)
    assert problem.dual(found.alpha) == pytest.approx(dual, rel=1e-8)
    assert (np.diff(found.trace["relative_gap"]) <= 0).all()


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("loss", LOSSES)
def test_weak_duality_on_random_points(loss, bias):
    problem, _ = made(loss, bias, n_rows=40)
    rng = np.random.default_rng(5)
    far = np.where(np.isfinite(problem.upper), problem.upper, 5.0)
    near = np.maximum(np.broadcast_to(problem.lower, far.shape), -5.0)
    for _ in range(20):
        alpha = near + rng.random(40) * (far - near)
        point = bridle.Iterate(0, 0.0, Expansion(rng.normal(size=40)), 0.0, alpha)
        judged = problem.judge(point)
        b = rng.normal() if bias != "none" else 0.0
        assert judged.dual <= problem.primal(Expansion(rng.normal(size=40)), b)
        assert judged.dual <= judged.primal
        assert problem.dual(judged.alpha) == pytest.approx(judged.dual, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_that_of_the_linear_problem_in_the_space_of_the_kernel(loss):
    problem, t = made(loss, "regularised", n_rows=60)
    linear = bridle.LinearProblem(
        features(problem), t, problem.C, loss=loss, bias="regularised",
        bias_scale=problem.bias_scale, sample_weight=problem.sample_weight,
    )  # fmt: skip
    peer = bridle.solve(linear, stop=bridle.Gap(1e-8)).certificate
    own = bridle.solve(problem, stop=bridle.Gap(1e-8)).certificate
    assert own.primal == pytest.approx(peer.primal, rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7])
def test_smo_finds_libsvms_regression(kernel, epsilon):
    X, _ = make_data(200)
    t = targets_of(X)
    problem = bridle.KernelProblem(
        X, t, 3.0, loss=bridle.EpsilonInsensitive(epsilon), kernel=kernel, coef0=1.0, bias="free"
    )
    found = bridle.solve(problem, stop=bridle.Gap(1e-9) | bridle.Seconds(60))
    peer = svm.SVR(C=3.0, kernel=kernel, coef0=1.0, epsilon=epsilon, tol=1e-8).fit(X, t)
    c = np.zeros(len(t))
    c[peer.support_] = peer.dual_coef_[0]
    theirs = problem.primal(Expansion(c), float(peer.intercept_[0]))  # to its own accuracy
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-5)
    assert found.certificate.primal <= theirs * (1 + 1e-8)
    assert found.certificate.dual == pytest.approx(problem.dual(c), rel=1e-6)


def test_what_kernel_machines_have_no_loss_for():
    X, y = make_data(30)
    with pytest.raises(ValueError, match="which the loss 'logistic' is not"):
        bridle.KernelProblem(X, y, loss="logistic")
    with pytest.raises(bridle.errors.DeviceError, match="no epsilon_insensitive loss"):
        bridle.KernelProblem(X, y, loss="epsilon_insensitive", device="cuda")
    problem = bridle.KernelProblem(X, y, loss="epsilon_insensitive")
    with pytest.raises(ValueError, match="cannot minimise the epsilon_insensitive loss"):
        bridle.solve(problem, "pegasos")


def one_class(nu=0.3, *, kernel="rbf", dtype=np.float64, storage=np.ascontiguousarray, n=150):
    X, _ = make_data(n, dtype=dtype)
    weight = np.random.default_rng(3).integers(0, 4, size=n) * 0.7
    return bridle.KernelProblem(
        storage(X), None, loss=bridle.OneClass(nu), bias="free", kernel=kernel, coef0=1.0,
        sample_weight=weight,
    )  # fmt: skip


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("nu", [0.01, 0.3, 0.9, 1.0])
def test_certificates_of_one_class(nu, dtype, storage):
    problem = one_class(nu, dtype=dtype, storage=storage)
    found = bridle.solve(problem, stop=bridle.Gap(1e-7) | bridle.Seconds(60))
    assert found.converged, found.message
    K, c = gram(problem.X, problem.kernel), problem.cost
    a, rho = found.w.coefficients, -found.b
    primal = a @ K @ a / 2 + c @ np.maximum(0, rho - K @ a) - nu * c.sum() * rho
    dual = -found.alpha @ K @ found.alpha / 2
    assert (found.alpha >= 0).all()
    assert (found.alpha <= c).all()
    assert found.alpha.sum() == pytest.approx(nu * c.sum(), rel=1e-12)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-9)
    assert dual <= primal < 0 or nu == 1.0
    rng = np.random.default_rng(0)
    for _ in range(10):
        w = Expansion(rng.normal(size=len(c)))
        assert dual <= problem.primal(w, rng.normal())
    outside = problem.sample_weight[problem.scores(found.w, found.b) < -1e-9].sum()
    assert outside <= nu * c.sum() * (1 + 1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_smo_finds_libsvms_one_class(kernel, nu):
    problem = one_class(nu, kernel=kernel)
    found = bridle.solve(problem, stop=bridle.Gap(1e-9) | bridle.Seconds(60))
    gamma = problem.kernel.gamma  # of all rows
    peer = svm.OneClassSVM(kernel=kernel, gamma=gamma, coef0=1.0, nu=nu, tol=1e-8)
    some = np.flatnonzero(problem.sample_weight > 0)  # LIBSVM numbers its rows without the others
    peer.fit(problem.X[some], sample_weight=problem.sample_weight[some])
    c = np.zeros(problem.n_rows)
    c[some[peer.support_]] = np.minimum(peer.dual_coef_[0], problem.cost[some[peer.support_]])
    assert found.certificate.dual == pytest.approx(problem.dual(c), rel=1e-6)
    theirs = problem.primal(Expansion(c), float(peer.intercept_[0]))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)


def test_one_class_is_the_optimum_of_a_quadratic_programme():
    problem = one_class(0.4, n=25)
    K, c = gram(problem.X, problem.kernel), problem.cost
    answer = minimize(
        lambda a: 0.5 * a @ K @ a, 0.4 * c, jac=lambda a: K @ a, bounds=[(0.0, top) for top in c],
        constraints={"type": "eq", "fun": lambda a: a.sum() - 0.4 * c.sum(), "jac": np.ones_like},
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    found = bridle.solve(problem, stop=bridle.Gap(1e-9))
    assert found.certificate.dual == pytest.approx(-answer.fun, rel=1e-6)


def test_one_class_refuses_what_is_no_share():
    X, _ = make_data(30)
    for nu in (0.0, 1.1, np.nan):
        with pytest.raises(ValueError, match="nu must be above 0"):
            bridle.KernelProblem(X, None, loss=bridle.OneClass(nu), bias="free")
