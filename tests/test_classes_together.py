"""All classes against the rest at once: each is what it would be alone, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, LinearSVC, Status, _core, solve_one_vs_rest
from bridle.rows.memory import MemoryRows
from bridle.solvers.shared.class_descents import ClassDescents
from scipy.sparse import csr_matrix
from scipy.sparse import random as sparse_random

STORAGE = {"dense": np.asarray, "csr": csr_matrix}
THREADS = (1, 2, 3, 8, 16)
K = 21  # more than fit a cache line of float32


def data(m: int = 400, d: int = 30, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.4)
    codes = (X @ rng.normal(size=(d, K)) + rng.normal(size=(m, K))).argmax(axis=1)
    return X.astype(dtype), codes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_certificates_hold(loss, bias, storage, dtype):
    X, codes = data(dtype=dtype)
    weights = np.linspace(0.5, 2.0, len(codes)) * (np.arange(len(codes)) % 10 > 0)
    found = solve_one_vs_rest(
        STORAGE[storage](X), codes, K, 0.3, loss=loss, bias=bias, solver="dcd",
        sample_weight=weights, stop=Gap(1e-3) | Epochs(5000),
    )  # fmt: skip
    for k, solution in enumerate(found.solutions):
        assert solution.status is Status.CONVERGED
        assert solution.certificate.relative_gap <= 1e-3
        y, cost = np.where(codes == k, 1.0, -1.0), 0.3 * weights
        exact = X.astype(np.float64)
        problem = LinearProblem(exact, y, 0.3, loss=loss, bias=bias, sample_weight=weights)
        assert problem.primal(solution.w, solution.b) == pytest.approx(solution.certificate.primal)
        assert problem.dual(solution.alpha) == pytest.approx(solution.certificate.dual, rel=1e-6)
        assert (solution.alpha[cost == 0] == 0).all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias_precision", [np.inf, 1.0, 0.0])
def test_a_class_takes_the_steps_that_it_would_take_alone(loss, bias_precision):
    X, codes = data()
    bias = {np.inf: "none", 1.0: "regularised", 0.0: "free"}[bias_precision]
    signs = [np.where(codes == k, 1, -1) for k in range(K)]
    problem = LinearProblem(csr_matrix(X), signs[0], 0.3, loss=loss, bias=bias)
    together = _core.steps.class_descents(
        problem.rows.view, loss, problem.cost, codes, problem.squared_norms, K, bias_precision, 2
    )
    assert together.visit(_core.Rng(5), 16, 1.0)  # the first epoch, in which nobody is left out
    own, its = np.empty(len(X)), np.empty(len(X))
    for k in range(K):
        signed_cost = signs[k] * problem.cost
        alone = _core.steps.dual_coordinate_descent(
            problem.rows.view, loss, signed_cost, problem.squared_norms, np.zeros(len(X)), 0.0,
            bias_precision, 1, 1,
        )  # fmt: skip
        alone.visit(_core.Rng(5), 16, 1.0)
        alone.alpha(own)
        together.alpha(k, its)
        np.testing.assert_allclose(its, own, rtol=1e-9, atol=1e-12)
        assert together.bias(k) == pytest.approx(alone.bias, rel=1e-9)
        # Whoever leaves takes up where it is.
        left = together.alone(k)
        left.alpha(own)
        np.testing.assert_array_equal(own, its)
        assert left.bias == together.bias(k)
        assert left.n_active == together.report(k).active


@pytest.mark.parametrize("drawn", [ClassDescents.DRAWN, 80])
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_threads(dtype, storage, drawn, monkeypatch):
    """By which classes stand in groups of other widths, too."""
    monkeypatch.setattr(ClassDescents, "DRAWN", drawn)
    X, codes = data(dtype=dtype)
    found = [
        solve_one_vs_rest(
            STORAGE[storage](X), codes, K, 1.0, bias="regularised", solver="dcd", n_threads=n,
            stop=Gap(1e-4) | Epochs(5000),
        )
        for n in THREADS
    ]  # fmt: skip
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef, found[0].coef)
        np.testing.assert_array_equal(other.intercept, found[0].intercept)
        for mine, theirs in zip(found[0].solutions, other.solutions, strict=True):
            assert mine.certificate == theirs.certificate
            np.testing.assert_array_equal(mine.alpha, theirs.alpha)


def many_features() -> tuple[csr_matrix, np.ndarray]:
    """So many that auto does not think of newton: what a text is like."""
    rng = np.random.default_rng(1)
    X = csr_matrix(sparse_random(3000, 2500, 0.01, dtype=np.float32, random_state=rng))
    codes = np.asarray(X @ rng.normal(size=(2500, 5))).argmax(axis=1)
    return X, codes


def test_auto_and_every_class_is_seen(monkeypatch):
    made = []
    make = ClassDescents.__init__

    def noted(self, *arguments):
        made.append(arguments)
        make(self, *arguments)

    monkeypatch.setattr(ClassDescents, "__init__", noted)
    X, codes = many_features()
    model = LinearSVC(n_threads=2).fit(X, codes)
    assert len(made) == 1
    assert model.certificate_.relative_gap <= 1e-3
    assert [c.relative_gap <= 1e-3 for c in model.certificates_] == [True] * 5
    assert model.score(X, codes) == np.mean(model.predict(X) == codes) > 0.9
    alone = LinearSVC(solver="dcd", n_threads=1).fit(X, codes == 2)
    low = max(alone.certificate_.dual, model.certificates_[2].dual)
    assert model.certificates_[2].primal <= low * (1 + 2e-3)


def test_a_watcher_ends_one_class_and_budgets_end_all():
    X, codes = many_features()
    ended = solve_one_vs_rest(X, codes, 5, watch=lambda k, record: k == 3)
    assert [s.status for s in ended.solutions].count(Status.INTERRUPTED) == 1
    assert ended.worst_index == 3
    short = solve_one_vs_rest(X, codes, 5, stop=Gap(1e-12) | Epochs(2))
    assert short.status is Status.BUDGET
    assert all(s.epochs >= 2 and s.certificate.gap > 0 for s in short.solutions)


def test_several_looks_in_one_pass():
    X, _ = data(dtype=np.float32)
    rng = np.random.default_rng(2)
    for stored in (X, csr_matrix(X)):
        rows = MemoryRows(stored, 2.0, 2)
        a, w = rng.normal(size=(11, len(X))), rng.normal(size=(11, X.shape[1] + 1))
        a[3], a[:, 7] = 0.0, 0.0
        combined, scores = rows.combine_and_score_all(a, w)
        full = np.hstack([X.astype(np.float64), np.full((len(X), 1), 2.0)])
        np.testing.assert_allclose(scores, w @ full.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(combined, a @ full, rtol=1e-12, atol=1e-12)
