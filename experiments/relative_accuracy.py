"""Epochs that sgd-s needs for falling relative accuracies, and sgd-m against others over C.

Panagiotakopoulos & Tsampouka (2013): the number of epochs grows in proportion to 1/accuracy. They
find that presenting a row several times for one inner product (sgd-m) saves epochs at large C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Epochs, Gap, LinearProblem, Seconds, SgdM, SgdS, Solver, ValidationLoss, solve

from experiments.common import Data, line, told

SIZE = (11, 5.6)
ACCURACIES = (0.2, 0.1, 0.05, 0.02, 0.01)
CS = (0.05, 0.5, 5.0)
SOLVERS = ("sgd-m", "sgd-s", "sgd-r", "pegasos", "dcd", "ocas", "mpu", "svmperf")
AT = 0.05
MOST_EPOCHS, MOST_SECONDS = 1000, 15
FACTOR = 2.0


def measure(data: Data) -> dict[str, Any]:
    plain = LinearProblem(data.X, data.y, 1.0, n_threads=1)
    epochs = {
        f"{solver.name}, C = {C:g}": _epochs(data, plain.variant(C=C), solver)
        for C in CS[1:]
        for solver in (SgdS(), SgdM())
    }
    seconds = {name: [_seconds(plain.variant(C=C), name) for C in CS] for name in SOLVERS}
    return {
        "data": data.name, "accuracy": list(ACCURACIES), "epochs": epochs, "C": list(CS),
        "at": AT, "seconds": seconds,
    }  # fmt: skip


def _epochs(data: Data, problem: LinearProblem, solver: Solver) -> list[float | None]:
    """The first epoch at which each gap is certified; the watching rule has every epoch judged."""
    watch = ValidationLoss(data.X_test[:1], data.y_test[:1], patience=10**9)
    stop = Gap(min(ACCURACIES)) | Epochs(MOST_EPOCHS) | watch
    trace = solve(problem, solver, stop=stop).trace
    gaps, epochs = trace["relative_gap"], trace["epoch"]
    return [float(epochs[np.argmax(gaps <= a)]) if (gaps <= a).any() else None for a in ACCURACIES]


def _seconds(problem: LinearProblem, name: str) -> float | None:
    """Of its own until the gap AT is certified; None if it did not get there."""
    found = solve(problem, name, stop=Gap(AT) | Epochs(MOST_EPOCHS) | Seconds(MOST_SECONDS))
    return found.trace[-1].seconds_solver if found.converged else None


def _slope(n: dict[str, Any]) -> float:
    """Of log epochs over log 1/accuracy, for sgd-s at the largest C."""
    counts = n["epochs"][f"sgd-s, C = {CS[-1]:g}"]
    kept = [(a, e) for a, e in zip(n["accuracy"], counts, strict=True) if e]
    if len(kept) < 2:
        return float("nan")
    a, e = np.log(np.array(kept)).T
    return float(np.polyfit(-a, e, 1)[0])


def _ratios(n: dict[str, Any]) -> list[float]:
    """Epochs of sgd-m for each of sgd-s, at every accuracy that both reach."""
    found = []
    for C in CS[1:]:
        s, m = (n["epochs"][f"{name}, C = {C:g}"] for name in ("sgd-s", "sgd-m"))
        found += [b / a for a, b in zip(s, m, strict=True) if a and b]
    return found or [float("nan")]


def claim(n: dict[str, Any]) -> str:
    low, high = min(_ratios(n)), max(_ratios(n))
    reached = [name for name, seconds in n["seconds"].items() if None not in seconds]
    return (
        f"At C = {CS[-1]:g} the epochs of sgd-s grow as (1/accuracy)^{told(_slope(n), '.2f')}, "
        f"near the proportionality of the paper. sgd-m needs {told(low, '.2f')} to "
        f"{told(high, '.2f')} times as many. "
        f"At all three C {n['at']:.0%} is certified within {MOST_SECONDS} s by "
        f"{', '.join(reached)} ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    return (
        0.75 < _slope(n) < 1.25
        and min(_ratios(n)) > 1 / FACTOR and max(_ratios(n)) < FACTOR
        and None not in (*n["seconds"]["sgd-m"], *n["seconds"]["sgd-s"], *n["seconds"]["dcd"])
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    for style, (name, epochs) in enumerate(n["epochs"].items()):
        line(left, 100 * np.array(n["accuracy"]), _drawable(epochs), style, name)
    left.invert_xaxis()
    left.set(xscale="log", yscale="log", xlabel="certified relative gap (%)", ylabel="epochs")
    ticks = [100 * a for a in n["accuracy"]]
    left.set_xticks(ticks, [f"{t:g}" for t in ticks], minor=False)
    left.minorticks_off()
    for style, (name, seconds) in enumerate(n["seconds"].items()):
        line(right, n["C"], _drawable(seconds), style, name)
    right.set(xscale="log", yscale="log", xlabel="C", ylabel=f"seconds to {n['at']:.0%}")
    for ax, columns in ((left, 2), (right, 4)):
        ax.legend(
            frameon=False, handlelength=2.6, loc="lower center", bbox_to_anchor=(0.5, 1.0),
            ncols=columns, fontsize=11, columnspacing=1.0,
        )  # fmt: skip


def _drawable(values: list[float | None]) -> list[float]:
    return [float("nan") if v is None else v for v in values]


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
