"""newton and cg, and the augmented Lagrangian under both, against finite differences and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, Status, _core, solve
from bridle.solvers.newton import Newton, _hessian
from bridle.solvers.shared.lagrangian import AugmentedLagrangian, increasing_root, sampled

import matrix
import reference

SETTINGS = [
    (loss, bias) for loss in ("hinge", "squared_hinge") for bias in ("none", "regularised", "free")
]


def phi_value(phi, joined):
    """phi in NumPy, the bias eliminated on a fine grid and by ternary search."""
    problem = phi.problem
    constant = problem.bias_scale if problem.bias == "regularised" else 0.0
    X = np.hstack([reference.dense(problem.X), np.full((problem.n_rows, 1), constant)])
    used = phi.sigma > 0

    def at(b):
        p = problem.y * (X @ joined + b)
        a = np.clip(phi.alpha + phi.sigma * (1 - p), 0, phi.upper)
        penalty = (a - phi.alpha)[used] ** 2 / (2 * phi.sigma[used])
        return 0.5 * joined @ joined + a @ (1 - p) - penalty.sum()

    if problem.bias != "free":
        return at(0.0)
    low, high = -50.0, 50.0
    for _ in range(200):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, two) if at(one) < at(two) else (one, high)
    return at(0.5 * (low + high))


def at_random_point(loss, bias):
    problem = matrix.small_problem(loss, bias)
    rng = np.random.default_rng(3)
    phi = AugmentedLagrangian(problem, None)
    if not phi.exact:
        phi.alpha = rng.random(problem.n_rows) * problem.cost
    phi.w = rng.normal(size=problem.n_features + 1) * (1.0 if bias == "regularised" else 0.5)
    if bias != "regularised":
        phi.w[-1] = 0.0
    phi.margins = phi.times(phi.w)
    phi.update()
    return phi


@pytest.mark.parametrize(("loss", "bias"), SETTINGS)
def test_gradient_by_finite_differences(loss, bias):
    phi = at_random_point(loss, bias)
    for k in range(phi.problem.n_features):
        h = 1e-5 * np.eye(len(phi.w))[k]
        numeric = (phi_value(phi, phi.w + h) - phi_value(phi, phi.w - h)) / 2e-5
        assert phi.gradient[k] == pytest.approx(numeric, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(("loss", "bias"), SETTINGS)
def test_hessian_by_finite_differences(loss, bias):
    phi = at_random_point(loss, bias)
    H = np.tril(_hessian(phi))
    H = H + np.tril(H, -1).T
    w, margins = phi.w, phi.margins
    for k in range(phi.problem.n_features):
        h = 1e-7 * np.eye(len(w))[k]
        gradients = []
        for sign in (1, -1):
            phi.w = w + sign * h
            phi.margins = phi.times(phi.w)
            phi.update()
            gradients.append(phi.gradient)
        phi.w, phi.margins = w, margins
        numeric = (gradients[0] - gradients[1]) / 2e-7
        np.testing.assert_allclose(H[:, k], numeric, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("loss", "bias"), SETTINGS)
def test_the_two_parts_are_the_gap(loss, bias):
    phi = at_random_point(loss, bias)
    problem = phi.problem
    w, b = problem.split(phi.w, phi.b)
    cost = problem.cost
    setting = {"loss": loss, "bias": bias, "bias_scale": problem.bias_scale}
    primal = reference.primal(problem.X, problem.y, w, b, cost, **setting)
    dual = reference.dual(problem.X, problem.y, phi.a, cost, **setting)
    assert phi.primal == pytest.approx(primal)
    assert phi.inexact + phi.smoothing == pytest.approx(primal - dual)


@pytest.mark.parametrize("storage", matrix.STORAGES)
@pytest.mark.parametrize("dtype", matrix.DTYPES)
def test_gram_kernel_equals_numpy(dtype, storage):
    problem = matrix.small_problem(bias="regularised", dtype=dtype, storage=storage)
    weights = np.random.default_rng(0).random(problem.n_rows) * (np.arange(problem.n_rows) % 3 > 0)
    X = reference.dense(problem.X)
    X = np.hstack([X, np.full((len(X), 1), problem.bias_scale)])
    expected = np.tril(X.T @ (weights[:, np.newaxis] * X))
    np.testing.assert_allclose(np.tril(problem.rows.weighted_gram(weights)), expected, atol=1e-12)


def test_gram_does_not_depend_on_threads():
    X, y = matrix.small_data(n_rows=5000, storage="csr-32")
    weights = np.random.default_rng(0).random(5000)

    def gram(n_threads):
        return LinearProblem(X, y, n_threads=n_threads).rows.weighted_gram(weights).tobytes()

    assert gram(1) == gram(3)


def test_root_of_a_piecewise_linear_function():
    rng = np.random.default_rng(0)
    for _ in range(200):
        kinks, rises = 10.0 ** rng.uniform(-8, 8, 20), rng.random(20)
        start = -rng.random() * 10

        def slope(t, kinks=kinks, rises=rises, start=start):
            over = t > kinks
            return start + t * 1e-6 + rises @ np.minimum(t / kinks, 1), 1e-6 + (
                (rises / kinks)[~over].sum()
            )

        t = increasing_root(slope, 1.0, 1e-9)
        assert abs(slope(t)[0]) <= 1e-9


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_newton_is_robust_in_C_and_weights(bias, C):
    X, y = matrix.small_data(n_rows=400, n_features=8)
    weights = np.where(y > 0, 1000.0, 1.0)
    problem = LinearProblem(X, y, C, bias=bias, sample_weight=weights)
    solution = solve(problem, "newton", stop=Gap(1e-7) | Epochs(300))
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.certificate.source == "solver"


@pytest.mark.parametrize("bias", ["none", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_without_forming_the_hessian(loss, bias):
    problem = matrix.small_problem(loss, bias, C=5.0)
    direct = solve(problem, Newton(), stop=Gap(1e-8) | Epochs(300))
    iterative = solve(problem, Newton(dense_limit=1), stop=Gap(1e-8) | Epochs(300))
    assert direct.converged
    assert iterative.converged
    assert direct.certificate.primal == pytest.approx(iterative.certificate.primal, rel=1e-7)


def test_newton_beats_dcd_where_it_is_meant_to():
    # Low dimension, large C: few steps, where coordinate descent needs thousands of passes.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 10))
    y = np.where(X @ rng.normal(size=10) + 2 * rng.normal(size=3000) > 0, 1.0, -1.0)
    solution = solve(LinearProblem(X, y, 100.0), "newton", stop=Gap(1e-6) | Epochs(100))
    assert solution.status is Status.CONVERGED, solution.message


@pytest.mark.parametrize("name", ["newton", "cg"])
@pytest.mark.parametrize("bias", ["none", "free"])
def test_one_class_of_no_weight(name, bias):
    X, y = matrix.small_data()
    problem = LinearProblem(X, y, bias=bias, sample_weight=(y > 0).astype(float))
    solution = solve(problem, name, stop=Gap(1e-6) | Epochs(200))
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.b)
    assert solution.certificate.relative_gap <= 1e-6


def test_sizes_are_checked():
    one, two = np.ones(1), np.ones(2)
    with pytest.raises(ValueError, match="sigma has 1 entries, expected 2"):
        _core.steps.clipped_sum(two, two, 0.0, two, one, two, two, 1)
    problem = matrix.small_problem()
    with pytest.raises(ValueError, match="out has 3 entries"):
        _core.rows.weighted_gram(problem.rows.view, np.ones(problem.n_rows), np.zeros((3, 3)), 1)


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "huber"])
def test_a_smooth_loss_begins_on_a_sample(loss, bias):
    """Fewer steps on all rows, and the same optimum, weights of 0 and one rare class included."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    signs = np.where(X[:, 0] + 0.2 * rng.normal(size=5000) > 0, 1.0, -1.0)
    labels = X[:, 0] + rng.standard_t(3, size=5000) if loss == "huber" else signs
    weight = rng.choice([0.0, 1.0, 2.0], 5000)
    problem = LinearProblem(X, labels, 10.0, loss=loss, bias=bias, sample_weight=weight)
    assert sampled(problem)
    found = solve(problem, "newton", stop=Gap(1e-10) | Epochs(50))
    assert found.converged
    afresh = solve(problem, "newton", stop=Gap(1e-10) | Epochs(50), start=problem.origin())
    assert found.epochs < afresh.epochs or loss == "huber"  # whose steps are few
    assert afresh.certificate.primal == pytest.approx(found.certificate.primal, rel=1e-9)
    assert not sampled(problem.sample(600))


@pytest.mark.parametrize("bounded", [True, False])
def test_duals_of_a_point_equal_numpys(bounded):
    rng = np.random.default_rng(0)
    n = 70_000  # more than one part of the sum
    p, alpha, sigma = rng.normal(size=n), rng.random(n), rng.random(n)
    upper = rng.random(n) if bounded else np.full(n, np.inf)
    u = alpha + sigma * (1 - p)
    expected = np.clip(u, 0.0, upper)
    loss = float(upper @ np.maximum(1 - p, 0.0)) if bounded else 0.0
    found = set()
    for n_threads in (1, 2, 3, 16):
        a, weights = np.empty(n), np.empty(n)
        sums = _core.steps.clipped_duals(p, alpha, sigma, upper, a, weights, n_threads)
        np.testing.assert_allclose(a, expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_array_equal(weights, np.where((u > 0) & (u < upper), sigma, 0.0))
        found.add(sums)
    ((slack, above),) = found  # whatever the threads
    assert slack == pytest.approx(expected @ (1 - p), rel=1e-12)
    assert above == pytest.approx(loss - slack if bounded else 0.0, rel=1e-10)
