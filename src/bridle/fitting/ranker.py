"""Rankers from the documents of queries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridle.fitting.task import StructuralTask
from bridle.matrix.fingerprint import fingerprint
from bridle.models.ranker import RankingModel
from bridle.models.scaling import divided, largest_values
from bridle.structured.ranking import LABELLING_LOSSES, RankingLoss, ranking_loss_from
from bridle.structured.ranking.problem import RankingProblem
from numpy.typing import ArrayLike


def ranking_task(
    X: Any,
    y: ArrayLike,
    qid: ArrayLike | None,
    C: float,
    *,
    loss: str | RankingLoss = "map",
    threshold: float = 0.0,
    normalise: bool = True,
    query_weight: ArrayLike | None = None,
    scale: bool = False,
    zero_based: bool = False,
    n_threads: int | None = None,
) -> StructuralTask[RankingProblem, RankingModel]:
    """A linear ranker of the documents X of relevance y. normalise: see RankingLoss.

    scale: divide each feature by its largest absolute value; the model takes X as it is.
    """
    chosen = ranking_loss_from(loss)
    if not normalise:
        chosen = replace(chosen, normalise=False)
    if chosen.name in LABELLING_LOSSES:
        raise ValueError(
            f"the loss {chosen} is for classification, not for ranking: see MultivariateSVC"
        )
    name = fingerprint(X, y)
    sizes = largest_values(X) if scale else None
    problem = RankingProblem(
        X if sizes is None else divided(X, sizes), y, qid, C, loss=chosen, threshold=threshold,
        sample_weight=query_weight, n_threads=n_threads,
    )  # fmt: skip

    def model(w: Any, **about: Any) -> RankingModel:
        return RankingModel(
            w if sizes is None else w / sizes, loss=str(chosen), threshold=float(threshold),
            zero_based=zero_based, fingerprint=name, n_queries=problem.n_rows, **about,
        )  # fmt: skip

    return StructuralTask(problem, model)
