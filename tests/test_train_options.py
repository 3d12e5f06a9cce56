"""`bridle train`: class weights, scaling, probabilities, ways to several classes, streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pytest
from bridle.cli import main
from bridle.data import read_svmlight, write_arrow, write_svmlight
from bridle.fitting.multiclass import solve_problems
from bridle.models.storage import load_model
from click.testing import CliRunner, Result
from scipy.sparse import csr_matrix
from scipy.sparse import random as sparse_random

BRIDLE = [sys.executable, "-m", "bridle.cli"]


def draw(n_classes: int, n_rows: int = 300, seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = csr_matrix(sparse_random(n_rows, 10, 0.5, random_state=rng), dtype=np.float32)
    truth = np.random.default_rng(9).normal(size=(10, n_classes))
    labels = (X @ truth + 0.3 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)
    return X, labels * 2.0 - 1 if n_classes == 2 else labels + 1.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, n_classes in (("two.svm", 2), ("three.svm", 3)):
        write_svmlight(folder / name, *draw(n_classes))
    X, y = draw(2)
    sizes = csr_matrix(10.0 ** np.arange(-4, 6), dtype=np.float32)
    write_svmlight(folder / "uneven.svm", X.multiply(sizes).tocsr(), y)
    return folder


def run(*arguments: Any, **options: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], **options)


def report(*arguments: Any, **options: Any) -> dict[str, Any]:
    result = run(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer_singer"])
@pytest.mark.parametrize("data", ["two.svm", "three.svm"])
def test_ways_to_several_classes(folder: Path, tmp_path: Path, data: str, multiclass: str) -> None:
    told = report("train", folder / data, tmp_path / "m", "--multiclass", multiclass, "--seed", 3)
    X, y = read_svmlight(folder / data)
    svc = bridle.LinearSVC(loss="hinge", multi_class=multiclass, random_state=3).fit(X, y)
    assert told["primal"] == pytest.approx(svc.certificate_.primal, rel=2e-3)
    model = load_model(tmp_path / "m")
    assert model.multi_class == multiclass
    assert told["error_train"] == np.mean(model.predict(X) != y) < 0.3
    again = report("certify", folder / data, tmp_path / "m", "--max-seconds", 5)
    assert again["primal"] == pytest.approx(told["primal"])
    assert again["relative_gap"] <= told["relative_gap"] + 1e-6
    accuracy = report("train", folder / data, "--multiclass", multiclass, "--folds", 4)["accuracy"]
    assert accuracy > 0.6


@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer_singer"])
@pytest.mark.parametrize("data", ["two.svm", "three.svm"])
def test_probabilities(
    folder: Path, tmp_path: Path, data: str, multiclass: str, method: str
) -> None:
    options = ("--multiclass", multiclass, "--probability", method)
    assert run("train", folder / data, tmp_path / "m", *options).exit_code == 0
    shown = run("predict", folder / data, tmp_path / "m", "--probability")
    found = np.array([line.split() for line in shown.stdout.splitlines()], float)
    X, y = read_svmlight(folder / data)
    classes = np.unique(y)
    assert found.shape == (len(y), len(classes))
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(
        found, load_model(tmp_path / "m").to_estimator().predict_proba(X), atol=1e-12
    )
    own = found[np.arange(len(y)), np.searchsorted(classes, y)]
    prior = np.bincount(np.searchsorted(classes, y)) / len(y)
    # Better than the shares of the classes, by far: cross-entropy in nats.
    assert -np.log(np.maximum(own, 1e-3)).mean() < 0.75 * -np.sum(prior * np.log(prior))


def test_weights_of_rows_count_in_probabilities_and_accuracies(tmp_path: Path) -> None:
    """A row of weight two is two rows, and one of weight zero is none."""
    X, y = draw(2, 200)
    weight = np.where(y > 0, 3.0, 1.0)
    weight[:20] = 0.0
    write_arrow(tmp_path / "d.arrow", X, y, weight=weight)
    run("train", tmp_path / "d.arrow", tmp_path / "m", "--probability", "platt", "--seed", 3)
    found = load_model(tmp_path / "m").predict_proba(X)
    svc = bridle.LinearSVC(loss="hinge", probability="platt", random_state=3).fit(
        X, y, sample_weight=weight
    )
    np.testing.assert_allclose(found, svc.predict_proba(X), atol=1e-3)
    told = report("train", tmp_path / "d.arrow", "--folds", 5, "--seed", 3)
    total = told["accuracy"] * weight.sum()
    assert total == pytest.approx(round(total))


@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_the_proof_of_pairs(folder: Path, tmp_path: Path, bias: str) -> None:
    """The dual variables of each pair give its weights, and rows of other classes have none."""
    report("train", folder / "three.svm", tmp_path / "m", "--multiclass", "ovo", "--proof",
           "--weight", "2=3", "--bias", bias)  # fmt: skip
    model = load_model(tmp_path / "m")
    X, y = read_svmlight(folder / "three.svm")
    for k, (i, j) in enumerate([(1, 2), (1, 3), (2, 3)]):
        signs = 1.0 * (y == i) - (y == j)
        assert not model.alpha[k][signs == 0].any()
        assert (model.alpha[k] <= np.where(y == 2, 3.0, 1.0) + 1e-9).all()
        w = X.T @ (model.alpha[k] * signs)
        b = (model.alpha[k] @ signs) if bias == "regularised" else 0.0
        dual = model.alpha[k].sum() - 0.5 * (w @ w + b * b)
        assert dual == pytest.approx(model.certificates[k].dual, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "share"), [([], 3.0), (["--probability", "platt"], 0.5), (["--folds", "4"], 0.75)]
)
def test_seconds_are_for_all_fits_together(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], share: float
) -> None:
    given = []

    def spied(problems: Any, effort: Any, **options: Any) -> Any:
        given.append(effort.stop)
        return solve_problems(problems, effort, **options)

    monkeypatch.setattr("bridle.fitting.multiclass.solve_problems", spied)
    monkeypatch.setattr("bridle.fitting.fit.solve_problems", spied)
    run("train", folder / "two.svm", tmp_path / "m", "--max-seconds", 3, *options)
    seconds = [rule.s for stop in given for rule in stop.rules if isinstance(rule, bridle.Seconds)]
    assert seconds == [share] * round(3 / share)


def test_probabilities_need_to_be_trained(folder: Path, tmp_path: Path) -> None:
    assert run("train", folder / "two.svm", tmp_path / "m").exit_code == 0
    told = run("predict", folder / "two.svm", tmp_path / "m", "--probability")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "train it with --probability platt" in told.stderr


@pytest.mark.parametrize(
    "kernel", [[], ["--kernel", "rbf", "--gamma", "0.3"]], ids=["linear", "rbf"]
)
def test_scaling_is_part_of_the_model(folder: Path, tmp_path: Path, kernel: list[str]) -> None:
    """Features of sizes from 1e-4 to 1e5: with --scale they are as good as even ones."""
    told = report("train", folder / "uneven.svm", tmp_path / "m", "--scale", *kernel)
    X, y = read_svmlight(folder / "uneven.svm")
    largest = np.abs(X.toarray()).max(axis=0)
    write_svmlight(tmp_path / "even.svm", X.multiply(1 / largest).tocsr().astype(np.float32), y)
    even = report("train", tmp_path / "even.svm", tmp_path / "e", *kernel)
    assert told["primal"] == pytest.approx(even["primal"], rel=1e-3)
    assert told["error_train"] == pytest.approx(even["error_train"], abs=0.01)
    # The data as they are go in; the certificate is of the scaled problem.
    assert (
        report("predict", folder / "uneven.svm", tmp_path / "m")["error_test"]
        == told["error_train"]
    )
    told_svmlight = run("export", tmp_path / "m", tmp_path / "m.svmlight")
    if kernel:
        assert "divides features by their scale" in told_svmlight.stderr
    else:
        assert told_svmlight.exit_code == 0
        again = report("certify", folder / "uneven.svm", tmp_path / "m")
        assert again["primal"] == pytest.approx(told["primal"], rel=1e-6)
        assert again["relative_gap"] <= told["relative_gap"] + 1e-9
        scores = X.toarray() @ load_model(tmp_path / "m").coef[0]
        assert np.isfinite(scores).all()


def test_class_weights(folder: Path, tmp_path: Path) -> None:
    """A weight of 3 is three copies."""
    X, y = read_svmlight(folder / "two.svm")
    heavy = y == 1
    rows = np.concatenate([np.arange(len(y)), *[np.flatnonzero(heavy)] * 2])
    write_svmlight(tmp_path / "copies.svm", X[rows], y[rows])
    weighted = report("train", folder / "two.svm", tmp_path / "m", "--weight", "1=3", "--gap", 1e-6)
    copies = report("train", tmp_path / "copies.svm", tmp_path / "n", "--gap", 1e-6)
    assert weighted["primal"] == pytest.approx(copies["primal"], rel=1e-5)
    assert report("certify", folder / "two.svm", tmp_path / "m")["primal"] == pytest.approx(
        weighted["primal"]
    )
    for text, message in (
        ("2=3", "one of the labels -1, 1"), ("1", "expected LABEL=W"), ("1=0", "positive"),
        ("1=x", "positive"), ("1=nan", "positive"),
    ):  # fmt: skip
        told = run("train", folder / "two.svm", "--weight", text)
        assert (told.exit_code, message in told.stderr) == (2, True)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo", "crammer_singer"])
def test_class_weights_are_those_of_the_estimator(
    folder: Path, tmp_path: Path, multiclass: Any
) -> None:
    """They multiply C for the rows of the class, in every problem."""
    X, y = read_svmlight(folder / "three.svm")
    line = ["--weight", "2=3", "--multiclass", multiclass, "--gap", 1e-6]
    told = report("train", folder / "three.svm", tmp_path / "m", *line)
    svc = bridle.LinearSVC(
        loss="hinge", class_weight={2: 3.0}, multi_class=multiclass, tol=1e-6
    ).fit(X, y)
    assert told["primal"] == pytest.approx(svc.certificate_.primal, rel=1e-5)
    svc.save(tmp_path / "n")
    for model in ("m", "n"):
        again = report("certify", folder / "three.svm", tmp_path / model)
        assert again["primal"] == pytest.approx(told["primal"], rel=1e-5)
        assert again["trained_on_these_data"]


@pytest.mark.parametrize("arguments", [
    ["--kernel", "rbf", "--multiclass", "crammer_singer"], ["--kernel", "rbf", "--folds", "3"],
    ["--multiclass", "crammer_singer", "--proof"],
    ["--multiclass", "crammer_singer", "--bias", "free"], ["--solver", "bcfw"],
    ["--multiclass", "crammer_singer", "--loss", "squared_hinge"], ["--folds", "1"],
    ["--folds", "3", "--probability", "platt"], ["--search-c", "--trace", "t.csv"],
    ["--rate", "constant"], ["--block", "10"],
])  # fmt: skip
def test_what_does_not_go_together(folder: Path, tmp_path: Path, arguments: list[str]) -> None:
    told = run("train", folder / "three.svm", tmp_path / "m", *arguments)
    assert told.exit_code == 2, told.output
    assert isinstance(told.exception, SystemExit)
    assert not (tmp_path / "m").exists()


def test_an_unknown_solver_lists_those_of_its_kind(folder: Path) -> None:
    for options, known, unknown in (
        ([], "dcd", "bcfw"), (["--kernel", "rbf"], "smo", "dcd"),
        (["--multiclass", "crammer_singer"], "bcfw", "smo"),
    ):  # fmt: skip
        told = run("train", folder / "two.svm", "--solver", "magic", *options).stderr
        names = told.partition("known: ")[2].strip().split(", ")
        assert known in names
        assert unknown not in names


# Streams.


def test_a_stream_on_standard_input(folder: Path, tmp_path: Path) -> None:
    text = (folder / "three.svm").read_bytes()
    told = run("train", "-", tmp_path / "m", "--block", 50, input=text * 10)
    assert told.exit_code == 0, told.output
    assert "model written to" in told.stdout
    notes = told.stderr.splitlines()
    assert notes[0] == "50 rows, 10 features"
    assert len(notes) == len(set(notes))
    assert notes[-1].startswith("3,000 rows, 10 features: progressive error ")
    X, y = read_svmlight(folder / "three.svm")
    online = bridle.OnlineSVM([1, 2, 3], 1e-4)
    for _ in range(10):
        for first in range(0, 300, 50):
            online.learn(X[first : first + 50], y[first : first + 50])
    np.testing.assert_array_equal(load_model(tmp_path / "m").coef, online.coef)
    assert f"progressive error {100 * online.progressive_error:.2f} %" in notes[-1]
    report = json.loads(
        run(
            "train", "-", tmp_path / "m", "--rate", "constant", "--quiet", "--json", input=text
        ).stdout
    )
    assert report["rate"] == "constant"
    assert report["rows"] == 300
    error = json.loads(run("predict", folder / "three.svm", tmp_path / "m", "--json").stdout)
    assert error["error_test"] < 0.35


def test_a_bad_stream_is_one_line_that_names_the_line(tmp_path: Path) -> None:
    good = b"1 1:1\n-1 2:1\n" * 10
    for text, options, message in (
        (good + b"1 1:x\n", [], "standard input:21:5: expected a value"),
        (good + b"7 1:1\n", ["--classes", "1,-1"], "7.0 is none of the classes"),
        (b"", [], "no rows to learn from"), (b"# nothing\n\n", [], "no rows to learn from"),
        (b"1 1:1\n" * 5, [], "name all labels with --classes"),
        (good, ["--classes", "a,b"], "expected numbers"), (good, ["--bias", "free"], "or none"),
        (good, ["-c", 1], "give --lam"), (good, ["--scale"], "learned without --scale"),
        (good, ["--solver", "dcd"], "learned without --solver"),
    ):  # fmt: skip
        told = run("train", "-", tmp_path / "m", "--quiet", *options, input=text)
        assert told.exit_code == 2, text
        assert message in told.stderr
        assert not (tmp_path / "m").exists()
    told = run("train", "-", tmp_path / "m", "--classes", "1,-1,7", input=good + b"7 1:1\n")
    assert told.exit_code == 0
    assert load_model(tmp_path / "m").classes.tolist() == [-1, 1, 7]


def test_a_bad_line_does_not_lose_what_was_learned_before_it(tmp_path: Path) -> None:
    good = b"1 1:1\n-1 2:1\n" * 10
    assert run("train", "-", tmp_path / "want", "--block", 5, input=good).exit_code == 0
    for bad, message in (
        (b"1 1:1\n1 1:x\n", "standard input:22:5: expected a value"),
        (b"7 1:1\n", "7.0 is none of the classes"),
    ):
        told = run("train", "-", tmp_path / "m", "--block", 5, "--quiet", input=good + bad)
        assert told.exit_code == 2
        assert message in told.stderr
        assert f"{tmp_path / 'm'} has what was learned from the first 20 rows" in told.stderr
        found, wanted = load_model(tmp_path / "m"), load_model(tmp_path / "want")
        np.testing.assert_array_equal(found.coef, wanted.coef)
        (tmp_path / "m").unlink()


def test_ctrl_c_ends_a_stream_with_a_model(tmp_path: Path) -> None:
    command = [*BRIDLE, "train", "-", tmp_path / "m", "--block", "10", "--json"]
    run = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert run.stdin is not None
    assert run.stderr is not None
    run.stdin.write(b"1 1:1\n-1 2:1\n" * 10)
    run.stdin.flush()
    assert b"rows" in run.stderr.readline()  # it has begun to learn
    time.sleep(0.2)  # now it waits for more
    os.kill(run.pid, signal.SIGINT)
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 3
    assert json.loads(output)["status"] == "interrupted"
    assert load_model(tmp_path / "m").classes.tolist() == [-1, 1]


# Shells.


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    code = "from bridle.cli import main; main(prog_name='bridle')"
    found = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"_BRIDLE_COMPLETE": f"{shell}_source"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "_BRIDLE_COMPLETE" in found.stdout, found.stderr


@pytest.mark.parametrize(("words", "expected"), [
    ("bridle tr", "train"), ("bridle train --mul", "--multiclass"),
    ("bridle train --bias ", "regularised"), ("bridle export m o --format li", "liblinear"),
])  # fmt: skip
def test_completion(words: str, expected: str) -> None:
    code = "from bridle.cli import main; main(prog_name='bridle')"
    n = words.count(" ")
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=os.environ | {"_BRIDLE_COMPLETE": "bash_complete", "COMP_WORDS": words,
                          "COMP_CWORD": str(n)},
    )  # fmt: skip
    assert f"plain,{expected}" in found.stdout.splitlines(), found.stderr


def test_help_shows_examples() -> None:
    told = run("train", "--help").stdout
    for line in ("bridle train - log.model", "-s 3 -c 1 -B 1", "--hash-bits 18"):
        assert line.replace("bridle train - log", "| bridle train - log") in told


HOVERING = ("--solver", "sgd", "--set", "rate=constant", "--set", "eta0=0.5", "--gap", 0)


def test_the_final_weights_are_written_on_request(folder: Path, tmp_path: Path) -> None:
    line = ("train", folder / "two.svm", tmp_path / "m", *HOVERING, "--max-epochs", 7)
    told = {}
    for keep in ("best", "final"):
        trace = tmp_path / f"{keep}.jsonl"
        result = run(*line, "--keep", keep, "--trace", trace, "--json")
        assert result.exit_code == 3, result.output
        told[keep] = json.loads(result.stdout)
        assert load_model(tmp_path / "m").certificate.primal == told[keep]["primal"]
    records = [json.loads(row) for row in trace.read_text().splitlines()]
    assert told["final"]["primal"] == records[-1]["primal_now"]
    assert told["best"]["primal"] == min(record["primal_now"] for record in records)
    assert told["final"]["dual"] == told["best"]["dual"] == records[-1]["dual"]
    refused = run("train", "-", tmp_path / "m", "--lam", 1, "--keep", "final")
    assert refused.exit_code == 2
    assert "--keep" in refused.stderr


def test_stops_by_rules(folder: Path, tmp_path: Path) -> None:
    line = ("train", folder / "two.svm", tmp_path / "m", "--solver", "dcd")
    optimum = report(*line, "--gap", 1e-8)["primal"]
    near = report(*line, "--stop", f"suboptimality=0.05:{optimum!r}")
    assert near["primal"] <= 1.05 * optimum
    assert "above the optimum given" in near["message"]
    assert load_model(tmp_path / "m").info["stop"] == [f"suboptimality=0.05:{optimum!r}"]
    dual = report(*line, "--stop", "gap=0.1:dual")
    assert dual["primal"] / dual["dual"] - 1 <= 0.1
    assert dual["message"].endswith("of the dual value; asked for 1.0e-01")
    either = report(*line, "--stop", "gap=1e-9", "--stop", "gap=0.3")
    assert 1e-9 < either["relative_gap"] <= 0.3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--stop", "gap"), "not a number"),
        (("--stop", "gap=nan"), "not a number"),
        (("--stop", "gap=-1"), "not in the range"),
        (("--stop", "gap=0.1:both"), "expected gap=TOL"),
        (("--stop", "suboptimality=0.1"), "expected gap=TOL"),
        (("--stop", "suboptimality=0.1:inf"), "expected gap=TOL"),
        (("--stop", "gap=0.1", "--gap", "0.1"), "--stop is instead of --gap"),
        (("--stop", "gap=0.1", "--folds", "3"), "give --gap"),
    ],
)
def test_bad_rules(folder: Path, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    target = () if "--folds" in arguments else (tmp_path / "m",)
    refused = run("train", folder / "two.svm", *target, *arguments)
    assert refused.exit_code == 2
    assert said in " ".join(refused.stderr.split())


def test_an_optimum_is_of_one_problem(folder: Path, tmp_path: Path) -> None:
    refused = run("train", folder / "three.svm", tmp_path / "m", "--stop", "suboptimality=0.1:9")
    assert refused.exit_code == 2
    assert "suboptimality is of one problem, and there are 3" in refused.stderr


def test_parts_of_epochs_and_steps(folder: Path, tmp_path: Path) -> None:
    line = ("train", folder / "two.svm", tmp_path / "m", "--solver", "pegasos", "--json")
    few = run(*line, "--max-epochs", 0.01)
    assert few.exit_code == 3, few.output
    assert json.loads(few.stdout)["epochs"] == 3 / 300
    batches = run(*line, "--max-epochs", 5, "--set", "batch=7")
    assert json.loads(batches.stdout)["epochs"] == 215 * 7 / 300
    steps = run(*line, "--max-steps", 17)
    assert json.loads(steps.stdout)["epochs"] == 17 / 300
    assert "after 17 steps" in json.loads(steps.stdout)["message"]


@pytest.mark.parametrize("solver", ["perceptron", "margin-perceptron"])
def test_a_perceptron_that_separates_has_done_its_work(tmp_path: Path, solver: str) -> None:
    X, _ = draw(2)
    score = X @ np.arange(1.0, 11.0) - 9.0
    clear = np.abs(score) > 2
    write_svmlight(tmp_path / "d.svm", X[clear], np.sign(score[clear]))
    told = report("train", tmp_path / "d.svm", tmp_path / "m", "--solver", solver, "--gap", 1e-9)
    assert told["status"] == "separated"
    assert told["error_train"] == 0
    assert "separate" in told["message"]
