"""Taggers from sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from bridle.data.sequence_features import encode_labels, features_for
from bridle.fitting.task import StructuralTask
from bridle.models.chain import ChainExtras, ChainModel
from bridle.structured.chain import ChainProblem
from numpy.typing import ArrayLike


def chain_task(
    sequences: Sequence[Any],
    labels: Sequence[Sequence[Any]],
    C: float,
    *,
    extras: ChainExtras = ChainExtras(),  # noqa: B008  (frozen)
    cost: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
) -> StructuralTask[ChainProblem, ChainModel]:
    """A chain of labels over sequences of features."""
    features = features_for(sequences)
    encoded = features.encode(sequences, grow=True)
    classes, codes = encode_labels(labels, encoded.offsets)
    if len(classes) < 2:
        raise ValueError(f"there must be at least two different labels, got {classes}")
    problem = ChainProblem(
        extras.matrix(encoded), encoded.offsets, codes, len(classes), C, cost=cost,
        transitions=extras.transitions, bias=extras.bias, sample_weight=sample_weight,
        n_threads=n_threads,
    )  # fmt: skip
    model = partial(
        ChainModel, classes=classes, features=features, extras=extras, n_rows=problem.n_rows
    )
    return StructuralTask(problem, model)
