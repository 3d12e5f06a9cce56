"""How many threads, and threads that the system may refuse."""

from __future__ import annotations

import functools
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from bridle import _core

MOST = 2**15  # more than any machine has
# Seconds. Python hears of signals between its own steps: a Ctrl-C that comes just before a wait
# without end would be heard at its end.
HEARING = 0.1
P = ParamSpec("P")
T = TypeVar("T")


def check_threads(n_threads: int | None) -> int:
    """The number of threads.

    None: of BRIDLE_THREADS, else all that this process may use; -1: all that it may use, -2: all
    but one, and so on, as joblib has it.
    """
    if n_threads is None:
        return _threads_of_environment() or usable_threads()
    n = int(n_threads)
    if n == 0 or abs(n) >= MOST:
        raise ValueError(
            f"n_threads must be at least 1, and below {MOST}, or -1 for all cores that this "
            f"process may use, got {n_threads}"
        )
    return n if n > 0 else max(1, usable_threads() + 1 + n)


def usable_threads() -> int:
    """As many as the hardware has, the process may run on, and its environment allows.

    That is what `taskset` and the scheduler say, the share of processor time of the control group
    (of a container), and OMP_NUM_THREADS, by which joblib limits the threads within its workers.
    """
    limits = [_core.hardware_threads(), _group_limit(), _threads_of_openmp()]
    if hasattr(os, "sched_getaffinity"):
        limits.append(len(os.sched_getaffinity(0)))
    return max(1, min(limit for limit in limits if limit is not None))


def _threads_of_openmp() -> int | None:
    """The first of OMP_NUM_THREADS, which may be a list; what is no number is not ours to judge."""
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(said) if said.isascii() and said.isdigit() and int(said) else None


@functools.cache
def _group_limit() -> int | None:
    """Of the control groups that this process is in, the smallest share, rounded up."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    shares = []
    for line in lines:
        controllers, group = line.split(":", 2)[1:]
        root = Path("/sys/fs/cgroup")
        if controllers:
            root /= controllers
        if not controllers or "cpu" in controllers.split(","):
            here = root / group.lstrip("/")
            above = [folder for folder in here.parents if folder.is_relative_to(root)]
            shares += [_share(folder) for folder in (here, *above)]
    found = [share for share in shares if share is not None]
    return math.ceil(min(found)) if found else None


def _share(folder: Path) -> float | None:
    """Processors' worth of time of one control group; None if it has no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8").strip()
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


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


class _Handovers:
    """While many threads of Python solve problems, the interpreter changes hands sooner.

    Each asks for its lock hundreds of times a problem, for some microseconds, and may wait for the
    usual 5 ms: with 16 threads that was a fifth to a third of a path's and a cross-validation's
    time. With 4 it made no difference.
    """

    MANY, SOON = 5, 5e-5  # threads; seconds

    def __init__(self) -> None:
        self._lock, self._n, self._usual = threading.Lock(), 0, 0.0

    def begin(self) -> None:
        """For one more pool of threads."""
        with self._lock:
            if self._n == 0:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, self.SOON))
            self._n += 1

    def end(self) -> None:
        """As usual, after the last one."""
        with self._lock:
            self._n -= 1
            if self._n == 0:
                sys.setswitchinterval(self._usual)


_handovers = _Handovers()


class Threads(Executor):
    """At most so many threads: fewer, if the system gives no more of them.

    If it gives none, work is done by whoever asks for it, when it is asked for. (A pool of the
    standard library raises RuntimeError, with the work left in its queue.)

    sharing: so many threads, those that the core takes for each work included, are for all of them
    together: what has no work leaves its place to the others.
    """

    def __init__(self, most: int, name: str = "bridle", *, sharing: int | None = None) -> None:
        self._places = None if sharing is None else _core.Places(sharing)
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
        self._hastens = sharing is not None and len(self._threads) >= _handovers.MANY
        if self._hastens:
            _handovers.begin()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The result to come; here it is, if there are no threads."""
        if self._closed:
            raise RuntimeError("these threads were shut down")
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                with nullcontext() if self._places is None else _core.Place(self._places):
                    result = fn(*args, **kwargs)
                future.set_result(result)
            except BaseException as error:
                future.set_exception(error)

        if self._threads:
            self._work.put(run)
        else:
            run()
        return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:  # fmt: skip
        """As of every executor; Ctrl-C is heard while the results are waited for."""
        futures = [self.submit(fn, *each) for each in zip(*iterables, strict=False)]

        def results() -> Iterator[T]:
            try:
                for future in futures:
                    while not future.done():
                        wait([future], HEARING)
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads once the work is done."""
        self._closed = True
        for _ in self._threads:
            self._work.put(None)
        if wait:
            for thread in self._threads:
                thread.join()
        if self._hastens:
            self._hastens = False
            _handovers.end()

    def _serve(self) -> None:
        while self._serve_once():
            pass

    def _serve_once(self) -> bool:
        """Whether more may come: nothing does once the program is at its end."""
        try:
            run = self._work.get(timeout=1.0)
        except Empty:  # of a pass that was left in the middle, nobody ends the threads
            return threading.main_thread().is_alive()
        if run is None:
            return False
        run()
        return True
