"""Values that are products, in 16 bits: no bit is lost, whatever the values are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle import Gap, StreamedProblem, solve
from bridle.data import (
    ArrowError,
    make_corpus,
    open_arrow,
    read_arrow,
    read_svmlight,
    write_arrow,
    write_svmlight,
)
from bridle.data.arrow import ArrowRows
from bridle.data.arrow_writing import RowWriter
from bridle.data.compact import Packing
from bridle.data.convert import svmlight_to_arrow
from bridle.data.factored import Factors, fitted
from bridle.rows.disk.memory import MemoryPlan
from bridle.rows.disk.ranges import DiskRows, _buffer
from tests.test_compact import assert_same, spoilt
from tests.test_streamed import recomputed

from hostile import refusals

WIDTH = 3000


@pytest.fixture(scope="module")
def corpus() -> Any:
    """Weighted words, with more different values than there are numbers for, and some odd ones."""
    X, y = make_corpus(2000, seed=0, n_features=WIDTH)
    assert len(np.unique(X.data)) > 2**16
    odd = np.random.default_rng(0).choice(X.nnz, 600, replace=False)
    X.data[odd] = np.resize(np.float32([0.0, -0.0, 1.0, -3.7, 3e38, -1e-45, 0.1]), 600)
    X.data[::97] *= -1
    return X, y


@pytest.fixture
def path(corpus: Any, tmp_path: Path) -> Path:
    write_arrow(tmp_path / "rows.arrow", *corpus, batch_bytes=1 << 17, compact="exact")
    return tmp_path / "rows.arrow"


def test_fewer_bytes(corpus: Any, path: Path, tmp_path: Path) -> None:
    write_arrow(tmp_path / "plain.arrow", *corpus)
    assert path.stat().st_size <= 0.58 * (tmp_path / "plain.arrow").stat().st_size


@pytest.mark.parametrize("batch_bytes", [3000, 1 << 17, 1 << 24])
def test_no_bit_is_lost(corpus: Any, batch_bytes: int, tmp_path: Path) -> None:
    X, y = corpus
    path, weight = tmp_path / "rows.arrow", np.linspace(1, 2, len(y))
    write_arrow(path, X, y, weight=weight, batch_bytes=batch_bytes, compact="exact")
    rows = open_arrow(path)
    assert rows.compact
    assert rows._factors is not None
    assert_same(read_arrow(path)[0], X)
    for i in (0, 7, 1999):
        columns, values, label = rows.row(i)
        assert np.array_equal(columns, X[i].indices)
        assert values.tobytes() == X[i].data.tobytes()
        assert label == y[i]
    for most in (1 << 15, 1 << 24):  # in parts of batches, and in whole ones
        for part in rows.ranges(most):
            for batch in (rows.load(part, _buffer(rows.range_bytes(part))), rows.view(part)):
                assert batch.values.tobytes() == X[batch.rows].data.tobytes()
                assert np.array_equal(batch.columns, X[batch.rows].indices)
                assert np.array_equal(batch.weight, weight[batch.rows])


def test_columns_far_apart(corpus: Any, tmp_path: Path) -> None:
    """Stay as they are, beside codes."""
    X, y = corpus
    factors = fitted(X.indptr.astype(np.int64), X.indices, X.data)
    assert factors is not None
    with open(tmp_path / "rows.arrow", "wb") as file:
        packing = Packing("exact", gaps=False, numbers=False, factors=factors)
        writer = RowWriter(file, dtype=X.dtype, packing=packing)
        writer.write(X.indptr, X.indices, X.data, y)
        writer.finish(WIDTH, zero_based=False)
    assert_same(read_arrow(tmp_path / "rows.arrow")[0], X)


def test_others_read_it(corpus: Any, path: Path) -> None:
    """By the recipe of docs/scale.md."""
    import base64

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    X, _ = corpus
    metadata = pa.ipc.open_file(path).schema.metadata
    of_columns = np.frombuffer(base64.b64decode(metadata[b"bridle.column_factors"]), np.float32)
    few = np.frombuffer(base64.b64decode(metadata[b"bridle.factors"]), np.float64)
    frame = pd.read_feather(path)
    for i in range(0, 2000, 17):
        gaps, scale, codes, rest = frame.loc[i, ["gaps", "scale", "codes", "rest"]]
        columns = np.cumsum(np.where(gaps == 0, 65535, gaps.astype(int))) - 1
        columns = columns[gaps > 0]
        products = (scale * of_columns[columns].astype(float) * few[codes >> 9]).astype(np.float32)
        values = (products.view(np.int32) + (codes & 511) - 256).astype(np.int32).view(np.float32)
        values[codes == 0] = rest
        assert np.array_equal(columns, X[i].indices)
        assert values.tobytes() == X[i].data.tobytes()
    assert pl.read_ipc(path)["codes"].list.len().sum() == X.nnz


def test_values_that_are_no_products(tmp_path: Path) -> None:
    """Nor have they a product's structure: they stay as they are, and so do float64."""
    X, y = make_corpus(2000, seed=0, n_features=WIDTH)
    chance = np.random.default_rng(0).random(X.nnz)
    for values in (chance.astype(np.float32), X.data.astype(np.float64)):
        X.data = values
        write_arrow(tmp_path / "rows.arrow", X, y, compact="exact")
        rows = open_arrow(tmp_path / "rows.arrow")
        assert rows.compact
        assert rows._factors is None
        assert_same(read_arrow(tmp_path / "rows.arrow")[0], X)


