"""Structural SVMs: learn to predict sequences, trees and anything that has an oracle."""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Oracle": "bridle.structured.oracle",
    "OracleError": "bridle.errors",
    "OracleReport": "bridle.structured.oracle",
    "check_oracle": "bridle.structured.oracle",
    "StructuredProblem": "bridle.structured.problem",
    "RankingProblem": "bridle.structured.ranking",
    "ChainProblem": "bridle.structured.chain",
    "Grammar": "bridle.structured.grammar",
    "MultilabelOracle": "bridle.structured.multilabel",
    "TreeOracle": "bridle.structured.grammar",
    "Tree": "bridle.data.trees",
    "read_trees": "bridle.data.trees",
    "score_trees": "bridle.structured.trees",
    "word_class": "bridle.structured.trees",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bridle.structured' has no attribute {name!r}")
