"""What the commands share that train structural models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    keep_what_is_found,
    print_json,
    progress,
    reported,
)

if TYPE_CHECKING:
    from bridle.fitting.task import StructuralTask
    from bridle.solvers import Solver
    from bridle.solving.solution import Keep, Solution


def solve_task(
    make: Callable[[], StructuralTask[Any, Any]], name: str, solver: str | Solver, *, clock: Clock,
    gap: float, max_epochs: float, max_seconds: float | None = None, seed: int,
    keep: Keep,
) -> tuple[StructuralTask[Any, Any], Solution]:  # fmt: skip
    """The task and its solution; name: what the progress is shown under."""
    from bridle.solving.loop import solve
    from bridle.solving.stopping import Epochs, Gap, Seconds

    stop = Gap(gap) | Epochs(max_epochs)
    if max_seconds is not None:
        stop = stop | Seconds(max_seconds)
    keep_what_is_found()
    with progress(gap) as show, clock.timing("solve"):
        task = make()
        solution = solve(
            task.problem, solver, stop=stop, seed=seed, keep=keep,
            callbacks=(lambda record: show(name, record),), interrupt="return",
        )  # fmt: skip
    clock.parts["certify"] = solution.trace[-1].seconds_certify
    clock.parts["solve"] -= clock.parts["certify"]
    return task, solution


def write_model(target: Path, model: Any, clock: Clock) -> None:
    """Into the file, timed."""
    from bridle.models.storage import save_model

    with clock.timing("write"), reported():
        save_model(target, model)


def solution_report(solution: Solution, C: float) -> dict[str, Any]:
    """What was proved, and how it ended."""
    certificate = solution.certificate
    return {
        "solver": solution.solver, "C": C, "primal": certificate.primal, "dual": certificate.dual,
        "relative_gap": certificate.relative_gap, "status": solution.status.value,
        "message": solution.message, "epochs": solution.epochs,
    }  # fmt: skip


def finish(
    ctx: click.Context, report: dict[str, Any], solution: Solution, *, as_json: bool,
    show: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """Tell, and exit with what the gap deserves."""
    if as_json:
        print_json(report)
    else:
        show(report)
    ctx.exit(REACHED if solution.converged else NOT_REACHED)
