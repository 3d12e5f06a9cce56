"""scikit-learn estimators over bridle's problems; each is loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

# name -> module: a new estimator is one file and one line here.
_HOME = {
    "LinearSVC": "bridle.estimators.linear",
    "LinearSVCCV": "bridle.estimators.linear_cv",
    "OnlineSVC": "bridle.estimators.online",
    "SVC": "bridle.estimators.svc",
    "GapWarning": "bridle.estimators.base",
    "ChainSVM": "bridle.estimators.chain",
    "MulticlassSVC": "bridle.estimators.multiclass",
    "StructuredSVM": "bridle.estimators.structured",
    "TreeSVM": "bridle.estimators.tree",
    "MultilabelSVC": "bridle.estimators.multilabel",
    "RankSVM": "bridle.estimators.rank",
    "MultivariateSVC": "bridle.estimators.rank",
}

__all__ = [
    "SVC",
    "ChainSVM",
    "GapWarning",
    "LinearSVC",
    "LinearSVCCV",
    "MulticlassSVC",
    "MultilabelSVC",
    "MultivariateSVC",
    "OnlineSVC",
    "RankSVM",
    "StructuredSVM",
    "TreeSVM",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bridle.estimators' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
