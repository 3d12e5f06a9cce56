"""svmsgd, asgd, sgd-qn and sgd-m in single precision, on the same permutations, at small C.

Rows and weights have 4 bytes a number, as in the programs of their authors; the same runs in double
precision lie beside them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import AveragedSgd, LinearProblem, SgdM, SgdQn, Solver, SvmSgd
from bridle.solvers.shared.rate_ladder import search_eta0

from experiments.common import Data, course, key_above, line, optimum

SIZE = (11, 5.6)
C = 0.05
EPOCHS = 10
CLOSE, GOOD = 1e-3, 0.01


def solvers(problem: LinearProblem) -> dict[str, Solver]:
    """One eta_0 for all that have one, so that none draws more random numbers than another."""
    eta0 = search_eta0(problem)
    return {
        "svmsgd": SvmSgd(eta0=eta0), "asgd": AveragedSgd(eta0=eta0), "sgd-qn": SgdQn(eta0=eta0),
        "sgd-m": SgdM(),
    }  # fmt: skip


def measure(data: Data) -> dict[str, Any]:
    m = len(data.y)
    steps = [m * e for e in range(1, EPOCHS + 1)]
    double = LinearProblem(data.X.astype(np.float64), data.y, C, n_threads=1)
    single = LinearProblem(data.X.astype(np.float32), data.y, C, n_threads=1)
    best = optimum(double)
    runs = {}
    for name, solver in solvers(double).items():
        in_single = course(data, single, solver, steps)
        # The objective itself is computed in double precision for both.
        in_double = course(data, double, solver, steps)
        a, b = np.array(in_single["objective"]), np.array(in_double["objective"])
        runs[name] = {
            "epoch": list(range(1, EPOCHS + 1)), "seconds": in_single["seconds"],
            "above": (a / best - 1).tolist(), "test_error": in_single["test_error"],
            "difference": float(np.max(np.abs(a / b - 1))),
        }  # fmt: skip
    return {"data": data.name, "C": C, "runs": runs}


def claim(n: dict[str, Any]) -> str:
    worst = max(run["difference"] for run in n["runs"].values())
    last = ", ".join(f"{name} {run['above'][-1]:.1e}" for name, run in n["runs"].items())
    return (
        f"At C = {n['C']:g} single precision changes the objective by a share of {worst:.0e} at "
        f"the most after any epoch. Above the optimum after {EPOCHS} epochs: {last} ({n['data']})."
    )


def holds(n: dict[str, Any]) -> bool:
    runs = n["runs"]
    return all(
        run["difference"] < CLOSE and run["above"][-1] < run["above"][0] for run in runs.values()
    ) and all(runs[name]["above"][-1] < GOOD for name in ("svmsgd", "asgd", "sgd-m"))  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for style, (name, run) in enumerate(n["runs"].items()):
        above = 100 * np.maximum(run["above"], 1e-6)
        line(left, run["epoch"], above, style, name)
        line(right, run["seconds"], above, style, name)
    left.set(yscale="log", xlabel="epochs", ylabel="objective above the optimum (%)")
    right.set(xscale="log", xlabel="CPU seconds")
    key_above(figure, left, 4)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
