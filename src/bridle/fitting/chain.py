"""Taggers from sequences: fit a chain model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bridle.models.chain import ChainModel, Extras, encode_labels, features_for
from bridle.solvers import Solver
from bridle.solving.loop import Callback, solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Stop
from bridle.structured.chain import ChainProblem
from numpy.typing import ArrayLike


def train_chain(
    sequences: Sequence[Any],
    labels: Sequence[Sequence[Any]],
    C: float,
    *,
    solver: str | Solver,
    stop: Stop,
    extras: Extras = Extras(),  # noqa: B008  (frozen)
    cost: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    callbacks: Iterable[Callback] = (),
) -> tuple[ChainModel, Solution]:
    """Fit a chain; the model and how it came about."""
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
    solution = solve(problem, solver, stop=stop, seed=seed, callbacks=callbacks)
    model = ChainModel(
        solution.w, classes, features, extras, float(C), solution.certificate,
        problem.n_rows, {"solver": solution.solver, "status": solution.status.value, "seed": seed},
    )  # fmt: skip
    return model, solution
