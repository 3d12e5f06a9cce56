"""Reading, writing and generating data.

Nothing here is imported before it is used: ``import bridle.data`` loads neither SciPy nor
scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .corpus import make_corpus
    from .svmlight import (
        SvmlightError,
        read_svmlight,
        read_svmlight_and_base,
        read_svmlight_bytes,
        write_svmlight,
    )

__all__ = [
    "SvmlightError",
    "make_corpus",
    "read_svmlight",
    "read_svmlight_and_base",
    "read_svmlight_bytes",
    "write_svmlight",
]

_HOME = {
    "SvmlightError": "svmlight",
    "make_corpus": "corpus",
    "read_svmlight": "svmlight",
    "read_svmlight_and_base": "svmlight",
    "read_svmlight_bytes": "svmlight",
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
