"""Rows in a step on 10,000 rows of 20 features: progress per iteration, and per second.

A step on k rows is k times as long; its gradient has a variance 1/k as large. Few rows a step
progress faster per second, many faster per iteration. Claimed where a
thousand steps of 10,000 rows come within 5% at lam = 1e-5: these clouds and short texts (commits);
on a9a and 20news they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from bridle import LinearProblem, Pegasos, Steps, lam_to_C, solve
from bridle.study.plots import FAINT, curve, ink

from experiments.common import Data, course, geometric, key_above, level, optimum

HEIGHT = 9.6
SEEN = (
    "Three panels. Over iterations the curve of k = 10,000 falls first and that of k = 1 "
    "last; over seconds the small k come first and k = 10,000 is ten times as late; the "
    "variance of the gradient falls along 1/k."
)
ROWS, FEATURES = 10_000, 20
LAM = 1e-5
KS = (1, 10, 100, 1000, 10_000)
LEAST_STEPS, MOST_STEPS, MOST_ROWS = 10, 200_000, 10_000_000
FEW, MANY = "100", "10000"
DRAWS = 200
WITHIN = 0.05


def rows_of(data: Data) -> Data:
    """The user's own rows, or two clouds of points in 20 dimensions that overlap."""
    if data.own:
        return data
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 2 * ROWS)
    X = rng.standard_normal((2 * ROWS, FEATURES)) + 0.35 * y[:, None]
    X /= np.sqrt(FEATURES)
    name = f"{ROWS:,} rows, {FEATURES} features"
    return Data(name, X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:])


def measure(data: Data) -> dict[str, Any]:
    data = rows_of(data)
    n = len(data.y)
    problem = LinearProblem(data.X, data.y, lam_to_C(LAM, n), n_threads=1)
    best = optimum(problem)
    runs = {}
    for k in KS:
        steps = geometric(LEAST_STEPS, min(MOST_STEPS, MOST_ROWS // k), 28)
        run = course(data, problem, Pegasos(batch=k, sampling="iid"), steps)
        above = np.array(run.pop("objective")) / best - 1
        reached = np.flatnonzero(above <= WITHIN)
        first = int(reached[0]) if len(reached) else None
        runs[str(k)] = run | {
            "above": above.tolist(),
            "steps_within": None if first is None else run["step"][first],
            "seconds_within": None if first is None else run["seconds"][first],
        }
    middle = _on_the_way(problem)
    return {
        "data": data.name, "lam": LAM, "within": WITHIN, "runs": runs,
        "variance": [gradient_variance(data, middle, k) for k in KS], "draws": DRAWS,
    }  # fmt: skip


def _on_the_way(problem: LinearProblem) -> np.ndarray:
    """Weights on the way to the optimum, where gradients still differ from row to row."""
    return solve(problem, "pegasos", stop=Steps(1000)).w


def gradient_variance(data: Data, w: np.ndarray, k: int) -> float:
    """The mean squared distance of the gradient on k drawn rows from the one on all rows."""
    rng = np.random.default_rng(k)
    n = len(data.y)
    G = sp.csr_array(data.X) * (-data.y * (data.y * (data.X @ w) < 1))[:, None]
    full = np.asarray(G.mean(axis=0)).ravel()
    rows = np.repeat(np.arange(DRAWS), k)
    picked = (np.full(DRAWS * k, 1 / k), (rows, rng.integers(0, n, DRAWS * k)))
    means = sp.csr_array(picked, shape=(DRAWS, n)) @ sp.csr_array(G)
    squares = np.asarray(means.multiply(means).sum(axis=1)).ravel()
    return float(np.mean(squares - 2 * (means @ full) + full @ full))


def _slope(n: dict[str, Any]) -> float:
    ks = [int(k) for k in n["runs"]]
    return float(np.polyfit(np.log(ks), np.log(n["variance"]), 1)[0])


def claim(n: dict[str, Any]) -> str:
    few, many = n["runs"][FEW], n["runs"][MANY]
    return (
        f"Where {MOST_ROWS // int(MANY):,} large steps are enough: within {n['within']:.0%} of the "
        f"optimum k = {int(MANY):,} {_when(many)}, k = {FEW} {_when(few)}: many rows in a step "
        f"take fewer steps and more time. The variance of the gradient falls as k^{_slope(n):.2f} "
        f"({n['data']})."
    )


def _when(run: dict[str, Any]) -> str:
    if run["steps_within"] is None:
        return "not at all"
    return f"after {run['steps_within']:,} iterations and {run['seconds_within']:.2g} CPU seconds"


def holds(n: dict[str, Any]) -> bool:
    few, many = n["runs"][FEW], n["runs"][MANY]
    return (
        None not in (few["steps_within"], many["steps_within"])
        and many["steps_within"] < few["steps_within"]
        and many["seconds_within"] > few["seconds_within"]
        and abs(_slope(n) + 1) < 0.1
    )


def draw(n: dict[str, Any], figure: Any) -> None:
    first, second, third = figure.subplots(3, 1)
    for style, (k, run) in enumerate(n["runs"].items()):
        for ax, x in ((first, run["step"]), (second, run["seconds"])):
            curve(ax, x, 100 * np.array(run["above"]), style, f"k = {int(k):,}")
    for ax, label in ((first, "iterations"), (second, "CPU seconds")):
        level(ax, 100 * n["within"], f"{n['within']:.0%}")
        ax.set(xscale="log", yscale="log", xlabel=label, ylim=(0.3, 1e5))
    first.set_ylabel("above the optimum (%)")
    second.set_ylabel("above the optimum (%)")
    ks = np.array([int(k) for k in n["runs"]])
    third.plot(ks, n["variance"], "o", color=ink(), markersize=8)
    third.plot(ks, n["variance"][0] / ks, color=FAINT, linewidth=1.4, linestyle="--")
    third.annotate("1/k", (ks[2], n["variance"][0] / ks[2]), xytext=(8, 8),
                   textcoords="offset points")  # fmt: skip
    third.set(xscale="log", yscale="log", xlabel="k, rows in a step",
              ylabel="variance of the gradient")  # fmt: skip
    key_above(figure, first)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
