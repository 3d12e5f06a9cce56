"""bridle compare: the numbers of its report, recomputed in NumPy; the command; peers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bridle import LinearProblem
from bridle.cli import main
from bridle.data import make_corpus, write_svmlight
from bridle.solvers.pegasos import Pegasos
from bridle.study.comparison import PEERS, compare
from click.testing import CliRunner

import matrix
import reference

SOLVERS = ("dcd", "ocas", "newton", "pegasos")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    X, y = make_corpus(900, seed=0)
    write_svmlight(folder / "train", X[:600], y[:600])
    write_svmlight(folder / "test", X[600:], y[600:])
    return folder


@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_the_reports_gaps_recomputed(bias):
    problem = matrix.small_problem(bias=bias, weighted=False)
    X_test, y_test = matrix.small_data(seed=5)
    result = compare(
        problem, SOLVERS, peers=["sklearn"], test=(X_test, y_test), gap=1e-3, max_seconds=5
    )
    report = json.loads(json.dumps(result.report()))
    assert [row["solver"] for row in report] == [*SOLVERS, "sklearn"]
    setting = {"bias": bias, "bias_scale": problem.bias_scale}
    cost = problem.C
    for run, row in zip(result.runs, report, strict=True):
        primal = reference.primal(problem.X, problem.y, run.w, run.b, cost, **setting)
        assert row["primal"] == pytest.approx(primal, rel=1e-9)
        if not run.is_peer:
            reference.assert_feasible(problem.y, run.alpha, cost)
            dual = reference.dual(problem.X, problem.y, run.alpha, cost, **setting)
            assert row["dual"] == pytest.approx(min(primal, dual), rel=1e-9)
        assert row["relative_gap"] == pytest.approx((row["primal"] - row["dual"]) / row["primal"])
        assert row["suboptimality"] == pytest.approx(primal / result.best_dual - 1, abs=1e-9)
        assert row["suboptimality"] >= -1e-9
        wrong = y_test * (X_test @ run.w + run.b) <= 0
        assert row["error_test"] == pytest.approx(wrong.mean())
        assert row["trace"][-1]["validation_error"] >= 0
        for record in row["trace"]:
            gap = (record["primal"] - record["dual"]) / record["primal"]
            assert record["relative_gap"] == pytest.approx(gap, abs=1e-12)


def test_the_best_bound_is_below_the_optimum():
    problem = matrix.small_problem()
    result = compare(problem, ["pegasos"], gap=0.3, max_seconds=5)
    assert result.best_dual >= max(run.certificate.dual for run in result.runs)
    optimum = compare(problem, ["newton"], gap=1e-9, max_seconds=5).runs[0].certificate.primal
    assert result.best_dual <= optimum * (1 + 1e-9)


def test_an_optimum_of_zero():
    problem = LinearProblem(np.eye(3), np.zeros(3), loss="squared")
    result = compare(problem, ["dcd"])
    assert result.best_dual == 0.0
    assert result.report()[0]["suboptimality"] == 0.0
    assert result.suboptimality(np.array([0.0, 1.0])).tolist() == [0.0, np.inf]
    assert isinstance(result.suboptimality(1.0), float)


def test_certifying_is_not_charged():
    problem = matrix.small_problem()
    run = compare(problem, {"slow": Pegasos(output="average")}, gap=1e-9, max_seconds=0.05).runs[0]
    assert run.name == "slow"
    assert run.seconds_certify > 0
    before = run.trace[-2].seconds_solver if len(run.trace) > 1 else 0.0
    assert before < 0.05 <= run.seconds


def test_the_command(files):
    picture = files / "out.png"
    arguments = [
        "compare", str(files / "train"), "--test", str(files / "test"), "--solvers",
        "dcd,ocas,pegasos:batch=10", "-c", "0.5", "--gap", "1e-2", "--max-seconds", "5",
        "--picture", str(picture),
    ]  # fmt: skip
    ran = CliRunner().invoke(main, [*arguments, "--json"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert [run["solver"] for run in report["runs"]] == ["dcd", "ocas", "pegasos:batch=10"]
    assert report["runs"][0]["relative_gap"] <= 1e-2
    assert report["picture"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = CliRunner().invoke(main, arguments)
    assert "certified gap" in table.stdout
    assert "ocas" in table.stdout


def test_errors_are_one_line(files):
    def fails(*more):
        ran = CliRunner().invoke(main, ["compare", str(files / "train"), *more])
        assert ran.exit_code == 2
        return ran.stderr

    assert "unknown solver 'nosuch'" in fails("--solvers", "nosuch")
    assert "unknown peer 'nosuch'" in fails("--peers", "nosuch")
    assert "norma cannot have bias='free'" in fails("--bias", "free", "--solvers", "norma")
    assert "there is no folder" in fails("--picture", str(files / "none" / "x.png"))


def test_more_than_two_classes_are_refused(tmp_path):
    write_svmlight(tmp_path / "three", np.eye(3), np.array([1.0, 2.0, 3.0]))
    ran = CliRunner().invoke(main, ["compare", str(tmp_path / "three")])
    assert ran.exit_code == 2
    assert "two classes, found 3" in ran.stderr


def test_peers_say_what_they_cannot_do():
    assert set(PEERS) == {"sklearn", "liblinear", "snapml"}
    X, y = matrix.small_data()
    with pytest.raises(ValueError, match="no free bias"):
        compare(LinearProblem(X, y, bias="free"), ["dcd"], peers=["sklearn"])
