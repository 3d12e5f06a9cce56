"""Structural SVMs: learn to predict sequences, trees and anything that has an oracle."""

from __future__ import annotations

import importlib
from typing import Any

from bridle.objective.registry import Registry

# Oracles by the names of their classes: a new one is one file and one line here. A model file finds
# it by this name; `as_json` and `from_json` are its parameters.
ORACLES = Registry(
    "oracle",
    {
        "MultilabelOracle": "bridle.structured.multilabel:MultilabelOracle",
        "TreeOracle": "bridle.structured.grammar:TreeOracle",
    },
)

_HOME = {
    "Oracle": "bridle.structured.oracle",
    "OracleError": "bridle.errors",
    "OracleReport": "bridle.structured.oracle",
    "check_oracle": "bridle.structured.oracle",
    "StructuredProblem": "bridle.structured.problem",
    "RankingProblem": "bridle.structured.ranking.problem",
    "ChainProblem": "bridle.structured.chain",
    "Grammar": "bridle.structured.grammar",
    "Tree": "bridle.data.trees",
    "read_trees": "bridle.data.trees",
    "score_trees": "bridle.structured.trees",
    "word_class": "bridle.structured.trees",
}

__all__ = [*_HOME, *ORACLES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in ORACLES:
        return ORACLES.load(name)
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bridle.structured' has no attribute {name!r}")
