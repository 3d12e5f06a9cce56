"""Weak duality, exact values, and a clear error for everything that is not a problem."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import C_to_lam, Iterate, LinearProblem, lam_to_C
from bridle.objective.losses import Hinge, SquaredHinge
from hypothesis import given, settings
from hypothesis import strategies as st

import matrix
import reference

PROBLEMS = [
    (loss, bias, dtype, storage)
    for loss in ("hinge", "squared_hinge")
    for bias in matrix.BIASES
    for dtype in matrix.DTYPES
    for storage in matrix.STORAGES
] + [
    (loss, bias, "float32", "csr-32")
    for loss in matrix.LOSSES
    if loss not in matrix.BROADLY
    for bias in matrix.biases_of(loss)
]


@pytest.mark.parametrize(("loss", "bias", "dtype", "storage"), PROBLEMS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_weak_duality_and_values(loss, bias, dtype, storage, seed, scale):
    problem = matrix.small_problem(loss, bias, dtype, storage)
    rng = np.random.default_rng(seed)
    w = scale * rng.normal(size=problem.n_features)
    b = 0.0 if bias == "none" else scale * rng.normal()
    raw = rng.exponential(scale, problem.n_rows) * rng.choice([-1, 0, 1], problem.n_rows)
    alpha = problem.feasible(Iterate(0, 0, w, b, raw))
    setting = {"loss": loss, "bias": bias, "bias_scale": problem.bias_scale}
    y = problem.sides.labels
    P = reference.primal(problem.X, y, w, b, problem.cost, **setting)
    D = reference.dual(problem.X, y, alpha, problem.cost, **setting)
    reference.assert_feasible(y, alpha, problem.cost, loss=loss, bias=bias)
    assert problem.primal(w, b) == pytest.approx(P, rel=1e-10)
    assert problem.dual(alpha) == pytest.approx(D, rel=1e-9, abs=1e-9)
    slack = 1e-12 * abs(P)
    assert P + slack >= D
    judged = problem.judge(Iterate(0, 0, w, b, raw))
    assert judged.primal <= P + slack  # with a free bias, the best b
    best = D if loss in reference.NU else max(D, 0.0)
    assert judged.dual == pytest.approx(best, rel=1e-9, abs=1e-9)


@settings(max_examples=200, deadline=None)
@given(p=st.floats(-5, 5), cost=st.floats(0.01, 10), share=st.floats(0, 1))
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_fenchel_young(loss, p, cost, share):
    """C loss(p) >= dual_value(alpha) - alpha p, with equality at alpha = C slope(p)."""
    p_, c_ = np.array([p]), np.array([cost])
    alpha = share * (c_ if loss.name == "hinge" else 10 * c_)
    loss_value = cost * loss.value(p_)[0]
    assert loss_value >= loss.dual_value(alpha, c_) - alpha[0] * p - 1e-9
    tight = c_ * loss.slope(p_)
    assert loss_value == pytest.approx(loss.dual_value(tight, c_) - tight[0] * p, abs=1e-9)


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 30))
def test_best_bias_against_a_fine_grid(loss, seed, n):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1, -1
    scores, cost = np.round(rng.normal(size=n), 1), rng.choice([0.0, 1.0, 2.0], n)
    b = loss.best_bias(scores, y, cost)

    def objective(b):
        return float(cost @ loss.value(y * (scores + b)))

    candidates = np.concatenate([y - scores, np.linspace(-5, 5, 2001)])
    assert objective(b) <= min(map(objective, candidates)) + 1e-9


def test_the_matrix_is_not_copied():
    for storage in matrix.STORAGES:
        X, y = matrix.small_data(storage=storage, dtype="float32")
        problem = LinearProblem(X, y)
        values = problem.X if storage == "dense" else problem.X.data
        assert np.shares_memory(values, X if storage == "dense" else X.data)


def test_unsorted_and_duplicate_columns_mean_what_scipy_says():
    X = sp.csr_matrix(
        (np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    before = X.data.copy()
    problem = LinearProblem(X, [1, -1], 1.0)
    assert np.array_equal(X.data, before)
    assert problem.squared_norms == pytest.approx([5.0, 49.0])


def test_lam_and_C():
    assert C_to_lam(lam_to_C(1e-4, 1000), 1000) == pytest.approx(1e-4)
    X, y = matrix.small_data()
    assert LinearProblem(X, y, lam_to_C(0.01, len(y))).lam == pytest.approx(0.01)


def test_dual_of_an_infeasible_point():
    problem = matrix.small_problem(weighted=False)
    assert problem.dual(np.full(problem.n_rows, 2 * problem.C)) == -np.inf
    free = matrix.small_problem(bias="free", weighted=False)
    assert free.dual(np.where(free.y > 0, free.C, 0.0)) == -np.inf


X2 = np.array([[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1.0, np.nan], [0, 1]], [1, -1], {}, "NaN or infinity: row 0, column 1"),
        ([[1.0, 0], [np.inf, 1]], [1, -1], {}, "NaN or infinity: row 1, column 0"),
        (X2, [1, 1], {}, "two labels"),
        (X2, [1, 2], {}, "two labels"),
        (X2, [1, np.nan], {}, "two labels"),
        (X2, [1, -1, 1], {}, "one label for each of the 2 rows"),
        (X2, [1, -1], {"C": 0}, "C must be positive"),
        (X2, [1, -1], {"C": -1}, "C must be positive"),
        (X2, [1, -1], {"C": np.nan}, "C must be positive"),
        (X2, [1, -1], {"bias": "maybe"}, "bias must be one of"),
        (X2, [1, -1], {"bias_scale": 0}, "bias_scale must lie between"),
        (X2, [1, -1], {"loss": "log"}, "unknown loss 'log'"),
        (X2, [1, -1], {"sample_weight": [1, -1]}, "must not be negative"),
        (X2, [1, -1], {"sample_weight": [0, 0]}, "zero everywhere"),
        (X2, [1, -1], {"sample_weight": [1]}, "shape"),
        (X2, [1, -1], {"n_threads": 0}, "n_threads must be at least 1"),
        (np.zeros((0, 2)), [], {}, "no rows"),
        (np.zeros((2, 0)), [1, -1], {}, "no columns"),
        (np.zeros(3), [1, -1], {}, "two dimensions"),
        (np.array([["a", "b"]]), [1], {}, "must be numeric"),
        ([[1e200, 0], [0, 1]], [1, -1], {}, "row 0 is too large"),
    ],
)
def test_bad_input_ends_at_the_door(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        LinearProblem(X if hasattr(X, "shape") else np.array(X), y, **options)


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([0, 9], [0, 1, 2], "column index 9"),
        ([0, -1], [0, 1, 2], "column index -1"),
        ([0, 1], [0, 1, 7], "indptr"),
        ([0, 1], [0, 5, 2], "indptr"),
    ],
)
def test_corrupt_csr_is_an_error_not_a_crash(indices, indptr, message):
    X = sp.csr_matrix((2, 3))
    X.data = np.ones(2)
    X.indices, X.indptr = np.array(indices, np.int32), np.array(indptr, np.int32)
    with pytest.raises(ValueError, match=message):
        LinearProblem(X, [1, -1])


def test_feature_counts_that_differ():
    problem = matrix.small_problem()
    with pytest.raises(ValueError, match=r"w must have shape \(12,\), got \(5,\)"):
        problem.primal(np.zeros(5))
