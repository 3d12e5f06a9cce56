"""`bridle report`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.settings import make_loss, named_solvers
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    InputFile,
    OutputFile,
    Positive,
    bias_option,
    check_writable,
    json_option,
    loss_option,
    peak_rss_mb,
    percent,
    print_json,
    read,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
)  # fmt: skip

if TYPE_CHECKING:
    from bridle.data.reading import Data


@click.command()
@click.argument("data", type=InputFile)
@click.option("--test", type=InputFile, help="Data to measure the errors on.")
@click.option(
    "-o", "--output", type=OutputFile, default=Path("report.html"), show_default=True,
    help="The page to write.",
)  # fmt: skip
@click.option("--names", type=InputFile, help="Names of the features, one a line, in order.")
@click.option(
    "--folds", type=click.IntRange(2, 100), default=3, show_default=True,
    help="Of the cross-validation that chooses C.",
)  # fmt: skip
@click.option(
    "--solvers", metavar="LIST",
    help="To compare; separated by commas, settings follow a name after colons. Without it, four "
    "that can minimise the loss.",
)  # fmt: skip
@click.option(
    "--gap", type=Positive, default=1e-3, show_default=True,
    help="Stop the final fit, and each solver, at this certified relative gap.",
)  # fmt: skip
@click.option(
    "--max-seconds", type=Positive, default=10, show_default=True,
    help="For each fold's path over C, for the final fit and for each solver.",
)  # fmt: skip
@loss_option
@bias_option
@table_options
@threads_option
@seed_option
@json_option
@click.pass_context
def report(
    ctx: click.Context,
    /,
    *,
    data: Path,
    test: Path | None,
    output: Path,
    names: Path | None,
    folds: int,
    solvers: str | None,
    gap: float,
    max_seconds: float,
    loss: str,
    bias: Any,
    threads: int | None,
    seed: int,
    as_json: bool,
    **tables: Any,
) -> None:
    """Choose C for DATA, fit, compare solvers, and write all of it as one page.

    Of classes, or of numbers where the loss is one. The page needs no network and no other file.
    """
    clock = Clock()
    with reported():
        formula = make_loss(loss)
        methods = None if solvers is None else named_solvers(solvers)
    check_writable(output, inputs=tuple(p for p in (data, test, names) if p is not None))
    with clock.timing("read"):
        rows = read(data, threads, **tables)
        X, y = rows.X, rows.y
        other = None if test is None else read(test, threads, rows)
        called = _names(names, rows)
    held_out = None if other is None else (other.X, other.y)
    from bridle.study.report import make_report, write_report

    with reported(), clock.timing("solve"):
        made = make_report(
            X, y, test=held_out, feature_names=called, title=data.name, command=_command(),
            loss=formula, bias=bias, gap=gap, folds=folds, solvers=methods, max_seconds=max_seconds,
            seed=seed, n_threads=threads,
        )  # fmt: skip
    with reported(), clock.timing("write"):
        write_report(output, made)
    model = made["model"]
    if as_json:
        shown = {k: v for k, v in model.items() if k != "seconds"}
        print_json({
            "solver": "auto", **shown, **size_report(X, threads), "report": str(output),
            "seconds": clock.report(), "peak_rss_mb": peak_rss_mb(),
        })  # fmt: skip
    else:
        click.echo(
            f"C = {model['C']:.4g} by {folds}-fold cross-validation; certified gap "
            f"{model['relative_gap']:.1e}; {_judged(made)}"
        )
        click.echo(f"report written to {output}")
    ctx.exit(REACHED if model["status"] == "converged" else NOT_REACHED)


def _judged(made: dict[str, Any]) -> str:
    """How right the model is, in a few words."""
    if made["kind"] == "classes":
        errors = made["errors"]
        return f"{percent(errors['error'])} of the {errors['rows']} wrong"
    name = made["residuals"]["rows"]
    measures = made["residuals"]["measures"][name]
    return f"mean absolute error {measures['mean_absolute_error']:.4g} of the {name}"


def _names(path: Path | None, rows: Data) -> list[str]:
    """From the file or, without one, the names or numbers that the data file uses."""
    n_features, first = rows.X.shape[1], 0 if rows.zero_based else 1
    if path is None:
        known = () if rows.columns is None else rows.columns.numbers
        return [*known, *(f"feature {j + first}" for j in range(len(known), n_features))]
    with reported():
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    if len(lines) < n_features:
        raise InputError(f"{path}: has {len(lines)} names; the data have {n_features} features")
    return lines[:n_features]


def _command() -> str:
    return shlex.join(["bridle", *sys.argv[1:]])
