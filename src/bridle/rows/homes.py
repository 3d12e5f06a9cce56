"""The homes of rows: in memory, and one line for each other."""

from __future__ import annotations

import importlib
from typing import Any

from bridle.objective.bias import Bias, bias_precision
from bridle.objective.kernels import Kernel
from bridle.objective.losses import Loss
from bridle.rows.base import Sides
from bridle.rows.gram import KernelRows
from bridle.rows.memory import MemoryRows, MemorySides

MEMORY = "memory"

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
    **elsewhere: Any,
) -> Sides:
    """The rows of X as one problem sees them. elsewhere: what only rows of some home understand."""
    for mark, (_, module) in HOMES.items():
        if hasattr(X, mark):
            sides: Sides = importlib.import_module(module).sides_of(
                X, y, sample_weight, C=C, loss=loss, bias=bias, bias_scale=bias_scale,
                n_threads=n_threads, **elsewhere,
            )  # fmt: skip
            return sides
    if elsewhere:
        raise TypeError(f"rows in memory have no {', '.join(sorted(elsewhere))}")
    if y is None:
        raise ValueError("y is missing: only rows on disk or on a cluster bring their labels")
    rows = MemoryRows(X, bias_scale if bias == "regularised" else 0.0, n_threads)
    return MemorySides(rows, y, sample_weight, C, loss, bias_precision(bias, bias_scale))


def kernel_device(kernel: Kernel, device: Any, n_rows: int) -> Any:
    """The device that is to compute the kernel for problems of so many rows; None: this processor.

    device: "cpu", "cuda", "auto", or what an earlier answer was.
    """
    from bridle.rows.cuda.device import check_where, find_device, missing
    from bridle.rows.cuda.gram import FEW_ROWS, check_formula, knows

    if not isinstance(device, str):
        return device
    if check_where(device) == "cpu":
        return None
    if device == "auto" and (missing() is not None or not knows(kernel) or n_rows < FEW_ROWS):
        return None
    check_formula(kernel)
    return find_device()


def kernel_rows(kernel: Kernel, X: Any, n_threads: int | None, device: Any) -> KernelRows:
    """The rows of X seen through a kernel, here or on a device."""
    found = kernel_device(kernel, device, X.shape[0])
    if found is None:
        return KernelRows(kernel, X, n_threads)
    from bridle.rows.cuda.gram import DeviceKernelRows

    return DeviceKernelRows(kernel, X, n_threads, found)
