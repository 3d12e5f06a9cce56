"""Files that version 0.1.0 wrote load, and are used as they were meant there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle import (
    LinearProblem,
    LinearSVC,
    MultilabelOracle,
    StructuredSVM,
    certify_model,
    load_model,
    read_trees,
    save_model,
)
from bridle.cli import main
from bridle.data import read_svmlight
from click.testing import CliRunner

FOLDER = Path(__file__).with_name("files_of_0_1_0")
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text())
CLASSIFIERS = [name for name in EXPECTED if "data" in EXPECTED[name]]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_decide_as_they_did(tmp_path: Path, name: str) -> None:
    known, model = EXPECTED[name], load_model(FOLDER / name)
    X, _ = read_svmlight(FOLDER / known["data"])
    assert model.predict(X).tolist() == known["labels"]
    if known["primal"] is not None:
        assert model.certificate.primal == pytest.approx(known["primal"], rel=1e-12)
    save_model(tmp_path / "m", model)
    again = load_model(tmp_path / "m")
    assert again.predict(X).tolist() == known["labels"]
    assert (again.info, again.fingerprint) == (model.info, model.fingerprint)
    told = run("predict", FOLDER / known["data"], FOLDER / name, "--json")
    assert told.exit_code == 0, told.output


@pytest.mark.parametrize(
    "name", ["linear2", "linear3", "weights3", "ovo", "crammer_singer", "costs"]
)
def test_they_are_certified_by_the_objective_that_they_had(name: str) -> None:
    """With three classes --weight counted in the class's own problem alone."""
    known, model = EXPECTED[f"{name}.model"], load_model(FOLDER / f"{name}.model")
    X, y = read_svmlight(FOLDER / known["data"])
    proven = certify_model(model, X, y)
    assert sum(c.primal for c in proven) == pytest.approx(known["primal"], rel=1e-6)
    for claimed, found in zip(model.certificates, proven, strict=True):
        assert found.primal == pytest.approx(claimed.primal, rel=1e-6)
        assert found.relative_gap <= claimed.relative_gap + 1e-5


def test_class_weights_of_a_file_that_does_not_say_where(tmp_path: Path) -> None:
    X, y = read_svmlight(FOLDER / "three.svm")
    model = load_model(FOLDER / "weights3.model")
    for k in range(3):
        weight = np.where((y == 1) & (k == 1), 3.0, 1.0)
        signs = np.where(y == k, 1.0, -1.0)
        problem = LinearProblem(X, signs, bias="regularised", sample_weight=weight)
        assert problem.primal(model.coef[k], model.intercept[k]) == pytest.approx(
            model.certificates[k].primal, rel=1e-6
        )
        assert problem.dual(model.alpha[k]) == pytest.approx(model.certificates[k].dual, rel=1e-6)
    LinearSVC.from_model(model).save(tmp_path / "m")  # a detour does not change what is meant
    assert load_model(tmp_path / "m").info == model.info
    again = run("train", FOLDER / "three.svm", tmp_path / "n", "--weight", "1=3", "--gap", 1e-6)
    assert again.exit_code == 0, again.output
    assert load_model(tmp_path / "n").info["class_weight_in"] == "every problem"


@pytest.mark.parametrize("name", ["linear2", "linear3"])
def test_probabilities(name: str) -> None:
    X, _ = read_svmlight(FOLDER / EXPECTED[f"{name}.model"]["data"])
    model = load_model(FOLDER / f"{name}.model")
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(LinearSVC.from_model(model).predict_proba(X), p)


def test_other_kinds() -> None:
    X, _ = read_svmlight(FOLDER / "three.svm")
    ranked = load_model(FOLDER / "ranking.model").decision_function(X)
    np.testing.assert_allclose(ranked, EXPECTED["ranking.model"]["scores"], atol=1e-12)
    chain, known = load_model(FOLDER / "chain.model"), EXPECTED["chain.model"]
    assert [list(t) for t in chain.predict(known["sequences"])] == known["tags"]
    tree, known = load_model(FOLDER / "tree.model"), EXPECTED["tree.model"]
    assert [str(t) for t in tree.predict(known["words"])] == known["trees"]
    assert len(read_trees((FOLDER / "trees.txt").read_text())) == len(known["trees"])
    found = load_model(FOLDER / "multilabel.model").predict(X.toarray())
    assert np.asarray(found).tolist() == EXPECTED["multilabel.model"]["labels"]
    svm = StructuredSVM.load(FOLDER / "structured.model", MultilabelOracle(4, 3))
    assert svm.coef_.tolist() == EXPECTED["structured.model"]["coef"]


@pytest.mark.parametrize("data", ["two", "three"])
def test_a_run_goes_on_from_a_checkpoint(tmp_path: Path, data: str) -> None:
    for file in FOLDER.glob(f"{data}.checkpoint*"):
        shutil.copy(file, tmp_path)
    line = ["train", FOLDER / f"{data}.svm", tmp_path / "m", "--solver", "dcd", "--gap", 1e-6]
    checkpoint = ["--checkpoint", tmp_path / f"{data}.checkpoint", "--resume", "--json"]
    resumed = json.loads(run(*line, *checkpoint).stdout)
    afresh = json.loads(run(*line, "--json").stdout)
    assert resumed["status"] == "converged"
    assert resumed["primal"] == pytest.approx(afresh["primal"], rel=1e-5)
