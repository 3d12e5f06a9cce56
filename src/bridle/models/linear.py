"""The linear model: weights and intercepts of decision functions, and how well they are proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from bridle.errors import ModelError
from bridle.files.container import count, string
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, check_matrix, check_width, is_sparse
from bridle.models.deciding import (
    OfClasses,
    check_multi_class,
    class_scores,
    decide,
    is_joint,
    n_functions,
    n_problems,
    winners,
)
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
from bridle.models.scaling import resized
from bridle.objective.certificate import Certificate, total
from bridle.rows.scoring import function_scores
from numpy.typing import NDArray


@dataclass(frozen=True)
class LinearModel(OfClasses):
    """Linear decision functions: one for two classes, else one for each class or pair of classes.

    multi_class: "ovr", each class against the rest: the largest score decides; "ovo", pairs (0, 1),
    (0, 2), ...: the votes decide; "crammer_singer", "multinomial": the largest score decides, and
    all functions are of one problem, with one certificate. See `bridle.models.deciding`.
    fingerprint, n_rows: of the training data; "" and 0 if unknown.
    alpha: the dual variables that prove the certificates, one row per decision function, if kept.
    last: of a stream whose weights are a mean over time, those that it goes on from; the constant
    feature's comes last.
    info: anything else worth keeping, as plain JSON: solver, seed, status, feature names, ...
    "class_weight" is part of the objective: one number for each class, see `costs_of`.

    Examples
    --------
    >>> bridle.LinearSVC().fit([[0.0], [1.0]], ["a", "b"]).save("two.model")
    >>> model = bridle.load_model("two.model")
    >>> type(model).__name__, model.predict([[2.0]])
    ('LinearModel', array(['b'], dtype='<U1'))
    """

    coef: Any  # dense, or a CSR matrix
    intercept: Array
    classes: NDArray[Any]
    objective: Objective
    certificates: tuple[Certificate, ...]
    fingerprint: str
    n_rows: int
    alpha: Array | None = None
    zero_based: bool = False  # how the training file counted its features
    info: dict[str, Any] = field(default_factory=dict)
    multi_class: str = "ovr"
    scale: Array | None = None  # see `bridle.models.scaling`; coef is for the data as they are
    last: Array | None = None

    kind: ClassVar[str] = "linear"
    needs_matrix: ClassVar[bool] = False
    widens: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_classes(self.classes)
        check_matrix(self.coef)
        check_multi_class(self.multi_class)
        functions = n_functions(self.multi_class, len(self.classes))
        problems = n_problems(self.multi_class, len(self.classes))
        shape = self.coef.shape
        _expect(self.coef.ndim == 2 and shape[0] == functions, "coef", shape)
        _expect(self.intercept.shape == (functions,), "intercept", self.intercept.shape)
        _expect(len(self.certificates) == problems, "certificates", len(self.certificates))
        if self.alpha is not None:
            joint = is_joint(self.multi_class, len(self.classes))
            _expect(not joint, "alpha", self.alpha.shape)
            _expect(self.alpha.shape == (functions, self.n_rows), "alpha", self.alpha.shape)
            if not np.isfinite(self.alpha).all():
                raise ValueError("alpha contains NaN or infinity")
        if self.scale is not None:
            _expect(self.scale.shape == (self.n_features,), "scale", self.scale.shape)
            if not (np.isfinite(self.scale).all() and (self.scale > 0).all()):
                raise ValueError("the scale of a feature must be positive and finite")
        values = [self.coef.data if is_sparse(self.coef) else self.coef, self.intercept]
        if self.last is not None:
            _expect(self.last.shape == (functions, self.n_features + 1), "last", self.last.shape)
            values.append(self.last)
        if not all(np.isfinite(some).all() for some in values):
            raise ValueError("the weights contain NaN or infinity")
        check_info(self.info, len(self.classes), functions)

    def dense(self) -> Self:
        """The same model with dense weights."""
        return replace(self, coef=self.coef.toarray()) if is_sparse(self.coef) else self

    @property
    def n_features(self) -> int:
        """How many features the model knows."""
        return int(self.coef.shape[1])

    @property
    def certificate(self) -> Certificate:
        """Of the sum of all decision functions' problems."""
        return total(self.certificates)

    def resized(self, n_features: int) -> LinearModel:
        """The same model for data of another width.

        A feature that no training row had has weight 0 in every optimum, so that further features
        change nothing; features that the data do not have contribute nothing.
        """
        if is_sparse(self.coef):
            coef = self.coef.copy()
            coef.resize((coef.shape[0], n_features))
        else:
            kept = self.coef[:, :n_features]
            coef = np.zeros((len(kept), n_features))
            coef[:, : kept.shape[1]] = kept
        scale = None if self.scale is None else resized(self.scale, n_features)
        return replace(self, coef=coef, scale=scale, last=None)

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """w.x + b for every row: a vector for two classes, else a column for each class.

        With "ovo" a class has as many points as it wins pairs, and a fraction that orders equals.
        """
        scores = function_scores(self._checked(X), self.coef, self.intercept, n_threads)
        return class_scores(scores, self.multi_class, len(self.classes))

    def _checked(self, X: Any) -> Any:
        X = as_matrix(X)
        if X.shape[1] != self.n_features:
            raise ValueError(
                f"X has {X.shape[1]} features, but the model has {self.n_features}; "
                f"see LinearModel.resized"
            )
        return X

    def predict(self, X: Any, *, n_threads: int | None = None) -> NDArray[Any]:
        """The class of every row."""
        X, n_classes = self._checked(X), len(self.classes)
        codes = winners(X, self.coef, self.intercept, self.multi_class, n_classes, n_threads)
        labels: NDArray[Any] = self.classes[codes]
        return labels

    def predict_proba(self, X: Any, *, n_threads: int | None = None) -> Array:
        """The probability of each class, in the order of `classes`; each row sums to 1."""
        from bridle.models.calibration import calibrator_from, class_probabilities

        entries = self.info.get("calibrators")
        if entries is None:
            raise ModelError("the model has no probabilities: it was trained without them")
        scores = function_scores(self._checked(X), self.coef, self.intercept, n_threads)
        calibrators = [calibrator_from(entry) for entry in entries]
        return class_probabilities(calibrators, scores, len(self.classes), self.multi_class)

    def __repr__(self) -> str:
        gap = self.certificate.relative_gap
        return (
            f"{type(self).__name__}({len(self.classes)} classes, {self.n_features} features, "
            f"multi_class={self.multi_class!r}, {self.objective}, "
            f"certified relative gap {gap:.1e})"
        )

    def decide(self, scores: Array) -> NDArray[Any]:
        """The classes that belong to decision values."""
        labels: NDArray[Any] = self.classes[decide(scores)]
        return labels

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        fields: dict[str, Any] = {
            "classes": classes_to_json(self.classes),
            "objective": self.objective.as_dict(),
            "certificates": certificates_to_json(self.certificates),
            "fingerprint": self.fingerprint,
            "n_rows": self.n_rows,
            "zero_based": self.zero_based,
            "info": self.info,
            "multi_class": self.multi_class,
        }
        arrays: dict[str, NDArray[Any]] = {"intercept": self.intercept}
        if is_sparse(self.coef):
            fields["n_features"] = self.n_features
            arrays |= {
                "coef_indptr": self.coef.indptr.astype(np.int64),
                "coef_indices": self.coef.indices.astype(np.int64),
                "coef_values": self.coef.data,
            }
        else:
            arrays["coef"] = self.coef
        further = {"alpha": self.alpha, "scale": self.scale, "last": self.last}
        return fields, arrays | {name: a for name, a in further.items() if a is not None}

    @classmethod
    def from_estimator(cls, estimator: Any) -> LinearModel:
        """What a fitted estimator's `to_model` says; `save_model` takes it as it is."""
        model: LinearModel = estimator.to_model()
        return model

    def to_estimator(self) -> Any:
        """A fitted LinearSVC with these weights, by its `from_model`."""
        import bridle

        return bridle.LinearSVC.from_model(self)

    def costs_of(self, codes: NDArray[np.intp], k: int) -> Array:
        """What rows of these classes weigh in problem k by the class weights in `info`, if any.

        Everywhere the weight of their class. Files of version 0.1.0 and LIBLINEAR's models do not
        say so: there a class weighs in its own problem, and counts 1 among the rest of the others'.
        """
        weights = self.info.get("class_weight")
        if weights is None:
            return np.ones(len(codes))
        per_class = np.asarray(weights, np.float64)
        own_only = "class_weight_in" not in self.info and self.multi_class == "ovr"
        if own_only and len(self.classes) > 2:
            per_class = np.where(np.arange(len(per_class)) == k, per_class, 1.0)
        return np.asarray(per_class[codes])

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        further = {
            name: _doubles(arrays[name]) for name in ("alpha", "scale", "last") if name in arrays
        }
        return cls(
            coef=_coef(fields, arrays),
            intercept=_doubles(arrays["intercept"]),
            classes=classes_from_json(fields["classes"]),
            objective=Objective.from_dict(fields["objective"]),
            certificates=certificates_from_json(fields["certificates"]),
            fingerprint=string(fields["fingerprint"]),
            n_rows=count(fields["n_rows"]),
            zero_based=bool(fields["zero_based"]),
            info=dict(fields["info"]),
            multi_class=string(fields.get("multi_class", "ovr")),
            **further,
        )


def _coef(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    if "coef" in arrays:
        return _doubles(arrays["coef"])
    coef = csr_from_parts(arrays, "coef", count(fields["n_features"])).astype(np.float64)
    check_width(coef.shape[0] * coef.shape[1] // 8)  # made dense to score with
    return coef


def _doubles(array: NDArray[Any]) -> Array:
    if array.dtype.kind != "f":
        raise ValueError(f"weights of dtype {array.dtype}")
    return array.astype(np.float64, copy=False)


def _expect(fits: bool, name: str, shape: Any) -> None:
    if not fits:
        raise ValueError(f"{name} of shape {shape} does not fit the other parts of the model")
