"""`bridle export`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from bridle.cli.predict import PREDICTING
from bridle.cli.shared import InputFile, OutputFile, check_writable, read_model, reported


@click.command(epilog="Example: bridle export news.model news.onnx")
@click.argument("model", type=InputFile)
@click.argument("output", type=OutputFile)
@click.option(
    "--format", "name", type=click.Choice(["liblinear", "svmlight", "onnx"]),
    help="Of OUTPUT.  [default: as its name ends]",
)  # fmt: skip
def export(model: Path, output: Path, name: str | None) -> None:
    """Write MODEL as OUTPUT, for LIBLINEAR's or SVM-light's tools or as ONNX.

    LIBLINEAR and SVM-light count features from 1: the first feature of the data is their number 1.
    """
    check_writable(output, inputs=(model,))
    fitted = read_model(model, PREDICTING)
    from bridle.exchange import export_model

    with reported():
        export_model(output, fitted, name)
    for said in _left_out(fitted, name or output.suffix[1:]):
        click.echo(f"bridle: {model}: {said.format(output)}", err=True)
    click.echo(f"model written to {output}")


def _left_out(model: Any, format: str) -> Iterator[str]:
    """What the other tool's file does not say, in a sentence each."""
    onnx = format == "onnx"
    if model.zero_based and not onnx:
        yield "its data count features from 0; in {} they count from 1"
    own = format == "liblinear" and model.objective.formula.sigmoid  # which it knows
    if "calibrators" in model.info and not (onnx or own):
        yield "its probabilities are not in {}, which has no place for them"
    if "columns" in model.info:
        yield "the names of its columns are not in {}, which knows features by their numbers"
