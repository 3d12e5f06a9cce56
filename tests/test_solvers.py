"""One matrix for all linear solvers: what each promises, checked in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Epochs, Gap, Status, Steps, solve
from bridle.objective.losses import LOSSES
from bridle.solvers import DualCoordinateDescent, solver_class

import matrix
import reference

CELLS = matrix.cells()


def recompute(problem, solution):
    """(P, D) of a solution by NumPy alone."""
    setting = {"loss": problem.loss.name, "bias": problem.bias, "bias_scale": problem.bias_scale}
    cost, y = problem.C * problem.sample_weight, problem.sides.labels
    reference.assert_feasible(y, solution.alpha, cost, loss=problem.loss.name, bias=problem.bias)
    primal = reference.primal(problem.X, y, solution.w, solution.b, cost, **setting)
    return primal, reference.dual(problem.X, y, solution.alpha, cost, **setting)


def test_every_linear_solver_is_in_the_matrix():
    assert set(matrix.SOLVERS) == set(matrix.linear_names())


def test_every_loss_is_in_the_matrix():
    assert set(matrix.LOSSES) == set(LOSSES)


@pytest.mark.parametrize(("name", "loss", "bias", "dtype", "storage"), matrix.stored(CELLS))
def test_gap_at_exit(name, loss, bias, dtype, storage):
    problem = matrix.small_problem(loss, bias, dtype, storage)
    solution = matrix.run(name, problem)
    primal, dual = recompute(problem, solution)
    certificate = solution.certificate
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    assert certificate.dual == pytest.approx(min(dual, primal), rel=1e-9, abs=1e-9 * abs(primal))
    gaps = solution.trace["relative_gap"]
    assert np.all(np.diff(gaps) <= 1e-15)
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.b)
    # The perceptron's loss has its optimum P = 0 at w = 0: there is nothing to be relative to.
    if solver_class(name).converges and loss != "perceptron":
        assert solution.status is Status.CONVERGED, solution.message
        size = max(abs(primal), abs(dual))
        assert (primal - dual) / size <= matrix.SOLVERS[name].gap * (1 + 1e-6)


@pytest.mark.parametrize(("name", "loss", "bias"), matrix.refused())
def test_what_it_cannot_do_is_said(name, loss, bias):
    problem = matrix.small_problem(loss, bias)
    said = f"^{name} cannot (have bias='{bias}'|minimise the {loss} loss)"
    with pytest.raises(ValueError, match=said):
        solve(problem, name)


@pytest.mark.parametrize("name", matrix.linear_names())
def test_same_seed_same_bits_for_any_number_of_threads(name):
    def weights(n_threads, seed):
        problem = matrix.small_problem(storage="csr-32", n_threads=n_threads)
        solution = matrix.run(name, problem, stop=Epochs(5), seed=seed)
        return solution.w.tobytes(), solution.alpha.tobytes()

    assert weights(1, 7) == weights(1, 7)
    assert weights(1, 7) == weights(3, 7)


@pytest.mark.parametrize("name", matrix.linear_names())
def test_warm_start_from_the_optimum_stays_there(name):
    problem = matrix.small_problem(storage="csr-32")
    optimum = solve(problem, "dcd", stop=Gap(1e-9))
    again = matrix.run(name, problem, start=optimum, stop=Epochs(3))
    if solver_class(name).converges:
        assert again.certificate.primal <= 1.5 * optimum.certificate.primal


@pytest.mark.parametrize("scale", [1e-4, 1e6])
@pytest.mark.parametrize("C", [1e-4, 1e4])
@pytest.mark.parametrize("name", matrix.linear_names())
def test_badly_scaled_data_gives_finite_numbers(name, C, scale):
    X, y = matrix.small_data(dtype="float32", storage="csr-32")
    X = X.copy()
    X.data[X.indices < 3] *= np.float32(scale)
    problem = matrix.LinearProblem(X, y, C)
    solution = matrix.run(name, problem, stop=Gap(1e-3) | Epochs(20))
    assert np.isfinite(solution.w).all()
    assert np.isfinite(solution.certificate.primal)
    assert np.isfinite(solution.certificate.dual)


@pytest.mark.parametrize("name", matrix.linear_names())
def test_any_stopping_rule(name):
    problem = matrix.small_problem()
    by_steps = matrix.run(name, problem, stop=Steps(50))
    # A solver may be done, to rounding, before that.
    assert by_steps.steps >= 50 or by_steps.status is Status.STALLED
    assert by_steps.status in (Status.BUDGET, Status.STALLED)
    assert "certified gap" in by_steps.message


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_blocks_of_dcd_converge_to_the_same_bits_for_any_number_of_threads(loss, bias):
    def solution(n_threads, blocks):
        problem = matrix.small_problem(
            loss, bias, "float32", "csr-32", n_rows=40_000, n_features=60, n_threads=n_threads,
            C=0.05,
        )  # fmt: skip
        return solve(problem, DualCoordinateDescent(blocks=blocks), stop=Gap(1e-4) | Epochs(300))

    one, three, classic = solution(1, 3), solution(2, 3), solution(1, 1)
    assert one.status is Status.CONVERGED, one.message
    assert one.w.tobytes() == three.w.tobytes()
    assert one.alpha.tobytes() == three.alpha.tobytes()
    assert one.w.tobytes() != classic.w.tobytes()  # or there were no blocks
    assert one.certificate.primal == pytest.approx(classic.certificate.primal, rel=2e-4)
