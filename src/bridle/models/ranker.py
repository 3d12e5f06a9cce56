"""A linear ranker as a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from bridle import _core
from bridle.matrix.door import as_matrix, view_rows
from bridle.objective.certificate import Certificate
from bridle.structured.ranking import ranking_loss_from
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RankingModel:
    """Weights, what they were trained for, and how well that is proven."""

    coef: Array
    loss: str
    C: float
    threshold: float
    certificate: Certificate
    fingerprint: str
    n_queries: int
    zero_based: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "ranking"

    def __post_init__(self) -> None:
        ranking_loss_from(self.loss)
        if self.coef.ndim != 1 or not np.isfinite(self.coef).all():
            raise ValueError("the weights must be a vector of finite numbers")

    @property
    def n_features(self) -> int:
        """How many features the model knows."""
        return len(self.coef)

    def resized(self, n_features: int) -> RankingModel:
        """The same model for data of another width: further features have weight 0."""
        coef = np.zeros(n_features)
        kept = self.coef[:n_features]
        coef[: len(kept)] = kept
        return replace(self, coef=coef)

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """The score of each document."""
        X = as_matrix(X)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the model has {self.n_features}")
        threads = _core.hardware_threads() if n_threads is None else n_threads
        out, rows = np.empty(X.shape[0]), view_rows(X, 0.0)
        _core.scan(rows, out, threads)
        _core.scores(rows, np.append(self.coef, 0.0), out, threads)
        return out

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        certificate = self.certificate
        fields = {
            "loss": self.loss, "C": self.C, "threshold": self.threshold,
            "primal": certificate.primal, "dual": certificate.dual, "source": certificate.source,
            "fingerprint": self.fingerprint, "n_queries": self.n_queries,
            "zero_based": self.zero_based, "info": self.info,
        }  # fmt: skip
        return fields, {"coef": self.coef}

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        source = fields["source"]
        if source not in ("solver", "repair", "dual-solver"):
            raise ValueError(f"unknown source of a certificate: {source!r:.40}")
        coef = arrays["coef"]
        if coef.dtype.kind != "f":
            raise ValueError(f"weights of dtype {coef.dtype}")
        return cls(
            coef=coef.astype(np.float64, copy=False), loss=str(fields["loss"]),
            C=float(fields["C"]), threshold=float(fields["threshold"]),
            certificate=Certificate(float(fields["primal"]), float(fields["dual"]), source),
            fingerprint=str(fields["fingerprint"]), n_queries=int(fields["n_queries"]),
            zero_based=bool(fields["zero_based"]), info=dict(fields["info"]),
        )  # fmt: skip
