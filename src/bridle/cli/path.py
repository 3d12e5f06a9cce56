"""`bridle path`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.settings import make_loss
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputFile,
    OutputFile,
    Positive,
    bias_option,
    check_picture,
    device_option,
    json_option,
    keep_what_is_found,
    loss_option,
    measured,
    peak_rss_mb,
    print_json,
    print_table,
    read,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
)
from bridle.cli.truth import truth_of, widened

if TYPE_CHECKING:
    from bridle.data.reading import Data
    from bridle.fitting.c_path import Path as Solutions


@click.command()
@click.argument("data", type=InputFile)
@click.option("--c-min", type=Positive, default=0.01, show_default=True, help="The smallest C.")
@click.option("--c-max", type=Positive, default=10.0, show_default=True, help="The largest C.")
@click.option(
    "--gap", type=Positive, default=1e-2, show_default=True,
    help="Certify every C in between to this relative duality gap.",
)  # fmt: skip
@click.option("--solver", default="auto", show_default=True, help="Name of the method.")
@loss_option
@bias_option
@click.option("--max-seconds", type=Positive, help="At most so many seconds for each solve.")
@click.option("--test", type=InputFile, help="Data to measure the error on.")
@click.option("--picture", type=OutputFile, help="Draw errors and gap over C into this file.")
@table_options
@threads_option
@device_option
@seed_option
@json_option
@click.pass_context
def path(
    ctx: click.Context,
    /,
    *,
    data: Path,
    c_min: float,
    c_max: float,
    gap: float,
    solver: str,
    loss: str,
    bias: Any,
    max_seconds: float | None,
    test: Path | None,
    picture: Path | None,
    threads: int | None,
    device: Any,
    seed: int,
    as_json: bool,
    **tables: Any,
) -> None:
    """Solve DATA (two classes, or numbers) for every C between two ends, each certified.

    Prints one line for each solution: the C that it was computed for, the interval of C for which
    it is certified, and how right it is.
    """
    clock = Clock()
    check_picture(picture, inputs=tuple(path for path in (data, test) if path is not None))
    with clock.timing("read"):
        rows = read(data, threads, **tables)
        X, y = rows.X, rows.y
        others = None if test is None else read(test, threads, rows)
    from bridle.fitting.c_path import path as solve_path

    keep_what_is_found()
    with reported(), clock.timing("solve"):
        formula = make_loss(loss)
        truth = truth_of(formula, y, data)
        found = solve_path(
            X, truth(y), c_min, c_max, gap=gap, loss=formula, bias=bias, solver=solver,
            max_seconds=max_seconds, seed=seed, n_threads=threads, device=device,
            interrupt="return",
        )  # fmt: skip
    errors, shown = _measured(found, formula, truth, rows, others)
    if picture is not None:
        from bridle.study.plots import save_path

        with reported():
            save_path(picture, found, {name: errors[name] for name in shown})
    points = _rows(found, errors)
    if as_json:
        report = {"points": points, "complete": found.complete, "gap": gap, "loss": formula.name}
        report["loss_parameters"] = formula.parameters
        report |= {"bias": bias, **size_report(X, threads), "peak_rss_mb": peak_rss_mb()}
        print_json(report | {"seconds": clock.report()})
    else:
        _print(found, points, shown)
    ctx.exit(REACHED if found.complete else NOT_REACHED)


def _measured(
    found: Solutions, loss: Any, truth: Any, rows: Data, others: Data | None
) -> tuple[dict[str, Any], list[str]]:
    """What there is of each solution, and the names of what to show."""
    from bridle.objective.answers import headline

    measures = {"train": found.measures(rows.X, truth(rows.y), loss)}
    if others is not None:
        there = widened(others.X, rows.X.shape[1]), truth(others.y)
        measures["test"] = found.measures(*there, loss)
    errors = {f"{name}_{part}": v for part, m in measures.items() for name, v in m.items()}
    return errors, [name for name in errors if name.startswith(headline(loss))]


def _rows(found: Solutions, errors: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "C": point.C, "low": point.low, "high": point.high,
            "primal": point.solution.certificate.primal, "dual": point.solution.certificate.dual,
            "relative_gap": point.solution.certificate.relative_gap,
            "epochs": point.solution.epochs, "status": point.solution.status.value,
            **{name: float(values[k]) for name, values in errors.items()},
        }
        for k, point in enumerate(found)
    ]  # fmt: skip


def _print(found: Solutions, rows: list[dict[str, Any]], names: list[str]) -> None:
    print_table(
        str(found),
        ["C", "certified from", "to", "gap", "epochs", *(n.replace("_", " ") for n in names)],
        [
            [
                f"{r['C']:.4g}", f"{r['low']:.4g}", f"{r['high']:.4g}",
                f"{r['relative_gap']:.1e}", f"{r['epochs']:.4g}",
                *(measured(n, r[n]) for n in names),
            ]
            for r in rows
        ],
    )  # fmt: skip
