"""Compact files: the same rows in fewer bytes, for us and for others, and nothing trusted."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import Gap, LinearProblem, StreamedProblem, _core, solve
from bridle.cli import main
from bridle.data import ArrowError, make_corpus, open_arrow, read_arrow, write_arrow, write_svmlight
from bridle.data.arrow import ArrowRows
from bridle.data.convert import svmlight_to_arrow
from bridle.rows.disk.memory import MemoryPlan
from bridle.rows.disk.ranges import DiskRows
from click.testing import CliRunner
from tests.test_streamed import recomputed

from hostile import refusals


def drawn(width: int, dtype: Any, values: Any = (0.1, -0.0, 0.0, 3.7, 1e-30)) -> Any:
    """Rows with none to 40 entries, the first and the last column among them."""
    rng = np.random.default_rng(0)
    rows = [
        np.unique(np.append(rng.integers(0, width, rng.integers(0, 40)), ends))
        for ends in ([], [0], [width - 1], [0, width - 1]) * 50
    ]
    rows[7] = np.empty(0)
    X = sp.csr_matrix((len(rows), width), dtype=dtype)
    X.indptr = np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int32)
    X.indices = np.concatenate(rows).astype(np.int32)
    X.data = rng.choice(np.array(values, dtype), len(X.indices))
    return X, rng.choice([-1.0, 1.0], len(rows))


def assert_same(X: Any, Y: Any) -> None:
    """Stored zeros and their signs included."""
    assert X.shape == Y.shape
    for one, other in ((X.indptr, Y.indptr), (X.indices, Y.indices)):
        assert np.array_equal(one, other)
    assert X.data.tobytes() == Y.data.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [50, 65_536, 300_000])
@pytest.mark.parametrize("batch_bytes", [1, 3000, 1 << 24])
def test_no_bit_is_lost(dtype: Any, width: int, batch_bytes: int, tmp_path: Path) -> None:
    X, y = drawn(width, dtype)
    path = tmp_path / "rows.arrow"
    weight = np.linspace(1, 2, len(y))
    write_arrow(path, X, y, weight=weight, batch_bytes=batch_bytes, compact="exact")
    rows = open_arrow(path)
    assert rows.compact
    assert rows.nnz == X.nnz
    assert rows.dtype == dtype
    found, labels = read_arrow(path)
    assert_same(found, X)
    assert np.array_equal(labels, y)
    for i in (0, 7, 199):
        columns, values, label = rows.row(i)
        assert np.array_equal(columns, X[i].indices)
        assert np.array_equal(values, X[i].data)
        assert label == y[i]
    for part in rows.ranges(1000):
        batch = rows.load(part, memoryview(bytearray(rows.range_bytes(part))))
        assert np.array_equal(batch.X.toarray(), X[batch.rows].toarray())
        assert np.array_equal(batch.y, y[batch.rows])
        assert np.array_equal(batch.weight, weight[batch.rows])


def test_memory_is_for_rows(tmp_path: Path) -> None:
    """To open one does not load pandas, as pyarrow likes to: that is 50 MB of what is allowed."""
    if version("pyarrow").startswith("15."):
        pytest.skip("pyarrow 15 loads pandas in other places, too")
    X, y = make_corpus(50, seed=0)
    write_arrow(tmp_path / "rows.arrow", X, y, compact="float16")
    code = "import sys, bridle.data; bridle.data.read_arrow(sys.argv[1]); print(*sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "rows.arrow")]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "pyarrow" in loaded
    assert "pandas" not in loaded


def test_pieces_of_a_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch brings new values; no more than one piece of the file is in memory for them."""
    n = 60
    X = sp.csr_matrix(np.arange(1.0, 10 * n + 1).reshape(n, 10))
    write_arrow(tmp_path / "rows.arrow", X, np.ones(n), batch_bytes=1, compact="exact")
    released, release = [], ArrowRows.release
    monkeypatch.setattr(ArrowRows, "release", lambda rows: (released.append(1), release(rows)))
    rows = open_arrow(tmp_path / "rows.arrow")
    assert rows.n_batches == n
    assert rows._known is not None
    assert len(rows._known) == 10 * n
    assert len(released) >= 2 * n
    assert_same(read_arrow(tmp_path / "rows.arrow")[0], X)


def test_bytes(tmp_path: Path) -> None:
    """Counts of words take 0.6 of the bytes or less, and so do values of 16 bits."""
    X, y = make_corpus(2000, seed=0)
    counts = X.copy()
    counts.data = np.random.default_rng(0).integers(1, 300, X.nnz).astype(np.float32)
    for given, compact, most in (
        (counts, "exact", 0.6), (X, "float16", 0.6), (X, "exact", 0.8)
    ):  # fmt: skip
        write_arrow(tmp_path / "plain.arrow", given, y)
        write_arrow(tmp_path / "compact.arrow", given, y, compact=compact)  # type: ignore[arg-type]
        sizes = [(tmp_path / f"{name}.arrow").stat().st_size for name in ("compact", "plain")]
        assert sizes[0] <= most * sizes[1]
    found, _ = read_arrow(tmp_path / "compact.arrow")
    assert_same(found, X)  # the last one: values as they are


