"""`bridle train`."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.dialect import DialectError, translate
from bridle.cli.settings import make_solver
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    InputFile,
    InputFileOrStream,
    NotNegative,
    OutputFile,
    Positive,
    Size,
    bias_option,
    check_writable,
    fit_width,
    json_option,
    loss_option,
    peak_rss_mb,
    percent,
    plain,
    print_json,
    progress,
    read_arrays,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
    to_json,
)  # fmt: skip
from bridle.objective.kernels import KERNELS

if TYPE_CHECKING:
    from bridle.fitting.classes import Machines
    from bridle.fitting.stored import StoredRows
    from bridle.models.kernel import KernelModel
    from bridle.models.linear import LinearModel

CALIBRATION_FOLDS = 5
TRACE_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson")
EPILOG = """\b
Examples:
  bridle train news.svm news.model -c 0.1 --test news.test.svm
  bridle train people.csv people.model --label-column income --hash-bits 18 --scale
  bridle train news.svm news.model --probability platt
  bridle train news.svm --folds 5
  zcat log.svm.gz | bridle train - log.model --rate constant
  bridle train --dask tcp://scheduler:8786 rows/*.arrow news.model
  bridle train -s 3 -c 1 -B 1 news.svm news.model        (LIBLINEAR's options)
"""


class TrainCommand(click.Command):
    """Understands LIBLINEAR's options, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate them, and say what they stand for."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        try:
            translation = translate(args)
        except DialectError as error:
            raise InputError(str(error)) from error
        if translation.native and "--quiet" not in translation.native:
            native = shlex.join(translation.native)
            click.echo(f"bridle: LIBLINEAR's options stand for: {native}", err=True)
        if any(arg == "--dask" or arg.startswith("--dask=") for arg in args):
            from bridle.cli.cluster import on_dask  # the same options, but many files

            arguments = translation.arguments
            code = on_dask(self).main(arguments, prog_name=ctx.command_path, standalone_mode=False)
            ctx.exit(code)
        return super().parse_args(ctx, translation.arguments)


@click.command(cls=TrainCommand, epilog=EPILOG)
@click.argument("data", type=InputFileOrStream)
@click.argument("model", type=OutputFile, required=False)
@click.option("-c", "C", type=Positive, help="C of 1/2 |w|^2 + C sum loss.  [default: 1]")
@click.option("--lam", type=Positive, help="Instead of -c: lam of lam/2 |w|^2 + mean loss.")
@click.option(
    "--gap", type=NotNegative, default=1e-3, show_default=True,
    help="Stop at this certified relative duality gap (P - D) / P.",
)  # fmt: skip
@click.option("--solver", default="auto", show_default=True, help="Name of the method.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="A hyper-parameter of the solver; may be repeated.",
)  # fmt: skip
@loss_option
@bias_option
@click.option(
    "--bias-scale", type=Positive, default=1.0, show_default=True,
    help="Value of the constant feature of a regularised intercept.",
)  # fmt: skip
@click.option(
    "--weight", "weights", multiple=True, metavar="LABEL=W",
    help="Rows of a class weigh W in the class's own problem; may be repeated.",
)  # fmt: skip
@click.option(
    "--multiclass", type=click.Choice(["ovr", "ovo", "crammer_singer"]), default="ovr",
    show_default=True, help="Several classes: against the rest, in pairs, or in one problem.",
)  # fmt: skip
@click.option("--scale", is_flag=True, help="Divide each feature by its largest absolute value.")
@click.option(
    "--probability", type=click.Choice(["platt", "isotonic"]),
    help="Calibrate probabilities, for predict --probability.",
)  # fmt: skip
@click.option(
    "--folds", type=click.IntRange(2, 1000),
    help="Cross-validate: print the accuracy, write no model.",
)  # fmt: skip
@click.option(
    "--search-c", is_flag=True,
    help="Cross-validate C = 2^-10, 2^-9, ... (from -c on, if given); write no model.",
)  # fmt: skip
@click.option(
    "--kernel", type=click.Choice([name for name in KERNELS if name != "precomputed"]),
    help="Train a kernel machine; without it, a linear one.",
)  # fmt: skip
@click.option(
    "--gamma", default="scale", show_default=True, help="Of the kernel: a number, scale or auto."
)
@click.option("--degree", type=int, default=3, show_default=True, help="Of the poly kernel.")
@click.option("--coef0", type=float, default=0.0, show_default=True, help="Of poly and sigmoid.")
@click.option(
    "--max-seconds", type=Positive,
    help="Stop solving after so many seconds; folds and calibrations share them.",
)  # fmt: skip
@click.option(
    "--max-epochs", type=Positive, default=1000, show_default=True,
    help="Stop after so many passes over the data.",
)  # fmt: skip
@click.option(
    "--rate", type=click.Choice(["decaying", "constant"]), default="decaying", show_default=True,
    help="Of DATA = -: the step; constant for a source that changes.",
)  # fmt: skip
@click.option(
    "--classes", metavar="LIST",
    help="Of DATA = -: all labels, separated by commas.  [default: those of the first block]",
)  # fmt: skip
@click.option(
    "--block", type=click.IntRange(1), default=1000, show_default=True,
    help="Of DATA = -: rows that are learned at a time.",
)  # fmt: skip
@table_options
@threads_option
@seed_option
@click.option("--test", type=InputFile, help="Data to measure the error on.")
@click.option(
    "--proof", is_flag=True,
    help="Keep the dual variables in the model file: what proves its certificate.",
)  # fmt: skip
@json_option
@click.option("--quiet", is_flag=True, help="Print nothing.")
@click.option(
    "--trace", type=OutputFile, help="Write the course of the run: .csv, or JSON lines (.jsonl)."
)
@click.option(
    "--memory", type=Size, metavar="SIZE",
    help="Never have more than this in memory, such as 2G: DATA is an .arrow file (see convert), "
    "read in every epoch if it must be.",
)  # fmt: skip
@click.option("--checkpoint", type=OutputFile, help="Save the run to this file at intervals.")
@click.option(
    "--every", type=Positive, default=60.0, show_default=True,
    help="Seconds between two checkpoints.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on from the checkpoint, if there is one.")
@click.option(
    "--dask", metavar="ADDRESS", expose_value=False,  # see TrainCommand
    help="Train on the workers of this Dask scheduler: bridle train --dask tcp://HOST:8786 "
    "FILES.arrow... [MODEL]; with --help, what else it takes.",
)  # fmt: skip
@click.pass_context
def train(
    ctx: click.Context,
    /,
    *,
    data: Path | None,
    model: Path | None,
    C: float | None,
    lam: float | None,
    gap: float,
    solver: str,
    settings: tuple[str, ...],
    loss: str,
    bias: Any,
    bias_scale: float,
    weights: tuple[str, ...],
    multiclass: Any,
    scale: bool,
    probability: str | None,
    folds: int | None,
    search_c: bool,
    kernel: str | None,
    gamma: str,
    degree: int,
    coef0: float,
    max_seconds: float | None,
    max_epochs: float,
    rate: Any,
    classes: str | None,
    block: int,
    threads: int | None,
    seed: int,
    test: Path | None,
    proof: bool,
    as_json: bool,
    quiet: bool,
    trace: Path | None,
    memory: int | None,
    checkpoint: Path | None,
    every: float,
    resume: bool,
    **tables: Any,
) -> None:
    """Train on DATA (svmlight, .npz, .csv, .parquet, .arrow) and write MODEL with its certificate.

    Without MODEL it is written beside the data, as DATA.model. Time limits and Ctrl-C end with the
    best model so far. DATA = - learns online from svmlight lines on standard input. LIBLINEAR's
    options (-s, -B, -e, -v, -C, -wi, -q) are understood.
    """
    clock = Clock()
    if C is not None and lam is not None:
        raise click.UsageError("-c and --lam say the same thing: give one of them")
    _check_options(kernel, loss, proof, multiclass, probability, folds is not None or search_c)
    if folds is not None or search_c:
        _refuse(ctx, NEED_A_MODEL, "--folds and --search-c write no model: leave out")
    if data is not None:
        _refuse(ctx, OF_STREAMS, "only a stream, DATA = -, has")
    else:
        others = {parameter.name or "" for parameter in ctx.command.params}
        _refuse(ctx, others - WITH_STREAMS - OF_STREAMS, "a stream is learned without")
        from bridle.cli.stream import train_stream

        if C is not None:
            raise click.UsageError("a stream has no number of rows: give --lam, not -c")
        if model is None:
            raise click.UsageError("say where to write the MODEL of a stream")
        code = train_stream(
            model, 1e-4 if lam is None else lam, rate=rate, loss=loss, bias=bias,
            classes=classes, block=block, quiet=quiet, as_json=as_json,
        )  # fmt: skip
        ctx.exit(code)
    target = model if model is not None else data.with_name(data.name + ".model")
    if memory is not None:
        others = {parameter.name or "" for parameter in ctx.command.params}
        _refuse(ctx, others - WITH_MEMORY, "rows on disk are trained without")
    if checkpoint is None:
        _refuse(ctx, {"every", "resume"}, "only a run with --checkpoint has")
    elif kernel is not None or multiclass != "ovr" or folds is not None or search_c:
        raise click.UsageError("--checkpoint is for linear machines, one against the rest")
    kind = "kernel" if kernel is not None else "linear" if memory is None else "streamed"
    kind = "structured" if multiclass == "crammer_singer" else kind
    with reported():
        method = make_solver(solver, settings, kind=kind)
    if folds is None and not search_c:
        inputs = tuple(path for path in (data, test) if path is not None)
        check_outputs(target, trace, inputs)
        if checkpoint is not None:
            check_writable(checkpoint, inputs=(*inputs, *([target] if target.exists() else [])))
    with clock.timing("read"):
        stored = None if memory is None else _stored(data, memory)
        rows: Any = stored
        if stored is None:
            rows = read_arrays(data, threads, weights=True, **tables)
            if kind != "linear" or folds is not None or search_c or probability is not None:
                from bridle.data.reading import with_matrix

                rows = with_matrix(rows)  # these cut and multiply; others need the arrays alone
        X: Any = rows.X if stored is None else stored
        y: Any = rows.y if stored is None else None
    import numpy as np
    from bridle.fitting.multiclass import solve_multiclass
    from bridle.models.deciding import about
    from bridle.models.scaling import divided, largest_values
    from bridle.objective.kernels import kernel_from
    from bridle.objective.scaling import lam_to_C
    from bridle.solving.checkpoint import Checkpoint
    from bridle.solving.many import without_dual
    from bridle.solving.stopping import Epochs, Gap, Seconds

    if stored is None:
        labels, codes = classes_of(y)
    else:
        labels, codes = stored.classes, None
    if len(labels) < 2:
        raise InputError(f"{data}: every row has the label {plain(labels[0])}: nothing to learn")
    stop = Gap(gap) | Epochs(max_epochs)
    if max_seconds is not None:
        fits = folds or (5 if search_c else 1 if probability is None else 1 + CALIBRATION_FOLDS)
        stop = stop | Seconds(max_seconds / fits)
    sizes = largest_values(X) if scale else None
    solved = X if sizes is None else divided(X, sizes)
    class_weight = class_weights(weights, labels)
    options: dict[str, Any] = {
        "loss": loss, "bias": bias, "bias_scale": bias_scale, "solver": method, "stop": stop,
        "seed": seed, "n_threads": threads, "multi_class": multiclass,
    }  # fmt: skip
    row_weight = None
    if class_weight is not None and multiclass == "ovr":
        options["own_weight"] = class_weight
    elif class_weight is not None:
        row_weight = class_weight[codes]
    if stored is None and rows.weight is not None:
        row_weight = rows.weight if row_weight is None else row_weight * rows.weight
    if search_c or folds is not None:
        from bridle.cli.validation import cross_validate, search

        start = C if C is not None or lam is None else lam_to_C(lam, X.shape[0])
        how = search if search_c else cross_validate
        with reported():
            reached = how(
                solved, codes, len(labels), start, folds or 5, row_weight, rows.weight, options,
                gap, quiet=quiet, as_json=as_json,
            )  # fmt: skip
        ctx.exit(REACHED if reached else NOT_REACHED)
    if C is None:
        C = 1.0 if lam is None else lam_to_C(lam, X.shape[0])
    names = [plain(c) for c in labels]
    several = len(labels) > 2 and multiclass != "crammer_singer"

    def called(k: int) -> str:
        return about(multiclass, np.array(names), k) if several else method.name

    with reported(), progress(gap) as show, clock.timing("solve"):
        settled = (
            None if kernel is None else kernel_from(kernel, solved, _gamma(gamma), degree, coef0)
        )
        if settled is not None:
            options["kernel"] = settled
        how_to: dict[str, Any] = {"watch": lambda k, record: show(called(k), record)}
        if checkpoint is not None:
            how_to["checkpoint"] = Checkpoint(checkpoint, every, resume)
        if stored is None:
            result = solve_multiclass(
                solved, codes, len(labels), C, sample_weight=row_weight, **options, **how_to
            )
        else:
            del options["multi_class"]
            result = stored.solve(C, keep=None if proof else without_dual, **options, **how_to)
    split_certify_time(clock, result)
    calibrators = None
    if probability is not None and result.status.value != "interrupted":
        with clock.timing("calibrate"), reported():
            calibrators = _calibrate(
                probability, solved, codes, len(labels), C, row_weight, rows.weight, options, seed
            )
    from bridle.matrix.fingerprint import fingerprint
    from bridle.models.header import Objective
    from bridle.models.linear import LinearModel

    info: dict[str, Any] = {
        "solver": method.name, "settings": list(settings), "seed": seed, "gap": gap,
        "status": result.status.value, **_columns_info(rows),
    }  # fmt: skip
    if class_weight is not None:
        info["class_weight"] = class_weight.tolist()
    if calibrators is not None:
        info["calibrators"] = calibrators
    common: dict[str, Any] = {
        "classes": labels,
        "objective": Objective(loss, C, bias, bias_scale, weighted=rows.weight is not None),
        "certificates": tuple(solution.certificate for solution in result.solutions),
        "fingerprint": fingerprint(X, y) if stored is None else stored.fingerprint(),
        "n_rows": X.shape[0],
        "zero_based": rows.zero_based,
        "info": info,
        "scale": sizes,
    }
    fitted: LinearModel | KernelModel
    if settled is None:
        alpha = _dual_variables(result, codes, row_weight) if proof else None
        coef = result.coef if sizes is None else result.coef / sizes
        fitted = LinearModel(
            coef=coef, intercept=result.intercept, alpha=alpha, multi_class=multiclass, **common
        )
    else:
        from bridle.models import kernel as kernel_model

        with reported():
            found: Any = result
            fitted = kernel_model.KernelModel.from_solutions(solved, found, settled, **common)
    outputs = Outputs(target, trace, test, threads, as_json, quiet)
    conclude(
        ctx, clock, outputs, str(data), fitted, result, called, size_report(X, threads),
        lambda: float(np.mean(fitted.predict(X, n_threads=threads) != y)) if stored is None
        else stored.error_rate(result.coef, result.intercept),
    )  # fmt: skip


@dataclass(frozen=True)
class Outputs:
    """What a run is to leave behind."""

    target: Path
    trace: Path | None
    test: Path | None
    threads: int | None
    as_json: bool
    quiet: bool


def conclude(
    ctx: click.Context,
    clock: Clock,
    outputs: Outputs,
    data: str,
    fitted: LinearModel | KernelModel,
    result: Machines,
    called: Callable[[int], str],
    sizes: dict[str, Any],
    error_train: Callable[[], float],
    more: dict[str, Any] | None = None,
) -> None:
    """Write the model and the trace, report, and end with the exit code.

    called: what problem k is called. more: what else belongs into the report.
    """
    from bridle.models.storage import save_model

    several = len(result.solutions) > 1
    with clock.timing("write"), reported():
        save_model(outputs.target, fitted)
        if outputs.trace is not None:
            names = [called(k) for k in range(len(result.solutions))]
            _write_trace(outputs.trace, result, names)
    tested = outputs.test is not None
    report = {
        **_objective_report(fitted),
        "status": result.status.value,
        "message": _message(result, called),
        "epochs": result.epochs,
        **sizes,
        "error_train": error_train(),
        "error_test": (
            None if outputs.test is None else _error_on(outputs.test, fitted, outputs.threads)
        ),
        "model": str(outputs.target),
        "classes": fitted.classes.tolist(),
        "per_class": (
            _per_class(fitted.classes, result) if several and result.multi_class == "ovr" else None
        ),
        **(more or {}),
        "seconds": clock.report(),
        "peak_rss_mb": peak_rss_mb(),
    }
    if outputs.as_json:
        print_json(report)
    elif not outputs.quiet:
        _print(report, data, tested)
    ctx.exit(REACHED if result.status.value == "converged" else NOT_REACHED)


NEED_A_MODEL = {"probability", "proof", "test", "trace"}
OF_STREAMS = {"rate", "classes", "block"}
WITH_MEMORY = {
    "data", "model", "C", "lam", "gap", "solver", "settings", "loss", "bias", "bias_scale",
    "max_seconds", "max_epochs", "threads", "seed", "test", "proof", "as_json", "quiet", "trace",
    "memory", "checkpoint", "every", "resume",
}  # fmt: skip
WITH_STREAMS = {"data", "model", "C", "lam", "loss", "bias", "as_json", "quiet"}


def _refuse(ctx: click.Context, names: set[str], why: str) -> None:
    """An option that would change nothing is an error."""
    for parameter in ctx.command.params:
        if parameter.name in names:
            source = ctx.get_parameter_source(parameter.name)
            if source is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{why} {parameter.opts[-1]}")


def _check_options(
    kernel: str | None,
    loss: str,
    proof: bool,
    multiclass: str,
    probability: str | None,
    validating: bool,
) -> None:
    if multiclass == "crammer_singer" and proof:
        raise click.UsageError("--multiclass crammer_singer keeps no --proof")
    if kernel is None:
        return
    if loss != "hinge" or proof:
        raise click.UsageError("kernel machines have the hinge loss, and keep no --proof")
    if multiclass != "ovr" or probability is not None or validating:
        raise click.UsageError(
            "--multiclass, --probability, --folds and --search-c are for linear machines"
        )


def classes_of(y: Any) -> tuple[Any, Any]:
    """As np.unique(y, return_inverse=True), without sorting where there are two classes."""
    import numpy as np

    if y.dtype.kind == "f" and (low := y.min()) < (high := y.max()):
        above = y == high
        if (above | (y == low)).all():
            return np.array([low, high]), above.astype(np.int64)
    return np.unique(y, return_inverse=True)


def class_weights(given: tuple[str, ...], classes: Any) -> Any:
    """One weight for each class, or None if nothing was said."""
    import numpy as np

    if not given:
        return None
    weights, names = np.ones(len(classes)), [plain(label) for label in classes]
    for text in given:
        label, _, number = text.rpartition("=")
        try:
            known = names.index(label if label in names else plain(float(label)))
        except ValueError:
            raise InputError(
                f"--weight {text}: expected LABEL=W, with one of the labels {', '.join(names)}"
            ) from None
        try:
            weights[known] = float(number)
        except ValueError:
            weights[known] = -1.0
        if not 0 < weights[known] < np.inf:
            raise InputError(f"--weight {text}: the weight must be a positive number")
    return weights


def _calibrate(
    method: str,
    X: Any,
    codes: Any,
    n_classes: int,
    C: float,
    row_weight: Any,
    counts: Any,
    options: dict[str, Any],
    seed: int,
) -> list[dict[str, Any]] | None:
    """Calibrators as JSON, fitted to scores of rows by models that have not seen them.

    row_weight: in the objective; counts: in the calibration, None if each row counts 1.
    """
    import numpy as np
    from bridle.fitting.calibration import fit_calibrators
    from bridle.fitting.folds import deal, held_out_scores

    row = np.ones(len(codes)) if row_weight is None else row_weight
    counts = np.ones(len(codes)) if counts is None else counts
    folds = deal(np.where(counts > 0, codes, -1), CALIBRATION_FOLDS, seed)
    held = held_out_scores(
        X, codes, n_classes, C, folds, lambda mask: np.where(mask, row, 0.0), **options
    )
    if held.interrupted:
        return None
    found = fit_calibrators(method, held.scores, codes, n_classes, options["multi_class"], counts)
    return [calibrator.as_dict() for calibrator in found]


def _stored(data: Path, memory: int) -> StoredRows:
    """Rows that stay on disk."""
    if data.suffix != ".arrow":
        raise click.UsageError(
            f"--memory reads rows from an .arrow file: bridle convert {data} {data.stem}.arrow"
        )
    from bridle.fitting.stored import StoredRows

    with reported():
        return StoredRows(data, memory)


def _columns_info(rows: Any) -> dict[str, Any]:
    """What a model must know of the table it was trained on; nothing for other files."""
    if rows.columns is None:
        return {}
    names = {} if rows.columns.hash_bits else {"feature_names": list(rows.columns.numbers)}
    return {"columns": rows.columns.as_dict(), **names}


def _dual_variables(result: Machines, codes: Any, row_weight: Any) -> Any:
    """A row for each problem; the dual variables of rows that are not in it are zero."""
    import numpy as np
    from bridle.fitting.one_vs_one import rows_of
    from bridle.models.deciding import pairs

    alphas = [solution.alpha for solution in result.solutions]
    if result.multi_class != "ovo":
        return np.vstack(alphas)
    weight = np.ones(len(codes)) if row_weight is None else row_weight
    table = np.zeros((len(alphas), len(codes)))
    for own, alpha, pair in zip(table, alphas, pairs(int(codes.max()) + 1), strict=True):
        own[rows_of(codes, pair, weight)] = alpha
    return table


def _gamma(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # a word, which kernel_from knows or not


def check_outputs(target: Path, trace: Path | None, inputs: tuple[Path, ...]) -> None:
    """Fail before the work if the model or the trace cannot be written."""
    check_writable(target, inputs=inputs)
    if trace is None:
        return
    if trace.suffix not in TRACE_SUFFIXES:
        raise click.BadParameter(
            f"{trace}: the name must end in one of {', '.join(TRACE_SUFFIXES)}",
            param_hint="--trace",
        )
    check_writable(trace, inputs=inputs)


def split_certify_time(clock: Clock, result: Machines) -> None:
    """Divide the solving time as the threads spent it."""
    last = [solution.trace[-1] for solution in result.solutions]
    certifying = sum(record.seconds_certify for record in last)
    solving = sum(record.seconds_solver for record in last)
    wall = clock.parts["solve"]
    clock.parts["certify"] = wall * certifying / max(certifying + solving, 1e-12)
    clock.parts["solve"] = wall - clock.parts["certify"]


def _objective_report(model: LinearModel | KernelModel) -> dict[str, Any]:
    from bridle.objective.scaling import C_to_lam

    objective, certificate = model.objective, model.certificate
    return {
        "solver": model.info["solver"],
        "C": objective.C,
        "lam": C_to_lam(objective.C, model.n_rows),
        "loss": objective.loss,
        "bias": objective.bias,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "source": certificate.source,
    }


def _per_class(classes: Any, result: Machines) -> list[dict[str, Any]]:
    return [
        {
            "class": label, "primal": s.certificate.primal, "dual": s.certificate.dual,
            "relative_gap": s.certificate.relative_gap, "status": s.status.value,
            "epochs": s.epochs,
        }
        for label, s in zip(classes.tolist(), result.solutions, strict=True)
    ]  # fmt: skip


def _error_on(test: Path, model: LinearModel | KernelModel, threads: int | None) -> float | None:
    """The error rate; None if the file has none of the model's labels."""
    import numpy as np

    rows = read_arrays(test, threads, model)
    if not np.isin(rows.y, model.classes).any():
        click.echo(f"bridle: {test}: none of its labels is one of the model's classes", err=True)
        return None
    guesses = fit_width(model, rows.X, test).predict(rows.X, n_threads=threads)
    return float(np.mean(guesses != rows.y))


def _message(result: Machines, called: Any) -> str:
    if len(result.solutions) == 1:
        return result.solutions[0].message
    worst, name = result.worst, called(result.worst_index)
    reached = sum(solution.converged for solution in result.solutions)
    many = f"{reached} of {len(result.solutions)} problems converged"
    return f"{many}; the worst is {name}: {worst.message}"


def _write_trace(path: Path, result: Machines, names: list[str]) -> None:
    rows = [
        ({"class": names[k].removeprefix("class ")} if len(names) > 1 else {}) | row
        for k, solution in enumerate(result.solutions)
        for row in solution.trace.as_dicts()
    ]
    with open(path, "w", newline="", encoding="utf-8") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(to_json(row) + "\n" for row in rows)


def _print(report: dict[str, Any], data: str, tested: bool) -> None:
    seconds = report["seconds"]
    click.echo(
        f"{data}: {report['rows']:,} rows, {report['features']:,} features, "
        f"{report['nnz']:,} non-zeros, read in {seconds['read']:.2g} s"
    )
    click.echo(f"{report['solver']}: {report['message']}")
    click.echo(
        f"primal {report['primal']:.8g}, dual {report['dual']:.8g}, C {report['C']:.6g}, "
        f"lam {report['lam']:.6g}; {seconds['solve']:.2g} s solving, "
        f"{seconds['certify']:.2g} s certifying"
    )
    errors = f"training error {percent(report['error_train'])}"
    if tested:
        errors += f", test error {percent(report['error_test'])}"
    click.echo(errors)
    click.echo(f"model written to {report['model']}")
