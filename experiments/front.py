"""The picture of the first page: what it takes to be certified to be so near to the optimum.

python -m experiments.front [docs]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.pictures import save_pair
from bridle import Gap, LinearProblem, Seconds, solve
from bridle.data import make_corpus
from bridle.study.plots import curve

SOLVERS = ("dcd", "ocas", "sgd-m", "pegasos")
GAPS = (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
MOST_SECONDS = 5


def course(problem: LinearProblem, solver: str) -> tuple[list[float], list[float]]:
    """Seconds of the solver, and the gap that is certified then: a run for each."""
    seconds, gaps = [], []
    for gap in GAPS:
        found = solve(problem, solver, stop=Gap(gap) | Seconds(MOST_SECONDS))
        if not found.converged:
            break
        seconds.append(found.trace["seconds_solver"][-1])
        gaps.append(found.certificate.relative_gap)
    return seconds, gaps


def main(docs: str = "docs") -> None:
    problem = LinearProblem(*make_corpus(50_000, seed=0), 0.1, n_threads=1)
    course(problem, "dcd")  # warms up
    runs = {name: course(problem, name) for name in SOLVERS}

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for style, name in enumerate(SOLVERS):
            curve(ax, *runs[name], style, name)
        ax.set(xscale="log", yscale="log", ylabel="certified gap (P - D) / P")
        ax.set_xlabel("seconds, 50,000 texts, C = 0.1")
        ax.legend(handlelength=3)

    save_pair(draw, 4.6, Path(docs) / "pictures" / "front.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
