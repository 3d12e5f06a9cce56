"""The homes of rows: in memory, and one line for each other."""

from __future__ import annotations

import importlib
from typing import Any

from bridle.errors import DeviceError
from bridle.objective.bias import Bias, bias_precision
from bridle.objective.losses import Loss
from bridle.rows.base import Sides
from bridle.rows.cuda.device import Where, check_where
from bridle.rows.cuda.matrix import is_on_device
from bridle.rows.cuda.placing import Place, place
from bridle.rows.memory import MemoryRows, MemorySides

MEMORY = "memory"
PLACES = {"disk": "disk", "cluster": "a cluster"}

# What rows elsewhere are told by, without loading what only they need: the name of their home, and
# the module whose `sides_of` makes their sides.
HOMES: dict[str, tuple[str, str]] = {
    "__arrow_rows__": ("disk", "bridle.rows.disk.stored"),
    "__row_parts__": ("cluster", "bridle.rows.cluster.sides"),
    "__dask_graph__": ("cluster", "bridle.rows.cluster.sides"),
}


def home_of(rows: Any) -> str:
    """Of StoredRows and ArrowRows, the disk; of DaskRows and Dask's collections, a cluster."""
    return next((home for mark, (home, _) in HOMES.items() if hasattr(rows, mark)), MEMORY)


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
    device: Where = "cpu",
    **elsewhere: Any,
) -> Sides:
    """The rows of X as one problem sees them. elsewhere: what only rows of some home understand."""
    for mark, (home, module) in HOMES.items():
        if hasattr(X, mark):
            if check_where(device) == "cuda":
                raise DeviceError(
                    f'device="cuda" takes rows in memory; these are on {PLACES[home]}'
                )
            found: Sides = importlib.import_module(module).sides_of(
                X, y, sample_weight, C=C, loss=loss, bias=bias, bias_scale=bias_scale,
                n_threads=n_threads, **elsewhere,
            )  # fmt: skip
            return found
    if elsewhere:
        raise TypeError(f"rows in memory have no {', '.join(sorted(elsewhere))}")
    if y is None and not loss.one_class:
        raise ValueError("y is missing: only rows on disk or on a cluster bring their labels")
    chosen = Place("cuda") if is_on_device(X) else place(check_where(device), X, C, loss)
    if chosen.device == "cuda":
        from bridle.rows.cuda.sides import sides_on_device

        return sides_on_device(
            X, y, sample_weight, C=C, loss=loss, bias=bias, bias_scale=bias_scale,
            n_threads=n_threads, place=str(chosen),
        )  # fmt: skip
    rows = MemoryRows(X, bias_scale if bias == "regularised" else 0.0, n_threads)
    sides = MemorySides(rows, y, sample_weight, C, loss, bias_precision(bias, bias_scale))
    sides.place = str(chosen)
    return sides
