"""LIBLINEAR's dialect: what its users mean is what is minimised, and it is said in our words."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle.cli import main
from bridle.cli.dialect import DialectError, translate
from bridle.data import make_corpus, write_svmlight
from bridle.exchange import import_model
from bridle.fitting import folds
from bridle.models.storage import load_model
from click.testing import CliRunner, Result
from scipy.sparse import csr_matrix
from scipy.sparse import random as sparse_random

needs_liblinear = pytest.mark.skipif(
    shutil.which("liblinear-train") is None, reason="needs Debian's liblinear-tools"
)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def draw(n_classes: int, n_rows: int = 150) -> tuple[csr_matrix, np.ndarray]:
    rng = np.random.default_rng(n_classes)
    X = csr_matrix(sparse_random(n_rows, 10, 0.5, random_state=rng), dtype=np.float32)
    truth = rng.normal(size=(10, n_classes))
    labels = (X @ truth + 0.3 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)
    return X, labels * 2.0 - 1 if n_classes == 2 else labels + 1.0


@pytest.mark.parametrize(
    ("line", "native"),
    [
        ("-s 3 d", "--loss hinge --bias none d"),
        ("-q d", "--quiet d"),
        ("-s 1 -B 1 d m", "--loss squared_hinge --bias regularised d m"),
        ("-s 2 -B 2.5 d", "--loss squared_hinge --bias regularised --bias-scale 2.5 d"),
        ("-s 4 -B 0 d", "--loss hinge --multiclass crammer_singer --bias none d"),
        ("-s 3 -B 1 -R d", "--loss hinge --bias free d"),
        ("-v 5 -C d", "--loss squared_hinge --bias none --folds 5 --search-c d"),
        ("-s 3 -c 2 -w1 2 -w-1 0.5 -e 0.01 d m", "--loss hinge --bias none --weight 1=2 "
         "--weight -1=0.5 --gap 0.001 -c 2 d m"),
        ("-s 5 d", "--loss squared_hinge --penalty l1 --bias none d"),
        ("-s 6 -b 1 -B 1 d", "--loss logistic --penalty l1 --bias regularised d"),
        ("-s 0 -b 1 d", "--loss logistic --bias none d"),
        ("-s 7 -B 1 d", "--loss logistic --bias regularised d"),
        ("-s 11 d", "--loss squared_epsilon_insensitive:epsilon=0.1 --bias none d"),
        ("-s 12 -p 0 d", "--loss squared_epsilon_insensitive:epsilon=0.0 --bias none d"),
        ("-s 13 -p 0.5 d", "--loss epsilon_insensitive:epsilon=0.5 --bias none d"),
        ("-w1 0.123456789 -B 1.23456789 d", "--loss squared_hinge --bias regularised --bias-scale "
         "1.23456789 --weight 1=0.123456789 d"),
    ],
)  # fmt: skip
def test_translation(line: str, native: str) -> None:
    assert translate(line.split()).arguments == native.split()


@pytest.mark.parametrize("line", ["d m -c 1", "d --gap 1e-3 --json", "-h", "", "-- -s 3", "-"])
def test_what_is_native_stays(line: str) -> None:
    found = translate(line.split())
    assert (found.arguments, found.native) == (line.split(), [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-s 21 -R", "-s 21 has an offset of its own"), ("-s 21 -n x", "-n: expected a number"),
        ("-n 0.5", "one-class"), ("-s 13 -p x", "-p: expected a number"),
        ("-s 99", "no solver of LIBLINEAR's"),
        ("-s x", "-s: expected the number of a solver"), ("-B x", "-B: expected a number"),
        ("-s", "-s: expected a value"), ("-wx 2", "-wx: expected a label"),
        ("-p 1", "-p is for regression"),
        ("-R", "needs one, -B 1"), ("-w1 x", "-w1: expected a number"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DialectError, match=re.escape(message)):
        translate(line.split())
    (tmp_path / "d").write_text("1 1:1\n-1 2:1\n")
    told = run("train", tmp_path / "d", *line.split())
    assert told.exit_code == 2
    assert message in told.stderr
    assert told.stderr.count("\n") == 1


def objective(
    coef: np.ndarray, b: np.ndarray, X: csr_matrix, y: np.ndarray, options: dict[str, Any]
) -> float:
    """What is minimised, summed over the classes: without weights, LIBLINEAR's objective."""
    dense, labels = X.toarray().astype(np.float64), np.unique(y)
    scores = dense @ coef.T + b
    C, B, weight = options["c"], options["B"], options["w"]
    # An intercept is a weight of the constant feature B, part of the norm.
    joined = np.column_stack([coef, b / B]) if B > 0 else coef
    value = np.abs(joined).sum() if options["s"] in (5, 6) else 0.5 * np.sum(joined**2)
    if options["s"] == 4:
        if len(labels) == 2:  # two weight vectors, -w/2 and w/2
            value /= 2
            scores = np.column_stack([-scores / 2, scores / 2])
        own = scores[np.arange(len(y)), np.searchsorted(labels, y)][:, None]
        margins = np.where(labels == y[:, None], -np.inf, 1 + scores - own).max(axis=1)
        rows = np.array([weight.get(label, 1.0) for label in y])
        return float(value + C * rows @ np.maximum(0, margins))
    positives = labels[1:] if len(coef) == 1 else labels
    for k, positive in enumerate(positives):
        rows = np.array([weight.get(label, 1.0) for label in y])
        margin = np.where(y == positive, 1, -1) * scores[:, k]
        slack = np.maximum(0, 1 - margin)
        own = np.log1p(np.exp(-margin)) if options["s"] in (0, 6, 7) else slack**2
        value += C * rows @ (slack if options["s"] == 3 else own)
    return float(value)


