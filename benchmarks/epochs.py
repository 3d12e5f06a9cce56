"""What an epoch of each stochastic solver costs, in sequential margin passes of the same run.

    python benchmarks/epochs.py [--rows 200000] [--repeat 5]

One thread, interleaved, the median of the repeats. The margin pass is X @ w by the core and by
scipy; the peer is scikit-learn's SGDClassifier (one more epoch of a fitted model, shuffled).
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np
from bridle import LinearProblem, Pegasos, _core, lam_to_C
from bridle.data import make_corpus
from bridle.solvers import solver_from

SOLVERS = {
    "pegasos": Pegasos(),
    "pegasos, full shuffle": Pegasos(bucket=1),
    "svmsgd": solver_from("svmsgd", eta0=2.0),
    "asgd": solver_from("asgd", eta0=2.0),
    "sgd-qn": solver_from("sgd-qn", eta0=2.0),
    "sgd-r": solver_from("sgd-r"),
    "sgd-s": solver_from("sgd-s"),
    "sgd-m": solver_from("sgd-m"),
    "mpu": solver_from("mpu"),
    "norma": solver_from("norma", eta0=2.0),
    "perceptron": solver_from("perceptron"),
    "dcd": solver_from("dcd"),
}


def seconds(work):
    clock = time.perf_counter()
    work()
    return time.perf_counter() - clock


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--lam", type=float, default=1e-4)
    options.add_argument("--repeat", type=int, default=5)
    args = options.parse_args()
    from sklearn.linear_model import SGDClassifier

    X, y = make_corpus(args.rows)
    problem = LinearProblem(X, y, lam_to_C(args.lam, args.rows), n_threads=1)
    w, out = np.ones(problem.n_features + 1), np.empty(args.rows)
    w32 = w[:-1].astype(X.dtype)
    runs = {
        name: solver.iterates(problem, rng=_core.Rng(0), pace=None)
        for name, solver in SOLVERS.items()
    }
    peer = SGDClassifier(alpha=args.lam, fit_intercept=False, max_iter=1, tol=None)
    works = {
        "margin pass, core": lambda: _core.rows.scores(problem.rows.view, w, out, 1),
        "margin pass, scipy": lambda: X @ w32,
        "SGDClassifier": lambda: peer.partial_fit(X, y, classes=[-1, 1]),
    } | {name: (lambda run=run: next(run)) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repeat in range(args.repeat + 1):
            for name, work in works.items():
                elapsed = seconds(work)
                if repeat:  # the first one sets up
                    times[name].append(elapsed)
    passes = {name: statistics.median(t) for name, t in times.items()}
    core, scipy = passes["margin pass, core"], passes["margin pass, scipy"]
    print(f"{args.rows} rows, {X.nnz / args.rows:.0f} non-zeros each, median of {args.repeat}")
    print(f"{'':24}{'ms':>8}{'core passes':>13}{'scipy passes':>14}")
    for name, median in passes.items():
        print(f"{name:24}{1e3 * median:8.1f}{median / core:13.2f}{median / scipy:14.2f}")


if __name__ == "__main__":
    main()
