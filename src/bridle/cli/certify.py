"""`bridle certify`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.shared import (
    Clock,
    InputFile,
    Positive,
    in_words,
    json_option,
    label_column_option,
    peak_rss_mb,
    print_json,
    read,
    read_model,
    reported,
    same_classes,
    size_report,
    threads_option,
)  # fmt: skip

if TYPE_CHECKING:
    from bridle.data.reading import Data


@click.command()
@click.argument("data", type=InputFile)
@click.argument("model", type=InputFile)
@click.option(
    "--max-seconds", type=Positive, default=60, show_default=True,
    help="How long to look for the best lower bound.",
)  # fmt: skip
@label_column_option
@threads_option
@json_option
def certify(
    *,
    data: Path,
    model: Path,
    max_seconds: float,
    label_column: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Prove how far MODEL is from the optimum of its objective on DATA.

    The primal value of its weights is computed exactly, the lower bound by a dual solver within the
    time limit; nothing in the file is believed but the weights and the objective.
    """
    clock = Clock()
    with clock.timing("read"):
        fitted = _certifiable(model)
        labels = fitted.kind != "linear-one-class"
        rows = read(data, threads, fitted, label_column=label_column, labels=labels)
        X, y = rows.X, labels_for(fitted, rows)
    from bridle.fitting.certification import certify_model
    from bridle.matrix.fingerprint import fingerprint
    from bridle.objective.certificate import total

    sized = same_classes(fitted, X, y, data)
    same = fingerprint(X, y) == fitted.fingerprint if fitted.fingerprint else None
    with clock.timing("certify"), reported():
        certificates = certify_model(sized, X, y, max_seconds=max_seconds, n_threads=threads)
        measured = sized.measures(sized.predict(X, n_threads=threads), rows.y)
    whole = total(certificates)
    objective = fitted.objective
    report = {
        "solver": fitted.info.get("solver"),
        "C": objective.C,
        "lam": 1.0 / (X.shape[0] * objective.C),
        "loss": objective.loss,
        "loss_parameters": objective.parameters,
        "bias": objective.bias,
        "primal": whole.primal,
        "dual": whole.dual,
        "relative_gap": whole.relative_gap,
        "source": whole.source,
        "relative_gap_in_file": fitted.certificate.relative_gap,
        "trained_on_these_data": same,
        "seconds": clock.report(),
        **size_report(X, threads),
        "peak_rss_mb": peak_rss_mb(),
        **{f"{name}_{'train' if same else 'test'}": value for name, value in measured.items()},
    }
    if as_json:
        print_json(report)
        return
    click.echo(
        f"{model}: certified gap {whole.relative_gap:.2e} on {data}"
        f"{', which it was not trained on' if same is False else ''}"
    )
    click.echo(f"primal {whole.primal:.8g}, dual {whole.dual:.8g}; {in_words(measured)}")
    claimed = fitted.certificate.relative_gap
    if math.isfinite(claimed):  # an imported model claims nothing
        click.echo(f"the file itself says {claimed:.2e}")


def _certifiable(path: Path) -> Any:
    from bridle.models.storage import CERTIFIED

    return read_model(path, CERTIFIED)


def labels_for(model: Any, rows: Data) -> Any:
    """Those of the file, or of one class, which looks at none, what stands for them."""
    import numpy as np

    return np.ones(rows.X.shape[0]) if model.kind == "linear-one-class" else rows.y
