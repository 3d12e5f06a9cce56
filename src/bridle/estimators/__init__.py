"""scikit-learn estimators over bridle's problems; each is loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridle.estimators.base import GapWarning as GapWarning
    from bridle.estimators.chain import ChainSVM as ChainSVM
    from bridle.estimators.kernel_function import SVR as SVR
    from bridle.estimators.kernel_function import OneClassSVM as OneClassSVM
    from bridle.estimators.linear import LinearSVC as LinearSVC
    from bridle.estimators.linear_cv import LinearSVCCV as LinearSVCCV
    from bridle.estimators.multiclass import MulticlassSVC as MulticlassSVC
    from bridle.estimators.multilabel import MultilabelSVC as MultilabelSVC
    from bridle.estimators.one_class import LinearOneClassSVM as LinearOneClassSVM
    from bridle.estimators.online import OnlineSVC as OnlineSVC
    from bridle.estimators.rank import MultivariateSVC as MultivariateSVC
    from bridle.estimators.rank import RankSVM as RankSVM
    from bridle.estimators.structured import StructuredSVM as StructuredSVM
    from bridle.estimators.svc import SVC as SVC
    from bridle.estimators.tree import TreeSVM as TreeSVM

# name -> module: a new estimator is one file, one line here and one above, for type checkers.
_HOME = {
    "LinearSVC": "bridle.estimators.linear",
    "LinearSVCCV": "bridle.estimators.linear_cv",
    "LogisticRegression": "bridle.estimators.logistic",
    "LogisticRegressionCV": "bridle.estimators.logistic_cv",
    "LinearSVR": "bridle.estimators.regression",
    "QuantileRegressor": "bridle.estimators.regression",
    "Ridge": "bridle.estimators.regression",
    "OnlineSVC": "bridle.estimators.online",
    "LinearOneClassSVM": "bridle.estimators.one_class",
    "SVC": "bridle.estimators.svc",
    "SVR": "bridle.estimators.kernel_function",
    "OneClassSVM": "bridle.estimators.kernel_function",
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
    "SVR",
    "ChainSVM",
    "GapWarning",
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVCCV",
    "LinearSVR",
    "LogisticRegression",
    "LogisticRegressionCV",
    "MulticlassSVC",
    "MultilabelSVC",
    "MultivariateSVC",
    "OneClassSVM",
    "OnlineSVC",
    "QuantileRegressor",
    "RankSVM",
    "Ridge",
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
