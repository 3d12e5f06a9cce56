"""C = inf: the maximum margin with its certificate, or a proof that there is none."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import (
    Certificate,
    DualCoordinateDescent,
    Epochs,
    Gap,
    Iterate,
    LinearProblem,
    Newton,
    Status,
    _core,
    solve,
)
from bridle.data import make_corpus, read_svmlight
from bridle.problems import hard_margin as separation
from bridle.problems.exact import combination_of_zero

import reference

SOLVERS = ("dcd", "newton", "qp", "auto")
BIASES = ("none", "regularised", "free")
STOP = Gap(1e-4) | Epochs(20_000)


def separable(bias="none", n=200, d=6, dtype="float64", seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    offset = 0.0 if bias == "none" else 0.8
    score = X @ w + offset
    keep = np.abs(score) > 0.4
    X, y = X[keep].astype(dtype), np.sign(score[keep])
    return (sp.csr_matrix(X) if sparse else X), y


def check_certificate(problem, solution):
    """The claims in NumPy: every margin is 1 at least, and D <= P."""
    X, y = reference.dense(problem.X), problem.y
    used = problem.cost > 0
    margins = y * (X @ solution.w + solution.b)
    assert margins[used].min() >= 1 - 1e-9
    primal = 0.5 * solution.w @ solution.w
    if problem.bias == "regularised":
        primal += 0.5 * (solution.b / problem.bias_scale) ** 2
    setting = {"bias": problem.bias, "bias_scale": problem.bias_scale}
    dual = reference.dual(X, y, solution.alpha, np.inf, **setting)
    reference.assert_feasible(y, solution.alpha, np.inf, bias=problem.bias)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert solution.certificate.dual == pytest.approx(min(primal, dual), rel=1e-9)


def check_proof(problem, solution):
    X, y, proof = reference.dense(problem.X), problem.y, solution.proof
    assert solution.status is Status.INFEASIBLE, solution.message
    assert "proves" in solution.message
    assert np.all(proof >= 0)
    assert proof.sum() == pytest.approx(1)
    assert np.all(proof[problem.cost == 0] == 0)
    size = proof @ np.linalg.norm(X, axis=1) + 1e-300
    assert np.linalg.norm(X.T @ (proof * y)) <= 1e-11 * max(size, 1)
    if problem.bias != "none":
        assert abs(proof @ y) <= 1e-11


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("dtype", "sparse"), [("float64", False), ("float32", True)])
def test_separable_data_gives_the_maximum_margin(name, bias, dtype, sparse):
    X, y = separable(bias, dtype=dtype, sparse=sparse)
    problem = LinearProblem(X, y, np.inf, bias=bias)
    solution = solve(problem, name, stop=STOP)
    assert solution.status is Status.CONVERGED, solution.message
    assert solution.proof is None
    check_certificate(problem, solution)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bias", BIASES)
def test_two_points(name, bias):
    # The nearest points of the classes are 2 apart along the first axis.
    X, y = np.array([[1.0, 0.0], [-1.0, 0.0], [3.0, 5.0]]), np.array([1.0, -1.0, 1.0])
    solution = solve(LinearProblem(X, y, np.inf, bias=bias), name, stop=STOP)
    np.testing.assert_allclose(solution.w, [1.0, 0.0], atol=0.02)
    assert solution.b == pytest.approx(0.0, abs=0.02)
    assert solution.certificate.primal == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bias", BIASES)
def test_xor_is_proved_inseparable(name, bias):
    X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    problem = LinearProblem(X, [1, 1, -1, -1], np.inf, bias=bias)
    check_proof(problem, solve(problem, name, stop=STOP))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bias", BIASES)
def test_one_row_with_both_labels(name, bias):
    X, y = separable(bias, sparse=True)
    X = sp.vstack([X, X[7]]).tocsr()
    y = np.append(y, -y[7])
    problem = LinearProblem(X, y, np.inf, bias=bias)
    solution = solve(problem, name, stop=STOP)
    check_proof(problem, solution)
    assert solution.proof[-1] > 0  # the others can be separated


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bias", BIASES)
def test_noise_is_proved_inseparable(name, bias):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 5)), np.where(rng.random(300) < 0.5, 1.0, -1.0)
    problem = LinearProblem(X, y, np.inf, bias=bias)
    check_proof(problem, solve(problem, name, stop=STOP))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_row_of_zeros_cannot_have_a_margin(name):
    X, y = separable()
    X[5] = 0.0
    problem = LinearProblem(X, y, np.inf)
    check_proof(problem, solve(problem, name, stop=STOP))
    # ... unless its weight is zero.
    weights = np.ones(len(y))
    weights[5] = 0.0
    kept = LinearProblem(X, y, np.inf, sample_weight=weights)
    solution = solve(kept, name, stop=STOP)
    assert solution.converged, solution.message
    check_certificate(kept, solution)


@pytest.mark.parametrize("name", ["dcd", "newton"])
def test_more_features_than_rows(name):
    X, y = make_corpus(300, seed=0)
    problem = LinearProblem(X, y, np.inf)
    solution = solve(problem, name, stop=Gap(1e-3) | Epochs(3000))
    assert solution.converged, solution.message
    check_certificate(problem, solution)


def test_solvers_agree():
    X, y = separable("free", seed=3)
    problem = LinearProblem(X, y, np.inf, bias="free")
    values = [
        solve(problem, name, stop=Gap(1e-6) | Epochs(50_000)).certificate.primal
        for name in ("newton", "qp")
    ]
    assert values[0] == pytest.approx(values[1], rel=2e-6)


def test_others_refuse():
    X, y = separable()
    with pytest.raises(ValueError, match="pegasos cannot solve the hard margin"):
        solve(LinearProblem(X, y, np.inf), "pegasos")


@pytest.mark.parametrize("name", ["dcd", "newton"])
def test_agaricus(name, tmp_path):
    X, y = real_data("agaricus.train", tmp_path)
    problem = LinearProblem(X, y, np.inf, bias="regularised")
    solution = solve(problem, name, stop=Gap(1e-3) | Epochs(5000))
    assert solution.converged, solution.message
    check_certificate(problem, solution)


def test_newton_hands_over_to_dcd_while_nothing_separates():
    X, y = separable("free")
    problem = LinearProblem(X, np.where(np.arange(len(y)) % 7 == 0, -y, y), np.inf, bias="free")
    iterates, nothing = Newton().iterates(problem, rng=_core.Rng(3)), Certificate(np.inf, 0.0)
    expected = next(DualCoordinateDescent().iterates(problem, rng=_core.Rng(3))).alpha
    iterate, found = next(iterates), []
    for _ in range(40):
        if np.array_equal(iterate.alpha, expected):
            found.append(iterate.step)
        step, iterate = iterate.step, iterates.send(nothing)
        assert iterate.step == step + 1
    assert found == [11]


def real_data(name, tmp_path):
    folder = os.environ.get("BRIDLE_DATA")
    if not folder:
        pytest.skip("BRIDLE_DATA is not set")
    import lzma

    path = next((Path(folder) / "binary").glob(f"{name}*"))
    (tmp_path / name).write_bytes(lzma.decompress(path.read_bytes()))
    X, y = read_svmlight(tmp_path / name)
    return X, np.where(y > 0, 1.0, -1.0)


@pytest.mark.parametrize("name", ["dcd", "newton"])
def test_a9a(name, tmp_path):
    X, y = real_data("a9a", tmp_path)
    problem = LinearProblem(X[:5000], y[:5000], np.inf, bias="free")
    check_proof(problem, solve(problem, name, stop=Gap(1e-3) | Epochs(100)))


def test_no_proof_is_looked_for_among_independent_rows(monkeypatch):
    X, y = make_corpus(300)
    monkeypatch.setattr(separation, "_signed_rows", lambda *_: pytest.fail("rows of a text"))
    assert solve(LinearProblem(X, y, np.inf)).status is Status.CONVERGED


def test_a_class_without_weight_is_named():
    X, y = separable("free")
    with pytest.raises(ValueError, match=r"class -1 have weight 0"):
        solve(LinearProblem(X, y, np.inf, bias="free", sample_weight=np.where(y > 0, 1.0, 0.0)))


@pytest.mark.parametrize("name", SOLVERS)
def test_what_is_zero_but_for_rounding_proves_nothing(name):
    X, y = np.array([[1e6, 1e-7], [1e6, -1e-7]]), np.array([1.0, -1.0])
    problem = LinearProblem(X, y, np.inf)
    assert (y * (X @ [0.0, 1e7])).min() == 1  # separable
    solution = solve(problem, name, stop=Gap(1e-3) | Epochs(200))
    assert solution.proof is None
    assert solution.status is not Status.INFEASIBLE


def test_a_row_whose_length_underflows_is_not_empty():
    X, y = np.array([[1e-200, 0.0], [0.0, -1.0]]), np.array([1.0, -1.0])
    assert separation.infeasibility_proof(LinearProblem(X, y, np.inf), np.ones(2)) is None
    X = np.array([[1e-200, 1e-180], [1e-200, 1e-180]])
    proof = separation._combination_of_zero(LinearProblem(X, y, np.inf), np.arange(2))
    np.testing.assert_array_equal(proof, [0.5, 0.5])


def exactly_separable(Z):
    """Whether some w has w.z > 0 for all rows of two numbers, in fractions."""
    rows = [[Fraction(v) for v in z] for z in Z.tolist()]
    normals = [(s * -b, s * a) for a, b in rows for s in (1, -1)]
    candidates = [*rows, *((a + c, b + d) for (a, b), (c, d) in product(normals, repeat=2))]
    return any(all(v * a + w * b > 0 for a, b in rows) for v, w in candidates)


def test_proofs_exist_exactly_where_no_w_does():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        Z = rng.integers(-3, 4, (4, 2)) * 10.0 ** rng.integers(-9, 10, (1, 2))
        if rng.random() < 0.5:  # the last bit decides
            Z = np.nextafter(Z, rng.choice([-np.inf, np.inf], Z.shape))
        y = np.array([1.0, -1.0, 1.0, -1.0])
        problem = LinearProblem(y[:, np.newaxis] * Z, y, np.inf)
        proof = separation.infeasibility_proof(
            problem, np.ones(4) / np.linalg.norm(Z, axis=1).max()
        )
        assert proof is None or not exactly_separable(Z)
        found += proof is not None
    assert found > 30


def test_exact_combinations_of_zero():
    rng = np.random.default_rng(0)
    # Rows that no three decimal places tell from dependent ones, and rows that are dependent.
    for scale in (1e-20, 1.0, 1e20):
        a, b = scale * rng.normal(size=(2, 5))
        x = combination_of_zero(np.array([a, -a, b]), np.ones(3))
        np.testing.assert_array_equal(x, [0.5, 0.5, 0.0])
        np.testing.assert_allclose(
            combination_of_zero(np.array([a, -4 * a]), np.ones(2)), [0.8, 0.2]
        )
        assert combination_of_zero(np.array([a, np.nextafter(-a, 1)]), np.ones(2)) is None
        assert combination_of_zero(np.array([a, 2 * a]), np.ones(2)) is None  # of one sign
    # More conditions than rows, each a combination of a few.
    basis = rng.integers(-3, 4, (12, 8)).astype(object)
    last = -(np.arange(1, 13) @ basis)
    Z = np.vstack([basis, last]) @ rng.integers(-9, 10, (8, 40)).astype(object)
    fractions = np.array([[Fraction(int(v), 7) for v in row] for row in Z], object)
    weights = np.append(np.arange(1.0, 13.0), 1.0)
    for rows in (Z.astype(float), fractions):
        x = combination_of_zero(rows, weights)
        assert x is not None
        assert (x >= 0).all()
        assert np.abs(x @ Z.astype(float)).max() <= 1e-12 * np.abs(Z.astype(float)).max()
    # Square systems, enclosed in floating point, are those that fractions solve.
    Z = rng.normal(size=(40, 12))
    weights = separation._nearly_zero(Z, np.ones(40))
    support = np.flatnonzero(weights)
    exact = np.array([[Fraction(v) for v in row] for row in Z[support].tolist()], object)
    enclosed, lifted = (combination_of_zero(rows, weights[support]) for rows in (Z[support], exact))
    np.testing.assert_allclose(enclosed, lifted, rtol=1e-9)


def test_what_is_no_number_proves_nothing():
    X = np.array([[1.0, 0.0], [1.0, 0.0]])
    problem = LinearProblem(X, [1.0, -1.0], np.inf)
    assert separation.infeasibility_proof(problem, np.full(2, np.nan)) is None
    judged = problem.judge(Iterate(0, 0.0, np.zeros(2), 0.0, np.full(2, np.nan)))
    assert (judged.dual, judged.alpha.tolist()) == (0.0, [0.0, 0.0])
