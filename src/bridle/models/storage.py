"""Model files: saved and loaded, whatever kind of model it is.

A kind of model is a dataclass with `parts()` and `from_parts()`, and a line in KINDS. The format is
that of `bridle.files.container`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from bridle import __version__
from bridle.errors import ModelError
from bridle.files.atomic import StrPath
from bridle.files.container import Content, malformed_as_error, read_container, write_container
from bridle.models.schema import check_parts
from numpy.typing import NDArray

# kind -> (module, class): a new kind of model is one class and one line here.
KINDS: dict[str, tuple[str, str]] = {
    "linear": ("bridle.models.linear", "LinearModel"),
    "multivariate": ("bridle.models.multivariate", "MultivariateModel"),
    "kernel": ("bridle.models.kernel", "KernelModel"),
    "regression": ("bridle.models.regression", "RegressionModel"),
    "linear-one-class": ("bridle.models.one_class", "LinearOneClassModel"),
    "kernel-regression": ("bridle.models.kernel_function", "KernelRegressionModel"),
    "one-class": ("bridle.models.kernel_function", "OneClassModel"),
    "ranking": ("bridle.models.ranker", "RankingModel"),
    "chain": ("bridle.models.chain", "ChainModel"),
    "structured": ("bridle.models.structured", "StructuredModel"),
    "tree": ("bridle.models.tree", "TreeModel"),
    "multilabel": ("bridle.models.multilabel", "MultilabelModel"),
    "checkpoint": ("bridle.solving.checkpoint", "SavedPoint"),
}
# Those whose rows have a dual variable each, and that `certify_model` takes.
CERTIFIED = ("linear", "regression", "linear-one-class")


class Model(Protocol):
    """What a kind of model owes this module: plain JSON fields and arrays, there and back."""

    kind: ClassVar[str]

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Fields for the header, and arrays."""

    @classmethod
    def from_parts(cls, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model again. KeyError, TypeError or ValueError if the parts do not fit."""


def as_model(model: Any) -> Any:
    """A model as it is; a fitted estimator as the model that it holds."""
    if hasattr(model, "parts"):
        return model
    if hasattr(model, "to_model"):
        return model.to_model()
    raise TypeError(f"{type(model).__name__} is neither a model nor a fitted estimator")


def says_nothing(model: Any) -> bool:
    """Whether a model is linear, or a chain, and all its weights are 0: it knows no difference."""
    arrays = model.parts()[1]
    names = {"coef", "coef_values", "emissions", "transitions", "extras"} & arrays.keys()
    return bool(names) and not any(arrays[name].any() for name in names)


def save_model(path: StrPath, model: Any, *, dual: bool = False) -> None:
    """Write a model, or a fitted estimator, whole or not at all.

    dual: with the dual variables of a linear model, if it has them: a number for each row.

    Examples
    --------
    >>> bridle.save_model("two.model", bridle.LinearSVC().fit([[0.0], [1.0]], ["a", "b"]))
    >>> bridle.load_model("two.model").predict([[2.0]])
    array(['b'], dtype='<U1')
    """
    model = as_model(model)
    fields, arrays = model.parts()
    if not dual and model.kind in CERTIFIED:
        arrays.pop("alpha", None)
    write_container(path, Content(model.kind, fields, arrays))


def load_model(path: StrPath) -> Any:
    """Read a model of any kind; ModelError says what is wrong with a file that is none.

    Examples
    --------
    >>> import tempfile
    >>> X, y = bridle.data.make_corpus(200, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bridle.LinearSVC().fit(X, y).save(f"{folder}/a.model")
    ...     bridle.load_model(f"{folder}/a.model").predict(X[:1]) == y[:1]
    array([ True])
    """
    name, content = os.fsdecode(path), read_container(path)
    if content.kind not in KINDS:
        raise ModelError(
            f"{name}: a model of kind {content.kind!r}, which this version of bridle "
            f"({__version__}) does not know; it was written by {content.writer}"
        )
    module, attribute = KINDS[content.kind]
    with malformed_as_error(name):
        check_parts(content.kind, content.fields, content.arrays)
        kind = getattr(importlib.import_module(module), attribute)
        with np.errstate(all="ignore"):  # what is no number is refused, not warned of
            return kind.from_parts(content.fields, content.arrays)
