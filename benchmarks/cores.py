"""What more cores buy: the same work by 1, 2, 4, 8, 16 threads.

    python -m benchmarks.cores [--threads 1,2,4,8,16] [--rounds 5] [--rows 781265] [--only NAME ...]
                               [--picture docs/pictures/cores.png] [--json PATH]

Wall seconds, medians, the numbers of threads taking turns (and Snap ML after each, where it is
installed: without a proof, and its best of several tolerances). What a fit returns is compared bit
for bit. The last column is the time of one thread over that of the most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bridle
import numpy as np
from bridle.data import make_corpus, read_svmlight
from scipy import sparse

from benchmarks.pictures import save_pair

Fit = Callable[[int], Any]  # of a number of threads; what it returns must not depend on that


def texts(n_rows: int, C: float | None) -> Callable[[], Fit]:
    """A corpus; C: by default lam = 1e-4."""

    def make() -> Fit:
        X, y = make_corpus(n_rows, seed=0)
        cost = 1 / (1e-4 * n_rows) if C is None else C

        def fit(n_threads: int) -> Any:
            model = bridle.LinearSVC(cost, loss="hinge", random_state=0, n_threads=n_threads)
            return model.fit(X, y).coef_

        return fit

    return make


def snap(n_rows: int) -> Callable[[], Fit]:
    """The same at lam = 1e-4 by Snap ML, at the loosest tolerance that gets within 1e-3."""

    def make() -> Fit:
        from snapml import SupportVectorMachine

        X, y = make_corpus(n_rows, seed=0)
        lam = 1e-4
        best = bridle.solve(bridle.LinearProblem(X, y, 1 / (lam * n_rows)), stop=bridle.Gap(1e-6))
        problem = bridle.LinearProblem(X, y, 1 / (lam * n_rows))

        def fit(n_threads: int, tol: float) -> Any:
            model = SupportVectorMachine(
                regularizer=lam * n_rows, loss="hinge", fit_intercept=False, tol=tol,
                max_iter=100, n_jobs=n_threads, random_state=0,
            )  # fmt: skip
            model.fit(X, y)
            return np.asarray(model.coef_, np.float64).ravel()

        known: dict[int, float] = {}

        def enough(n_threads: int) -> float:
            for tol in (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4):
                value = problem.primal(fit(n_threads, tol))
                if value <= 1.001 * best.certificate.primal:
                    return tol
            return 1e-4

        def run(n_threads: int) -> None:
            if n_threads not in known:
                known[n_threads] = enough(n_threads)
            fit(n_threads, known[n_threads])

        return run

    return make


def covtype(C: float) -> Callable[[], Fit]:
    """LinearSVC on the whole of it."""

    def make() -> Fit:
        X, y = real("binary/covtype.binary.scale.xz")

        def fit(n_threads: int) -> Any:
            return bridle.LinearSVC(C, random_state=0, n_threads=n_threads).fit(X, y).coef_

        return fit

    return make


def kernel_machine() -> Fit:
    """SVC on 20,000 rows of covtype."""
    X, y = real("binary/covtype.binary.scale.xz")
    chosen = np.random.default_rng(0).permutation(len(y))[:20_000]
    rows, labels = X[chosen].toarray(), y[chosen]
    return lambda n: bridle.SVC(C=10, gamma=3.0, n_threads=n).fit(rows, labels).dual_coef_


def short_texts() -> tuple[Any, np.ndarray]:
    """117,000 rows of about 12 of 33,000 words, of 45 classes."""
    rng, n, d, k = np.random.default_rng(0), 117_000, 33_000, 45
    y = rng.choice(k, size=n, p=(p := 1.0 / np.arange(1, k + 1)) / p.sum())
    words = np.minimum((d * rng.random((n, 12)) ** 3).astype(np.int64), d - 1)
    own = (y[:, None] * 97 + (300 * rng.random((n, 4)) ** 2).astype(np.int64)) % d
    words[:, :4] = np.where(rng.random((n, 4)) < 0.6, own, words[:, :4])
    offsets = np.arange(0, 12 * n + 1, 12)
    X = sparse.csr_matrix((np.ones(12 * n, np.float32), words.ravel(), offsets), (n, d))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags_array(1 / norms) @ X, dtype=np.float32), y


def many_classes() -> Fit:
    X, y = short_texts()
    return lambda n: bridle.LinearSVC(1.0, random_state=0, n_threads=n).fit(X, y).coef_


def predictions() -> Fit:
    X, y = short_texts()
    model = bridle.LinearSVC(1.0, random_state=0, tol=0.1).fit(X, y)
    return lambda n: model.set_params(n_threads=n).predict(X)


def path() -> Fit:
    X, y = make_corpus(50_000, seed=0)
    return lambda n: [point.C for point in bridle.path(X, y, 1e-3, 1.0, gap=1e-2, n_threads=n)]


def choosing() -> Fit:
    """LinearSVCCV: 20 values of C, 5 folds."""
    X, y = make_corpus(10_000, seed=0)
    Cs = np.geomspace(1e-3, 1e2, 20)

    def fit(n_threads: int) -> Any:
        model = bridle.LinearSVCCV(Cs, cv=5, random_state=0, n_threads=n_threads)
        return model.fit(X, y).scores_

    return fit


def real(name: str) -> Any:
    """A set of the folder that BRIDLE_DATA names; FileNotFoundError without."""
    return read_svmlight(Path(os.environ.get("BRIDLE_DATA", "nowhere")) / name, dtype=np.float32)


def rows_of(n_rows: int) -> dict[str, Callable[[], Fit]]:
    """What is measured: name -> what makes it ready, outside the clock."""
    name = f"corpus of {n_rows:,} rows"
    return {
        f"{name}, lam 1e-4": texts(n_rows, None),
        "the same, Snap ML (no proof)": snap(n_rows),
        f"{name}, C = 1": texts(n_rows, 1.0),
        "covtype, C = 1": covtype(1.0),
        "covtype, C = 100": covtype(100.0),
        "45 classes, C = 1": many_classes,
        "predict 45 classes": predictions,
        "path, 50,000 rows": path,
        "LinearSVCCV, 10,000 rows": choosing,
        "SVC, covtype, 20,000 rows": kernel_machine,
    }


def measure(fit: Fit, threads: Sequence[int], rounds: int) -> dict[int, list[float]]:
    """Seconds of each round, by threads, which take turns; the results must be the same bits."""
    seconds: dict[int, list[float]] = {n: [] for n in threads}
    first = None
    for turn in range(rounds + 1):  # the first one warms up
        for n in threads:
            clock = time.perf_counter()
            found = fit(n)
            taken = time.perf_counter() - clock
            if turn > 0:
                seconds[n].append(taken)
            if found is None:
                continue
            first = found if first is None else first
            assert np.array_equal(first, found), f"{n} threads find something else"
    return seconds


def draw(results: dict[str, dict[int, float]], figure: Any) -> None:
    """A line for each work: how many times as fast as one thread each number of threads is."""
    from bridle.study.plots import FAINT, colour, ink

    axes = figure.subplots()
    most = max(max(medians) for medians in results.values())
    for row, (name, medians) in enumerate(results.items()):
        one = medians[min(medians)]
        axes.text(1, row - 0.42, name, color=ink(), fontsize=11, va="center")
        axes.plot([1, most], [row, row], color=FAINT, linewidth=0.6)
        for place, n in enumerate(sorted(medians)[1:]):
            style = {"marker": "o", "markersize": 8, "color": colour(place), "linestyle": ""}
            axes.plot(one / medians[n], row, label=f"{n} threads" if row == 0 else None, **style)
    axes.set_xscale("log", base=2)
    ticks = [2**k for k in range(most.bit_length())]
    axes.xaxis.set_ticks(ticks, [str(n) for n in ticks])
    axes.yaxis.set_ticks([])
    axes.set(
        xlabel="times as fast as one thread", xlim=(0.9, most), ylim=(len(results) - 0.5, -0.8)
    )
    figure.legend(loc="outside upper center", ncols=4, handlelength=1, fontsize=11)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=781_265)
    parser.add_argument("--only", nargs="*", help="those whose names contain one of these")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    threads = [int(n) for n in options.threads.split(",")]
    results: dict[str, dict[int, float]] = {}
    print("| seconds by threads |", *(f"{n} |" for n in threads), "speed-up |", flush=True)
    print("| --- |", "--- |" * (len(threads) + 1), flush=True)
    for name, make in rows_of(options.rows).items():
        if options.only and not any(part in name for part in options.only):
            continue
        try:
            seconds = measure(make(), threads, options.rounds)
        except (FileNotFoundError, ImportError) as missing:
            print(f"({name}: left out, {missing})", flush=True)
            continue
        medians = {n: statistics.median(taken) for n, taken in seconds.items()}
        results[name] = medians
        numbers = (f"{medians[n]:.3g} |" for n in threads)
        print(f"| {name} |", *numbers, f"{medians[threads[0]] / medians[threads[-1]]:.1f} |",
              flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    if options.picture and results:
        save_pair(partial(draw, results), 5.6, options.picture)


if __name__ == "__main__":
    main()
