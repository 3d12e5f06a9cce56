r"""Model files: one file, a JSON header and raw arrays. Never pickle: reading one runs no code.

    bytes     what
    8         magic: 0x89 "bridle" 0x0A
    4         format number, little-endian as everything here; this code writes and reads 1
    4         zero
    8         size of the header in bytes
    8         size of the file in bytes
    32        blake2b-256 of everything after these 64 bytes
    header    JSON, UTF-8: kind of model, its fields, and the arrays' names, dtypes, shapes, offsets
    arrays    each at a multiple of 64 bytes from the start of the file; offsets in the header
              count from the first one's place

A file is written under a temporary name beside its own, flushed to the disk and renamed: whoever
reads sees the old model or the new one, never half of one. Whatever is wrong with a file ends in
ModelError, one line that says what; sizes, shapes and offsets are checked before they are used.

A kind of model is a dataclass with `parts()` and `from_parts()`, and a line in KINDS.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import math
import os
import secrets
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol, Self

import numpy as np
from bridle import __version__
from bridle.certificate import Certificate
from bridle.rows import as_matrix, is_sparse, release_pages
from bridle.stopping import Status
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
StrPath = str | os.PathLike[str]

MAGIC = b"\x89bridle\n"
FORMAT = 1
ALIGNMENT = 64
MOST_HEADER_BYTES = 1 << 28
DTYPES = ("<f4", "<f8", "<i4", "<i8", "|u1")  # of arrays
CLASS_DTYPES = (
    "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8",
)  # fmt: skip

_CHUNK = 1 << 24  # bytes written at a time
_PREAMBLE = struct.Struct("<8sIIQQ32s")
assert _PREAMBLE.size == ALIGNMENT

# kind -> (module, class): a new kind of model is one class and one line here.
KINDS: dict[str, tuple[str, str]] = {
    "linear": ("bridle.model_io", "LinearModel"),
    "kernel": ("bridle.kernel_model", "KernelModel"),
    "ranking": ("bridle.structured.ranking_model", "RankingModel"),
    "chain": ("bridle.structured.tagger", "ChainModel"),
    "structured": ("bridle.structured.model", "StructuredModel"),
    "tree": ("bridle.structured.parser", "TreeModel"),
    "multilabel": ("bridle.structured.multilabel", "MultilabelModel"),
    "checkpoint": ("bridle.checkpoint", "SavedPoint"),
}


class ModelError(ValueError):
    """A file that is no model that can be read; the message says which and why."""


class Model(Protocol):
    """What a kind of model owes this module: plain JSON fields and arrays, there and back."""

    kind: ClassVar[str]

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Fields for the header, and arrays."""

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model again. KeyError, TypeError or ValueError if the parts do not fit."""


@dataclass(frozen=True)
class Objective:
    """What was minimised: 1/2 |w|^2 + C sum_i weight_i loss(y_i (w.x_i + b))."""

    loss: str = "hinge"
    C: float = 1.0
    bias: str = "none"
    bias_scale: float = 1.0
    weighted: bool = False  # by weights that the file does not hold; see info["class_weight"]

    def as_dict(self) -> dict[str, Any]:
        """For the header; an infinite C becomes a word, which JSON has no number for."""
        return {
            "loss": self.loss, "C": json_number(self.C), "bias": self.bias,
            "bias_scale": self.bias_scale, "weighted": self.weighted,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """From the header."""
        return cls(
            loss=_string(fields["loss"]), C=float(fields["C"]), bias=_string(fields["bias"]),
            bias_scale=float(fields["bias_scale"]), weighted=bool(fields["weighted"]),
        )  # fmt: skip


@dataclass(frozen=True)
class LinearModel:
    """Linear decision functions: one for two classes, else one for each class or pair of classes.

    multi_class: "ovr", each class against the rest: the largest score decides; "ovo", pairs (0, 1),
    (0, 2), ...: the votes decide; "crammer_singer": the largest score decides, and all functions
    are of one problem, with one certificate. See `bridle.machines`.
    fingerprint, n_rows: of the training data; "" and 0 if unknown.
    alpha: the dual variables that prove the certificates, one row per decision function, if kept.
    info: anything else worth keeping, as plain JSON: solver, seed, status, feature names, ...
    "class_weight" is part of the objective: one number for each class, see `own_weights`.
    """

    coef: Any  # dense, or a CSR matrix
    intercept: Array
    classes: NDArray[Any]
    objective: Objective
    certificates: tuple[Certificate, ...]
    fingerprint: str
    n_rows: int
    alpha: Array | None = None
    zero_based: bool = False  # how the training file counted its features
    info: dict[str, Any] = field(default_factory=dict)
    multi_class: str = "ovr"
    scale: Array | None = None  # see `bridle.scaling`; coef is for the data as they are

    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        from bridle.machines import check_multi_class, n_functions, n_problems

        if len(self.classes) < 2:
            raise ValueError(f"a model has at least two classes, got {len(self.classes)}")
        check_multi_class(self.multi_class)
        functions = n_functions(self.multi_class, len(self.classes))
        problems = n_problems(self.multi_class, len(self.classes))
        shape = self.coef.shape
        _expect(self.coef.ndim == 2 and shape[0] == functions, "coef", shape)
        _expect(self.intercept.shape == (functions,), "intercept", self.intercept.shape)
        _expect(len(self.certificates) == problems, "certificates", len(self.certificates))
        if self.alpha is not None:
            _expect(self.multi_class != "crammer_singer", "alpha", self.alpha.shape)
            _expect(self.alpha.shape == (functions, self.n_rows), "alpha", self.alpha.shape)
        if self.scale is not None:
            _expect(self.scale.shape == (self.n_features,), "scale", self.scale.shape)
            if not (np.isfinite(self.scale).all() and (self.scale > 0).all()):
                raise ValueError("the scale of a feature must be positive and finite")
        values = self.coef.data if is_sparse(self.coef) else self.coef
        if not (np.isfinite(values).all() and np.isfinite(self.intercept).all()):
            raise ValueError("the weights contain NaN or infinity")

    def dense(self) -> Self:
        """The same model with dense weights."""
        return replace(self, coef=self.coef.toarray()) if is_sparse(self.coef) else self

    @property
    def n_features(self) -> int:
        """How many features the model knows."""
        return int(self.coef.shape[1])

    @property
    def certificate(self) -> Certificate:
        """Of the sum of all decision functions' problems."""
        from bridle.certificate import total

        return total(self.certificates)

    def resized(self, n_features: int) -> LinearModel:
        """The same model for data of another width.

        A feature that no training row had has weight 0 in every optimum, so that further features
        change nothing; features that the data do not have contribute nothing.
        """
        from bridle.scaling import resized

        if is_sparse(self.coef):
            coef = self.coef.copy()
            coef.resize((coef.shape[0], n_features))
        else:
            kept = self.coef[:, :n_features]
            coef = np.zeros((len(kept), n_features))
            coef[:, : kept.shape[1]] = kept
        scale = None if self.scale is None else resized(self.scale, n_features)
        return replace(self, coef=coef, scale=scale)

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """w.x + b for every row: a vector for two classes, else a column for each class.

        With "ovo" a class has as many points as it wins pairs, and a fraction that orders equals.
        """
        from bridle.machines import class_scores, function_scores

        scores = function_scores(self._checked(X), self.coef, self.intercept, n_threads)
        return class_scores(scores, self.multi_class, len(self.classes))

    def _checked(self, X: Any) -> Any:
        X = as_matrix(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but the model has {self.n_features}; "
                f"see LinearModel.resized"
            )
        return X

    def predict(self, X: Any, *, n_threads: int | None = None) -> NDArray[Any]:
        """The class of every row."""
        return self.decide(self.decision_function(X, n_threads=n_threads))

    def predict_proba(self, X: Any, *, n_threads: int | None = None) -> Array:
        """The probability of each class, in the order of `classes`; each row sums to 1."""
        from bridle.calibration import calibrator_from, class_probabilities
        from bridle.machines import function_scores

        entries = self.info.get("calibrators")
        if entries is None:
            raise ModelError("the model has no probabilities: it was trained without them")
        scores = function_scores(self._checked(X), self.coef, self.intercept, n_threads)
        if len(entries) != scores.shape[1]:
            raise ModelError(f"{len(entries)} calibrations for {scores.shape[1]} functions")
        calibrators = [calibrator_from(entry) for entry in entries]
        return class_probabilities(calibrators, scores, len(self.classes), self.multi_class)

    def __repr__(self) -> str:
        gap = self.certificate.relative_gap
        return (
            f"LinearModel({len(self.classes)} classes, {self.n_features} features, "
            f"multi_class={self.multi_class!r}, {self.objective}, "
            f"certified relative gap {gap:.1e})"
        )

    def decide(self, scores: Array) -> NDArray[Any]:
        """The classes that belong to decision values."""
        from bridle.machines import decide

        labels: NDArray[Any] = self.classes[decide(scores)]
        return labels

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        fields: dict[str, Any] = {
            "classes": classes_to_json(self.classes),
            "objective": self.objective.as_dict(),
            "certificates": certificates_to_json(self.certificates),
            "fingerprint": self.fingerprint,
            "n_rows": self.n_rows,
            "zero_based": self.zero_based,
            "info": self.info,
            "multi_class": self.multi_class,
        }
        arrays: dict[str, NDArray[Any]] = {"intercept": self.intercept}
        if is_sparse(self.coef):
            fields["n_features"] = self.n_features
            arrays |= {
                "coef_indptr": self.coef.indptr.astype(np.int64),
                "coef_indices": self.coef.indices.astype(np.int64),
                "coef_values": self.coef.data,
            }
        else:
            arrays["coef"] = self.coef
        further = {"alpha": self.alpha, "scale": self.scale}
        return fields, arrays | {name: a for name, a in further.items() if a is not None}

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """What a fitted LinearSVC or LinearSVCCV knows; `save_model` takes these as they are."""
        bias = estimator.bias or ("regularised" if estimator.fit_intercept else "none")
        solver, signed = estimator.solver, getattr(estimator, "dual_coef_", None)
        loss = estimator.loss if isinstance(estimator.loss, str) else estimator.loss.name
        names = getattr(estimator, "feature_names_in_", None)
        calibrators = getattr(estimator, "calibrators_", None)
        C = estimator.C_ if hasattr(estimator, "C_") else estimator.C  # found by LinearSVCCV
        return cls(
            coef=estimator.coef_,
            intercept=np.asarray(estimator.intercept_, np.float64),
            classes=estimator.classes_,
            objective=Objective(
                loss, float(C), bias, float(estimator.intercept_scaling),
                weighted=estimator.weighted_,
            ),
            certificates=tuple(estimator.certificates_),
            fingerprint="",
            n_rows=0 if signed is None else signed.shape[1],
            alpha=None if signed is None else np.abs(signed),
            multi_class=estimator.multi_class,
            info={
                "solver": solver if isinstance(solver, str) else solver.name,
                "status": estimator.status_.value,
            } | ({} if names is None else {"feature_names": [str(name) for name in names]})
            | ({} if calibrators is None else {"calibrators": [c.as_dict() for c in calibrators]}),
        )  # fmt: skip

    def to_estimator(self) -> Any:
        """A fitted LinearSVC with these weights, which predicts without having seen any data."""
        import bridle

        bias, scale = self.objective.bias, self.objective.bias_scale
        estimator = bridle.LinearSVC(
            self.objective.C, loss=self.objective.loss, fit_intercept=bias != "none",
            bias=None if bias == "regularised" else bias, intercept_scaling=scale,
            multi_class=self.multi_class,
        )  # fmt: skip
        estimator.coef_, estimator.intercept_ = self.coef, self.intercept
        estimator.classes_, estimator.n_features_in_ = self.classes, self.n_features
        estimator.weighted_ = self.objective.weighted or "class_weight" in self.info
        estimator.certificates_ = list(self.certificates)
        estimator.certificate_ = self.certificate
        estimator.status_ = Status(self.info["status"]) if "status" in self.info else None
        if "feature_names" in self.info:
            estimator.feature_names_in_ = np.array(self.info["feature_names"], dtype=object)
        if "calibrators" in self.info:
            from bridle.calibration import calibrator_from

            entries = self.info["calibrators"]
            if len(entries) != len(self.coef):
                raise ValueError(f"{len(entries)} calibrations for {len(self.coef)} functions")
            estimator.probability = entries[0]["method"]
            estimator.calibrators_ = [calibrator_from(entry) for entry in entries]
        return estimator

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        return cls(
            coef=_coef(fields, arrays),
            intercept=_doubles(arrays["intercept"]),
            classes=classes_from_json(fields["classes"]),
            objective=Objective.from_dict(fields["objective"]),
            certificates=certificates_from_json(fields["certificates"]),
            fingerprint=_string(fields["fingerprint"]),
            n_rows=_count(fields["n_rows"]),
            alpha=_doubles(arrays["alpha"]) if "alpha" in arrays else None,
            zero_based=bool(fields["zero_based"]),
            info=dict(fields["info"]),
            multi_class=_string(fields.get("multi_class", "ovr")),
            scale=_doubles(arrays["scale"]) if "scale" in arrays else None,
        )


