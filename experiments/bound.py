"""Pegasos's theorem beside what is measured.

With projection, T >= 3, |x| <= R and c = (sqrt(lam) + R)^2, the average of w_1..w_T over full
batches, and in expectation a random w_r over drawn ones, satisfy f <= f* + c ln(T) / (lam T)
(Shalev-Shwartz, Singer & Srebro 2007). The number of rows does not occur in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Pegasos
from bridle.study.plots import curve, ink

from experiments.common import Data, course, geometric, key_above, optimum

HEIGHT = 5.0
SEEN = (
    "Measured distances to the optimum for three numbers of rows lie on each other and fall "
    "like 1/T, more than a factor of ten below the line of the bound."
)
LAM = 1e-2
SHARES = (0.05, 0.25, 1.0)
MOST_STEPS = 200_000
SEEDS = 3


def measure(data: Data) -> dict[str, Any]:
    steps = geometric(10, MOST_STEPS, 18)
    runs: dict[str, list[float]] = {}
    radius = 0.0
    for share in SHARES:
        rows = max(200, int(share * len(data.y)))
        problem = data.problem(LAM, rows)
        radius = max(radius, float(np.sqrt(problem.squared_norms.max())))
        best = optimum(problem)
        solver = Pegasos(sampling="iid", output="average")
        found = [course(data, problem, solver, steps, seed)["objective"] for seed in range(SEEDS)]
        runs[f"{rows:,}"] = (np.mean(found, axis=0) - best).tolist()
    c = (np.sqrt(LAM) + radius) ** 2
    bound = [float(c * np.log(t) / (LAM * t)) for t in steps]
    return {
        "data": data.name, "lam": LAM, "radius": radius, "step": steps, "bound": bound,
        "above": runs, "seeds": SEEDS,
    }  # fmt: skip


def _spread(n: dict[str, Any]) -> float:
    last = [values[-1] for values in n["above"].values()]
    return max(last) / min(last)


def claim(n: dict[str, Any]) -> str:
    share = max(values[-1] / n["bound"][-1] for values in n["above"].values())
    return (
        f"The average iterate lies below the bound at every T, at the end by a factor of "
        f"{1 / share:.0f} or more; training sets of {', '.join(n['above'])} rows need the same "
        f"number of steps: their final suboptimalities lie within a factor of 2."
    )


def holds(n: dict[str, Any]) -> bool:
    below = all(np.less(v, n["bound"]).all() for v in n["above"].values())
    return below and _spread(n) < 2


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    for style, (rows, values) in enumerate(n["above"].items()):
        curve(ax, n["step"], values, style, f"measured, {rows} rows")
    ax.plot(n["step"], n["bound"], color=ink(), linewidth=2.4, label="bound c ln T / (lam T)")
    ax.set(
        xscale="log", yscale="log", xlabel="steps T",
        ylabel=f"above the optimum, lam = {n['lam']:g}",
    )  # fmt: skip
    key_above(figure, ax, 2)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
