"""Losses of plain classification, where all rows are one query and outputs are labels.

(Joachims, "A support vector method for multivariate performance measures", ICML 2005.)
"""

from __future__ import annotations

from typing import ClassVar

from bridle.structured.ranking.base import RankingLoss


class F1(RankingLoss):
    """1 - F1 of the relevant class."""

    name: ClassVar[str] = "f1"
    compiled: ClassVar[str | None] = "f1"
    classifies: ClassVar[bool] = True
    shifts: ClassVar[bool] = True


class BreakEven(RankingLoss):
    """1 - precision where as many rows are called relevant as there are."""

    name: ClassVar[str] = "prbep"
    compiled: ClassVar[str | None] = "prbep"
    classifies: ClassVar[bool] = True
