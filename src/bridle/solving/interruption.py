"""Ctrl-C and SIGTERM, turned into flags."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from bridle.errors import Interruption

# What a function does with Ctrl-C once it has its best answer: raises it, or returns the answer.
Interrupt = Literal["raise", "return"]

TERMINATED = 128 + signal.SIGTERM  # the exit code by which shells know it


class Flag:
    """Whether there was a Ctrl-C, or SIGTERM where the program is `terminable`."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __call__(self) -> bool:
        """Whether it is up."""
        return self._event.is_set() or _termination.asked

    def set(self) -> None:
        """For a Ctrl-C that somebody else has heard of: a callback."""
        self._event.set()

    def raised(self, interrupt: Interrupt, answer: Any) -> None:
        """Raises what was put off, with the answer, unless it is to be returned."""
        if self._event.is_set() and interrupt == "raise":
            raise Interruption(answer)


_open: list[Flag] = []  # the main thread's, while it defers Ctrl-C


@contextmanager
def deferred_interrupt() -> Iterator[Flag]:
    """Turns the first Ctrl-C into a flag; the second one acts as usual.

    Blocks inside of one another share the flag, and the outermost says what becomes of it. Only the
    main thread hears of Ctrl-C: whoever starts threads that solve opens this around them and hands
    the flag on, as the rule Interrupted(flag).
    """
    if threading.current_thread() is not threading.main_thread():
        yield Flag()
        return
    previous, flag = signal.getsignal(signal.SIGINT), _open[-1] if _open else Flag()

    def note(signum: int, frame: Any) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    with deferred_termination():
        # A host that handles Ctrl-C in its own way (previous is None or ignored) keeps it.
        if _open or previous is not signal.default_int_handler:
            yield flag
            return
        signal.signal(signal.SIGINT, note)
        _open.append(flag)
        try:
            yield flag
        finally:
            _open.pop()
            signal.signal(signal.SIGINT, previous)


def check_interrupt(interrupt: str) -> None:
    """ValueError if it is none of the two ways."""
    if interrupt not in ("raise", "return"):
        raise ValueError(f'interrupt must be "raise" or "return", got {interrupt!r}')


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