def fingerprint(X: Any, y: ArrayLike) -> str:
    """A cheap name for a data set: a hash of its shape and of about 1000 of its rows and labels.

    The same rows give the same fingerprint in any storage, float32 or float64, any index type.
    """
    X = as_matrix(X)
    labels = np.asarray(y)

    def row(i: int) -> tuple[NDArray[Any], NDArray[Any], Any]:
        if not is_sparse(X):
            return np.arange(X.shape[1]), X[i], labels[i]
        begin, end = int(X.indptr[i]), int(X.indptr[i + 1])
        return X.indices[begin:end], X.data[begin:end], labels[i]

    return fingerprint_of(X.shape, labels.shape, row)


def sampled_rows(n_rows: int) -> list[int]:
    """The rows that a fingerprint looks at."""
    return sorted(set(np.linspace(0, n_rows - 1, 1000).astype(np.int64).tolist()))


def fingerprint_of(
    shape: tuple[int, int],
    label_shape: tuple[int, ...],
    row: Callable[[int], tuple[NDArray[Any], NDArray[Any], Any]],
) -> str:
    """The same for rows that a function gives: columns, values and the label of row i."""
    digest = hashlib.blake2b(repr((shape, label_shape)).encode(), digest_size=16)
    for i in sampled_rows(shape[0]):
        columns, values, label = row(i)
        if values.dtype != np.float32:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
        if not values.all():
            columns, values = columns[values != 0], values[values != 0]
        if (columns[1:] < columns[:-1]).any():
            order = np.argsort(columns, kind="stable")
            columns, values = columns[order], values[order]
        digest.update(columns.astype("<i8").tobytes())
        digest.update(values.astype("<f4", copy=False).tobytes())
        digest.update(_label_bytes(label))
    return digest.hexdigest()


