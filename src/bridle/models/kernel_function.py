"""One function of a kernel, f(x) = sum_j c_j K(s_j, x) + b, and how well it is proven.

For regression f is the prediction; of the one-class machine its sign says who belongs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from bridle.files.container import count, string
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_matrix, is_sparse
from bridle.matrix.threads import check_threads
from bridle.models.header import Objective, certificates_from_json, certificates_to_json
from bridle.models.kernel import support_from, support_parts, support_resized, widened
from bridle.models.one_class import Belonging
from bridle.models.regression import Numbers
from bridle.models.structural import finite_weights
from bridle.objective.certificate import Certificate
from bridle.objective.kernels import Kernel
from bridle.objective.kernels.settling import check_storable, kernel_named
from bridle.rows.gram import expand
from numpy.typing import NDArray


@dataclass(frozen=True)
class _KernelFunction:
    """What both kinds hold. coefficients: of the support vectors, which are CSR or dense."""

    kernel: Kernel
    support: Any
    coefficients: Array
    intercept: float
    objective: Objective
    certificate: Certificate
    fingerprint: str
    n_rows: int
    zero_based: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str]
    needs_matrix: ClassVar[bool] = True
    widens: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_matrix(self.support)
        check_storable(self.kernel)
        finite_weights(self.coefficients)
        if self.coefficients.shape != (self.support.shape[0],):
            raise ValueError(f"coefficients of shape {self.coefficients.shape} do not fit")
        values = self.support.data if is_sparse(self.support) else self.support
        if not (np.isfinite(values).all() and np.isfinite(self.intercept)):
            raise ValueError("the support vectors or the intercept contain NaN or infinity")

    @property
    def n_features(self) -> int:
        """How many features the model knows."""
        return int(self.support.shape[1])

    def resized(self, n_features: int) -> Self:
        """The same model for data of another width: missing features are zeros."""
        return replace(self, support=support_resized(self.support, n_features))

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """f of each row."""
        X = widened(X, self.n_features)
        if not len(self.coefficients):
            return np.full(X.shape[0], self.intercept)
        threads = check_threads(n_threads)
        return self.intercept + expand(self.kernel, X, self.support, self.coefficients, threads)

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        fields: dict[str, Any] = {
            "kernel": {"name": self.kernel.name, **self.kernel.parameters},
            "n_features": self.n_features, "objective": self.objective.as_dict(),
            "certificates": certificates_to_json((self.certificate,)),
            "fingerprint": self.fingerprint, "n_rows": self.n_rows,
            "zero_based": self.zero_based, "info": self.info,
        }  # fmt: skip
        arrays = {"coefficients": self.coefficients, "intercept": np.array([self.intercept])}
        return fields, arrays | support_parts(self.support)

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        (certificate,) = certificates_from_json(fields["certificates"])
        (intercept,) = arrays["intercept"]
        return cls(
            kernel=kernel_named(str(fields["kernel"]["name"]), fields["kernel"]),
            support=support_from(arrays, int(fields["n_features"])),
            coefficients=np.ascontiguousarray(arrays["coefficients"], np.float64),
            intercept=float(intercept), objective=Objective.from_dict(fields["objective"]),
            certificate=certificate, fingerprint=string(fields["fingerprint"]),
            n_rows=count(fields["n_rows"]), zero_based=bool(fields["zero_based"]),
            info=dict(fields["info"]),
        )  # fmt: skip


@dataclass(frozen=True)
class KernelRegressionModel(Numbers, _KernelFunction):
    """f(x) predicts a number."""

    kind: ClassVar[str] = "kernel-regression"


@dataclass(frozen=True)
class OneClassModel(Belonging, _KernelFunction):
    """Who belongs: f(x) is not negative."""

    kind: ClassVar[str] = "one-class"
