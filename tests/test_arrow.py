"""Rows on disk as Arrow record batches: what is written, what is read back, what is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from bridle.data import ArrowError, open_arrow, read_arrow, write_arrow
from bridle.data.arrow import ArrowRows
from bridle.rows.disk.ranges import _buffer


def some_rows(n: int = 300, d: int = 50, dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.2, random_state=rng, format="csr", dtype=dtype)
    X.sort_indices()
    return X, rng.choice([-1.0, 1.0], n)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.arrow"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_bytes", [1, 4000, 1 << 24])
def test_what_is_written_is_read_back(path: Path, dtype: Any, batch_bytes: int) -> None:
    X, y = some_rows(dtype=dtype)
    qid, weight = np.arange(len(y)) // 7, np.linspace(0.5, 2, len(y))
    write_arrow(path, X, y, qid=qid, weight=weight, batch_bytes=batch_bytes)
    X2, y2, qid2 = read_arrow(path, qid=True)
    assert X2.dtype == dtype
    assert (X != X2).nnz == 0
    assert X.shape == X2.shape
    assert np.array_equal(y, y2)
    assert np.array_equal(qid, qid2)
    rows = open_arrow(path)
    assert np.array_equal(np.concatenate([batch.weight for batch in rows]), weight)
    assert (rows.n_batches == 1) == (batch_bytes == 1 << 24)
    assert rows.shape == X.shape
    assert rows.nnz == X.nnz
    assert rows.batch_rows[-1] == len(y)


@pytest.mark.parametrize("compact", [None, "exact"])
def test_a_whole_batch_is_read_in_one_piece(
    compact: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of one is not, nor one without a buffer: the rows are the same."""
    X, y = some_rows()
    X.data = np.round(X.data, 2)
    write_arrow(path, X, y, weight=np.arange(300.0), batch_bytes=10_000, compact=compact)
    rows, reads = open_arrow(path), []
    read = ArrowRows._read
    monkeypatch.setattr(ArrowRows, "_read", lambda *given: (reads.append(1), read(*given)))
    for most in (1 << 20, 6_000):
        for part in rows.ranges(most):
            reads.clear()
            batch = rows.load(part, _buffer(rows.range_bytes(part)))
            assert len(reads) == (1 if part.n_rows == rows.batch(part.batch).n_rows else 6)
            for found in (batch, rows.load(part)):
                assert (X[batch.rows] != found.X).nnz == 0
                assert np.array_equal(found.y, y[batch.rows])
                assert np.array_equal(found.weight, np.arange(300.0)[batch.rows])


def test_batches_are_views_of_the_file_and_loads_are_not(path: Path) -> None:
    X, y = some_rows()
    write_arrow(path, X, y, batch_bytes=4000)
    rows = open_arrow(path)
    mapped = np.frombuffer(rows._map, np.uint8)
    for k in range(rows.n_batches):
        batch, loaded = rows.batch(k), rows.load(k)
        for name in ("offsets", "columns", "values", "labels"):
            assert np.shares_memory(getattr(batch, name), mapped)
            assert not np.shares_memory(getattr(loaded, name), mapped)
            assert np.array_equal(getattr(batch, name), getattr(loaded, name))
        assert np.shares_memory(batch.X.data, mapped)
        assert (X[batch.rows] != batch.X).nnz == 0


def test_the_same_rows_give_the_same_bytes(path: Path, tmp_path: Path) -> None:
    X, y = some_rows()
    write_arrow(path, X, y, batch_bytes=4000)
    write_arrow(tmp_path / "again.arrow", X, y, batch_bytes=4000)
    assert path.read_bytes() == (tmp_path / "again.arrow").read_bytes()


def test_pickled_rows_are_opened_again(path: Path) -> None:
    X, y = some_rows()
    write_arrow(path, X, y)
    assert pickle.loads(pickle.dumps(open_arrow(path))).shape == X.shape


def test_pandas_polars_and_duckdb_read_the_file(path: Path) -> None:
    import duckdb
    import pandas as pd
    import polars as pl

    X, y = some_rows()
    write_arrow(path, X, y, batch_bytes=4000)
    frame = pd.read_feather(path)
    assert np.array_equal(frame["label"], y)
    assert np.array_equal(np.concatenate(frame["indices"].to_list()), X.indices)
    polar = pl.read_ipc(path)
    assert np.array_equal(polar["values"].explode().drop_nulls().to_numpy(), X.data)
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    query = 'select sum(list_sum("values")), count(*) from arrow_rows'
    total = duckdb.from_arrow(table).query("arrow_rows", query).fetchall()

    assert total == [(pytest.approx(X.sum(), rel=1e-5), len(y))]
    assert int(table.schema.metadata[b"bridle.n_features"]) == X.shape[1]


