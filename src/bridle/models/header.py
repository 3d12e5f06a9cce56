"""What the headers of model files have in common: objective, certificates, classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from bridle.files.container import json_number, string
from bridle.matrix.csr import CsrArrays
from bridle.matrix.door import check_width
from bridle.matrix.stored import check_stored
from bridle.objective.certificate import Certificate
from bridle.objective.losses import Loss, loss_from
from numpy.typing import NDArray

CLASS_DTYPES = (
    "|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8",
)  # fmt: skip


@dataclass(frozen=True)
class Objective:
    """What was minimised: 1/2 |w|^2 + C sum_i weight_i loss(p_i).

    parameters: of the loss, where they are not its defaults or it has any. l1_ratio: where it is
    not 0, the penalty is l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2 instead.
    """

    loss: str = "hinge"
    C: float = 1.0
    bias: str = "none"
    bias_scale: float = 1.0
    weighted: bool = False  # by weights that the file does not hold; see info["class_weight"]
    parameters: dict[str, Any] = field(default_factory=dict)
    l1_ratio: float = 0.0

    @property
    def penalty(self) -> dict[str, Any]:
        """What `Task` calls it."""
        if self.l1_ratio in (0, 1):
            return {"penalty": "l1" if self.l1_ratio else "l2"}
        return {"penalty": "elasticnet", "l1_ratio": self.l1_ratio}

    @property
    def formula(self) -> Loss:
        """The loss itself; ValueError if nobody knows one of that name."""
        loss = loss_from(self.loss)
        return replace(loss, **self.parameters) if self.parameters else loss  # type: ignore[type-var]

    def as_dict(self) -> dict[str, Any]:
        """For the header; an infinite C becomes a word, which JSON has no number for."""
        fields = {
            "loss": self.loss, "C": json_number(self.C), "bias": self.bias,
            "bias_scale": self.bias_scale, "weighted": self.weighted,
        }  # fmt: skip
        further = {"parameters": self.parameters, "l1_ratio": self.l1_ratio}
        return fields | {name: value for name, value in further.items() if value}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """From the header."""
        return cls(
            loss=string(fields["loss"]), C=float(fields["C"]), bias=string(fields["bias"]),
            bias_scale=float(fields["bias_scale"]), weighted=bool(fields["weighted"]),
            parameters=dict(fields.get("parameters", {})),
            l1_ratio=float(fields.get("l1_ratio", 0.0)),
        )  # fmt: skip


def certificates_to_json(certificates: tuple[Certificate, ...]) -> list[dict[str, Any]]:
    """For the header."""
    return [_certificate_to_json(c) for c in certificates]


def _certificate_to_json(c: Certificate) -> dict[str, Any]:
    entry = {
        "primal": json_number(c.primal), "dual": json_number(c.dual), "source": c.source,
        "rounding": json_number(c.rounding),
    }  # fmt: skip
    return entry if c.assumption is None else entry | {"assumption": c.assumption}


def certificates_from_json(entries: Any) -> tuple[Certificate, ...]:
    """From the header."""
    return tuple(_certificate_from_json(entry) for entry in entries)


def _certificate_from_json(entry: Mapping[str, Any]) -> Certificate:
    return Certificate(
        float(entry["primal"]), float(entry["dual"]), entry["source"],
        float(entry.get("rounding", 0.0)), entry.get("assumption"),
    )  # fmt: skip


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


def check_classes(classes: NDArray[Any]) -> None:
    """ValueError unless there are two or more, and different ones."""
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"a model has at least two classes, got {len(classes)}")
    if len(np.unique(classes)) < len(classes):
        raise ValueError("the classes of a model must be different")


def check_info(info: Mapping[str, Any], n_classes: int, n_functions: int) -> None:
    """ValueError if what `info` has for each class or function is not for these."""
    weights, cost = info.get("class_weight"), info.get("cost")
    if weights is not None and np.shape(weights) != (n_classes,):
        raise ValueError(f"{len(weights)} class weights for {n_classes} classes")
    if cost is not None and np.shape(cost) != (n_classes, n_classes):
        raise ValueError(f"costs of shape {np.shape(cost)} for {n_classes} classes")
    entries = info.get("calibrators")
    if entries is not None:
        from bridle.models.calibration import calibrator_from

        if len(entries) != n_functions:
            raise ValueError(f"{len(entries)} calibrations for {n_functions} functions")
        for entry in entries:
            calibrator_from(entry)


def csr_from_parts(arrays: Mapping[str, NDArray[Any]], name: str, n_features: int) -> Any:
    """The CSR matrix of the arrays name_values, name_indices and name_indptr; see `check_matrix`.

    ValueError also if a row of that width were more than the machine can hold.
    """
    from scipy.sparse import csr_matrix

    values, indices, indptr = (arrays[f"{name}_{part}"] for part in ("values", "indices", "indptr"))
    shape = (len(indptr) - 1, n_features)
    check_stored(CsrArrays(values, indices, indptr, shape))
    check_width(n_features)
    return csr_matrix((values, indices, indptr), shape=shape)
