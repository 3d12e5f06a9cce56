"""What every command does alike: usage errors, standard input, compressed files, pictures."""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib.util
import json
import lzma
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bridle import LinearProblem
from bridle.cli import COMMANDS, main
from bridle.data import read_svmlight, write_arrow, write_npz, write_svmlight
from bridle.models.storage import load_model
from bridle.solvers.shared.rate_ladder import RATES
from bridle.study.practice import best_epochs
from click.testing import CliRunner, Result
from sklearn.datasets import load_iris

PACKERS = {
    "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress,
    "zst": lambda raw: pa.Codec("zstd").compress(raw, asbytes=True),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)).astype(np.float32)
    y = np.sign(X @ rng.normal(size=6) + 0.3 * rng.normal(size=80))
    write_svmlight(folder / "two.svm", X, y)
    write_svmlight(folder / "ranks.svm", X, y > 0, qid=np.arange(80) // 10)
    (folder / "words.txt").write_text("the DT\ncat NN\nruns VB\n\na DT\ndog NN\nsleeps VB\n" * 4)
    return folder


def run(*arguments: Any, code: int = 0, given: bytes | None = None) -> Result:
    words = [str(a) for a in arguments]
    result = CliRunner().invoke(main, words, input=given, prog_name="bridle")
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["train"], "Missing argument 'DATA [MODEL]'; see bridle train --help"),
        (["predict", "{two}"], "Missing argument 'MODEL'; see bridle predict --help"),
        (["train", "{two}", "-c", "0"], "; see bridle train --help"),
        (["rank", "train", "{ranks}", "--gap", "x"], "; see bridle rank train --help"),
        (["certify", "--nonsense"], "--nonsense"),
        (["--nonsense"], "; see bridle --help"),
        (["nonsense"], "nonsense"),
        (
            ["import", "{two}", "m"],
            "Missing option '-c', or '-n' of one class; see bridle import --help",
        ),
    ],
)
def test_usage_errors_take_one_line(folder: Path, line: list[str], said: str) -> None:
    files = {"two": folder / "two.svm", "ranks": folder / "ranks.svm"}
    result = run(*(word.format(**files) for word in line), code=2)
    assert result.stderr.startswith("bridle: ")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_without_arguments_the_help_is_shown() -> None:
    shown = CliRunner().invoke(main, [])
    assert all(name in shown.output for name in COMMANDS)


