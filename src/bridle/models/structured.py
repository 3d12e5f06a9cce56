"""The weights of any oracle, as a model file.

The oracle is code: of one in `bridle.structured.ORACLES` the file holds the parameters, so that it
is made again; any other one stays with its owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from bridle.matrix.arrays import Array
from bridle.models.structural import Arrays, Fields, StructuralModel, finite_weights
from bridle.structured import ORACLES
from bridle.structured.oracle import Oracle
from numpy.typing import NDArray


@dataclass(frozen=True)
class StructuredModel(StructuralModel):
    """Weights, the oracle that they are for, and how well they are proven."""

    w: Array
    oracle_name: str
    rescaling: str
    oracle_parameters: dict[str, Any] | None = None  # of a registered one

    kind: ClassVar[str] = "structured"

    def __post_init__(self) -> None:
        finite_weights(self.w)
        if self.rescaling not in ("margin", "slack"):
            raise ValueError(f"rescaling must be 'margin' or 'slack', got {self.rescaling!r:.20}")

    @classmethod
    def for_oracle(cls, w: Array, oracle: Oracle, rescaling: str, **common: Any) -> StructuredModel:
        """Of weights that were learnt with this oracle."""
        name, parameters = type(oracle).__name__, None
        if name in ORACLES and ORACLES.load(name) is type(oracle):
            parameters = oracle.as_json()  # type: ignore[attr-defined]
        return cls(w, name, rescaling, parameters, **common)

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """For `load_model`: an oracle that can be made again is, to see that it can."""
        model = super().from_parts(fields, arrays)
        if model.oracle_parameters is not None and model.oracle_name in ORACLES:
            model.oracle()
        return model

    def oracle(self) -> Oracle:
        """The oracle again; ValueError if the file does not say what it is."""
        if self.oracle_parameters is None:
            raise ValueError(f"the oracle {self.oracle_name} is code that the model does not hold")
        made: Oracle = ORACLES.load(self.oracle_name).from_json(self.oracle_parameters)
        self.check(made)
        return made

    def check(self, oracle: Oracle) -> None:
        """ValueError if these cannot be the weights of that oracle."""
        if int(oracle.n_features) != len(self.w):
            raise ValueError(
                f"the model has {len(self.w)} weights, for the oracle {self.oracle_name}, but "
                f"{type(oracle).__name__} has {oracle.n_features} features"
            )

    def predict(self, X: Sequence[Any], oracle: Oracle | None = None) -> list[Any]:
        """The best output of every input, by the oracle that the model was trained with."""
        oracle = self.oracle() if oracle is None else oracle
        self.check(oracle)
        return [oracle.argmax(x, self.w) for x in X]

    def own_parts(self) -> tuple[Fields, Arrays]:  # noqa: D102
        fields: Fields = {"oracle": self.oracle_name, "rescaling": self.rescaling}
        if self.oracle_parameters is not None:
            fields["parameters"] = self.oracle_parameters
        return fields, {"w": self.w}

    @classmethod
    def own_arguments(  # noqa: D102
        cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        parameters = fields.get("parameters")
        return {
            "w": finite_weights(arrays["w"]), "oracle_name": str(fields["oracle"]),
            "rescaling": str(fields["rescaling"]),
            "oracle_parameters": None if parameters is None else dict(parameters),
        }  # fmt: skip
