"""Sets of labels from rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.fitting.task import StructuralTask
from bridle.matrix.door import is_sparse
from bridle.matrix.threads import check_threads
from bridle.models.multilabel import MultilabelModel
from bridle.structured.multilabel import MultilabelOracle
from bridle.structured.problem import StructuredProblem
from numpy.typing import ArrayLike, NDArray


def multilabel_task(
    X: Any,
    Y: NDArray[Any],
    C: float,
    *,
    pairs: bool = True,
    intercept: bool = True,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
) -> StructuralTask[StructuredProblem, MultilabelModel]:
    """Labels of rows, and of which pairs occur together; Y: a column of 0 and 1 for each label."""
    n, d = X.shape
    threads = check_threads(n_threads)
    oracle = MultilabelOracle(d + intercept, Y.shape[1], pairs=pairs, n_threads=threads)
    truths = [tuple(row) for row in Y.astype(int).tolist()]
    inputs = _rows(X, constant=intercept)
    problem = StructuredProblem(oracle, inputs, truths, C, sample_weight=sample_weight)

    def model(w: NDArray[np.float64], **common: Any) -> MultilabelModel:
        table, together = oracle.weights(w)
        return MultilabelModel(
            np.ascontiguousarray(table[:d]),
            table[d].copy() if intercept else np.zeros(oracle.n_labels),
            None if together is None else together + together.T, n, **common,
        )  # fmt: skip

    return StructuralTask(problem, model)


def _rows(X: Any, *, constant: bool) -> list[Any]:
    """What MultilabelOracle takes: vectors or (indices, values), with a last entry of 1."""
    n, d = X.shape
    if not is_sparse(X):
        dense = np.asarray(X, np.float64)
        return list(np.hstack([dense, np.ones((n, 1))]) if constant else dense)
    rows = []
    for i in range(n):
        begin, end = X.indptr[i], X.indptr[i + 1]
        indices, values = X.indices[begin:end], X.data[begin:end]
        if constant:
            indices, values = np.append(indices, d), np.append(values, 1.0)
        rows.append((indices, values))
    return rows