def as_model(model: Any) -> Any:
    """A model as it is; a fitted estimator as the model that it holds."""
    if hasattr(model, "parts"):
        return model
    if hasattr(model, "to_model"):
        return model.to_model()
    if not hasattr(model, "certificates_"):
        if hasattr(model, "certificate_"):
            raise TypeError(f"no model file holds a {type(model).__name__}: pickle it")
        raise TypeError(f"{type(model).__name__} is neither a model nor a fitted estimator")
    if hasattr(model, "support_vectors_"):
        from bridle.kernel_model import KernelModel

        return KernelModel.from_estimator(model)
    return LinearModel.from_estimator(model)


def save_model(path: StrPath, model: Any) -> None:
    """Write a model, or a fitted estimator, whole or not at all."""
    model = as_model(model)
    fields, arrays = model.parts()
    blocks = {name: _storable(name, array) for name, array in arrays.items()}
    header = _header(model.kind, fields, blocks)
    sizes = [len(header), *(block.nbytes for block in blocks.values())]
    gaps = [-size % ALIGNMENT for size in sizes]
    pieces: list[Any] = [header, bytes(gaps[0])]
    for block, gap in zip(blocks.values(), gaps[1:], strict=True):
        pieces += [block.reshape(-1).view(np.uint8), bytes(gap)]
    digest = hashlib.blake2b(digest_size=32)
    for chunk in _chunks(pieces):
        digest.update(chunk)
    size = _PREAMBLE.size + sum(sizes) + sum(gaps)
    preamble = _PREAMBLE.pack(MAGIC, FORMAT, 0, len(header), size, digest.digest())
    with replacing(path) as file:
        for chunk in _chunks([preamble, *pieces]):
            file.write(chunk)


