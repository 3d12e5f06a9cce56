"""`bridle compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from bridle.cli.options import C_options, check_cost
from bridle.cli.settings import named_solvers
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
    json_option,
    loss_option,
    peak_rss_mb,
    percent,
    plain,
    print_json,
    print_table,
    progress,
    read,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
)  # fmt: skip


@click.command()
@click.argument("data", type=InputFile)
@click.option("--test", type=InputFile, help="Data to measure the error on.")
@click.option(
    "--solvers", default="pegasos,sgd-m,dcd,ocas", show_default=True, metavar="LIST",
    help="Separated by commas; settings follow a name after colons.",
)  # fmt: skip
@click.option(
    "--peers", default="", metavar="LIST",
    help="Other libraries, if installed: sklearn, liblinear, snapml.",
)  # fmt: skip
@C_options
@click.option(
    "--gap", type=Positive, default=1e-3, show_default=True,
    help="Stop each solver at this certified relative gap.",
)  # fmt: skip
@click.option(
    "--max-seconds", type=Positive, default=30, show_default=True,
    help="Stop each solver after so many seconds of its own.",
)  # fmt: skip
@loss_option
@bias_option
@click.option("--picture", type=OutputFile, help="Draw gaps and errors over time into this file.")
@table_options
@threads_option
@seed_option
@json_option
@click.pass_context
def compare(
    ctx: click.Context,
    /,
    *,
    data: Path,
    test: Path | None,
    solvers: str,
    peers: str,
    C: float | None,
    lam: float | None,
    gap: float,
    max_seconds: float,
    loss: str,
    bias: Any,
    picture: Path | None,
    threads: int | None,
    seed: int,
    as_json: bool,
    **tables: Any,
) -> None:
    """Train several solvers on DATA (two classes) and compare them by one certificate.

    Time spent on certificates is not charged to a solver. Exit code 3 if none reached the gap.
    """
    clock = Clock()
    check_cost(C, lam)
    with reported():
        methods = named_solvers(solvers)
    check_picture(picture, inputs=tuple(path for path in (data, test) if path is not None))
    with clock.timing("read"):
        rows = read(data, threads, **tables)
        X, y = rows.X, rows.y
        held_out = None if test is None else read(test, threads, rows)
    from bridle.objective.scaling import lam_to_C
    from bridle.problems.linear import LinearProblem
    from bridle.study.comparison import compare as run_all

    if C is None:
        C = 1.0 if lam is None else lam_to_C(lam, X.shape[0])
    with reported(), progress(gap) as show:
        signs = _signs(y, data)
        problem = LinearProblem(X, signs(y), C, loss=loss, bias=bias, n_threads=threads)
        result = run_all(
            problem, methods, peers=[name.strip() for name in peers.split(",") if name.strip()],
            test=None if held_out is None else (_fit(held_out.X, X), signs(held_out.y)),
            gap=gap, max_seconds=max_seconds, seed=seed, watch=show, interrupt="return",
        )  # fmt: skip
    _draw(picture, result, f"{data.name}: {X.shape[0]:,} rows, C = {C:g}")
    report = {
        **size_report(X, threads), "C": C, "lam": problem.lam, "loss": loss, "bias": bias,
        "gap": gap, "best_dual": result.best_dual, "runs": result.report(),
        "seconds": clock.report(), "peak_rss_mb": peak_rss_mb(),
        "picture": None if picture is None else str(picture),
    }  # fmt: skip
    if as_json:
        print_json(report)
    else:
        _print(report)
    reached = any(run.certificate.relative_gap <= gap for run in result.runs)
    ctx.exit(REACHED if reached else NOT_REACHED)


def _signs(y: Any, data: Path) -> Any:
    """A function from labels to -1 and +1; the larger of the two labels is +1."""
    import numpy as np

    labels = np.unique(y)
    if len(labels) != 2:
        raise InputError(f"{data}: compare needs two classes, found {len(labels)}")

    def signs(values: Any) -> Any:
        other = values[~np.isin(values, labels)]
        if len(other):
            raise InputError(f"the test data have the label {plain(other[0])}, unknown in {data}")
        return np.where(values == labels[1], 1.0, -1.0)

    return signs


def _fit(X_test: Any, X: Any) -> Any:
    """The test data with as many features as the training data."""
    X_test = X_test.copy()
    X_test.resize((X_test.shape[0], X.shape[1]))
    return X_test


def _draw(path: Path | None, result: Any, title: str) -> None:
    if path is not None:
        with reported():
            result.plot(path, title)


def _print(report: dict[str, Any]) -> None:
    print_table(
        f"{report['rows']:,} rows, {report['features']:,} features, C = {report['C']:g}, "
        f"{report['loss']}, bias {report['bias']}",
        ["solver", "seconds", "epochs", "primal", "certified gap", "suboptimality", "train error",
         "test error", "status"],
        [
            [
                run["solver"], f"{run['seconds']['solve']:.3g}",
                "" if run["epochs"] is None else f"{run['epochs']:.4g}", f"{run['primal']:.6g}",
                f"{run['relative_gap']:.1e}", f"{run['suboptimality']:.1e}",
                percent(run["error_train"]),
                "" if run["error_test"] is None else percent(run["error_test"]), run["status"],
            ]
            for run in report["runs"]
        ],
    )  # fmt: skip
    if report["picture"] is not None:
        click.echo(f"picture saved to {report['picture']}")
