"""Kernel problems and their solvers: certificates recomputed in plain NumPy, optima of LIBSVM."""

from __future__ import annotations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle import _core
from bridle.objective.kernels import Kernel, kernel_from
from bridle.objective.kernels.rbf import Rbf
from bridle.problems.kernel import Expansion, IndefiniteKernelError
from bridle.rows.gram import expand, kernel_matrix
from sklearn import svm
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import pairwise_kernels

KERNELS = ("linear", "rbf", "poly", "sigmoid")
BIASES = ("none", "regularised", "free")


def make_data(n_rows=120, n_features=7, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.7)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_rows) > 0, 1.0, -1.0)
    return X.astype(dtype), y


def gram(X, kernel: Kernel):
    """Kernel values by scikit-learn, in float64."""
    X = X.toarray() if sp.issparse(X) else X
    return pairwise_kernels(X.astype(np.float64), metric=kernel.name, **kernel.parameters)


def recompute(problem, solution):
    """P and D of a solution over the problem's rows, in a few lines of NumPy."""
    K = problem.gram if problem.gram is not None else gram(problem.X, problem.kernel)
    K = np.asarray(K, dtype=np.float64)
    c, b = solution.w.coefficients, solution.b
    scores = K @ c + b
    penalty = c @ K @ c + (b**2 / problem.bias_scale**2 if problem.bias == "regularised" else 0)
    primal = penalty / 2 + problem.cost @ np.maximum(0, 1 - problem.y * scores)
    beta = solution.alpha * problem.y
    if problem.bias == "regularised":
        K = K + problem.bias_scale**2
    if problem.bias == "free":
        assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
    assert (solution.alpha >= 0).all()
    assert (solution.alpha <= problem.cost * (1 + 1e-12)).all()
    return primal, solution.alpha.sum() - beta @ K @ beta / 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_kernel_values(name, dtype, storage):
    A, _ = make_data(37, dtype=dtype)
    B, _ = make_data(83, seed=1, dtype=dtype)
    kernel = kernel_from(name, A, gamma=0.3, degree=3, coef0=0.5)
    expected = gram(np.vstack([A, B]), kernel)[:37, 37:]
    np.testing.assert_allclose(
        kernel_matrix(kernel, storage(A), storage(B)), expected, rtol=1e-13, atol=1e-13
    )
    np.testing.assert_allclose(
        kernel_matrix(kernel, storage(A), B), expected, rtol=1e-13, atol=1e-13
    )
    coefficients = np.random.default_rng(2).normal(size=83)
    np.testing.assert_allclose(
        expand(kernel, storage(A), storage(B), coefficients, 2), expected @ coefficients, rtol=1e-11
    )


def test_rbf_is_accurate_to_the_last_bits():
    x = np.linspace(0, 26, 4001)[:, None]
    kernel = Rbf(1.0)
    np.testing.assert_allclose(
        kernel_matrix(kernel, x, np.zeros((1, 1)))[:, 0], np.exp(-(x[:, 0] ** 2)), rtol=1e-13
    )


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_gamma_is_scikit_learns(storage):
    X, y = make_data()
    for gamma in ("scale", "auto", 0.7):
        ours = kernel_from("rbf", storage(X), gamma).gamma
        assert ours == pytest.approx(svm.SVC(gamma=gamma).fit(storage(X), y)._gamma)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.ascontiguousarray, sp.csr_matrix])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_smo_certificate(name, bias, storage, dtype):
    X, y = make_data(300, dtype=dtype)
    weight = np.random.default_rng(3).integers(0, 4, size=300)
    problem = bridle.KernelProblem(
        storage(X), y, 2.0, kernel=name, coef0=1.0, bias=bias, bias_scale=1.5, sample_weight=weight
    )
    found = bridle.solve(problem, "smo", stop=bridle.Gap(1e-6) | bridle.Seconds(20))
    primal, dual = recompute(problem, found)
    assert found.converged, found.message
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-9)
    assert problem.primal(found.w, found.b) == pytest.approx(primal, rel=1e-9)
    assert problem.dual(found.alpha) == pytest.approx(dual, rel=1e-9)
    assert (np.diff(found.trace["relative_gap"]) <= 0).all()


