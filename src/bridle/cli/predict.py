"""`bridle predict`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.shared import (
    Clock,
    InputError,
    InputFile,
    InputFileOrStream,
    OutputFileOrStdout,
    check_writable,
    fit_width,
    in_words,
    json_option,
    label_column_option,
    peak_rss_mb,
    print_json,
    read_arrays,
    read_model,
    reported,
    size_report,
    threads_option,
    write_text,
)  # fmt: skip

if TYPE_CHECKING:
    from bridle.files.packed import Source

PREDICTING = (
    "linear", "multivariate", "kernel", "regression", "linear-one-class", "kernel-regression",
    "one-class",
)  # fmt: skip
LINES_AT_A_TIME = 100_000


@click.command()
@click.argument("data", type=InputFileOrStream)
@click.argument("model", type=InputFile)
@click.argument("output", type=OutputFileOrStdout, required=False)
@click.option("--scores", is_flag=True, help="Write decision values instead of labels.")
@click.option(
    "--probability", is_flag=True,
    help="Write probabilities, in the order of the classes; needs train --probability.",
)  # fmt: skip
@click.option(
    "-b", "liblinear", type=click.Choice(["0", "1"]), default="0",
    help="As LIBLINEAR's: 1 writes a line with the labels, then each label with its probabilities.",
)  # fmt: skip
@label_column_option
@threads_option
@json_option
@click.pass_context
def predict(
    ctx: click.Context,
    /,
    *,
    data: Source,
    model: Path,
    output: Path | None,
    scores: bool,
    probability: bool,
    liblinear: str,
    label_column: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Apply MODEL to DATA (svmlight, .npz, .csv, .parquet); one label or number a line to OUTPUT.

    DATA = - reads svmlight lines from standard input, to their end. Without OUTPUT, or with -, the
    labels go to standard output, unless --json wants it. Features
    that DATA lacks are zeros; features beyond the model's are ignored, with a note. How right the
    answers are is reported if DATA has labels that the model can give, or numbers.
    """
    clock = Clock()
    if scores + probability + (liblinear == "1") > 1:
        raise click.UsageError("--scores, --probability or -b 1: give one of them")
    asked = ctx.get_parameter_source("output") is click.core.ParameterSource.COMMANDLINE
    if output is None and asked and as_json:
        raise click.UsageError("--json has standard output to itself: name a file for the labels")
    if output is not None:
        check_writable(output, inputs=(data, model))
    with clock.timing("read"):
        fitted = read_model(model, PREDICTING)
        rows = read_arrays(data, threads, fitted, labels=False, label_column=label_column)
        if fitted.needs_matrix:
            from bridle.data.reading import with_matrix

            rows = with_matrix(rows)
        X, y = rows.X, rows.y
    with reported(), clock.timing("solve"):
        sized = fit_width(fitted, X, data)
        values = sized.decision_function(X, n_threads=threads)
        labels = fitted.decide(values)
        shown = values if scores else labels
        if probability or liblinear == "1":
            shown = _probabilities(sized, X, threads, model)
    measured = {} if y is None else fitted.measures(labels, y)
    names = None if scores else fitted.names
    lines = _lines(shown, names)
    if names is not None and liblinear == "1":
        lines = _as_liblinear(labels, shown, names)
    with clock.timing("write"), reported():
        _write(lines, output, to_stdout=not as_json)
    if as_json:
        print_json({
            **size_report(X, threads), "model": str(model),
            "classes": None if fitted.names is None else list(fitted.names), "error_test": None,
            **{f"{name}_test": value for name, value in measured.items()},
            "seconds": clock.report(), "peak_rss_mb": peak_rss_mb(),
        })  # fmt: skip
    elif measured:
        click.echo(f"{in_words(measured)} on {len(labels):,} rows", err=True)


def _write(lines: Iterator[str], output: Path | None, *, to_stdout: bool) -> None:
    if output is not None:
        write_text(output, lines)
    elif to_stdout:
        for chunk in lines:
            click.echo(chunk, nl=False)


def _probabilities(model: Any, X: Any, threads: int | None, path: Path) -> Any:
    if model.names is None:
        raise InputError(f"{path}: predicts numbers, and has no probabilities")
    if "calibrators" not in model.info:
        raise InputError(f"{path}: has no probabilities: train it with --probability platt")
    return model.predict_proba(X, n_threads=threads)


def _as_liblinear(labels: Any, chances: Any, names: dict[Any, str]) -> Iterator[str]:
    """The labels in the order of the columns, then a line for each row."""
    yield f"labels {' '.join(names.values())}\n"
    for label, row in zip(labels.tolist(), chances.tolist(), strict=True):
        yield f"{names[label]} {' '.join(map('{:g}'.format, row))}\n"


def _lines(values: Any, names: dict[Any, str] | None) -> Iterator[str]:
    """Text, many lines at a time: of numbers, or of labels by their names."""
    for first in range(0, len(values), LINES_AT_A_TIME):
        block = values[first : first + LINES_AT_A_TIME].tolist()
        if values.ndim == 2:
            lines = [" ".join(map(repr, row)) for row in block]
        else:
            lines = list(map(repr if names is None else names.__getitem__, block))
        yield "\n".join(lines) + "\n"
