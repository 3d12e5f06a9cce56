"""The path over C: every C between the ends is certified, and NumPy agrees."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from bridle import Epochs, Gap, LinearProblem, path, solve
from bridle.cli import main
from bridle.data import write_svmlight
from bridle.fitting.c_path import Sums, path_points
from click.testing import CliRunner

import matrix
import reference


@pytest.mark.parametrize("loss", sorted(set(reference.LOSSES) - {"perceptron", "one_class"}))
@pytest.mark.parametrize("bias", matrix.BIASES)
def test_every_C_is_certified(loss, bias):
    X, y = matrix.small_data(storage="csr-32")
    if loss in reference.RESIDUAL:
        y = matrix.targets_of(X)
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.0], len(y))
    found = path(X, y, 0.01, 1.0, gap=0.01, loss=loss, bias=bias, sample_weight=weights)
    assert found.complete
    assert found[0].low == 0.01
    assert found[-1].high == 1.0
    for before, after in itertools.pairwise(found):
        assert after.low <= before.high  # no hole
    for C in np.geomspace(0.01, 1.0, 25):
        solution, certificate = found.at(C)
        P = reference.primal(X, y, solution.w, solution.b, C * weights, loss=loss, bias=bias)
        assert certificate.primal == pytest.approx(P, rel=1e-9)
        assert certificate.relative_gap <= 0.01 * (1 + 1e-6)
        best = solve(
            LinearProblem(X, y, C, loss=loss, bias=bias, sample_weight=weights), stop=Gap(1e-6)
        )
        assert certificate.dual <= best.certificate.primal * (1 + 1e-9)
        assert certificate.primal <= best.certificate.primal * 1.011


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_dual_at_another_C_is_that_of_the_scaled_point(loss):
    problem = matrix.small_problem(loss)
    sums = Sums.of(problem, solve(problem, stop=Gap(1e-4)))
    solution = solve(problem, stop=Gap(1e-4))
    for factor in (0.5, 0.9, 1.0, 1.3, 4.0):
        C = factor * problem.C
        scales = np.linspace(0.0, 3.0, 30001)
        scales = scales[scales <= factor] if loss == "hinge" else scales
        w = reference.dense(problem.X).T @ (solution.alpha * problem.y)
        cost = C * problem.sample_weight
        used = solution.alpha > 0
        Q = np.sum(solution.alpha[used] ** 2 / (4 * cost[used])) if loss != "hinge" else 0.0
        brute = np.max(scales * solution.alpha.sum() - scales**2 * (0.5 * w @ w + Q))
        assert sums.certificate(C).dual == pytest.approx(brute, rel=1e-4)


def test_fewer_solves_for_a_looser_gap():
    X, y = matrix.small_data()
    loose, tight = path(X, y, 0.01, 1.0, gap=0.1), path(X, y, 0.01, 1.0, gap=0.01)
    assert len(loose) < len(tight) < 60
    assert str(loose).startswith(f"{len(loose)} solutions certify every C from 0.01 to 1")
    assert len(loose.errors(X, y)) == len(loose)


def test_a_time_limit_ends_the_path_early():
    X, y = matrix.small_data()
    short = path(X, y, 0.01, 100.0, gap=1e-6, max_seconds=0.0)
    assert not short.complete
    assert len(short) == 1
    assert str(short).startswith("no C is certified")
    # Nor is a path complete whose only solve, at both ends, stopped short.
    one = path(X, y, 1.0, 1.0, gap=1e-6, solver="pegasos", max_seconds=0.0)
    assert not one.complete


def test_the_same_points_for_any_number_of_threads():
    X, y = matrix.small_data(storage="csr-32")

    def points(n_threads):
        found = path(X, y, 0.01, 10.0, gap=0.02, n_threads=n_threads)
        assert found.complete
        return [(p.C, p.low, p.high, *p.solution.w, *p.solution.alpha) for p in found]

    alone = points(1)
    assert len(alone) > 8
    for n_threads in (2, 3, 8, 16):
        assert points(n_threads) == alone


def test_points_are_told_in_the_order_of_C_and_those_before_a_failure_are_kept():
    X, y = matrix.small_data()
    told = []
    found = path(X, y, 0.01, 10.0, gap=0.05, n_threads=3, callback=told.append)
    assert told == list(found)
    assert [point.C for point in told] == sorted(point.C for point in told)

    problem = LinearProblem(X, y, 0.01, n_threads=3)
    stop = Gap(0.05 / 4) | Epochs(9)
    points = list(path_points(problem, 1e4, 0.05, "dcd", stop, 0))
    *done, last = points
    assert len(done) >= 2
    assert not last.solution.converged
    for before, after in itertools.pairwise(done):
        assert after.low <= before.high


def test_bad_arguments():
    X, y = matrix.small_data()
    for ends in ((0, 1), (2, 1), (1, np.inf), (np.nan, 1)):
        with pytest.raises(ValueError, match="C_min <= C_max"):
            path(X, y, *ends)
    with pytest.raises(ValueError, match="gap must lie between 0 and 1"):
        path(X, y, 0.1, 1.0, gap=0)
    # Its dual has no term that grows with alpha: the sums would prove what is not true.
    with pytest.raises(ValueError, match="not perceptron"):
        path(X, y, 0.1, 1.0, loss="perceptron", solver="gd")
    with pytest.raises(ValueError, match="outside the path"):
        path(X, y, 0.1, 1.0, gap=0.1).at(2.0)


def test_command_line(tmp_path):
    X, y = matrix.small_data(storage="csr-32")
    data, picture = tmp_path / "train.svm", tmp_path / "path.png"
    write_svmlight(data, X, y)
    options = ["path", str(data), "--c-min", "0.01", "--c-max", "1", "--gap", "0.05", "--test",
               str(data), "--picture", str(picture), "--json"]  # fmt: skip
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["complete"]
    assert report["points"][0]["low"] == pytest.approx(0.01)
    assert all(0 <= p["relative_gap"] <= 0.05 for p in report["points"])
    assert all(0 <= p["error_test"] <= 1 for p in report["points"])
    assert picture.read_bytes().startswith(b"\x89PNG")
