"""`bridle parse`: trees to a certified parser, sentences to trees, and PARSEVAL's scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bridle import TreeSVM
from bridle.cli import main
from bridle.data.trees import clean, read_trees
from bridle.models.storage import load_model
from click.testing import CliRunner, Result

TREEBANK = """\
( (S (NP-SBJ (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog)))) )
( (S (NP-SBJ (DT a) (JJ big) (NN dog)) (VP (VBZ runs) (NP (-NONE- *T*)))) )
(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT the) (JJ big) (NN cat))))
(S (NP (DT a) (NN cat)) (VP (VBZ runs)))
(S (NP (DT a) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog)) (PP (IN with) (NP (DT a) (NN cat)))))
(S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (PP (IN by) (NP (DT a) (NN dog))))))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    (folder / "trees").write_text(TREEBANK)
    run("parse", "train", folder / "trees", folder / "m", "--quiet", "--gap", 0.02)
    return folder


def run(*arguments: Any, code: int = 0, given: str | None = None) -> Result:
    words = [str(a) for a in arguments]
    result = CliRunner().invoke(main, words, input=given, prog_name="bridle")
    assert result.exit_code == code, result.output
    return result


def test_the_certificate_is_that_of_the_estimator(folder: Path, tmp_path: Path) -> None:
    trees = [clean(tree) for tree in read_trees(TREEBANK)]
    svm = TreeSVM(C=0.5, tol=0.02).fit([tree.words for tree in trees], trees)
    told = json.loads(
        run(
            "parse", "train", folder / "trees", tmp_path / "m", "-c", 0.5, "--gap", 0.02,
            "--test", folder / "trees", "--trace", tmp_path / "t.csv", "--json",
        ).stdout
    )  # fmt: skip
    assert told["status"] == "converged"
    assert told["relative_gap"] <= 0.02
    assert told["primal"] == pytest.approx(svm.certificate_.primal, rel=0.03)
    assert (told["sentences"], told["rows"]) == (6, sum(len(tree.words) for tree in trees))
    assert told["test"]["f1"] == pytest.approx(svm.score([t.words for t in trees], trees))
    assert "relative_gap" in (tmp_path / "t.csv").read_text().splitlines()[0]


def test_a_budget_is_code_3_and_the_model_is_written(folder: Path, tmp_path: Path) -> None:
    line = ["parse", "train", folder / "trees", tmp_path / "m", "--gap", 0, "--max-epochs", 2]
    assert "certified gap" in run(*line, code=3).stdout
    assert load_model(tmp_path / "m").kind == "tree"


def test_sentences_become_trees_in_order(folder: Path, tmp_path: Path) -> None:
    sentences = "the cat runs\n\na big dog sees the unheard cat\n"
    (tmp_path / "s").write_text(sentences)
    shown = run("parse", "predict", tmp_path / "s", folder / "m").stdout.split("\n")
    assert [tree.words for tree in read_trees("\n".join(shown))] == [
        line.split() for line in sentences.splitlines() if line
    ]
    assert shown[1] == ""
    assert run("parse", "predict", "-", folder / "m", given=sentences).stdout.split("\n") == shown
    run("parse", "predict", tmp_path / "s", folder / "m", tmp_path / "out")
    assert (tmp_path / "out").read_text().split("\n") == shown


def test_scores(folder: Path, tmp_path: Path) -> None:
    trees = folder / "trees"
    by_model = json.loads(run("parse", "eval", trees, folder / "m", "--json").stdout)
    words = "".join(" ".join(clean(tree).words) + "\n" for tree in read_trees(TREEBANK))
    (tmp_path / "answers").write_text(
        run("parse", "predict", "-", folder / "m", given=words).stdout
    )
    answers = tmp_path / "answers"
    by_file = json.loads(run("parse", "eval", trees, answers, "--trees", "--json").stdout)
    assert by_file == by_model
    itself = run("parse", "eval", trees, trees, "--trees").stdout
    assert "precision 100.00, recall 100.00, F1 100.00" in itself


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(S (NP (DT the)", "brackets are not closed"),
        ("", "has no trees"),
        ("(S the cat)", "line 1"),
        (b"(S (X \xff))", "utf-8"),
    ],
)
def test_bad_trees_are_one_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    told = run("parse", "train", path, tmp_path / "m", code=2).stderr
    assert told.startswith(f"bridle: {path}: ")
    assert said in told
    assert told.count("\n") == 1


def test_other_models_and_other_words_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "few").write_text(TREEBANK.splitlines()[0])
    told = run("parse", "eval", folder / "trees", tmp_path / "few", "--trees", code=2).stderr
    assert "6 true trees but 1 answers" in told
    (tmp_path / "words").write_text("the DT\ncat NN\n\na DT\ndog NN\n")
    run("tag", "train", tmp_path / "words", tmp_path / "t", "--quiet", "--max-seconds", 5)
    told = run("parse", "predict", tmp_path / "words", tmp_path / "t", code=2).stderr
    assert "this command needs a tree one" in told
