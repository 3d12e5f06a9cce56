"""Data files of every kind: the same rows are the same numbers, and bad files end in one line."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import lzma
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle.cli import main
from bridle.data import Wanted, fast_csv, read_data, tables, write_npz, write_svmlight
from bridle.models.storage import load_model
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, save_npz
from scipy.sparse import random as sparse_random
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")


def draw(n_rows: int = 150, n_classes: int = 3, seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = csr_matrix(sparse_random(n_rows, 9, 0.6, random_state=rng), dtype=np.float32)
    truth = np.random.default_rng(4).normal(size=(9, n_classes))
    return X, (X @ truth + 0.1 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1) * 1.0


def write_all(folder: Path, X: csr_matrix, y: np.ndarray) -> dict[str, Path]:
    """The same rows in every format; tables have their label in the middle."""
    dense = X.toarray().astype(np.float64)
    names = [f"f{k}" for k in range(5)] + ["label"] + [f"f{k}" for k in range(5, 9)]
    cells = {f"f{k}": dense[:, k] for k in range(9)} | {"label": y}
    write_svmlight(folder / "d.svm", X, y)
    text = (folder / "d.svm").read_bytes()
    (folder / "d.svm.gz").write_bytes(gzip.compress(text))
    (folder / "d.svm.xz").write_bytes(lzma.compress(text))
    write_npz(folder / "d.npz", X, y)
    write_npz(folder / "dense.npz", dense, y.astype(np.int64))
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        with open(folder / f"d{suffix}", "w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerow(names)
            writer.writerows(zip(*(cells[name].tolist() for name in names), strict=True))
    (folder / "d.csv.gz").write_bytes(gzip.compress((folder / "d.csv").read_bytes()))
    (folder / "d.CSV.xz").write_bytes(lzma.compress((folder / "d.csv").read_bytes()))
    pq.write_table(pa.table({name: cells[name] for name in names}), folder / "d.parquet")
    return {path.name: path for path in folder.iterdir()}


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def report(*arguments: Any) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_same_numbers_whichever_way_the_data_came_in(tmp_path: Path) -> None:
    X, y = draw()
    files = write_all(tmp_path, X, y)
    assert len(files) == 10
    for name, path in files.items():
        found = read_data(path)
        assert found.X.dtype == np.float32, name
        assert found.X.has_canonical_format
        np.testing.assert_array_equal(found.X.toarray(), X.toarray(), err_msg=name)
        np.testing.assert_array_equal(found.X.indices, X.indices)
        np.testing.assert_array_equal(found.y, y)
    expected = None
    for name, path in files.items():
        told = report("train", path, tmp_path / "m", "--threads", 1)
        model = load_model(tmp_path / "m")
        kept = (told["primal"], told["dual"], model.fingerprint, model.coef.tobytes())
        expected = kept if expected is None else expected
        assert kept == expected, name
        # Any file with any model.
        assert (
            report("predict", files["d.parquet"], tmp_path / "m")["error_test"]
            == told["error_train"]
        )
        assert report("certify", path, tmp_path / "m", "--max-seconds", 1)["trained_on_these_data"]


def test_every_command_reads_tables(tmp_path: Path) -> None:
    files = write_all(tmp_path, *draw(n_classes=2))
    for command in (
        ["path", "--gap", "0.1"], ["compare", "--solvers", "dcd", "--picture", tmp_path / "p.png"],
        ["report", "-o", tmp_path / "r.html", "--solvers", "dcd"],
    ):  # fmt: skip
        name, *options = command
        told = [
            report(name, files[f], "--test", files["d.tsv"], *options) for f in ("d.csv", "d.svm")
        ]
        for key in ("points", "C", "best_dual"):
            assert told[0].get(key) == told[1].get(key)


def test_labels_that_are_words(tmp_path: Path) -> None:
    X, y = draw()
    words = np.array(["ham", "späm", "egg, fried"])[y.astype(int)]
    write_npz(tmp_path / "d.npz", X, words)
    with open(tmp_path / "d.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["x", *"abcdefghi"])
        writer.writerows(
            [word, *row] for word, row in zip(words, X.toarray().tolist(), strict=True)
        )
    for name, options in (("d.npz", []), ("d.csv", ["--label-column", "x"]),
                          ("d.csv", ["--label-column", "1"])):  # fmt: skip
        told = report("train", tmp_path / name, tmp_path / "m", *options)
        assert told["classes"] == ["egg, fried", "ham", "späm"]
        shown = run("predict", tmp_path / name, tmp_path / "m", *options)
        assert set(shown.stdout.splitlines()) <= set(words)
        assert shown.stderr.startswith("error ")  # the labels were found
        assert report("predict", tmp_path / name, tmp_path / "m")["error_test"] < 0.2


def test_the_label_column(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("1,2,0\n3,4,1\n")  # no names: numbers only
    for word, expected in (("1", [1, 3]), ("-1", [0, 1]), ("3", [0, 1]), ("2", [2, 4])):
        found = read_data(path, Wanted(label_column=word))
        np.testing.assert_array_equal(found.y, expected)
        assert found.X.shape == (2, 2)
    path.write_text("a,7,label\n1,2,0\n3,4,1\n")
    np.testing.assert_array_equal(read_data(path).y, [0, 1])
    np.testing.assert_array_equal(read_data(path, Wanted(label_column="7")).y, [2, 4])
    for word in ("0", "4", "-4", "b"):
        with pytest.raises(ValueError, match=f"has no column '{word}'; there are: a, 7, label"):
            read_data(path, Wanted(label_column=word))
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="which column is the label"):
        read_data(path)


def test_a_row_of_words_is_not_taken_for_names(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    rows = "yes,red\nno,blue\nyes,blue\nno,red\n"
    by_number, by_name = Wanted(label_column="1", hash_bits=5), Wanted(None, hash_bits=5)
    path.write_text(rows)
    with pytest.raises(ValueError, match=r"words.csv:1: are these .* or a row\? 'yes' is a label"):
        read_data(path, by_number)
    with pytest.raises(ValueError, match="which column is the label"):
        read_data(path, by_name)
    for names, wanted in (("play,colour\n", by_number), ("label,colour\n", by_name)):
        path.write_text(names + rows)
        assert read_data(path, wanted).y.tolist() == ["yes", "no", "yes", "no"]


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    """Another order, further columns and no label in the file to predict."""
    X, y = draw(n_classes=2)
    write_all(tmp_path, X, y)
    assert run("train", tmp_path / "d.csv", tmp_path / "m").exit_code == 0
    assert load_model(tmp_path / "m").info["feature_names"] == [f"f{k}" for k in range(9)]
    expected = run("predict", tmp_path / "d.csv", tmp_path / "m").stdout
    dense = X.toarray()
    with open(tmp_path / "other.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["note", *(f"f{k}" for k in reversed(range(9)))])
        writer.writerows(["whatever", *row[::-1]] for row in dense.tolist())
    shown = run("predict", tmp_path / "other.csv", tmp_path / "m")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (0, expected, "")
    lacking = run("certify", tmp_path / "other.csv", tmp_path / "m")
    assert (lacking.exit_code, lacking.stderr) == (
        2, f"bridle: {tmp_path / 'other.csv'}: has no label column 'label'\n",
    )  # fmt: skip
    (tmp_path / "few.csv").write_text("f0,f1\n1,2\n")
    few = run("predict", tmp_path / "few.csv", tmp_path / "m")
    assert "has no column 'f2', which the model uses" in few.stderr


def test_words_are_hashed_as_scikit_learn_hashes_them() -> None:
    columns = tables.Columns("label", ("a", "b"), ("word",), 30)
    for word in ("", "a", "ab", "abc", "abcd", "ä=ß", "x" * 100, "\x00\xff"):
        hashed = murmurhash3_32(f"word={word}".encode(), positive=True)
        assert columns.feature_of("word", word) == 2 + hashed % 2**30


def categories(folder: Path, n_rows: int = 200) -> tuple[dict[str, Any], np.ndarray]:
    rng = np.random.default_rng(2)
    cells = {
        "city": rng.choice(["Bern", "Zürich", "Genève", ""], n_rows).tolist(),
        "age": rng.random(n_rows).astype(np.float32).tolist(),
        "tint": rng.choice(["red", "blue"], n_rows).tolist(),
    }
    y = np.where((np.array(cells["city"]) == "Bern") ^ (rng.random(n_rows) < 0.05), 1.0, -1.0)
    with open(folder / "d.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*cells, "label"])
        writer.writerows(zip(*cells.values(), y.tolist(), strict=True))
    pq.write_table(pa.table(cells | {"label": y}), folder / "d.parquet")
    return cells, y


def test_text_is_hashed_as_scikit_learn_hashes_it(tmp_path: Path) -> None:
    cells, _ = categories(tmp_path)
    hasher = FeatureHasher(n_features=2**6, alternate_sign=False)
    words = [{"city": c, "tint": t} for c, t in zip(cells["city"], cells["tint"], strict=True)]
    # scikit-learn takes the absolute value of a signed hash; below 2^31 the two agree.
    expected = hasher.transform(words).toarray()
    for name in ("d.csv", "d.parquet"):
        found = read_data(tmp_path / name, Wanted(hash_bits=6))
        assert found.X.shape == (200, 1 + 2**6)
        assert found.columns == tables.Columns("label", ("age",), ("city", "tint"), 6)
        np.testing.assert_array_equal(found.X[:, 0].toarray().ravel(), cells["age"])
        hashed = found.X[:, 1:].toarray()
        assert (hashed.sum(axis=1) == 2).all()
        for column, value in (("city", "Zürich"), ("tint", "red"), ("city", "")):
            slot = found.columns.feature_of(column, value) - 1
            rows = np.array(cells[column]) == value
            assert (hashed[rows, slot] >= 1).all()
            signed = murmurhash3_32(f"{column}={value}".encode(), seed=0)
            if signed >= 0:
                np.testing.assert_array_equal(expected[rows, slot] > 0, hashed[rows, slot] > 0)


def test_a_model_of_text_applies_to_new_text(tmp_path: Path) -> None:
    categories(tmp_path)
    for name in ("d.csv", "d.parquet"):
        told = report("train", tmp_path / name, tmp_path / "m", "--hash-bits", 12, "--bias", "free")
        assert told["error_train"] < 0.1
        assert report("predict", tmp_path / name, tmp_path / "m")["error_test"] < 0.1
        assert report("certify", tmp_path / name, tmp_path / "m")["trained_on_these_data"]
    (tmp_path / "new.csv").write_text("tint,age,city\ngreen,0.4,Bern\nred,0.3,Chur\n")
    shown = run("predict", tmp_path / "new.csv", tmp_path / "m")
    assert shown.stdout == "1\n-1\n"
    refused = run("train", tmp_path / "d.csv", tmp_path / "m")
    assert refused.exit_code == 2
    assert "d.csv:3: column 'city'" in refused.stderr
    assert "--hash-bits" in refused.stderr


def test_text_that_shows_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that looks like numbers for many rows is text all the same, from the first row."""
    monkeypatch.setattr(tables, "ROWS_AT_A_TIME", 3)
    (tmp_path / "d.csv").write_text("code,x,label\n" + "1,2,0\n" * 7 + "A,3,1\n")
    found = read_data(tmp_path / "d.csv", Wanted(hash_bits=10))
    assert found.columns is not None
    assert found.columns.text == ("code",)
    first = np.flatnonzero(found.X[0].toarray().ravel()).tolist()
    assert first == [0, found.columns.feature_of("code", "1")]
    with pytest.raises(ValueError, match=r"d\.csv:9: column 'code': 'A' is no number"):
        read_data(tmp_path / "d.csv")


