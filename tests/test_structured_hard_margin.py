"""C = inf on structural problems: the separating solution, or a proof that there is none."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, MulticlassSVC, MultilabelSVC, Status, solve
from bridle.estimators.base import GapWarning
from bridle.structured import StructuredProblem
from bridle.structured.chain import ChainProblem

from structured_cases import ORACLES, chain_data, dense_features, multilabel_data
from test_structured import NAMES

STOP = Gap(1e-6) | Epochs(500)


def separable_chain(seed=0, n=10):
    """Chains whose labels are what some w says."""
    oracle, X, _ = chain_data(seed, n=n)
    w = np.random.default_rng(seed + 1).normal(size=oracle.n_features)
    return oracle, X, [oracle.argmax(x, w) for x in X]


def all_constraints(problem):
    """(row, psi, loss) of every output of every row, in plain NumPy."""
    for i, (x, y) in enumerate(zip(problem.X, problem.Y, strict=True)):
        truth = dense_features(problem, i, y)
        for other in problem.oracle.outputs(x):
            loss = problem.oracle.loss(y, other)
            psi = truth - dense_features(problem, i, other)
            yield i, psi * (loss if problem.rescaling == "slack" else 1.0), loss


def hard_optimum(problem):
    """min 1/2 |w|^2 over all constraints, by a quadratic programme of another library."""
    quadprog = pytest.importorskip("quadprog")
    rows = [(psi, loss) for _, psi, loss in all_constraints(problem) if loss > 0]
    G = np.array([psi for psi, _ in rows])
    d = problem.n_features
    solution = quadprog.solve_qp(np.eye(d), np.zeros(d), G.T, np.array([r for _, r in rows]))
    return solution[1]


def check_separation(problem, solution):
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.proof is None
    assert min(psi @ solution.w - loss for _, psi, loss in all_constraints(problem)) >= -1e-8
    assert solution.certificate.primal == pytest.approx(0.5 * solution.w @ solution.w)
    W, loss = solution.alpha[:-1], solution.alpha[-1]
    assert solution.certificate.dual == pytest.approx(
        min(loss - 0.5 * W @ W, solution.certificate.primal)
    )
    assert solution.certificate.primal == pytest.approx(hard_optimum(problem), rel=1e-5)


def check_proof(problem, solution):
    """Each constraint of the proof is one of the problem's, and their sum is 0 >= l > 0."""
    assert solution.status is Status.INFEASIBLE, solution.message
    assert "proves that no w separates" in solution.message
    proof = solution.proof
    psi = proof.psi.toarray()
    assert (proof.weights > 0).all()
    assert proof.weights.sum() == pytest.approx(1)
    size = proof.weights @ np.linalg.norm(psi, axis=1)
    assert np.linalg.norm(proof.weights @ psi) <= 1e-11 * max(1.0, size)
    assert proof.weights @ proof.losses > 0
    known = list(all_constraints(problem))
    for row, g, loss in zip(proof.rows, psi, proof.losses, strict=True):
        assert any(i == row and r == loss and np.allclose(p, g, atol=1e-12) for i, p, r in known)


@pytest.mark.parametrize("name", ["n-slack", "auto"])
@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_what_can_be_separated_is(name, rescaling):
    problem = StructuredProblem(*separable_chain(), np.inf, rescaling=rescaling)
    check_separation(problem, solve(problem, name, stop=STOP))


def test_the_compiled_chain_agrees():
    oracle, X, Y = separable_chain(3)
    slow = StructuredProblem(oracle, X, Y, np.inf)
    fast = ChainProblem(
        np.concatenate(X), np.cumsum([0, *map(len, X)]), np.concatenate(Y), oracle.K, np.inf
    )
    a, b = (solve(problem, "n-slack", stop=STOP) for problem in (slow, fast))
    check_separation(slow, b)
    assert a.certificate.primal == pytest.approx(b.certificate.primal, rel=1e-5)


