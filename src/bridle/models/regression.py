"""A linear function that predicts numbers, and how well it is proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from bridle.files.container import count, string
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix
from bridle.models.header import Objective, certificates_from_json, certificates_to_json
from bridle.models.scaling import resized
from bridle.models.structural import finite_weights
from bridle.objective import answers
from bridle.objective.certificate import Certificate
from bridle.rows.scoring import function_scores
from numpy.typing import NDArray


@dataclass(frozen=True)
class LinearFunction:
    """w.x + b, the certificate of its objective, and of which data: what both kinds have.

    fingerprint, n_rows: of the training data; "" and 0 if unknown. alpha: the dual variables that
    prove the certificate, if kept. info: anything else, as plain JSON.
    """

    coef: Array
    intercept: float
    objective: Objective
    certificate: Certificate
    fingerprint: str
    n_rows: int
    alpha: Array | None = None
    zero_based: bool = False
    scale: Array | None = None  # see `bridle.models.scaling`; coef is for the data as they are
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str]
    widens: ClassVar[bool] = False
    needs_matrix: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite_weights(self.coef)
        if not np.isfinite(self.intercept):
            raise ValueError("the intercept is no finite number")
        if self.alpha is not None and self.alpha.shape != (self.n_rows,):
            raise ValueError(f"alpha of shape {self.alpha.shape} for {self.n_rows} rows")
        if self.scale is not None:
            if self.scale.shape != self.coef.shape:
                raise ValueError(f"a scale of shape {self.scale.shape} does not fit")
            if not (np.isfinite(self.scale).all() and (self.scale > 0).all()):
                raise ValueError("the scale of a feature must be positive and finite")

    @property
    def n_features(self) -> int:
        """How many features the model knows."""
        return len(self.coef)

    def resized(self, n_features: int) -> Self:
        """The same model for data of another width: further features have weight 0."""
        coef = np.zeros(n_features)
        kept = self.coef[:n_features]
        coef[: len(kept)] = kept
        scale = None if self.scale is None else resized(self.scale, n_features)
        return replace(self, coef=coef, scale=scale)

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """w.x + b of each row."""
        X = as_matrix(X)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the model has {self.n_features}")
        scores = function_scores(X, self.coef[None], np.array([self.intercept]), n_threads)
        return np.ascontiguousarray(scores[:, 0])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_features} features, {self.objective}, certified "
            f"relative gap {self.certificate.relative_gap:.1e})"
        )

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """For `save_model`."""
        fields: dict[str, Any] = {
            "objective": self.objective.as_dict(),
            "certificates": certificates_to_json((self.certificate,)),
            "fingerprint": self.fingerprint, "n_rows": self.n_rows,
            "zero_based": self.zero_based, "info": self.info,
        }  # fmt: skip
        arrays = {"coef": self.coef, "intercept": np.array([self.intercept])}
        further = {"alpha": self.alpha, "scale": self.scale}
        return fields, arrays | {name: a for name, a in further.items() if a is not None}

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`."""
        (certificate,) = certificates_from_json(fields["certificates"])
        (intercept,) = arrays["intercept"]
        return cls(
            coef=finite_weights(arrays["coef"]), intercept=float(intercept),
            objective=Objective.from_dict(fields["objective"]), certificate=certificate,
            fingerprint=string(fields["fingerprint"]), n_rows=count(fields["n_rows"]),
            alpha=finite_weights(arrays["alpha"]) if "alpha" in arrays else None,
            scale=finite_weights(arrays["scale"]) if "scale" in arrays else None,
            zero_based=bool(fields["zero_based"]), info=dict(fields["info"]),
        )  # fmt: skip


class Numbers:
    """What models of numbers say of them, for those who need not know what a model is of."""

    objective: Objective
    names: ClassVar[None] = None  # of labels, which numbers are not

    def predict(self, X: Any, *, n_threads: int | None = None) -> Array:
        """The number of each row."""
        found: Array = self.decision_function(X, n_threads=n_threads)  # type: ignore[attr-defined]
        return found

    def decide(self, scores: Array) -> Array:
        """What belongs to these numbers: they do."""
        return scores

    def strange(self, y: Any) -> NDArray[Any]:
        """Labels that are none of the model's: any number is one."""
        return np.asarray(y)[:0]

    def measures(self, said: Array, truth: Any) -> answers.Measures:
        """How far off these predictions are."""
        return answers.of_numbers(said, truth, self.objective.formula)


@dataclass(frozen=True, repr=False)
class RegressionModel(Numbers, LinearFunction):
    """w.x + b predicts a number.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> model = bridle.Ridge(alpha=1e-3).fit(X, [0.0, 2.0, 4.0]).to_model()
    >>> type(model).__name__, model.predict([[3.0]]).round(1)
    ('RegressionModel', array([6.]))
    """

    kind: ClassVar[str] = "regression"
