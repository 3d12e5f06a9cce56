"""A linear ranker as a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix
from bridle.models.structural import Arrays, Fields, StructuralModel, finite_weights
from bridle.rows.scoring import function_scores
from bridle.structured.ranking import ranking_loss_from
from numpy.typing import NDArray


@dataclass(frozen=True)
class RankingModel(StructuralModel):
    """Weights, what they were trained for, and how well that is proven."""

    coef: Array
    loss: str
    threshold: float
    fingerprint: str
    n_queries: int
    zero_based: bool = False

    kind: ClassVar[str] = "ranking"
    widens: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite_weights(self.coef)

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
        return function_scores(X, self.coef[None], np.zeros(1), n_threads)[:, 0]

    def own_parts(self) -> tuple[Fields, Arrays]:
        """Whoever reads the file must know the loss by its name."""
        check_named(self.loss)
        names = ("loss", "threshold", "fingerprint", "n_queries", "zero_based")
        return {name: getattr(self, name) for name in names}, {"coef": self.coef}

    @classmethod
    def own_arguments(  # noqa: D102
        cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        return {
            "coef": finite_weights(arrays["coef"]), "loss": str(ranking_loss_from(fields["loss"])),
            "threshold": float(fields["threshold"]), "fingerprint": str(fields["fingerprint"]),
            "n_queries": int(fields["n_queries"]), "zero_based": bool(fields["zero_based"]),
        }  # fmt: skip


def check_named(loss: str) -> None:
    """ValueError if nobody finds a loss by this name."""
    try:
        ranking_loss_from(loss)
    except ValueError as error:
        raise ValueError(
            f"the loss {loss} cannot be kept in a file: register its class, "
            f"RANKING_LOSSES[{loss!r}] = ..."
        ) from error
