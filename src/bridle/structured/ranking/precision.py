"""1 - (relevant among the first k) / min(k, number of relevant).

(The loss of Joachims, "A support vector method for multivariate performance measures", ICML 2005,
with the feature map of pairs.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective import metrics
from bridle.structured.ranking.base import Cutoff
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class PrecisionAt(Cutoff):
    """1 - (relevant among the first k) / min(k, number of relevant)."""

    name: ClassVar[str] = "precision@k"
    compiled: ClassVar[str | None] = "precision"

    def metric(self, grades: ArrayLike, scores: ArrayLike, qid: ArrayLike | None = None) -> Array:
        """Relevant among the first k over the most possible there."""
        found = metrics.precision_at_k(grades, scores, qid, k=self.k)
        best = metrics.precision_at_k(grades, grades, qid, k=self.k)
        return np.divide(found, best, out=np.zeros_like(found), where=best > 0)
