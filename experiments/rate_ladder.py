"""The ladder of rates 1e-6 .. 10 on a subsample, and the same rates on all rows.

Bottou, "Stochastic gradient descent tricks" (2012): the best eta_0 of eta_0/(1 + eta_0 lam t) on a
small sample is about the best on all rows, and trying it costs next to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import StochasticGradientDescent
from bridle.study.plots import curve, ink

from experiments.common import LAM, Data, course, dotted, key_above, plain_ticks

HEIGHT = 4.8
SEEN = (
    "Objective after one epoch over the rate, for 1,000 and for 40,000 rows: both stay at "
    "that of w = 0 for small rates and have their ringed minimum at the same rate, 1."
)
RATES = tuple(10.0**k for k in range(-6, 2))
SAMPLE = 1000


def measure(data: Data) -> dict[str, Any]:
    m = len(data.y)
    sample = min(SAMPLE, m // 4)
    found = {}
    for name, rows in (("subsample", sample), ("all", m)):
        problem = data.problem(LAM, rows)
        found[name] = [
            course(
                data, problem, StochasticGradientDescent(rate="eta0/(1 + eta0 lam t)", eta0=rate),
                [rows],
            )["objective"][-1]
            for rate in RATES
        ]  # fmt: skip
    return {"data": data.name, "lam": LAM, "rows": [sample, m], "rate": list(RATES)} | found


def _best(n: dict[str, Any]) -> tuple[int, int]:
    small, large = (int(np.argmin(n[name])) for name in ("subsample", "all"))
    return small, large


def claim(n: dict[str, Any]) -> str:
    small, large = _best(n)
    return (
        f"After one epoch {n['rate'][small]:g} is the best rate on {n['rows'][0]:,} rows and "
        f"{n['rate'][large]:g} on all {n['rows'][1]:,}: a rung apart at the most. Rates of 1e-4 "
        f"and below have hardly moved from the start on the subsample."
    )


def holds(n: dict[str, Any]) -> bool:
    small, large = _best(n)
    low = n["subsample"][: n["rate"].index(1e-4) + 1]
    return abs(small - large) <= 1 and small > 0 and min(low) > 0.9


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    for style, name in enumerate(("subsample", "all")):
        curve(ax, n["rate"], n[name], style, f"one epoch on {n['rows'][style]:,} rows")
        best = _best(n)[style]
        ax.plot(n["rate"][best], n[name][best], marker="o", markersize=16, fillstyle="none",
                color=ink(), linestyle="none")  # fmt: skip
    dotted(ax, 1.0)
    ax.annotate("w = 0", (n["rate"][0], 1.0), xytext=(0, -16), textcoords="offset points")
    ax.set(xscale="log", yscale="log", xlabel="rate η₀ (ringed: the best)",
           ylabel="objective after one epoch")  # fmt: skip
    plain_ticks(ax.yaxis)
    key_above(figure, ax, 1)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