@pytest.mark.parametrize("C", [1.0, 10.0, 1e6])
@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_a_handful_of_rows_is_solved(n_rows, C):
    """Sets of so few rows hold none of the last one: a look at all rows must not leave any out."""
    X, y = np.array([[-1.0], [0.0], [1.0], [2.0]])[:n_rows], [1, -1, 1, 1][:n_rows]
    problem = bridle.KernelProblem(
        X, y, C, kernel="poly", degree=2, gamma=1.0, coef0=1.0, bias="free"
    )
    solution = bridle.solve(problem, "smo", stop=bridle.Gap(1e-9))
    assert solution.status is bridle.Status.CONVERGED
    peer = svm.SVC(C=C, kernel="poly", degree=2, gamma=1.0, coef0=1.0, tol=1e-9).fit(X, y)
    scores = gram(X, problem.kernel) @ solution.w.coefficients + solution.b
    np.testing.assert_allclose(scores, peer.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("working_set", [2, 5, 64])
def test_smo_finds_libsvms_optimum(name, working_set):
    X, y = make_data(200)
    problem = bridle.KernelProblem(X, y, 3.0, kernel=name, coef0=1.0, bias="free")
    found = bridle.solve(
        problem, bridle.Smo(working_set=working_set), stop=bridle.Gap(1e-8) | bridle.Seconds(20)
    )
    peer = svm.SVC(C=3.0, kernel=name, coef0=1.0, tol=1e-8).fit(X, y)
    c = np.zeros(len(y))
    c[peer.support_] = peer.dual_coef_[0]
    theirs = problem.primal(Expansion(c), float(peer.intercept_[0]))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_allclose(
        problem.decision(X, found.w, found.b), peer.decision_function(X), atol=2e-3
    )


def test_smo_on_digits_equals_libsvm():
    X, y = load_digits(return_X_y=True)
    y = np.where(y % 2 == 0, 1.0, -1.0)
    problem = bridle.KernelProblem(X, y, 1.0, bias="free")
    found = bridle.solve(problem, stop=bridle.Gap(1e-7))
    assert found.solver == "smo"
    peer = svm.SVC(tol=1e-6).fit(X, y)
    c = np.zeros(len(y))
    c[peer.support_] = peer.dual_coef_[0]
    theirs = problem.primal(Expansion(c), float(peer.intercept_[0]))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)


def test_weak_duality_on_random_points():
    X, y = make_data()
    rng = np.random.default_rng(5)
    problem = bridle.KernelProblem(X, y, 0.7, bias="regularised")
    for _ in range(20):
        w = Expansion(rng.normal(size=len(y)))
        assert problem.dual(rng.random(len(y)) * problem.cost) <= problem.primal(w, rng.normal())


def test_smo_same_bits_for_any_number_of_threads():
    X, y = make_data(900, 5)
    found = [
        bridle.solve(
            bridle.KernelProblem(X, y, 10.0, bias="free", n_threads=n), stop=bridle.Gap(1e-5)
        )
        for n in (1, 2, 3, 8, 16)
    ]
    for other in found[1:]:
        assert np.array_equal(found[0].alpha, other.alpha)


def smo_steps(problem, set_size, cache_bytes):
    """What the solver runs, from zero."""
    zeros = np.zeros(problem.n_rows)
    return _core.steps.smo(
        problem.core_kernel, problem.rows.view, problem.squared_norms, *problem.dual_form,
        problem.bias == "free", zeros, zeros, set_size, cache_bytes, 1,
    )  # fmt: skip


