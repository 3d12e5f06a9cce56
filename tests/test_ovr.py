"""One-versus-rest: each class is the problem it says, and budgets are for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, Seconds, Status, solve, solve_one_vs_rest
from scipy.sparse import csr_matrix


def data(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(150, 8))
    return X, (X @ rng.normal(size=(8, n_classes))).argmax(axis=1)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_each_class_is_solved_as_if_alone(n_threads: int, bias: str) -> None:
    X, codes = data(3)
    weights = np.linspace(0.5, 2, 150)
    options = {"bias": bias, "sample_weight": weights, "loss": "squared_hinge", "bias_scale": 2.0}
    found = solve_one_vs_rest(X, codes, 3, 0.3, n_threads=n_threads, seed=4, **options)
    for k, solution in enumerate(found.solutions):
        problem = LinearProblem(X, np.where(codes == k, 1, -1), 0.3, n_threads=1, **options)
        alone = solve(problem, seed=4)
        np.testing.assert_array_equal(solution.w, alone.w)
        np.testing.assert_array_equal(found.coef[k], alone.w)
        assert found.intercept[k] == alone.b
        assert solution.certificate == alone.certificate
    assert found.certificate.primal == pytest.approx(
        sum(s.certificate.primal for s in found.solutions)
    )
    assert found.certificate.relative_gap <= 1e-3
    assert found.status is Status.CONVERGED


def test_two_classes_are_one_problem() -> None:
    X, codes = data(2)
    found = solve_one_vs_rest(csr_matrix(X), codes, 2)
    assert found.coef.shape == (1, 8)
    assert np.mean((X @ found.coef[0] > 0) == (codes == 1)) > 0.9


def test_seconds_are_shared() -> None:
    X, codes = data(6)
    found = solve_one_vs_rest(
        X, codes, 6, solver="pegasos", stop=Gap(1e-14) | Seconds(0.6), n_threads=2
    )
    assert found.status is Status.BUDGET
    spent = [s.trace[-1].seconds_solver + s.trace[-1].seconds_certify for s in found.solutions]
    assert sum(spent) < 3.0  # two threads have 1.2 s; six budgets of 0.6 s would be 3.6 s
    assert all(s.epochs >= 1 for s in found.solutions)


def test_the_worst_part_is_the_status_of_the_whole() -> None:
    X, codes = data(3)
    found = solve_one_vs_rest(
        X, codes, 3, 10.0, stop=Gap(1e-3) | Epochs(10_000), watch=lambda k, record: k == 1
    )
    assert [s.status for s in found.solutions].count(Status.CONVERGED) == 2
    assert found.worst_index == 1
    assert found.status is Status.INTERRUPTED


def test_starts_are_used() -> None:
    X, codes = data(3)
    first = solve_one_vs_rest(X, codes, 3, stop=Gap(1e-4) | Epochs(10_000))
    again = solve_one_vs_rest(X, codes, 3, stop=Gap(1e-4) | Epochs(10_000), start=first.solutions)
    assert again.epochs < first.epochs


def test_errors_come_out_of_the_threads() -> None:
    X, codes = data(3)
    with pytest.raises(ValueError, match="C must be positive"):
        solve_one_vs_rest(X, codes, 3, -1.0)
    with pytest.raises(ValueError, match="at least two classes"):
        solve_one_vs_rest(X, codes, 1)
    with pytest.raises(ValueError, match="n_threads"):
        solve_one_vs_rest(X, codes, 3, n_threads=0)
    with pytest.raises(RuntimeError, match="from the watcher"):
        solve_one_vs_rest(X, codes, 3, watch=_fail)


def _fail(k: int, record: object) -> bool:
    raise RuntimeError("from the watcher")
