"""A step of Pegasos costs its rows' non-zeros, not the features: python -m benchmarks.steps

Rows of 75 non-zeros at random columns, from 10^4 to 10^7 features, interleaved and repeated; the
least processor time of a step at each width and its ratio to the narrowest. "used": the same number
of columns occurs at every width, spread over it, as in data whose vocabulary is smaller than its
numbering; what grows is the dimension alone. "uniform": every column is as likely, so that the
weights outgrow the caches: what that adds is the memory's doing, not the method's.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from bridle import LinearProblem, _core
from bridle.solvers import Pegasos

WIDTHS = (10**4, 10**5, 10**6, 10**7)
N_ROWS, NNZ, ROUNDS = 150_000, 75, 4


def corpus(n_features: int, law: str) -> LinearProblem:
    rng = np.random.default_rng(0)
    n_used = WIDTHS[0] if law == "used" else n_features
    columns = rng.integers(0, n_used, (N_ROWS, NNZ)) * (n_features // n_used)
    columns = np.sort(columns.astype(np.int32), axis=1)
    offsets = np.arange(0, N_ROWS * NNZ + 1, NNZ, dtype=np.int32)
    values = rng.random(N_ROWS * NNZ, np.float32) / NNZ
    X = sp.csr_matrix((values, columns.ravel(), offsets), shape=(N_ROWS, n_features))
    X.sum_duplicates()
    return LinearProblem(X, np.where(rng.random(N_ROWS) < 0.5, 1.0, -1.0), C=1.0)


def seconds_of_a_step(problem: LinearProblem) -> float:
    """The second of two epochs; nothing but steps is timed, reading out w costs O(features)."""
    iterates = Pegasos().iterates(problem, rng=_core.Rng(0), pace=lambda step: 10**9)
    next(iterates)
    few = Pegasos().iterates(problem, rng=_core.Rng(0), pace=lambda step: 1)
    next(few)
    began = time.process_time()
    next(iterates)
    epoch = time.process_time() - began
    began = time.process_time()
    next(few)
    return (epoch - (time.process_time() - began)) / (problem.n_rows - 1)


def main() -> None:
    for law in ("used", "uniform"):
        problems = {width: corpus(width, law) for width in WIDTHS}
        times: dict[int, list[float]] = {width: [] for width in WIDTHS}
        for _ in range(ROUNDS):
            for width, problem in problems.items():
                times[width].append(seconds_of_a_step(problem))
        narrow = min(times[WIDTHS[0]])
        for width in WIDTHS:
            step = min(times[width])
            print(
                f"{law:7s} {width:>10,} features: {1e9 * step:7.0f} ns a step, {step / narrow:.2f}x"
            )


if __name__ == "__main__":
    main()
