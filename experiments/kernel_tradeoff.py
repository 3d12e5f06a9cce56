"""Error against seconds: what exactness costs, and what approximation loses.

Exact (smo), kernel Pegasos, budgeted Pegasos, Nystrom and random Fourier features with a linear
solver, on one data set with one kernel: test error and training time of each, for several budgets.

    BRIDLE_DATA=... python experiments/kernel_tradeoff.py [--rows 20000] [--data ijcnn1 | covtype]
                                                          [--out kernel_tradeoff.png]
"""

from __future__ import annotations

import argparse
import lzma
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from bridle import (
    BudgetedPegasos,
    Epochs,
    Gap,
    KernelProblem,
    Nystrom,
    RandomFeatures,
    Seconds,
    solve,
)
from bridle.data import read_svmlight

DATA = {
    "ijcnn1": ("binary/ijcnn1.trn", "binary/ijcnn1.tst", 10.0, 2.0),
    "covtype": ("binary/covtype.binary.scale", None, 10.0, 8.0),
}


def read(name):
    path = Path(os.environ["BRIDLE_DATA"]) / f"{name}.xz"
    with lzma.open(path, "rb") as source, tempfile.NamedTemporaryFile() as target:
        target.write(source.read())
        target.flush()
        X, y = read_svmlight(target.name, dtype=np.float32)
    return X.toarray(), np.where(y == y.max(), 1.0, -1.0)


def load(name, rows, seed=0):
    train, test, C, gamma = DATA[name]
    X, y = read(train)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    if test is None:
        X_test, y_test = X[order[-20000:]], y[order[-20000:]]
        order = order[:-20000]
    else:
        X_test, y_test = read(test)
        if X_test.shape[1] < X.shape[1]:
            X_test = np.pad(X_test, ((0, 0), (0, X.shape[1] - X_test.shape[1])))
        chosen = rng.choice(len(y_test), min(20000, len(y_test)), replace=False)
        X_test, y_test = X_test[chosen], y_test[chosen]
    return X[order[:rows]], y[order[:rows]], X_test, y_test, C, gamma


def runs(X, y, C, gamma):
    """(method, setting, function that trains and returns a predictor and a remark)"""

    def kernel(solver, stop):
        problem = KernelProblem(X, y, C, gamma=gamma)
        found = solve(problem, solver, stop=stop)
        return lambda new: problem.decision(new, found.w, found.b), str(found.certificate)

    def features(make):
        made = make()
        found = solve(made.problem(X, y, C), stop=Gap(1e-2) | Seconds(60))
        remark = f"{found.certificate}; {made.error}"
        return lambda new: made.transform(new) @ found.w + found.b, remark

    for gap in (1e-1, 1e-3):
        yield "exact (smo)", f"gap {gap:g}", lambda gap=gap: kernel("smo", Gap(gap))
    for epochs in (1, 3, 10):
        yield "pegasos", f"{epochs} epochs", lambda n=epochs: kernel("pegasos", Epochs(n))
    for budget in (50, 200, 500):
        solver = BudgetedPegasos(budget=budget, maintenance="merging")
        yield (
            "budgeted pegasos (merging)",
            f"budget {budget}",
            lambda s=solver: kernel(s, Epochs(1)),
        )
    for r in (50, 200, 800):
        yield "Nystrom", f"{r}", lambda r=r: features(lambda: Nystrom(X, r, gamma=gamma))
        yield (
            "random features", f"{r}",
            lambda r=r: features(lambda: RandomFeatures(X, r, gamma=gamma)),
        )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--data", choices=list(DATA), default="ijcnn1")
    parser.add_argument("--out", default="kernel_tradeoff.png")
    options = parser.parse_args()
    X, y, X_test, y_test, C, gamma = load(options.data, options.rows)
    points = {}
    for method, setting, train in runs(X, y, C, gamma):
        clock = time.perf_counter()
        processor = time.process_time()
        predict, remark = train()
        seconds = time.perf_counter() - clock
        processor = time.process_time() - processor
        error = float(np.mean(np.sign(predict(X_test)) != y_test))
        points.setdefault(method, []).append((processor, 100 * error, setting))
        print(f"{method:28} {setting:12} {seconds:8.2f} s [{processor:7.2f} s of processor] "
              f"error {error:7.2%}  {remark}", flush=True)  # fmt: skip
    draw(points, f"{options.data}, {len(y):,} rows, rbf, gamma {gamma:g}, C {C:g}", options.out)


def draw(points, title, out):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for marker, (method, line) in zip("osD^v", points.items(), strict=False):
        x, errors, settings = zip(*sorted(line), strict=True)
        axes.plot(x, errors, marker=marker, label=method)
        for a, b, text in zip(x, errors, settings, strict=True):
            axes.annotate(text, (a, b), textcoords="offset points", xytext=(5, 5), fontsize=7)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="processor seconds to train",
        ylabel="test error, %",
        title=title,
    )
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.grid(alpha=0.3, which="both")
    axes.margins(x=0.12)
    axes.legend(loc="upper right")
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main()
