"""Learning rates: 1/(lam t) against 1/(lam sqrt t), and constant ones too small, right, too large.

Bottou, "Stochastic gradient descent tricks" (2012), for the ladder of rates on a subsample.
"""

from __future__ import annotations

from typing import Any

from bridle import StochasticGradientDescent, calibrate_rate
from bridle.study.plots import curve

from experiments.common import LAM, Data, course, dotted, geometric

HEIGHT = 8.2
SEEN = (
    "Above, 1/(lam t) reaches the optimum within 100,000 iterations where 1/(lam sqrt t) is "
    "still ten times above it; below, a constant rate that is too small hardly falls, the "
    "right one settles just above the optimum, one too large jumps about at a hundred times "
    "the optimum."
)
EPOCHS = 5
CONSTANT = (1e-3, 1.0, 1e3)  # rows have length 1


def measure(data: Data) -> dict[str, Any]:
    problem, m = data.problem(), len(data.y)
    steps = geometric(100, EPOCHS * m, 24)
    runs = {
        name: course(data, problem, StochasticGradientDescent(rate=name, sampling="iid"), steps)
        for name in ("1/(lam t)", "1/(lam sqrt t)")
    }
    constant = {
        f"{eta:g}": course(
            data, problem,
            StochasticGradientDescent(rate="constant", eta0=eta, sampling="iid"), steps,
        )
        for eta in CONSTANT
    }  # fmt: skip
    return {
        "data": data.name, "lam": LAM, "optimum": data.optimum, "runs": runs, "constant": constant,
        "calibrated": calibrate_rate(problem),
    }  # fmt: skip


def _last(run: dict[str, Any]) -> float:
    return run["objective"][-1]


def claim(n: dict[str, Any]) -> str:
    small, right, large = (_last(n["constant"][f"{eta:g}"]) for eta in CONSTANT)
    return (
        f"After {EPOCHS} epochs 1/(lam t) is at {_last(n['runs']['1/(lam t)']):.3f} and "
        f"1/(lam sqrt t) at {_last(n['runs']['1/(lam sqrt t)']):.3g}, the optimum at "
        f"{n['optimum']:.3f}. Constant rates: {CONSTANT[0]:g} is too small ({small:.3f}), "
        f"{CONSTANT[1]:g} right ({right:.3f}), {CONSTANT[2]:g} too large: it leaps about "
        f"({large:.3g}). A subsample suggests {n['calibrated']:g} ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    small, right, large = (_last(n["constant"][f"{eta:g}"]) for eta in CONSTANT)
    return (
        _last(n["runs"]["1/(lam t)"]) < _last(n["runs"]["1/(lam sqrt t)"])
        and right < small < large
        and 0.01 <= n["calibrated"] <= 10
    )


def draw(n: dict[str, Any], figure: Any) -> None:
    above, below = figure.subplots(2, 1)
    for style, (name, run) in enumerate(n["runs"].items()):
        curve(above, run["step"], run["objective"], style, f"η = {name}")
    words = ("too small", "right", "too large")
    for style, (name, run) in enumerate(n["constant"].items()):
        curve(below, run["step"], run["objective"], style, f"η = {name}, {words[style]}")
    for ax in (above, below):
        dotted(ax, n["optimum"])
        ax.set(xscale="log", yscale="log", xlabel="iterations")
        ax.legend(handlelength=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    above.set_ylabel("objective (dotted: optimum)")


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
