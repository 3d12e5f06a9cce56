"""Sequences as rows of one matrix: features by name or by number, labels as codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.door import check_matrix, is_sparse
from numpy.typing import NDArray


@dataclass(frozen=True)
class Encoded:
    """Sequences as rows of one matrix."""

    X: Any
    offsets: NDArray[np.int64]


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

        offsets, indptr, columns, values = _core.text.intern_features(
            sequences, self.vocabulary, grow
        )
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
            check_matrix(x)
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
