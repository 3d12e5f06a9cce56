"""Kernels as they are asked for: a name and parameters, some of which depend on the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.door import canonical, is_sparse
from bridle.objective.kernels import KERNELS
from bridle.objective.kernels.base import Kernel
from bridle.objective.kernels.function import FunctionKernel, KernelFunction


def kernel_from(
    kernel: str | KernelFunction | Kernel,
    X: Any,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    sample_weight: Array | None = None,
) -> Kernel:
    """The kernel with gamma settled: "scale" is 1 / (n_features X.var()), "auto" 1 / n_features.

    The variance counts each row as often as it weighs. A Kernel knows its parameters already.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return FunctionKernel(kernel)
    if not KERNELS.knows(kernel):
        raise ValueError(
            f"kernel must be a function or one of {', '.join(KERNELS)}, got {kernel!r}"
        )
    if degree < 0 or degree != int(degree):
        raise ValueError(f"degree must be a whole number, not negative, got {degree}")
    if not np.isfinite(coef0):
        raise ValueError(f"coef0 must be finite, got {coef0}")
    parameters: dict[str, Any] = {"degree": int(degree), "coef0": float(coef0)}
    if any(field.name == "gamma" for field in fields(KERNELS.load(kernel))):
        parameters["gamma"] = _gamma(gamma, X, sample_weight)
    return kernel_named(kernel, parameters)


def kernel_named(name: str, parameters: Mapping[str, Any]) -> Kernel:
    """A registered kernel with those of the parameters that it has."""
    kind: type[Kernel] = KERNELS.load(name)
    own = [field for field in fields(kind) if field.name in parameters]
    return kind(**{field.name: _as_number(field, parameters[field.name]) for field in own})


def _as_number(field: Field[Any], value: Any) -> Any:
    """Files may hold 1 where 1.0 is meant."""
    return type(field.default)(value) if isinstance(field.default, int | float) else value


def is_storable(kernel: Kernel) -> bool:
    """Whether a name and parameters in a file say which kernel it is."""
    return KERNELS.holds(kernel) and not kernel.given


def check_storable(kernel: Kernel) -> None:
    """ValueError if they do not."""
    if is_storable(kernel):
        return
    hint = ""
    if not kernel.given and not isinstance(kernel, FunctionKernel):
        hint = f": register its class, KERNELS[{kernel.name!r}] = {type(kernel).__name__}"
    raise ValueError(f"a kernel of name {kernel.name!r} cannot be kept in a file{hint}")


def _gamma(gamma: float | str, X: Any, weight: Array | None) -> float:
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / float(X.shape[1])
        if gamma == "scale":
            with np.errstate(over="ignore", invalid="ignore"):
                variance = _variance(X, weight)
            found = 1.0 / (float(X.shape[1]) * variance) if variance > 0 else 1.0
            if not (0.0 < found < np.inf and np.isfinite(variance)):
                raise ValueError(
                    f'gamma="scale" is out of range, since X has the variance {variance:.3g}: '
                    "scale the features, or give gamma"
                )
            return found
        raise ValueError(f'gamma must be a number, "scale" or "auto", got {gamma!r}')
    if not (gamma >= 0 and np.isfinite(gamma)):
        raise ValueError(f"gamma must not be negative, and finite, got {gamma}")
    return float(gamma)


def _variance(X: Any, weight: Array | None) -> float:
    """Of all entries, zeros included."""
    X = canonical(X)
    if weight is not None and (weight != weight[0]).any():
        size = float(weight.sum()) * float(X.shape[1])
        mean = float(weight @ _sums(X)) / size
        if not is_sparse(X):
            return float(weight @ _sums(np.square(X - mean, dtype=np.float64))) / size
        X = X.astype(np.float64)
        return float(weight @ _sums(X.multiply(X))) / size - mean * mean
    if not is_sparse(X):
        return float(np.asarray(X).var(dtype=np.float64))
    size = X.shape[0] * X.shape[1]
    data = X.data.astype(np.float64, copy=False)
    mean = float(data.sum()) / float(size)
    return float(data @ data) / float(size) - mean * mean


def _sums(X: Any) -> Array:
    """Of every row."""
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
