"""`bridle train`."""

from __future__ import annotations

import contextlib
import importlib
import math
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.dialect import DialectError, translate
from bridle.cli.options import TrainOptions, check_cost, refuse_options, train_options
from bridle.cli.outcome import (
    Outcome,
    called,
    check_outputs,
    conclude,
    split_time,
    talk_of,
)
from bridle.cli.settings import make_loss, make_solver
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    InputFile,
    OutputFile,
    check_writable,
    columns_info,
    keep_what_is_found,
    on_cluster,
    plain,
    progress,
    read,
    read_arrays,
    read_numbers,
    reported,
    size_report,
)
from bridle.data.reading import READERS, data_ending

if TYPE_CHECKING:
    from bridle.fitting.early_stopping import HeldOutRows
    from bridle.fitting.fit import Fit
    from bridle.fitting.labels import Labels
    from bridle.fitting.multiclass import Effort
    from bridle.fitting.problems import Task
    from bridle.fitting.regression import RegressionFit

FOLDS = 5
EPILOG = """\b
Examples:
  bridle train news.svm news.model -c 0.1 --test news.test.svm
  bridle train people.csv people.model --label-column income --hash-bits 18 --scale
  bridle train news.svm news.model --probability platt
  bridle train news.svm --folds 5
  zcat log.svm.gz | bridle train - log.model --rate constant
  bridle train --dask tcp://scheduler:8786 rows/*.arrow news.model
  bridle train houses.csv houses.model --label-column price --scale --loss huber:delta=0.5
  bridle train news.svm news.model --loss logistic --penalty l1
  bridle train normal.svm normal.model --loss one_class:nu=0.05
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
        return super().parse_args(ctx, translation.arguments)


@click.command(cls=TrainCommand, epilog=EPILOG)
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DATA [MODEL]"
)
@train_options
@click.pass_context
def train(ctx: click.Context, /, **given: Any) -> None:
    """Train on DATA (svmlight, .npz, .csv, .parquet, .arrow) and write MODEL with its certificate.

    The --loss says what the labels are: of classes, numbers to predict, or not looked at. Without
    MODEL it is written beside the data, as DATA.model. Time limits and Ctrl-C end with the best
    model so far. DATA = - learns online from svmlight lines on standard input. LIBLINEAR's options
    (-s, -p, -n, -B, -e, -v, -C, -wi, -q) are understood. On a cluster (--dask) DATA are .arrow
    files that all workers can read, and what cannot be had there is refused, with a reason.
    """
    options = TrainOptions(**given)
    check_cost(options.C, options.lam)
    if options.dask is not None and options.C is not None and math.isinf(options.C):
        raise click.UsageError("--dask has no -c inf: its dual variables have no bounds")
    with reported():
        refuse_options(ctx, options)
    files, target = files_and_target(ctx, options)
    if options.stream:
        from bridle.cli.stream import train_stream

        ctx.exit(train_stream(options, target))
    with reported():
        solver = make_solver(options.solver, options.settings, offers=options.offers)
    if options.validating:
        ctx.exit(REACHED if validate(options, files[0], solver) else NOT_REACHED)
    others = (options.test, options.validation, options.row_weights)
    inputs = tuple(path for path in (*files, *others) if path is not None and path.exists())
    check_outputs(target, options.trace, inputs)
    check_checkpoint(options, inputs, target)
    ctx.exit(learn(options, files, target, solver))


def files_and_target(ctx: click.Context, options: TrainOptions) -> tuple[list[Path], Path]:
    """What to read and what to write."""
    if options.dask is not None:
        return _files_of_cluster(options.paths)
    data, *others = options.paths
    if len(others) > 1:
        files = all(path.suffix == ".arrow" for path in (data, *others[:-1]))
        hint = ": several files are for a cluster (--dask); convert the whole into one" * files
        raise click.UsageError(f"Got unexpected extra argument ({others[1]}){hint}")
    if not options.stream:
        InputFile.convert(data, None, ctx)
    elif not others:
        raise click.UsageError("say where to write the MODEL of a stream")
    target = others[0] if others else data.with_name(data.name + ".model")
    return [data], OutputFile.convert(target, None, ctx)


def _files_of_cluster(paths: tuple[Path, ...]) -> tuple[list[Path], Path]:
    """The last name is MODEL if it does not end in .arrow; else it is the first file's."""
    files = [path for path in paths if path.suffix == ".arrow"]
    others = [path for path in paths if path.suffix != ".arrow"]
    if not files or len(others) > 1 or (others and others[0] != paths[-1]):
        raise click.UsageError("with --dask, give .arrow files (see bridle convert), then MODEL")
    target = others[0] if others else files[0].with_name(files[0].name + ".model")
    return files, target


