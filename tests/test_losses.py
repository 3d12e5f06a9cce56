"""Every loss: Fenchel-Young, its certificate, and the optimum that others find."""

from __future__ import annotations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.objective.losses import (
    LOSSES,
    EpsilonInsensitive,
    Huber,
    Logistic,
    Pinball,
    SmoothedHinge,
    Squared,
    SquaredEpsilonInsensitive,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import matrix

NEW = [
    Logistic(), SmoothedHinge(), SmoothedHinge(0.3), EpsilonInsensitive(), EpsilonInsensitive(0.0),
    SquaredEpsilonInsensitive(0.5), Pinball(), Pinball(0.9), Squared(), Huber(), Huber(0.2),
]  # fmt: skip


def named(loss):
    return repr(loss)


@pytest.mark.parametrize("loss", [*LOSSES.values(), *NEW], ids=named)
def test_every_loss_passes_its_own_check(loss):
    bridle.check_loss(loss)


@pytest.mark.parametrize("loss", NEW, ids=named)
@settings(max_examples=100, deadline=None)
@given(p=st.floats(-50, 50), cost=st.floats(0.01, 10), share=st.floats(-1, 1))
def test_fenchel_young(loss, p, cost, share):
    """C loss(p) >= dual_value(alpha) - alpha p, with equality at alpha = C slope(p)."""
    p_, c_ = np.array([p]), np.array([cost])
    reach = loss.upper(c_) if share > 0 else -np.atleast_1d(loss.lower(c_))
    alpha = share * np.where(np.isfinite(reach), reach, 10 * c_)
    value = cost * loss.value(p_)[0]
    assert value >= loss.dual_value(alpha, c_) - alpha[0] * p - 1e-9 * (1 + abs(value))
    tight = c_ * loss.slope(p_)
    assert value == pytest.approx(loss.dual_value(tight, c_) - tight[0] * p, abs=1e-7, rel=1e-9)


@pytest.mark.parametrize("loss", NEW, ids=named)
@settings(max_examples=50, deadline=None)
@given(p=st.floats(-5, 5), q=st.floats(0.01, 20), cost=st.floats(0.01, 10), share=st.floats(0, 1))
def test_the_scalar_step_of_the_core_is_the_best(loss, p, q, cost, share):
    """One visit to one row, from where the dual variable is: against the bisection in Python."""
    from bridle import _core

    # A step of the logistic loss ends at a twentieth of where it began, in log(alpha/(C - alpha)):
    # from within rounding of its bound that is not near enough.
    share = 1.0 if share > 1.0 - 1e-6 else share
    x = np.array([[np.sqrt(q)]])
    rows = bridle.LinearProblem(x, [0.0], loss=Squared()).rows
    low, high = float(np.min(loss.lower(np.array([cost])))), float(loss.upper(np.array([cost]))[0])
    low, high = max(low, -5.0), min(high, 5.0)
    alpha = np.array([low + share * (high - low)])
    alpha[np.abs(alpha) < 1e-6] = 1e-6  # a first epoch from zero takes other steps
    # p = w.x - t at w = alpha x; the target makes it so.
    target = np.array([alpha[0] * q - p])
    if not loss.residual and target[0] != 0:
        p = float(alpha[0] * q)
        target = np.zeros(1)
    descent = _core.steps.dual_coordinate_descent(
        rows.view, loss.struct, np.array([cost]), np.array([q]), alpha, 0.0, np.inf, 1, 1, target
    )
    descent.visit(_core.Rng(0), 1, 1.0)
    found = np.empty(1)
    descent.alpha(found)
    best = loss.step(float(alpha[0]), p, q, cost)
    dual = [
        loss.dual_value(np.array([a]), np.array([cost])) - a * p - 0.5 * q * (a - alpha[0]) ** 2
        + alpha[0] * p
        for a in (found[0], best)
    ]  # fmt: skip
    assert dual[0] >= dual[1] - 1e-4 * (1 + abs(dual[1]))


class Wrong(bridle.Loss):
    """The hinge, with a dual value that is too large."""

    name = "wrong"

    def value(self, p):
        return np.maximum(0.0, 1.0 - p)

    def slope(self, p):
        return (p < 1).astype(float)

    def upper(self, cost):
        return cost

    def dual_value(self, alpha, cost):
        return 2.0 * float(alpha.sum())


class Steep(Wrong):
    """Its slopes reach beyond its box, and so on: each mistake is told by its name."""

    name = "steep"

    def dual_value(self, alpha, cost):
        return float(alpha.sum())

    def upper(self, cost):
        return 0.5 * cost


class Rising(Steep):
    name = "rising"

    def value(self, p):
        return np.abs(1.0 - p)

    def slope(self, p):
        return np.where(p < 1, 1.0, -1.0)


class Bent(Steep):
    name = "bent"

    def value(self, p):
        return np.minimum(1.0, np.maximum(0.0, 1.0 - p))


@pytest.mark.parametrize(
    ("loss", "what"),
    [(Wrong(), "dual_value"), (Steep(), "the box"), (Rising(), "rises"), (Bent(), "not convex")],
)
def test_check_loss_says_what_is_wrong(loss, what):
    with pytest.raises(ValueError, match=f"the loss '{loss.name}'.*{what}"):
        bridle.check_loss(loss)


def test_a_dual_value_above_the_primal_names_the_loss():
    X, y = matrix.small_data()
    problem = bridle.LinearProblem(X, y, loss=Wrong())
    with pytest.raises(ValueError, match="the loss 'wrong' contradicts itself"):
        bridle.solve(problem, "dcd", stop=bridle.Epochs(20))


# --- optima that others find ------------------------------------------------------------------


def data(n=120, d=6, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    z = X @ rng.normal(size=d)
    return X, z + 1.5 + 0.5 * rng.standard_t(3, size=n), np.where(z + rng.normal(size=n) > 0, 1, -1)


def optimum(loss, X, y, C, bias):
    problem = bridle.LinearProblem(X, y, C, loss=loss, bias=bias)
    return bridle.solve(problem, "dcd", stop=bridle.Gap(1e-9) | bridle.Epochs(50_000))


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("bias", ["none", "free"])
def test_logistic_equals_scikit_learn(C, bias):
    from sklearn.linear_model import LogisticRegression

    X, _, y = data()
    found = optimum(Logistic(), X, y, C, bias)
    peer = LogisticRegression(C=C, fit_intercept=bias == "free", tol=1e-12, max_iter=10_000)
    peer.fit(X, y)
    assert found.w == pytest.approx(peer.coef_[0], abs=1e-3)
    problem = bridle.LinearProblem(X, y, C, loss="logistic", bias=bias)
    theirs = problem.primal(peer.coef_[0], float(peer.intercept_[0]))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)
    assert found.certificate.dual <= theirs * (1 + 1e-12)


@pytest.mark.parametrize("name", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_regression_equals_liblinear(name, C):
    from sklearn.svm import LinearSVR

    X, t, _ = data()
    found = optimum({"epsilon_insensitive": EpsilonInsensitive(0.2)}.get(
        name, SquaredEpsilonInsensitive(0.2)), X, t, C, "regularised")  # fmt: skip
    peer = LinearSVR(epsilon=0.2, C=C, loss=name, tol=1e-10, max_iter=1_000_000, random_state=0)
    peer.fit(X, t)
    problem = bridle.LinearProblem(
        X, t, C, bias="regularised",
        loss=EpsilonInsensitive(0.2) if name == "epsilon_insensitive"
        else SquaredEpsilonInsensitive(0.2),
    )  # fmt: skip
    theirs = problem.primal(peer.coef_, float(np.atleast_1d(peer.intercept_)[0]))
    assert found.certificate.primal == pytest.approx(theirs, rel=1e-6)


def test_least_squares_equals_ridge():
    from sklearn.linear_model import Ridge

    X, t, _ = data()
    found = optimum(Squared(), X, t, 0.5, "free")
    peer = Ridge(alpha=1.0).fit(X, t)  # |t - Xw|^2 + |w|^2 = 2 (1/2 |w|^2 + 1/2 sum p^2)
    assert found.w == pytest.approx(peer.coef_, abs=1e-4)
    assert found.b == pytest.approx(peer.intercept_, abs=1e-4)


def quadratic_programme(X, t, C, pieces, *, free):
    """min 1/2 |w|^2 + C sum s_i, s_i >= slope (x_i.w + b - t_i) + offset, by an interior point."""
    clarabel = pytest.importorskip("clarabel")
    n, d = X.shape
    P = sp.diags(np.concatenate([np.ones(d), np.zeros(1 + n)]), format="csc")
    q = np.concatenate([np.zeros(d + 1), np.full(n, C)])
    bias = np.ones((n, 1)) if free else np.zeros((n, 1))
    blocks, bounds = [], []
    for slope, offset in pieces:
        blocks.append(sp.hstack([slope * X, slope * bias, -sp.eye(n)]))
        bounds.append(slope * t - offset)
    A, b = sp.vstack(blocks, format="csc"), np.concatenate(bounds)
    setting = clarabel.DefaultSettings()
    setting.verbose = False
    setting.tol_gap_rel = setting.tol_gap_abs = setting.tol_feas = 1e-11
    solver = clarabel.DefaultSolver(P, q, A, b, [clarabel.NonnegativeConeT(len(b))], setting)
    return solver.solve().obj_val


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    ("loss", "pieces"),
    [
        (Pinball(0.8), [(-0.8, 0.0), (0.2, 0.0)]),
        (EpsilonInsensitive(0.3), [(1.0, -0.3), (-1.0, -0.3), (0.0, 0.0)]),
    ],
    ids=["pinball", "epsilon_insensitive"],
)
def test_kinked_losses_equal_a_quadratic_programme(loss, pieces, free):
    X, t, _ = data()
    found = optimum(loss, X, t, 0.7, "free" if free else "none")
    value = quadratic_programme(X, t, 0.7, pieces, free=free)
    assert found.certificate.primal == pytest.approx(value, rel=1e-6)
    assert found.certificate.dual == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("loss", [Huber(0.5), SmoothedHinge(0.5)], ids=named)
def test_smooth_losses_equal_a_general_minimiser(loss):
    from scipy.optimize import minimize

    X, t, y = data()
    labels = t if loss.residual else y
    found = optimum(loss, X, labels, 0.7, "none")

    def value(w):
        p = X @ w - t if loss.residual else y * (X @ w)
        push = loss.slope(p) if loss.residual else y * loss.slope(p)
        return 0.5 * w @ w + 0.7 * loss.value(p).sum(), w - 0.7 * X.T @ push

    peer = minimize(value, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert found.certificate.primal == pytest.approx(peer.fun, rel=1e-6)


# --- where rows may be ------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, "2G"])
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"perceptron"}))
def test_every_loss_on_disk_is_that_in_memory(name, memory, tmp_path):
    from bridle.data import write_arrow

    X, y = matrix.small_data(dtype="float32", storage="csr-32")
    labels = matrix.targets_of(X) if LOSSES[name].residual else y
    X, bias = (abs(X), "free") if LOSSES[name].one_class else (X, "regularised")
    write_arrow(tmp_path / "d.arrow", X, labels)
    there = bridle.LinearProblem(
        bridle.StoredRows(tmp_path / "d.arrow", memory=memory), C=0.5, loss=name, bias=bias
    )
    stored = bridle.solve(there, "dcd", stop=bridle.Gap(1e-4) | bridle.Epochs(2000))
    assert stored.converged, stored.message
    here = bridle.LinearProblem(X, labels, 0.5, loss=name, bias=bias)
    assert here.primal(stored.w, stored.b) == pytest.approx(stored.certificate.primal, rel=1e-9)
    assert here.dual(stored.alpha) == pytest.approx(stored.certificate.dual, rel=1e-9)
    in_memory = bridle.solve(here, "dcd", stop=bridle.Gap(1e-4) | bridle.Epochs(2000))
    assert stored.certificate.dual <= in_memory.certificate.primal
    assert in_memory.certificate.dual <= stored.certificate.primal


@pytest.mark.parametrize("bias", ["regularised", "free"])
@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"perceptron", "one_class"}))
def test_every_loss_on_parts_is_that_in_memory(name, bias):
    from bridle.rows.cluster.local import LocalParts

    X, y = matrix.small_data(dtype="float64", storage="csr-32")
    labels = matrix.targets_of(X) if LOSSES[name].residual else y
    spread = bridle.LinearProblem(LocalParts(X, labels, 2), C=0.5, loss=name, bias=bias)
    found = bridle.solve(spread, "cocoa", stop=bridle.Gap(1e-3) | bridle.Epochs(3000))
    assert found.converged, found.message
    here = bridle.LinearProblem(X, labels, 0.5, loss=name, bias=bias)
    assert here.primal(found.w, found.b) == pytest.approx(found.certificate.primal, rel=1e-9)
    best = bridle.solve(here, "dcd", stop=bridle.Gap(1e-6) | bridle.Epochs(5000)).certificate
    assert found.certificate.dual <= best.primal
    assert best.dual <= found.certificate.primal
