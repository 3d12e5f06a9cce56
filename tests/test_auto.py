"""auto starts with dcd and goes on with newton where dcd crawls."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import DualCoordinateDescent, Epochs, Gap, LinearProblem, Status, solve
from bridle.data import make_corpus
from scipy.sparse import csr_matrix


def low_dimensional(C, bias="none"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 32)) * np.linspace(0.1, 1.0, 32)
    y = np.where(X @ rng.normal(size=32) + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    return LinearProblem(X, y, C, bias=bias)


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_newton_takes_over_where_dcd_crawls(bias):
    problem = low_dimensional(100.0, bias)
    stop = Gap(1e-5) | Epochs(100)
    assert solve(problem, "dcd", stop=stop).status is Status.BUDGET
    solution = solve(problem, "auto", stop=stop)
    assert solution.status is Status.CONVERGED
    # Epochs and steps are counted on, not anew.
    assert np.all(np.diff(solution.trace["epoch"]) > 0)
    assert solution.steps >= 8 * problem.n_rows
    assert solution.solver == "auto (newton)"


def test_dcd_goes_on_where_it_is_fast():
    easy, text = low_dimensional(0.01), LinearProblem(*make_corpus(2000), 1.0)
    for problem in (easy, text):
        ours, dcd = solve(problem, "auto"), solve(problem, "dcd")
        assert ours.w.tobytes() == dcd.w.tobytes()
        assert (ours.solver, dcd.solver) == ("auto (dcd)", "dcd")


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared"])
def test_newton_is_first_where_the_loss_is_smooth_and_features_are_few(loss):
    easy, text = low_dimensional(0.1), LinearProblem(*make_corpus(2000), 1.0, loss=loss)
    found = solve(LinearProblem(easy.X, easy.y, 0.1, loss=loss))
    assert found.solver == "auto (newton)"
    assert found.steps < 8  # none of dcd's, which count rows
    assert solve(text).solver == "auto (dcd)"


def test_rows_without_any_entry():
    X = csr_matrix((400_000, 3))
    y = np.where(np.arange(X.shape[0]) % 3 == 0, 1.0, -1.0)
    assert solve(LinearProblem(X, y, bias="free")).status is Status.CONVERGED


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_features_that_nobody_has_scaled(loss, scale):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = scale * rng.standard_normal((25, 4)), np.where(rng.random(25) < 0.5, 1.0, -1.0)
        solution = solve(LinearProblem(X, y, 100.0, loss=loss, bias="regularised"))
        assert solution.status is Status.CONVERGED


def not_centred(C, loss="hinge"):
    """Rows with much in common: those of few features that are all positive."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 32))
    y = np.where((X - 0.5) @ rng.normal(size=32) + rng.normal(size=len(X)) > 0, 1.0, -1.0)
    return LinearProblem(X, y, C, loss=loss)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_newton_begins_where_dcd_is_sure_to_crawl(loss):
    solution = solve(not_centred(10.0, loss), "auto")
    assert solution.converged
    assert solution.solver == "auto (newton)"
    assert solution.steps < 100  # of newton; dcd counts rows


def test_dcd_begins_on_the_same_rows_where_costs_are_small():
    assert solve(not_centred(0.01)).solver == "auto (dcd)"


def test_few_neighbours_stay_together_where_rows_have_much_in_common():
    alike, text = not_centred(0.01), LinearProblem(*make_corpus(2000), 1.0)
    for problem, bucket in ((alike, 4), (text, 32)):
        found = [solve(problem, DualCoordinateDescent(bucket=n)).w for n in (None, bucket)]
        assert found[0].tobytes() == found[1].tobytes()
    assert alike.rows.overlap > 0.5
    assert text.rows.overlap < 0.1
