"""What every command does alike: usage errors, standard input, compressed files, pictures."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import lzma
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pyarrow as pa
import pytest
from bridle.cli import COMMANDS, main
from bridle.data import read_svmlight, write_svmlight
from bridle.models.storage import load_model
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
        (["import", "{two}", "m"], "Missing option '-c'; see bridle import --help"),
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