def test_files_of_other_tools_are_read(path: Path) -> None:
    import polars as pl

    X, y = some_rows()
    X.data[X.indptr[7] : X.indptr[8]] = 0
    X.eliminate_zeros()
    lists = {
        "label": y.astype(np.int32),
        "indices": [X[i].indices.astype(np.int64).tolist() for i in range(len(y))],
        "values": [X[i].data.astype(float).tolist() for i in range(len(y))],
    }
    pl.DataFrame(lists).write_ipc(path, compression="uncompressed")
    X2, y2 = read_arrow(path)
    assert (X != X2).nnz == 0
    assert np.array_equal(y, y2)
    kinds = {"label": pa.int32(), "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float32())}
    table = pa.table(lists, schema=pa.schema(kinds)).slice(3)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    X3, y3 = read_arrow(path)
    assert (X[3:] != X3).nnz == 0
    assert np.array_equal(y[3:], y3)


def write_table(path: Path, columns: dict[str, Any], metadata: Any = None, **options: Any) -> None:
    table = pa.table(columns).replace_schema_metadata(metadata)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, table.schema, **options) as writer,
    ):
        writer.write_table(table)


def lists(rows: list[list[Any]], kind: Any) -> Any:
    return pa.array(rows, pa.large_list(kind))


GOOD = {
    "label": pa.array([1.0, -1.0]),
    "indices": lists([[0, 2], [1]], pa.int32()),
    "values": lists([[1.0, 2.0], [3.0]], pa.float32()),
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": None}, "no column label"),
        ({"values": None, "indices": None}, "no column indices, values"),
        ({"label": pa.array(["a", "b"])}, "column label must be float32 or float64"),
        ({"indices": lists([[0.0, 2.0], [1.0]], pa.float64())}, "a list of int32 or int64"),
        ({"values": pa.array([1.0, 2.0])}, "column values must be a list"),
        ({"label": pa.array([1.0, None])}, "batch 0: column label has missing values"),
        ({"values": lists([[1.0, 2.0], None], pa.float32())}, "batch 0: column values has missing"),
        ({"values": lists([[1.0, None], [3.0]], pa.float32())}, "missing values inside"),
        ({"values": lists([[1.0], [3.0]], pa.float32())}, "row 0 has 2 indices and 1 values"),
        ({"qid": pa.array([0.5, 1.0])}, "column qid must be int8"),
    ],
)
def test_other_tables_are_refused(path: Path, change: dict[str, Any], words: str) -> None:
    columns = {name: array for name, array in (GOOD | change).items() if array is not None}
    write_table(path, columns)
    with pytest.raises(ArrowError, match=words) as caught:
        read_arrow(path)
    assert str(path) in str(caught.value)


def test_compressed_files_are_refused(path: Path) -> None:
    X, y = some_rows()
    columns = {
        "label": pa.array(y),
        "indices": lists([X[i].indices.tolist() for i in range(len(y))], pa.int32()),
        "values": lists([X[i].data.tolist() for i in range(len(y))], pa.float32()),
    }
    write_table(path, columns, options=pa.ipc.IpcWriteOptions(compression="lz4"))
    with pytest.raises(ArrowError, match="batch 0: is compressed"):
        open_arrow(path)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"bridle.n_features": "3", "bridle.format": "9"}, "format 9 of bridle"),
        ({"bridle.n_features": "-3", "bridle.format": "1"}, "the number of features is"),
        ({"bridle.n_features": "0", "bridle.format": "1"}, "no features"),
    ],
)
def test_metadata_is_checked(path: Path, metadata: Any, words: str) -> None:
    write_table(path, GOOD, metadata)
    with pytest.raises(ArrowError, match=words):
        open_arrow(path)


def test_empty_files_and_files_without_rows_are_refused(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(ArrowError, match="is empty"):
        open_arrow(path)
    path.write_bytes(b"1 1:1\n")
    with pytest.raises(ArrowError, match="not a complete Arrow file"):
        open_arrow(path)
    write_table(path, {name: array.slice(0, 0) for name, array in GOOD.items()})
    with pytest.raises(ArrowError, match="no rows"):
        open_arrow(path)


@pytest.mark.parametrize("column", [2**31, 2**40, 2**62])
def test_a_damaged_column_does_not_cost_all_memory(tmp_path: Path, column: int) -> None:
    """In a file that does not say how wide it is."""
    table = pa.table(
        {
            "label": [1.0, -1.0],
            "indices": pa.array([[0, 5], [1, column]], pa.list_(pa.int64())),
            "values": pa.array([[1.0, 2.0], [1.0, 1.0]], pa.list_(pa.float32())),
        }
    )
    path = tmp_path / "wide.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ArrowError, match=rf"wide.arrow: batch 0: has column {column}"):
        open_arrow(path)
