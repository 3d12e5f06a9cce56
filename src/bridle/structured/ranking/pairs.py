"""Pairs of different grades: max(0, 1 - (s_i - s_j)) for each, with all grades.

(Joachims, "Optimizing search engines using clickthrough data", KDD 2002, and "Training linear SVMs
in linear time", KDD 2006.)
"""

from __future__ import annotations

from typing import ClassVar

from bridle.matrix.arrays import Array
from bridle.objective import metrics
from bridle.structured.ranking.base import RankingLoss
from numpy.typing import ArrayLike


class Pairs(RankingLoss):
    """The mean over the pairs of a query."""

    name: ClassVar[str] = "pairs"
    compiled: ClassVar[str | None] = "pairs"
    graded: ClassVar[bool] = True

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """The fraction of pairs in the right order."""
        return metrics.pair_accuracy(grades, scores, qid)


class PairsSum(Pairs):
    """Their sum: every pair counts alike, long queries count more."""

    name: ClassVar[str] = "pairs-sum"
    compiled: ClassVar[str | None] = "pairs-sum"

    def extent(self, n_documents: Array, n_relevant: Array) -> tuple[Array, Array]:  # noqa: D102
        pairs = 0.5 * n_documents * n_documents
        return pairs, 2.0 * pairs
