"""What the models of structural problems have in common: C, a certificate, how they came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from bridle.files.container import json_number
from bridle.matrix.arrays import Array
from bridle.models.header import certificates_from_json, certificates_to_json
from bridle.objective.certificate import Certificate
from numpy.typing import NDArray

Fields = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class StructuralModel:
    """A subclass has its weights, and says how they are kept: `own_parts` and `own_arguments`."""

    C: float
    certificate: Certificate
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str]

    def own_parts(self) -> tuple[Fields, Arrays]:
        """JSON fields and arrays besides those of every model."""
        raise NotImplementedError

    @classmethod
    def own_arguments(
        cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        """From these, the constructor's arguments besides those of every model."""
        raise NotImplementedError

    def parts(self) -> tuple[Fields, Arrays]:
        """For `save_model`."""
        fields, arrays = self.own_parts()
        common = {
            "C": json_number(self.C), "info": self.info,
            "certificates": certificates_to_json((self.certificate,)),
        }  # fmt: skip
        return fields | common, arrays

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        # Chains and rankers once had their only certificate among the other fields.
        (certificate,) = certificates_from_json(fields.get("certificates", [fields]))
        return cls(
            **cls.own_arguments(fields, arrays), C=float(fields["C"]), certificate=certificate,
            info=dict(fields["info"]),
        )  # fmt: skip


def finite_weights(w: NDArray[Any], shape: tuple[int, ...] | None = None) -> Array:
    """Weights in float64; ValueError if they are no finite numbers, or of another shape."""
    if w.dtype.kind != "f":
        raise ValueError(f"weights of dtype {w.dtype}")
    if (w.ndim != 1 if shape is None else w.shape != shape) or not np.isfinite(w).all():
        expected = "a vector" if shape is None else f"of shape {shape}"
        raise ValueError(f"weights must be {expected} and finite, got shape {w.shape}")
    return w.astype(np.float64, copy=False)
