"""Structural SVMs: learn to predict sequences, trees and anything that has an oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.objective.registry import Registry, lazy_names

if TYPE_CHECKING:
    from bridle.data.trees import Tree as Tree
    from bridle.data.trees import read_trees as read_trees
    from bridle.errors import OracleError as OracleError
    from bridle.structured.chain import ChainProblem as ChainProblem
    from bridle.structured.checking import OracleReport as OracleReport
    from bridle.structured.checking import check_oracle as check_oracle
    from bridle.structured.grammar import Grammar as Grammar
    from bridle.structured.multilabel import MultilabelOracle as MultilabelOracle
    from bridle.structured.oracle import Oracle as Oracle
    from bridle.structured.problem import StructuredProblem as StructuredProblem
    from bridle.structured.ranking.problem import RankingProblem as RankingProblem
    from bridle.structured.tree import TreeOracle as TreeOracle
    from bridle.structured.trees import score_trees as score_trees
    from bridle.structured.trees import word_class as word_class

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