def check_checkpoint(options: TrainOptions, inputs: tuple[Path, ...], target: Path) -> None:
    """Fail before the work if it cannot be written."""
    path = options.checkpoint
    if path is None:
        return
    if options.dask is None:
        check_writable(path, inputs=(*inputs, *([target] if target.exists() else [])))
    elif not path.is_dir():
        raise InputError(f"{path}: there is no such folder")


@dataclass(frozen=True)
class OpenedRows:
    """Rows to learn from, and what is known of where they come from."""

    rows: Any
    labels: Any = None
    weight: Any = None
    zero_based: bool | None = None  # None: the fit knows
    columns: Any = None


@contextlib.contextmanager
def opened(options: TrainOptions, files: list[Path]) -> Iterator[OpenedRows]:
    """The rows in memory, on disk or on a cluster."""
    if options.dask is not None:
        with on_cluster(options.dask) as client:
            from bridle.rows.cluster.dask_rows import DaskRows

            yield OpenedRows(DaskRows(client, files, memory=options.memory))
    elif options.memory is not None:
        yield OpenedRows(_stored(files[0], options.memory))
    else:
        yield _read(options, files[0])


def _read(options: TrainOptions, data: Path) -> OpenedRows:
    rows = read_arrays(
        data, options.threads, weights=True, label_column=options.label_column,
        hash_bits=options.hash_bits, labels=not options.one_class,
    )  # fmt: skip
    if not (options.quiet or options.of_targets or options.one_class):
        _tell_if_numbers(data, rows.y)
    weight = rows.weight
    if options.row_weights is not None:
        if weight is not None:
            raise InputError(f"{data}: its rows have weights already: leave out --row-weights")
        weight = read_numbers(options.row_weights, rows.X.shape[0], "weights")
    return OpenedRows(rows.X, rows.y, weight, rows.zero_based, rows.columns)


def _tell_if_numbers(data: Path, y: Any) -> None:
    """That labels look as if they were no classes."""
    if y.dtype.kind == "f" and (broken := y[:1000][y[:1000] % 1 != 0]).size:
        click.echo(
            f"bridle: {data}: labels such as {broken[0]:g} are taken for classes; if they are "
            "numbers to predict, say so by --loss epsilon_insensitive, squared, huber or pinball",
            err=True,
        )


def _stored(data: Path, memory: int) -> Any:
    if data.suffix != ".arrow" and data_ending(data) in READERS:
        raise click.UsageError(
            "--memory reads rows from an .arrow file, which bridle convert makes of svmlight text, "
            f"and bridle.data.write_arrow of rows in memory; not of {data}"
        )
    if data.suffix != ".arrow":
        raise click.UsageError(
            f"--memory reads rows from an .arrow file: bridle convert {data} {data.stem}.arrow"
        )
    from bridle.rows.disk.stored import StoredRows

    with reported():
        return StoredRows(data, memory)


