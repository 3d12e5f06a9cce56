"""The matrix of oracles: each against brute force, and under every solver against the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Epochs, Gap, solve
from bridle.structured import StructuredProblem, check_oracle
from bridle.structured.sparse import sparse_vector

from structured_cases import ORACLES, exact_optimum, plain_primal
from test_structured import GAPS, NAMES


@pytest.mark.parametrize("oracle", ORACLES)
def test_argmax_equals_brute_force(oracle):
    oracle, X, Y = ORACLES[oracle]()
    report = check_oracle(oracle, zip(X, Y, strict=True), n_weights=4)
    assert report, report
    assert report.n_brute_force == len(X)


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_batch_is_one_after_the_other(oracle):
    oracle, X, Y = ORACLES[oracle]()
    if not hasattr(oracle, "argmax_batch"):
        pytest.skip("this oracle has no batches")
    w = np.random.default_rng(0).normal(size=oracle.n_features)
    for truths in (None, Y):
        alone = [oracle.argmax(x, w, *([] if truths is None else [truths[i]]))
                 for i, x in enumerate(X)]  # fmt: skip
        batch = oracle.argmax_batch(X, w, truths)
        for x, a, b in zip(X, alone, batch, strict=True):
            pair = [sparse_vector(oracle.features(x, y), oracle.n_features) for y in (a, b)]
            np.testing.assert_array_equal(pair[0].indices, pair[1].indices)
            np.testing.assert_array_equal(pair[0].values, pair[1].values)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("name", NAMES)
def test_every_solver_reaches_the_optimum(oracle, name):
    problem = StructuredProblem(*ORACLES[oracle](), C=0.3)
    solution = solve(problem, name, stop=Gap(GAPS.get(name, 1e-4)) | Epochs(3000))
    optimum, _ = exact_optimum(problem)
    assert solution.converged, solution.message
    assert solution.certificate.dual <= optimum * (1 + 1e-9)
    assert solution.certificate.primal >= optimum * (1 - 1e-9)
    assert plain_primal(problem, solution.w) == pytest.approx(solution.certificate.primal, rel=1e-9)
