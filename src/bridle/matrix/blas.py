"""NumPy's matrix library on one thread, where the matrices are small.

Its threads wait for each other in busy loops: on a machine with other work, or under threads of our
own, small products take ten times as long with two threads as with one. The limit must be set by
the thread that starts the others: set by those, it has no effect in some builds of OpenBLAS.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside = 0  # how many blocks are open, in all threads
_limit: Any = None


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limits matrix products to one thread; the last block to end lifts the limit."""
    global _inside, _limit  # noqa: PLW0603
    with _lock:
        if _inside == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
