"""`bridle path`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    InputFile,
    OutputFile,
    Positive,
    bias_option,
    check_picture,
    device_option,
    json_option,
    keep_what_is_found,
    loss_option,
    peak_rss_mb,
    percent,
    plain,
    print_json,
    print_table,
    read,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
)

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
    """Solve DATA (two classes) for every C between two ends, each certified.

    Prints one line for each solution: the C that it was computed for, the interval of C for which
    it is certified, and its errors.
    """
    clock = Clock()
    check_picture(picture, inputs=tuple(path for path in (data, test) if path is not None))
    with clock.timing("read"):
        rows = read(data, threads, **tables)
        X, y = rows.X, rows.y
    import numpy as np
    from bridle.fitting.c_path import path as solve_path

    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) != 2:
        raise InputError(f"{data}: has {len(classes)} classes; a path needs two")
    keep_what_is_found()
    with reported(), clock.timing("solve"):
        found = solve_path(
            X, 2.0 * codes - 1.0, c_min, c_max, gap=gap, loss=loss, bias=bias, solver=solver,
            max_seconds=max_seconds, seed=seed, n_threads=threads, device=device,
            interrupt="return",
        )  # fmt: skip
    errors = {"error_train": found.errors(X, 2.0 * codes - 1.0)}
    if test is not None:
        errors["error_test"] = _test_errors(found, test, classes, threads, rows)
    if picture is not None:
        from bridle.study.plots import save_path

        with reported():
            save_path(picture, found, errors)
    points = _rows(found, errors)
    if as_json:
        report = {"points": points, "complete": found.complete, "gap": gap, "loss": loss}
        report |= {"bias": bias, **size_report(X, threads), "peak_rss_mb": peak_rss_mb()}
        print_json(report | {"seconds": clock.report()})
    else:
        _print(found, points)
    ctx.exit(REACHED if found.complete else NOT_REACHED)


def _test_errors(
    found: Solutions, test: Path, classes: Any, threads: int | None, trained_on: Data
) -> Any:
    import numpy as np

    rows = read(test, threads, trained_on)
    X, y = rows.X, rows.y
    unknown = set(np.unique(y)) - set(classes)
    if unknown:
        raise InputError(
            f"{test}: has the label {plain(min(unknown))}, which the training data has not"
        )
    X.resize(
        (X.shape[0], trained_on.X.shape[1])
    )  # features that no training row had decide nothing
    return found.errors(X, np.where(y == classes[1], 1.0, -1.0))


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


def _print(found: Solutions, rows: list[dict[str, Any]]) -> None:
    names = [name for name in ("error_train", "error_test") if name in rows[0]]
    print_table(
        str(found),
        ["C", "certified from", "to", "gap", "epochs", *(n.replace("_", " ") for n in names)],
        [
            [
                f"{r['C']:.4g}", f"{r['low']:.4g}", f"{r['high']:.4g}",
                f"{r['relative_gap']:.1e}", f"{r['epochs']:.4g}", *(percent(r[n]) for n in names),
            ]
            for r in rows
        ],
    )  # fmt: skip
