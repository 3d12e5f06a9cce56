"""Files of models that somebody has changed: an error that says what, or a model that works."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle.errors import ModelError
from bridle.models.storage import KINDS, load_model

import hostile


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return hostile.example_models(tmp_path_factory.mktemp("models"))


def test_there_is_a_model_of_every_kind(models: dict[str, bytes], tmp_path: Path) -> None:
    kinds = set()
    for name, content in models.items():
        (tmp_path / name).write_bytes(content)
        kinds.add(load_model(tmp_path / name).kind)
        assert hostile.use_model(tmp_path / name)
    assert kinds == set(KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_a_changed_file_is_refused_or_works(
    models: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    loaded = 0
    for k, original in enumerate(models.values()):
        (tmp_path / "m").write_bytes(
            hostile.mutated_model(np.random.default_rng([seed, k]), original)
        )
        loaded += hostile.use_model(tmp_path / "m")
    assert 0 < loaded < len(models)  # else nothing is changed, or too much


def changed(content: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """With other fields, or other entries of the list of arrays."""
    size = hostile.PREAMBLE.unpack(content[: hostile.PREAMBLE.size])[3]
    body = content[hostile.PREAMBLE.size :]
    header = json.loads(body[:size])
    change(header["fields"], {entry["name"]: entry for entry in header["arrays"]})
    return hostile.packed(header, body[size + -size % 64 :])


def put(*way: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Sets the field at the end of this way to the last value."""

    def change(fields: dict[str, Any], _: dict[str, Any]) -> None:
        *before, last, value = way
        holder: Any = fields
        for key in before:
            holder = holder[key]
        holder[last] = value

    return change


def drop(*way: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(fields: dict[str, Any], _: dict[str, Any]) -> None:
        *before, last = way
        holder: Any = fields
        for key in before:
            holder = holder[key]
        del holder[last]

    return change


def same_place(one: str, other: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """One array is read where the other is."""

    def change(_: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[one].update({key: arrays[other][key] for key in ("offset", "shape", "dtype")})

    return change


@pytest.mark.parametrize(("name", "change", "message"), [
    ("sparse", put("n_features", 2), r"has column index \d, outside 0..1"),
    ("sparse", put("n_features", 2**61), "weights: more than this machine can hold"),
    ("sparse", put("n_features", -1), "n_features: expected a count, found -1"),
    ("sparse", same_place("coef_indptr", "coef_indices"), "X.indptr falls|X.indptr goes"),
    ("sparse", same_place("coef_indices", "coef_values"), "the array 'coef_indices' is of dtype"),
    ("svc-sparse", put("n_features", 1), "outside 0..0"),
    ("svc-sparse", same_place("support_indices", "support_indptr"), "values, but .* indices"),
    ("svc-sparse", put("kernel", "gamma", "wide"), "kernel.gamma: expected a finite number"),
    ("svc-sparse", drop("kernel", "name"), "kernel: has no 'name'"),
    ("svc-poly", put("kernel", "degree", 2**40), "kernel.degree: expected a small count"),
    ("svc-poly", put("n_features", 3), "support vectors of 5 features, not 3"),
    ("platt", drop("info", "calibrators", 0), "3 calibrations for 4 functions"),
    ("platt", drop("info", "calibrators", 0, "slope"), r"info.calibrators\[0\]: has no 'slope'"),
    ("platt", put("info", "calibrators", 1, "method", "magic"), "expected 'platt' or 'isotonic'"),
    ("platt", put("info", "calibrators", None), "info.calibrators: expected a list, found None"),
    ("isotonic", put("info", "calibrators", 0, "scores", [1.0]), "do not fit together"),
    ("two", put("info", "class_weight", [1.0]), "1 class weights for 2 classes"),
    ("multivariate", put("objective", "loss", "beauty"), "the loss beauty cannot be kept"),
    ("stream", put("info", "eta0", -1.0), "info.eta0: expected a positive number"),
    ("stream", same_place("last", "coef"), "last of shape"),
    ("two", put("info", "status", "fine"), "info.status: expected 'converged' or"),
    ("platt", put("classes", "values", ["a", "a", "b", "c"]), "must be different"),
    ("platt", put("classes", "values", 7), "classes.values: expected a list, found 7"),
    ("platt", put("multi_class", "all"), "multi_class: expected 'ovr' or"),
    ("platt", drop("objective"), "has no 'objective'"),
    ("platt", put("objective", "C", -1.0), "objective.C: expected a positive number"),
    ("platt", put("certificates", 2, "primal", None), r"certificates\[2\].primal: expected a num"),
    ("scaled", put("n_rows", 10**40), "n_rows: expected a count"),
    ("chain.model", put("transitions", 1), "transitions: expected true or false, found 1"),
    ("chain.model", put("classes", ["x", "x", "y"]), "needs labels, and different ones"),
    ("tree.model", put("grammar", "roots", []), "needs roots"),
    ("oracle", put("parameters", {}), "no 'n_inputs'"),
    ("oracle", put("parameters", "n_labels", 10**7), "cannot be searched with pairs"),
    ("oracle", put("parameters", "n_inputs", 7), "the model has 11 weights"),
    ("parser", put("parameters", "cues", ["a"]), "for the oracle TreeOracle"),
    ("multilabel", put("C", "much"), "C: expected a positive number"),
    ("ranking.model", put("threshold", []), "threshold: expected a finite number"),
    ("two.checkpoint", put("step", -3), "step: expected a count, found -3"),
])  # fmt: skip
def test_the_message_says_what_is_wrong(
    models: dict[str, bytes], tmp_path: Path, name: str, change: Any, message: str
) -> None:
    path = tmp_path / "m"
    path.write_bytes(changed(models[name], change))
    with pytest.raises(ModelError, match=message) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"{path}: malformed model: ")


def test_a_header_that_is_no_dictionary(tmp_path: Path) -> None:
    for header in (None, [], 7, "x", {}, {"kind": "linear", "fields": [], "arrays": []}):
        (tmp_path / "m").write_bytes(hostile.packed(header, b""))
        with pytest.raises(ModelError, match="malformed model"):
            load_model(tmp_path / "m")
