"""The options of `bridle train`, in groups, and what was asked for. Imports nothing heavy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import click
from bridle.cli.shared import (
    InputFile,
    NotNegative,
    OutputFile,
    Positive,
    Size,
    device_option,
    json_option,
    keep_option,
    loss_option,
    seed_option,
    table_options,
    threads_option,
)
from bridle.objective.kernels import KERNELS

Decorator = Callable[[Any], Any]


def group(*options: Decorator) -> Decorator:
    """Several options as one decorator, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


class _KernelName(click.ParamType):  # type: ignore[type-arg]
    """A registered kernel of rows; which there are is asked when one is wanted."""

    name = "kernel"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        KERNELS.knows(value)  # of an installed package, too
        return self._known().convert(value, param, ctx)

    def get_metavar(self, *about: Any, **further: Any) -> str:  # click 8.2 gives one more
        return f"[{'|'.join(self._known().choices)}]"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> Any:
        return self._known().shell_complete(ctx, param, incomplete)

    def _known(self) -> click.Choice[str]:

        return click.Choice([name for name in KERNELS if name != "precomputed"])


@dataclass(frozen=True)
class StopRule:
    """What --stop asks for; `detail` is what the gap is relative to, or the optimum."""

    name: str
    tol: float
    detail: Any

    def made(self) -> Any:
        """The rule of that name."""
        from bridle.solving.stopping import Gap, Suboptimality

        return (Gap if self.name == "gap" else Suboptimality)(self.tol, self.detail)

    def __str__(self) -> str:
        return f"{self.name}={self.tol!r}:{self.detail}"


class _StopRule(click.ParamType):  # type: ignore[type-arg]
    """gap=TOL, gap=TOL:dual or suboptimality=TOL:OPTIMUM."""

    name = "rule"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        name, _, numbers = str(value).partition("=")
        tol, _, detail = numbers.partition(":")
        if name == "gap" and detail in ("", "primal", "dual"):
            return StopRule(name, NotNegative.convert(tol, param, ctx), detail or "primal")
        if name == "suboptimality" and detail:
            optimum = NotNegative.convert(detail, param, ctx)
            if math.isfinite(optimum):
                return StopRule(name, NotNegative.convert(tol, param, ctx), optimum)
        self.fail(
            f"expected gap=TOL, gap=TOL:dual or suboptimality=TOL:OPTIMUM, found {value}",
            param, ctx,
        )  # fmt: skip


C_options = group(
    click.option("-c", "C", type=Positive, help="C of 1/2 |w|^2 + C sum loss.  [default: 1]"),
    click.option("--lam", type=Positive, help="Instead of -c: lam of lam/2 |w|^2 + mean loss."),
)


def check_cost(C: float | None, lam: float | None) -> None:
    """At most one of them."""
    if C is not None and lam is not None:
        raise click.UsageError("-c and --lam say the same thing: give one of them")


def gap_option(gap: float) -> Decorator:
    """With this default."""
    return click.option(
        "--gap", type=NotNegative, default=gap, show_default=True,
        help="Stop at this certified relative duality gap (P - D) / P.",
    )  # fmt: skip


def solver_options(solver: str) -> Decorator:
    """With this one as the default."""
    return group(
        click.option("--solver", default=solver, show_default=True, help="Name of the method."),
        click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE",
            help="A hyper-parameter of the solver; may be repeated.",
        ),
        keep_option,
    )  # fmt: skip


scale_option = click.option(
    "--scale", is_flag=True, help="Divide each feature by its largest absolute value."
)

_objective_options = group(
    C_options,
    gap_option(1e-3),
    click.option(
        "--stop", "stops", multiple=True, type=_StopRule(), metavar="RULE",
        help="Instead of --gap: gap=TOL; gap=TOL:dual for P / D - 1; suboptimality=TOL:OPTIMUM for "
        "P <= (1 + TOL) OPTIMUM. May be repeated: the first that holds ends the run.",
    ),
    solver_options("auto"),
    loss_option,
    click.option(
        "--penalty", type=click.Choice(["l2", "l1", "elasticnet"]), default="l2",
        show_default=True,
        help="1/2 |w|^2; of a smooth loss |w|_1, which makes weights 0, or a mix of both.",
    ),
    click.option(
        "--l1-ratio", type=click.FloatRange(0, 1),
        help="Of --penalty elasticnet: r of r |w|_1 + (1 - r)/2 |w|^2.",
    ),
    click.option(
        "--bias", type=click.Choice(["none", "regularised", "free"]),
        help="Intercept: none, a constant feature, or not penalised.  [default: regularised; free "
        "with --kernel]",
    ),
    click.option(
        "--bias-scale", type=Positive, default=1.0, show_default=True,
        help="Value of the constant feature of a regularised intercept.",
    ),
    click.option(
        "--weight", "class_weight", multiple=True, metavar="LABEL=W",
        help="Rows of a class weigh W; may be repeated.",
    ),
    click.option(
        "-W", "--row-weights", type=InputFile,
        help="A file with the weight of every row, a number a line.",
    ),
    click.option(
        "--multiclass", "multi_class", type=click.Choice(["ovr", "ovo", "crammer_singer"]),
        help="Several classes: against the rest, in pairs, or in one problem.  [default: ovr; ovo "
        "with --kernel]",
    ),
)  # fmt: skip

