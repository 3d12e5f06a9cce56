"""`bridle train --dask ADDRESS FILES... [MODEL]`: on a cluster.

The options are those of `bridle train`. What cannot be had on a cluster is refused, with a reason.
"""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.settings import make_solver
from bridle.cli.shared import Clock, InputError, plain, progress, reported
from bridle.cli.train import Outputs, check_outputs, class_weights, conclude, split_certify_time

if TYPE_CHECKING:
    from bridle.problems.distributed import DistributedProblem

_HELD_OUT = "needs models that have not seen some of the rows, which stay on their workers"
_KERNELS = "a kernel machine compares rows of different workers"
_STREAMS = "only a stream, DATA = -, has it"
_TABLES = "the files are .arrow ones, which have features and labels"
_CHECKPOINTS = (
    "the checkpoints of a cluster are for workers that die: written with every certificate, and "
    "gone with the run"
)
REFUSED = {
    "multiclass": "the classes are solved one against the rest",
    "scale": "no worker knows the others' largest values: scale the rows before they are converted",
    "probability": _HELD_OUT, "folds": _HELD_OUT, "search_c": _HELD_OUT,
    "kernel": _KERNELS, "gamma": _KERNELS, "degree": _KERNELS, "coef0": _KERNELS,
    "rate": _STREAMS, "classes": _STREAMS, "block": _STREAMS,
    "label_column": _TABLES, "hash_bits": _TABLES,
    "threads": "a worker has the threads that Dask gives it",
    "memory": "every worker has its part of the rows in memory",
    "every": _CHECKPOINTS, "resume": _CHECKPOINTS,
}  # fmt: skip


def on_dask(train: click.Command) -> click.Command:
    """The command `train` for a cluster: the same options, with many files."""
    own: list[click.Parameter] = [
        click.Argument(
            ["paths"], nargs=-1, required=True, type=click.Path(path_type=Path),
            metavar="FILES.arrow... [MODEL]",
        ),
        click.Option(
            ["--dask", "address"], required=True, metavar="ADDRESS",
            help="Of the scheduler: tcp://host:8786.",
        ),
        click.Option(
            ["--checkpoint"], type=click.Path(file_okay=False, exists=True, path_type=Path),
            metavar="FOLDER",
            help="Where workers keep their dual variables for others to go on from when they die; "
            "all of them must be able to write there.",
        ),
    ]  # fmt: skip
    theirs = {option for parameter in own for option in parameter.opts}
    shared = [
        _hidden(parameter) if parameter.name in REFUSED else parameter
        for parameter in train.params
        if isinstance(parameter, click.Option) and not theirs & set(parameter.opts)
    ]
    return click.Command(
        "train", params=[*own, *shared], callback=click.pass_context(train_on_dask),
        help=train_on_dask.__doc__,
    )  # fmt: skip


def _hidden(option: click.Option) -> click.Option:
    """Known, to be refused with a reason, but not offered."""
    option = copy.copy(option)
    option.hidden = True
    return option


