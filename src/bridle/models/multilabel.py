"""The model of several labels at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix
from bridle.matrix.threads import check_threads
from bridle.models.structural import Arrays, Fields, StructuralModel, finite_weights
from bridle.structured.multilabel import MOST_LABELS, best_sets
from numpy.typing import NDArray


@dataclass(frozen=True)
class MultilabelModel(StructuralModel):
    """Weights of labels and of pairs of labels."""

    coef: Array  # n_features x n_labels
    intercept: Array
    pairs: Array | None  # n_labels x n_labels, symmetric
    n_rows: int

    kind: ClassVar[str] = "multilabel"

    def __post_init__(self) -> None:
        n_labels = len(self.intercept)
        finite_weights(self.coef, (len(self.coef), n_labels))
        finite_weights(self.intercept, (n_labels,))
        if self.pairs is not None:
            finite_weights(self.pairs, (n_labels, n_labels))
            if n_labels > MOST_LABELS:
                raise ValueError(f"{n_labels} labels are too many for pairs")

    def predict(self, X: Any, *, n_threads: int | None = None) -> NDArray[np.uint8]:
        """A row of 0 and 1 for every row of X."""
        X = as_matrix(X)
        if X.shape[1] != len(self.coef):
            raise ValueError(f"X has {X.shape[1]} features, but the model has {len(self.coef)}")
        scores = np.ascontiguousarray(X @ self.coef, np.float64) + self.intercept
        threads = check_threads(n_threads)
        return best_sets(scores, self.pairs, threads)

    def own_parts(self) -> tuple[Fields, Arrays]:  # noqa: D102
        arrays = {"coef": self.coef, "intercept": self.intercept}
        if self.pairs is not None:
            arrays["pairs"] = self.pairs
        return {"n_rows": self.n_rows}, arrays

    @classmethod
    def own_arguments(  # noqa: D102
        cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        if arrays["coef"].ndim != 2 or arrays["intercept"].ndim != 1:
            raise ValueError("weights must be a matrix and a vector")
        names = ("coef", "intercept", "pairs")
        doubles = {name: np.asarray(arrays[name], np.float64) for name in names if name in arrays}
        return {"pairs": None, "n_rows": int(fields["n_rows"]), **doubles}
