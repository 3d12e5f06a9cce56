"""Learning rates: 1/(lam t) against 1/(lam sqrt t), and constant ones too small, right, too large.

Bottou, "Stochastic gradient descent tricks" (2012), for the ladder of rates on a subsample.
"""

from __future__ import annotations

from typing import Any

from bridle import StochasticGradientDescent, calibrate_rate

from experiments.common import LAM, Data, course, geometric, line

SIZE = (11, 5.6)
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
    left, right = figure.subplots(1, 2)
    for style, (name, run) in enumerate(n["runs"].items()):
        line(left, run["step"], run["objective"], style, f"η = {name}")
    words = ("too small", "right", "too large")
    for style, (name, run) in enumerate(n["constant"].items()):
        line(right, run["step"], run["objective"], style, f"η = {name}, {words[style]}")
    for ax in (left, right):
        ax.axhline(n["optimum"], color="0.35", linewidth=1.2, linestyle=(0, (1, 2)))
        ax.set(xscale="log", yscale="log", xlabel="iterations")
        ax.legend(
            frameon=False, handlelength=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1
        )
    left.set_ylabel("objective (dotted: optimum)")


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
