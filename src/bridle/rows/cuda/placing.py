"""Where to compute: "auto" predicts the time of both places, and says which it took and why.

The rates were measured on texts (781,265 rows, 59 million entries) with 16 cores and an H200: see
docs/gpu.md. What is copied is timed on the machine at hand.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from bridle.matrix.door import is_sparse
from bridle.objective.losses import Loss
from bridle.rows.cuda.device import PIECE, Where, find_device, missing

# Seconds for an entry in a pass; for a pass whatever its size; before the first one in a process.
CPU_ENTRY, CUDA_ENTRY = 1.2e-9, 2.5e-11
CUDA_PASS, CUDA_START = 6e-4, 1.5


@dataclass(frozen=True)
class Place:
    """Where a problem is solved, and why there."""

    device: Literal["cpu", "cuda"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.device} ({self.why})" if self.why else self.device


def unfit(C: float, loss: Loss) -> str | None:
    """Why the device cannot have this problem, or None."""
    if not loss.quadratic or loss.core is None:
        return f"the losses there are hinge and squared_hinge, not {loss.name}"
    if np.isinf(C):
        return "there is no hard margin (C = inf) there"
    return None


def place(
    device: Where, X: Any, C: float, loss: Loss, n_problems: int = 1, n_threads: int = 1
) -> Place:
    """What `device` means for rows in this memory, of which so many problems are to be solved.

    Those share the GPU, and take their turns on it; on the processor each has a thread.
    """
    if device != "auto":
        return Place(device)
    why = missing() or unfit(C, loss)
    if why is not None:
        return Place("cpu", why)
    copied, here, there = predicted(X, C)
    here = here * n_problems / min(n_problems, n_threads)
    return faster(here, copied + there * n_problems)


def faster(here: float, there: float) -> Place:
    """Where fewer seconds are predicted, on the processor or on the device."""
    times = f"{there:.2g} s predicted on the GPU, {here:.2g} s on the processor"
    return Place("cuda" if there < here else "cpu", times)


def predicted(X: Any, C: float) -> tuple[float, float, float]:
    """Seconds before the device can begin, for a problem on the processor, and on the device."""
    entries = X.nnz if is_sparse(X) else np.size(X)
    nbytes = X.data.nbytes + X.indices.nbytes if is_sparse(X) else np.asarray(X).nbytes
    values = X.data if is_sparse(X) else np.asarray(X).reshape(-1)
    some = np.asarray(values[: 1 << 16], np.float64)
    squared_length = float(np.square(some).mean() if some.size else 0.0) * entries / X.shape[0]
    passes = 4.0 * (1.0 + 3.0 * min(C * squared_length, 30.0))
    start = 0.0 if find_device().started else CUDA_START
    return (
        start + nbytes / copy_rate(),
        passes * entries * CPU_ENTRY,
        passes * (entries * CUDA_ENTRY + CUDA_PASS),
    )


@cache
def copy_rate() -> float:
    """Bytes a second to the device, from memory that is not pinned."""
    device, some = find_device(), np.ones(16 * PIECE, np.uint8)
    device.put(some)
    best = np.inf
    for _ in range(2):
        began = time.perf_counter()
        device.put(some)
        best = min(best, time.perf_counter() - began)
    return some.nbytes / float(best)
