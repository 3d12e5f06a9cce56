"""Steps to an accuracy eps: they grow with 1/eps and 1/lam, and not with the number of rows.

Pegasos's theorem (Shalev-Shwartz, Singer & Srebro 2007) promises eps after about R^2/(lam eps)
steps, up to a logarithm, whatever the number of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Pegasos
from bridle.study.plots import FAINT, curve

from experiments.common import Data, course, geometric, optimum, plain_ticks, told

HEIGHT = 8.6
SEEN = (
    "Three panels of steps of Pegasos: they rise in proportion to 1/eps, somewhat slower than "
    "1/lam, and do not rise with the rows."
)
LAM, EPS = 1e-2, 0.01
LAMS = (0.1, 0.03, 0.01, 0.003, 0.001)
EPSS = (0.1, 0.03, 0.01, 0.003, 0.001)
SHARES = (1 / 8, 1 / 4, 1 / 2, 1.0)
MOST_STEPS = 400_000
SEEDS = 2


def measure(data: Data) -> dict[str, Any]:
    m = len(data.y)
    at_lam = {lam: _above(data, lam, m) for lam in LAMS}
    rows = [int(share * m) for share in SHARES]
    by_rows = [_steps(_above(data, LAM, n), EPS) for n in rows]
    return {
        "data": data.name, "lam": LAM, "eps": EPS, "seeds": SEEDS,
        "by_eps": {"x": [1 / e for e in EPSS], "steps": [_steps(at_lam[LAM], e) for e in EPSS]},
        "by_lam": {"x": [1 / v for v in LAMS], "steps": [_steps(at_lam[v], EPS) for v in LAMS]},
        "by_rows": {"x": rows, "steps": by_rows},
    }  # fmt: skip


def _above(data: Data, lam: float, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and how far above the optimum the average of all weights is, mean of the seeds."""
    problem = data.problem(lam, rows)
    best = optimum(problem)
    steps = geometric(100, MOST_STEPS, 48)
    solver = Pegasos(sampling="iid", output="average")
    runs = [course(data, problem, solver, steps, seed)["objective"] for seed in range(SEEDS)]
    return np.array(steps), np.mean(runs, axis=0) - best


def _steps(run: tuple[np.ndarray, np.ndarray], eps: float) -> int | None:
    """The first step from which on eps is kept."""
    steps, above = run
    late = np.flatnonzero(above > eps)
    k = int(late[-1]) + 1 if len(late) else 0
    return int(steps[k]) if k < len(steps) else None


def _power(series: dict[str, Any]) -> float:
    """Of x, in the number of steps."""
    kept = [(x, s) for x, s in zip(series["x"], series["steps"], strict=True) if s]
    if len(kept) < 2:
        return float("nan")
    x, s = np.log(np.array(kept, float)).T
    return float(np.polyfit(x, s, 1)[0])


def _spread(n: dict[str, Any]) -> float:
    steps = [float("nan") if s is None else s for s in n["by_rows"]["steps"]]
    return max(steps) / min(steps)


def claim(n: dict[str, Any]) -> str:
    return (
        f"The steps grow as (1/eps)^{told(_power(n['by_eps']), '.2f')} and (1/lam)^"
        f"{told(_power(n['by_lam']), '.2f')}, no faster than the theorem's 1/(lam eps) up to a "
        f"logarithm; for {n['by_rows']['x'][0]:,} to {n['by_rows']['x'][-1]:,} rows they are "
        f"the same within a factor of {told(_spread(n), '.2f')} ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    return (
        0.5 < _power(n["by_eps"]) < 1.3
        and 0.3 < _power(n["by_lam"]) < 1.3
        and None not in n["by_rows"]["steps"]
        and _spread(n) < 2
    )


def draw(n: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots(3, 1, sharey=True)
    labels = (f"1/eps, at lam = {n['lam']:g}", f"1/lam, at eps = {n['eps']:g}",
              f"rows, at lam = {n['lam']:g}, eps = {n['eps']:g}")  # fmt: skip
    for style, (ax, key, label) in enumerate(
        zip(axes, ("by_eps", "by_lam", "by_rows"), labels, strict=True)
    ):
        steps = [np.nan if s is None else s for s in n[key]["steps"]]
        curve(ax, n[key]["x"], steps, style, "")
        ax.set(xscale="log", yscale="log", xlabel=label)
        if key != "by_rows":
            x = np.array(n[key]["x"])
            ax.plot(x, steps[0] * x / x[0], color=FAINT, linestyle="--", linewidth=1.2)
            ax.annotate(
                "in proportion", (x[1], steps[0] * x[1] / x[0]), xytext=(8, -16), ha="left",
                textcoords="offset points", fontsize=11, color=FAINT,
            )  # fmt: skip
    plain_ticks(axes[2].xaxis, n["by_rows"]["x"])
    for ax in axes:
        ax.set_ylabel("steps of Pegasos")


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
