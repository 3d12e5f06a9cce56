"""Other losses than the hinge: processor seconds of one thread to a given accuracy.

    python -m benchmarks.losses [--data corpus,a9a ...] [--C 0.1,1] [--gap 1e-3] [--quick]

logistic    against scikit-learn's solvers, each at the fastest tolerance that reached the accuracy
regression  LinearSVR against LIBLINEAR's (scikit-learn's), the same way; the target is a column of
            the set, found from the others
quantile    a million rows of 50 features, certified; nobody else certifies

As in `python -m benchmarks`: the same objective for everybody, no bias, accuracy (P - P*)/P* from
outside for the peers, and a gap that is proven for ours.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from bridle import Epochs, EpsilonInsensitive, Gap, LinearProblem, Seconds, solve
from threadpoolctl import threadpool_limits

from benchmarks.data import Missing, load

TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
LIMIT = 60.0  # seconds: after a run this long, a peer gets no tighter setting

Fit = Callable[[Any, np.ndarray, float, float], np.ndarray]


def logistic_by(solver: str) -> Fit:
    """scikit-learn's LogisticRegression."""

    def fit(X: Any, y: np.ndarray, C: float, tol: float) -> np.ndarray:
        from sklearn.linear_model import LogisticRegression

        dual = {"dual": True} if solver == "liblinear-dual" else {}
        name = solver.removesuffix("-dual")
        model = LogisticRegression(
            C=C, tol=tol, solver=name, fit_intercept=False, max_iter=2000, **dual
        )
        return np.ravel(model.fit(X, y).coef_)

    return fit


def svr_by(dual: bool) -> Fit:
    """LIBLINEAR's regression; the primal one has the squared loss only."""

    def fit(X: Any, t: np.ndarray, C: float, tol: float) -> np.ndarray:
        from sklearn.svm import LinearSVR

        model = LinearSVR(
            epsilon=0.1, C=C, tol=tol, fit_intercept=False, dual=dual, max_iter=2000, random_state=0
        )
        return np.ravel(model.fit(X, t).coef_)

    return fit


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def fastest(fit: Fit, problem: LinearProblem, X: Any, y: np.ndarray, accurate: float) -> float:
    """Of a peer's settings, those that reached the primal value; infinite if none did."""
    best = np.inf
    for tol in TOLERANCES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, w = clocked(lambda tol=tol: fit(X, y, problem.C, tol))
        if problem.primal(w) <= accurate:
            return min(best, seconds)
        if seconds > LIMIT:
            break
    return best


def cell(name: str, X: Any, y: np.ndarray, C: float, loss: Any, peers: dict[str, Fit],
         gap: float) -> None:  # fmt: skip
    """One line of the table."""
    problem = LinearProblem(X, y, C, loss=loss, n_threads=1)
    optimum = solve(problem, stop=Gap(1e-7) | Seconds(120) | Epochs(10**5)).certificate.dual

    def ours() -> Any:
        fresh = LinearProblem(X, y, C, loss=loss, n_threads=1)
        return solve(fresh, stop=Gap(gap) | Seconds(120) | Epochs(10**5))

    times = [clocked(ours) for _ in range(3)]
    seconds, found = min(times, key=lambda pair: pair[0])
    wide = X.astype(np.float64)
    if sp.issparse(wide):
        wide.indices, wide.indptr = wide.indices.astype(np.int32), wide.indptr.astype(np.int32)
    theirs = {
        who: fastest(fit, problem, wide, y, optimum * (1 + gap)) for who, fit in peers.items()
    }
    best = min(theirs, key=theirs.__getitem__)
    shown = ", ".join(f"{who} {value:.3g}" for who, value in theirs.items())
    print(
        f"{name:12s} {problem.loss.name:20s} C {C:<5g} bridle {seconds:8.3g} s "
        f"(gap {found.certificate.relative_gap:.1e}, {found.solver}) "
        f"{theirs[best] / seconds:6.1f}x {best}   [{shown}]",
        flush=True,
    )


def target_of(X: Any) -> tuple[Any, np.ndarray]:
    """The first column, or of texts the number of words, from the others."""
    if sp.issparse(X):
        return X, np.log1p(np.diff(X.indptr)).astype(np.float64)
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
        f"quantile 0.9 of {n_rows} x {n_features}: {seconds:.1f} s of processor time, gap "
        f"{model.certificate_.relative_gap:.1e} ({model.solver_})",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="corpus50k,20news,debian,a9a,ijcnn1,covtype")
    parser.add_argument("--C", default="0.1,1")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the quantile")
    parser.add_argument("--only", choices=["logistic", "regression", "quantile"])
    chosen = parser.parse_args()
    with threadpool_limits(1):
        for name in chosen.data.split(","):
            if chosen.only == "quantile":
                break
            try:
                data = load(name)
            except (Missing, KeyError) as error:
                print(f"{name}: left out, {error}")
                continue
            for C in map(float, chosen.C.split(",")):
                if chosen.only in (None, "logistic"):
                    few = data.X.shape[1] <= 300
                    names = ["liblinear", "liblinear-dual", "lbfgs", "saga"]
                    peers = {who: logistic_by(who) for who in names + ["newton-cholesky"] * few}
                    cell(name, data.X, data.y, C, "logistic", peers, chosen.gap)
                if chosen.only in (None, "regression"):
                    X, t = target_of(data.X)
                    peers = {"liblinear": svr_by(True)}
                    cell(name, X, t, C, EpsilonInsensitive(0.1), peers, chosen.gap)
        if chosen.only in (None, "quantile"):
            quantile(chosen.rows)


if __name__ == "__main__":
    main()
