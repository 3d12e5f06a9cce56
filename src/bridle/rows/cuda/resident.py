"""Numbers of rows that stay on the device until somebody asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.rows.cuda.device import Device


class ResidentVector:
    """A vector on the device; np.asarray fetches it, CuPy and PyTorch read it in place."""

    def __init__(self, device: Device, values: Any) -> None:
        self.device, self.on_device = device, values
        self._fetched: Array | None = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._fetched is None:
            self._fetched = self.device.get(self.on_device)
        found = self._fetched
        if dtype is not None and found.dtype != dtype:
            return found.astype(dtype)
        return found.copy() if copy else found

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.on_device.__cuda_array_interface__

    @property
    def shape(self) -> tuple[int]:
        """Its length."""
        return (int(self.on_device.shape[0]),)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its entries."""
        found: np.dtype[Any] = self.on_device.dtype
        return found

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def sum(self) -> float:
        """Of all entries."""
        return float(self.on_device.sum())
