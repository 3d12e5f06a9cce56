"""Structural SVMs: oracles against brute force, certificates in NumPy, optima against a QP."""

from __future__ import annotations

import re

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, solve
from bridle.problems.base import ORACLE
from bridle.solvers import REGISTRY, solver_class, solver_from
from bridle.solvers.bcfw import BlockFrankWolfe
from bridle.structured import OracleError, StructuredProblem, check_oracle
from bridle.structured.sparse import SparseVector, sparse_vector

from structured_cases import both_problems, chain_data, exact_optimum, plain_primal

NAMES = [name for name in REGISTRY if solver_class(name).needs == {ORACLE} and name != "auto"]
GAPS = {"subgradient": 0.02}


def test_the_reference_oracle_is_right():
    oracle, X, Y = chain_data()
    report = check_oracle(oracle, zip(X[:4], Y[:4], strict=True), n_weights=3)
    assert report
    assert report.n_brute_force == 4


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chain_kernels_equal_brute_force(storage, dtype):
    slow, fast = both_problems(3, storage=storage, dtype=dtype)
    rng = np.random.default_rng(0)
    for scale in (0.0, 0.3, 3.0):
        w = scale * rng.normal(size=slow.n_features)
        a, b = slow.cut(w), fast.cut(w)
        assert b.value == pytest.approx(a.value, rel=1e-12)
        assert b.loss - w @ b.features == pytest.approx(b.value, rel=1e-9)
        if scale:  # no ties
            np.testing.assert_allclose(b.features, a.features, atol=1e-12)
            assert b.loss == pytest.approx(a.loss)
        for i, whole in enumerate(fast.constraints(w)):
            alone = fast.constraint(i, w)
            assert alone.loss == whole.loss
            np.testing.assert_array_equal(alone.psi.indices, whole.psi.indices)
            np.testing.assert_allclose(alone.psi.values, whole.psi.values)
        assert plain_primal(slow, w) == pytest.approx(fast.primal(w), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["oracle", "kernel"])
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_every_solver_reaches_the_optimum(name, which, C):
    slow, fast = both_problems(1, C)
    tol = GAPS.get(name, 1e-4)
    problem = slow if which == "oracle" else fast
    solution = solve(problem, name, stop=Gap(tol) | Epochs(2000))
    optimum, _ = exact_optimum(slow)
    assert solution.converged, solution.message
    certificate = solution.certificate
    assert certificate.dual <= optimum * (1 + 1e-9)
    assert certificate.primal >= optimum * (1 - 1e-9)
    # Recomputed in plain NumPy.
    assert plain_primal(slow, solution.w) == pytest.approx(certificate.primal, rel=1e-9)
    W, loss = solution.alpha[:-1], solution.alpha[-1]
    assert loss - 0.5 * W @ W == pytest.approx(certificate.dual, rel=1e-9)
    gaps = solution.trace["relative_gap"]
    assert (np.diff(gaps) <= 1e-12).all()


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bits(name):
    first, second = (solve(both_problems(2)[1], name, stop=Epochs(5), seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)


@pytest.mark.parametrize("solver", [
    BlockFrankWolfe(sampling="gaps"), BlockFrankWolfe(cached_steps=3),
    BlockFrankWolfe(average=False),
])  # fmt: skip
@pytest.mark.parametrize("which", [0, 1])
def test_bcfw_options(solver, which):
    problem = both_problems(4)[which]
    solution = solve(problem, solver, stop=Gap(1e-3) | Epochs(1000))
    assert solution.converged, solution.message


def test_the_kernels_dual_point_is_a_convex_combination():
    fast = both_problems(5, n=20)[1]
    blocks = fast.blocks(average=True)
    for seed in range(4):
        blocks.visit(np.random.default_rng(seed).permutation(fast.n_rows), 1)
    W = np.empty(fast.n_features)
    loss = blocks.weights(W)
    token, before, label, mass = blocks.marginals()
    offsets, K = fast.chains.offsets, fast.chains.n_labels
    assert (mass > 0).all()
    inside = np.zeros((offsets[-1], K))
    np.add.at(inside, (token, label), mass)
    np.testing.assert_allclose(inside.sum(axis=1), 1.0)
    later = before >= 0
    outgoing = np.zeros_like(inside)
    np.add.at(outgoing, (token[later] - 1, before[later]), mass[later])
    last = offsets[1:] - 1
    keep = np.ones(len(inside), bool)
    keep[last] = False
    np.testing.assert_allclose(outgoing[keep], inside[keep], atol=1e-12)
    # W and the loss are what these marginals say.
    X, y = fast.chains.X, fast.chains.labels
    truth = np.eye(K)[y]
    emissions = X.T @ (truth - inside)
    transitions = np.zeros((K, K))
    inner = np.setdiff1d(np.arange(offsets[-1]), offsets[:-1])
    np.add.at(transitions, (y[inner - 1], y[inner]), 1.0)
    np.add.at(transitions, (before[later], label[later]), -mass[later])
    np.testing.assert_allclose(
        W, np.concatenate([emissions.ravel(), transitions.ravel()]), atol=1e-9
    )
    assert loss == pytest.approx((inside * (1 - truth)).sum())
    assert blocks.dual == pytest.approx(loss - 0.5 * W @ W)


def test_slack_rescaling():
    oracle, X, Y = chain_data(6)
    problem = StructuredProblem(oracle, X, Y, 0.5, rescaling="slack")
    solution = solve(problem, "bcfw", stop=Gap(1e-4) | Epochs(2000))
    assert solution.converged
    assert plain_primal(problem, solution.w) == pytest.approx(solution.certificate.primal)
    assert exact_optimum(problem)[0] == pytest.approx(solution.certificate.primal, rel=2e-4)


def test_slack_rescaling_needs_its_oracle():
    class Without:
        n_features = 1

    with pytest.raises(ValueError, match="slack_argmax"):
        StructuredProblem(Without(), [0], [0], rescaling="slack")


class Breaks:
    """Wraps an oracle and breaks it at one sample after some calls."""

    def __init__(self, oracle, how, sample, after, truth=None):
        self.oracle, self.how, self.sample, self.calls = oracle, how, sample, after
        self.truth = truth
        self.n_features = oracle.n_features

    def loss(self, y, other):
        if self.how == "loss" and y is self.truth:
            self.calls -= 1
            return np.nan if self.calls < 0 else self.oracle.loss(y, other)
        return self.oracle.loss(y, other)

    def broken(self, x):
        if x is not self.sample:
            return False
        self.calls -= 1
        return self.calls < 0

    def argmax(self, x, w, truth=None):
        if self.how == "raises" and self.broken(x):
            raise KeyError("no such word")
        return self.oracle.argmax(x, w, truth)

    def features(self, x, y):
        features = self.oracle.features(x, y)
        if self.how == "shape" and self.broken(x):
            return features[:-1]
        if self.how == "nan" and self.broken(x):
            return features * np.nan
        return features


@pytest.mark.parametrize("how", ["raises", "shape", "nan", "loss"])
@pytest.mark.parametrize("name", NAMES)
def test_a_broken_oracle_names_the_sample_and_keeps_the_best_model(how, name):
    oracle, X, Y = chain_data(0)
    problem = StructuredProblem(Breaks(oracle, how, X[5], 4, Y[5]), X, Y)
    with pytest.raises(OracleError, match="sample 5: ") as caught:
        solve(problem, name, stop=Gap(1e-9) | Epochs(100))
    assert caught.value.sample == 5
    assert np.isfinite(caught.value.solution.w).all()
    assert np.isfinite(caught.value.solution.certificate.dual)


def test_a_broken_batch_names_the_sample():
    class Batches(Breaks):
        def argmax_batch(self, xs, w, truths=None):
            return [self.argmax(x, w, y) for x, y in zip(xs, truths, strict=True)]

    oracle, X, Y = chain_data(0)
    problem = StructuredProblem(Batches(oracle, "raises", X[5], 2), X, Y)
    with pytest.raises(OracleError, match="sample 5: the oracle raised KeyError") as caught:
        solve(problem, "one-slack", stop=Gap(1e-9) | Epochs(100))
    assert np.isfinite(caught.value.solution.w).all()
    Batches.argmax_batch = lambda self, xs, w, truths=None: xs[:2]
    with pytest.raises(OracleError, match="gave 2 answers to 12 inputs"):
        StructuredProblem(Batches(oracle, "", None, 0), X, Y).cut(np.zeros(oracle.n_features))


def test_check_oracle_tells_what_is_wrong():
    oracle, X, Y = chain_data(0)
    samples = list(zip(X[:3], Y[:3], strict=True))

    def report(**methods):
        broken = type("Broken", (), {})()
        for name in ("n_features", "features", "loss", "argmax", "outputs"):
            setattr(broken, name, methods.get(name, getattr(oracle, name)))
        return str(check_oracle(broken, samples))

    assert "no problems" in report()
    assert "not the argmax" in report(argmax=lambda x, w, truth=None: tuple([0] * len(x)))
    assert "must be 0" in report(loss=lambda y, other: 1.0)
    assert "not negative" in report(loss=lambda y, other: -1.0)
    assert "expected" in report(features=lambda x, y: np.zeros(3))
    assert "ZeroDivisionError" in report(argmax=lambda x, w, truth=None: 1 / 0)
    calls = iter(range(10**9))
    assert "two different" in report(
        argmax=lambda x, w, truth=None: tuple([next(calls) % 2] * len(x))
    )
    assert not check_oracle(object(), samples)
    assert "no samples" in str(check_oracle(oracle, []))
    assert not check_oracle(oracle, [])
    assert "outputs: ZeroDivisionError" in report(outputs=lambda x: 1 / 0)
    # Outputs that are too few look like an argmax outside of them.
    assert "better than all of outputs" in report(outputs=lambda x: [tuple([0] * len(x))])
    found = report(argmax=lambda x, w, truth=None: tuple([0] * len(x)))
    assert found.count("sample 0: argmax (margin)") == 1  # not once for each w


def test_check_oracle_looks_at_batches():
    class Batches:
        def __init__(self, oracle, batch):
            self.n_features, self.outputs = oracle.n_features, oracle.outputs
            self.features, self.loss, self.argmax = oracle.features, oracle.loss, oracle.argmax
            self.argmax_batch = batch

    oracle, X, Y = chain_data(0)
    samples = list(zip(X[:4], Y[:4], strict=True))

    def right(xs, w, truths=None):
        return [oracle.argmax(x, w, None if truths is None else truths[i])
                for i, x in enumerate(xs)]  # fmt: skip

    assert check_oracle(Batches(oracle, right), samples)
    for batch, message in (
        (lambda xs, w, truths=None: right(xs, w), r"argmax_batch \(margin\) differs"),
        (lambda xs, w, truths=None: right(xs, w)[1:], "gave 3 answers to 4 inputs"),
        (lambda xs, w, truths=None: 1 / 0, "argmax_batch .*ZeroDivisionError"),
    ):
        report = check_oracle(Batches(oracle, batch), samples)
        assert not report
        assert re.search(message, str(report)), report


@pytest.mark.parametrize(("features", "message"), [
    ((np.array([0.5, 2.5]), np.array([0, 1])), "whole numbers first"),
    ((1.0, 2.0), "a pair"), ((0, 1), "a pair"), (([0, 1], [1.0]), "a pair"),
    (([0, 3], [1.0, 1.0]), "outside 0..2"),
    (SparseVector(np.array([3]), np.array([1.0])), "outside 0..2"),
    (SparseVector(np.array([-1]), np.array([1.0])), "outside 0..2"),
])  # fmt: skip
def test_features_that_cannot_be(features, message):
    with pytest.raises(ValueError, match=message):
        sparse_vector(features, 3)
    assert len(sparse_vector(([], []), 3).indices) == 0


def test_names_are_checked():
    linear = LinearProblem([[1.0], [2.0]], [1, -1])
    with pytest.raises(ValueError, match="needs an oracle"):
        solve(linear, "bcfw")
    with pytest.raises(ValueError, match="sampling"):
        solver_from("bcfw", sampling="none")


def test_the_number_of_cuts_does_not_grow_with_the_number_of_rows():
    steps = []
    for n in (50, 200, 800):
        _, fast = both_problems(8, 1.0, n=n, longest=3)
        fast.cost[:] = 20.0 / n  # the same weight for the sum of the losses
        steps.append(solve(fast, "one-slack", stop=Gap(1e-3) | Epochs(500)).steps)
    assert steps[2] <= 1.3 * max(steps[:2]), steps


@pytest.mark.parametrize("C", [0.0, -1.0, np.nan])
def test_C_is_checked(C):
    with pytest.raises(ValueError, match="C must be positive"):
        both_problems(0, C)
