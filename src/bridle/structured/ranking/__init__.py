"""Ranking: queries with documents, scored by s = w.x, and losses that metrics are made of.

A loss is a class, see `bridle.structured.ranking.base.RankingLoss`: one file, and one line here,
which `loss=`, `--loss` and model files find it by. One that stands elsewhere registers itself,
RANKING_LOSSES["mine"] = Mine, or is given as it is: loss=Mine(). A name that ends in @k is that of
a class with a cutoff, asked for as "name@10". docs/ranking.md has formulas, papers and costs.

    map           1 - average precision
    ndcg          1 - NDCG over the whole list, relevant or not
    ndcg@k        the same of the first k documents
    precision@k   1 - (relevant among the first k) / min(k, number of relevant)
    roc           fraction of (relevant, other) pairs in the wrong order
    pairs         mean over the pairs of different grades of max(0, 1 - (s_i - s_j)): RankSVM
    pairs-sum     their sum instead: every pair counts alike, long queries count more
    f1, prbep     for plain classification, where the data are one query: see MultivariateSVC
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.objective.registry import Registry, lazy_names

if TYPE_CHECKING:
    from bridle.structured.ranking.base import RankingLoss as RankingLoss
    from bridle.structured.ranking.base import ranking_loss_from as ranking_loss_from
    from bridle.structured.ranking.problem import RankingProblem as RankingProblem

RANKING_LOSSES = Registry(
    "ranking loss",
    {
        "map": "bridle.structured.ranking.average_precision:AveragePrecision",
        "ndcg": "bridle.structured.ranking.ndcg:Ndcg",
        "ndcg@k": "bridle.structured.ranking.ndcg:NdcgAt",
        "precision@k": "bridle.structured.ranking.precision:PrecisionAt",
        "roc": "bridle.structured.ranking.roc:Roc",
        "pairs": "bridle.structured.ranking.pairs:Pairs",
        "pairs-sum": "bridle.structured.ranking.pairs:PairsSum",
    },
)
# Of labels rather than rankings: only MultivariateSVC has a use for them.
LABELLING_LOSSES = Registry(
    "loss of classification",
    {
        "f1": "bridle.structured.ranking.labelling:F1",
        "prbep": "bridle.structured.ranking.labelling:BreakEven",
    },
)

__getattr__ = lazy_names(
    __name__,
    {
        "RankingLoss": "bridle.structured.ranking.base:RankingLoss",
        "ranking_loss_from": "bridle.structured.ranking.base:ranking_loss_from",
        "RankingProblem": "bridle.structured.ranking.problem:RankingProblem",
    },
)
