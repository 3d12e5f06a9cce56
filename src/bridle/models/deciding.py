"""How several classes decide.

    "ovr"             one machine for each class against the rest; the largest score decides
    "ovo"             one machine for each pair of classes; the most votes decide
    "crammer_singer"  one problem for all classes, with one weight vector each; the largest decides
    "multinomial"     the same, with the logistic loss: the softmax of the scores are probabilities

Two classes are one decision function whatever the way, positive for the second class.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Literal

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.objective import answers
from bridle.rows.scoring import best_function, score_blocks
from numpy.typing import NDArray

# So many scores are held at once while predicting.
SCORES = 2**20

MultiClass = Literal["ovr", "ovo", "crammer_singer", "multinomial"]
MULTI_CLASS = ("ovr", "ovo", "crammer_singer", "multinomial")


class OfClasses:
    """What models of classes say of labels, for those who need not know what a model is of."""

    classes: NDArray[Any]

    @property
    def names(self) -> dict[Any, str]:
        """The classes as people write them: 1 rather than 1.0."""
        return {label: plain(label) for label in self.classes.tolist()}

    def strange(self, y: Any) -> NDArray[Any]:
        """Labels that are none of the model's."""
        labels = np.asarray(y)
        return labels[~np.isin(labels, self.classes)]

    def measures(self, said: Any, truth: Any) -> answers.Measures:
        """How right these labels are; nothing where no label of the truth is the model's."""
        if not np.isin(truth, self.classes).any():
            return {}
        return answers.of_labels(said, truth)


def plain(label: Any) -> str:
    """A label as people write it: 1 rather than 1.0."""
    if isinstance(label, str):  # of an estimator's model
        return label
    return str(int(label)) if float(label).is_integer() else repr(float(label))


def check_multi_class(name: str) -> None:
    """ValueError if there is no such way."""
    if name not in MULTI_CLASS:
        raise ValueError(f"multi_class must be one of {', '.join(MULTI_CLASS)}, got {name!r}")


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """The machines of "ovo", in order: (positive class, negative class)."""
    return [(1, 0)] if n_classes == 2 else list(combinations(range(n_classes), 2))


def n_functions(multi_class: str, n_classes: int) -> int:
    """How many decision functions there are."""
    if multi_class == "ovo":
        return len(pairs(n_classes))
    return 1 if n_classes == 2 else n_classes


def n_problems(multi_class: str, n_classes: int) -> int:
    """How many problems are solved, each with a certificate."""
    return 1 if is_joint(multi_class, n_classes) else n_functions(multi_class, n_classes)


def is_joint(multi_class: str, n_classes: int) -> bool:
    """Whether all classes are one problem of its own kind, without a dual variable for each row.

    The multinomial problem of two classes is that of their difference.
    """
    return multi_class == "crammer_singer" or (multi_class == "multinomial" and n_classes > 2)


def about(multi_class: str, classes: NDArray[Any], k: int) -> str:
    """What to call problem k, where there are several."""
    if multi_class == "ovo":
        i, j = pairs(len(classes))[k]
        return f"{classes[i]} against {classes[j]}"
    return f"class {classes[k]}"


def class_scores(scores: Array, multi_class: str, n_classes: int) -> Array:
    """From the scores of the decision functions: (n,) for two classes, else one column a class."""
    if n_classes == 2:
        return np.ascontiguousarray(scores[:, 0])
    return votes(scores, n_classes) if multi_class == "ovo" else np.ascontiguousarray(scores)


def decide(scores: Array) -> NDArray[np.intp]:
    """The class of each row, by number, from `class_scores`; the first of equals."""
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


def whole_votes(scores: Array) -> Array:
    """Of `class_scores` of pairs, the votes alone: the first of equals is then decided for."""
    return np.round(scores)


def winners(
    X: Any,
    coef: Any,
    intercept: Array,
    multi_class: str,
    n_classes: int,
    n_threads: int | None = None,
) -> NDArray[np.intp]:
    """The class of each row, by number, from linear functions; some rows' scores at a time."""
    if n_classes > 2 and multi_class != "ovo" and not is_sparse(coef):
        return best_function(X, coef, intercept, n_threads)
    best = np.empty(X.shape[0], np.intp)
    size = max(1, SCORES // coef.shape[0])
    for where, scores in score_blocks(X, coef, intercept, size, n_threads):
        best[where] = decide(class_scores(scores, multi_class, n_classes))
    return best


def votes(scores: Array, n_classes: int) -> Array:
    """Votes of the pairs for each class, and a fraction below one half that orders equal votes."""
    count = np.zeros((len(scores), n_classes))
    sums = np.zeros_like(count)
    for k, (i, j) in enumerate(pairs(n_classes)):
        count[:, i] += scores[:, k] >= 0  # a tie is the first class's, as everywhere
        count[:, j] += scores[:, k] < 0
        sums[:, i] += scores[:, k]
        sums[:, j] -= scores[:, k]
    fractions: Array = sums / (3 * (np.abs(sums) + 1))
    return count + fractions