def test_class_weights_mean_the_same_everywhere(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    write_svmlight(tmp_path / "iris", X, y)
    run("train", tmp_path / "iris", tmp_path / "m", "--weight", "1=5", "--gap", "1e-4")
    svc = bridle.LinearSVC(loss="hinge", class_weight={1: 5}, tol=1e-4).fit(X.astype(np.float32), y)
    primal = load_model(tmp_path / "m").certificate.primal
    assert primal == pytest.approx(svc.certificate_.primal, rel=2e-4)


@pytest.mark.parametrize("ending", PACKERS)
def test_compressed_files_are_read_by_every_command(
    folder: Path, tmp_path: Path, ending: str
) -> None:
    for name in ("two.svm", "ranks.svm", "words.txt"):
        raw = (folder / name).read_bytes()
        (tmp_path / f"{name}.{ending}").write_bytes(PACKERS[ending](raw))
    packed = tmp_path / f"two.svm.{ending}"
    for one, other in zip(read_svmlight(packed), read_svmlight(folder / "two.svm"), strict=True):
        assert (one != other).sum() == 0
    run("train", packed, tmp_path / "m")
    run("convert", packed, tmp_path / "two.arrow")
    run("rank", "train", tmp_path / f"ranks.svm.{ending}", tmp_path / "r")
    run("tag", "train", tmp_path / f"words.txt.{ending}", tmp_path / "t")
    header = b"label,a\n"
    table = header + b"".join(b"%d,%d\n" % (i % 2, i) for i in range(20))
    (tmp_path / f"t.csv.{ending}").write_bytes(PACKERS[ending](table))
    run("train", tmp_path / f"t.csv.{ending}", tmp_path / "m")


@pytest.mark.parametrize("ending", PACKERS)
def test_damaged_compressed_files_end_in_one_line(
    folder: Path, tmp_path: Path, ending: str
) -> None:
    whole = PACKERS[ending]((folder / "two.svm").read_bytes())
    damaged = tmp_path / f"two.svm.{ending}"
    damaged.write_bytes(whole[: len(whole) // 2])
    for line in (["train", damaged], ["convert", damaged, tmp_path / "x.arrow"]):
        said = run(*line, code=2).stderr
        assert said.startswith(f"bridle: {damaged}: ")
        assert said.count("\n") == 1


@pytest.mark.parametrize("ending", ["", *PACKERS])
def test_predict_reads_standard_input(folder: Path, tmp_path: Path, ending: str) -> None:
    def piped(name: str) -> bytes:
        raw = (folder / name).read_bytes()
        return PACKERS[ending](raw) if ending else raw

    for words, name in (([], "two.svm"), (["rank"], "ranks.svm"), (["tag"], "words.txt")):
        run(*words, "train", folder / name, tmp_path / "m")
        usual = run(*words, "predict", folder / name, tmp_path / "m").stdout
        told = run(*words, "predict", "-", tmp_path / "m", given=piped(name))
        assert told.stdout == usual
        told = run(*words, "predict", "-", tmp_path / "m", given=b"x\n\x80", code=2).stderr
        assert told.startswith("bridle: standard input")
        assert told.count("\n") == 1


@pytest.mark.parametrize("command", ["path", "compare"])
def test_pictures_are_drawn_if_asked_for_and_refused_before_the_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    quick = {"path": ["--gap", "0.5"], "compare": ["--solvers", "dcd"]}[command]
    told = run(command, folder / "two.svm", *quick)
    assert "picture" not in told.output
    assert not list(tmp_path.iterdir())
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec",
        lambda name, *more: None if name == "matplotlib" else found(name, *more),
    )  # fmt: skip
    bad = tmp_path / "bad.svm"
    bad.write_text("not read before the picture is refused\n")
    told = run(command, bad, "--picture", "p.png", code=2)
    assert told.stderr == "bridle: p.png: pictures need matplotlib: pip install 'bridle[plot]'\n"


def test_what_one_training_command_has_all_have(folder: Path, tmp_path: Path) -> None:
    for words, name in ((["rank"], "ranks.svm"), (["tag"], "words.txt")):
        line = [*words, "train", folder / name, tmp_path / "m"]
        told = run(
            *line, "--quiet", "--test", folder / name, "--max-seconds", 5, "--max-steps", 100,
            "--trace", tmp_path / "t.jsonl", "--set", "seed=1", code=2,
        )  # fmt: skip
        assert "has no setting 'seed'" in told.stderr
        told = run(
            *line, "--quiet", "--test", folder / name, "--max-seconds", 5, "--max-epochs", 500,
            "--trace", tmp_path / "t.jsonl",
        )  # fmt: skip
        assert told.output == ""
        last = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[-1])
        kept = load_model(tmp_path / "m").certificate.relative_gap
        assert last["relative_gap"] == pytest.approx(kept)


def test_rank_scales_and_keeps_the_data_as_they_are(folder: Path, tmp_path: Path) -> None:
    X, y, qid = read_svmlight(folder / "ranks.svm", qid=True)
    sizes = 10.0 ** np.arange(-3, 3)
    write_svmlight(tmp_path / "uneven", X.multiply(sizes).tocsr(), y, qid=qid)
    even = X.toarray() / np.abs(X.toarray()).max(axis=0)
    write_svmlight(tmp_path / "even", even, y, qid=qid)
    told = [
        json.loads(
            run("rank", "train", tmp_path / name, tmp_path / name[0], *more, "--json").stdout
        )
        for name, more in (("uneven", ["--scale"]), ("even", []))
    ]
    assert told[0]["primal"] == pytest.approx(told[1]["primal"], rel=2e-3)
    assert told[0]["map_train"] == pytest.approx(told[1]["map_train"], abs=0.02)


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "arrow"])
def test_rank_reads_what_every_command_reads(folder: Path, tmp_path: Path, ending: str) -> None:
    X, y, qid = read_svmlight(folder / "ranks.svm", qid=True)
    path = tmp_path / f"ranks.{ending}"
    if ending == "npz":
        write_npz(path, X, y, qid=qid)
    elif ending == "arrow":
        write_arrow(path, X, y, qid=qid)
    else:
        table = pd.DataFrame(X.toarray(), columns=list("abcdef"))
        table["label"], table["query"] = y, [f"q{q}" for q in qid]
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    column = ["--qid-column", "query"] if ending in ("csv", "parquet") else []
    usual = json.loads(run("rank", "train", folder / "ranks.svm", tmp_path / "u", "--json").stdout)
    told = json.loads(run("rank", "train", path, tmp_path / "m", *column, "--json").stdout)
    for name in ("primal", "queries", "features", "map_train"):
        assert told[name] == pytest.approx(usual[name], rel=1e-9)
    scores = run("rank", "predict", path, tmp_path / "m").stdout
    assert scores == run("rank", "predict", folder / "ranks.svm", tmp_path / "u").stdout
    assert "all" in run("rank", "eval", path, tmp_path / "m", "--summary").stdout
    if column:
        told = run("rank", "train", path, tmp_path / "m", code=2).stderr
        assert "which column has the query ids? Say --qid-column NAME" in told


