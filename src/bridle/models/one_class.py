"""A half-space that holds most rows, and how well it is proven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.models.regression import LinearFunction
from bridle.objective import answers
from numpy.typing import NDArray

# Rows whose value is 0 but for this part of rho are on the boundary, and belong.
BOUNDARY = 1e-8


def above_boundary(values: Array, intercept: float) -> Array:
    """f of a one-class machine, 0 on the boundary: the signs there are not those of rounding."""
    return np.where(np.abs(values) <= BOUNDARY * abs(intercept), 0.0, values)


class Belonging:
    """What models of one class say of rows, for those who need not know what a model is of."""

    intercept: float
    names: ClassVar[dict[int, str]] = {1: "1", -1: "-1"}

    def decision_function(self, X: Any, *, n_threads: int | None = None) -> Array:
        """w.x + b of each row, 0 on the boundary."""
        return above_boundary(
            super().decision_function(X, n_threads=n_threads),  # type: ignore[misc]
            self.intercept,
        )

    def predict(self, X: Any, *, n_threads: int | None = None) -> NDArray[np.intp]:
        """+1 of rows that belong, -1 of others."""
        return self.decide(self.decision_function(X, n_threads=n_threads))

    def decide(self, scores: Array) -> NDArray[np.intp]:
        """The answers that belong to these values."""
        return np.where(scores >= 0, 1, -1).astype(np.intp)

    def strange(self, y: Any) -> NDArray[Any]:
        """Labels that are none of the model's: none is looked at."""
        return np.asarray(y)[:0]

    def measures(self, said: Array, truth: Any) -> answers.Measures:
        """How many rows are outside, and how many of these answers are wrong."""
        return answers.of_one_class(said, truth)


@dataclass(frozen=True, repr=False)
class LinearOneClassModel(Belonging, LinearFunction):
    """Who belongs: w.x + b is not negative.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 3.0
    >>> bridle.LinearOneClassSVM(nu=0.1).fit(X).save("one.model")
    >>> bridle.load_model("one.model").predict([[3.0, 3.0], [-3.0, 0.0]])
    array([ 1, -1])
    """

    kind: ClassVar[str] = "linear-one-class"
