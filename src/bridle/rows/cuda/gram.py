"""Rows on a device seen through a kernel: blocks of its values, and sums of them.

A block is a matrix product and one more pass over it, which applies the kernel's formula. Sums of a
certificate are float64 throughout; centres come in groups, and the sums of these are added, so the
bounds of `bridle.rows.gram` hold with their size. The vendor's e^x and tanh in
float64 are off by no more units in the last place than the kernels' own bounds allow.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from bridle.errors import DeviceError
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse, view_rows
from bridle.matrix.threads import check_threads
from bridle.objective.kernels import Kernel
from bridle.rows.cuda.device import C_TYPES, Device, Where, check_where, find_device, missing
from bridle.rows.cuda.placing import Place, faster
from bridle.rows.cuda.products import (
    THREADS,
    WIDE,
    CsrOnDevice,
    DenseOnDevice,
    blocks,
    put_matrix,
)
from bridle.rows.gram import KernelRows, KernelSums, error_of_sums, pair
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

FORMULAS = ("linear", "rbf", "poly", "sigmoid")  # those of kernels.cu

GROUP = 1024  # centres of a block, at most
TILE = 2**26  # values of a block, at most

# Seconds for the square of the rows, and with each feature: on the processor, which gains as the
# root of its threads, and on the device; there also for a row, and before the first time in a
# process. Measured with 16 cores and an H200: see docs/gpu.md.
CPU_PAIR, CPU_FEATURE = 7.5e-8, 1.6e-10
CUDA_PAIR, CUDA_FEATURE, CUDA_ROW, CUDA_START = 2.2e-11, 4e-14, 2e-5, 3.0


def kernel_place(device: Where | Place, kernel: Kernel, X: Any, n_threads: int | None) -> Place:
    """Where the kernel of these rows is computed; a place is an answer already."""
    if isinstance(device, Place):
        return device
    unknown = None
    if kernel.compiled not in FORMULAS:
        unknown = f"the kernels there are {', '.join(FORMULAS)}, not {kernel.name}"
    if check_where(device) == "cpu":
        return Place("cpu")
    if device == "cuda":
        if unknown is not None:
            raise DeviceError(f'device="cuda" is not available: {unknown}')
        return Place("cuda")
    why = missing() or unknown
    if why is not None:
        return Place("cpu", why)
    n_rows, n_features = X.shape
    entries = X.nnz / n_rows if is_sparse(X) else n_features
    here = n_rows**2 * (CPU_PAIR + CPU_FEATURE * entries) / check_threads(n_threads) ** 0.5
    there = CUDA_ROW * n_rows + n_rows**2 * (CUDA_PAIR + CUDA_FEATURE * entries)
    return faster(here, there + (0.0 if find_device().started else CUDA_START))


def kernel_rows(kernel: Kernel, X: Any, n_threads: int | None, device: Where | Place) -> KernelRows:
    """The rows of X seen through a kernel, here or on a device."""
    place = kernel_place(device, kernel, X, n_threads)
    if place.device == "cuda":
        rows: KernelRows = DeviceKernelRows(kernel, X, n_threads, find_device())
    else:
        rows = KernelRows(kernel, X, n_threads)
    rows.place = str(place)
    return rows


class DeviceKernelRows(KernelRows):
    """The rows of X and a kernel, here and on a device, which computes what is summed over them."""

    def __init__(self, kernel: Kernel, X: Any, n_threads: int | None, device: Device) -> None:
        super().__init__(kernel, X, n_threads)
        self.device = device
        try:
            self.matrix = put_matrix(device, self.rows.X)
            self.norms = device.put(self.rows.squared_norms)
        except MemoryError as error:
            raise DeviceError(
                f"the device has no room for {self.rows.n_rows} rows of {self.rows.n_features} "
                f'features ({device.free_memory() / 1e9:.3g} GB are free): use device="cpu"'
            ) from error

    def take(self, chosen: NDArray[np.intp]) -> DeviceKernelRows:
        """Some of the rows, which are on the device already and were checked."""
        other = copy.copy(self)
        for name in ("diagonal", "accuracy"):
            other.__dict__.pop(name, None)
        part, norms = self.rows.X[chosen], self.rows.squared_norms[chosen]
        other.rows = MemoryRows.checked(view_rows(part, 0.0), norms, 0.0, self.rows.n_threads)
        other.rows.X = part
        other.X = part if self.X is self.rows.X else self.X[chosen]
        at = self.device.put(chosen)
        other.matrix, other.norms = self.matrix.take(at), self.norms[at]
        return other

    def expand(self, coefficients: Array) -> KernelSums:
        """sum_j c_j K(x_j, x_i) for every row, summed in float64."""
        values, group = self.device.get(self.sums(coefficients)), group_of(self.matrix.n_features)
        return KernelSums(values, error_of_sums(self.accuracy, self.accuracy, coefficients, group))

    def expand_at(self, X: Any, centres: Any, coefficients: Array) -> Array:
        """The same for rows of another matrix, and centres that need not be rows."""
        return scores_on(self.device, self.kernel, X, centres, coefficients[None])[:, 0]

    def sums(self, coefficients: Array, rows: Any = None) -> Any:
        """The same on the device, for all rows or the chosen ones."""
        matrix, norms = self.matrix, self.norms
        if rows is not None:
            matrix, norms = matrix.take(rows), norms[rows]
        used = np.flatnonzero(coefficients)
        centres = Centres(self.matrix, self.norms, self.device.put(used))
        weights = coefficients[used][None]
        return expanded(self.device, self.kernel, matrix, norms, centres, weights)[0]


def group_of(n_features: int) -> int:
    """How many centres make a block: fewer where they are wide."""
    return max(1, min(GROUP, WIDE // n_features))


class Centres:
    """The chosen rows of a matrix, a group at a time as a dense matrix of float64."""

    def __init__(self, matrix: DenseOnDevice | CsrOnDevice, norms: Any, chosen: Any) -> None:
        self.matrix, self.norms, self.chosen = matrix, norms, chosen
        self.group = group_of(matrix.n_features)

    def __len__(self) -> int:
        return len(self.chosen)

    def part(self, begin: int) -> tuple[Any, Any]:
        """A group, and its squared norms."""
        chosen = self.chosen[begin : begin + self.group]
        return self.matrix.dense(chosen, np.float64), self.norms[chosen]


def expanded(
    device: Device, kernel: Kernel, matrix: Any, norms: Any, centres: Centres, coefficients: Array
) -> Any:
    """sum_j coefficients[k][j] K(c_j, x_i), one row for each k, summed in float64 on the device."""
    xp, n_rows = device.xp, matrix.n_rows
    weights = device.put(np.ascontiguousarray(coefficients))
    out = xp.zeros((len(coefficients), n_rows))
    width = min(n_rows, max(1, min(TILE // centres.group, WIDE // matrix.n_features)))
    block = xp.empty(min(len(centres), centres.group) * width)
    for begin in range(0, len(centres), centres.group):
        part, part_norms = centres.part(begin)
        for first in range(0, n_rows, width):
            rows = slice(first, min(first + width, n_rows))
            size = rows.stop - rows.start
            values = block[: len(part) * size].reshape(len(part), size)
            matrix.products(part, rows, values)
            apply(device, kernel, values, part_norms, norms[rows])
            out[:, rows] += weights[:, begin : begin + len(part)] @ values
    return out


def apply(
    device: Device,
    kernel: Kernel,
    products: Any,
    centre_norms: Any,
    norms: Any,
    constant: float = 0.0,
) -> None:
    """Inner products of centres with rows become values of the kernel, in place."""
    with_ = {"gamma": 1.0, "coef0": 0.0, "degree": 0} | kernel.parameters
    compiled = device.kernel(
        "kernels", "apply", VALUE=C_TYPES[products.dtype.str[1:]], FORMULA=kernel.compiled
    )
    compiled((blocks(device),), (THREADS,), (
        products, *products.shape, centre_norms, norms, float(with_["gamma"]),
        float(with_["coef0"]), np.int32(with_["degree"]), constant,
    ))  # fmt: skip


def scores_on(device: Device, kernel: Kernel, X: Any, centres: Any, coefficients: Array) -> Array:
    """sum_j coefficients[k][j] K(x, c_j) for every row x of X, a column for each k.

    X goes to the device in blocks of rows.
    """
    rows, others = pair(kernel, X, centres, 1)
    theirs = put_matrix(device, others.X)
    all_of_them = Centres(theirs, device.put(others.squared_norms), device.xp.arange(others.n_rows))
    out = np.empty((rows.n_rows, len(coefficients)))
    step = max(1, TILE // rows.n_features)
    for begin in range(0, rows.n_rows, step):
        part = slice(begin, begin + step)
        matrix, norms = put_matrix(device, rows.X[part]), device.put(rows.squared_norms[part])
        out[part] = device.get(expanded(device, kernel, matrix, norms, all_of_them, coefficients)).T
    return out
