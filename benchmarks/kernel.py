"""smo against LIBSVM, as scikit-learn's SVC, at the same certified gap.

SVC runs at its tolerance; its solution's gap is certified by our problem; smo then runs to that
gap, its own certificates included in its time. Runs alternate. Seconds of the clock, and in
brackets of the processor, which a busy machine does not stretch. Ours runs in float64 (what SVC
converts everything to) and in float32. With --exact both run to 1e-6 or better and the optima are
compared.

    BRIDLE_DATA=... python benchmarks/kernel.py [--rows 10000] [--repeat 3] [--exact]
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from bridle import Gap, KernelProblem, Seconds, Smo, solve
from bridle.data import read_svmlight
from bridle.objective.point import Iterate
from bridle.problems.kernel import Expansion
from sklearn import svm
from sklearn.datasets import load_digits

CACHE_MB = 500


def read(name):
    """A file of the data folder, unpacked."""
    path = Path(os.environ["BRIDLE_DATA"]) / name
    packed = next(
        p for p in (path.with_name(path.name + end) for end in (".xz", ".bz2", "")) if p.exists()
    )
    opener = {".xz": lzma.open, ".bz2": bz2.open}.get(packed.suffix, open)
    with opener(packed, "rb") as source, tempfile.NamedTemporaryFile() as target:
        target.write(source.read())
        target.flush()
        return read_svmlight(target.name, dtype=np.float64)


def data_sets(rows):
    """(name, X, y, C, gamma)"""
    X, y = load_digits(return_X_y=True)
    yield "digits, even or odd", X / 16.0, np.where(y % 2 == 0, 1.0, -1.0), 10.0, "scale"
    if "BRIDLE_DATA" not in os.environ:
        print("BRIDLE_DATA is not set: digits only")
        return
    for name, C, gamma, dense in (
        ("binary/a9a", 1.0, 0.05, False),
        ("binary/ijcnn1.trn", 10.0, 2.0, True),
        ("binary/covtype.binary.scale", 10.0, 2.0, True),
    ):
        X, y = read(name)
        y = np.where(y == y.max(), 1.0, -1.0)
        if len(y) > rows:
            chosen = np.sort(np.random.default_rng(0).choice(len(y), rows, replace=False))
            X, y = X[chosen], y[chosen]
        yield f"{name}, {len(y)} rows", (X.toarray() if dense else X), y, C, gamma


def judged(problem, peer):
    """The certificate of LIBSVM's solution."""
    c = np.zeros(problem.n_rows)
    coefficients = peer.dual_coef_
    coefficients = coefficients.toarray() if hasattr(coefficients, "toarray") else coefficients
    c[peer.support_] = coefficients[0]
    return problem.judge(Iterate(0, 0, Expansion(c), float(peer.intercept_[0]), c * problem.y))


def clocked(work):
    """(seconds by the clock, seconds of the processor), result"""
    clock, processor = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - clock, time.process_time() - processor), result


def compare(name, X, y, C, gamma, tol, repeat):
    problem = KernelProblem(X, y, C, gamma=gamma, bias="free")
    gamma = problem.kernel.gamma

    def theirs():
        return svm.SVC(C=C, gamma=gamma, tol=tol, cache_size=CACHE_MB).fit(X, y)

    def ours(dtype, goal):
        mine = KernelProblem(X.astype(dtype), y, C, gamma=gamma, bias="free")
        found = solve(mine, Smo(cache_mb=CACHE_MB), stop=Gap(goal) | Seconds(600))
        assert found.converged, found.message

    times = {"SVC": [], "float64": [], "float32": []}
    goal = None
    for _ in range(repeat):
        seconds, peer = clocked(theirs)
        times["SVC"].append(seconds)
        if goal is None:
            verdict = judged(problem, peer)
            goal = (verdict.primal - verdict.dual) / verdict.primal
        for dtype in ("float64", "float32"):
            times[dtype].append(clocked(lambda dtype=dtype, goal=goal: ours(dtype, goal))[0])
    median = {key: np.median(value, axis=0) for key, value in times.items()}
    line = f"{name:40} gap {goal:.1e} support {len(peer.support_):6d}"
    for key, (wall, cpu) in median.items():
        line += f"  {key} {wall:6.2f} s [{cpu:6.2f}]"
        if key != "SVC":
            ratios = median["SVC"] / median[key]
            line += f" = {ratios[0]:.1f}x [{ratios[1]:.1f}x]"
    print(line, flush=True)


def exact(name, X, y, C, gamma):
    problem = KernelProblem(X, y, C, gamma=gamma, bias="free")
    seconds, found = clocked(
        lambda: solve(problem, Smo(cache_mb=CACHE_MB), stop=Gap(1e-7) | Seconds(600))
    )
    theirs, peer = clocked(
        lambda: svm.SVC(C=C, gamma=problem.kernel.gamma, tol=1e-6, cache_size=CACHE_MB).fit(X, y)
    )
    verdict = judged(problem, peer)
    ours = found.certificate
    apart = [abs(1 - x / y) for x, y in ((ours.primal, verdict.primal), (ours.dual, verdict.dual))]
    print(
        f"{name:40} ours {seconds[1]:6.1f} s of processor, gap {ours.relative_gap:.0e}; "
        f"LIBSVM {theirs[1]:6.1f} s, "
        f"gap {1 - verdict.dual / verdict.primal:.0e}; apart: primal {apart[0]:.1e}, "
        f"dual {apart[1]:.1e}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-3, help="of SVC")
    parser.add_argument("--exact", action="store_true")
    options = parser.parse_args()
    for data in data_sets(options.rows):
        if options.exact:
            exact(*data)
        else:
            compare(*data, options.tol, options.repeat)


if __name__ == "__main__":
    main()
