"""The homes of rows: in memory, and one line for each other."""

from __future__ import annotations

import importlib
from typing import Any

from bridle.objective.bias import Bias, bias_precision
from bridle.objective.losses import Loss
from bridle.rows.base import Sides
from bridle.rows.memory import MemoryRows, MemorySides

# What a user's object must have to be at home there, and the module that makes its `sides`.
HOMES: dict[str, str] = {
    "__arrow_rows__": "bridle.rows.disk.stored",
    "__row_parts__": "bridle.rows.cluster.sides",
}


def sides_of(
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    C: float,
    loss: Loss,
    bias: Bias,
    bias_scale: float,
    n_threads: int | None,
    **elsewhere: Any,
) -> Sides:
    """The rows of X as one problem sees them. elsewhere: what only rows of some home understand."""
    for mark, module in HOMES.items():
        if hasattr(X, mark):
            if y is not None or sample_weight is not None:
                raise ValueError("rows that are not in memory bring their labels and weights")
            make = importlib.import_module(module).sides_of
            sides: Sides = make(
                X, C=C, loss=loss, bias=bias, bias_scale=bias_scale, n_threads=n_threads,
                **elsewhere,
            )  # fmt: skip
            return sides
    if elsewhere:
        raise TypeError(f"rows in memory have no {', '.join(sorted(elsewhere))}")
    if y is None:
        raise ValueError("y is missing: only rows on disk or on a cluster bring their labels")
    constant = bias_scale if bias == "regularised" else 0.0
    rows = MemoryRows(X, constant, n_threads)
    return MemorySides(rows, y, sample_weight, C, loss, bias_precision(bias, bias_scale))
