"""`bridle compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from bridle.cli.options import C_options, check_cost
from bridle.cli.settings import make_loss, named_solvers
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputFile,
    OutputFile,
    Positive,
    bias_option,
    check_picture,
    json_option,
    loss_option,
    measured,
    peak_rss_mb,
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
from bridle.cli.truth import truth_of, widened


@click.command()
@click.argument("data", type=InputFile)
@click.option("--test", type=InputFile, help="Data to measure the error on.")
@click.option(
    "--solvers", default="pegasos,sgd-m,dcd,ocas", show_default=True, metavar="LIST",
    help="Separated by commas; settings follow a name after colons. Of the default, those that can."
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
    """Train several solvers on DATA (two classes, or numbers) and compare them by one certificate.

    Time spent on certificates is not charged to a solver. Exit code 3 if none reached the gap.
    """
    clock = Clock()
    check_cost(C, lam)
    with reported():
        methods, formula = named_solvers(solvers), make_loss(loss)
    check_picture(picture, inputs=tuple(path for path in (data, test) if path is not None))
    with clock.timing("read"):
        rows = read(data, threads, **tables)
        X, y = rows.X, rows.y
        held_out = None if test is None else read(test, threads, rows)
    from bridle.objective.answers import headline
    from bridle.objective.scaling import lam_to_C
    from bridle.problems.linear import LinearProblem
    from bridle.study.comparison import compare as run_all
    from bridle.study.comparison import usable

    C = C or (1.0 if lam is None else lam_to_C(lam, X.shape[0]))
    with reported(), progress(gap) as show:
        truth = truth_of(formula, y, data)
        problem = LinearProblem(X, truth(y), C, loss=formula, bias=bias, n_threads=threads)
        if ctx.get_parameter_source("solvers") is click.core.ParameterSource.DEFAULT:
            methods = usable(methods, problem)
        result = run_all(
            problem, methods, peers=[name.strip() for name in peers.split(",") if name.strip()],
            test=None if held_out is None else (widened(held_out.X, X.shape[1]), truth(held_out.y)),
            gap=gap, max_seconds=max_seconds, seed=seed, watch=show, interrupt="return",
        )  # fmt: skip
    _draw(picture, result, f"{data.name}: {X.shape[0]:,} rows, C = {C:g}")
    report = {
        **size_report(X, threads), **_about(result), "seconds": clock.report(),
        "peak_rss_mb": peak_rss_mb(), "picture": None if picture is None else str(picture),
    }  # fmt: skip
    print_json(report) if as_json else _print(report, headline(formula))
    reached = any(run.certificate.relative_gap <= gap for run in result.runs)
    ctx.exit(REACHED if reached else NOT_REACHED)


def _about(result: Any) -> dict[str, Any]:
    problem = result.problem
    return {
        "C": problem.C, "lam": problem.lam, "loss": problem.loss.name,
        "loss_parameters": problem.loss.parameters, "bias": problem.bias, "gap": result.gap,
        "best_dual": result.best_dual, "runs": result.report(),
    }  # fmt: skip


def _draw(path: Path | None, result: Any, title: str) -> None:
    if path is not None:
        with reported():
            result.plot(path, title)


def _print(report: dict[str, Any], name: str) -> None:
    print_table(
        f"{report['rows']:,} rows, {report['features']:,} features, C = {report['C']:g}, "
        f"{report['loss']}, bias {report['bias']}",
        ["solver", "seconds", "epochs", "primal", "certified gap", "suboptimality",
         *(f"{part} {name.replace('_', ' ')}" for part in ("train", "test")), "status"],
        [
            [
                run["solver"], f"{run['seconds']['solve']:.3g}",
                "" if run["epochs"] is None else f"{run['epochs']:.4g}", f"{run['primal']:.6g}",
                f"{run['relative_gap']:.1e}", f"{run['suboptimality']:.1e}",
                *(measured(name, run.get(f"{name}_{part}")) for part in ("train", "test")),
                run["status"],
            ]
            for run in report["runs"]
        ],
    )  # fmt: skip
    if report["picture"] is not None:
        click.echo(f"picture saved to {report['picture']}")