_further_options = group(
    click.option(
        "--validation", type=InputFile,
        help="Held-out rows: stop where their loss stops falling, take the weights of its lowest "
        "point, and write it to --trace.",
    ),
    click.option(
        "--epochs-a-priori", is_flag=True,
        help="Instead of --gap: as many epochs as are best for held-out rows of a subsample.",
    ),
    scale_option,
    click.option(
        "--probability", type=click.Choice(["platt", "isotonic"]),
        help="Calibrate probabilities, for predict --probability.",
    ),
    click.option(
        "--folds", type=click.IntRange(2, 1000),
        help="Cross-validate: print the accuracy, write no model.",
    ),
    click.option(
        "--search-c", is_flag=True,
        help="Cross-validate C = 2^-10, 2^-9, ... (from -c on, if given); write no model.",
    ),
)  # fmt: skip

_kernel_options = group(
    click.option(
        "--kernel", type=_KernelName(),
        help="Train a kernel machine; without it, a linear one.",
    ),
    click.option(
        "--gamma", default="scale", show_default=True,
        help="Of the kernel: a number, scale or auto.",
    ),
    click.option("--degree", type=int, default=3, show_default=True, help="Of the poly kernel."),
    click.option(
        "--coef0", type=float, default=0.0, show_default=True, help="Of poly and sigmoid."
    ),
)  # fmt: skip

budget_options = group(
    click.option(
        "--max-seconds", type=Positive,
        help="Stop solving after so many seconds; folds and calibrations share them.",
    ),
    click.option(
        "--max-epochs", type=Positive, default=1000, show_default=True,
        help="Stop after so many passes over the data, or parts of one, as 0.01.",
    ),
    click.option(
        "--max-steps", type=click.IntRange(1),
        help="Stop after so many steps: exact for methods whose steps are less than a pass.",
    ),
)  # fmt: skip

_stream_options = group(
    click.option(
        "--rate", type=click.Choice(["decaying", "constant"]), default="decaying",
        show_default=True, help="Of DATA = -: the step; constant for a source that changes.",
    ),
    click.option(
        "--classes", metavar="LIST",
        help="Of DATA = -: all labels, separated by commas.  [default: those of the first block]",
    ),
    click.option(
        "--block", type=click.IntRange(1), default=1000, show_default=True,
        help="Of DATA = -: rows that are learned at a time.",
    ),
)  # fmt: skip

proof_option = click.option(
    "--proof", is_flag=True,
    help="Keep the dual variables in the model file: what proves its certificate.",
)  # fmt: skip
output_options = group(
    click.option("--test", type=InputFile, help="Data to measure the model on."),
    json_option,
    click.option("--quiet", is_flag=True, help="Print nothing."),
    click.option(
        "--trace", type=OutputFile,
        help="Write the course of the run: .csv, or JSON lines (.jsonl).",
    ),
)  # fmt: skip

_place_options = group(
    click.option(
        "--memory", type=Size, metavar="SIZE",
        help="Never have more than this in memory, such as 2G: DATA is an .arrow file (see "
        "convert), read in every epoch if it must be. Of --dask: in each worker.",
    ),
    click.option(
        "--checkpoint", type=click.Path(path_type=Path),
        help="Save the run to this file at intervals. Of --dask: a folder that all workers can "
        "write to, for others to go on from when one dies.",
    ),
    click.option(
        "--every", type=Positive, default=60.0, show_default=True,
        help="Seconds between two checkpoints.",
    ),
    click.option("--resume", is_flag=True, help="Go on from the checkpoint, if there is one."),
    click.option(
        "--dask", metavar="ADDRESS",
        help="Train on the workers of this Dask scheduler: bridle train --dask tcp://HOST:8786 "
        "FILES.arrow... [MODEL].",
    ),
)  # fmt: skip

train_options = group(
    _objective_options, _further_options, _kernel_options, budget_options, _stream_options,
    table_options, threads_option, device_option, seed_option, output_options, proof_option,
    _place_options,
)  # fmt: skip


