"""svmperf and ocas: their kernels against NumPy, their bounds, their iteration counts."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, Status, _core, solve
from bridle.data import make_corpus
from bridle.solvers.ocas import Ocas
from bridle.solvers.svmperf import SvmPerf
from hypothesis import given, settings
from hypothesis import strategies as st

import matrix
import reference


def line_value(k, p, e, cost, slope, curvature):
    return slope * k + 0.5 * curvature * k * k + cost @ np.maximum(0, 1 - p - k * e)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6), st.booleans())
def test_line_search_is_exact(n, seed, coarse):
    rng = np.random.default_rng(seed)
    p, e = rng.normal(size=n) * 2, rng.normal(size=n)
    if coarse:  # ties, zeros, margins of exactly 1
        p, e = np.round(p), np.round(e)
    cost = rng.choice([0.0, 0.3, 1.0], n)
    slope, curvature = rng.normal(), rng.random() + 0.01
    found = _core.steps.hinge_line_search(p, e, cost, slope, curvature)
    # The minimum is at 0, at a break, or where a piece's derivative vanishes.
    with np.errstate(divide="ignore", invalid="ignore"):
        breaks = (1 - p) / e
    breaks = np.sort(breaks[np.isfinite(breaks) & (breaks > 0)])
    ends = np.concatenate([[0.0], breaks, [breaks[-1] * 2 + 1 if len(breaks) else 1.0]])
    inner = [
        -(slope - cost[1 - p - mid * e > 0] @ e[1 - p - mid * e > 0]) / curvature
        for mid in (ends[:-1] + ends[1:]) / 2
    ]
    candidates = np.concatenate([ends, np.maximum(inner, 0.0)])
    best = min(line_value(k, p, e, cost, slope, curvature) for k in candidates)
    assert found >= 0
    assert line_value(found, p, e, cost, slope, curvature) <= best + 1e-10 * (1 + abs(best))


@pytest.mark.parametrize("storage", matrix.STORAGES)
@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_cut_kernel_equals_numpy(storage, bias):
    problem = matrix.small_problem(bias=bias, storage=storage)
    w = np.random.default_rng(1).normal(size=problem.n_features + 1)
    scores, g = np.empty(problem.n_rows), np.empty(problem.n_features + 1)
    active = np.empty(problem.n_rows, np.uint8)
    r = _core.steps.margin_cut(problem.rows.view, w, problem.signed_cost, scores, active, g, 2)
    constant = problem.bias_scale if bias == "regularised" else 0.0
    X = np.hstack([reference.dense(problem.X), np.full((problem.n_rows, 1), constant)])
    np.testing.assert_allclose(scores, X @ w, atol=1e-12)
    np.testing.assert_array_equal(active, problem.y * (X @ w) < 1)
    np.testing.assert_allclose(g, X.T @ (problem.signed_cost * active), atol=1e-12)
    assert r == pytest.approx(problem.cost @ active)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
def test_sum_bits_equals_numpy(n):
    rng = np.random.default_rng(n)
    active = rng.random((5, n)) < 0.5
    beta = rng.random(5) * (np.arange(5) != 2)
    out = np.empty(n)
    _core.steps.sum_bits(np.packbits(active, axis=1, bitorder="little"), beta, out, 2)
    np.testing.assert_allclose(out, beta @ active)


def iterates(solver, problem, n, start=None):
    generator = solver.iterates(problem, start=start, rng=_core.Rng(0))
    return [next(generator) for _ in range(n)]


@pytest.mark.parametrize("solver", [Ocas(), SvmPerf(), Ocas(idle=3), SvmPerf(idle=3)])
def test_bounds_move_one_way_and_the_estimate_is_the_gap(solver):
    problem = matrix.small_problem(C=2.0)
    points = iterates(solver, problem, 40)
    primal = np.array([problem.primal(point.w, point.b) for point in points])
    dual = np.array([problem.dual(point.alpha) for point in points])
    assert np.all(np.diff(primal) <= 1e-12 * primal[0])
    # The model is solved to a thousandth of the gap, so its value may dip by as much.
    assert np.all(np.diff(dual) >= -1e-3 * (primal - dual)[:-1] - 1e-12)
    estimates = [point.gap_estimate for point in points]
    true = (primal - np.maximum.accumulate(dual)) / primal
    np.testing.assert_allclose(estimates, true, atol=2e-3 * max(true[0], 1e-12) + 1e-9)


@pytest.mark.parametrize("name", ["ocas", "svmperf"])
def test_small_gap_on_small_data(name):
    problem = matrix.small_problem(C=2.0, bias="regularised")
    solution = solve(problem, name, stop=Gap(1e-9) | Epochs(2000))
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.certificate.source == "solver"
    best = solve(problem, "dcd", stop=Gap(1e-10) | Epochs(20000))
    assert solution.certificate.primal == pytest.approx(best.certificate.primal, rel=1e-8)


@pytest.mark.parametrize("name", ["ocas", "svmperf"])
def test_zero_gap_ends_by_itself(name):
    problem = matrix.small_problem()
    solution = solve(problem, name, stop=Gap(0.0) | Epochs(10**5))
    assert solution.status in (Status.STALLED, Status.CONVERGED)
    assert solution.certificate.relative_gap <= 1e-12


@pytest.mark.parametrize("bias", ["none", "free"])
@pytest.mark.parametrize("name", ["ocas", "svmperf"])
def test_a_warm_start_keeps_its_dual_value(name, bias):
    problem = matrix.small_problem(bias=bias, C=2.0)
    start = solve(problem, "dcd", stop=Gap(1e-4) | Epochs(1000))
    first = solve(problem, name, stop=Epochs(1), start=start)
    assert first.certificate.dual >= start.certificate.dual * (1 - 1e-9)
    assert first.certificate.relative_gap <= 1e-4


def test_ocas_needs_few_iterations():
    # The reference code takes 27 (C = 0.1) and 82 (C = 1) on text of 162,000 rows.
    X, y = make_corpus(5000, seed=0)
    for C, limit in ((0.1, 40), (1.0, 120)):
        solution = solve(LinearProblem(X, y, C), "ocas", stop=Gap(1e-3) | Epochs(limit))
        assert solution.status is Status.CONVERGED, solution.message


@pytest.mark.parametrize("solver", [Ocas(), SvmPerf()])
@pytest.mark.parametrize("C", [0.01, 2.0])
def test_cuts_of_a_free_bias_are_balanced(solver, C):
    problem = matrix.small_problem(bias="free", C=C)
    optimum = solve(problem, "dcd", stop=Gap(1e-7)).certificate
    iterates = solver.iterates(problem, rng=_core.Rng(0))
    lowest = np.inf
    for iterate in islice(iterates, 40):
        assert iterate.alpha @ problem.y == pytest.approx(0, abs=1e-9 * iterate.alpha.sum())
        assert np.all((iterate.alpha >= 0) & (iterate.alpha <= problem.upper))
        assert problem.dual(iterate.alpha) <= optimum.primal
        lowest = min(lowest, problem.judge(iterate).primal)
        assert lowest >= optimum.dual
        # The gap that it knows is the true one: the model's value is the dual value of alpha.
        gap = 1 - problem.dual(iterate.alpha) / lowest
        if isinstance(solver, Ocas):
            assert iterate.gap_estimate == pytest.approx(gap, rel=1e-6, abs=1e-9)
