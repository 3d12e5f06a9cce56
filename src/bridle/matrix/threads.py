"""How many threads, and threads that the system may refuse."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from bridle import _core

MOST = 2**15  # more than any machine has
P = ParamSpec("P")
T = TypeVar("T")


def check_threads(n_threads: int | None) -> int:
    """The number of threads; None: of BRIDLE_THREADS, else as many as the hardware has."""
    if n_threads is None:
        return _threads_of_environment() or _core.hardware_threads()
    if not 1 <= int(n_threads) < MOST:
        raise ValueError(f"n_threads must be at least 1, and below {MOST}, got {n_threads}")
    return int(n_threads)


def _threads_of_environment() -> int | None:
    said = os.environ.get("BRIDLE_THREADS", "").strip()
    if not said:
        return None
    if not (said.isascii() and said.isdigit() and 1 <= int(said) < MOST):
        raise ValueError(
            f"the environment variable BRIDLE_THREADS must be a number from 1 to {MOST - 1}, "
            f"got {said!r}"
        )
    return int(said)


class Threads(Executor):
    """At most so many threads: fewer, if the system gives no more of them.

    If it gives none, work is done by whoever asks for it, when it is asked for. (A pool of the
    standard library raises RuntimeError, with the work left in its queue.)
    """

    def __init__(self, most: int, name: str = "bridle") -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        for k in range(most):
            thread = threading.Thread(target=self._serve, name=f"{name}-{k}")
            try:
                thread.start()
            except (RuntimeError, MemoryError):
                break
            self._threads.append(thread)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The result to come; here it is, if there are no threads."""
        if self._closed:
            raise RuntimeError("these threads were shut down")
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        if self._threads:
            self._work.put(run)
        else:
            run()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads once the work is done."""
        self._closed = True
        for _ in self._threads:
            self._work.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        run: Any
        while (run := self._work.get()) is not None:
            run()
            del run  # with the result that it may hold
