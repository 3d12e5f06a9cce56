"""Text to rows on disk: the same rows as the reader's, in bounded memory, whole or not at all."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle.cli import main
from bridle.data import (
    SvmlightError,
    make_corpus,
    open_arrow,
    read_arrow,
    read_svmlight,
    write_svmlight,
)
from bridle.data.convert import svmlight_to_arrow
from bridle.data.convert_all import arrow_names
from click.testing import CliRunner


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "rows.svm"
    write_svmlight(path, *make_corpus(1000, seed=2))
    return path


def fast_xz(text: bytes) -> bytes:
    return lzma.compress(text, preset=0)


@pytest.mark.parametrize("pack", [None, gzip.compress, fast_xz])
@pytest.mark.parametrize("block_bytes", [1000, 1 << 24])
def test_rows_are_those_of_the_reader(
    text: Path, tmp_path: Path, pack: Any, block_bytes: int
) -> None:
    source = text if pack is None else tmp_path / "packed"
    if pack is not None:
        source.write_bytes(pack(text.read_bytes()))
    X, y = read_svmlight(text)
    seen: list[int] = []
    target = tmp_path / "rows.arrow"
    found = svmlight_to_arrow(source, target, block_bytes=block_bytes, progress=seen.append)
    X2, y2 = read_arrow(target)
    assert X2.shape == X.shape == (found.n_rows, found.n_features)
    assert (X != X2).nnz == 0
    assert np.array_equal(y, y2)
    assert found.nnz == X.nnz
    assert seen == sorted(seen)
    assert seen[-1] <= source.stat().st_size


def test_threads_do_not_matter(text: Path, tmp_path: Path) -> None:
    files = []
    for n_threads in (1, 4):
        target = tmp_path / f"{n_threads}.arrow"
        svmlight_to_arrow(text, target, n_threads=n_threads, block_bytes=20000)
        files.append(target.read_bytes())
    assert files[0] == files[1]


def test_an_index_of_zero_that_comes_late_raises_what_came_before(tmp_path: Path) -> None:
    lines = ["# nothing", *["1 1:2 3:4", "-1 2:1 # two"] * 50, "1 0:1 7:1", *["-1 3:1"] * 20, "#"]
    (tmp_path / "a.svm").write_text("\n".join(lines))
    for block in (8, 64, 300, 1 << 20):
        found = svmlight_to_arrow(tmp_path / "a.svm", tmp_path / "a.arrow", block_bytes=block)
        assert found.zero_based
        rows = open_arrow(tmp_path / "a.arrow")
        assert rows.zero_based
        X, y = read_svmlight(tmp_path / "a.svm")
        X2, y2 = read_arrow(tmp_path / "a.arrow")
        assert np.array_equal(X.toarray(), X2.toarray())
        assert np.array_equal(y, y2)


def test_files_of_one_data_set_get_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 0:1 2:3\n")
    (tmp_path / "b.svm").write_text("-1 1:5\n")  # does not show by itself that it counts from 0
    run = CliRunner().invoke
    for name in "ab":
        words = ["convert", str(tmp_path / f"{name}.svm"), str(tmp_path / f"{name}.arrow")]
        done = run(main, [*words, "--features", "4", "--zero-based"])
        assert done.exit_code == 0, done.output
    assert read_arrow(tmp_path / "a.arrow")[0].toarray().tolist() == [[1, 0, 3, 0]]
    assert read_arrow(tmp_path / "b.arrow")[0].toarray().tolist() == [[0, 5, 0, 0]]
    done = run(main, ["convert", str(tmp_path / "a.svm"), str(tmp_path / "c.arrow"),
                      "--features", "2"])  # fmt: skip
    assert done.exit_code == 2
    assert "a.svm: has 3 features, more than 2" in done.output
    assert not (tmp_path / "c.arrow").exists()


def test_query_ids_are_kept(tmp_path: Path) -> None:
    (tmp_path / "q.svm").write_text("# first\n2 qid:1 1:1\n1 qid:1 2:1\n0 qid:7 1:3\n")
    assert svmlight_to_arrow(tmp_path / "q.svm", tmp_path / "q.arrow").has_qid
    assert read_arrow(tmp_path / "q.arrow", qid=True)[2].tolist() == [1, 1, 7]
    (tmp_path / "q.svm").write_text("2 qid:1 1:1\n1 2:1\n")
    with pytest.raises(SvmlightError, match=r"q.svm:2:3: expected qid"):
        svmlight_to_arrow(tmp_path / "q.svm", tmp_path / "r.arrow")


@pytest.mark.parametrize("block_bytes", [10, 1 << 20])
def test_errors_are_the_reader_s_and_leave_nothing_behind(tmp_path: Path, block_bytes: int) -> None:
    source = tmp_path / "bad.svm"
    for bad in (b"1 1:1\n" * 30 + b"1 2:x\n", b"", b"# only\n#words\n", b"1 1:1\n1 1:1 1:2"):
        source.write_bytes(bad)
        with pytest.raises(SvmlightError) as expected:
            read_svmlight(source)
        with pytest.raises(SvmlightError) as caught:
            svmlight_to_arrow(source, tmp_path / "out.arrow", block_bytes=block_bytes)
        assert str(caught.value) == str(expected.value)
    source.write_bytes(gzip.compress(b"1 1:1\n" * 1000)[:-20])
    with pytest.raises(SvmlightError, match="found damage"):
        svmlight_to_arrow(source, tmp_path / "out.arrow", block_bytes=block_bytes)
    assert [path.name for path in tmp_path.iterdir()] == ["bad.svm"]


def test_the_command_line(text: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.arrow"
    run = CliRunner().invoke(main, ["convert", str(text), str(target), "--json"])
    assert run.exit_code == 0, run.output
    report = json.loads(run.stdout)
    X, _ = read_svmlight(text)
    assert (report["rows"], report["features"], report["nnz"]) == (*X.shape, X.nnz)
    for arguments, words in (
        ([str(text), str(tmp_path / "rows.bin")], "must end in .arrow"),
        ([str(tmp_path / "none"), str(target)], "no such file"),
        ([str(text), str(tmp_path / "no" / "rows.arrow")], "there is no folder"),
    ):
        run = CliRunner().invoke(main, ["convert", *arguments])
        assert run.exit_code == 2
        assert words in run.stderr


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Four times the text take hardly more memory."""
    line = " ".join(["1", *(f"{j}:0.{j}" for j in range(1, 200))]) + "\n"
    peaks = []
    for n in (30_000, 120_000):
        with gzip.open(tmp_path / "a.svm.gz", "wt", compresslevel=1) as file:
            for _ in range(n // 10_000):
                file.write(line * 10_000)
        command = [sys.executable, "-m", "bridle.cli", "convert", str(tmp_path / "a.svm.gz")]
        run = subprocess.run(
            [*command, str(tmp_path / "a.arrow"), "--json"], capture_output=True, check=True
        )
        peaks.append(json.loads(run.stdout)["peak_rss_mb"])
    assert peaks[1] < peaks[0] + 40


def test_killed_converters_leave_the_old_file_or_the_new_one(text: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.arrow"
    write_svmlight(tmp_path / "old.svm", *make_corpus(10, seed=0))
    svmlight_to_arrow(tmp_path / "old.svm", target)
    sizes = {open_arrow(target).n_rows, 1000}
    program = (
        "import sys; from bridle.data.convert import svmlight_to_arrow as f; print(flush=True)\n"
        "while True: f(sys.argv[1], sys.argv[2], block_bytes=20000)"
    )
    chance = random.Random(1)
    for _ in range(5):
        command = [sys.executable, "-c", program, str(text), str(target)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.random() * 0.3)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert read_arrow(target)[0].shape[0] in sizes


def test_without_pyarrow_the_command_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "rows.arrow").write_bytes(b"ARROW1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    rows, text, target = (str(tmp_path / name) for name in ("rows.arrow", "rows.svm", "new.arrow"))
    for words in (["convert", text, target], ["train", rows], ["train", rows, "--memory", "1G"]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2, words
        assert "pip install 'bridle[arrow]'" in done.output
    assert not Path(target).exists()


def write_parts(folder, zero_based):
    """Three texts of one data set: the last lacks features, the middle one shows the base."""
    shift = 0 if zero_based else 1
    rows = [[(1, 2.0), (6, 1.0)], [(0, 3.0), (2, 1.0)], [(4, 1.0)]]
    for k, row in enumerate(rows):
        text = " ".join(f"{column + shift}:{value:g}" for column, value in row)
        (folder / f"part-{k}.svm").write_text(f"{(-1) ** k} {text}\n")
    dense = np.zeros((3, 7))
    for i, row in enumerate(rows):
        for column, value in row:
            dense[i, column] = value
    return [folder / f"part-{k}.svm" for k in range(3)], dense


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("words", [[], ["--compact", "exact"], ["--features", "7"]])
def test_parts_of_one_data_set_agree(tmp_path, zero_based, words):
    texts, dense = write_parts(tmp_path, zero_based)
    done = CliRunner().invoke(
        main, ["convert", "--json", *words, *map(str, texts), str(tmp_path / "rows")]
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert (report["rows"], report["features"], report["zero_based"]) == (3, 7, zero_based)
    assert report["files"] == [str(tmp_path / "rows" / f"part-{k}.arrow") for k in range(3)]
    for k, file in enumerate(report["files"]):
        X, y = read_arrow(file)
        assert np.array_equal(X.toarray(), dense[[k]])
        assert y.tolist() == [(-1) ** k]
        assert open_arrow(file).zero_based == zero_based


def test_names_of_parts(tmp_path):
    texts = [tmp_path / name for name in ("day.1.svm", "day.2.svm.gz", "day.3.txt.BZ2", "a9a")]
    assert [name.name for name in arrow_names(texts, tmp_path)] == [
        "day.1.arrow", "day.2.arrow", "day.3.arrow", "a9a.arrow",
    ]  # fmt: skip


def test_parts_that_cannot_be_converted_together(tmp_path):
    texts, _ = write_parts(tmp_path, zero_based=False)
    (tmp_path / "part-0.svm.gz").write_bytes(gzip.compress(texts[0].read_bytes()))
    for words, message in (
        ([*texts, tmp_path / "part-0.svm.gz", tmp_path / "rows"], "would both become"),
        ([*texts, texts[0]], "this is none"),
        ([*texts, "--features", 3, tmp_path / "rows"], "has 7 features, more than 3"),
        ([*texts, tmp_path / "no" / "rows"], "there is no folder"),
    ):
        done = CliRunner().invoke(main, ["convert", *map(str, words)])
        assert done.exit_code in (1, 2)
        assert message in done.output