@pytest.mark.parametrize("bias", BIASES)
def test_scores_of_rows_left_out_follow_when_these_come_back(bias):
    problem = bridle.KernelProblem(*make_data(400, 5), 10.0, bias=bias)
    steps, alpha = smo_steps(problem, 16, 1 << 24), np.empty(400)
    left_out = []
    for _ in range(5):
        left_out.append(400 - steps.run(60).n_active)
        steps.unshrink()
        kept = steps.run(1).dual  # summed from the scores of all rows
        steps.coefficients(alpha)
        assert kept == pytest.approx(problem.dual(alpha * problem.y), rel=1e-8)
    assert max(left_out) > 200


@pytest.mark.parametrize("bias", BIASES)
def test_what_is_left_of_the_rows_again_and_again_is_enough(bias):
    problem = bridle.KernelProblem(*make_data(400, 5), 10.0, bias=bias)
    steps, active = smo_steps(problem, 16, 1 << 24), []
    for _ in range(1000):
        report = steps.run(20)
        active.append(report.n_active)
        if report.stuck:
            break
    assert len(set(active)) > 3
    best = bridle.solve(problem, stop=bridle.Gap(1e-8)).certificate.dual
    assert report.dual == pytest.approx(best, rel=1e-3)


def test_smo_keeps_its_cache_within_the_budget():
    X, y = make_data(800, 5)
    problem = bridle.KernelProblem(X, y, 100.0, bias="free")
    budget = 10 * 800 * 8
    kernel = smo_steps(problem, 64, budget)
    for _ in range(50):
        kernel.run(8)
    assert 0 < kernel.cache_peak_bytes <= budget
    tight = bridle.solve(problem, bridle.Smo(cache_mb=budget / 1e6), stop=bridle.Gap(1e-4))
    assert tight.converged
    with pytest.raises(ValueError, match="does not hold two kernel rows"):
        bridle.solve(problem, bridle.Smo(cache_mb=0.01))


def test_warm_start():
    X, y = make_data(300)
    problem = bridle.KernelProblem(X, y, 2.0, bias="free")
    first = bridle.solve(problem, stop=bridle.Gap(1e-4))
    second = bridle.solve(problem, stop=bridle.Gap(1e-4), start=first)
    assert second.converged
    assert second.steps < first.steps / 2


def test_precomputed_and_callable_equal_the_kernel():
    X, y = make_data(150)
    options = {"bias": "free", "C": 2.0}
    problem = bridle.KernelProblem(X, y, kernel="rbf", gamma=0.5, **options)
    K = gram(X, problem.kernel)
    reference = bridle.solve(problem, stop=bridle.Gap(1e-7))

    def function(A, B):
        return pairwise_kernels(A, B, metric="rbf", gamma=0.5)

    for other in (
        bridle.KernelProblem(K, y, kernel="precomputed", **options),
        bridle.KernelProblem(K.astype(np.float32), y, kernel="precomputed", **options),
        bridle.KernelProblem(X, y, kernel=function, **options),
    ):  # fmt: skip
        found = bridle.solve(other, stop=bridle.Gap(1e-7))
        assert found.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-6)


def test_a_matrix_that_is_no_kernel_is_reported():
    X, y = make_data(60)
    K = X @ X.T
    with pytest.raises(ValueError, match="square"):
        bridle.KernelProblem(K[:, :-1], y, kernel="precomputed")
    with pytest.raises(ValueError, match=r"symmetric: K\[3, 5\]"):
        bridle.KernelProblem(K + np.eye(60)[3][:, None] * np.eye(60)[5], y, kernel="precomputed")
    with pytest.raises(IndefiniteKernelError, match="eigenvalue -"):
        bridle.KernelProblem(K - 0.5 * np.eye(60), y, kernel="precomputed")
    with pytest.raises(ValueError, match="NaN"):
        bridle.KernelProblem(np.where(np.eye(60) > 0, np.nan, K), y, kernel="precomputed")


