"""Reading, writing and generating data.

Nothing here is imported before it is used: ``import bridle.data`` loads neither SciPy nor
scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arrow import ArrowError, ArrowRows, open_arrow, read_arrow
    from .arrow_writing import write_arrow
    from .corpus import make_corpus
    from .npz import write_npz
    from .reading import Data, Wanted, read_data
    from .svmlight import (
        SvmlightError,
        read_svmlight,
        read_svmlight_and_base,
        read_svmlight_bytes,
        write_svmlight,
    )

__all__ = [
    "ArrowError",
    "ArrowRows",
    "Data",
    "SvmlightError",
    "Wanted",
    "make_corpus",
    "open_arrow",
    "read_arrow",
    "read_data",
    "read_svmlight",
    "read_svmlight_and_base",
    "read_svmlight_bytes",
    "write_arrow",
    "write_npz",
    "write_svmlight",
]

_HOME = {
    "ArrowError": "arrow",
    "ArrowRows": "arrow",
    "Data": "reading",
    "Wanted": "reading",
    "read_data": "reading",
    "write_npz": "npz",
    "SvmlightError": "svmlight",
    "make_corpus": "corpus",
    "open_arrow": "arrow",
    "read_arrow": "arrow",
    "read_svmlight": "svmlight",
    "read_svmlight_and_base": "svmlight",
    "read_svmlight_bytes": "svmlight",
    "write_arrow": "arrow_writing",
    "write_svmlight": "svmlight",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
