"""Stochastic gradients on all rows against conjugate gradients on growing subsamples.

Bottou & Le Cun, "Large scale online learning" (2004): whoever has more rows than time should see
many of them once rather than few of them often. Processor time; that of svmsgd begins with the
choice of its rate on a subsample.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from bridle import ConjugateGradients, Gap, Hinge, Seconds, SvmSgd, ValidationLoss, solve
from bridle.study.plots import curve

from experiments.common import LAM, Clocked, Data, geometric, key_above, plain_ticks

HEIGHT = 5.2
SEEN = (
    "Held-out loss over seconds: each curve of conjugate gradients levels off lower, and "
    "later, the more rows it has; svmsgd on all rows falls below all of them before they have "
    "begun to fall."
)
SHARES = (1 / 64, 1 / 16, 1 / 4, 1.0)
EPOCHS = 2
GAP = 1e-2
MOST_SECONDS = 20


def measure(data: Data) -> dict[str, Any]:
    m = len(data.y)
    batch = {}
    for share in SHARES:
        rows = max(50, int(share * m))
        # The same lam: each is the best that can be done with its rows.
        watch = ValidationLoss(data.X_test, data.y_test, patience=10**9)
        stop = Gap(GAP) | Seconds(MOST_SECONDS) | watch
        clocked = Clocked(ConjugateGradients())
        trace = solve(data.problem(LAM, rows), clocked, stop=stop).trace
        batch[f"{rows:,}"] = {
            "seconds": np.cumsum(clocked.spent)[: len(trace)].tolist(),
            "test_loss": trace["validation_loss"].tolist(),
        }
    return {"data": data.name, "lam": LAM, "sgd": _stochastic(data, m), "cg": batch}


def _stochastic(data: Data, m: int) -> dict[str, list[float]]:
    """The held-out loss along the way of svmsgd, its choice of a rate included in its time."""
    from bridle import _core

    problem = data.problem()
    checks = geometric(max(20, m // 100), EPOCHS * m, 16)
    found: dict[str, list[float]] = {"seconds": [], "test_loss": []}
    spent, began = 0.0, time.process_time()
    left = list(checks)
    for it in SvmSgd().iterates(problem, rng=_core.Rng(0), pace=lambda step: left[0] - step):
        if it.step < left[0]:
            continue
        spent += time.process_time() - began
        margins = data.y_test * (data.X_test @ it.w)
        found["seconds"].append(spent)
        found["test_loss"].append(float(Hinge().value(margins).mean()))
        left.pop(0)
        if not left:
            break
        began = time.process_time()
    return found


def _sgd_seconds(n: dict[str, Any], loss: float) -> float | None:
    """When the stochastic run first was at this held-out loss."""
    losses = np.array(n["sgd"]["test_loss"])
    return n["sgd"]["seconds"][int(np.argmax(losses <= loss))] if (losses <= loss).any() else None


def _last(n: dict[str, Any]) -> list[float]:
    return [run["test_loss"][-1] for run in n["cg"].values()]


def _goal(n: dict[str, Any]) -> float:
    return 1.05 * _last(n)[-1]


def _cg_seconds(n: dict[str, Any]) -> float:
    """When conjugate gradients on all rows first were at the goal."""
    run = list(n["cg"].values())[-1]
    return run["seconds"][int(np.argmax(np.array(run["test_loss"]) <= _goal(n)))]


def claim(n: dict[str, Any]) -> str:
    reached = _sgd_seconds(n, _goal(n))
    when = "not in its two epochs" if reached is None else f"after {reached:.2g} s"
    losses = ", ".join(f"{v:.3f}" for v in _last(n))
    return (
        f"Conjugate gradients on {', '.join(n['cg'])} rows end at held-out losses of {losses}. "
        f"svmsgd is within 5% of the last {when}, conjugate gradients on all rows after "
        f"{_cg_seconds(n):.2g} s ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    losses, reached = _last(n), _sgd_seconds(n, _goal(n))
    return (
        losses == sorted(losses, reverse=True)
        and reached is not None and reached < _cg_seconds(n)
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    curve(ax, n["sgd"]["seconds"], n["sgd"]["test_loss"], 0, "svmsgd, all rows", zorder=5)
    for style, (rows, run) in enumerate(n["cg"].items(), 1):
        curve(ax, run["seconds"], run["test_loss"], style, f"cg, {rows} rows")
    ax.set(xscale="log", yscale="log", xlabel="solver's seconds", ylabel="held-out hinge loss")
    plain_ticks(ax.yaxis, (0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0))
    key_above(figure, ax)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