def train_on_dask(
    ctx: click.Context,
    /,
    *,
    paths: tuple[Path, ...],
    address: str,
    C: float | None,
    lam: float | None,
    gap: float,
    solver: str,
    settings: tuple[str, ...],
    loss: str,
    bias: Any,
    bias_scale: float,
    weights: tuple[str, ...],
    max_seconds: float | None,
    max_epochs: float,
    seed: int,
    test: Path | None,
    proof: bool,
    as_json: bool,
    quiet: bool,
    trace: Path | None,
    checkpoint: Path | None,
    **refused: Any,
) -> None:
    """Train on .arrow files that all workers of a Dask cluster can read, and write MODEL.

    The last name is MODEL if it does not end in .arrow; else it is the first file's, with .model.
    Several classes are solved one after the other, each on the whole cluster.
    """
    clock = Clock()
    _refuse(ctx, refused)
    if C is not None and lam is not None:
        raise click.UsageError("-c and --lam say the same thing: give one of them")
    if C is not None and math.isinf(C):
        raise click.UsageError("--dask has no -c inf: its dual variables have no bounds")
    files, target = _files_and_target(paths)
    known = tuple(path for path in (*files, test) if path is not None and path.exists())
    check_outputs(target, trace, known)
    with reported():
        method = make_solver(solver, settings, kind="distributed")
    try:
        from bridle.rows.cluster.dask_rows import ClusterError, DaskRows
        from distributed import Client
    except ImportError as error:
        raise InputError("--dask needs the extra: pip install bridle[dask]") from error
    from bridle.fitting.cluster import gathered, solve_classes
    from bridle.models.header import Objective
    from bridle.models.linear import LinearModel
    from bridle.objective.scaling import lam_to_C
    from bridle.problems.distributed import DistributedProblem
    from bridle.solving.many import without_dual
    from bridle.solving.stopping import Epochs, Gap, Seconds

    stop = Gap(gap) | Epochs(max_epochs)
    if max_seconds is not None:
        stop = stop | Seconds(max_seconds)
    try:
        with reported(), Client(address, timeout="10s") as client:  # type: ignore[no-untyped-call]
            with clock.timing("read"):
                rows = DaskRows(client, files)
                problem = DistributedProblem(
                    rows, loss=loss, bias=bias, bias_scale=bias_scale, checkpoint=checkpoint
                )
            if C is None:
                C = 1.0 if lam is None else lam_to_C(lam, problem.n_rows)
            problem = problem.variant(C=C)
            names = [plain(c) for c in problem.classes]
            own_weight = class_weights(weights, problem.classes)

            def called(k: int) -> str:
                return f"class {names[k]}" if len(names) > 2 else method.name

            with clock.timing("solve"), progress(gap) as show:
                # A certificate that only shows how it goes costs a pass: for those who look.
                looking = sys.stderr.isatty() or trace is not None
                result = solve_classes(
                    problem, method, stop=stop, seed=seed, own_weight=own_weight,
                    watch=(lambda k, record: show(called(k), record)) if looking else None,
                    keep=None if proof else without_dual,
                )  # fmt: skip
            split_certify_time(clock, result)
            alpha = None
            if proof:
                alpha, lost = gathered(result)
                if lost is not None:
                    click.echo(f"bridle: the model has no --proof: {lost}", err=True)
            info: dict[str, Any] = {
                "solver": method.name, "settings": list(settings), "seed": seed, "gap": gap,
                "status": result.status.value,
            }  # fmt: skip
            if own_weight is not None:
                info["class_weight"] = own_weight.tolist()
            fitted = LinearModel(
                coef=result.coef, intercept=result.intercept, alpha=alpha, classes=problem.classes,
                objective=Objective(loss, C, bias, bias_scale, weighted=problem.facts.weighted),
                certificates=tuple(solution.certificate for solution in result.solutions),
                fingerprint=problem.fingerprint(), n_rows=problem.n_rows,
                zero_based=problem.facts.zero_based, info=info,
            )  # fmt: skip
            error_train = _error_rate(problem, fitted)
    except ClusterError as error:
        raise InputError(str(error)) from error
    talk = {
        "workers": len(rows), "rounds": problem.report.rounds, "bytes_moved": rows.bytes_moved,
        "overhead_ms": 1e3 * rows.seconds_overhead / max(1, rows.rounds), "losses": rows.losses,
    }  # fmt: skip
    if not as_json and not quiet:
        for what in rows.losses:
            click.echo(what)
        click.echo(
            f"{talk['workers']} workers, {talk['rounds']} rounds, {rows.bytes_moved / 1e6:.3g} MB "
            f"moved, {talk['overhead_ms']:.3g} ms of overhead a message"
        )
    named = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    sizes = {
        "rows": problem.n_rows, "features": problem.n_features, "nnz": problem.facts.nnz,
        "threads": 1,
    }  # fmt: skip
    outputs = Outputs(target, trace, test, None, as_json, quiet)
    conclude(
        ctx, clock, outputs, named, fitted, result, called, sizes, lambda: error_train, more=talk
    )


def _refuse(ctx: click.Context, values: dict[str, Any]) -> None:
    for parameter in ctx.command.params:
        name = parameter.name or ""
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if name in REFUSED and given and values[name] != parameter.get_default(ctx):
            raise click.UsageError(f"--dask has no {parameter.opts[-1]}: {REFUSED[name]}")


def _files_and_target(paths: tuple[Path, ...]) -> tuple[list[Path], Path]:
    files = [path for path in paths if path.suffix == ".arrow"]
    others = [path for path in paths if path.suffix != ".arrow"]
    if not files or len(others) > 1 or (others and others[0] != paths[-1]):
        raise click.UsageError("with --dask, give .arrow files (see bridle convert), then MODEL")
    target = others[0] if others else files[0].with_name(files[0].name + ".model")
    return files, target


def _error_rate(problem: DistributedProblem, fitted: Any) -> float:
    errors = problem.ask("errors", fitted.coef, fitted.intercept)
    wrong, used = (sum(counts) for counts in zip(*errors, strict=True))
    return float(wrong / max(1, used))
