"""What `bridle train` leaves behind: the model file, the trace, the report."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.options import TrainOptions
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    check_writable,
    fit_width,
    in_words,
    peak_rss_mb,
    plain,
    print_json,
    read_arrays,
    reported,
    tell_if_nothing,
    to_json,
    write_text,
)

if TYPE_CHECKING:
    from bridle.fitting.fit import Fit
    from bridle.fitting.labels import Labels
    from bridle.fitting.regression import RegressionFit
    from bridle.fitting.solutions import Solutions
    from bridle.solving.solution import Solution

TRACE_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson")


def check_outputs(target: Path, trace: Path | None, inputs: tuple[Path, ...]) -> None:
    """Fail before the work if the model or the trace cannot be written."""
    check_writable(target, inputs=inputs)
    if trace is None:
        return
    if trace.suffix not in TRACE_SUFFIXES:
        raise click.BadParameter(
            f"{trace}: the name must end in one of {', '.join(TRACE_SUFFIXES)}",
            param_hint="--trace",
        )
    check_writable(trace, inputs=inputs)


@dataclass(frozen=True)
class Outcome:
    """A model, how it came about, how right it is, and further facts to report."""

    model: Any
    found: Fit | RegressionFit
    measured: dict[str, float]  # on the training rows
    facts: dict[str, Any]


def called(options: TrainOptions, labels: Labels, k: int, solver: str) -> str:
    """What problem k is called."""
    import numpy as np
    from bridle.models.deciding import about

    if labels.n_classes <= 2 or options.way == "crammer_singer":
        return solver
    return about(options.way, np.array([plain(label) for label in labels.classes]), k)


def conclude(
    options: TrainOptions, clock: Clock, outcome: Outcome, target: Path, data: str
) -> int:  # fmt: skip
    """Write the model and the trace, report, and return the exit code."""
    from bridle.models.storage import save_model

    model, solutions = outcome.model, outcome.found.solutions
    names = [
        called(options, outcome.found.labels, k, model.info["solver"])
        for k in range(len(solutions.solutions))
    ]
    with clock.timing("write"), reported():
        save_model(target, model, dual=True)  # which it has if --proof was asked for
        if options.trace is not None:
            _write_traces(options.trace, solutions, names)
    tell_if_nothing(model, solutions.status, quiet=options.quiet)
    measured = {
        "train": outcome.measured, "test": _measured_on(options.test, model, options.threads),
        "validation": _measured_on(options.validation, model, options.threads),
    }  # fmt: skip
    report = {
        **_objective_report(model),
        "status": solutions.status.value,
        "message": _message(solutions, names),
        "epochs": solutions.epochs,
        "place": solutions.worst.place,
        **outcome.facts,
        **{f"error_{part}": None for part in measured},
        **{f"{name}_{part}": m for part, found in measured.items() for name, m in found.items()},
        "model": str(target),
        "classes": None if model.names is None else list(model.names),
        "per_class": _per_class(model.names, solutions),
        "seconds": clock.report(),
        "peak_rss_mb": peak_rss_mb(),
    }
    if options.as_json:
        print_json(report)
    elif not options.quiet:
        shown = [p for p in ("validation", "test") if getattr(options, p) is not None]
        _print(report, data, {part: measured[part] for part in ("train", *shown)})
    return REACHED if all(map(partial(_reached, options), solutions.solutions)) else NOT_REACHED


def _reached(options: TrainOptions, solution: Solution) -> bool:
    """Whether it ended as it was asked to: at a gap, or where held-out rows said so."""
    from bridle.solving.stopping import STOPPED_FALLING

    if options.epochs_a_priori:
        return solution.epochs >= options.max_epochs  # which has become that number
    if solution.status.value in ("converged", "separated"):
        return True
    return options.validation is not None and STOPPED_FALLING in solution.message


def split_time(clock: Clock, found: Fit | RegressionFit) -> None:
    """Divide the time of the fit: calibrating, and the rest as the threads spent it."""
    wall = clock.parts["solve"]
    if found.calibrated is not None:
        clock.parts["calibrate"] = found.calibrated.seconds
        wall -= found.calibrated.seconds
    last = [solution.trace[-1] for solution in found.solutions.solutions]
    certifying = sum(record.seconds_certify for record in last)
    solving = sum(record.seconds_solver for record in last)
    clock.parts["certify"] = wall * certifying / max(certifying + solving, 1e-12)
    clock.parts["solve"] = wall - clock.parts["certify"]


def talk_of(rows: Any, found: Fit | RegressionFit) -> dict[str, Any]:
    """Of rows on a cluster: their sizes, and what the talk with the workers cost."""
    problems: Any = found.problems
    if not hasattr(problems, "facts"):
        return {}
    return {
        "rows": problems.n_rows, "features": problems.n_features, "nnz": problems.facts.nnz,
        "threads": 1, "workers": len(rows), "rounds": problems.base.sides.report.rounds,
        "bytes_moved": rows.bytes_moved, "losses": rows.losses,
        "overhead_ms": 1e3 * rows.seconds_overhead / max(1, rows.rounds),
    }  # fmt: skip


def _objective_report(model: Any) -> dict[str, Any]:
    from bridle.objective.scaling import C_to_lam

    objective, certificate = model.objective, model.certificate
    return {
        "solver": model.info["solver"],
        "C": objective.C,
        "lam": C_to_lam(objective.C, model.n_rows),
        "loss": objective.loss,
        "loss_parameters": objective.parameters,
        **objective.penalty,
        "bias": objective.bias,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "source": certificate.source,
        "assumption": certificate.assumption,
    }


def _per_class(names: Any, found: Solutions) -> list[dict[str, Any]] | None:
    """Of several classes against the rest."""
    if len(found.solutions) == 1 or found.multi_class != "ovr":
        return None
    return [
        {
            "class": label, "primal": s.certificate.primal, "dual": s.certificate.dual,
            "relative_gap": s.certificate.relative_gap, "status": s.status.value,
            "epochs": s.epochs,
        }
        for label, s in zip(names, found.solutions, strict=True)
    ]  # fmt: skip


def _measured_on(test: Path | None, model: Any, threads: int | None) -> dict[str, float]:
    """Nothing if there is no file, or none of the model's labels in it."""
    if test is None:
        return {}
    rows = read_arrays(test, threads, model)
    said = fit_width(model, rows.X, test).predict(rows.X, n_threads=threads)
    measured: dict[str, float] = model.measures(said, rows.y)
    if not measured:
        click.echo(f"bridle: {test}: none of its labels is one of the model's classes", err=True)
    return measured


