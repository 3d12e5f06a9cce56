"""`bridle rank`, run as users do."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bridle.cli import main
from bridle.data import write_svmlight
from click.testing import CliRunner


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["rank", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def data(tmp_path):
    from scipy import sparse

    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(12), 8)
    X = rng.normal(size=(96, 4)).astype(np.float32)
    y = np.digitize(X[:, 0] + rng.normal(size=96), [0.5, 1.5]).astype(float)
    y[:8] = 0
    write_svmlight(tmp_path / "train.svm", sparse.csr_matrix(X), y, qid=qid)
    return tmp_path / "train.svm"


def test_features_may_be_left_undivided(data, tmp_path):
    model = tmp_path / "m"
    divided = json.loads(run("train", data, model, "--json"))
    undivided = json.loads(run("train", data, model, "--json", "--no-normalise"))
    assert undivided["primal"] < divided["primal"]  # the same margins, by a shorter w
    assert "pairs-sum" in run("train", data, model, "--loss", "pairs", "--no-normalise", code=2)


@pytest.mark.parametrize("flags", [["--loss", "map"], ["-l", "2"], ["--loss", "precision@3"]])
def test_train_predict_eval(data, tmp_path, flags):
    model, scores = tmp_path / "m", tmp_path / "s"
    report = json.loads(run("train", data, model, "-c", 0.5, "--json", *flags))
    assert report["relative_gap"] <= 1e-3
    assert report["queries"] == 12
    assert report["skipped"] >= 1
    run("predict", data, model, scores)
    assert len(scores.read_text().splitlines()) == 96
    by_model = json.loads(run("eval", data, model, "--json"))
    by_scores = json.loads(run("eval", data, scores, "--scores", "--json"))
    assert by_model["overall"] == by_scores["overall"]
    assert by_model["overall"]["MAP"] == pytest.approx(report["map_train"])
    assert [row["qid"] for row in by_model["per_query"]] == list(range(12))
    assert by_model["per_query"][0]["ROC"] is None
    text = run("eval", data, model)
    assert text.splitlines()[-1].startswith("all")
    assert len(text.splitlines()) == 15
    assert len(run("eval", data, model, "--summary").splitlines()) == 3


def test_eval_of_a_hand_worked_case(tmp_path):
    """Relevant at ranks 1, 3 and 5."""
    data, scores = tmp_path / "d.svm", tmp_path / "s.txt"
    data.write_text("".join(f"{g} qid:7 1:1\n" for g in (1, 0, 2, 0, 1)))
    scores.write_text("5\n4\n3\n2\n1\n")
    options = ("--scores", "--json", "-k", 3)
    overall = json.loads(run("eval", data, scores, *options))["overall"]
    assert overall["MAP"] == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert overall["MRR"] == 1.0
    assert overall["P@3"] == pytest.approx(2 / 3)
    assert overall["ROC"] == pytest.approx(3 / 6)
    assert overall["NDCG@3"] == pytest.approx((1 + 3 / 2) / (3 + 1 / np.log2(3) + 1 / 2))
    letor = json.loads(run("eval", data, scores, *options, "--ndcg", "letor"))["overall"]
    assert letor["NDCG@3"] == pytest.approx((1 + 3 / np.log2(3)) / (3 + 1 + 1 / np.log2(3)))


def test_bad_input_is_one_line(tmp_path, data):
    bad = tmp_path / "bad.svm"
    cases = {
        "1 qid:1 1:1\n0 qid:2 1:1\n1 qid:1 1:2\n": "stand together",
        "1 qid:-1 1:1\n0 qid:-1 1:2\n": "an integer from 0",
        "1 1:1\n0 1:2\n": "qid",
        "1 qid:1 1:1\n1 qid:1 1:2\n": "nothing to learn",
    }
    for text, message in cases.items():
        bad.write_text(text)
        output = run("train", bad, tmp_path / "m", code=2)
        assert message in output
        assert len(output.splitlines()) == 1
    assert "unknown ranking loss" in run("train", data, "--loss", "x", code=2)
    assert "classification" in run("train", data, "--loss", "f1", code=2)
    (tmp_path / "s").write_text("1\n2\n")
    assert "2 scores for 96" in run("eval", data, tmp_path / "s", "--scores", code=2)
    (tmp_path / "s").write_text("x\n" * 96)
    assert "s:1: expected a number" in run("eval", data, tmp_path / "s", "--scores", code=2)
    assert "not a bridle model" in run("eval", data, data, code=2)
    assert run("train", data, "--max-epochs", 1, "--gap", 1e-9, code=3)
