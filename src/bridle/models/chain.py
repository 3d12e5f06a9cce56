"""Chains of labels: what ChainSVM and the command line leave behind. Needs no scikit-learn.

Beside the weights of features and of transitions there are, on request, one weight for each label
at the start of a sequence, one at its end, and one everywhere (the intercept): rows of the
emissions after those of the features, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from bridle.data.sequence_features import (
    Encoded,
    Features,
    NamedFeatures,
    NumberedFeatures,
    with_boundaries,
)
from bridle.matrix.arrays import Array
from bridle.matrix.threads import check_threads
from bridle.models.structural import Arrays, Fields, StructuralModel, finite_weights
from bridle.structured.chain import Chains
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChainExtras:
    """Which weights there are beside those of the features."""

    transitions: bool = True
    boundaries: bool = True
    intercept: bool = True

    @property
    def n_rows(self) -> int:
        """How many rows of the emissions follow those of the features."""
        return 2 * self.boundaries + self.intercept

    def matrix(self, encoded: Encoded) -> Any:
        """The rows, with the columns that mark the first and the last of each sequence."""
        return with_boundaries(encoded) if self.boundaries else encoded.X

    @property
    def bias(self) -> float:
        """The value of the constant feature."""
        return 1.0 if self.intercept else 0.0


@dataclass(frozen=True)
class ChainModel(StructuralModel):
    """A trained chain: weights, labels, and where features of what name are."""

    w: Array
    classes: list[Any]
    features: Features
    extras: ChainExtras
    n_rows: int

    kind: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        K, n = len(self.classes), self.features.n_features
        if K < 1 or len(set(self.classes)) < K:
            raise ValueError("a chain needs labels, and different ones")
        finite_weights(self.w, ((n + self.extras.n_rows + self.extras.transitions * K) * K,))

    @property
    def emissions(self) -> Array:
        """A row of weights for each feature, a column for each label."""
        n, K = self.features.n_features, len(self.classes)
        return self.w[: n * K].reshape(n, K)

    @property
    def extra_weights(self) -> Array:
        """The rows at the start, at the end and everywhere, as far as there are any."""
        n, m, K = self.features.n_features, self.extras.n_rows, len(self.classes)
        return self.w[n * K : (n + m) * K].reshape(m, K)

    @property
    def transition_weights(self) -> Array:
        """Weights of [previous label, label]; zeros without transitions."""
        K = len(self.classes)
        if not self.extras.transitions:
            return np.zeros((K, K))
        return self.w[-K * K :].reshape(K, K)

    def predict(self, sequences: Sequence[Any], *, n_threads: int | None = None) -> list[list[Any]]:
        """The best labels of every sequence."""
        encoded, chains = self._chains(sequences, n_threads)
        paths = chains.argmax(self.w, augmented=False)[0].tolist() if chains else []
        labels = [self.classes[k] for k in paths]
        return [labels[a:b] for a, b in pairwise(encoded.offsets.tolist())]

    def max_marginals(
        self, sequences: Sequence[Any], *, n_threads: int | None = None
    ) -> list[Array]:
        """Of every sequence, the score of the best labels that have label k at position t."""
        return self._tables(sequences, Chains.max_marginals, n_threads)

    def marginals(self, sequences: Sequence[Any], *, n_threads: int | None = None) -> list[Array]:
        """Of every sequence, the weight of label k at position t where labels count exp(score)."""
        return self._tables(sequences, Chains.marginals, n_threads)

    def _tables(
        self, sequences: Sequence[Any], of: Callable[[Chains, Array], Array], n_threads: int | None
    ) -> list[Array]:
        encoded, chains = self._chains(sequences, n_threads)
        table = of(chains, self.w) if chains else np.empty((0, len(self.classes)))
        return [table[a:b] for a, b in pairwise(encoded.offsets.tolist())]

    def _chains(
        self, sequences: Sequence[Any], n_threads: int | None
    ) -> tuple[Encoded, Chains | None]:
        """The sequences as rows; no chains if there are no rows."""
        if len(sequences) == 0:
            return Encoded(None, np.zeros(1, np.int64)), None
        encoded = self.features.encode(sequences, grow=False)
        if encoded.X.shape[0] == 0:
            return encoded, None
        chains = Chains(
            self.extras.matrix(encoded), encoded.offsets, len(self.classes),
            transitions=self.extras.transitions, bias=self.extras.bias,
            n_threads=check_threads(n_threads),
        )  # fmt: skip
        return encoded, chains

    def own_parts(self) -> tuple[Fields, Arrays]:
        """Only features that have weight are kept."""
        emissions = self.emissions
        fields: Fields = {
            "classes": [_plain_label(label) for label in self.classes], "n_rows": self.n_rows,
            **asdict(self.extras),
        }  # fmt: skip
        if isinstance(self.features, NamedFeatures):
            used = np.flatnonzero(emissions.any(axis=1))
            names = list(self.features.vocabulary)
            fields["names"] = [names[k] for k in used.tolist()]
            emissions = emissions[used]
        else:
            fields["n_features"] = self.features.n_features
        arrays = {
            "emissions": emissions, "extras": self.extra_weights,
            "transitions": self.transition_weights,
        }  # fmt: skip
        return fields, arrays

    @classmethod
    def own_arguments(  # noqa: D102
        cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> dict[str, Any]:
        emissions = np.asarray(arrays["emissions"], np.float64)
        classes = list(fields["classes"])
        features: Features
        if "names" in fields:
            names = fields["names"]
            if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
                raise ValueError("the names of features must be different strings")
            features = NamedFeatures({name: k for k, name in enumerate(names)})
        else:
            features = NumberedFeatures(int(fields["n_features"]))
        if emissions.shape != (features.n_features, len(classes)):
            raise ValueError(f"emissions of shape {emissions.shape}")
        extras = ChainExtras(
            *(bool(fields[name]) for name in ("transitions", "boundaries", "intercept"))
        )
        shapes = {"extras": (extras.n_rows, len(classes)), "transitions": (len(classes),) * 2}
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} of shape {arrays[name].shape}, not {shape}")
        parts = ("extras", "transitions") if extras.transitions else ("extras",)
        w = np.concatenate(
            [emissions.ravel(), *(np.asarray(arrays[part], np.float64).ravel() for part in parts)]
        )
        return {
            "w": w, "classes": classes, "features": features, "extras": extras,
            "n_rows": int(fields["n_rows"]),
        }  # fmt: skip


def _plain_label(label: Any) -> Any:
    if isinstance(label, np.generic):
        label = label.item()
    if not isinstance(label, str | int | float | bool):
        raise TypeError(f"a model file cannot hold labels of type {type(label).__name__}")
    return label
