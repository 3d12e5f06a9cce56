"""The small quadratic programme of the cutting-plane methods, against brute force and quadprog."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import _core
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel


def random_cuts(n, dimension, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dimension)) + 0.5, rng.normal(size=n) + 1.0


def solve(G, R, group=None, caps=(1.0,), tolerance=1e-10, beta=None):
    group = np.zeros(len(R), np.int64) if group is None else np.asarray(group, np.int64)
    beta = np.zeros(len(R)) if beta is None else beta
    result = _core.steps.simplex_qp(G @ G.T, R, group, np.asarray(caps, float), beta, tolerance)
    return beta, result


def value(G, R, beta):
    w = beta @ G
    return R @ beta - 0.5 * w @ w


def model_minimum(G, R, w, group, caps):
    """The primal value of the model at w."""
    parts = R - G @ w
    worst = [max(0.0, parts[group == g].max(initial=0.0)) for g in range(len(caps))]
    return 0.5 * w @ w + np.dot(caps, worst)


@pytest.mark.parametrize("dimension", [1, 3, 40, 400])
@pytest.mark.parametrize("n", [1, 2, 25, 200])
def test_value_and_gap_are_true(n, dimension):
    G, R = random_cuts(n, dimension)
    beta, result = solve(G, R)
    assert np.all(beta >= 0)
    assert beta.sum() <= 1 + 1e-12
    assert result.value == pytest.approx(value(G, R, beta), rel=1e-9)
    primal = model_minimum(G, R, beta @ G, np.zeros(n), [1.0])
    assert result.gap == pytest.approx(primal - value(G, R, beta), abs=1e-8 * primal)
    assert result.gap <= 1e-10 * abs(result.value)


def test_groups_have_simplices_of_their_own():
    G, R = random_cuts(60, 10)
    group = np.arange(60) % 7
    caps = np.linspace(0.0, 2.0, 7)
    beta, result = solve(G, R, group, caps)
    sums = np.bincount(group, beta)
    assert np.all(sums <= caps * (1 + 1e-12))
    primal = model_minimum(G, R, beta @ G, group, caps)
    assert primal - value(G, R, beta) <= 1e-9 * primal
    assert result.gap <= 1e-10 * result.value


@pytest.mark.parametrize(("n", "dimension"), [(20, 30), (150, 20), (80, 200)])
def test_optimum_is_quadprogs(n, dimension):
    quadprog = pytest.importorskip("quadprog")
    G, R = random_cuts(n, dimension, seed=n)
    G = np.hstack([G, 1e-2 * np.eye(n)])  # quadprog is not accurate on singular problems
    H = G @ G.T
    constraints = np.vstack([np.eye(n), -np.ones(n)]).T
    _, minus_value, *_ = quadprog.solve_qp(H, R, constraints, np.append(np.zeros(n), -1.0))
    assert solve(G, R)[1].value == pytest.approx(-minus_value, rel=1e-7)


def test_no_cut_worth_its_while_gives_zero():
    G, R = random_cuts(5, 4)
    beta, result = solve(G, -np.abs(R))
    assert result.value == 0
    assert result.gap == 0
    assert not beta.any()


def test_duplicates_zeros_and_badly_scaled_cuts():
    G, R = random_cuts(30, 5)
    G = np.vstack([G, G, np.zeros((2, 5))]) * 1e6
    R = np.concatenate([R, R, [0.0, 0.5]]) * 1e3
    _, result = solve(G, R, tolerance=1e-9)
    # The products are of the order of 1e13 and cancel: that is what rounding leaves.
    assert result.gap <= 1e-6 * result.value


def test_an_infeasible_start_is_made_feasible():
    G, R = random_cuts(10, 4)
    beta, result = solve(G, R, beta=np.linspace(-1.0, 3.0, 10))
    assert beta.min() >= 0
    assert beta.sum() <= 1 + 1e-12
    assert result.gap <= 1e-10 * result.value


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="group has an entry outside"):
        solve(np.eye(2), np.ones(2), group=[0, 1])
    with pytest.raises(ValueError, match="gram"):
        _core.steps.simplex_qp(
            np.eye(3), np.ones(2), np.zeros(2, np.int64), np.ones(1), np.ones(2), 0.1
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_model_grows_shrinks_and_stays_exact(sparse):
    rng = np.random.default_rng(0)
    model = CuttingPlaneModel(30, idle=3, sparse=sparse)
    kept, G, R = [], [], []
    last = -np.inf
    for k in range(60):
        cut = rng.normal(size=30) * (rng.random(30) < 0.3) + 0.01
        G.append(cut)
        R.append(1 + rng.random())
        give = sp.csr_matrix(cut) if sparse and k % 3 == 0 else cut
        if sparse and k % 3 == 1:
            give = (np.arange(30), cut)
        model.add(give, R[-1])
        kept.append(k)
        point = model.solve(1e-10)
        assert point.value >= last * (1 - 1e-9)  # a cut can only raise the bound
        last = point.value
        here = np.array(G)[kept]
        np.testing.assert_allclose(point.w, point.beta @ here, atol=1e-12)
        np.testing.assert_allclose(model.gram, here @ here.T, atol=1e-12)
        kept = [kept[position] for position in model.drop_idle()]
    assert len(model) < 60
    whole = solve(np.array(G), np.array(R))[1].value
    assert last <= whole * (1 + 1e-9)


def test_bad_cuts_are_refused():
    model = CuttingPlaneModel(3)
    with pytest.raises(ValueError, match="shape"):
        model.add(np.ones(4), 1.0)
    with pytest.raises(ValueError, match="NaN"):
        model.add(np.array([1.0, np.nan, 0.0]), 1.0)
    with pytest.raises(ValueError, match="group 1"):
        model.add(np.ones(3), 1.0, group=1)
    with pytest.raises(ValueError, match="outside"):
        CuttingPlaneModel(3, sparse=True).add(([5], [1.0]), 1.0)


def test_a_start_one_pair_step_from_the_optimum():
    """The Newton step that follows is rounding: it must not run into a bound."""
    gram = np.array([
        [1.43392302, 0.52020549, -0.31412472],
        [0.52020549, 0.20254962, -0.09745908],
        [-0.31412472, -0.09745908, 0.08991576],
    ])  # fmt: skip
    r = np.array([0.62, 0.55794684, 0.46652711])
    rng = np.random.default_rng(0)
    for _ in range(200):
        beta = np.array([0.0, 1.0, 0.0])
        noise = 1e-8 * rng.normal(size=(3, 3))
        result = _core.steps.simplex_qp(
            gram + noise @ noise.T, r + 1e-8 * rng.normal(size=3), np.zeros(3, np.int64),
            np.ones(1), beta, 1e-12,
        )  # fmt: skip
        assert result.gap <= 1e-12
        np.testing.assert_allclose(beta, [0.0, 0.57202, 0.42798], atol=1e-4)
