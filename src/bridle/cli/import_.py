"""`bridle import`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.certify import labels_for
from bridle.cli.shared import (
    InputError,
    InputFile,
    NotNegative,
    OutputFile,
    Positive,
    check_writable,
    label_column_option,
    read,
    reported,
    same_classes,
    threads_option,
)

if TYPE_CHECKING:
    from bridle.data.reading import Data


@click.command(
    name="import", epilog="Example: bridle import liblinear.model my.model -c 1 --data train.svm"
)
@click.argument("file", type=InputFile)
@click.argument("model", type=OutputFile)
@click.option(
    "-c", "C", type=Positive,
    help="The C that it was trained with: FILE does not say, and certificates need it.",
)  # fmt: skip
@click.option(
    "-p",
    "epsilon",
    type=NotNegative,
    help="Of a regression: the epsilon that it was trained with, which FILE does not say either.",
)
@click.option(
    "-n", "nu", type=Positive, help="Of one class, instead of -c: the nu that it was trained with."
)
@click.option(
    "--data", type=InputFile, help="What it was trained on: certify it there, and keep the proof."
)
@click.option(
    "--max-seconds", type=Positive, default=60, show_default=True,
    help="How long to look for the best lower bound.",
)  # fmt: skip
@label_column_option
@threads_option
def import_(
    *,
    file: Path,
    model: Path,
    C: float | None,
    epsilon: float | None,
    nu: float | None,
    data: Path | None,
    max_seconds: float,
    label_column: str | None,
    threads: int | None,
) -> None:
    """Read FILE, a text model of LIBLINEAR or SVM-light, and write MODEL.

    MODEL is then good for predict, certify and export. Without --data its gap is unknown.
    """
    check_writable(model, inputs=tuple(path for path in (file, data) if path is not None))
    if C is None and nu is None:
        raise click.UsageError("Missing option '-c', or '-n' of one class")
    from bridle.exchange import import_model
    from bridle.models.storage import CERTIFIED, save_model

    with reported():
        fitted = import_model(file, 1.0 if C is None else C, epsilon=epsilon, nu=nu)
    if C is None and fitted.kind != "linear-one-class":
        raise click.UsageError("Missing option '-c': FILE is not of one class")
    if data is not None and fitted.kind not in CERTIFIED:
        raise InputError(f"{file}: a {fitted.kind} model, and --data certifies linear ones")
    if data is not None:
        labels = fitted.kind != "linear-one-class"
        rows = read(data, threads, label_column=label_column, labels=labels)
        fitted = _certified(fitted, rows, data, max_seconds, threads)
        click.echo(f"{file}: certified gap {fitted.certificate.relative_gap:.2e} on {data}")
    with reported():
        save_model(model, fitted)
    click.echo(f"model written to {model}")


def _certified(fitted: Any, rows: Data, data: Path, max_seconds: float, threads: int | None) -> Any:
    """The model with its certificates on these rows."""
    from bridle.fitting.certification import certify_model
    from bridle.matrix.fingerprint import fingerprint

    X, y = rows.X, labels_for(fitted, rows)
    fitted = same_classes(fitted, X, y, data)
    with reported():
        certificates = certify_model(fitted, X, y, max_seconds=max_seconds, n_threads=threads)
    proven: dict[str, Any] = {"certificates": certificates}
    if fitted.kind != "linear":
        proven = {"certificate": certificates[0]}
    return replace(
        fitted, **proven, fingerprint=fingerprint(X, y), n_rows=X.shape[0],
        zero_based=rows.zero_based,
    )  # fmt: skip