def _message(found: Solutions, names: list[str]) -> str:
    if len(found.solutions) == 1:
        return found.solutions[0].message
    reached = sum(solution.converged for solution in found.solutions)
    many = f"{reached} of {len(found.solutions)} problems converged"
    return f"{many}; the worst is {names[found.worst_index]}: {found.worst.message}"


def _write_traces(path: Path, found: Solutions, names: list[str]) -> None:
    write_trace(path, [
        ({"class": names[k].removeprefix("class ")} if len(names) > 1 else {}) | row
        for k, solution in enumerate(found.solutions)
        for row in solution.trace.as_dicts()
    ])  # fmt: skip


def write_trace(path: Path, rows: list[dict[str, Any]]) -> None:
    """A record a row, in the form that the name says."""
    if path.suffix != ".csv":
        write_text(path, (to_json(row) + "\n" for row in rows))
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, [text.getvalue()])


def _print(report: dict[str, Any], data: str, measured: dict[str, dict[str, float]]) -> None:
    seconds = report["seconds"]
    if "workers" in report:
        for what in report["losses"]:
            click.echo(what)
        click.echo(
            f"{report['workers']} workers, {report['rounds']} rounds, "
            f"{report['bytes_moved'] / 1e6:.3g} MB moved, {report['overhead_ms']:.3g} ms of "
            "overhead a message"
        )
    click.echo(
        f"{data}: {report['rows']:,} rows, {report['features']:,} features, "
        f"{report['nnz']:,} non-zeros, read in {seconds['read']:.2g} s"
    )
    click.echo(f"{report['solver']}: {report['message']}")
    click.echo(
        f"primal {report['primal']:.8g}, dual {report['dual']:.8g}, C {report['C']:.6g}, "
        f"lam {report['lam']:.6g}; {seconds['solve']:.2g} s solving, "
        f"{seconds['certify']:.2g} s certifying"
    )
    if report["assumption"]:
        click.echo(report["assumption"])
    parts = {"training" if part == "train" else part: found for part, found in measured.items()}
    several = any(len(found) > 1 for found in measured.values())
    told = [f"{part} {in_words(found) or 'error unknown'}" for part, found in parts.items()]
    click.echo(("\n" if several else ", ").join(told))
    click.echo(f"model written to {report['model']}")