def test_values_are_rounded_where_that_is_allowed(tmp_path: Path) -> None:
    X, y = make_corpus(200, seed=0)
    write_arrow(tmp_path / "rows.arrow", X, y, compact="float16")
    found, _ = read_arrow(tmp_path / "rows.arrow")
    assert np.array_equal(found.data, X.data.astype(np.float16).astype(np.float32))
    X.data[5] = 1e6
    with pytest.raises(ValueError, match=r"1e\+06, beyond 65504, the largest of 16 bits"):
        write_arrow(tmp_path / "rows.arrow", X, y, compact="float16")
    with pytest.raises(ValueError, match='compact must be "exact" or "float16"'):
        write_arrow(tmp_path / "rows.arrow", X, y, compact="zip")  # type: ignore[arg-type]


def test_rows_that_a_packing_is_not_for(tmp_path: Path) -> None:
    """Columns far apart stay as they are, and so do values of which there are too many."""
    path = tmp_path / "rows.arrow"
    X, y = drawn(2_000_000, np.float32, values=np.arange(5.0))
    write_arrow(path, X, y, compact="exact")
    assert "indices" in names(path)
    assert_same(read_arrow(path)[0], X)
    wide = sp.csr_matrix(np.arange(1.0, 70_001.0).reshape(7, -1))
    write_arrow(path, wide, np.ones(7), compact="exact", batch_bytes=100_000)
    assert "gaps" in names(path)
    assert open_arrow(path)._known is None
    assert_same(read_arrow(path)[0], wide)


def names(path: Path) -> list[str]:
    """Of the columns, as pyarrow sees them."""
    import pyarrow as pa

    found: list[str] = pa.ipc.open_file(path).schema.names
    return found


def test_others_read_it(tmp_path: Path) -> None:
    """By the recipe of docs/scale.md."""
    import pandas as pd
    import polars as pl

    X, y = drawn(300_000, np.float32)
    write_arrow(tmp_path / "rows.arrow", X, y, compact="exact")
    frame = pd.read_feather(tmp_path / "rows.arrow")
    for i, (gaps, values) in enumerate(zip(frame["gaps"], frame["values"], strict=True)):
        columns = np.cumsum(np.where(gaps == 0, 65535, gaps.astype(int))) - 1
        assert np.array_equal(columns[gaps > 0], X[i].indices)
        assert np.array_equal(values, X[i].data)
    if pl.__version__.startswith("1.0."):
        pytest.skip("polars 1.0 knows no dictionaries of numbers")
    table = pl.read_ipc(tmp_path / "rows.arrow")
    assert table["label"].to_list() == y.tolist()
    assert table["gaps"].list.len().sum() >= X.nnz


@pytest.mark.parametrize("zero", [False, True])
def test_convert(zero: bool, tmp_path: Path) -> None:
    """The rows of the plain file; an index 0 that comes late, too; for any number of threads."""
    X, y = make_corpus(400, seed=1)
    text = tmp_path / "rows.svm"
    write_svmlight(text, X, y)
    if zero:
        with open(text, "a") as file:
            file.write("1 0:1 5:2\n")
    svmlight_to_arrow(text, tmp_path / "plain.arrow", block_bytes=20_000)
    made = []
    for n_threads in (1, 3):
        path = tmp_path / f"{n_threads}.arrow"
        found = svmlight_to_arrow(
            text, path, block_bytes=20_000, n_threads=n_threads, compact="exact"
        )
        assert found.zero_based == zero == open_arrow(path).zero_based
        made.append(read_arrow(path)[0])
    for one in made:
        assert_same(one, read_arrow(tmp_path / "plain.arrow")[0])
    command = ["convert", str(text), str(tmp_path / "rows.arrow"), "--compact", "float16"]
    assert CliRunner().invoke(main, command).exit_code == 0
    assert open_arrow(tmp_path / "rows.arrow").compact


def test_convert_arrow_files(tmp_path: Path) -> None:
    """From plain to compact and back, and of another tool, whose columns have 64 bits."""
    import pyarrow as pa

    X, y = drawn(300_000, np.float32)
    qid, weight = np.arange(len(y)) // 3, np.linspace(0, 1, len(y))
    write_arrow(tmp_path / "a.arrow", X, y, qid=qid, weight=weight, zero_based=True)
    for source, target, options in (
        ("a", "b", ["--compact", "exact"]), ("b", "c", []), ("other", "d", [])
    ):  # fmt: skip
        if source == "other":
            table = pa.ipc.open_file(tmp_path / "a.arrow").read_all()
            wide = table["indices"].cast(pa.large_list(pa.int64()))
            table = table.set_column(3, "indices", wide).replace_schema_metadata(None)
            with pa.ipc.new_file(tmp_path / "other.arrow", table.schema) as writer:
                writer.write_table(table)
        files = [str(tmp_path / f"{name}.arrow") for name in (source, target)]
        found = CliRunner().invoke(main, ["convert", *files, *options])
        assert found.exit_code == 0, found.output
        rows = open_arrow(files[1])
        assert rows.compact == (target == "b")
        assert rows.zero_based == (source != "other")
        assert_same(read_arrow(files[1])[0], X)
        assert np.array_equal(read_arrow(files[1], qid=True)[2], qid)
        assert np.array_equal(np.concatenate([one.weight for one in rows]), weight)
    found = CliRunner().invoke(main, ["convert", *files, "--features", "9"])
    assert found.exit_code == 2
    assert "says itself how wide it is" in found.output
    found = CliRunner().invoke(main, ["convert", *files, str(tmp_path / "folder")])
    assert found.exit_code == 2
    assert "is converted alone" in found.output