def _chunks(pieces: list[Any]) -> Iterator[Any]:
    """The pieces in chunks; what is mapped from a disk leaves memory again when it was used."""
    for piece in pieces:
        for begin in range(0, len(piece), _CHUNK):
            yield piece[begin : begin + _CHUNK]
            release_pages(piece)


def load_model(path: StrPath) -> Any:
    """Read a model of any kind; ModelError says what is wrong with a file that is none."""
    name = os.fsdecode(path)
    with open(path, "rb") as file:
        preamble = file.read(_PREAMBLE.size)
        header_size, size, checksum = _check_preamble(preamble, name)
        body = bytearray(file.read())
    if len(preamble) + len(body) != size:
        raise ModelError(
            f"{name}: the model is damaged: {len(preamble) + len(body)} bytes of {size}"
        )
    if hashlib.blake2b(body, digest_size=32).digest() != checksum:
        raise ModelError(f"{name}: the model is damaged: its checksum does not match")
    if header_size > min(MOST_HEADER_BYTES, len(body)):
        raise ModelError(f"{name}: malformed model: a header of {header_size} bytes")
    try:
        header = json.loads(body[:header_size].decode("utf-8"))
        arrays = {
            entry["name"]: _array(entry, body, header_size) for entry in list(header["arrays"])
        }
        kind, fields = _string(header["kind"]), header["fields"]
        if kind not in KINDS:
            raise ModelError(
                f"{name}: a model of kind {kind!r}, which this version of bridle "
                f"({__version__}) does not know; it was written by {header.get('bridle')!s:.20}"
            )
        module, attribute = KINDS[kind]
        return getattr(importlib.import_module(module), attribute).from_parts(fields, arrays)
    except ModelError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError,
            RecursionError, MemoryError) as error:  # fmt: skip
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelError(f"{name}: malformed model: {what!s:.200}") from error


