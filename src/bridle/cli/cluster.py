"""`bridle train --dask ADDRESS FILES... [MODEL]`: on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    NotNegative,
    Positive,
    bias_option,
    check_writable,
    json_option,
    loss_option,
    percent,
    plain,
    print_json,
    progress,
    reported,
    seed_option,
)  # fmt: skip


@click.command("train")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dask", required=True, metavar="ADDRESS", help="Of the scheduler: tcp://host:8786.")
@click.option("-c", "C", type=Positive, default=1.0, show_default=True)
@click.option("--gap", type=NotNegative, default=1e-3, show_default=True)
@loss_option
@bias_option
@click.option("--work", type=Positive, help="Epochs between two exchanges.")
@click.option("--max-seconds", type=Positive)
@click.option("--max-epochs", type=Positive, default=1000, show_default=True)
@seed_option
@json_option
@click.pass_context
def train_on_dask(
    ctx: click.Context,
    *,
    paths: tuple[Path, ...],
    dask: str,
    C: float,
    gap: float,
    loss: str,
    bias: Any,
    work: float | None,
    max_seconds: float | None,
    max_epochs: float,
    seed: int,
    as_json: bool,
) -> None:
    """Train on .arrow files that all workers of a Dask cluster can read, and write MODEL.

    The last name is MODEL if it does not end in .arrow; else it is the first file's, with .model.
    """
    clock = Clock()
    files = [path for path in paths if path.suffix == ".arrow"]
    others = [path for path in paths if path.suffix != ".arrow"]
    if not files or len(others) > 1 or (others and others[0] != paths[-1]):
        raise click.UsageError("with --dask, give .arrow files, and then MODEL")
    target = others[0] if others else files[0].with_name(files[0].name + ".model")
    check_writable(target, inputs=tuple(file for file in files if file.exists()))
    from bridle.distributed.cluster import ClusterError, DaskRows
    from bridle.distributed.problem import DistributedProblem
    from bridle.distributed.solving import solve_classes
    from bridle.model_io import LinearModel, Objective, save_model
    from bridle.solvers.cocoa import Cocoa
    from bridle.stopping import Epochs, Gap, Seconds

    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("--dask needs the extra: pip install bridle[dask]") from error
    stop = Gap(gap) | Epochs(max_epochs)
    if max_seconds is not None:
        stop = stop | Seconds(max_seconds)
    try:
        with reported(), Client(dask, timeout="10s") as client:  # type: ignore[no-untyped-call]
            with clock.timing("read"):
                rows = DaskRows(client, files)
                problem = DistributedProblem(rows, C, loss=loss, bias=bias)
            names = [plain(c) for c in problem.classes]
            with clock.timing("solve"), progress(gap) as show:
                result = solve_classes(
                    problem, Cocoa() if work is None else Cocoa(work=work), stop=stop, seed=seed,
                    watch=lambda k, r: show(f"class {names[k]}" if len(names) > 2 else "cocoa", r),
                )  # fmt: skip
            errors = problem.ask("errors", result.coef, result.intercept)
    except ClusterError as error:
        raise InputError(str(error)) from error
    wrong, used = (sum(counts) for counts in zip(*errors, strict=True))
    fitted = LinearModel(
        coef=result.coef, intercept=result.intercept, classes=problem.classes,
        objective=Objective(loss=loss, C=C, bias=bias, weighted=problem.facts.weighted),
        certificates=tuple(solution.certificate for solution in result.solutions),
        fingerprint="", n_rows=problem.n_rows,
        info={"solver": "cocoa", "seed": seed, "gap": gap, "status": result.status.value},
    )  # fmt: skip
    with clock.timing("write"), reported():
        save_model(target, fitted)
    certificate = result.certificate
    report = {
        "solver": "cocoa", "C": C, "loss": loss, "bias": bias, "primal": certificate.primal,
        "dual": certificate.dual, "relative_gap": certificate.relative_gap,
        "status": result.status.value, "message": result.worst.message, "epochs": result.epochs,
        "rows": problem.n_rows, "features": problem.n_features, "nnz": problem.facts.nnz,
        "workers": len(rows), "rounds": problem.report.rounds, "bytes_moved": rows.bytes_moved,
        "overhead_ms": 1e3 * rows.seconds_overhead / max(1, rows.rounds), "losses": rows.losses,
        "error_train": wrong / max(1, used), "model": str(target), "seconds": clock.report(),
    }  # fmt: skip
    if as_json:
        print_json(report)
    else:
        click.echo(
            f"{len(files)} files on {len(rows)} workers: {problem.n_rows:,} rows, "
            f"{problem.n_features:,} features, {problem.facts.nnz:,} non-zeros"
        )
        click.echo(f"cocoa: {result.worst.message}; {certificate}")
        click.echo(
            f"{problem.report.rounds} rounds, {rows.bytes_moved / 1e6:.3g} MB moved, "
            f"{report['overhead_ms']:.3g} ms of overhead a message"
        )
        for loss_of in rows.losses:
            click.echo(loss_of)
        click.echo(f"training error {percent(wrong / max(1, used))}")
        click.echo(f"model written to {target}")
    ctx.exit(REACHED if result.status.value == "converged" else NOT_REACHED)
