"""The model of several labels at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from bridle import _core
from bridle.objective.certificate import Certificate
from bridle.structured.multilabel import MOST_LABELS
from bridle.structured.oracle import Array
from numpy.typing import NDArray


@dataclass(frozen=True)
class MultilabelModel:
    """Weights of labels and of pairs of labels."""

    coef: Array  # n_features x n_labels
    intercept: Array
    pairs: Array | None  # n_labels x n_labels, symmetric
    C: float
    certificate: Certificate
    n_rows: int
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "multilabel"

    def __post_init__(self) -> None:
        n_labels = len(self.intercept)
        shapes = [(self.coef, (len(self.coef), n_labels)), (self.intercept, (n_labels,))]
        if self.pairs is not None:
            shapes.append((self.pairs, (n_labels, n_labels)))
            if n_labels > MOST_LABELS:
                raise ValueError(f"{n_labels} labels are too many for pairs")
        for array, shape in shapes:
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"weights of shape {array.shape}, or not finite")

    def predict(self, X: Any, *, n_threads: int | None = None) -> NDArray[np.uint8]:
        """A row of 0 and 1 for every row of X."""
        from bridle.matrix.door import as_matrix

        X = as_matrix(X)
        if X.shape[1] != len(self.coef):
            raise ValueError(f"X has {X.shape[1]} features, but the model has {len(self.coef)}")
        scores = np.ascontiguousarray(X @ self.coef, np.float64) + self.intercept
        if self.pairs is None:
            return (scores > 0).astype(np.uint8)
        sets = np.empty(scores.shape, np.uint8)
        threads = _core.hardware_threads() if n_threads is None else n_threads
        _core.label_sets(scores, self.pairs, sets, np.empty(len(scores)), threads)
        return sets

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        from bridle.files.container import json_number
        from bridle.models.header import certificates_to_json

        fields = {
            "C": json_number(self.C), "n_rows": self.n_rows, "info": self.info,
            "certificates": certificates_to_json((self.certificate,)),
        }  # fmt: skip
        arrays = {"coef": self.coef, "intercept": self.intercept}
        return fields, arrays if self.pairs is None else arrays | {"pairs": self.pairs}

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        from bridle.models.header import certificates_from_json

        (certificate,) = certificates_from_json(fields["certificates"])
        doubles = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
        if doubles["coef"].ndim != 2 or doubles["intercept"].ndim != 1:
            raise ValueError("weights must be a matrix and a vector")
        return cls(
            doubles["coef"], doubles["intercept"], doubles.get("pairs"), float(fields["C"]),
            certificate, int(fields["n_rows"]), dict(fields["info"]),
        )  # fmt: skip