def _check_preamble(preamble: bytes, name: str) -> tuple[int, int, bytes]:
    if preamble[: len(MAGIC)] != MAGIC[: len(preamble)] or not preamble:
        raise ModelError(f"{name}: not a bridle model")
    if len(preamble) < _PREAMBLE.size:
        raise ModelError(f"{name}: the model is damaged: it ends after {len(preamble)} bytes")
    _, number, zero, header_size, size, checksum = _PREAMBLE.unpack(preamble)
    if number > FORMAT:
        raise ModelError(
            f"{name}: model format {number} is newer than this version of bridle ({__version__}) "
            f"reads, which is up to {FORMAT}; upgrade bridle"
        )
    if number < 1 or zero != 0:
        raise ModelError(f"{name}: malformed model: format {number}")
    return header_size, size, checksum


def _header(kind: str, fields: dict[str, Any], blocks: dict[str, NDArray[Any]]) -> bytes:
    """The header; offsets count from its padded end, so that they do not depend on its size."""
    entries, offset = [], 0
    for name, block in blocks.items():
        entries.append(
            {"name": name, "dtype": block.dtype.str, "shape": block.shape, "offset": offset}
        )
        offset += block.nbytes + -block.nbytes % ALIGNMENT
    header = {"kind": kind, "bridle": __version__, "fields": fields, "arrays": entries}
    text = json.dumps(header, allow_nan=False, ensure_ascii=False).encode()
    if len(text) > MOST_HEADER_BYTES:
        raise ValueError(f"the model's header would have {len(text)} bytes: too many")
    return text


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    if little.dtype.str not in DTYPES:
        raise TypeError(f"a model file cannot hold {name}, an array of {array.dtype}")
    return little


