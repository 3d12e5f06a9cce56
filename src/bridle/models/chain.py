"""Training and using chains of labels on lists of feature names: what ChainSVM and the command line
share. Needs no scikit-learn.

Beside the weights of features and of transitions there are, on request, one weight for each label
at the start of a sequence, one at its end, and one everywhere (the intercept): rows of the
emissions after those of the features, in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from bridle import _core
from bridle.matrix.door import is_sparse
from bridle.objective.certificate import Certificate
from bridle.structured.chain import Chains
from bridle.structured.oracle import Array
from numpy.typing import NDArray


@dataclass(frozen=True)
class Encoded:
    """Sequences as rows of one matrix."""

    X: Any
    offsets: NDArray[np.int64]


@dataclass(frozen=True)
class Extras:
    """Which weights there are beside those of the features."""

    transitions: bool = True
    boundaries: bool = True
    intercept: bool = True

    @property
    def n_rows(self) -> int:
        """How many rows of the emissions follow those of the features."""
        return 2 * self.boundaries + self.intercept

    def matrix(self, encoded: Encoded) -> Any:
        """The rows, with the columns that mark the first and the last of each sequence."""
        return with_boundaries(encoded) if self.boundaries else encoded.X

    @property
    def bias(self) -> float:
        """The value of the constant feature."""
        return 1.0 if self.intercept else 0.0


def with_boundaries(encoded: Encoded) -> Any:
    """The matrix with two more columns: 1 in the first row of a sequence, 1 in the last."""
    X, offsets = encoded.X, encoded.offsets
    n_rows, n_features = X.shape
    used = np.diff(offsets) > 0
    first, last = offsets[:-1][used], offsets[1:][used] - 1
    if not is_sparse(X):
        marks = np.zeros((n_rows, 2), X.dtype if X.dtype.kind == "f" else np.float64)
        marks[first, 0] = marks[last, 1] = 1
        return np.hstack([X, marks])
    from scipy.sparse import csr_array

    # The new columns come last, so that rows stay in order: insert at the end of each row.
    where = np.concatenate([X.indptr[first + 1], X.indptr[last + 1]])
    columns = np.repeat([n_features, n_features + 1], len(first)).astype(X.indices.dtype)
    order = np.argsort(where, kind="stable")
    added = np.zeros(n_rows + 1, X.indptr.dtype)
    np.add.at(added, first + 1, 1)
    np.add.at(added, last + 1, 1)
    return csr_array(
        (
            np.insert(X.data, where[order], 1),
            np.insert(X.indices, where[order], columns[order]),
            X.indptr + np.cumsum(added),
        ),
        shape=(n_rows, n_features + 2),
    )


class NamedFeatures:
    """Rows from lists of names or dictionaries of features; the columns are in `vocabulary`."""

    def __init__(self, vocabulary: dict[str, int] | None = None) -> None:
        self.vocabulary: dict[str, int] = {} if vocabulary is None else vocabulary

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return len(self.vocabulary)

    def encode(self, sequences: Iterable[Any], *, grow: bool) -> Encoded:
        """Unknown names become new columns where `grow`, else they are left out."""
        from scipy.sparse import csr_array

        offsets, indptr, columns, values = _core.intern_features(sequences, self.vocabulary, grow)
        if not self.vocabulary:
            raise ValueError("the sequences have no features")
        shape = (len(indptr) - 1, len(self.vocabulary))
        return Encoded(csr_array((values, columns, indptr), shape=shape), offsets)


class NumberedFeatures:
    """Rows that are given as matrices, one for each sequence."""

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def encode(self, sequences: Sequence[Any], *, grow: bool) -> Encoded:
        """Stacks the matrices."""
        for i, x in enumerate(sequences):
            if (np.ndim(x) != 2 and not is_sparse(x)) or x.shape[1] != self.n_features:
                raise ValueError(
                    f"sequence {i} must be a matrix with {self.n_features} columns, "
                    f"got shape {np.shape(x)}"
                )
        offsets = np.cumsum([0, *(x.shape[0] for x in sequences)]).astype(np.int64)
        if any(is_sparse(x) for x in sequences):
            from scipy.sparse import csr_array, vstack

            return Encoded(csr_array(vstack([csr_array(x) for x in sequences])), offsets)
        return Encoded(np.concatenate([np.asarray(x) for x in sequences]), offsets)


Features = NamedFeatures | NumberedFeatures


def features_for(sequences: Sequence[Any]) -> Features:
    """Matrices are rows of numbers; anything else is lists of names or dictionaries."""
    if len(sequences) == 0:
        raise ValueError("there are no sequences")
    first = sequences[0]
    if isinstance(first, np.ndarray) or is_sparse(first):
        if np.ndim(first) != 2 and not is_sparse(first):
            raise ValueError(f"a sequence of numbers must be a matrix, got shape {np.shape(first)}")
        return NumberedFeatures(int(first.shape[1]))
    return NamedFeatures()


def encode_labels(
    labels: Sequence[Sequence[Any]], offsets: NDArray[np.int64]
) -> tuple[list[Any], NDArray[np.int32]]:
    """The classes, in order, and one code for each position of each sequence."""
    if len(labels) != len(offsets) - 1:
        raise ValueError(f"there are {len(offsets) - 1} sequences but {len(labels)} of labels")
    lengths = np.fromiter((len(y) for y in labels), np.int64, len(labels))
    wrong = np.flatnonzero(lengths != np.diff(offsets))
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"sequence {i} has {int(np.diff(offsets)[i])} positions but {int(lengths[i])} labels"
        )
    flat = [label for y in labels for label in y]
    classes = sorted(set(flat))
    code = {label: k for k, label in enumerate(classes)}
    return classes, np.fromiter((code[label] for label in flat), np.int32, len(flat))


@dataclass(frozen=True)
class ChainModel:
    """A trained chain: weights, labels, and where features of what name are."""

    w: Array
    classes: list[Any]
    features: Features
    extras: Extras
    C: float
    certificate: Certificate
    n_rows: int
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        K, n = len(self.classes), self.features.n_features
        n_weights = (n + self.extras.n_rows + self.extras.transitions * K) * K
        if self.w.shape != (n_weights,):
            raise ValueError(f"{len(self.w)} weights do not fit {n} features and {K} labels")
        if not np.isfinite(self.w).all():
            raise ValueError("the weights contain NaN or infinity")

    @property
    def emissions(self) -> Array:
        """A row of weights for each feature, a column for each label."""
        n, K = self.features.n_features, len(self.classes)
        return self.w[: n * K].reshape(n, K)

    @property
    def extra_weights(self) -> Array:
        """The rows at the start, at the end and everywhere, as far as there are any."""
        n, m, K = self.features.n_features, self.extras.n_rows, len(self.classes)
        return self.w[n * K : (n + m) * K].reshape(m, K)

    @property
    def transition_weights(self) -> Array:
        """Weights of [previous label, label]; zeros without transitions."""
        K = len(self.classes)
        if not self.extras.transitions:
            return np.zeros((K, K))
        return self.w[-K * K :].reshape(K, K)

    def predict(self, sequences: Sequence[Any], *, n_threads: int | None = None) -> list[list[Any]]:
        """The best labels of every sequence."""
        if len(sequences) == 0:
            return []
        encoded = self.features.encode(sequences, grow=False)
        if encoded.X.shape[0] == 0:
            return [[] for _ in sequences]
        chains = Chains(
            self.extras.matrix(encoded), encoded.offsets, len(self.classes),
            transitions=self.extras.transitions, bias=self.extras.bias,
            n_threads=_core.hardware_threads() if n_threads is None else n_threads,
        )  # fmt: skip
        paths = chains.argmax(self.w, augmented=False)[0].tolist()
        labels = [self.classes[k] for k in paths]
        bounds = encoded.offsets.tolist()
        return [labels[a:b] for a, b in pairwise(bounds)]

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`: only features that have weight are kept."""
        from bridle.files.container import json_number

        emissions = self.emissions
        fields: dict[str, Any] = {
            "classes": [_plain_label(label) for label in self.classes],
            "transitions": self.extras.transitions, "boundaries": self.extras.boundaries,
            "intercept": self.extras.intercept, "C": json_number(self.C), "n_rows": self.n_rows,
            "primal": json_number(self.certificate.primal),
            "dual": json_number(self.certificate.dual), "source": self.certificate.source,
            "info": self.info,
        }  # fmt: skip
        if isinstance(self.features, NamedFeatures):
            used = np.flatnonzero(emissions.any(axis=1))
            names = list(self.features.vocabulary)
            fields["names"] = [names[k] for k in used.tolist()]
            emissions = emissions[used]
        else:
            fields["n_features"] = self.features.n_features
        arrays = {
            "emissions": emissions, "extras": self.extra_weights,
            "transitions": self.transition_weights,
        }  # fmt: skip
        return fields, arrays

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        emissions = np.asarray(arrays["emissions"], np.float64)
        classes = list(fields["classes"])
        features: Features
        if "names" in fields:
            names = fields["names"]
            if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
                raise ValueError("the names of features must be different strings")
            features = NamedFeatures({name: k for k, name in enumerate(names)})
        else:
            features = NumberedFeatures(int(fields["n_features"]))
        if emissions.shape != (features.n_features, len(classes)):
            raise ValueError(f"emissions of shape {emissions.shape}")
        extras = Extras(
            *(bool(fields[name]) for name in ("transitions", "boundaries", "intercept"))
        )
        parts = ("extras", "transitions") if extras.transitions else ("extras",)
        w = np.concatenate(
            [emissions.ravel(), *(np.asarray(arrays[part], np.float64).ravel() for part in parts)]
        )
        if fields["source"] not in ("solver", "repair"):
            raise ValueError("unknown source of a certificate")
        certificate = Certificate(float(fields["primal"]), float(fields["dual"]), fields["source"])
        return cls(
            w, classes, features, extras, float(fields["C"]), certificate,
            int(fields["n_rows"]), dict(fields["info"]),
        )  # fmt: skip


def _plain_label(label: Any) -> Any:
    if isinstance(label, np.generic):
        label = label.item()
    if not isinstance(label, str | int | float | bool):
        raise TypeError(f"a model file cannot hold labels of type {type(label).__name__}")
    return label
