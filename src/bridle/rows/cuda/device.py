"""The device: CuPy and a GPU, found when they are asked for, or one line that says what is missing.

Kernels are the files `*.cu` beside this module, written for one type of values and of columns at a
time, which macros name. NVRTC compiles them when they are first used; CuPy keeps the results.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from bridle.errors import DeviceError
from bridle.matrix.threads import Threads
from numpy.typing import NDArray

# Where to compute: on the processor, on the GPU, or where it is predicted to take less time.
Where = Literal["cpu", "cuda", "auto"]

SOURCES = Path(__file__).parent
C_TYPES = {"f4": "float", "f8": "double", "i4": "int", "i8": "long long"}

# What is copied to the device goes through pinned memory, piece by piece: while one piece is on its
# way, threads fill the others.
PIECE = 4 << 20
FILLING = 8


def check_where(device: str) -> Where:
    """ValueError unless it is one of them."""
    if device not in get_args(Where):
        raise ValueError(f'device must be "cpu", "cuda" or "auto", got {device!r}')
    return device  # type: ignore[return-value]


@cache
def missing() -> str | None:
    """Why there is no device, in one line; None if there is one."""
    try:
        import cupy
    except Exception as error:
        first = str(error).strip().splitlines()
        why = f" ({first[0]})" if first and not isinstance(error, ModuleNotFoundError) else ""
        return f"CuPy is not installed{why}: pip install 'bridle[cuda]'"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"CuPy finds no GPU: {str(error).strip().splitlines()[0]}"
    return None if count else "this machine has no GPU"


@cache
def find_device() -> Device:
    """The current GPU; DeviceError says why there is none."""
    why = missing()
    if why is not None:
        raise DeviceError(f'device="cuda" is not available: {why}')
    import cupy

    return Device(cupy)


class _Thread(threading.local):
    set = False  # whether this thread has its stream


class Device:
    """A GPU: its arrays (`xp` is CuPy), its kernels, and copies to it and from it."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self._modules: dict[tuple[Any, ...], Any] = {}
        self._kernels: dict[tuple[Any, ...], Any] = {}
        self.started = False  # whether kernels have run in this process
        self._here = _Thread()

    @cached_property
    def properties(self) -> Mapping[str, Any]:
        """What the driver says of it."""
        runtime = self.xp.cuda.runtime
        found: Mapping[str, Any] = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        return found

    @property
    def name(self) -> str:
        """As the vendor calls it."""
        return str(self.properties["name"].decode())

    @property
    def multiprocessors(self) -> int:
        """How many."""
        return int(self.properties["multiProcessorCount"])

    def free_memory(self) -> int:
        """Bytes that arrays may still take, those that CuPy holds in reserve included."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        pool = self.xp.get_default_memory_pool()
        return int(free + pool.total_bytes() - pool.used_bytes())

    def kernel(self, source: str, name: str, **macros: Any) -> Any:
        """A kernel of a source, called as kernel((blocks,), (threads,), arguments)."""
        self._own_stream()
        named = (source, name, *macros.items())
        if named not in self._kernels:
            key, self.started = (source, *sorted(macros.items())), True
            if key not in self._modules:
                options = ("-std=c++17", *(f"-D{macro}={value}" for macro, value in macros.items()))
                self._modules[key] = self.xp.RawModule(code=source_text(source), options=options)
            self._kernels[named] = self._modules[key].get_function(name)
        return self._kernels[named]

    def _own_stream(self) -> None:
        """Problems that are solved in threads of their own do not wait for each other."""
        if threading.current_thread() is not threading.main_thread() and not self._here.set:
            self.xp.cuda.Stream.ptds.use()
            self._here.set = True

    def put(self, values: NDArray[Any]) -> Any:
        """A copy on the device."""
        return self.put_all(values)[0]

    def put_all(self, *arrays: NDArray[Any]) -> list[Any]:
        """Copies on the device, of all of them at once."""
        made, large = [], []
        for values in map(np.ascontiguousarray, arrays):
            made.append(self.xp.empty(values.shape, values.dtype))
            if values.nbytes <= PIECE:
                made[-1].set(values)
            else:
                large.append((values.reshape(-1).view(np.uint8), made[-1]))
        if large:
            self._copy(large)
        return made

    def _copy(self, arrays: list[tuple[NDArray[np.uint8], Any]]) -> None:
        """In pieces: each thread has two buffers, fills one while the other is on its way."""
        xp, device = self.xp, self.xp.cuda.Device().id
        pieces = [
            (source[begin : begin + PIECE], out.data + begin)
            for source, out in arrays for begin in range(0, len(source), PIECE)
        ]  # fmt: skip
        n_threads = min(FILLING, len(pieces), os.cpu_count() or 1)

        def work(first: int) -> None:
            with xp.cuda.Device(device), xp.cuda.Stream(non_blocking=True) as stream:
                pinned = [xp.cuda.alloc_pinned_memory(PIECE) for _ in range(2)]
                buffers = [np.frombuffer(memory, np.uint8, PIECE) for memory in pinned]
                sent = [xp.cuda.Event(disable_timing=True) for _ in range(2)]
                for turn, (part, target) in enumerate(pieces[first::n_threads]):
                    k = turn % 2
                    sent[k].synchronize()
                    np.copyto(buffers[k][: len(part)], part)
                    target.copy_from_host_async(buffers[k].ctypes.data, len(part), stream)
                    sent[k].record(stream)
                stream.synchronize()

        xp.cuda.get_current_stream().synchronize()  # the memory may still be in use
        with Threads(n_threads) as pool:
            list(pool.map(work, range(n_threads)))

    def apart(self) -> Any:
        """A stream of its own, as a context: copies in it do not wait for kernels."""
        return self.xp.cuda.Stream(non_blocking=True)

    def get(self, values: Any) -> NDArray[Any]:
        """A copy in this memory."""
        found: NDArray[Any] = self.xp.asnumpy(values)
        return found

    def wait(self) -> None:
        """Until all that was asked of the device is done."""
        self.xp.cuda.get_current_stream().synchronize()


@cache
def source_text(name: str) -> str:
    """A source with what all of them have in common before it."""
    return "\n".join((SOURCES / f"{part}.cu").read_text("utf-8") for part in ("common", name))