WRONG = {
    "empty": ("", "has no rows"),
    "names only": ("a,label\n", "has no rows"),
    "ragged": ("a,label\n1,2\n1,2,3\n", r":3: expected 2 columns, found 3"),
    "blank cell": ("a,label\n1,2\n,3\n", r":3: column 'a' has an empty cell"),
    "nan": ("a,label\n1,2\nnan,3\n", r":3: column 'a': nan is not finite"),
    "too large": ("a,label\n1,2\n1e39,3\n", r":3: column 'a': 1e39 is not finite"),
    "underscore": ("a,label\n1,2\n1_0,3\n", r":3: column 'a': '1_0' is no number"),
    "label": ("a,label\n1,2\n1,inf\n", "labels that are not finite"),
    "no label": ("a,label\n1,x\n1,\n", "rows without a label"),
    "twice": ("a,a,label\n1,2,3\n", ":1: two columns are called 'a'"),
    "row or names": ("5.1,3,iris\n4.9,2,rose\n", r":1: are these the names .* '5.1' is a number"),
    "row with a gap": ("5.1,,iris\n4.9,2,rose\n", ":1: are these the names"),
    "a single line": ("5.1,3,iris\n", ":1: are these the names"),
    "quote": ('a,label\n1,"2\n', ":2: no CSV"),
    "latin": ("a,label\n1,\xe4\n".encode("latin-1"), ": no CSV in UTF-8"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_table_is_one_line(tmp_path: Path, case: str) -> None:
    content, message = WRONG[case]
    path = tmp_path / "d.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        read_data(path)
    told = run("train", path)
    assert told.exit_code == 2
    assert told.stderr.startswith(f"bridle: {path}")
    assert told.stderr.count("\n") == 1


def test_bad_parquet(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    for table, message in (
        ({"a": [1, None], "label": [0, 1]}, "row 2: column 'a' is null"),
        ({"a": [[1], [2]], "label": [0, 1]}, "neither numbers nor text"),
        ({"a": [1.0, np.inf], "label": [0, 1]}, "not finite"),
        ({"a": ["x", "y"], "label": [0, 1]}, "--hash-bits"),
        ({"a": pa.array([], pa.float64()), "label": pa.array([], pa.int64())}, "has no rows"),
    ):
        pq.write_table(pa.table(table), path)
        with pytest.raises(ValueError, match=message):
            read_data(path)
    path.write_bytes(b"PAR1 nothing PAR1")
    assert run("train", path).stderr.startswith(f"bridle: {path}: not a Parquet file")


def test_numbers_are_not_hashed_in_the_place_of_text(tmp_path: Path) -> None:
    """A table says "7", an integer column 7.0: other features."""
    (tmp_path / "d.csv").write_text("zip,label\n7,0\n8,1\nx,1\n")
    columns = read_data(tmp_path / "d.csv", Wanted(hash_bits=4)).columns
    pq.write_table(pa.table({"zip": [7, 8]}), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="column 'zip' is int64, but text to the model"):
        read_data(tmp_path / "d.parquet", Wanted(columns=columns))


def test_a_test_file_of_other_labels_has_no_error_rate(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,label\n1,yes\n-1,no\n")
    (tmp_path / "t.csv").write_text("a,label\n1,1\n-1,0\n")
    line = ("train", tmp_path / "d.csv", tmp_path / "m", "--test", tmp_path / "t.csv")
    told = run(*line)
    assert "test error unknown" in told.stdout
    assert "none of its labels is one of the model's classes" in told.stderr
    assert report(*line)["error_test"] is None


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "d.parquet").write_bytes(b"")
    code = (
        "import sys; sys.modules['pyarrow'] = None\nfrom bridle.cli import main\n"
        f"main(['train', {str(tmp_path / 'd.parquet')!r}])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "pip install 'bridle[parquet]'" in found.stderr


def test_bad_archives(tmp_path: Path) -> None:
    X, y = draw()
    path = tmp_path / "d.npz"
    good = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape),
            "format": np.array(b"csr"), "y": y}  # fmt: skip
    for change, message in (
        ({"y": y[:-1]}, "one label for each of 150 rows"), ({"y": None}, "has no array 'y'"),
        ({"data": None}, "has no array 'data'"), ({"format": np.array(b"csc")}, "must be 'csr'"),
        ({"indices": X.indices + 5}, "d.npz: "), ({"indptr": X.indptr[::-1]}, "d.npz: "),
        ({"data": X.data * np.float64(1e300)}, "not finite"), ({"y": y * np.nan}, "not finite"),
        ({"shape": np.array([150, -3])}, "too many"), ({"shape": np.array([3])}, "d.npz: "),
        ({"data": X.data.astype(complex)}, "must be numbers"),
    ):  # fmt: skip
        parts = {key: value for key, value in (good | change).items() if value is not None}
        np.savez(path, **parts)
        with pytest.raises(ValueError, match=message):
            read_data(path)
    np.savez(path, X=np.zeros((3, 2)), y=np.array([object()] * 3))
    with pytest.raises(ValueError, match=r"not an \.npz archive that can be read"):
        read_data(path)
    save_npz(path, X)
    assert "see bridle.data.write_npz" in run("train", path).stderr


def attack(path: Path, raw: bytes, wanted: Wanted) -> None:
    """Whatever is done to a file, reading it gives finite rows or a ValueError of one line."""

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def strike(data: st.DataObject) -> None:
        hit = bytearray(raw)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, max(0, len(hit) - 1)))
            end = data.draw(st.integers(at, min(len(hit), at + 20)))
            hit[at:end] = data.draw(st.binary(max_size=6) | st.sampled_from([b"\n", b",", b'"']))
        path.write_bytes(hit)
        with contextlib.suppress(ValueError, OSError):
            found = read_data(path, wanted)
            assert found.X.shape[0] == len(found.y) > 0
            assert np.isfinite(found.X.data).all()

    strike()