def test_an_indefinite_matrix_that_passes_the_door_is_found_out_on_the_way(monkeypatch):
    monkeypatch.setattr("bridle.problems.kernel.EXAMINED", 800)
    monkeypatch.setattr("bridle.problems.kernel.SAMPLED", 500)
    X, y = make_data(900)
    y[10:12] = 1.0, -1.0
    K = gram(X, Rbf(0.5))
    chosen = np.random.default_rng(0).choice(900, 500, replace=False)
    i, j = np.setdiff1d(np.arange(900), chosen)[:2]  # not among the rows looked at
    K[i, j] = K[j, i] = 3.0
    y[i], y[j] = 1.0, -1.0
    problem = bridle.KernelProblem(K, y, 100.0, kernel="precomputed", bias="free")
    with pytest.raises(IndefiniteKernelError, match="not positive semi-definite"):
        bridle.solve(problem, stop=bridle.Gap(1e-6) | bridle.Seconds(20))


def test_a_sigmoid_kernel_has_no_bound_and_says_so():
    X, y = make_data(200)
    problem = bridle.KernelProblem(X, y, kernel="sigmoid", gamma=2.0, coef0=-1.0, bias="free")
    assert problem.indefinite is not None
    found = bridle.solve(problem, stop=bridle.Gap(1e-3) | bridle.Seconds(5))
    assert not found.converged
    assert found.certificate.relative_gap == np.inf


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"C": 0}, "C must be"),
        ({"C": np.inf}, "C must be"),
        ({"kernel": "cubic"}, "kernel must be"),
        ({"gamma": "wide"}, "gamma must be"),
        ({"gamma": -1.0}, "gamma must not be"),
        ({"degree": -2}, "degree must be"),
        ({"bias": "maybe"}, "bias must be"),
        ({"sample_weight": -np.ones(120)}, "must not be negative"),
    ],
)
def test_bad_input_is_refused_at_the_door(options, match):
    X, y = make_data()
    with pytest.raises(ValueError, match=match):
        bridle.KernelProblem(X, y, **options)


def test_linear_solvers_refuse_kernel_problems():
    X, y = make_data()
    with pytest.raises(
        ValueError,
        match="dcd needs a linear problem with a loss for each row, which this KernelProblem",
    ):
        bridle.solve(bridle.KernelProblem(X, y), "dcd")
    with pytest.raises(ValueError, match="smo needs a Mercer kernel"):
        bridle.solve(bridle.LinearProblem(X, y), "smo")


def pegasos_twin(problem, order, batch, project):
    """Ten lines of NumPy: the same steps on the same order."""
    K = gram(problem.X, problem.kernel) + problem.constant
    weight, lam, radius = problem.sample_weight, problem.lam, np.sqrt(problem.cost.sum())
    c = np.zeros(problem.n_rows)
    for t, rows in enumerate(order.reshape(-1, batch), start=1):
        violators = rows[problem.y[rows] * (K[rows] @ c) < 1]
        c *= 1 - 1 / t
        np.add.at(c, violators, (weight * problem.y)[violators] / (lam * t * batch))
        norm = np.sqrt(c @ K @ c)
        if project and norm > radius:
            c *= radius / norm
    return c


