"""Files that somebody has changed, and the use of whatever still loads.

`mutated_model` changes a file and puts its checksum right again, `use_model` loads it and does with
the model all that can be done. Nothing but an error in bridle's own words may come of it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import scipy.sparse as sp
from bridle.data import ArrowError, open_arrow, read_svmlight
from bridle.data.sequence_features import NamedFeatures
from bridle.errors import ModelError
from bridle.models.storage import load_model, save_model
from bridle.rows.disk.ranges import DiskRows

PREAMBLE = struct.Struct("<8sIIQQ32s")
FOLDER = Path(__file__).with_name("files_of_0_1_0")

WORDS = ("/bridle/", "/sklearn/utils/validation")  # where errors may come from

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**40, 2**62, 2**63, -(2**63), 10**30, 0.5, -0.0,
    1e300, -1e300, 1e-300, float("nan"), float("inf"), "", "x", "inf", "nan", "1e5", "ovo", "ovr",
    "free", "rbf", "poly", "platt", "\x00", "ä" * 50, [], {}, [[]], [1, 2], ["a", "b"], {"a": 1},
    [None], [0.1] * 40, [[0, 1], [1, 0]],
]  # fmt: skip


def mutated_model(rng: np.random.Generator, original: bytes) -> bytes:
    """A file that differs from this one in a few places, with a checksum that fits."""
    header_size = PREAMBLE.unpack(original[: PREAMBLE.size])[3]
    body = original[PREAMBLE.size :]
    header = json.loads(body[:header_size])
    arrays = bytearray(body[header_size + -header_size % 64 :])
    for _ in range(int(rng.integers(1, 4))):
        change = rng.integers(10)
        if change < 6:
            _change_value(rng, header)
        elif change < 8:
            _change_array(rng, header)
        elif arrays:
            _change_bytes(rng, arrays)
    return packed(header, bytes(arrays))


def packed(header: Any, arrays: bytes) -> bytes:
    """A file of this header and these arrays."""
    text = json.dumps(header, ensure_ascii=False).encode()
    body = text + bytes(-len(text) % 64) + arrays
    digest = hashlib.blake2b(body, digest_size=32).digest()
    size = PREAMBLE.size + len(body)
    return PREAMBLE.pack(b"\x89bridle\n", 1, 0, len(text), size, digest) + body


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*at, key)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*at, key))


def _change_value(rng: np.random.Generator, header: Any) -> None:
    fields = header.get("fields", header) if isinstance(header, dict) else header
    root = fields if isinstance(fields, dict) and rng.random() < 0.9 else header
    places = list(_places(root))
    if not places:
        return
    *way, last = places[rng.integers(len(places))]
    holder = root
    for key in way:
        holder = holder[key]
    change = rng.integers(6)
    if change == 0:
        del holder[last]
    elif change == 1:
        *other_way, other = places[rng.integers(len(places))]
        found = root
        for key in (*other_way, other):
            found = found[key] if _has(found, key) else 0
        holder[last] = copy.deepcopy(found)
    elif change == 2 and isinstance(holder[last], int | float):
        holder[last] = holder[last] + int(rng.integers(-3, 4))
    elif change == 3 and isinstance(holder[last], list) and holder[last]:
        holder[last] = holder[last][: rng.integers(len(holder[last]))] + holder[last][-1:]
    else:
        holder[last] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else (
        isinstance(holder, list) and isinstance(key, int) and key < len(holder)
    )  # fmt: skip


def _change_array(rng: np.random.Generator, header: Any) -> None:
    """Its name, its dtype, its shape or its place."""
    entries = header.get("arrays") if isinstance(header, dict) else None
    if not isinstance(entries, list) or not entries:
        return
    entry = entries[rng.integers(len(entries))]
    if not isinstance(entry, dict):
        return
    change = rng.integers(5)
    if change == 0:
        entry["dtype"] = str(rng.choice(["<f4", "<f8", "<i4", "<i8", "|u1", "<c16", "|O"]))
    elif change == 1 and isinstance(entry.get("shape"), list) and entry["shape"]:
        k = rng.integers(len(entry["shape"]))
        entry["shape"][k] = int(rng.choice([0, 1, 2, 5, -1, 2**40, 2**62]))
    elif change == 2 and isinstance(entry.get("shape"), list):
        entry["shape"] = entry["shape"][::-1] if rng.random() < 0.5 else [*entry["shape"], 1]
    elif change == 3:
        entry["offset"] = int(rng.choice([0, 64, 128, 63, -64, 2**62]))
    else:
        entries.remove(entry)


def _change_bytes(rng: np.random.Generator, arrays: bytearray) -> None:
    """One number, in place."""
    at = int(rng.integers(0, len(arrays) // 8)) * 8
    number = rng.integers(4)
    if number == 0:
        arrays[at : at + 8] = rng.bytes(8)
    elif number == 1:
        value = int(rng.choice([-1, 0, 1, 2, 3, 5, 100, 2**31, 2**40, 2**62]))
        arrays[at : at + 8] = struct.pack("<q", value)
    elif number == 2:
        value = float(rng.choice([np.nan, np.inf, -np.inf, 1e308, -1.0, 0.0, 1e-320]))
        arrays[at : at + 8] = struct.pack("<d", value)
    else:
        arrays[at + int(rng.integers(8))] ^= 1 << int(rng.integers(8))


def use_model(path: Path) -> bool:
    """Load a file and use the model, whatever it is; False if it does not load.

    AssertionError if anything but bridle's own ValueError comes of it.
    """
    try:
        model = load_model(path)
    except ModelError:
        return False
    for use in _uses(model, path):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                use()
            except ValueError as error:
                last = traceback.extract_tb(error.__traceback__)[-1].filename
                if not any(place in last for place in WORDS):
                    raise AssertionError(f"not in bridle's words: {error!r}") from error
    return True


def _uses(model: Any, path: Path) -> Iterator[Callable[[], Any]]:
    yield lambda: repr(model)
    yield lambda: _saved_again(model, path)
    yield from USES[type(model).__name__](model, path)


def _saved_again(model: Any, path: Path) -> None:
    save_model(f"{path}.again", model)
    load_model(f"{path}.again")


def _rows(n_features: int) -> list[Any]:
    rng = np.random.default_rng(0)
    columns = np.unique(rng.integers(0, max(1, n_features), size=(3, 4)), axis=1)
    indptr = np.arange(4) * columns.shape[1]
    values = rng.normal(size=columns.size)
    sparse = sp.csr_matrix((values, columns.ravel(), indptr), shape=(3, max(1, n_features)))
    return [sparse, sparse.toarray()] if n_features < 10_000 else [sparse]


def _use_regression(model: Any, path: Path) -> Iterator[Callable[[], Any]]:
    for X in _rows(model.n_features):
        yield lambda X=X: model.predict(X)


def _use_linear(model: Any, path: Path) -> Iterator[Callable[[], Any]]:
    for X in _rows(model.n_features):
        yield lambda X=X: model.decision_function(X)
        yield lambda X=X: model.predict(X)
        yield lambda X=X: model.predict_proba(X)
        yield lambda X=X: model.to_estimator().predict(X)
        if "calibrators" in model.info:
            yield lambda X=X: model.to_estimator().predict_proba(X)
        yield lambda X=X: bridle.to_sklearn(model).predict(X)
        yield lambda X=X: bridle.certify_model(
            model, X, model.classes[[0, 1, 0]], max_seconds=0.01, n_threads=1
        )
    yield lambda: model.resized(3).predict(np.ones((2, 3)))
    yield lambda: repr(bridle.explain(model))
    yield lambda: bridle.explain(model)._repr_html_()
    for format in ("liblinear", "svmlight"):
        yield lambda f=format: bridle.export_model(f"{path}.{f}", model, f)


def _use_kernel(model: Any, path: Path) -> Iterator[Callable[[], Any]]:
    for X in _rows(model.n_features):
        yield lambda X=X: model.decision_function(X)
        yield lambda X=X: model.predict(X)
    yield lambda: model.resized(model.n_features + 1)
    yield lambda: bridle.export_model(f"{path}.svmlight", model, "svmlight")


def _use_ranking(model: Any, _: Path) -> Iterator[Callable[[], Any]]:
    for X in _rows(model.n_features):
        yield lambda X=X: model.decision_function(X)
    yield lambda: model.resized(3)


def _use_chain(model: Any, _: Path) -> Iterator[Callable[[], Any]]:
    if isinstance(model.features, NamedFeatures):
        yield lambda: model.predict([[["w=a"], ["w=b", "x"]], [["w=c"]], []])
    else:
        yield lambda: model.predict([np.ones((2, model.features.n_features))])


def _use_structured(model: Any, _: Path) -> Iterator[Callable[[], Any]]:
    if model.oracle_name == "TreeOracle":
        yield lambda: model.predict([["the", "dog", "barks"], ["x"]])
    else:
        yield lambda: model.predict([np.ones(getattr(model.oracle(), "n_inputs", 1))])


def _use_tree(model: Any, _: Path) -> Iterator[Callable[[], Any]]:
    yield lambda: model.predict([["the", "dog", "barks"], ["x"], ["a", "b", "c", "d"]])


def _use_multilabel(model: Any, _: Path) -> Iterator[Callable[[], Any]]:
    for X in _rows(len(model.coef)):
        yield lambda X=X: model.predict(X)


def _use_checkpoint(saved: Any, path: Path) -> Iterator[Callable[[], Any]]:
    X, y = read_svmlight(FOLDER / "two.svm")
    problem = bridle.LinearProblem(X, np.where(y == y.min(), -1.0, 1.0))
    checkpoint = bridle.Checkpoint(path, resume=True)
    stop = bridle.Epochs(1)
    yield lambda: bridle.solve(problem, "dcd", stop=stop, checkpoint=checkpoint)
    # The same problem as the file says, wherever that can be.
    yield lambda: checkpoint.opened(problem, saved.solver)


USES: dict[str, Callable[[Any, Path], Iterator[Callable[[], Any]]]] = {
    "LinearModel": _use_linear, "MultivariateModel": _use_linear, "KernelModel": _use_kernel,
    "RankingModel": _use_ranking,
    "ChainModel": _use_chain, "StructuredModel": _use_structured, "TreeModel": _use_tree,
    "MultilabelModel": _use_multilabel, "RegressionModel": _use_regression,
    "KernelRegressionModel": _use_regression, "OneClassModel": _use_regression,
    "LinearOneClassModel": _use_regression,
    "SavedPoint": _use_checkpoint,
}  # fmt: skip


def example_models(folder: Path) -> dict[str, bytes]:
    """Files of models of every kind, by name: those of version 0.1.0, and new ones."""
    old = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())
           if path.read_bytes().startswith(b"\x89bridle")}  # fmt: skip
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 5)), np.repeat(["a", "b", "c", "d"], 10)
    sparse, two = sp.csr_matrix(np.where(X > 0, X, 0.0)), (y > "b").astype(int)
    trees = bridle.read_trees((FOLDER / "trees.txt").read_text())
    made = {
        "sparse": bridle.LinearSVC().fit(sparse, y).sparsify(),
        "scaled": replace(bridle.LinearSVC().fit(X, y).to_model(), scale=np.full(5, 2.0)),
        "platt": bridle.LinearSVC(probability="platt").fit(X, y),
        "isotonic": bridle.LinearSVC(probability="isotonic", multi_class="ovo").fit(X, y),
        "two": bridle.LinearSVC(probability="platt", class_weight="balanced").fit(sparse, two),
        "svc-sparse": bridle.SVC(gamma=0.5).fit(sparse, y),
        "svc-poly": bridle.SVC(kernel="poly", degree=2).fit(X, two),
        "oracle": bridle.StructuredSVM(bridle.MultilabelOracle(5, 2)).fit(
            list(X), [(int(x[0] > 0), int(x[1] > 0)) for x in X]
        ),
        "parser": bridle.StructuredSVM(bridle.TreeOracle(bridle.Grammar.read(trees))).fit(
            [tree.words for tree in trees], trees
        ),
        "chain": bridle.ChainSVM().fit([X[:4], X[4:9]], [["a", "b", "a", "b"], list("abcab")]),
        "multilabel": bridle.MultilabelSVC().fit(X, (X[:, :3] > 0).astype(int)),
        "multivariate": bridle.MultivariateSVC().fit(X, two),
        "stream": bridle.OnlineSVC().fit(X, y),
        "regression": bridle.LinearSVR().fit(X, X[:, 0]),
        "svr": bridle.SVR(gamma=0.5).fit(sparse, X[:, 0]),
        "linear-one-class": bridle.LinearOneClassSVM().fit(X + 3.0),
        "one-class": bridle.OneClassSVM(gamma=0.5).fit(X),
    }
    for name, estimator in made.items():
        save_model(folder / name, estimator)
    return old | {name: (folder / name).read_bytes() for name in made}


def refusals(path: Path, trials: int, begin: int = 0) -> int:
    """How many of so many damaged versions of a file of rows are refused by name.

    Bytes from `begin` on are changed. What is not refused can be read.
    """
    good, chance, refused = path.read_bytes(), random.Random(0), 0
    for trial in range(trials):
        raw = bytearray(good)
        for _ in range(1 + trial % 8):
            raw[chance.randrange(begin, len(raw))] = chance.randrange(256)
        path.write_bytes(raw)
        try:
            for part in DiskRows(open_arrow(path), memory=(None, 1 << 40)[trial % 2]).parts():
                assert part.rows.n_rows > 0
        except ArrowError as error:
            refused += str(path) in str(error)
    return refused