def test_values_of_all_sizes() -> None:
    """Factors stay within float32, and what is not finite is nobody's: it stands by itself."""
    columns = np.array([[*range(30), 30 + i % 5] for i in range(400)])
    values = np.where(columns < 30, 1e-38, 3e38).astype(np.float32).ravel()
    found = fitted(np.arange(401) * 31, columns.ravel().astype(np.int32), values)
    assert found is not None
    assert (found.columns > 0).all()
    assert np.isfinite(found.columns).all()
    values[::3] = np.nan
    parts = found.packed(np.array([0, len(values)]), columns.ravel().astype(np.int32), values)
    assert np.isnan(parts[3]).sum() == np.isnan(values).sum()


@pytest.mark.parametrize("zero", [False, True])
def test_convert(corpus: Any, zero: bool, tmp_path: Path) -> None:
    """The rows of the plain file, for any number of threads; an index 0 that comes late, too."""
    text = tmp_path / "rows.svm"
    write_svmlight(text, *make_corpus(3000, seed=1, n_features=WIDTH))
    if zero:
        with open(text, "a") as file:
            file.write("1 0:1 5:2\n")
    svmlight_to_arrow(text, tmp_path / "plain.arrow", block_bytes=200_000)
    for n_threads in (1, 3):
        path = tmp_path / f"{n_threads}.arrow"
        svmlight_to_arrow(text, path, block_bytes=200_000, n_threads=n_threads, compact="exact")
        rows = open_arrow(path)
        assert rows.zero_based == zero
        assert rows._factors is not None
        assert_same(read_arrow(path)[0], read_arrow(tmp_path / "plain.arrow")[0])


