"""1 - average precision.

The exact answer interleaves relevant and other documents (Yue, Finley, Radlinski & Joachims,
"A support vector method for optimizing average precision", SIGIR 2007).
"""

from __future__ import annotations

from typing import ClassVar

from bridle.matrix.arrays import Array
from bridle.objective import metrics
from bridle.structured.ranking.base import RankingLoss
from numpy.typing import ArrayLike


class AveragePrecision(RankingLoss):
    """1 - average precision."""

    name: ClassVar[str] = "map"
    compiled: ClassVar[str | None] = "map"
    over_pairs: ClassVar[bool] = True

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """Average precision."""
        return metrics.average_precision(grades, scores, qid)
