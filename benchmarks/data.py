"""The sets that the benchmarks run on: CSR float32 with 32-bit indices (one of them dense),
labels -1 and +1.

Generated ones need nothing; real ones are found in the folder that BRIDLE_DATA names. What took
long to make is kept in `.cache` (BRIDLE_BENCH_CACHE moves it).
"""

from __future__ import annotations

import lzma
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from bridle.data import make_corpus, read_svmlight

CACHE = Path(os.environ.get("BRIDLE_BENCH_CACHE", ".cache/benchmarks"))


class Missing(Exception):  # noqa: N818  (not an error: a reason to skip)
    """The set is not on this machine."""


@dataclass(frozen=True)
class Data:
    name: str
    X: Any
    y: np.ndarray

    @property
    def nbytes(self) -> int:
        if sp.issparse(self.X):
            return self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes
        return self.X.nbytes

    @property
    def nnz(self) -> int:
        return self.X.nnz if sp.issparse(self.X) else self.X.size


def corpus(n_rows: int) -> Callable[[], tuple[Any, np.ndarray]]:
    return lambda: make_corpus(n_rows)


def sorted_by_class(n_rows: int) -> tuple[Any, np.ndarray]:
    """Within a class, sorted by the heaviest term: neighbours are alike."""
    X, y = make_corpus(n_rows)
    heaviest = np.asarray(X.argmax(axis=1)).ravel()
    order = np.lexsort((heaviest, y))
    return X[order], y[order]


def wide(n_rows: int = 100_000, n_features: int = 4_000_000, per_row: int = 40) -> Any:
    """Hashed features: most of them rare, of one value."""
    rng = np.random.default_rng(0)
    columns = (n_features * rng.random((n_rows, per_row)) ** 4).astype(np.int64)
    rows = np.repeat(np.arange(n_rows), per_row)
    values = np.full(rows.size, per_row**-0.5)
    X = sp.csr_matrix((values, (rows, columns.ravel())), shape=(n_rows, n_features))
    truth = rng.normal(size=n_features)
    return X, np.where(X @ truth + 0.3 * rng.normal(size=n_rows) > 0, 1.0, -1.0)


def dense(n_rows: int = 200_000, n_features: int = 28) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)) * np.linspace(0.1, 1.0, n_features)
    score = X @ rng.normal(size=n_features) + 0.3 * X[:, 0] * X[:, 1]
    return X.astype(np.float32), np.where(score + rng.normal(size=n_rows) > 0, 1.0, -1.0)


def digits(n_rows: int = 10_000, side: int = 28) -> Any:
    """Like scans of handwritten digits, one of them against the rest: three strokes between points
    that tremble from row to row, in three styles for each digit; a fifth of the pixels not zero."""
    rng = np.random.default_rng(0)
    digit, style = rng.integers(10, size=n_rows), rng.integers(3, size=n_rows)
    hands = rng.uniform(6, side - 6, size=(10, 1, 4, 2)) + rng.normal(0, 2, (10, 3, 4, 2))
    points = hands[digit, style] + rng.normal(0, 2.5, (n_rows, 4, 2))
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1)
    X = np.zeros((n_rows, side, side), np.float32)
    for begin in range(3):
        for part in np.linspace(0, 1, 7):
            ink = (1 - part) * points[:, begin] + part * points[:, begin + 1]
            distance = np.square(ink[:, None, None] - grid).sum(-1)
            np.maximum(X, 1 - distance / 7.5, out=X)
    return X.reshape(n_rows, -1), np.where(digit == 3, 1.0, -1.0)


def real(path: str, positive: float | None) -> Callable[[], tuple[Any, np.ndarray]]:
    """A file of BRIDLE_DATA: one class against the rest, or all of them (None)."""

    def load() -> tuple[Any, np.ndarray]:
        folder = os.environ.get("BRIDLE_DATA")
        if not folder:
            raise Missing("BRIDLE_DATA is not set")
        packed = Path(folder) / f"{path}.xz"
        if not packed.exists():
            raise Missing(f"BRIDLE_DATA has no {packed.name}")
        with tempfile.NamedTemporaryFile(suffix=".svm") as plain:
            plain.write(lzma.decompress(packed.read_bytes()))
            plain.flush()
            X, labels = read_svmlight(plain.name, dtype=np.float32)
        if positive is None:
            return X, labels
        if not (labels == positive).any():
            raise ValueError(f"{path} has no label {positive}: {np.unique(labels)[:5]}")
        return X, np.where(labels == positive, 1.0, -1.0)

    return load


SETS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "corpus20k": corpus(20_000),
    "corpus50k": corpus(50_000),
    "corpus200k": corpus(200_000),
    "corpus781k": corpus(781_265),
    "sorted200k": lambda: sorted_by_class(200_000),
    "wide4M": wide,
    "dense28": dense,
    "digits10k": digits,
    "commits7": real("multiclass/commits7.100k.svm", 1),
    "debian": real("multiclass/debian_desc.svm", 28),
    "20news": real("multiclass/20news.train.svm", 1),
    "covtype": real("binary/covtype.binary.scale", 1),
    "ijcnn1": real("binary/ijcnn1.trn", 1),
    "a9a": real("binary/a9a", 1),
    "agaricus": real("binary/agaricus.train", 1),
}


def load(name: str) -> Data:
    """A set by its name, from the cache if it is there."""
    if name not in SETS:
        raise SystemExit(f"there is no set {name!r}; there are {', '.join(SETS)}")
    cached = CACHE / f"{name}.npz"
    if not cached.exists():
        X, y = SETS[name]()
        cached.parent.mkdir(parents=True, exist_ok=True)
        if sp.issparse(X):
            X = X.tocsr()
            X.sum_duplicates()
            np.savez(cached, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
        else:
            np.savez(cached, dense=X, y=y)
    stored = np.load(cached)
    y = stored["y"].astype(np.float64)
    if "dense" in stored:
        return Data(name, stored["dense"], y)
    X = sp.csr_matrix(
        (
            stored["data"].astype(np.float32),
            stored["indices"].astype(np.int32),
            stored["indptr"].astype(np.int32),
        ),
        shape=tuple(stored["shape"]),
    )
    return Data(name, X, y)
