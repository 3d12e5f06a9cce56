"""A device that is the processor: the same kernels compiled as C++, one thread after the other.

A group of threads is one thread here, and so is a block (LANES is 1), so that nothing waits for
anything. NumPy stands in for CuPy. This is slow, and finds what is wrong with the arithmetic, the
indices and the Python around it; not what many threads at once do to each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from bridle.rows.cuda.device import Device, source_text

SHIM = r"""
#include <cmath>
#include <cstring>
#include <math.h>
#define LANES 1
#define __global__
#define __device__
#define __shared__ static thread_local
#define __syncthreads()
struct Three { unsigned x, y, z; };
static thread_local Three threadIdx{0, 0, 0}, blockDim{1, 1, 1};
static thread_local Three blockIdx{0, 0, 0}, gridDim{1, 1, 1};
extern "C" void set_block(unsigned k, unsigned n) { blockIdx.x = k; gridDim.x = n; }
template <class T> T __shfl_xor_sync(unsigned, T value, int, int) { return value; }
template <class T> T __shfl_sync(unsigned, T value, int, int) { return value; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> T atomicAdd(T *p, T v) { T old = *p; *p += v; return old; }
template <class T> T atomicMax(T *p, T v) { T old = *p; if (v > *p) *p = v; return old; }
template <class T> T atomicOr(T *p, T v) { T old = *p; *p |= v; return old; }
static long long __double2ll_rn(double x) { return llrint(x); }
static long long __double_as_longlong(double x) { long long v; memcpy(&v, &x, 8); return v; }
static double __longlong_as_double(long long v) { double x; memcpy(&x, &v, 8); return x; }
"""
FOLDER = Path(tempfile.gettempdir()) / "bridle-kernels-on-host"
COMPILER = shutil.which("g++") or shutil.which("clang++")


@functools.cache
def compiled(source, macros):
    text = SHIM + source_text(source)
    options = [f"-D{name}={value}" for name, value in macros if name != "LANES"]
    key = hashlib.blake2b("\n".join([text, *options]).encode(), digest_size=12).hexdigest()
    library = FOLDER / f"{source}-{key}.so"
    if not library.exists():
        FOLDER.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            code, made = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
            code.write_text(text)
            command = [COMPILER, "-O1", "-std=c++17", "-shared", "-fPIC", "-w", *options]
            subprocess.run([*command, str(code), "-o", str(made)], check=True)
            made.replace(library)
    return ctypes.CDLL(str(library))


class HostDevice(Device):
    """See above."""

    name = "the processor"
    multiprocessors = 2

    def __init__(self, memory=1 << 40):
        super().__init__(np)
        self.memory = memory

    def free_memory(self):
        return self.memory

    def kernel(self, source, name, **macros):
        library = compiled(source, tuple(sorted(macros.items())))
        function = getattr(library, name)
        function.restype = None

        def launch(grid, block, arguments):
            given = [_argument(value) for value in arguments]
            for k in range(grid[0]):
                library.set_block(ctypes.c_uint(k), ctypes.c_uint(grid[0]))
                function(*given)

        return launch

    def put_all(self, *arrays):
        return [np.array(values) for values in arrays]

    def get(self, values):
        return np.array(values)

    def wait(self):
        pass

    def apart(self):
        return contextlib.nullcontext()


def _argument(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, np.uint64):
        return ctypes.c_void_p(int(value))
    if isinstance(value, float | np.float64):
        return ctypes.c_double(float(value))
    if isinstance(value, np.int32):
        return ctypes.c_int(int(value))
    assert isinstance(value, int | np.int64), type(value)
    return ctypes.c_longlong(int(value))
