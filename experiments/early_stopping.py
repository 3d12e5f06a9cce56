"""Early stopping, both ways: by held-out rows, and by a number of epochs found beforehand.

Bottou, "Stochastic gradient descent tricks" (2012): watch the loss on held-out rows and stop when
it no longer falls; or find the best number of epochs on two subsamples, then run it on all rows.
Claimed of texts, where a small lam learns the rows by heart. On a table of few features (a9a) the
held-out loss rises and the error goes on falling: a stop by the loss comes too soon.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Epochs, SvmSgd, ValidationLoss, epochs_a_priori, solve
from bridle.study.plots import curve, ink

from experiments.common import Data, key_above, plain_ticks

HEIGHT = 7.6
SEEN = (
    "Above, the training objective falls on and on while the held-out loss rises from the "
    "fourth epoch; below, the held-out error rises with it. Vertical lines mark where the two "
    "rules stop, at 4 and 7 epochs."
)
LAM = 1e-6  # so small that the rows can be learnt by heart
ETA0 = 0.1  # rows have length 1: a slow start, so that there is a course to watch
LONG = 60
PATIENCE = 5
POINTS = 0.003


def measure(data: Data) -> dict[str, Any]:
    m = len(data.y)
    kept = int(0.8 * m)
    problem = data.problem(LAM, kept)
    held_out = (data.X[kept:], data.y[kept:])
    solver = SvmSgd(eta0=ETA0)
    never = ValidationLoss(*held_out, patience=10**9)
    long = solve(problem, solver, stop=Epochs(LONG))
    trace = solve(problem, solver, stop=never | Epochs(LONG)).trace
    watched = solve(problem, solver, stop=ValidationLoss(*held_out, patience=PATIENCE))
    planned = epochs_a_priori(data.problem(LAM), solver, patience=PATIENCE)
    return {
        "data": data.name, "lam": LAM, "epoch": trace["epoch"].tolist(),
        "objective": (problem.lam * trace["primal_now"]).tolist(),
        "held_out_loss": trace["validation_loss"].tolist(),
        "held_out_error": trace["validation_error"].tolist(),
        "stops": {
            "held-out rows": {"epochs": watched.epochs, "test_error": data.test_error(watched.w)},
            "a priori": {"epochs": planned.epochs, "test_error": data.test_error(planned.w)},
        },
        "long": {"epochs": LONG, "test_error": data.test_error(long.w)},
    }  # fmt: skip


def claim(n: dict[str, Any]) -> str:
    watched, planned, long = n["stops"]["held-out rows"], n["stops"]["a priori"], n["long"]
    return (
        f"On texts: held-out rows stop the run after {watched['epochs']:g} epochs at a test error "
        f"of {watched['test_error']:.2%}; subsamples said {planned['epochs']:g} epochs: "
        f"{planned['test_error']:.2%}. {long['epochs']} epochs give {long['test_error']:.2%}, and "
        f"the held-out loss has risen by a factor of {_rise(n):.2f} from its least "
        f"({n['data']}, lam = {n['lam']:g})."
    )


def _rise(n: dict[str, Any]) -> float:
    return n["held_out_loss"][-1] / min(n["held_out_loss"])


def holds(n: dict[str, Any]) -> bool:
    return _rise(n) > 1.02 and n["objective"][-1] < n["objective"][0] and all(
        stop["epochs"] < n["long"]["epochs"]
        and stop["test_error"] < n["long"]["test_error"] + POINTS
        for stop in n["stops"].values()
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    above, below = figure.subplots(2, 1)
    shown = np.array(n["epoch"]) >= 1
    epoch = np.array(n["epoch"])[shown]
    curve(above, epoch, np.array(n["objective"])[shown], 0, "training objective")
    curve(above, epoch, np.array(n["held_out_loss"])[shown], 1, "held-out loss")
    curve(below, epoch, 100 * np.array(n["held_out_error"])[shown], 1, "held-out error")
    for ax in (above, below):
        for (name, stop), dash in zip(n["stops"].items(), ("--", ":"), strict=True):
            ax.axvline(stop["epochs"], color=ink(), linestyle=dash, linewidth=1.8,
                       label=f"stopped: {name}")  # fmt: skip
        ax.set(xscale="log", xlabel="epochs")
        plain_ticks(ax.xaxis)
    above.set(yscale="log", ylabel="loss, objective")
    plain_ticks(above.yaxis)
    below.set_ylabel("held-out error (%)")
    key_above(figure, above)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
