"""The GPU: milliseconds to a certified gap of 1e-3, medians; the first run of each apart.

    python -m benchmarks.gpu [--repeat 5] [--only NAME ...] [--processor]

"resident" times `solve` alone, with the rows on the device; the others start from NumPy arrays.
With --processor the same problems are solved on it, with all cores.
Sets of BRIDLE_DATA that are not there are left out. Without a device one line says why.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from bridle import (
    SVC,
    DualCoordinateDescent,
    Epochs,
    Gap,
    LinearProblem,
    LinearSVC,
    Seconds,
    solve,
)
from bridle.rows.cuda.device import find_device, missing

from benchmarks.data import Missing, corpus, load, real

TOL = 1e-3
LIMIT = 60.0  # seconds that a run may take


@dataclass(frozen=True)
class Work:
    """What to do on a device: returns the relative gap that was certified."""

    name: str
    prepare: Callable[[str], Callable[[], float]]
    must: str
    goal: str


def solved(problem: LinearProblem, solver: Any = "auto") -> float:
    found = solve(problem, solver, stop=Gap(TOL) | Seconds(LIMIT) | Epochs(10**6))
    return float(found.certificate.relative_gap)


@cache
def texts() -> tuple[Any, np.ndarray]:
    return corpus(781_265)()


@cache
def on(device: str, loss: str) -> LinearProblem:
    X, y = texts()
    return LinearProblem(X, y, 1.0, loss=loss, device=device)


def resident(C: float, loss: str = "hinge", solver: Any = "auto") -> Any:
    def prepare(device: str) -> Callable[[], float]:
        problem = on(device, loss).variant(C=C)
        return lambda: solved(problem, solver)

    return prepare


def copied(C: float) -> Any:
    def prepare(device: str) -> Callable[[], float]:
        X, y = texts()
        return lambda: solved(LinearProblem(X, y, C, device=device))

    return prepare


def covtype(device: str) -> Callable[[], float]:
    data = load("covtype")
    X = np.ascontiguousarray(data.X.toarray())
    return lambda: solved(LinearProblem(X, data.y, 100.0, device=device))


def all_classes(device: str) -> Callable[[], float]:
    X, y = real_classes()
    machine = LinearSVC(C=1.0, loss="hinge", tol=TOL, device=device)
    return lambda: float(max(c.relative_gap for c in machine.fit(X, y).certificates_))


@cache
def real_classes() -> tuple[Any, np.ndarray]:
    return real("multiclass/debian_desc.svm", None)()


def kernel_machine(rows: int) -> Any:
    """Gauss's kernel on so many rows of covtype, C = 10, gamma = 3, from NumPy arrays."""

    def prepare(device: str) -> Callable[[], float]:
        data = load("covtype")
        chosen = np.sort(np.random.default_rng(0).permutation(len(data.y))[:rows])
        X, y = np.ascontiguousarray(data.X[chosen].toarray(), np.float32), data.y[chosen]
        machine = SVC(10.0, gamma=3.0, tol=TOL, max_seconds=5 * LIMIT, device=device)
        return lambda: float(machine.fit(X, y).certificate_.relative_gap)

    return prepare


def kernel_classes(device: str) -> Callable[[], float]:
    """Ten classes of three clouds each, 784 features; a machine for each pair."""
    rng = np.random.default_rng(0)
    centres, code = rng.normal(size=(10, 3, 784)), rng.integers(0, 10, 10_000)
    X = 0.35 * centres[code, rng.integers(0, 3, 10_000)] + rng.normal(size=(10_000, 784))
    X = X.astype(np.float32)
    machine = SVC(1.0, tol=TOL, device=device)
    return lambda: float(max(c.relative_gap for c in machine.fit(X, code).certificates_))


LAM = 1.0 / (781_265 * 1e-4)  # C of lam = 1e-4
ROUNDS = DualCoordinateDescent(asynchronous=False)

WORKS = [
    Work("texts, lam 1e-4, resident", resident(LAM), "5 ms", "2.5 ms"),
    Work("texts, lam 1e-4, in rounds", resident(LAM, solver=ROUNDS), "", ""),
    Work("texts, lam 1e-4, copied", copied(LAM), "60 ms", "35 ms"),
    Work("texts, C = 0.128, resident", resident(0.128), "", ""),
    Work("texts, C = 1, resident", resident(1.0), "60 ms", "25 ms"),
    Work("texts, C = 10, resident", resident(10.0), "", ""),
    Work("texts, C = 100, resident", resident(100.0), "10x", ""),
    Work("texts, C = 1, squared hinge", resident(1.0, "squared_hinge"), "", ""),
    Work("covtype, C = 100, copied", covtype, "5x", "20x"),
    Work("debian_desc, C = 1, all classes", all_classes, "5x", "15x"),
    Work("SVC, covtype, 50,000 rows", kernel_machine(50_000), "3 s", "1 s"),
    Work("SVC, covtype, 581,012 rows", kernel_machine(581_012), "300 s", "60 s"),
    Work("SVC, 10,000 x 784, 10 classes", kernel_classes, "5x", "20x"),
]


def timed(work: Work, device: str, repeat: int) -> tuple[float, float]:
    """The median of the seconds, and the largest gap."""
    run = work.prepare(device)
    run()
    seconds, gaps = [], []
    for _ in range(repeat):
        began = time.perf_counter()
        gaps.append(run())
        seconds.append(time.perf_counter() - began)
        if seconds[-1] > 5:
            break
    return statistics.median(seconds), max(gaps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="works whose name has one of these")
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    why = missing()
    if why is not None:
        raise SystemExit(f"no device: {why}")
    print(f"{find_device().name}\n{'work':34} {'ms':>9} {'gap':>8} {'must':>6} {'goal':>7}")
    for work in WORKS:
        if options.only and not any(name in work.name for name in options.only):
            continue
        try:
            seconds, gap = timed(work, "cuda", options.repeat)
        except Missing as reason:
            print(f"{work.name:34} {reason}")
            continue
        line = f"{work.name:34} {1e3 * seconds:9.2f} {gap:8.1e} {work.must:>6} {work.goal:>7}"
        if options.processor:
            there, reached = timed(work, "cpu", 1)
            short = "" if reached <= TOL else f", where the gap was still {reached:.1e}"
            line += f"   processor {there:.3f} s: {there / seconds:.1f}x{short}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
