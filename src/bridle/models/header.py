"""What the headers of model files have in common: objective, certificates, classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from bridle.files.container import json_number, string
from bridle.objective.certificate import Certificate
from numpy.typing import NDArray

CLASS_DTYPES = (
    "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8",
)  # fmt: skip


@dataclass(frozen=True)
class Objective:
    """What was minimised: 1/2 |w|^2 + C sum_i weight_i loss(y_i (w.x_i + b))."""

    loss: str = "hinge"
    C: float = 1.0
    bias: str = "none"
    bias_scale: float = 1.0
    weighted: bool = False  # by weights that the file does not hold; see info["class_weight"]

    def as_dict(self) -> dict[str, Any]:
        """For the header; an infinite C becomes a word, which JSON has no number for."""
        return {
            "loss": self.loss, "C": json_number(self.C), "bias": self.bias,
            "bias_scale": self.bias_scale, "weighted": self.weighted,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """From the header."""
        return cls(
            loss=string(fields["loss"]), C=float(fields["C"]), bias=string(fields["bias"]),
            bias_scale=float(fields["bias_scale"]), weighted=bool(fields["weighted"]),
        )  # fmt: skip


def _source(value: Any) -> Any:
    if value not in ("solver", "repair", "dual-solver"):
        raise ValueError(f"unknown source of a certificate: {value!r:.40}")
    return value


def certificates_to_json(certificates: tuple[Certificate, ...]) -> list[dict[str, Any]]:
    """For the header."""
    return [
        {"primal": json_number(c.primal), "dual": json_number(c.dual), "source": c.source}
        for c in certificates
    ]


def certificates_from_json(entries: Any) -> tuple[Certificate, ...]:
    """From the header."""
    return tuple(
        Certificate(float(c["primal"]), float(c["dual"]), _source(c["source"])) for c in entries
    )


def classes_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    """For the header."""
    kind = classes.dtype.kind
    dtype = classes.dtype.newbyteorder("<").str
    if dtype in CLASS_DTYPES:
        return {"dtype": dtype, "values": classes.tolist()}
    values = classes.tolist()
    if kind in "UO" and all(isinstance(value, str) for value in values):
        return {"dtype": "object" if kind == "O" else "str", "values": values}
    raise TypeError(f"a model file cannot hold class labels of dtype {classes.dtype}")


def classes_from_json(entry: Mapping[str, Any]) -> NDArray[Any]:
    """From the header."""
    dtype, values = string(entry["dtype"]), entry["values"]
    if not isinstance(values, list):
        raise ValueError("classes must be a list")
    if dtype in ("str", "object"):
        return np.array([string(value) for value in values], dtype=dtype)
    if dtype not in CLASS_DTYPES or not all(isinstance(value, int | float) for value in values):
        raise ValueError(f"classes of dtype {dtype:.40}")
    return np.array(values, dtype=dtype)