def test_columns_with_factors_are_not_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index 0 that comes late, beside columns that are no gaps."""
    monkeypatch.setattr("bridle.data.compact.MOST_GAPS", 0.0)
    rng = np.random.default_rng(0)
    X = rng.integers(1, 4, (2400, 50)) * np.geomspace(1, 9, 50) * rng.uniform(1, 2, (2400, 1))
    rows = [" ".join(f"{j}:{v:.9g}" for j, v in enumerate(x, 1)) for x in np.float32(X).tolist()]
    text, path = tmp_path / "rows.svm", tmp_path / "rows.arrow"
    text.write_text("\n".join([f"1 {row}" for row in rows] + ["-1 25:2"] * 2000 + ["-1 0:1 25:2"]))
    svmlight_to_arrow(text, path, compact="exact", block_bytes=1 << 14)
    assert open_arrow(path)._factors is not None
    assert_same(read_arrow(path)[0], read_svmlight(text)[0])


def test_rows_unlike_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the factors were fitted to says nothing of them: values stay as they are."""
    monkeypatch.setattr("bridle.data.compact.SAMPLE", 100_000)
    X, y = make_corpus(2000, seed=0, n_features=WIDTH)
    late = slice(X.indptr[1500], None)
    X.data[late] = np.random.default_rng(0).random(len(X.data[late])).astype(np.float32)
    write_arrow(tmp_path / "rows.arrow", X, y, batch_bytes=1 << 17, compact="exact")
    assert open_arrow(tmp_path / "rows.arrow")._factors is None
    assert_same(read_arrow(tmp_path / "rows.arrow")[0], X)


def test_certificates_are_of_the_rows(tmp_path: Path) -> None:
    X, y = make_corpus(2000, seed=0, n_features=WIDTH)
    write_arrow(tmp_path / "rows.arrow", X, y, batch_bytes=1 << 17, compact="exact")
    problem = StreamedProblem(tmp_path / "rows.arrow", 1.0, bias="regularised")
    assert problem.rows.source._factors is not None
    problem.rows.plan = MemoryPlan(False, 3, int(problem.rows.sizes.max()) + 64, 1 << 18, False)
    found = solve(problem, "dcd", stop=Gap(1e-3))
    primal, dual = recomputed(X, y, found, 1.0, "hinge", 1.0)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert found.certificate.dual == pytest.approx(dual, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("values", 5, 0, "row 0 has fewer values by themselves than its codes say"),
        ("values", 5, 0xFFFF, "a value has a factor beyond the 90 that there are"),
        ("rest_offsets", 1, 1 << 20, "offsets of rest do not increase"),
        ("value_offsets", 1, -1, "offsets of values do not increase"),
        ("scale", 0, np.inf, "row 0"),
        ("columns", 0, 1, "row 0 has a product in a column that has no factor"),
    ],
)
@pytest.mark.parametrize("memory", [None, 1 << 40])
def test_damage_is_named(
    name: str, at: int, value: Any, words: str, memory: int | None, path: Path
) -> None:
    rows = spoilt(path, name, at, value)
    assert rows._factors is not None
    if "beyond" in words:
        rows._factors = Factors(rows._factors.columns, rows._factors.few[:90])
    if "no factor" in words:
        rows._factors = Factors(rows._factors.columns[:0], rows._factors.few)
    with pytest.raises(ArrowError, match=rf"rows.arrow: batch 0: .*{words}"):
        list(DiskRows(rows, memory=memory).parts())


def test_damaged_factors(path: Path) -> None:
    """They are in the file twice."""
    raw, factors = path.read_bytes(), open_arrow(path)._factors
    assert factors is not None
    for text in factors.metadata().values():
        for at in (raw.index(text), raw.rindex(text)):
            path.write_bytes(raw[:at] + b"!" + raw[at + 1 :])
            with pytest.raises(ArrowError, match="two schemas do not agree"):
                open_arrow(path)
    path.write_bytes(raw.replace(text, b"?" * len(text)))
    with pytest.raises(ArrowError, match="the factors of its values"):
        open_arrow(path)


def test_damaged_files_never_crash(path: Path) -> None:
    assert refusals(path, 100, open_arrow(path)._spans[0].begin) > 25


def test_a_column_called_scale_is_no_matter(tmp_path: Path) -> None:
    """In a file of others, which has values."""
    import pyarrow as pa

    lists = pa.array([[1, 3], [0]], pa.list_(pa.int32()))
    table = pa.table({
        "label": [1.0, -1.0], "indices": lists, "values": lists.cast(pa.list_(pa.float32())),
        "scale": ["a", None], "codes": ["b", "c"],
    })  # fmt: skip
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    assert ArrowRows(tmp_path / "rows.arrow").shape == (2, 4)
