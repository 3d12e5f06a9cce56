"""`bridle export`."""

from __future__ import annotations

from pathlib import Path

import click
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
    fitted = read_model(model, ("linear", "kernel"))
    from bridle.exchange import export_model

    with reported():
        export_model(output, fitted, name)
    if fitted.zero_based and name != "onnx" and output.suffix != ".onnx":
        click.echo(
            f"bridle: {model}: its data count features from 0; in {output} they count from 1",
            err=True,
        )
    click.echo(f"model written to {output}")
