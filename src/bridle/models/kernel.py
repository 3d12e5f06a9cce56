"""Kernel models in a file: support vectors, their coefficients, the kernel and the certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from bridle.errors import ModelError
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, check_matrix, is_sparse
from bridle.matrix.threads import check_threads
from bridle.models.deciding import OfClasses, class_scores, decide, n_functions, whole_votes
from bridle.models.header import (
    Objective,
    certificates_from_json,
    certificates_to_json,
    check_classes,
    check_info,
    classes_from_json,
    classes_to_json,
    csr_from_parts,
)
from bridle.models.scaling import divided, resized
from bridle.objective.certificate import Certificate, total
from bridle.objective.kernels import Kernel
from bridle.objective.kernels.settling import check_storable, kernel_named
from bridle.rows.gram import expand
from numpy.typing import NDArray


def support_parts(support: Any) -> dict[str, NDArray[Any]]:
    """Support vectors as the arrays of a file."""
    if not is_sparse(support):
        return {"support": np.ascontiguousarray(support)}
    return {
        "support_indptr": support.indptr.astype(np.int64),
        "support_indices": support.indices.astype(np.int64), "support_values": support.data,
    }  # fmt: skip


def support_from(arrays: Mapping[str, NDArray[Any]], n_features: int) -> Any:
    """The support vectors of a file."""
    if "support" not in arrays:
        return csr_from_parts(arrays, "support", n_features)
    support = arrays["support"]
    if support.shape[1] != n_features:
        raise ValueError(f"support vectors of {support.shape[1]} features, not {n_features}")
    return support


def support_resized(support: Any, n_features: int) -> Any:
    """Support vectors for data of another width: missing features are zeros."""
    n, width = support.shape
    if n_features < width:
        raise ValueError("a kernel model needs all of its features: widen the data instead")
    if is_sparse(support):
        support = support.copy()
        support.resize((n, n_features))
        return support
    wide = np.zeros((n, n_features), support.dtype)
    wide[:, :width] = support
    return wide


def widened(X: Any, n_features: int) -> Any:
    """Rows for a kernel model of this width: features that the data lack are zeros."""
    X = as_matrix(X)
    if X.shape[1] < n_features and is_sparse(X):
        X = X.copy()
        X.resize((X.shape[0], n_features))
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the model has {n_features}")
    return X


@dataclass(frozen=True)
class KernelModel(OfClasses):
    """Decision functions sum_j coefficients_kj K(s_j, x) + b_k over common support vectors s_j.

    One for two classes, else one for each class ("ovr") or each pair of classes ("ovo"), see
    `bridle.models.deciding`.
    """

    kernel: Kernel
    support: Any  # CSR or dense
    coefficients: Array
    intercept: Array
    classes: NDArray[Any]
    objective: Objective
    certificates: tuple[Certificate, ...]
    fingerprint: str
    n_rows: int
    zero_based: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    scale: Array | None = None  # see `bridle.models.scaling`; the support vectors are divided by it
    multi_class: str = "ovr"

    kind: ClassVar[str] = "kernel"
    needs_matrix: ClassVar[bool] = True  # whether it cuts and stacks rows to predict
    widens: ClassVar[bool] = True  # whether it takes data that have fewer features

    def __post_init__(self) -> None:
        check_classes(self.classes)
        check_matrix(self.support)
        check_storable(self.kernel)
        if self.multi_class not in ("ovr", "ovo"):
            raise ValueError(f"a kernel model has no multi_class {self.multi_class!r:.40}")
        functions = n_functions(self.multi_class, len(self.classes))
        if self.coefficients.shape != (functions, self.support.shape[0]):
            raise ValueError(f"coefficients of shape {self.coefficients.shape} do not fit")
        if self.scale is not None and self.scale.shape != (self.n_features,):
            raise ValueError(f"a scale of shape {self.scale.shape} does not fit")
        if self.scale is not None and not (
            self.scale.min(initial=1) > 0 and self.scale.max(initial=1) < np.inf
        ):
            raise ValueError("the scale of a feature must be positive and finite")
        if self.intercept.shape != (functions,) or len(self.certificates) != functions:
            raise ValueError("intercepts or certificates do not fit the classes")
        values = self.support.data if is_sparse(self.support) else self.support
        if not all(np.isfinite(a).all() for a in (values, self.coefficients, self.intercept)):
            raise ValueError("the support vectors or coefficients contain NaN or infinity")
        check_info(self.info, len(self.classes), functions)

    @classmethod
    def from_solutions(
        cls, X: Any, found: Any, kernel: Kernel, *, rows: Sequence[Any] | None = None, **rest: Any
    ) -> Self:
        """Of machines that were trained on rows of X: on all of them, or on `rows` of each."""
        X = as_matrix(X)
        expansions: list[Any] = [solution.w for solution in found.solutions]
        if any(w.centres is not None for w in expansions):
            if len(expansions) > 1:
                raise ValueError("merged support vectors cannot be kept for several classes")
            support, coefficients = expansions[0].centres, expansions[0].coefficients[None]
        else:
            table = np.zeros((len(expansions), X.shape[0]))
            for k, w in enumerate(expansions):
                table[k][slice(None) if rows is None else rows[k]] = w.coefficients
            used = np.flatnonzero(table.any(axis=0))
            support, coefficients = X[used], table[:, used]
        return cls(kernel, support, coefficients, found.intercept, **rest)

    @property
    def n_features(self) -> int:
        """How many features the model knows."""
        return int(self.support.shape[1])

    @property
    def certificate(self) -> Certificate:
        """Of the sum of all decision functions' problems."""
        return total(self.certificates)

    def resized(self, n_features: int) -> KernelModel:
        """The same model for data of another width: missing features are zeros."""
        support = support_resized(self.support, n_features)
        scale = None if self.scale is None else resized(self.scale, n_features)
        return replace(self, support=support, scale=scale)

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """A vector for two classes, else a column for each class: of pairs, their votes."""
        scores = self._function_scores(X, n_threads)
        return class_scores(scores, self.multi_class, len(self.classes))

    def predict_proba(self, X: Any, *, n_threads: int | None = None) -> Array:
        """The probability of each class, in the order of `classes`; each row sums to 1."""
        from bridle.models.calibration import calibrator_from, class_probabilities

        entries = self.info.get("calibrators")
        if entries is None:
            raise ModelError("the model has no probabilities: it was trained without them")
        calibrators = [calibrator_from(entry) for entry in entries]
        scores = self._function_scores(X, n_threads)
        return class_probabilities(calibrators, scores, len(self.classes), self.multi_class)

    def _function_scores(self, X: Any, n_threads: int | None) -> Array:
        threads = check_threads(n_threads)
        X = widened(X, self.n_features)
        if self.scale is not None:
            X = divided(X, self.scale)
        scores = np.tile(self.intercept[:, None], (1, X.shape[0]))
        if self.support.shape[0]:
            for k, c in enumerate(self.coefficients):
                scores[k] += expand(self.kernel, X, self.support, c, threads)
        return scores.T

    def predict(self, X: Any, *, n_threads: int | None = None) -> NDArray[Any]:
        """The class of every row."""
        return self.decide(self.decision_function(X, n_threads=n_threads))

    @property
    def breaks_ties(self) -> bool:
        """Whether scores decide between classes of as many votes, rather than their order."""
        return bool(self.info.get("break_ties", True))

    def decide(self, scores: Array) -> NDArray[Any]:
        """The classes that belong to decision values."""
        if not self.breaks_ties and scores.ndim > 1:
            scores = whole_votes(scores)
        labels: NDArray[Any] = self.classes[decide(scores)]
        return labels

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        fields = {
            "kernel": {"name": self.kernel.name, **self.kernel.parameters},
            "n_features": self.n_features,
            "classes": classes_to_json(self.classes),
            "objective": self.objective.as_dict(),
            "certificates": certificates_to_json(self.certificates),
            "fingerprint": self.fingerprint,
            "n_rows": self.n_rows,
            "zero_based": self.zero_based,
            "info": self.info,
            "multi_class": self.multi_class,
        }  # fmt: skip
        arrays = {"coefficients": self.coefficients, "intercept": self.intercept}
        if self.scale is not None:
            arrays["scale"] = self.scale
        return fields, arrays | support_parts(self.support)

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        support = support_from(arrays, int(fields["n_features"]))
        return cls(
            kernel=kernel_named(str(fields["kernel"]["name"]), fields["kernel"]),
            support=support,
            coefficients=np.ascontiguousarray(arrays["coefficients"], np.float64),
            intercept=np.ascontiguousarray(arrays["intercept"], np.float64),
            classes=classes_from_json(fields["classes"]),
            objective=Objective.from_dict(fields["objective"]),
            certificates=certificates_from_json(fields["certificates"]),
            fingerprint=str(fields["fingerprint"]),
            n_rows=int(fields["n_rows"]),
            zero_based=bool(fields["zero_based"]),
            info=dict(fields["info"]),
            scale=np.asarray(arrays["scale"], np.float64) if "scale" in arrays else None,
            multi_class=str(fields.get("multi_class", "ovr")),  # all there was in version 0.1.0
        )  # fmt: skip
