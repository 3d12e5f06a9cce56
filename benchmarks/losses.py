"""Other losses than the hinge, and the l1 penalty: processor seconds of one thread to an accuracy.

    python -m benchmarks.losses [--data corpus,a9a ...] [--C 0.1,1] [--gap 1e-3] [--only l1]

logistic    against LIBLINEAR, scikit-learn's solvers and Snap ML
regression  the epsilon-insensitive loss against LIBLINEAR; the target is the first column of a
            table, from the others, or of a text the logarithm of its number of words
l1          logistic with the l1 penalty, against LIBLINEAR's -s 6, scikit-learn's saga and skglm
quantile    a million rows of 50 features, certified; nobody else certifies

As in `python -m benchmarks`: the same objective for everybody, no bias, accuracy (P - P*)/P* from
outside for the peers, and a gap that is proven for ours. Each peer has the fastest of its settings
that reached the accuracy; peers that cannot be imported are left out. What takes longer than the
fastest peer so far, and is not there yet, is given up: tighter settings take longer.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from bridle import Epochs, EpsilonInsensitive, Gap, LinearProblem, PenalisedProblem, Seconds, solve
from threadpoolctl import threadpool_limits

from benchmarks.data import Missing, load

TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
EPSILON = 0.1
FEW = 300  # features up to which a table is one

# From rows, labels, C and a setting to weights.
Fit = Callable[[Any, np.ndarray, float, float], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """Somebody else's method. `ready` makes what it reads of the rows and labels, off the clock."""

    name: str
    module: str
    fit: Fit
    ready: Callable[[Any, np.ndarray], tuple[Any, np.ndarray]]

    def here(self) -> bool:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                __import__(self.module)
        except (ImportError, OSError):
            return False
        return True


