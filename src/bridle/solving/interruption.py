"""Ctrl-C and SIGTERM, turned into flags."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TERMINATED = 128 + signal.SIGTERM  # the exit code by which shells know it


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C into a flag; the second one acts as usual.

    Only the main thread hears of Ctrl-C: whoever starts threads that solve opens this around them
    and hands the flag on, as the rule Interrupted(flag). SIGTERM raises the same flag, where the
    program says `terminable`.
    """
    flag = threading.Event()

    def interrupted() -> bool:
        return flag.is_set() or _termination.asked

    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    previous = signal.getsignal(signal.SIGINT)

    def note(signum: int, frame: Any) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    with deferred_termination():
        # A host that handles Ctrl-C in its own way (previous is None or ignored) keeps it.
        if previous is not signal.default_int_handler:
            yield interrupted
            return
        signal.signal(signal.SIGINT, note)
        try:
            yield interrupted
        finally:
            signal.signal(signal.SIGINT, previous)


def cause() -> str:
    """What raised the flag, for messages."""
    return "by SIGTERM" if _termination.asked else "by Ctrl-C"


class Terminated(SystemExit):
    """SIGTERM, where there was nothing to keep."""

    def __init__(self) -> None:
        super().__init__(TERMINATED)


class _Termination:
    """What the handler of SIGTERM knows; it runs in the main thread, as all that writes here."""

    asked = False
    deferred = 0  # how many blocks wait for the end of their work


_termination = _Termination()


@contextmanager
def terminable() -> Iterator[Callable[[], bool]]:
    """For a program's outermost block: SIGTERM raises Terminated, unless it is deferred.

    The function says whether there was a SIGTERM. A host that handles it in its own way keeps it,
    as do threads other than the main one.
    """
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield lambda: False
        return

    def note(signum: int, frame: Any) -> None:
        _termination.asked = True
        if not _termination.deferred:
            raise Terminated

    signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: _termination.asked
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _termination.asked = False


@contextmanager
def deferred_termination() -> Iterator[None]:
    """SIGTERM ends the solves inside early; Terminated is raised at the end of the block."""
    _termination.deferred += 1
    try:
        yield
    finally:
        _termination.deferred -= 1
    if _termination.asked and not _termination.deferred:
        raise Terminated


@contextmanager
def prompt_termination() -> Iterator[None]:
    """Inside a block that defers it: SIGTERM raises Terminated, even one that came before."""
    before, _termination.deferred = _termination.deferred, 0
    try:
        if _termination.asked:
            raise Terminated
        yield
    finally:
        _termination.deferred = before
