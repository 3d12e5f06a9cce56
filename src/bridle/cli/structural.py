"""What the commands share that train structural models: options, solving, what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.options import (
    Decorator,
    budget_options,
    gap_option,
    group,
    output_options,
    solver_options,
)
from bridle.cli.outcome import check_outputs, write_trace
from bridle.cli.settings import make_solver
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputFile,
    OutputFile,
    Positive,
    keep_what_is_found,
    peak_rss_mb,
    print_json,
    progress,
    reported,
    seed_option,
    tell_if_nothing,
    threads_option,
)

if TYPE_CHECKING:
    from bridle.fitting.task import StructuralTask
    from bridle.solvers import Solver
    from bridle.solving.solution import Solution
    from bridle.solving.stopping import Stop


def training_options(*, C: float, about_C: str, gap: float, solver: str) -> Decorator:
    """DATA, MODEL and the options of `Training`, with these defaults."""
    return group(
        click.argument("data", type=InputFile),
        click.argument("model", type=OutputFile, required=False),
        click.option("-c", "C", type=Positive, default=C, show_default=True, help=about_C),
        gap_option(gap), solver_options(solver), budget_options, threads_option, seed_option,
        output_options,
    )  # fmt: skip


@dataclass(frozen=True)
class Training:
    """What the training of any structural model is asked for."""

    data: Path
    model: Path | None
    C: float
    gap: float
    solver: str
    settings: tuple[str, ...]
    keep: Any
    max_seconds: float | None
    max_epochs: float
    max_steps: int | None
    threads: int | None
    seed: int
    test: Path | None
    as_json: bool
    quiet: bool
    trace: Path | None

    @property
    def target(self) -> Path:
        """Where the model goes."""
        return self.model or self.data.with_name(self.data.name + ".model")

    def prepared(self, *inputs: Path | None) -> Solver:
        """The solver; fails before the work if something is wrong with it or with the outputs."""
        from bridle.problems.base import ORACLE

        with reported():
            method = make_solver(self.solver, self.settings, frozenset({ORACLE}))
        read = tuple(path for path in (self.data, self.test, *inputs) if path is not None)
        check_outputs(self.target, self.trace, read)
        return method

    @property
    def stop(self) -> Stop:
        """At the gap, or where a budget is used up."""
        from bridle.solving.stopping import Epochs, Gap, Seconds, Steps

        stop: Stop = Gap(self.gap) | Epochs(self.max_epochs)
        if self.max_seconds is not None:
            stop = stop | Seconds(self.max_seconds)
        return stop if self.max_steps is None else stop | Steps(self.max_steps)


def solve_task(
    make: Callable[[], StructuralTask[Any, Any]], name: str, solver: Solver, options: Training,
    clock: Clock,
) -> tuple[StructuralTask[Any, Any], Solution]:  # fmt: skip
    """The task and its solution; name: what the progress is shown under."""
    from bridle.solving.loop import solve

    keep_what_is_found()
    with progress(options.gap) as show, clock.timing("solve"):
        task = make()
        solution = solve(
            task.problem, solver, stop=options.stop, seed=options.seed, keep=options.keep,
            callbacks=(lambda record: show(name, record),), interrupt="return",
        )  # fmt: skip
    clock.parts["certify"] = solution.trace[-1].seconds_certify
    clock.parts["solve"] -= clock.parts["certify"]
    return task, solution


def conclude(
    ctx: click.Context, options: Training, clock: Clock, solution: Solution, model: Any,
    facts: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], None],
) -> None:  # fmt: skip
    """Write the model and the trace, tell, and exit with what the gap deserves.

    facts: what else to report, found when the model is safe.
    """
    from bridle.models.storage import save_model

    with clock.timing("write"), reported():
        save_model(options.target, model)
        if options.trace is not None:
            write_trace(options.trace, solution.trace.as_dicts())
    tell_if_nothing(model, solution.status, quiet=options.quiet)
    certificate = solution.certificate
    report = {
        "solver": solution.solver, "C": options.C, "primal": certificate.primal,
        "dual": certificate.dual, "relative_gap": certificate.relative_gap,
        "status": solution.status.value, "message": solution.message, "epochs": solution.epochs,
        **facts(), "model": str(options.target), "seconds": clock.report(),
        "peak_rss_mb": peak_rss_mb(),
    }  # fmt: skip
    if options.as_json:
        print_json(report)
    elif not options.quiet:
        show(report)
    ctx.exit(REACHED if solution.converged else NOT_REACHED)
