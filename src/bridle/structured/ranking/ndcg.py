"""1 - NDCG of the whole list or of the first k, gains 0 or 1, discount 1 / log2(1 + rank).

(Chakrabarti, Khanna, Sawant & Bhattacharyya, "Structured learning for non-smooth ranking losses",
KDD 2008.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bridle.matrix.arrays import Array
from bridle.objective import metrics
from bridle.structured.ranking.base import Cutoff, RankingLoss
from numpy.typing import ArrayLike


class Ndcg(RankingLoss):
    """1 - NDCG, relevant or not."""

    name: ClassVar[str] = "ndcg"
    compiled: ClassVar[str | None] = "ndcg"
    over_pairs: ClassVar[bool] = True

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """NDCG (relevant or not)."""
        return metrics.ndcg(grades, scores, qid, convention="burges")


@dataclass(frozen=True)
class NdcgAt(Cutoff):
    """1 - NDCG of the first k, relevant or not."""

    name: ClassVar[str] = "ndcg@k"
    compiled: ClassVar[str | None] = "ndcg-at"

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """NDCG of the first k (relevant or not)."""
        return metrics.ndcg(grades, scores, qid, k=self.k, convention="burges")
