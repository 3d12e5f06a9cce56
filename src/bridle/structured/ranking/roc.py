"""The fraction of (relevant, other) pairs in the wrong order.

(Joachims, "A support vector method for multivariate performance measures", ICML 2005.)
"""

from __future__ import annotations

from typing import ClassVar

from bridle.matrix.arrays import Array
from bridle.objective import metrics
from bridle.structured.ranking.base import RankingLoss
from numpy.typing import ArrayLike


class Roc(RankingLoss):
    """1 - ROC area."""

    name: ClassVar[str] = "roc"
    compiled: ClassVar[str | None] = "roc"
    over_pairs: ClassVar[bool] = True
    classifies: ClassVar[bool] = True

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """ROC area."""
        return metrics.roc_area(grades, scores, qid)
