"""Data files of every format, and the other texts that are read from files."""

from __future__ import annotations

import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bridle import read_trees
from bridle.data import (
    open_arrow,
    read_data,
    read_svmlight,
    write_arrow,
    write_npz,
    write_svmlight,
)
from bridle.data.arrow_writing import RowWriter
from bridle.data.compact import Packing
from bridle.data.convert import svmlight_to_arrow
from bridle.data.factored import Factors
from bridle.data.reading import Wanted
from bridle.data.sequences import Template, read_columns, read_svmhmm, read_template
from bridle.exchange import export_model, import_model
from bridle.rows.disk.ranges import DiskRows
from scipy.sparse import random as random_sparse

from fuzz.mutations import mutated
from fuzz.outcome import Outcome, refused_by

COLUMNS = "the D B\ndog N I\n\na D B\ncat N I\nsees V O\n"
HMM = "1 qid:1 1:0.5 3:1 # a\n2 qid:1 2:1\n1 qid:2 1:1 2:-1e-3\n"
TEMPLATE = "# a comment\nU00:%x[-1,0]\nU01:%x[0,0]/%x[0,1]\nB\n"
TREES = "(S (NP (D the) (N dog)) (VP (V barks)))\n(TOP (S (NP-SBJ (-NONE- *)) (VP (V go))))\n"
CSV = 'label,"a",b,c\n1,0.5,x,3\n-1,2,y,"4"\n1,1e3,"z ""q""",-5\n'


class Readers:
    """input: a kind of file, and its bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        X = random_sparse(12, 9, 0.4, format="csr", random_state=1)
        y = np.where(rng.random(12) > 0.5, 1.0, -1.0)
        write_svmlight(folder / "a.svm", X, y)
        write_svmlight(folder / "b.svm", X, y, qid=np.arange(12) // 4)
        write_npz(folder / "a.npz", X, y)
        write_npz(folder / "b.npz", X.toarray(), y)
        write_arrow(folder / "a.arrow", X, y, batch_bytes=200)
        write_arrow(folder / "b.arrow", X, y, qid=np.arange(12) // 4, weight=np.ones(12))
        write_arrow(folder / "ac.arrow", X, y, batch_bytes=200, compact="exact")
        self._write_factored(folder / "af.arrow", X.astype(np.float32), y)
        text = (folder / "a.svm").read_bytes()
        self.seeds: list[tuple[str, bytes]] = [
            *((path.suffix, path.read_bytes()) for path in sorted(folder.glob("[ab]*.*"))),
            (".svm.gz", gzip.compress(text, mtime=0)), (".svm.xz", lzma.compress(text)),
            (".csv", CSV.encode()), (".tsv", CSV.replace(",", "\t").encode()),
            (".csv.gz", gzip.compress(CSV.encode(), mtime=0)), (".parquet", self._parquet()),
            (".columns", COLUMNS.encode()), (".hmm", HMM.encode()),
            (".template", TEMPLATE.encode()), (".trees", TREES.encode()),
            *((".text", model) for model in self._text_models(X, y)),
        ]  # fmt: skip

    @staticmethod
    def _write_factored(path: Path, X: Any, y: Any) -> None:
        """With factors that so few rows would not be given."""
        factors = Factors(np.linspace(0.5, 1, X.shape[1], dtype=np.float32), np.array([0.5, 1.0]))
        packing = Packing("exact", gaps=True, numbers=False, factors=factors)
        with open(path, "wb") as file:
            writer = RowWriter(file, dtype=X.dtype, packing=packing)
            values = factors.columns[X.indices]
            values[:3] = X.data[:3]
            writer.write(X.indptr, X.indices, values, y)
            writer.finish(X.shape[1], zero_based=False)

    def make(self, rng: random.Random) -> dict[str, Any]:
        """Mutated from a good one, or, now and then, the good one."""
        ending, data = rng.choice(self.seeds)
        changed = data if rng.random() < 0.01 else mutated(rng, data)
        return {"ending": ending, "content": changed, "how": rng.randrange(4)}

    def use(self, given: dict[str, Any]) -> Outcome:
        """Read it as its ending says."""
        path = self.folder / f"input{given['ending']}"
        path.write_bytes(given["content"])
        named = "" if given["ending"] == ".trees" else path.name  # trees are read from a text
        reading = READ.get(given["ending"], _read_any)
        return refused_by(lambda: reading(path, given["how"]), (ValueError, OSError), named)

    def _parquet(self) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"label": [1, -1, 1], "a": [0.5, None, 2.0], "b": ["x", "y", "z"]})
        pq.write_table(table, self.folder / "t.parquet")
        return (self.folder / "t.parquet").read_bytes()

    def _text_models(self, X: Any, y: Any) -> list[bytes]:
        import bridle

        linear, kernel = bridle.LinearSVC().fit(X, y), bridle.SVC().fit(X, y)
        found = []
        for model, name in ((linear, "liblinear"), (linear, "svmlight"), (kernel, "svmlight")):
            export_model(self.folder / "m.text", model, name)
            found.append((self.folder / "m.text").read_bytes())
        return found


def _read_any(path: Path, how: int) -> None:
    wanted = Wanted(
        n_threads=1 + how % 2, label_column=(None, "1", "-1", "a")[how],
        hash_bits=(None, 4, None, 10)[how],
    )  # fmt: skip
    data = read_data(path, wanted)
    assert data.X.shape[0] == (data.X.shape[0] if data.y is None else len(data.y))
    assert np.isfinite(data.X.data).all()
    data.X.check_format(full_check=True)


def _read_svmlight(path: Path, how: int) -> None:
    if how == 0:
        _read_any(path, 0)
    elif how == 1:
        X, y, qid = read_svmlight(path, qid=True, dtype=np.float64)
        assert X.shape[0] == len(y) == len(qid)
    elif how == 2:
        svmlight_to_arrow(path, path.with_suffix(".converted"), block_bytes=64)
    else:
        X, y = read_svmlight(path, zero_based=True)
        again = path.with_suffix(".again")
        write_svmlight(again, X, y, zero_based=True)
        back, labels = read_svmlight(again, zero_based=True, n_features=X.shape[1])
        assert (back != X).nnz == 0
        assert np.array_equal(labels, y)


def _read_arrow(path: Path, how: int) -> None:
    if how == 0:
        _read_any(path, 0)
        return
    rows = open_arrow(path)
    for part in DiskRows(rows, memory=(None, None, 1 << 40, 1 << 40)[how]).parts():
        assert part.rows.n_rows > 0


def _read_template(path: Path, how: int) -> None:
    template = read_template(path)
    if template.n_columns <= 3:
        template.features([["the", "D", "B"], ["dog", "N", "I"]][: how % 3])
    assert Template(template.lines).lines == template.lines


def _read_trees(path: Path, how: int) -> None:
    for tree in read_trees(path.read_text(encoding="utf-8", errors="replace")):
        str(tree)


def _read_text_model(path: Path, how: int) -> None:
    model = import_model(path)
    if model.n_features <= 1000:
        model.predict(np.ones((2, model.n_features)))


READ: dict[str, Callable[[Path, int], Any]] = {
    ".svm": _read_svmlight,
    ".svm.gz": _read_svmlight,
    ".svm.xz": _read_svmlight,
    ".arrow": _read_arrow,
    ".columns": lambda path, how: read_columns(path),
    ".hmm": lambda path, how: read_svmhmm(path),
    ".template": _read_template,
    ".trees": _read_trees,
    ".text": _read_text_model,
}
