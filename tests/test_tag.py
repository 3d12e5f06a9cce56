"""bridle tag: columns with a template, SVM-hmm's format, conlleval's scores."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bridle.cli import main
from bridle.data.sequences import Template, read_columns, read_svmhmm, window_template
from click.testing import CliRunner

SENTENCES = """\
the DT B-NP
cat NN I-NP
runs VB B-VP

a DT B-NP
dog NN I-NP
sees VB B-VP
the DT B-NP
cat NN I-NP

"""


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["tag", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(SENTENCES * 5)
    return path


def test_train_predict_eval(data, tmp_path):
    model, output = tmp_path / "m", tmp_path / "out.txt"
    report = json.loads(run("train", data, model, "--json", "--test", data, "-c", "10"))
    assert report["status"] == "converged"
    assert report["relative_gap"] <= 0.01
    assert report["test"]["f1"] == 1.0
    run("predict", data, model, output)
    assert read_columns(output)[0] == [
        ["the", "DT", "B-NP", "B-NP"],
        ["cat", "NN", "I-NP", "I-NP"],
        ["runs", "VB", "B-VP", "B-VP"],
    ]
    assert "FB1: 100.00" in run("eval", output)
    assert json.loads(run("eval", data, model, "--json"))["f1"] == 1.0
    unlabelled = tmp_path / "plain.txt"
    unlabelled.write_text("the DT\ncat NN\n")
    assert run("predict", unlabelled, model).split() == ["the", "DT", "B-NP", "cat", "NN", "I-NP"]


def test_scores(data, tmp_path):
    model = tmp_path / "m"
    run("train", data, model, "-c", "10")
    plain = run("predict", data, model).split("\n")
    scored = run("predict", data, model, "--scores").split("\n")
    assert [" ".join(line.split()[:4]) for line in scored] == plain
    margins, marginals = np.array([line.split()[4:] for line in scored if line], float).T
    assert (margins > 0).all()
    assert ((marginals > 0.5) & (marginals <= 1)).all()


def test_eval_by_hand(tmp_path):
    path = tmp_path / "answers.txt"
    path.write_text("a B-NP B-NP\nb I-NP O\n\nc B-NP B-NP\nd O B-VP\n")
    report = json.loads(run("eval", path, "--json"))
    assert report["accuracy"] == 0.5
    assert report["precision"] == pytest.approx(1 / 3)
    assert report["recall"] == pytest.approx(1 / 2)
    assert report["f1"] == pytest.approx(0.4)


def test_eval_agrees_with_seqeval(tmp_path):
    """seqeval counts segments as conlleval does, and was written by others."""
    metrics = pytest.importorskip("seqeval.metrics")
    rng = np.random.default_rng(0)
    labels = ["O", "B-NP", "I-NP", "B-VP", "I-VP"]
    truth, answers, lines = [], [], []
    for _ in range(200):
        y = [labels[k] for k in rng.integers(0, 5, rng.integers(1, 12))]
        z = [labels[rng.integers(0, 5)] if rng.random() < 0.3 else label for label in y]
        truth.append(y)
        answers.append(z)
        lines += [*(f"word {a} {b}" for a, b in zip(y, z, strict=True)), ""]
    path = tmp_path / "answers.txt"
    path.write_text("\n".join(lines))
    report = json.loads(run("eval", path, "--json"))
    for name in ("precision", "recall", "f1"):
        theirs = getattr(metrics, f"{name}_score")(truth, answers)
        assert report[name] == pytest.approx(float(theirs))
    assert report["accuracy"] == pytest.approx(float(metrics.accuracy_score(truth, answers)))


def test_svmhmm(tmp_path):
    path = tmp_path / "data.hmm"
    path.write_text("1 qid:1 1:1 3:0.5 # the\n2 qid:1 2:1\n\n2 qid:2 2:1\n" * 1)
    X, Y = read_svmhmm(path)
    assert X == [[{"1": 1.0, "3": 0.5}, {"2": 1.0}], [{"2": 1.0}]]
    assert Y == [["1", "2"], ["2"]]
    run("train", path, tmp_path / "m", "--format", "svmhmm", "-c", "10")
    assert run("predict", path, tmp_path / "m").split() == ["1", "2", "2"]


def test_templates(data, tmp_path):
    template = Template(("U:%x[-1,0]/%x[0,1]", "V:%x[1,0]"))
    assert template.features([["the", "DT"], ["cat", "NN"]]) == [
        ["U:_B-1/DT", "V:cat"], ["U:the/NN", "V:_B+1"],
    ]  # fmt: skip
    assert len(window_template(2).lines) == 19
    path = tmp_path / "template"
    path.write_text("# words\nU00:%x[0,0]\nB\n")
    report = json.loads(run("train", data, tmp_path / "m", "--template", path, "--json"))
    assert report["features"] == 6


def test_bad_input(data, tmp_path):
    ragged = tmp_path / "ragged.txt"
    ragged.write_text("a b c\na b\n")
    assert "line 2" in run("train", ragged, code=2)
    wrong = tmp_path / "wrong.hmm"
    wrong.write_text("1 qid:1 1:x\n")
    assert "line 1" in run("train", wrong, "--format", "svmhmm", code=2)
    template = tmp_path / "template"
    template.write_text("U:%x[0,7]\n")
    assert "8 columns" in run("train", data, "--template", template, code=2)
    run("train", data, tmp_path / "m")
    narrow = tmp_path / "narrow.txt"
    narrow.write_text("the\ncat\n")
    answer = run("predict", narrow, tmp_path / "m", code=2)
    assert "narrow.txt: the template needs 2 columns, with or without a label" in answer
    assert "not a bridle model" in run("predict", data, data, code=2)
