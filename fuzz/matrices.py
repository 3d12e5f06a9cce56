"""Sparse matrices whose parts do not fit, and odd arrays, given to public functions."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import scipy.sparse as sp
from bridle.data import write_arrow, write_npz, write_svmlight
from bridle.matrix.fingerprint import fingerprint

from fuzz.outcome import Outcome, refused_by

N_ROWS, N_FEATURES = 20, 6
ODD = [0, 1, -1, 5, 6, 7, 19, 20, 21, 119, 120, 1000, 2**31 - 1, -(2**31), 2**40, -(2**63)]


def _fit(estimator: Any) -> Callable[[Any, Any, Path], Any]:
    return lambda X, y, folder: estimator().fit(X, y)


FUNCTIONS: dict[str, Callable[[Any, Any, Path], Any]] = {
    "LinearSVC": _fit(lambda: bridle.LinearSVC(max_iter=3, n_threads=2)),
    "pegasos": _fit(lambda: bridle.LinearSVC(solver="pegasos", max_iter=2, random_state=0)),
    "crammer_singer": _fit(lambda: bridle.LinearSVC(multi_class="crammer_singer", max_iter=2)),
    "calibrated": _fit(lambda: bridle.LinearSVC(probability="platt", max_iter=2)),
    "LinearSVCCV": _fit(lambda: bridle.LinearSVCCV(Cs=2, cv=2, max_iter=2)),
    "LogisticRegressionCV": _fit(lambda: bridle.LogisticRegressionCV(Cs=2, cv=2, max_iter=2)),
    "SVC": _fit(lambda: bridle.SVC(max_iter=20)),
    "OnlineSVC": lambda X, y, folder: bridle.OnlineSVC().partial_fit(X, y, classes=[-1, 1]),
    "RankSVM": lambda X, y, folder: bridle.RankSVM(max_iter=2).fit(
        X, y, qid=np.arange(N_ROWS) // 5
    ),
    "LinearProblem": lambda X, y, folder: bridle.LinearProblem(X, y),
    "path": lambda X, y, folder: bridle.path(X, y, 0.1, 0.2, gap=0.5, max_seconds=0.05),
    "fingerprint": lambda X, y, folder: fingerprint(X, y),
    "write_svmlight": lambda X, y, folder: write_svmlight(folder / "w.svm", X, y),
    "write_npz": lambda X, y, folder: write_npz(folder / "w.npz", X, y),
    "write_arrow": lambda X, y, folder: write_arrow(folder / "w.arrow", X, y),
}


class Matrices:
    """input: the parts of a CSR matrix or a dense array, labels, and a function."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        X, y = self._good(np.random.default_rng(0))
        linear, kernel = bridle.LinearSVC().fit(X, y), bridle.SVC().fit(X, y)
        model = linear.to_model()
        self.functions = FUNCTIONS | {
            "predict": lambda X, y, folder: linear.predict(X),
            "decision_function": lambda X, y, folder: kernel.decision_function(X),
            "certify": lambda X, y, folder: bridle.certify_model(model, X, y, max_seconds=0.05),
        }  # fmt: skip

    @staticmethod
    def _good(rng: np.random.Generator) -> tuple[Any, Any]:
        X = sp.random(N_ROWS, N_FEATURES, 0.5, format="csr", random_state=rng)
        return X, np.where(np.arange(N_ROWS) % 3 == 0, 1.0, -1.0)

    def make(self, rng: random.Random) -> dict[str, Any]:
        """A good matrix, in which one to three things are wrong."""
        X, y = self._good(np.random.default_rng(rng.randrange(2**32)))
        given: dict[str, Any] = {
            "data": X.data, "indices": X.indices, "indptr": X.indptr,
            "shape": list(X.shape), "y": y,
            "function": rng.choice(sorted(self.functions)), "dense": rng.random() < 0.1,
        }  # fmt: skip
        for _ in range(rng.choice([1, 1, 2, 3])):
            rng.choice(WRONGS)(rng, given)
        return given

    def use(self, given: dict[str, Any]) -> Outcome:
        """The error must come from the door: ValueError or TypeError."""
        y = given["y"]
        X = _dense(given) if given["dense"] else _csr(given)
        function = self.functions[given["function"]]

        def call() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(X, y, self.folder)

        return refused_by(call, (ValueError, TypeError))


def _csr(given: dict[str, Any]) -> Any:
    X = sp.csr_matrix((N_ROWS, N_FEATURES))
    X.data, X.indices, X.indptr = given["data"], given["indices"], given["indptr"]
    X._shape = tuple(given["shape"])  # as a careless caller would
    return X


def _dense(given: dict[str, Any]) -> Any:
    array = np.resize(given["data"], N_ROWS * N_FEATURES).reshape(N_ROWS, N_FEATURES)
    return np.asfortranarray(array) if given["shape"][1] % 2 else array


def _entry(rng: random.Random, given: dict[str, Any]) -> None:
    name = rng.choice(["indices", "indptr", "indptr"])
    array = given[name].copy()
    if array.size and array.ndim == 1 and array.dtype.kind in "iu":
        value = rng.choice([*ODD, int(array[rng.randrange(len(array))])])
        info = np.iinfo(array.dtype)
        array[rng.randrange(len(array))] = max(info.min, min(info.max, value))
    given[name] = array


def _length(rng: random.Random, given: dict[str, Any]) -> None:
    name = rng.choice(["data", "indices", "indptr", "y"])
    given[name] = np.resize(
        given[name], max(0, len(given[name]) + rng.choice([-1, 1, -5, 7, -1000]))
    )


def _shape(rng: random.Random, given: dict[str, Any]) -> None:
    # Widths that dense weights have room for: what is larger is honestly too large.
    given["shape"][rng.randrange(2)] = rng.choice([0, 1, 2, 5, 7, 19, 21, 1000, 10**5, -1])


def _dtype(rng: random.Random, given: dict[str, Any]) -> None:
    name = rng.choice(["data", "indices", "indptr", "y"])
    kinds = ["f4", "f8", "i4", "i8", "u1", "i2", "?", "c16", "O", "f2", "u8", ">f8", "U3"]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = rng.choice(kinds)
        # What is Python's own or text by now need not be a number of that kind.
        with contextlib.suppress(OverflowError, ValueError, TypeError):
            given[name] = given[name].astype(kind)


def _value(rng: random.Random, given: dict[str, Any]) -> None:
    name = rng.choice(["data", "y"])
    array = given[name].copy()
    if array.size and array.ndim == 1 and array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            array[rng.randrange(len(array))] = rng.choice(
                [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 0.0, 1e200, 3.0]
            )
    given[name] = array


def _dimensions(rng: random.Random, given: dict[str, Any]) -> None:
    name = rng.choice(["data", "indices", "indptr", "y"])
    given[name] = given[name].ravel().reshape(rng.choice([(1, -1), (-1, 1)]))


WRONGS = (_entry, _entry, _length, _shape, _dtype, _value, _dimensions)