@pytest.mark.parametrize("streamed", [False, True])
def test_certificates_are_of_the_rows_in_the_file(streamed: bool, tmp_path: Path) -> None:
    X, y = make_corpus(1500, seed=3)
    write_arrow(tmp_path / "rows.arrow", X, y, batch_bytes=1 << 17, compact="float16")
    problem = StreamedProblem(tmp_path / "rows.arrow", 1.0, bias="regularised")
    if streamed:
        largest = int(problem.rows.sizes.max()) + 64
        problem.rows.plan = MemoryPlan(False, 3, largest, 1 << 18, False)
    found = solve(problem, "dcd", stop=Gap(1e-3))
    X.data = X.data.astype(np.float16).astype(np.float32)
    primal, dual = recomputed(X, y, found, 1.0, "hinge", 1.0)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-9)
    twin = LinearProblem(X, y, 1.0, bias="regularised")
    assert problem.identity() == twin.identity()


def spoilt(path: Path, name: str, at: int, value: int) -> ArrowRows:
    """The file with another number in an array of its first batch."""
    rows = open_arrow(path)
    span = getattr(rows._spans[0], name)
    raw = bytearray(path.read_bytes())
    place = slice(
        span.position + at * span.dtype.itemsize, span.position + (at + 1) * span.dtype.itemsize
    )
    raw[place] = np.array(value, span.dtype).tobytes()
    path.write_bytes(raw)
    return open_arrow(path)


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("columns", 3, 0, "row 0 has other columns than its 5 values"),
        ("columns", 3, 60_000, r"row 0 has column index \d+, outside 0..49"),
        ("values", 3, 5, "a value has a number beyond the 5 of the dictionary"),
        ("index_offsets", 1, 4, "row 0 has other columns than its 5 values"),
        ("index_offsets", 2, -1, "offsets of indices do not increase"),
        ("value_offsets", 2, 1 << 40, "offsets of values do not increase"),
    ],
)
@pytest.mark.parametrize("memory", [None, 1 << 40])
def test_damage_is_named(
    name: str, at: int, value: int, words: str, memory: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "rows.arrow"
    X = sp.csr_matrix(np.tile(np.repeat([1.0, 0.0], [5, 45]), (9, 1)))
    X.data[:] = np.resize(np.arange(1.0, 6.0), X.nnz)
    write_arrow(path, X, np.ones(9), compact="exact")
    rows = spoilt(path, name, at, value)
    with pytest.raises(ArrowError, match=rf"rows.arrow: batch 0: .*{words}"):
        list(DiskRows(rows, memory=memory).parts())


def test_damaged_files_never_crash(tmp_path: Path) -> None:
    X, y = drawn(300_000, np.float32)
    path = tmp_path / "rows.arrow"
    write_arrow(path, X, y, batch_bytes=1 << 13, compact="exact")
    assert refusals(path, 200) > 50


def test_the_core_trusts_nobody() -> None:
    """Offsets and sizes that do not fit are refused there, too."""
    gaps, out = np.array([1, 1], np.uint16), np.empty(2, np.int32)
    good, core = np.array([0, 2]), _core.compact
    core.columns_of_gaps(good, gaps, good, 2, out)
    assert out.tolist() == [0, 1]
    for bad in ([0, 3], [-1, 2], [2, 0], [], [0, 1, 2]):
        for ends in ((np.array(bad, np.int64), good), (good, np.array(bad, np.int64))):
            with pytest.raises(ValueError, match=r"do not increase|as many rows|other columns"):
                core.columns_of_gaps(ends[0], gaps, ends[1], 2, out)
    with pytest.raises(ValueError, match="do not increase"):
        core.gaps_of(np.array([0, 9]), np.zeros(2, np.int32), 10)
    with pytest.raises(ValueError, match="row 0: its columns must increase"):
        core.gaps_of(good, np.zeros(2, np.int32), 10)
    with pytest.raises(ValueError, match="out has 1 entries"):
        core.values_of_codes(np.zeros(2, np.uint16), np.ones(1), np.empty(1))
    with pytest.raises(ValueError, match="beyond the 0 of the dictionary"):
        core.values_of_codes(np.zeros(2, np.uint16), np.empty(0), np.empty(2))
    with pytest.raises(ValueError, match="more values than codes"):
        core.codes_of(np.ones(1), np.arange(70_000.0))
