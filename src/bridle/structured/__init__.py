"""Structural SVMs: learn to predict sequences, trees and anything that has an oracle."""

from __future__ import annotations

from bridle.objective.registry import Registry, lazy_names

# Oracles by the names of their classes: a new one is one file and one line here. A model file finds
# it by this name; `as_json` and `from_json` are its parameters.
ORACLES = Registry(
    "oracle",
    {
        "MultilabelOracle": "bridle.structured.multilabel:MultilabelOracle",
        "TreeOracle": "bridle.structured.tree:TreeOracle",
    },
)

_HOMES = {
    **ORACLES,
    "Oracle": "bridle.structured.oracle:Oracle",
    "OracleError": "bridle.errors:OracleError",
    "OracleReport": "bridle.structured.checking:OracleReport",
    "check_oracle": "bridle.structured.checking:check_oracle",
    "StructuredProblem": "bridle.structured.problem:StructuredProblem",
    "RankingProblem": "bridle.structured.ranking.problem:RankingProblem",
    "ChainProblem": "bridle.structured.chain:ChainProblem",
    "Grammar": "bridle.structured.grammar:Grammar",
    "Tree": "bridle.data.trees:Tree",
    "read_trees": "bridle.data.trees:read_trees",
    "score_trees": "bridle.structured.trees:score_trees",
    "word_class": "bridle.structured.trees:word_class",
}

__all__ = list(_HOMES)

__getattr__ = lazy_names(__name__, _HOMES)
