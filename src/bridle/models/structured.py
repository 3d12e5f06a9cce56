"""The weights of any oracle, as a model file; the oracle is code and stays with its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from bridle.objective.certificate import Certificate
from bridle.structured.oracle import Array, Oracle
from numpy.typing import NDArray


@dataclass(frozen=True)
class StructuredModel:
    """Weights, the name of the oracle that they are for, and how well they are proven."""

    w: Array
    oracle_name: str
    C: float
    rescaling: str
    certificate: Certificate
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "structured"

    def __post_init__(self) -> None:
        if self.w.ndim != 1 or not np.isfinite(self.w).all():
            raise ValueError("the weights must be a vector of finite numbers")
        if self.rescaling not in ("margin", "slack"):
            raise ValueError(f"rescaling must be 'margin' or 'slack', got {self.rescaling!r:.20}")

    def check(self, oracle: Oracle) -> None:
        """ValueError if these cannot be the weights of that oracle."""
        if int(oracle.n_features) != len(self.w):
            raise ValueError(
                f"the model has {len(self.w)} weights, for the oracle {self.oracle_name}, but "
                f"{type(oracle).__name__} has {oracle.n_features} features"
            )

    def predict(self, X: Sequence[Any], oracle: Oracle) -> list[Any]:
        """The best output of every input, by the oracle that the model was trained with."""
        self.check(oracle)
        return [oracle.argmax(x, self.w) for x in X]

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        from bridle.files.container import json_number
        from bridle.models.header import certificates_to_json

        fields = {
            "oracle": self.oracle_name, "C": json_number(self.C), "rescaling": self.rescaling,
            "certificates": certificates_to_json((self.certificate,)), "info": self.info,
        }  # fmt: skip
        return fields, {"w": self.w}

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        from bridle.models.header import certificates_from_json

        if arrays["w"].dtype.kind != "f":
            raise ValueError(f"weights of dtype {arrays['w'].dtype}")
        (certificate,) = certificates_from_json(fields["certificates"])
        return cls(
            arrays["w"].astype(np.float64), str(fields["oracle"]), float(fields["C"]),
            str(fields["rescaling"]), certificate, dict(fields["info"]),
        )  # fmt: skip