@pytest.mark.parametrize("name", ["n-slack", "auto"])
def test_what_cannot_be_separated_is_proved_so(name):
    oracle, X, Y = separable_chain(1)
    # The same sequence with other labels.
    other = tuple((k + 1) % oracle.K for k in Y[4])
    problem = StructuredProblem(oracle, [*X, X[4]], [*Y, other], np.inf)
    solution = solve(problem, name, stop=STOP)
    check_proof(problem, solution)
    assert {4, len(X)} <= set(solution.proof.rows.tolist())


def test_noise_is_proved_inseparable():
    rng = np.random.default_rng(0)
    oracle, X, _ = chain_data(0, n=80, longest=2)
    Y = [tuple(rng.integers(0, oracle.K, len(x)).tolist()) for x in X]
    problem = StructuredProblem(oracle, X, Y, np.inf)
    check_proof(problem, solve(problem, "n-slack", stop=STOP))


def test_rows_without_weight_do_not_count():
    oracle, X, Y = separable_chain(1)
    X, Y = [*X, X[4]], [*Y, tuple((k + 1) % oracle.K for k in Y[4])]
    weights = np.ones(len(X))
    weights[-1] = 0.0
    problem = StructuredProblem(oracle, X, Y, np.inf, sample_weight=weights)
    solution = solve(problem, "n-slack", stop=STOP)
    assert solution.status is Status.CONVERGED, solution.message


@pytest.mark.parametrize("scale", [1e-10, 1e8])
def test_the_unit_of_the_loss_changes_nothing(scale):
    oracle, X, Y = separable_chain(1)
    optimum = solve(StructuredProblem(oracle, X, Y, np.inf), stop=STOP).certificate.primal
    oracle.cost = scale * oracle.cost
    solution = solve(StructuredProblem(oracle, X, Y, np.inf), stop=STOP)
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.certificate.primal == pytest.approx(scale**2 * optimum, rel=1e-5)
    other = tuple((k + 1) % oracle.K for k in Y[4])
    impossible = StructuredProblem(oracle, [*X, X[4]], [*Y, other], np.inf)
    check_proof(impossible, solve(impossible, stop=STOP))


def test_an_estimator_keeps_the_proof():
    X, Y = np.array([[1.0], [1.0]]), np.array([[0], [1]])
    with pytest.warns(GapWarning, match="proves that no w separates"):
        model = MultilabelSVC(C=np.inf).fit(X, Y)
    assert model.status_ is Status.INFEASIBLE
    proof = model.proof_
    assert np.abs(proof.weights @ proof.psi.toarray()).max() <= 1e-12
    assert proof.weights @ proof.losses > 0
    assert MultilabelSVC().fit(X * [[1], [-1]], Y).proof_ is None


@pytest.mark.parametrize("oracle", ORACLES)
def test_every_oracle_ends_in_one_or_the_other(oracle):
    problem = StructuredProblem(*ORACLES[oracle](), np.inf)
    solution = solve(problem, "n-slack", stop=STOP)
    (check_proof if solution.proof is not None else check_separation)(problem, solution)


def test_two_labels_are_the_linear_hard_margin():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 4))
    score = X @ rng.normal(size=4)
    X, y = X[np.abs(score) > 0.3], (score[np.abs(score) > 0.3] > 0).astype(int)
    oracle, _, _ = multilabel_data(n_inputs=4, n_labels=1, pairs=False)
    problem = StructuredProblem(oracle, list(X), [(int(k),) for k in y], np.inf)
    ours = solve(problem, "n-slack", stop=STOP).certificate
    theirs = solve(LinearProblem(X, 2.0 * y - 1, np.inf), stop=STOP).certificate
    assert ours.primal == pytest.approx(theirs.primal, rel=1e-5)


def test_multiclass_svc():
    X = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]])
    model = MulticlassSVC(C=np.inf, fit_intercept=False, tol=1e-6).fit(X, [0, 1, 2])
    scores = model.decision_function(X)
    assert (np.diag(scores)[:, None] - scores + np.eye(3)).min() >= 1 - 1e-8


@pytest.mark.parametrize("name", [name for name in NAMES if name != "n-slack"])
def test_others_refuse(name):
    problem = StructuredProblem(*separable_chain(), np.inf)
    with pytest.raises(ValueError, match=r"cannot solve the hard margin .*n-slack"):
        solve(problem, name)
