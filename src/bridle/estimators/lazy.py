"""Predictions of Dask's collections, which are lazy as they are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from bridle.rows.cluster.dask_rows import DaskRows


def on_blocks(method: Callable[[Any], Any], X: Any, dtype: Any, width: int | None) -> Any:
    """A method of a fitted estimator on the blocks of a dask Array, DataFrame or Bag: lazily.

    width: of the result's rows; None for one number or label each.
    """
    if isinstance(X, DaskRows):
        raise TypeError("DaskRows are for `fit`: predict from a dask Array, DataFrame or Bag")
    if hasattr(X, "rechunk"):
        blocks = X.rechunk({1: -1})
        if width is None:
            return blocks.map_blocks(method, drop_axis=1, meta=np.empty(0, dtype))
        chunks = (blocks.chunks[0], (width,))
        return blocks.map_blocks(method, chunks=chunks, meta=np.empty((0, 0), dtype))
    if hasattr(X, "columns"):
        dask, array = _dask(), _dask("array")
        shape = (np.nan,) if width is None else (np.nan, width)
        parts = [dask.delayed(method)(part) for part in X.to_delayed()]
        return array.concatenate([array.from_delayed(part, shape, dtype) for part in parts])
    return X.map(method)


def score(predicted: Any, y: Any, sample_weight: Any) -> float:
    """The accuracy of lazy predictions, computed now."""
    found, labels, weight = (_dask().compute(part)[0] for part in (predicted, y, sample_weight))
    if isinstance(found, list):  # of bags
        found, labels = np.concatenate(found), np.concatenate(labels)
        weight = None if weight is None else np.concatenate(weight)
    return float(np.average(np.asarray(found) == np.asarray(labels), weights=weight))


def _dask(module: str | None = None) -> Any:
    return importlib.import_module("dask" if module is None else f"dask.{module}")
