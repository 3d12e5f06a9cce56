"""Every loss on the command line: the loss says whether labels are classes or numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pytest
from bridle.cli import main
from bridle.cli.settings import make_loss
from bridle.data import write_svmlight
from bridle.models.storage import load_model
from bridle.objective.losses import LOSSES
from click.testing import CliRunner, Result
from scipy.sparse import csr_matrix
from sklearn import svm

import reference

NUMBERS = sorted(reference.RESIDUAL)
LABELS = sorted(set(reference.LOSSES) - reference.RESIDUAL - {"perceptron", "one_class"})


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def report(*arguments: Any, code: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout, parse_constant=pytest.fail)


def draw(seed: int) -> tuple[csr_matrix, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(120, 8)) * (rng.random((120, 8)) < 0.6)).astype(np.float32)
    X[0] = 1.0
    return csr_matrix(X), X @ np.arange(-3.0, 5.0) + 0.7 + 0.5 * rng.standard_t(3, size=120)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, seed in (("train", 0), ("test", 1)):
        X, y = draw(seed)
        write_svmlight(folder / f"{name}.numbers", X, y)
        write_svmlight(folder / f"{name}.labels", X, np.where(y > 0.7, 1.0, -1.0))
    return folder


def measures(said: np.ndarray, truth: np.ndarray, loss: Any) -> dict[str, float]:
    off = said - truth
    return {
        "mean_absolute_error": np.abs(off).mean(), "mean_squared_error": (off**2).mean(),
        "r2": 1 - (off**2).sum() / ((truth - truth.mean()) ** 2).sum(),
        "mean_loss": loss.value(off).mean(),
    }  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_learned_predicted_and_certified(folder: Path, name: str) -> None:
    data, test, model = folder / "train.numbers", folder / "test.numbers", folder / f"{name}.model"
    told = report("train", data, model, "--loss", name, "--test", test, "-c", 0.5)
    X, y = draw(0)
    fitted = load_model(model)
    P = reference.primal(X, y, fitted.coef, fitted.intercept, 0.5, loss=name, bias="regularised")
    # The file has nine digits of the numbers.
    assert told["primal"] == pytest.approx(P, rel=1e-6)
    assert told["relative_gap"] <= 1e-3
    assert told["classes"] is None
    said = X @ fitted.coef + fitted.intercept
    for key, value in measures(said, y, LOSSES[name]).items():
        assert told[f"{key}_train"] == pytest.approx(value, rel=1e-5)
    X, y = draw(1)
    run("predict", test, model, folder / "out")
    said = np.loadtxt(folder / "out")
    np.testing.assert_allclose(said, X @ fitted.coef + fitted.intercept, rtol=1e-5, atol=1e-6)
    for key, value in measures(said, y, LOSSES[name]).items():
        assert told[f"{key}_test"] == pytest.approx(value, rel=1e-5)
    again = report("certify", data, model)
    assert again["primal"] == pytest.approx(told["primal"], rel=1e-9)
    assert again["relative_gap"] <= 2e-3
    assert again["trained_on_these_data"]
    assert again["r2_train"] == pytest.approx(told["r2_train"])
    assert 0 < report("certify", test, model)["relative_gap"] < 1


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_learned_under_every_loss_of_margins(folder: Path, name: str) -> None:
    data, model = folder / "train.labels", folder / "labels.model"
    told = report("train", data, model, "--loss", name, "--test", folder / "test.labels")
    assert told["loss"] == name
    assert told["relative_gap"] <= 1e-3
    assert told["error_test"] < 0.3
    chances = run("predict", data, model, "--probability")
    assert chances.exit_code == (0 if LOSSES[name].sigmoid else 2)


def test_parameters_of_a_loss_are_given_by_name(folder: Path) -> None:
    data, model = folder / "train.numbers", folder / "m"
    told = report("train", data, model, "--loss", "pinball:quantile=0.9")
    assert told["loss_parameters"] == {"quantile": 0.9}
    X, y = draw(0)
    assert np.mean(y <= X @ load_model(model).coef + load_model(model).intercept) > 0.8
    assert make_loss("huber:delta=0.5") == LOSSES["huber"].__class__(delta=0.5)
    for text, said in (
        ("hinge:x=1", "hinge has no setting 'x'"), ("pinball:quantile=2", "between 0 and 1"),
        ("huber:delta=a", "delta must be a number"), ("nope", "unknown loss 'nope'"),
    ):  # fmt: skip
        found = run("train", data, model, "--loss", text)
        assert (found.exit_code, said in found.stderr) == (2, True), found.stderr
        assert found.stderr.count("\n") == 1


PENALTIES = {
    "l1": ([], 1.0), "elasticnet": (["--l1-ratio", 0.3], 0.3),
}  # fmt: skip


@pytest.mark.parametrize("penalty", sorted(PENALTIES))
@pytest.mark.parametrize("name", ["squared_hinge", "logistic"])
def test_penalties_with_an_l1_norm(folder: Path, name: str, penalty: str) -> None:
    data, model = folder / "train.labels", folder / "sparse.model"
    options, l1 = PENALTIES[penalty]
    told = report("train", data, model, "--loss", name, "--penalty", penalty, *options,
                  "-c", 0.1, "--gap", 1e-8)  # fmt: skip
    assert (told["penalty"], told["solver"]) == (penalty, "cd")
    X, y = draw(0)
    signs, fitted = np.where(y > 0.7, 1.0, -1.0), load_model(model)

    def primal(w: np.ndarray, b: float) -> float:
        joined, margins = np.append(w, b), signs * (X @ w + b)
        norm = l1 * np.abs(joined).sum() + (1 - l1) / 2 * joined @ joined
        return float(norm + 0.1 * LOSSES[name].value(margins).sum())

    assert told["primal"] == pytest.approx(primal(fitted.coef[0], fitted.intercept[0]), rel=1e-9)
    assert told["relative_gap"] <= 1e-8
    again = report("certify", data, model)
    assert again["primal"] == pytest.approx(told["primal"], rel=1e-9)
    assert again["relative_gap"] <= 1e-6
    if penalty == "l1":
        peers = {
            "squared_hinge": svm.LinearSVC(C=0.1, penalty="l1", dual=False, tol=1e-9),
            "logistic": reference.penalised(C=0.1, solver="liblinear", l1_ratio=1, tol=1e-9),
        }
        peer = peers[name].set_params(max_iter=10**6).fit(X, signs)
        assert told["primal"] == pytest.approx(
            primal(peer.coef_[0], float(peer.intercept_[0])), rel=1e-6
        )
    assert report("train", data, "--loss", name, "--penalty", penalty, *options, "--folds", 3,
                  "-c", 0.1)["status"] == "converged"  # fmt: skip


@pytest.mark.parametrize("l1", [0.0, 1.0])
def test_folds_have_the_penalty_that_is_asked_for(folder: Path, l1: float) -> None:
    """At a C below which l1 leaves no weight, all held-out rows are of the larger class."""
    options = ["--penalty", "elasticnet", "--l1-ratio", l1, "--loss", "logistic", "-c", 1e-4]
    signs = draw(0)[1] > 0.7
    told = report("train", folder / "train.labels", *options, "--bias", "none", "--folds", 3)
    usual = max(np.mean(signs), 1 - np.mean(signs))
    assert (told["accuracy"] <= usual + 1e-9) == (l1 == 1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--penalty", "l1"], "needs a smooth loss"),
     (["--l1-ratio", 0.5], "--l1-ratio is the mix of --penalty elasticnet"),
     (["--penalty", "elasticnet", "--loss", "logistic"], "needs an l1_ratio from 0 to 1"),
     (["--penalty", "l1", "--loss", "squared"], "--penalty is not there yet for numbers"),
     (["--penalty", "l1", "--kernel", "rbf"], "--penalty is for linear machines"),
     (["--penalty", "l1", "--multiclass", "crammer_singer"], 'no penalty="l1"'),
     (["--penalty", "l1", "--loss", "logistic", "--memory", "1G"], "--memory has no --penalty"),
     (["--penalty", "l1", "--loss", "logistic", "--epochs-a-priori"], "is for --penalty l2"),
     (["--penalty", "l1", "--loss", "logistic", "--checkpoint", "x"], "is for --penalty l2"),
     (["--penalty", "l1", "--loss", "logistic", "--solver", "dcd"], "PenalisedProblem")],
)  # fmt: skip
def test_what_a_penalty_cannot_have_is_said(folder: Path, options: list[Any], said: str) -> None:
    found = run("train", folder / "train.labels", folder / "m", *options)
    assert (found.exit_code, said in found.stderr) == (2, True), found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options",
    [["--weight", "1=2"], ["--multiclass", "ovo"], ["--probability", "platt"],
     ["--epochs-a-priori"]],
)  # fmt: skip
def test_what_is_of_classes_is_refused_for_numbers(folder: Path, options: list[str]) -> None:
    found = run("train", folder / "train.numbers", folder / "m", "--loss", "huber", *options)
    assert found.exit_code == 2
    assert options[0] in found.stderr or "--loss" in found.stderr
    assert found.stderr.count("\n") == 1


def test_scaled_features_and_rows_that_weigh(folder: Path) -> None:
    X, y = draw(0)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 120)
    np.savetxt(folder / "weights", weights)
    data, model = folder / "train.numbers", folder / "m"
    report("train", data, model, "--loss", "huber", "--scale", "-W", folder / "weights")
    fitted = load_model(model)
    sizes = np.abs(X.toarray()).max(axis=0)
    P = reference.primal(
        X.toarray() / sizes, y, fitted.coef * sizes, fitted.intercept, weights, loss="huber",
        bias="regularised",
    )  # fmt: skip
    assert fitted.certificate.primal == pytest.approx(P, rel=1e-5)
    assert "which its file does not hold" in run("certify", data, model).stderr
    report("train", data, model, "--loss", "huber", "--scale")
    assert report("certify", data, model)["relative_gap"] < 2e-3


def test_cross_validation_of_numbers(folder: Path) -> None:
    data = folder / "train.numbers"
    told = run("train", data, "--loss", "squared", "--folds", 3)
    assert [line.split(" = ")[0] for line in told.stdout.splitlines()] == [
        f"Cross Validation {name}"
        for name in ("Mean absolute error", "Mean squared error", "R2", "Mean loss")
    ]
    fixed = report("train", data, "--loss", "squared", "--folds", 3, "-c", 2)
    assert fixed["status"] == "converged"
    apart = report("train", data, folder / "m", "--loss", "squared", "-c", 2)
    assert apart["r2_train"] - 0.1 < fixed["r2_test"] < apart["r2_train"]
    searched = report("train", data, "--loss", "huber", "--folds", 3, "--search-c")
    least = min(searched["tried"], key=lambda one: one["mean_loss_test"])
    assert searched["C"] == least["C"]


def test_held_out_numbers_stop_a_run(folder: Path) -> None:
    trace = folder / "trace.csv"
    told = run("train", folder / "train.numbers", folder / "m", "--loss", "squared",
               "--solver", "pegasos", "--validation", folder / "test.numbers", "--gap", 0,
               "--max-epochs", 200, "--trace", trace)  # fmt: skip
    assert told.exit_code in (0, 3)
    assert "validation mean absolute error" in told.stdout
    assert "validation_r2" in trace.read_text().splitlines()[0]


@pytest.mark.parametrize("name", ["huber", "logistic"])
def test_compare_and_path(folder: Path, name: str) -> None:
    kind = "numbers" if LOSSES[name].residual else "labels"
    measure = "mean_absolute_error" if LOSSES[name].residual else "error"
    data, test = folder / f"train.{kind}", folder / f"test.{kind}"
    told = report("compare", data, "--loss", name, "--test", test, "--max-seconds", 2)
    assert any(run["relative_gap"] <= 1e-3 for run in told["runs"])
    assert all(f"{measure}_test" in run for run in told["runs"])
    table = run("compare", data, "--loss", name, "--solvers", "dcd")
    assert f"train {measure.replace('_', ' ')}" in table.stdout
    path = report("path", data, "--loss", name, "--gap", 0.2, "--test", test)
    assert path["complete"]
    assert all(f"{measure}_train" in point for point in path["points"])


def test_a_report_of_one_class_is_refused_by_name(folder: Path) -> None:
    told = run("report", folder / "train.numbers", "--loss", "one_class", "-o", folder / "r.html")
    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert "no report of one class" in told.stderr
    assert not (folder / "r.html").exists()


@pytest.mark.parametrize(
    ("loss", "made"),
    [
        ("epsilon_insensitive:epsilon=0.2", lambda: bridle.SVR(epsilon=0.2, gamma=0.5)),
        ("one_class:nu=0.3", lambda: bridle.OneClassSVM(nu=0.3, gamma=0.5)),
    ],
)
def test_kernel_machines_of_numbers_and_of_one_class(folder: Path, loss: str, made: Any) -> None:
    data, model = folder / "train.numbers", folder / "k.model"
    told = report("train", data, model, "--loss", loss, "--kernel", "rbf", "--gamma", 0.5)
    X, y = bridle.data.read_svmlight(data)
    own = made().fit(X, y)
    assert told["primal"] == pytest.approx(own.certificate_.primal, rel=1e-6)
    again = type(own).load(model)
    np.testing.assert_allclose(again.predict(X), own.predict(X), atol=1e-4)
    run("predict", data, model, folder / "k.out")
    np.testing.assert_allclose(np.loadtxt(folder / "k.out"), own.predict(X), atol=1e-4)
    key = "outside_train" if "one_class" in loss else "mean_absolute_error_train"
    off = np.mean(own.predict(X) < 0), np.abs(own.predict(X) - y).mean()
    assert told[key] == pytest.approx(off["one_class" not in loss], rel=1e-3)


def test_what_kernel_machines_of_numbers_have_not(folder: Path) -> None:
    data = folder / "train.numbers"
    for options, said in {
        ("--loss", "huber", "--scale"): "--scale is not there for kernel machines of numbers",
        ("--loss", "huber", "--folds", 3): "--folds is for linear machines",
        ("--loss", "squared_hinge"): "kernel machines of classes have the hinge",
    }.items():
        told = run("train", data, folder / "m", "--kernel", "rbf", *options)
        assert (told.exit_code, said in told.stderr) == (2, True)
