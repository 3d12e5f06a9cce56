"""When sgd-s should look: the comparison coefficient, raised until the count of epochs settles.

sgd-s estimates its gap from margins that it computed anyway, and takes an exact pass once the
estimate is within `coefficient` times the goal (Panagiotakopoulos & Tsampouka 2013). Too small, it
looks late and runs epochs too many; too large, it pays for passes that find nothing.
"""

from __future__ import annotations

from typing import Any

from bridle import Epochs, Gap, LinearProblem, SgdS, solve
from bridle.study.plots import curve

from experiments.common import Data, key_above, plain_ticks

HEIGHT = 7.2
SEEN = (
    "Two panels over the comparison coefficient: epochs until certified fall until 2 and are "
    "flat beyond; exact passes are one until 2 and rise beyond, to nine for a gap of 2%."
)
C = 0.5
ACCURACIES = (0.2, 0.1, 0.05, 0.02)
COEFFICIENTS = (0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SETTLED = 4.0
MOST_EPOCHS = 2000


def measure(data: Data) -> dict[str, Any]:
    problem = LinearProblem(data.X, data.y, C, n_threads=1)
    runs: dict[str, dict[str, list[Any]]] = {}
    for accuracy in ACCURACIES:
        found = [
            solve(problem, SgdS(coefficient=c), stop=Gap(accuracy) | Epochs(MOST_EPOCHS))
            for c in COEFFICIENTS
        ]
        runs[f"{accuracy:g}"] = {
            "epochs": [f.epochs for f in found], "passes": [len(f.trace) for f in found],
            "converged": [f.converged for f in found],
        }  # fmt: skip
    return {"data": data.name, "C": C, "coefficient": list(COEFFICIENTS), "runs": runs}


def _settled(n: dict[str, Any]) -> dict[str, float]:
    """The least coefficient from which on the count of epochs does not change."""
    found = {}
    for accuracy, run in n["runs"].items():
        k = max((j for j, e in enumerate(run["epochs"]) if e != run["epochs"][-1]), default=-1)
        found[accuracy] = n["coefficient"][min(k + 1, len(n["coefficient"]) - 1)]
    return found


def claim(n: dict[str, Any]) -> str:
    settled = _settled(n)
    most = max(run["passes"][-1] for run in n["runs"].values())
    counts = ", ".join(
        f"{run['epochs'][-1]:g} at {float(a):.0%} (from {settled[a]:g})"
        for a, run in n["runs"].items()
    )
    return (
        f"Raising the coefficient never costs epochs, and the count settles: {counts}. Beyond that "
        f"only exact passes are added, up to {most}. C = {n['C']:g}, {n['data']}."
    )


def holds(n: dict[str, Any]) -> bool:
    return all(
        all(run["converged"]) and run["epochs"] == sorted(run["epochs"], reverse=True)
        and run["passes"][-1] > run["passes"][0]
        for run in n["runs"].values()
    ) and max(_settled(n).values()) <= SETTLED  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    above, below = figure.subplots(2, 1)
    for style, (accuracy, run) in enumerate(n["runs"].items()):
        name = f"gap {float(accuracy):.0%}"
        curve(above, n["coefficient"], run["epochs"], style, name)
        curve(below, n["coefficient"], run["passes"], style, name)
    above.set(
        yscale="log", xscale="log", xlabel="comparison coefficient", ylabel="epochs until certified"
    )
    below.set(xscale="log", xlabel="comparison coefficient", ylabel="exact passes taken")
    plain_ticks(above.yaxis)
    for ax in (above, below):
        plain_ticks(ax.xaxis, (0.5, 1.0, 2.0, 4.0, 8.0))
    key_above(figure, above)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