def _array(entry: Mapping[str, Any], body: bytearray, header_size: int) -> NDArray[Any]:
    """A view of the body, once dtype, shape and offset are known to lie within it."""
    name, dtype, shape, offset = (entry[key] for key in ("name", "dtype", "shape", "offset"))
    if dtype not in DTYPES or not isinstance(name, str):
        raise ValueError(f"array {name!r:.40} of dtype {dtype!r:.40}")
    if len(shape) > 4:
        raise ValueError(f"array {name!r:.40} of {len(shape)} dimensions")
    count = math.prod(_count(n) for n in shape)
    begin = header_size + -header_size % ALIGNMENT + _count(offset)
    if offset % ALIGNMENT or begin + count * np.dtype(dtype).itemsize > len(body):
        raise ValueError(f"array {name!r:.40} does not lie within the file")
    return np.frombuffer(body, dtype, count, begin).reshape(shape)


def _coef(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    if "coef" in arrays:
        return _doubles(arrays["coef"])
    import scipy.sparse as sp

    indptr, indices = arrays["coef_indptr"], arrays["coef_indices"]
    shape = (len(indptr) - 1, _count(fields["n_features"]))
    coef = sp.csr_matrix((_doubles(arrays["coef_values"]), indices, indptr), shape=shape)
    coef.check_format(full_check=True)
    return coef


def _doubles(array: NDArray[Any]) -> Array:
    if array.dtype.kind != "f":
        raise ValueError(f"weights of dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def _expect(fits: bool, name: str, shape: Any) -> None:
    if not fits:
        raise ValueError(f"{name} of shape {shape} does not fit the other parts of the model")


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        raise ValueError(f"expected a count, found {value!r:.40}")
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a string, found {value!r:.40}")
    return value


def _source(value: Any) -> Any:
    if value not in ("solver", "repair", "dual-solver"):
        raise ValueError(f"unknown source of a certificate: {value!r:.40}")
    return value


def json_number(value: float) -> float | str:
    """JSON has no infinity: it becomes a word that float() understands."""
    return float(value) if math.isfinite(value) else str(float(value))


def certificates_to_json(certificates: tuple[Certificate, ...]) -> list[dict[str, Any]]:
    """For the header."""
    return [
        {"primal": json_number(c.primal), "dual": json_number(c.dual), "source": c.source}
        for c in certificates
    ]


def certificates_from_json(entries: Any) -> tuple[Certificate, ...]:
    """From the header."""
    return tuple(
        Certificate(float(c["primal"]), float(c["dual"]), _source(c["source"])) for c in entries
    )


def classes_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    """For the header."""
    kind = classes.dtype.kind
    dtype = classes.dtype.newbyteorder("<").str
    if dtype in CLASS_DTYPES:
        return {"dtype": dtype, "values": classes.tolist()}
    values = classes.tolist()
    if kind in "UO" and all(isinstance(value, str) for value in values):
        return {"dtype": "object" if kind == "O" else "str", "values": values}
    raise TypeError(f"a model file cannot hold class labels of dtype {classes.dtype}")


def classes_from_json(entry: Mapping[str, Any]) -> NDArray[Any]:
    """From the header."""
    dtype, values = _string(entry["dtype"]), entry["values"]
    if not isinstance(values, list):
        raise ValueError("classes must be a list")
    if dtype in ("str", "object"):
        return np.array([_string(value) for value in values], dtype=dtype)
    if dtype not in CLASS_DTYPES or not all(isinstance(value, int | float) for value in values):
        raise ValueError(f"classes of dtype {dtype:.40}")
    return np.array(values, dtype=dtype)


def _label_bytes(label: Any) -> bytes:
    if isinstance(label, np.number | np.bool_ | int | float):
        return struct.pack("<d", float(label))
    return str(label).encode()


@contextlib.contextmanager
def replacing(path: StrPath) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` once it is complete and on the disk."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():  # a device or a pipe: not to be replaced
        with open(target, "wb") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """So that the new name survives a power cut, where folders can be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
