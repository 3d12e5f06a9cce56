"""More rows, less work: the steps to a fixed test error fall as the training set grows.

Shalev-Shwartz & Srebro, "SVM optimization: inverse dependence on training set size" (2008). More
rows allow a larger lam, or a rougher optimisation, for the same error, and a step of Pegasos costs
the same whatever their number.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from bridle import Gap, Pegasos, Seconds, solve
from bridle.study.plots import FAINT, MARKERS, colour

from experiments.common import Data, course, geometric, key_above, plain_ticks

HEIGHT = 4.4
SEEN = (
    "Steps to a test error of 7.7% over training rows: they fall from 11,500 with 2,500 rows "
    "to 5,000 with 40,000."
)
LAMS = (1e-5, 1e-4, 1e-3, 1e-2)
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
REFERENCE = 1 / 16  # the target: the error that this share of the rows allows at best
SEEDS = 3
EPOCHS = 30


def measure(data: Data) -> dict[str, Any]:
    m = len(data.y)
    target = min(
        data.test_error(
            solve(data.problem(lam, int(REFERENCE * m)), stop=Gap(1e-3) | Seconds(20)).w
        )
        for lam in LAMS
    )  # fmt: skip
    target += 0.002  # which is reached, not approached for ever
    rows = [int(share * m) for share in SHARES]
    best = [min((_reach(data, lam, n, target), lam) for lam in LAMS) for n in rows]
    nonzeros = float(np.mean(np.diff(data.X.indptr))) if hasattr(data.X, "indptr") else None
    return {
        "data": data.name, "target": target, "rows": rows, "seeds": SEEDS,
        "steps": [s if np.isfinite(s) else None for s, _ in best], "lam": [lam for _, lam in best],
        "nonzeros_per_step": nonzeros,
    }  # fmt: skip


def _reach(data: Data, lam: float, rows: int, target: float) -> float:
    """Steps of Pegasos until the test error, in the mean of the seeds, is at the target."""
    problem = data.problem(lam, rows)
    steps = geometric(30, EPOCHS * max(SHARES) * len(data.y) / 10, 40)
    solver = Pegasos(sampling="iid", output="average")
    runs = [course(data, problem, solver, steps, seed)["test_error"] for seed in range(SEEDS)]
    reached = np.flatnonzero(np.mean(runs, axis=0) <= target)
    return float(steps[reached[0]]) if len(reached) else np.inf


def claim(n: dict[str, Any]) -> str:
    shown = ", ".join(
        f"{r:,} rows {'never' if s is None else format(int(s), ',')}"
        for r, s in zip(n["rows"], n["steps"], strict=True)
    )
    return (
        f"To a test error of {n['target']:.2%}, at the best of {len(LAMS)} lam, Pegasos takes this "
        f"many steps: {shown}. The work falls as the training set grows ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    steps = [np.inf if s is None else s for s in n["steps"]]
    return steps[-1] < 0.8 * steps[0] and all(b <= 1.25 * a for a, b in pairwise(steps))


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    steps = [np.nan if s is None else s for s in n["steps"]]
    ax.plot(n["rows"], steps, color=FAINT, linewidth=1.4)
    for style, lam in enumerate(sorted(set(n["lam"]))):
        here = [s if at == lam else np.nan for s, at in zip(steps, n["lam"], strict=True)]
        ax.plot(
            n["rows"], here, MARKERS[style], color=colour(style), markersize=8,
            label=f"lam = {lam:g} is the best",
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="training rows",
           ylabel=f"steps to a test error of {n['target']:.2%}")  # fmt: skip
    ax.margins(x=0.08, y=0.15)
    plain_ticks(ax.xaxis, n["rows"])
    plain_ticks(ax.yaxis)
    key_above(figure, ax)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