def test_a_file_of_weights_is_rows_said_again(folder: Path, tmp_path: Path) -> None:
    X, y = read_svmlight(folder / "two.svm")
    times = np.arange(len(y)) % 3
    (tmp_path / "w").write_text("".join(f"{n}\n" for n in times))
    write_svmlight(tmp_path / "again", X[np.repeat(np.arange(len(y)), times)], y.repeat(times))
    gap = ["--gap", "1e-5", "--json"]
    line = ["train", "-W", tmp_path / "w", folder / "two.svm", tmp_path / "m", *gap]
    weighed = json.loads(run(*line).stdout)
    again = json.loads(run("train", tmp_path / "again", tmp_path / "a", *gap).stdout)
    assert weighed["primal"] == pytest.approx(again["primal"], rel=2e-5)
    # with LIBLINEAR's other options, as its own -W
    run("train", "-s", 3, "-B", 1, "-q", *line[1:-3])
    (tmp_path / "w").write_text("1\n")
    assert "1 weights for 80 rows" in run(*line, code=2).stderr
    (tmp_path / "w").write_text("1\n" * 79 + "x\n")
    assert "w:80: expected a number, found 'x'" in run(*line, code=2).stderr


def test_probabilities_in_liblinear_s_words(folder: Path, tmp_path: Path) -> None:
    run("train", "-b", 1, "-q", folder / "two.svm", tmp_path / "m")
    plain = run("predict", folder / "two.svm", tmp_path / "m", "--probability").stdout
    told = run("predict", "-b", 1, folder / "two.svm", tmp_path / "m", tmp_path / "out")
    first, *lines = (tmp_path / "out").read_text().splitlines()
    assert told.stdout == ""
    assert first == "labels -1 1"
    chances = np.array([line.split() for line in lines], float)
    np.testing.assert_allclose(chances[:, 1:], np.loadtxt(plain.splitlines()), rtol=1e-4)
    labels = run("predict", "-b", 0, folder / "two.svm", tmp_path / "m").stdout.split()
    assert [f"{label:g}" for label in chances[:, 0]] == labels
    assert "-b: expected 0 or 1" in run("train", "-b", 2, folder / "two.svm", code=2).stderr


def test_validation_stops_where_the_held_out_loss_is_lowest(folder: Path, tmp_path: Path) -> None:
    line = [
        "train", folder / "two.svm", tmp_path / "m", "--solver", "pegasos", "-c", 100, "--gap", 0,
        "--validation", folder / "two.svm", "--trace", tmp_path / "t.csv",
    ]  # fmt: skip
    told = json.loads(run(*line, "--json").stdout)
    assert "held-out loss stopped falling" in told["message"]
    with open(tmp_path / "t.csv", newline="") as file:
        losses = [float(row["validation_loss"]) for row in csv.DictReader(file)]
    X, y = read_svmlight(folder / "two.svm")
    scores = load_model(tmp_path / "m").decision_function(X)
    assert np.maximum(0, 1 - y * scores).mean() == pytest.approx(min(losses), rel=1e-5)
    assert told["error_validation"] == pytest.approx(np.mean(y * scores <= 0))
    (tmp_path / "other").write_text("7 1:1\n")
    told = run(*line[:-4], "--validation", tmp_path / "other", code=2).stderr
    assert "held-out rows have the label 7" in told
    told = run(*line, "--kernel", "rbf", code=2).stderr
    assert "--validation is for linear machines" in told


def test_epochs_a_priori(folder: Path, tmp_path: Path) -> None:
    line = ["train", folder / "two.svm", tmp_path / "m", "--solver", "svmsgd"]
    told = json.loads(run(*line, "--epochs-a-priori", "--json").stdout)
    X, y = read_svmlight(folder / "two.svm")
    epochs = best_epochs(LinearProblem(X, y, bias="regularised"), "svmsgd")
    assert told["epochs"] == pytest.approx(epochs)
    assert told["status"] == "budget"
    run(*line, "--epochs-a-priori", "--max-epochs", 0.1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_check(folder: Path, loss: str, bias: str) -> None:
    line = ["check", folder / "two.svm", "--loss", loss, "--bias", bias, "-c", 0.5]
    told = json.loads(run(*line, "--json").stdout)
    assert told["gradient_error"] < 1e-5
    assert told["relative_gap"] <= 1e-3
    margins = told["margins"]
    assert margins["beyond"] + margins["inside"] + margins["misclassified"] == told["rows"] == 80
    assert [step["eta0"] for step in told["rates"]] == pytest.approx(list(RATES))
    best = min(told["rates"], key=lambda step: step["cost"] or np.inf)["eta0"]
    assert told["eta0"] == pytest.approx(best / 2)
    assert told["epochs_a_priori"] >= 1
    shown = run(*line).stdout
    for part in ("start with eta0", "gradient: off by", "epochs a priori", "support vectors"):
        assert part in shown
    assert run(*line, "--gap", 0, "--max-seconds", 0.01, code=3).stdout
