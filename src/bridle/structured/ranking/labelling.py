"""Losses of plain classification, where all rows are one query and outputs are labels.

(Joachims, "A support vector method for multivariate performance measures", ICML 2005.)
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.structured.ranking.base import RankingLoss


class Labelling(RankingLoss):
    """A loss of labels: a wrong one adds its row, divided by the number of relevant rows."""

    def extent(self, n_documents: Array, n_relevant: Array) -> tuple[Array, Array]:  # noqa: D102
        return np.ones(len(n_documents)), n_documents / np.maximum(n_relevant, 1.0)


class F1(Labelling):
    """1 - F1 of the relevant class."""

    name: ClassVar[str] = "f1"
    compiled: ClassVar[str | None] = "f1"
    classifies: ClassVar[bool] = True
    shifts: ClassVar[bool] = True


class BreakEven(Labelling):
    """1 - precision where as many rows are called relevant as there are."""

    name: ClassVar[str] = "prbep"
    compiled: ClassVar[str | None] = "prbep"
    classifies: ClassVar[bool] = True
