"""Optimisation accuracy against time, and what it is worth: test error against accuracy.

Bottou & Bousquet, "The tradeoffs of large scale learning" (2008): the last digits of the optimum
cost most of the time and change nothing on the test set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Epochs, Gap, Seconds, ValidationLoss, solve
from bridle.study.plots import curve

from experiments.common import LAM, Data, key_above, told

HEIGHT = 8.0
SEEN = (
    "Above, the distance to the optimum falls with time for five solvers; below, the test "
    "error falls until they are within a few per cent of the optimum, and is flat from there "
    "on."
)
SOLVERS = ("dcd", "svmsgd", "sgd-s", "mpu", "ocas")
GAP = 1e-3
MOST_EPOCHS, MOST_SECONDS = 500, 8
ENOUGH, ROUGH, FINE = 0.01, 0.03, 0.003
POINTS = 0.003  # of test error


def measure(data: Data) -> dict[str, Any]:
    problem, best = data.problem(), data.optimum
    watch = ValidationLoss(data.X_test, data.y_test, patience=10**9)
    stop = Gap(GAP) | Epochs(MOST_EPOCHS) | Seconds(MOST_SECONDS) | watch
    runs = {}
    for name in SOLVERS:
        trace = solve(problem, name, stop=stop).trace
        # A guess at the optimum, certified to a millionth, may lie above the last iterates.
        above = np.maximum(problem.lam * trace["primal_now"] / best - 1, 1e-6)
        runs[name] = {
            "seconds": trace["seconds_solver"].tolist(), "epoch": trace["epoch"].tolist(),
            "above": above.tolist(), "test_error": trace["validation_error"].tolist(),
        }  # fmt: skip
    return {"data": data.name, "lam": LAM, "optimum": best, "runs": runs}


def _at(run: dict[str, Any], accuracy: float) -> int | None:
    """The first record that is so near to the optimum."""
    found = np.flatnonzero(np.array(run["above"]) <= accuracy)
    return int(found[0]) if len(found) else None


def _final_error(n: dict[str, Any]) -> float:
    return n["runs"]["dcd"]["test_error"][-1]


def _growth(n: dict[str, Any], name: str) -> float:
    """How many times the epochs a tenth of the distance takes."""
    run = n["runs"][name]
    rough, fine = _at(run, ROUGH), _at(run, FINE)
    if rough is None or fine is None:
        return float("inf")
    return run["epoch"][fine] / max(run["epoch"][rough], 1)


def claim(n: dict[str, Any]) -> str:
    final = _final_error(n)
    errors = {}
    for name, run in n["runs"].items():
        k = _at(run, ENOUGH)
        if k is not None:
            errors[name] = 100 * (run["test_error"][k] - final)
    worst = max((abs(e) for e in errors.values()), default=None)
    return (
        f"The optimum has a test error of {final:.2%}. {len(errors)} of {len(n['runs'])} solvers "
        f"come within {ENOUGH:.0%} of it, where their test errors differ from that by "
        f"{told(worst, '.2f')} points at the most: what they do beyond is time without effect. "
        f"From {ROUGH:.0%} to {FINE:.1%} svmsgd takes {told(_growth(n, 'svmsgd'), '.0f')} times "
        f"the epochs, dcd {told(_growth(n, 'dcd'), '.1f')} times ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    final = _final_error(n)
    at = {name: _at(run, ENOUGH) for name, run in n["runs"].items()}
    if None in at.values():
        return False
    errors = [n["runs"][name]["test_error"][k] for name, k in at.items()]
    return (
        max(abs(e - final) for e in errors) < POINTS
        and _growth(n, "svmsgd") > 4 and _growth(n, "dcd") < 4
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    above, below = figure.subplots(2, 1)
    for style, (name, run) in enumerate(n["runs"].items()):
        over = 100 * np.array(run["above"])
        seconds = np.array(run["seconds"])
        curve(above, seconds[seconds > 0], over[seconds > 0], style, name)
        curve(below, over, 100 * np.array(run["test_error"]), style, name)
    above.set(
        xscale="log", yscale="log", xlabel="solver's seconds", ylabel="above the optimum (%)",
        ylim=(0.01, 500),
    )  # fmt: skip
    final = 100 * _final_error(n)
    lowest = 100 * min(min(run["test_error"]) for run in n["runs"].values())
    below.set(
        xscale="log", xlabel="objective above the optimum (%)", ylabel="test error (%)",
        ylim=(0.96 * lowest, 1.5 * final), xlim=(0.01, 500),
    )  # fmt: skip
    below.invert_xaxis()
    key_above(figure, above, 3)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