@needs_liblinear
@pytest.mark.parametrize("bias", [-1, 1, 3])
@pytest.mark.parametrize("solver", [0, 1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_objective_is_liblinears(
    tmp_path: Path, n_classes: int, solver: int, bias: int
) -> None:
    """Both minimise the same function: neither is below the other by more than the proven gap."""
    X, y = draw(n_classes)
    write_svmlight(tmp_path / "d", X, y)
    # Of several classes LIBLINEAR weighs each in its own problem alone.
    alike = n_classes == 2 or solver == 4
    options = ["-s", solver, "-c", 0.7, "-B", bias, "-e", 0.0001, *(["-w1", 3] if alike else [])]
    theirs = ["liblinear-train", "-q", *map(str, options), tmp_path / "d", tmp_path / "theirs"]
    subprocess.run(theirs, check=True, capture_output=True)
    told = run("train", *options, tmp_path / "d", tmp_path / "ours", "--json")
    assert told.exit_code == 0, told.output
    ours, peer = load_model(tmp_path / "ours"), import_model(tmp_path / "theirs", 0.7)
    setting = {"s": solver, "c": 0.7, "B": bias, "w": {1.0: 3.0} if alike else {}}
    found = objective(ours.coef, ours.intercept, X, y, setting)
    other = objective(peer.coef, peer.intercept, X, y, setting)
    assert json.loads(told.stdout)["primal"] == pytest.approx(found, rel=1e-5)
    assert json.loads(told.stdout)["relative_gap"] <= 1e-5
    assert found == pytest.approx(other, rel=2e-4)
    assert found * (1 - 1.1e-5) <= other
    # The class weights are in the file, so that it can be certified.
    again = run("certify", tmp_path / "d", tmp_path / "ours", "--json")
    assert json.loads(again.stdout)["primal"] == pytest.approx(found, rel=1e-5)
    assert json.loads(again.stdout)["relative_gap"] <= 2e-5


@needs_liblinear
@pytest.mark.parametrize("solver", [11, 12, 13])
def test_the_objective_of_regression_is_liblinears(tmp_path: Path, solver: int) -> None:
    X, _ = draw(2)
    y = np.asarray(X @ np.arange(10.0)) + np.random.default_rng(0).normal(size=X.shape[0])
    write_svmlight(tmp_path / "d", X, y)
    options = ["-s", solver, "-c", 0.7, "-B", 1, "-e", 0.0001, "-p", 0.3]
    theirs = ["liblinear-train", "-q", *map(str, options), tmp_path / "d", tmp_path / "theirs"]
    subprocess.run(theirs, check=True, capture_output=True)
    told = run("train", *options, tmp_path / "d", tmp_path / "ours", "--json")
    assert told.exit_code == 0, told.output

    def value(model: Any) -> float:
        beyond = np.maximum(0, np.abs(X @ model.coef + model.intercept - y) - 0.3)
        norm = 0.5 * (model.coef @ model.coef + model.intercept**2)
        return float(norm + 0.7 * np.sum(beyond if solver == 13 else beyond**2))

    found = value(load_model(tmp_path / "ours"))
    other = value(import_model(tmp_path / "theirs", 0.7, epsilon=0.3))
    assert json.loads(told.stdout)["primal"] == pytest.approx(found, rel=1e-5)
    assert found == pytest.approx(other, rel=2e-4)
    assert found * (1 - 1.1e-5) <= other


def test_it_says_the_native_options(tmp_path: Path) -> None:
    X, y = draw(2)
    write_svmlight(tmp_path / "d", X, y)
    line = ["-s", 3, "-c", 1, "-B", 1, "-e", 0.01, "-w1", 2]
    told = run("train", *line, tmp_path / "d", tmp_path / "m")
    assert told.stderr == (
        "bridle: LIBLINEAR's options stand for: "
        "--loss hinge --bias regularised --weight 1=2 --gap 0.001\n"
    )
    native = told.stderr.partition("for: ")[2].split()
    again = run("train", *native, "-c", 1, tmp_path / "d", tmp_path / "n")
    assert again.stderr == ""
    np.testing.assert_array_equal(load_model(tmp_path / "m").coef, load_model(tmp_path / "n").coef)
    silent = run("train", "-q", tmp_path / "d", tmp_path / "m")
    assert (silent.exit_code, silent.output) == (0, "")


@needs_liblinear
@pytest.mark.parametrize("n_classes", [2, 4])
def test_cross_validation_prints_its_line_and_writes_no_model(
    tmp_path: Path, n_classes: int
) -> None:
    X, y = draw(n_classes, 400)
    write_svmlight(tmp_path / "d", X, y)
    told = run("train", "-s", 3, "-v", 5, "-q", tmp_path / "d", tmp_path / "m")
    assert (told.exit_code, told.output) == (0, "")
    told = run("train", "-s", 3, "-v", 5, tmp_path / "d", tmp_path / "m")
    theirs = subprocess.run(
        ["liblinear-train", "-q", "-s", "3", "-v", "5", tmp_path / "d"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    pattern = r"^Cross Validation Accuracy = (\S+)%$"
    found, other = (re.findall(pattern, text, re.M) for text in (told.stdout, theirs.stdout))
    assert float(found[0]) == pytest.approx(float(other[0]), abs=4)  # other folds
    assert not (tmp_path / "m").exists()


def test_the_search_for_c(tmp_path: Path) -> None:
    X, y = draw(2, 200)
    write_svmlight(tmp_path / "d", X, y)
    told = run("train", "-s", 2, "-C", "-v", 3, tmp_path / "d")
    *tried, best = told.stdout.splitlines()
    accuracies = {float(line.split()[2]): float(line.split()[-1].rstrip("%")) for line in tried}
    C, accuracy = re.fullmatch(r"Best C = (\S+)  CV accuracy = (\S+)%", best).groups()  # type: ignore[union-attr]
    assert accuracies[float(C)] == float(accuracy) == max(accuracies.values())
    assert not (tmp_path / "d.model").exists()
    report = json.loads(run("train", tmp_path / "d", "--search-c", "-c", 0.5, "--json").stdout)
    assert min(part["C"] for part in report["tried"]) == 0.5


def test_the_search_for_c_goes_on_while_c_makes_no_difference(tmp_path: Path) -> None:
    X, y = make_corpus(300, n_features=500, seed=0)  # a small C: every model says the larger class
    write_svmlight(tmp_path / "d", X, y)
    told = run("train", tmp_path / "d", "--search-c", "--folds", 3, "--json")
    report = json.loads(told.stdout)
    first = [part["accuracy"] for part in report["tried"][:5]]
    assert len(set(first)) == 1
    assert report["accuracy"] > first[0] + 0.2


@pytest.mark.parametrize("solved", [0, 2])
def test_ctrl_c_in_a_cross_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solved: int
) -> None:
    """No accuracy of folds that were never solved."""
    X, y = draw(2, 200)
    write_svmlight(tmp_path / "d", X, y)
    plain, calls = folds.solve_multiclass, 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > solved:
            options["watch"] = lambda k, record: os.kill(os.getpid(), signal.SIGINT)
        return plain(*arguments, **options)

    monkeypatch.setattr(folds, "solve_multiclass", interrupted)
    line = ["train", tmp_path / "d", "--gap", 1e-12, "--solver", "pegasos", "--folds", 3]
    told = run(*line, "--max-epochs", 20)
    assert (told.exit_code, told.stdout) == (3, "")
    assert "no accuracy" in told.stderr
    calls = 0
    report = json.loads(run(*line, "--max-epochs", 20, "--json").stdout)
    assert (report["accuracy"], report["status"]) == (None, "interrupted")
    calls = 0 if solved == 0 else -1  # the folds of the first C, then those of the second
    searched = run(*line, "--max-epochs", 20, "--search-c", "-c", 0.5)
    assert searched.exit_code == 3
    assert "stopped by Ctrl-C at C = " in searched.stderr
    assert searched.stdout.count("Best C = 0.5") == (solved > 0)
    assert "-100" not in searched.stdout
