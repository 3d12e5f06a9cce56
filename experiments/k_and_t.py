"""Rows in a step (k) and steps (T): Pegasos (2007), figure 2.

With T fixed, larger k help; with k T, the rows looked at, fixed, k hardly matters until T is small.
"""

from __future__ import annotations

from typing import Any

from bridle import Pegasos
from bridle.study.plots import curve

from experiments.common import Data, course, dotted, key_above, plain_ticks

HEIGHT = 4.6
SEEN = (
    "Two curves over k: with 1,000 steps the objective falls from 0.94 at k = 1 to the "
    "optimum at k = 256; with 200,000 rows in all it is flat, just above the optimum."
)
KS = (1, 4, 16, 64, 256, 1024)
MANY = 200  # steps that 1/(lam t) needs before it can be judged, at the least
FACTOR = 1.15


def measure(data: Data) -> dict[str, Any]:
    problem, m = data.problem(), len(data.y)
    ks = [k for k in KS if k <= m // 4]
    fixed_t = max(MANY, m // 40)
    budget = 5 * m
    grow = [_final(data, problem, k, fixed_t) for k in ks]
    same = [_final(data, problem, k, budget // k) for k in ks]
    return {
        "data": data.name, "optimum": data.optimum, "k": ks, "T": fixed_t, "kT": budget,
        "fixed_T": grow, "fixed_kT": same,
    }  # fmt: skip


def _final(data: Data, problem: Any, k: int, steps: int) -> float:
    solver = Pegasos(batch=k, sampling="iid")
    return course(data, problem, solver, [steps])["objective"][-1]


def _judged(n: dict[str, Any]) -> list[float]:
    return [f for k, f in zip(n["k"], n["fixed_kT"], strict=True) if n["kT"] // k >= MANY]


def claim(n: dict[str, Any]) -> str:
    judged = _judged(n)
    return (
        f"With k T = {n['kT']:,} rows in all, the objectives for k from 1 to "
        f"{n['k'][len(judged) - 1]} agree within a factor of {FACTOR}; with T = {n['T']:,} steps, "
        f"k = {n['k'][-1]} ends below k = 1 ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    judged = _judged(n)
    return max(judged) / min(judged) <= FACTOR and n["fixed_T"][-1] < n["fixed_T"][0]


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    curve(ax, n["k"], n["fixed_T"], 0, f"T = {n['T']:,} steps")
    curve(ax, n["k"], n["fixed_kT"], 1, f"k T = {n['kT']:,} rows")
    ax.set(
        xscale="log", xlabel="k, rows in a step", ylabel="objective at the end"
    )  # fmt: skip
    plain_ticks(ax.xaxis, n["k"])
    ax.margins(y=0.12)
    dotted(ax, n["optimum"], "optimum")
    key_above(figure, ax)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
