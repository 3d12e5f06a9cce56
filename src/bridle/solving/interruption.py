"""Ctrl-C, turned into a flag."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C into a flag; the second one acts as usual.

    Only the main thread hears of Ctrl-C: whoever starts threads that solve opens this around them
    and hands the flag on, as the rule Interrupted(flag).
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def note(signum: int, frame: Any) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    # A host that handles Ctrl-C in its own way (previous is None or ignored) keeps it.
    if previous is not signal.default_int_handler:
        yield flag.is_set
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield flag.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