def task_of(options: TrainOptions) -> Task:
    """What is to be learned; the class weights come with the labels."""
    from bridle.fitting.problems import KernelChoice, Task

    choice = None
    if options.kernel is not None:
        choice = KernelChoice(options.kernel, _gamma(options.gamma), options.degree, options.coef0)
    return Task(
        1.0 if options.C is None else options.C, make_loss(options.loss), options.intercept,
        options.bias_scale, options.way, kernel=choice, lam=options.lam,
        class_weight=partial(class_weights, options.class_weight) if options.class_weight else None,
        penalty=options.penalty, l1_ratio=options.l1_ratio,
    )  # fmt: skip


def _gamma(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # a word, which kernels know or not


def class_weights(given: tuple[str, ...], classes: Any) -> Any:
    """From LABEL=W, one weight for each class; those that are not named weigh 1."""
    import numpy as np

    weights, names = np.ones(len(classes)), [plain(label) for label in classes]
    for text in given:
        label, _, number = text.rpartition("=")
        try:
            known = names.index(label if label in names else plain(float(label)))
        except ValueError:
            raise InputError(
                f"--weight {text}: expected LABEL=W, with one of the labels {', '.join(names)}"
            ) from None
        with contextlib.suppress(ValueError):
            weights[known] = -1.0
            weights[known] = float(number)
        if not 0 < weights[known] < np.inf:
            raise InputError(f"--weight {text}: the weight must be a positive number")
    return weights


def effort_of(options: TrainOptions, solver: Any) -> Effort:
    """How to go about it."""
    from bridle.fitting.multiclass import Effort
    from bridle.solving.checkpoint import Checkpoint
    from bridle.solving.stopping import AnyOf, Epochs, Gap, Seconds, Steps, Stop

    goals = tuple(rule.made() for rule in options.stops) or (Gap(options.gap),)
    stop: Stop = AnyOf(() if options.epochs_a_priori else goals) | Epochs(options.max_epochs)
    if options.max_seconds is not None:
        stop = stop | Seconds(options.max_seconds)
    if options.max_steps is not None:
        stop = stop | Steps(options.max_steps)
    saves: Any = options.checkpoint
    if saves is not None and options.dask is None:
        saves = Checkpoint(saves, options.every, options.resume)
    # Of a kernel machine "auto" is more than a solver: small ones go on to the last digits.
    by_name = options.kernel is not None and options.solver == "auto" and not options.settings
    chosen = "auto" if by_name else solver
    return Effort(
        chosen, stop, options.seed, options.threads, checkpoint=saves, keep=options.keep,
        device=options.device,
    )  # fmt: skip


def validate(options: TrainOptions, data: Path, solver: Any) -> bool:
    """Cross-validate; whether every fold reached the gap."""
    from bridle.cli.validation import cross_validate, search
    from bridle.fitting.folds import cross_validated
    from bridle.fitting.labels import encode, row_weights
    from bridle.fitting.regression import cross_validated_targets
    from bridle.models.scaling import divided, largest_values

    given = _read(options, data)
    X, task = given.rows, task_of(options)
    with reported(), _two_classes(str(data)):
        weights, of_targets = row_weights(given.weight, X.shape[0]), options.of_targets
        y = given.labels if of_targets else encode(given.labels, weights)
        task = task.settled(X.shape[0])
        solved = divided(X, largest_values(X)) if options.scale else X
        n_folds, effort = options.folds or FOLDS, effort_of(options, solver)
        given_C = task.C if options.C is not None or options.lam is not None else None
        measured: Any = cross_validated_targets if of_targets else cross_validated
        return (search if options.search_c else cross_validate)(
            lambda C: measured(solved, y, weights, replace(task, C=C), effort, n_folds),
            given_C, n_folds, options.gap, quiet=options.quiet, as_json=options.as_json,
        )  # fmt: skip


def learn(options: TrainOptions, files: list[Path], target: Path, solver: Any) -> int:
    """Fit, write the model and what else is asked for, report, and return the exit code."""
    clock = Clock()
    named = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    with contextlib.ExitStack() as stack:
        with clock.timing("read"):
            given = stack.enter_context(opened(options, files))
        importlib.import_module(
            "bridle.fitting.regression"
        )  # here, since loading it is not solving
        keep_what_is_found()
        with clock.timing("solve"):
            if options.epochs_a_priori:
                most = min(options.max_epochs, _epochs_a_priori(options, given, solver))
                options = replace(options, max_epochs=most)
            found = _fit(options, given, solver, named)
        measured = found.measures(options.threads)
    split_time(clock, found)
    if found.lost is not None:
        click.echo(f"bridle: the model has no --proof: {found.lost}", err=True)
    info = {
        "settings": list(options.settings), "seed": options.seed, "gap": options.goal,
        "stop": [str(rule) for rule in options.stops], "keep": options.keep,
        **columns_info(given.columns),
    }  # fmt: skip
    zero_based = found.model.zero_based if given.zero_based is None else given.zero_based
    model = replace(found.model, info=found.model.info | info, zero_based=zero_based)
    sizes = size_report(given.rows, options.threads) if options.dask is None else {}
    outcome = Outcome(model, found, measured, sizes | talk_of(given.rows, found))
    return conclude(options, clock, outcome, target, named)


def _fit(options: TrainOptions, given: OpenedRows, solver: Any, named: str) -> Fit | RegressionFit:
    from bridle.fitting.fit import Extras, fit
    from bridle.fitting.regression import fit_regression

    calibration = None
    if options.probability is not None:
        from bridle.fitting.calibration import Calibration

        calibration = Calibration(options.probability)
    extras = Extras(
        options.scale, calibration=calibration, store_dual=options.proof,
        held_out=_held_out(options, given),
    )  # fmt: skip
    with reported(), _two_classes(named), progress(options.goal) as show:

        def watching(labels: Labels) -> Any:
            return lambda k, record: show(called(options, labels, k, solver.name), record)

        # On a cluster a certificate that only shows how it goes costs a pass: for those who look.
        blind = options.dask is not None and not sys.stderr.isatty() and options.trace is None
        task: Any = task_of(options)
        found: Any = (fit if task.loss.of_classes else fit_regression)(
            given.rows, given.labels, sample_weight=given.weight, task=task,
            effort=effort_of(options, solver), extras=extras, watch=None if blind else watching,
        )  # fmt: skip
    if found.model is None:  # each machine has vectors of its own, and a file has one list of them
        raise InputError(
            f"{solver.name}: merged support vectors cannot be kept for several classes; "
            "--set maintenance=removal or projection keeps rows"
        )
    made: Fit | RegressionFit = found
    return made


def _held_out(options: TrainOptions, given: OpenedRows) -> HeldOutRows | None:
    if options.validation is None:
        return None
    from bridle.fitting.early_stopping import HeldOutRows

    rows = read(options.validation, options.threads, given)
    return HeldOutRows(rows.X, rows.y)


def _epochs_a_priori(options: TrainOptions, given: OpenedRows, solver: Any) -> float:
    """The largest number of any class."""
    from bridle.fitting.labels import encode, row_costs, row_weights
    from bridle.fitting.problems import problems_in_memory
    from bridle.matrix.door import as_matrix
    from bridle.models.scaling import divided, largest_values
    from bridle.study.practice import best_epochs

    with reported():
        X = as_matrix(given.rows)
        weights = row_weights(given.weight, X.shape[0])
        labels, task = encode(given.labels, weights), task_of(options).settled(X.shape[0])
        costs = row_costs(labels, weights, task.class_weight)
        solved = divided(X, largest_values(X)) if options.scale else X
        problems = problems_in_memory(solved, labels, task, costs, options.threads)
        return max(
            best_epochs(problems.problem(k), solver, seed=options.seed)
            for k in range(len(problems))
        )


@contextlib.contextmanager
def _two_classes(data: str) -> Iterator[None]:
    from bridle.fitting.labels import OneClassError

    try:
        yield
    except OneClassError as error:
        said = f"every row has the label {plain(error.label)}: nothing to learn"
        raise InputError(f"{data}: {said}") from error
