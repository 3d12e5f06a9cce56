"""Mercer kernels: inner products in a space that is never visited.

A kernel is a frozen dataclass of its parameters, see `bridle.objective.kernels.base.Kernel`: one
file, and one line in KERNELS, which `kernel=`, `--kernel` and model files find it by. One that
stands elsewhere registers itself, KERNELS["mine"] = Mine, or is given as it is: kernel=Mine(2.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.objective.registry import Registry, lazy_names

if TYPE_CHECKING:
    from bridle.objective.kernels.base import InnerProductKernel as InnerProductKernel
    from bridle.objective.kernels.base import Kernel as Kernel
    from bridle.objective.kernels.function import KernelFunction as KernelFunction
    from bridle.objective.kernels.settling import kernel_from as kernel_from

KERNELS = Registry(
    "kernel",
    {
        "linear": "bridle.objective.kernels.linear:Linear",
        "rbf": "bridle.objective.kernels.rbf:Rbf",
        "poly": "bridle.objective.kernels.poly:Poly",
        "sigmoid": "bridle.objective.kernels.sigmoid:Sigmoid",
        "precomputed": "bridle.objective.kernels.precomputed:Precomputed",
    },
)

__getattr__ = lazy_names(
    __name__,
    {
        "Kernel": "bridle.objective.kernels.base:Kernel",
        "InnerProductKernel": "bridle.objective.kernels.base:InnerProductKernel",
        "KernelFunction": "bridle.objective.kernels.function:KernelFunction",
        "kernel_from": "bridle.objective.kernels.settling:kernel_from",
    },
)
