"""Which features decide: the largest weights of a linear model, by name, class by class.

A feature moves the score w.x + b by its weight times its value: weights tell features apart only
where these are on a common scale.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.matrix.door import canonical, is_sparse
from bridle.models.deciding import pairs
from numpy.typing import NDArray

Entry = tuple[str, float]


@dataclass(frozen=True)
class Side:
    """One decision function: what speaks for its class and what against, the largest first."""

    label: str  # the class for which the function is positive
    against: str  # another class, or "the rest"
    intercept: float
    towards: tuple[Entry, ...]
    away: tuple[Entry, ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The features that decide; printed as a table, and as one in a notebook.

    Examples
    --------
    >>> model = bridle.LinearSVC().fit([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"])
    >>> print(bridle.explain(model, ["barks", "purrs"]))
    2 of 2 features have a weight
    ...
      purrs  +0.6667
    ...
    """

    sides: tuple[Side, ...]
    n_features: int
    n_used: int  # features with a weight in any function

    def __repr__(self) -> str:
        lines = [f"{self.n_used} of {self.n_features} features have a weight"]
        for side in self.sides:
            lines += ["", f"{side.label} against {side.against} (intercept {side.intercept:+.4g})"]
            width = max((len(name) for name, _ in side.towards + side.away), default=0)
            lines += [f"  {name:<{width}}  {weight:+.4g}" for name, weight in side.towards]
            if side.towards and side.away:
                lines.append("  ...")
            lines += [f"  {name:<{width}}  {weight:+.4g}" for name, weight in reversed(side.away)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<p>{self.n_used} of {self.n_features} features have a weight</p>"]
        for side in self.sides:
            title = html.escape(f"{side.label} against {side.against}")
            left = "style='text-align:left'"
            rows = "".join(
                f"<tr><td {left}>{html.escape(name)}</td><td>{weight:+.4g}</td></tr>"
                for name, weight in (*side.towards, *reversed(side.away))
            )
            parts.append(
                "<table style='display:inline-table;vertical-align:top;margin-right:2em'>"
                f"<caption>{title}</caption>{rows}</table>"
            )
        return "".join(parts)


def explain(model: Any, feature_names: Sequence[Any] | None = None, n: int = 10) -> Explanation:
    """The n features with the largest weights for each class, and the n with the smallest.

    model: a fitted linear estimator, a pipeline or a search that ends in one, or a LinearModel; of
    a ChainSVM, the weights of the features of a position for each label, transitions aside.
    feature_names: one for each feature of the linear model; without them, what the pipeline calls
    them, or the data frame that it was fitted on, or numbers.

    Examples
    --------
    >>> model = bridle.LinearSVC().fit([[1.0, 0.0], [0.0, 1.0]], ["cat", "dog"])
    >>> found = bridle.explain(model, ["barks", "purrs"])
    >>> found.sides[0].label, found.sides[0].towards[0][0]
    ('dog', 'purrs')
    """
    model, feature_names = _unwrapped(model, feature_names)
    coef, intercept, classes, multi_class = _parts(model)
    names = _names(model, feature_names, coef.shape[1])
    classes = classes if len(classes) else np.array(["score"])
    sides, used = [], np.zeros(coef.shape[1], bool)
    for k in range(coef.shape[0]):
        w = _entries(coef, k)
        used[w[0]] = True
        sides.append(_side(*w, float(intercept[k]), *_labels(classes, multi_class, k), names, n))
    return Explanation(tuple(sides), coef.shape[1], int(used.sum()))


def _entries(coef: Any, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The features that have a weight in function k, in order, and their weights."""
    if is_sparse(coef):  # of which there may be far fewer than features
        row = canonical(coef[[k]])
        return row.indices[row.data != 0], row.data[row.data != 0]
    w = np.asarray(coef[k])
    return np.flatnonzero(w), w[w != 0]


def _side(
    features: NDArray[Any], w: NDArray[Any], b: float, label: str, against: str,
    names: Callable[[int], str], n: int,
) -> Side:  # fmt: skip
    order = np.argsort(-w, kind="stable")  # equal weights in the order of the features
    top = [j for j in order[:n] if w[j] > 0]
    bottom = [j for j in order[::-1][:n] if w[j] < 0]
    entries = [
        tuple((names(int(features[j])), float(w[j])) for j in chosen) for chosen in (top, bottom)
    ]
    return Side(label, against, b, *entries)


def _labels(classes: NDArray[Any], multi_class: str, k: int) -> tuple[str, str]:
    if len(classes) == 1:
        return str(classes[0]), "nothing"
    if multi_class != "chain" and (len(classes) == 2 or multi_class == "ovo"):
        i, j = pairs(len(classes))[k]
        return str(classes[i]), str(classes[j])
    return str(classes[k]), "the rest"


def _unwrapped(model: Any, names: Sequence[Any] | None) -> tuple[Any, Sequence[Any] | None]:
    """The linear model inside a search or a pipeline, and what the steps before call its inputs."""
    model = getattr(model, "best_estimator_", model)
    if not hasattr(model, "steps"):
        return model, names
    if names is None and len(model.steps) > 1:
        try:
            names = model[:-1].get_feature_names_out()
        except (AttributeError, ValueError):  # a step that has no names to give
            names = None
    return model[-1], names


def _parts(model: Any) -> tuple[Any, NDArray[Any], NDArray[Any], str]:
    if hasattr(model, "coef"):  # LinearModel
        return model.coef, model.intercept, model.classes, model.multi_class
    if not hasattr(model, "coef_"):
        raise TypeError(
            f"{type(model).__name__} has no weights of features: it is not fitted or has a kernel"
        )
    coef = model.coef_
    if hasattr(model, "transitions_"):  # ChainSVM, with a column for each label
        return coef.T, model.intercept_, model.classes_, "chain"
    if coef.ndim == 1:  # RankSVM, MultivariateSVC
        coef = coef[None]
    intercept = np.broadcast_to(getattr(model, "intercept_", 0.0), coef.shape[0])
    classes = getattr(model, "classes_", np.empty(0))
    return coef, intercept, classes, getattr(model, "multi_class", "ovr")


def _names(model: Any, given: Sequence[Any] | None, n_features: int) -> Callable[[int], str]:
    if given is None:
        given = getattr(model, "feature_names_in_", None)
    if given is None:
        given = getattr(model, "info", {}).get("feature_names")
    if given is None and getattr(model, "vocabulary_", None) is not None:  # of a ChainSVM, in order
        given = list(model.vocabulary_)
    if given is None:
        return "feature {}".format
    if len(given) != n_features:
        raise ValueError(f"there are {n_features} features but {len(given)} names")
    called = given
    return lambda j: str(called[j])