@pytest.mark.parametrize("name", ["d.csv", "d.npz", "d.parquet", "d.csv.gz"])
def test_hostile_files(tmp_path: Path, name: str) -> None:
    if name == "d.npz":
        X, y = draw(n_rows=5)
        write_npz(tmp_path / name, X, y)
    else:
        categories(tmp_path, n_rows=5)
        (tmp_path / "d.csv.gz").write_bytes(gzip.compress((tmp_path / "d.csv").read_bytes()))
    attack(tmp_path / name, (tmp_path / name).read_bytes(), Wanted(hash_bits=8))


def test_archives_are_never_unpickled(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("y.npy", b"\x80\x04c__builtin__\nexit\n.")
    with pytest.raises(ValueError, match=r"d\.npz"):
        read_data(tmp_path / "d.npz")


QUOTED = 'name,age,label\n"Ann, B.",31,a\n"say ""hi""",40,b\n"two\nlines",5,a\nplain,7,b\n'


@pytest.mark.parametrize(
    "text",
    [
        "a,b,label\n1,2,0\n-3.5,0,1\n1e3,.5,0\n",
        "1,2,0\n3,4,1\n",
        "\n\na,b,label\r\n1,2,x\r\n\r\n3,4,y\r\n",
        "a,b,label\r1,2,x\r3,4,y\r",
        "a,label\n 1,0\n2 ,1\n+3,1\n",
        "a,label\n1,0\n1_000,1\n",
        "a,label\n1,0\n,1\n",
        "a,label\n1,0\nnan,1\n",
        "a,label\n1,0\nnan(1),1\n",
        "a,label\n1,0\n1e300,1\n",
        "a,label\n1,0\nNULL,1\nTRUE,0\n",
        "a,b,label\n1,2,0\n1,2\n",
        "a,b,label\n1,2,0\n1,2,0,4\n",
        "a,label\n\u0661,0\n2,1\n",
        'a,label\n"1",0\n"2",1\n',
        'a,label\n"1"2,0\n2,1\n',
        'a,label\nx"y,0\n2,1\n',
        'a,label\n"x,0\n2,1\n',
        "\ufeffa,label\n1,0\n2,1\n",
        "a,label\n1,0\n2,\n",
        "a,label\n1,-1\n2,inf\n",
        QUOTED,
        "a,label\n1,0\n2,1" + "\n" * 30,
        "a,label\nx,0\ny,1\nx,1\n,0\n",
    ],
)
@pytest.mark.parametrize("bits", [None, 6])
def test_csv_is_read_alike_with_and_without_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, bits: int | None
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    label = "-1" if text[0] in "1" else "label"

    def told() -> Any:
        try:
            data = read_data(path, Wanted(label_column=label, hash_bits=bits))
        except ValueError as error:
            return str(error)
        return (data.X.toarray().tolist(), data.y.tolist(), data.columns)

    fast = told()
    monkeypatch.setattr(fast_csv, "read_columns", lambda *given, **how: None)
    assert fast == told()


def test_pyarrow_does_read_what_is_well_formed() -> None:
    for text, numbers in (("1,x\n2,y\n", {"a"}), (QUOTED.partition("\n")[2], {"age"})):
        names = ["a", "label"] if text[0] == "1" else ["name", "age", "label"]
        found = fast_csv.read_columns(text.encode(), names, numbers, 0, ",")
        assert found is not None
        assert {name for name in names if isinstance(found[name], np.ndarray)} == numbers


def test_a_column_that_is_text_to_the_model_stays_text(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a,label\nx,0\n1,1\n")
    (tmp_path / "test.csv").write_text("a,label\n1,1\n1.0,0\n")
    known = read_data(tmp_path / "train.csv", Wanted(hash_bits=8))
    data = read_data(tmp_path / "test.csv", Wanted(columns=known.columns))
    assert (data.X[0] != known.X[1]).nnz == 0
    assert (data.X[1] != known.X[1]).nnz == 2