@pytest.mark.parametrize("bias", ["none", "regularised"])
@pytest.mark.parametrize(("batch", "project"), [(1, False), (1, True), (5, True), (20, False)])
def test_kernel_pegasos_equals_its_twin(bias, batch, project):
    X, y = make_data(100)
    weight = np.random.default_rng(4).random(100) + 0.5
    problem = bridle.KernelProblem(X, y, 3.0, bias=bias, sample_weight=weight)
    solver = bridle.KernelPegasos(batch=batch, project=project)
    iterates = solver.iterates(problem, rng=_core.Rng(7))
    rng = _core.Rng(7)
    orders = [np.empty(100, np.int64) for _ in range(3)]
    for order in orders:
        # Each epoch shuffles the order that the last one left.
        shuffled = np.empty(100, np.int64)
        rng.permutation(shuffled)
        order[:] = shuffled
    first = next(iterates)
    expected = pegasos_twin(problem, orders[0], batch, project)
    np.testing.assert_allclose(first.w.coefficients, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["pegasos", "sgd", "norma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", BIASES)
def test_kernel_stochastic_certificates(name, dtype, bias):
    X, y = make_data(300, dtype=dtype)
    problem = bridle.KernelProblem(X, y, 0.5, bias=bias)
    found = bridle.solve(problem, name, stop=bridle.Gap(0.02) | bridle.Epochs(300))
    primal, dual = recompute(problem, found)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-6)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-6)
    assert found.solver == name
    if name != "norma":
        assert found.converged, found.message
    optimum = bridle.solve(problem, stop=bridle.Gap(1e-6)).certificate.primal
    assert found.certificate.dual <= optimum * (1 + 1e-6)


def test_kernel_stochastic_same_bits_for_any_number_of_threads():
    X, y = make_data(3000, 5)
    problems = [bridle.KernelProblem(X, y, 1.0, n_threads=n) for n in (1, 2)]
    found = [bridle.solve(p, "pegasos", stop=bridle.Epochs(2), seed=3) for p in problems]
    assert np.array_equal(found[0].w.coefficients, found[1].w.coefficients)


def test_norma_forgets():
    X, y = make_data(400)
    problem = bridle.KernelProblem(X, y, 1.0)
    found = bridle.solve(problem, bridle.KernelNorma(memory=150), stop=bridle.Epochs(3))
    assert 0 < len(found.w.support) <= 150 + 64


@pytest.mark.parametrize("maintenance", ["removal", "projection", "merging"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_budgeted_pegasos_keeps_its_budget(maintenance, storage):
    X, y = make_data(400, 4)
    problem = bridle.KernelProblem(storage(X), y, 0.5, gamma=0.3)
    solver = bridle.BudgetedPegasos(budget=25, maintenance=maintenance)
    found = bridle.solve(problem, solver, stop=bridle.Epochs(5))
    assert 0 < len(found.w.support) <= 25
    assert found.certificate.primal == pytest.approx(problem.primal(found.w, found.b), rel=1e-9)
    assert found.certificate.dual == pytest.approx(problem.dual(found.alpha), rel=1e-9)
    optimum = bridle.solve(problem, stop=bridle.Gap(1e-6)).certificate
    assert found.certificate.dual <= optimum.primal
    assert optimum.dual <= found.certificate.primal
    accuracy = (np.sign(problem.decision(storage(X), found.w)) == y).mean()
    assert accuracy > 0.6


def test_budgeted_pegasos_with_room_for_all_is_pegasos():
    X, y = make_data(90)
    problem = bridle.KernelProblem(X, y, 0.5)
    budgeted = bridle.solve(problem, bridle.BudgetedPegasos(budget=90), stop=bridle.Epochs(1))
    plain = bridle.solve(problem, "pegasos", stop=bridle.Epochs(1))
    np.testing.assert_allclose(budgeted.w.coefficients, plain.w.coefficients, rtol=1e-9)


def test_merged_kernel_values_are_those_of_the_merged_vectors():
    from bridle.solvers.budgeted_pegasos import _Run

    X, y = make_data(200, 3)
    problem = bridle.KernelProblem(X, y, 1.0, gamma=0.2)
    run = _Run(problem, 10, "merging")
    for begin in range(0, 192, 64):
        run.steps(np.arange(begin, begin + 64))
    exact = kernel_matrix(problem.kernel, run.centres[: run.size], run.centres[: run.size])
    np.testing.assert_allclose(run.K[: run.size, : run.size], exact, rtol=1e-9)
    with pytest.raises(ValueError, match="merging needs the rbf kernel"):
        bridle.solve(
            bridle.KernelProblem(X, y, kernel="linear"),
            bridle.BudgetedPegasos(maintenance="merging"),
        )
