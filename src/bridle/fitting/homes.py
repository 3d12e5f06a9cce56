"""Where rows are, told without loading what only rows elsewhere need."""

from __future__ import annotations

import sys
from typing import Any, Literal

Home = Literal["memory", "disk", "cluster"]

# home -> (module, class): a class whose module was never loaded has no instances.
_CLASSES: dict[tuple[str, str], Home] = {
    ("bridle.rows.disk.stored", "StoredRows"): "disk",
    ("bridle.data.arrow", "ArrowRows"): "disk",
    ("bridle.rows.cluster.dask_rows", "DaskRows"): "cluster",
}


def home_of(rows: Any) -> Home:
    """Of StoredRows and ArrowRows, the disk; of DaskRows and Dask's collections, a cluster."""
    if hasattr(rows, "__dask_graph__"):
        return "cluster"
    for (module, name), home in _CLASSES.items():
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(rows, getattr(loaded, name)):
            return home
    return "memory"