@dataclass(frozen=True)
class TrainOptions:
    """All that `bridle train` was asked for. The names are those of the estimators' parameters."""

    paths: tuple[Path, ...]
    C: float | None
    lam: float | None
    gap: float
    stops: tuple[StopRule, ...]
    solver: str
    settings: tuple[str, ...]
    keep: Any
    loss: str
    penalty: str
    l1_ratio: float | None
    bias: Any
    bias_scale: float
    class_weight: tuple[str, ...]
    row_weights: Path | None
    multi_class: Any
    validation: Path | None
    epochs_a_priori: bool
    scale: bool
    probability: str | None
    folds: int | None
    search_c: bool
    kernel: str | None
    gamma: str
    degree: int
    coef0: float
    max_seconds: float | None
    max_epochs: float
    max_steps: int | None
    rate: Any
    classes: str | None
    block: int
    label_column: str | None
    hash_bits: int | None
    threads: int | None
    device: Any
    seed: int
    test: Path | None
    proof: bool
    as_json: bool
    quiet: bool
    trace: Path | None
    memory: int | None
    checkpoint: Path | None
    every: float
    resume: bool
    dask: str | None

    @property
    def goal(self) -> float | None:
        """The gap to reach, as (P - D) / P, if there is one."""
        if not self.stops:
            return self.gap
        gaps = [rule.made().part_of_primal for rule in self.stops if rule.name == "gap"]
        return max(gaps, default=None)

    @property
    def stream(self) -> bool:
        """Whether the rows come from standard input."""
        return str(self.paths[0]) == "-" and self.dask is None

    @property
    def validating(self) -> bool:
        """Whether accuracies are asked for, and no model."""
        return self.folds is not None or self.search_c

    @property
    def way(self) -> Any:
        """To several classes: unless it is said, that of SVC for kernels, of LinearSVC else."""
        return self.multi_class or ("ovo" if self.kernel is not None else "ovr")

    @property
    def intercept(self) -> Any:
        """Unless it is said, that of SVC for kernels, of LinearSVC else; of one class an offset."""
        free = self.kernel is not None or self.one_class
        return self.bias or ("free" if free else "regularised")

    @property
    def offers(self) -> frozenset[str]:
        """What the problems and their rows will offer to solvers."""
        from bridle.problems.base import COLUMNS, KERNEL, ORACLE, WEIGHTS
        from bridle.problems.penalised import l1_ratio_of
        from bridle.rows.base import ROUNDS
        from bridle.rows.disk.ranges import DiskRows
        from bridle.rows.memory import MemoryRows

        if self.kernel is not None:
            return frozenset({KERNEL})
        if self.way == "crammer_singer":
            return frozenset({ORACLE})
        if l1_ratio_of(self.penalty, self.l1_ratio) > 0:
            return frozenset({COLUMNS})
        if self.dask is not None:
            return frozenset({WEIGHTS, ROUNDS})
        home = MemoryRows if self.memory is None else DiskRows
        return frozenset({WEIGHTS, *home.offers})

    @property
    def of_targets(self) -> bool:
        """Whether the labels are numbers to predict."""
        from bridle.cli.settings import make_loss

        return make_loss(self.loss).residual

    @property
    def one_class(self) -> bool:
        """Whether labels are not looked at."""
        from bridle.cli.settings import make_loss

        return make_loss(self.loss).one_class

    @property
    def ways(self) -> list[str]:
        """Which of the ways in `bridle.fitting.refusals` this is."""
        if self.stream:
            return ["stream"]
        found = {
            "cluster": self.dask is not None,
            "disk": self.memory is not None and self.dask is None,
            "validation": self.validating,
            "kernel": self.kernel is not None,
            "kernel_machine": self.kernel is not None and not (self.of_targets or self.one_class),
            "kernel_function": self.kernel is not None and (self.of_targets or self.one_class),
            "targets": self.of_targets,
            "one_class": self.one_class,
            "crammer_singer": self.way == "crammer_singer",
            "pairs": self.way != "ovr",
            "penalised": self.penalty != "l2",
            "unmixed": self.penalty != "elasticnet",
            "once": self.checkpoint is None,
        }
        return [name for name, is_it in found.items() if is_it] + ["file"]


def refuse_options(ctx: click.Context, options: TrainOptions) -> None:
    """UsageError for what the way has not. An option at its default asks for nothing."""
    from bridle.fitting.refusals import WAYS

    given_gap = ctx.get_parameter_source("gap") is click.core.ParameterSource.COMMANDLINE
    if options.stops and given_gap:
        raise click.UsageError("--stop is instead of --gap: give --stop gap=TOL beside the others")
    asked = {}
    for parameter in ctx.command.params:
        name, value = parameter.name or "", ctx.params.get(parameter.name or "")
        given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        usual = (parameter.get_default(ctx), "ovr" if name == "multi_class" else None)
        if given and value not in usual:
            asked[name] = parameter.opts[-1]
    for way in options.ways:
        for name, option in asked.items():
            said = WAYS[way].command_refusal(name, option)
            if said is not None:
                raise click.UsageError(said)
