"""bridle train --kernel, and kernel models in files."""

from __future__ import annotations

import json

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.cli import main
from bridle.models.kernel import KernelModel
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file, load_iris


@pytest.fixture
def rings(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(np.hypot(X[:, 0], X[:, 1]) > 1.2, 1, -1)
    dump_svmlight_file(X, y, str(tmp_path / "rings"), zero_based=False)
    return tmp_path / "rings"


def run(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_train_and_predict(rings, tmp_path):
    model, labels = tmp_path / "model", tmp_path / "labels"
    result = run("train", rings, model, "--kernel", "rbf", "-c", 10, "--bias", "free", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["solver"] == "smo"
    assert report["relative_gap"] <= 1e-3
    assert report["error_train"] < 0.05
    result = run("predict", rings, model, labels, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["error_test"] == pytest.approx(report["error_train"])
    assert len(labels.read_text().split()) == 200


def test_solvers_settings_and_refusals(rings, tmp_path):
    model = tmp_path / "model"
    options = ["--kernel", "rbf", "--solver", "pegasos", "--set", "batch=4", "--gap", 0.1]
    assert run("train", rings, model, *options).exit_code in (0, 3)
    budgeted = run("train", rings, model, "--kernel", "rbf", "--solver", "budgeted-pegasos",
                   "--max-epochs", 20, "--json")  # fmt: skip
    assert budgeted.exit_code in (0, 3), budgeted.output
    assert json.loads(budgeted.stdout)["error_train"] < 0.2
    refused = run("train", rings, model, "--kernel", "rbf", "--loss", "squared_hinge")
    assert refused.exit_code == 2
    refused = run("train", rings, model, "--kernel", "rbf", "--gamma", "wide")
    assert refused.exit_code == 2
    assert "gamma must be" in refused.output


def test_merged_vectors_of_several_classes_are_refused_in_one_line(tmp_path):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "iris"), zero_based=False)
    merging = ["--solver", "budgeted-pegasos", "--set", "budget=10", "--set", "maintenance=merging"]
    line = ["train", tmp_path / "iris", tmp_path / "model", "--kernel", "rbf", "--bias", "none"]
    refused = run(*line, *merging, "--max-epochs", 2)
    assert refused.exit_code == 2, refused.output
    assert "merged support vectors cannot be kept for several classes" in refused.output


def test_several_classes(tmp_path):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "iris"), zero_based=False)
    line = ["train", tmp_path / "iris", tmp_path / "model", "--kernel", "poly", "--json"]
    result = run(*line, "--multiclass", "ovr")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert len(report["per_class"]) == 3
    assert report["error_train"] < 0.05


def test_a_kernel_machine_is_that_of_svc(tmp_path):
    """Pairs of classes, a free bias, class weights: the same numbers as the estimator's."""
    X, y = load_iris(return_X_y=True)
    X = X.astype(np.float32)
    bridle.data.write_svmlight(tmp_path / "iris", X, y.astype(float))
    result = run("train", tmp_path / "iris", tmp_path / "model", "--kernel", "rbf", "--weight",
                 "1=2", "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    report, model = json.loads(result.stdout), bridle.load_model(tmp_path / "model")
    svc = bridle.SVC(class_weight={1.0: 2.0}).fit(sp.csr_matrix(X), y.astype(float))
    assert (model.multi_class, report["bias"], len(model.certificates)) == ("ovo", "free", 3)
    assert model.certificate.primal == pytest.approx(svc.certificate_.primal, rel=1e-9)
    np.testing.assert_allclose(
        model.decision_function(X), svc.decision_function(X), rtol=1e-6, atol=1e-6
    )
    assert report["error_train"] == np.mean(svc.predict(X) != y)
    told = run("predict", tmp_path / "iris", tmp_path / "model", tmp_path / "out", "--json")
    assert json.loads(told.stdout)["error_test"] == report["error_train"]


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_a_model_comes_back_as_it_was(tmp_path, storage):
    from bridle.fitting.multiclass import solve_one_vs_rest
    from bridle.models.header import Objective
    from bridle.objective.kernels import kernel_from

    X, y = load_iris(return_X_y=True)
    X = storage(X)
    kernel = kernel_from("rbf", X)
    found = solve_one_vs_rest(X, y, 3, kernel=kernel, bias="free")
    model = KernelModel.from_solutions(
        X, found, kernel, classes=np.arange(3), objective=Objective(bias="free"),
        certificates=tuple(s.certificate for s in found.solutions), fingerprint="", n_rows=150,
    )  # fmt: skip
    bridle.save_model(tmp_path / "model", model)
    back = bridle.load_model(tmp_path / "model")
    assert back.kernel == model.kernel
    assert back.certificates == model.certificates
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert (back.predict(X) == y).mean() > 0.95
