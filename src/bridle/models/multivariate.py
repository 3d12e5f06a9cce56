"""The model of a measure of all rows at once, such as F1: weights of two classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bridle.models.linear import LinearModel
from bridle.models.ranker import check_named
from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class MultivariateModel(LinearModel):
    """Predicts as a linear model; its objective's loss is one of `bridle.structured.ranking`."""

    kind: ClassVar[str] = "multivariate"

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:  # noqa: D102
        check_named(self.objective.loss)
        return super().parts()

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:  # noqa: D102
        model = super().from_parts(fields, arrays)
        check_named(model.objective.loss)
        return model