def doubles(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """What scikit-learn's C code reads without a conversion."""
    X = sp.csr_matrix(X, dtype=np.float64)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def columns(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    return sp.csc_matrix(doubles(X, y)[0]), y


def singles(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    return X, y.astype(np.float32)


def liblinear_reads(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    from liblinear.liblinearutil import problem

    return problem(y, doubles(X, y)[0], bias=-1), np.array([X.shape[1]])


def scikit_learn(solver: str, l1: bool = False, **options: Any) -> Peer:
    """LogisticRegression."""

    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(
            C=C, tol=tol, solver=solver, fit_intercept=False, max_iter=2000, random_state=0,
            l1_ratio=float(l1), **options,
        )  # fmt: skip
        return np.ravel(model.fit(X, y).coef_)

    return Peer(f"sklearn {solver}", "sklearn", fit, doubles)


def liblinear(number: int) -> Peer:
    """The authors' own package: -s NUMBER."""

    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> np.ndarray:
        from liblinear.liblinearutil import parameter, train

        model = train(X, parameter(f"-s {number} -c {C} -e {tol} -p {EPSILON} -B -1 -q"))
        sign = 1.0 if number >= 11 or model.label[0] > 0 else -1.0
        return sign * np.ctypeslib.as_array(model.w, (int(y[0]),)).copy()

    return Peer(f"LIBLINEAR -s {number}", "liblinear.liblinearutil", fit, liblinear_reads)


def snap_ml() -> Peer:
    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> np.ndarray:
        from snapml import LogisticRegression

        model = LogisticRegression(
            regularizer=1 / C, fit_intercept=False, tol=tol, max_iter=1000, n_jobs=1, random_state=0
        )
        return np.ravel(np.asarray(model.fit(X, y).coef_))

    return Peer("Snap ML", "snapml", fit, singles)


def skglm() -> Peer:
    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> np.ndarray:
        from skglm import SparseLogisticRegression

        model = SparseLogisticRegression(
            alpha=1 / (C * len(y)), tol=tol / len(y) ** 0.5, fit_intercept=False, max_iter=100
        )
        return np.ravel(model.fit(X, y).coef_)

    return Peer("skglm", "skglm", fit, columns)


def peers_of(task: str, few: bool) -> list[Peer]:
    """Likely the fastest first."""
    if task == "logistic":
        solvers = ["lbfgs", "newton-cholesky", "saga"] if few else ["lbfgs", "saga"]
        own = [scikit_learn("liblinear"), *map(scikit_learn, solvers)]
        return [liblinear(0), liblinear(7), snap_ml(), *own]
    if task == "l1":
        return [liblinear(6), skglm(), scikit_learn("saga", l1=True)]
    return [liblinear(13)]


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def quietly(peer: Peer, ready: tuple[Any, np.ndarray], C: float, tol: float) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer.fit(*ready, C, tol)


def fastest(peer: Peer, problem: Any, X: Any, y: np.ndarray, accurate: float,
            best: float) -> float:  # fmt: skip
    """Of its settings, those that reached the primal value; infinite if none did in time."""
    ready = peer.ready(X, y)
    few = np.arange(0, X.shape[0], max(1, X.shape[0] // 1000))
    part = peer.ready(X[few], y[few])
    quietly(peer, part, problem.C, 1.0)  # what is compiled or imported, is now
    for tol in TOLERANCES:
        seconds, w = clocked(lambda tol=tol: quietly(peer, ready, problem.C, tol))
        if problem.primal(w) <= accurate:
            again = [clocked(lambda tol=tol: quietly(peer, ready, problem.C, tol))[0]
                     for _ in range(2)]  # fmt: skip
            return min(seconds, *again)
        if seconds > best:
            break
    return np.inf


def made(task: str, X: Any, y: np.ndarray, C: float) -> Any:
    if task == "l1":
        return PenalisedProblem(X, y, C, loss="logistic", n_threads=1)
    loss = "logistic" if task == "logistic" else EpsilonInsensitive(EPSILON)
    return LinearProblem(X, y, C, loss=loss, n_threads=1)


def cell(task: str, name: str, X: Any, y: np.ndarray, C: float, gap: float) -> None:
    """One line of the table."""
    problem = made(task, X, y, C)
    optimum = solve(problem, stop=Gap(1e-7) | Seconds(120) | Epochs(10**5)).certificate.dual
    stop = Gap(gap) | Seconds(120) | Epochs(10**5)
    times = [clocked(lambda: solve(made(task, X, y, C), stop=stop)) for _ in range(3)]
    seconds, found = min(times, key=lambda pair: pair[0])
    theirs: dict[str, float] = {}
    for peer in peers_of(task, X.shape[1] <= FEW):
        if peer.here():
            best = min(theirs.values(), default=np.inf)
            theirs[peer.name] = fastest(peer, problem, X, y, optimum * (1 + gap), best)
    first = min(theirs, key=theirs.__getitem__)
    reached = [f"{who} {value:.3g}" for who, value in theirs.items() if value < np.inf]
    print(
        f"| {task} | {name} | {C:g} | {seconds:.3g} ({found.solver}) | {theirs[first]:.3g} "
        f"({first}) | {theirs[first] / seconds:.1f} | {', '.join(reached)} |",
        flush=True,
    )


def target_of(X: Any) -> tuple[Any, np.ndarray]:
    """The first column of a table, from the others; of a text, the logarithm of its words."""
    if X.shape[1] > FEW:
        return X, np.log1p(np.diff(X.indptr)).astype(np.float64)
    if sp.issparse(X):
        wide = X.tocsc()
        return wide[:, 1:].tocsr(), np.ravel(wide[:, :1].toarray()).astype(np.float64)
    return np.ascontiguousarray(X[:, 1:]), np.asarray(X[:, 0], np.float64)


def quantile(n_rows: int, n_features: int = 50) -> None:
    """A million rows, quantile 0.9, with a free intercept."""
    from bridle import QuantileRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    t = X @ rng.normal(size=n_features) + rng.standard_t(4, size=n_rows)
    model = QuantileRegressor(quantile=0.9, n_threads=1)
    seconds, _ = clocked(lambda: model.fit(X, t))
    print(
        f"| quantile 0.9 | {n_rows} x {n_features} | 1 | {seconds:.3g} ({model.solver_}) | "
        f"| | gap {model.certificate_.relative_gap:.1e} |",
        flush=True,
    )


TASKS = ("logistic", "regression", "l1", "quantile")


def cells(chosen: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray]]:
    for name in chosen.data.split(","):
        try:
            data = load(name)
        except (Missing, KeyError) as error:
            print(f"{name}: left out, {error}")
            continue
        yield name, data.X, data.y


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="corpus50k,20news,debian,a9a,ijcnn1,covtype")
    parser.add_argument("--C", default="0.1,1")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the quantile")
    parser.add_argument("--only", choices=TASKS)
    chosen = parser.parse_args()
    tasks = TASKS if chosen.only is None else (chosen.only,)
    print("| task | data | C | bridle, s | fastest peer, s | times | peers |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with threadpool_limits(1):
        for name, X, y in () if tasks == ("quantile",) else cells(chosen):
            for task in tasks:
                if task == "quantile":
                    continue
                rows, labels = target_of(X) if task == "regression" else (X, y)
                for C in map(float, chosen.C.split(",")):
                    cell(task, name, rows, labels, C, chosen.gap)
        if "quantile" in tasks:
            quantile(chosen.rows)


if __name__ == "__main__":
    main()
