"""What subcommands have in common: reading, reporting, errors, progress. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bridle.data.reading import Data
    from bridle.files.packed import Source
    from bridle.objective.certificate import Record
    from bridle.solving.stopping import Status

# Exit codes.
REACHED, BAD_INPUT, NOT_REACHED = 0, 2, 3

# How writing fails.
UNWRITTEN = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EPIPE)


class InputError(click.ClickException):
    """Bad input: one line, exit code 2."""

    exit_code = BAD_INPUT

    def show(self, file: Any = None) -> None:
        """One line on standard error."""
        click.echo(f"bridle: {' '.join(self.message.split())}", err=True)


class _InputFile(click.Path):
    """A file that can be read, found out before any work is done."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        path = Path(os.fsdecode(value))
        if not os.path.exists(path):  # also if no file could have such a name, where Path raises
            raise InputError(f"{path}: there is no such file")
        if path.is_dir():
            raise InputError(f"{path}: is a folder, not a file")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path}: may not be read by this user")
        return path


class _InputFileOrStream(_InputFile):
    """The same, or `-` for standard input: its open file."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if isinstance(value, str | os.PathLike) and os.fsdecode(value) != "-":
            return super().convert(value, param, ctx)
        return sys.stdin.buffer


class _OutputFile(click.Path):
    """A file to write. `-` is none: what goes there is no text for a terminal or a pipe."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if os.fsdecode(value) == "-":
            raise InputError("-: is not written to standard output; name a file (./- is one)")
        return super().convert(value, param, ctx)


class _OutputFileOrStdout(click.Path):
    """A file to write, or `-` for standard output: None."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return None if os.fsdecode(value) == "-" else super().convert(value, param, ctx)


class _Number(click.FloatRange):
    """A number in a range; NaN, which compares with nothing, is in no range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


class _Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes, as 500M or 2G."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        from bridle.rows.disk.memory import parse_size

        try:
            return value if isinstance(value, int) else parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


InputFile = _InputFile()
InputFileOrStream = _InputFileOrStream()
Size = _Size()
OutputFile = _OutputFile(dir_okay=False, path_type=Path)
OutputFileOrFolder = _OutputFile(path_type=Path)
OutputFileOrStdout = _OutputFileOrStdout(dir_okay=False, path_type=Path)
Positive = _Number(min=0, min_open=True)
NotNegative = _Number(min=0)

threads_option = click.option(
    "--threads", type=click.IntRange(1, 1024), help="Threads to use.  [default: all]"
)
device_option = click.option(
    "--device", type=click.Choice(["cpu", "cuda", "auto"]), default="cpu", show_default=True,
    help="Where to compute: the processor, a GPU, or what is predicted to take less time.",
)  # fmt: skip
loss_option = click.option(
    "--loss", default="hinge", show_default=True, metavar="NAME[:KEY=VALUE]",
    help="Of labels: hinge, squared_hinge, logistic, smoothed_hinge:gamma=1. Of numbers: "
    "epsilon_insensitive:epsilon=0.1, squared_epsilon_insensitive, pinball:quantile=0.5, squared, "
    "huber:delta=1. Without labels: one_class:nu=0.5.",
)  # fmt: skip
bias_option = click.option(
    "--bias", type=click.Choice(["none", "regularised", "free"]), default="regularised",
    show_default=True, help="Intercept: none, a constant feature, or not penalised.",
)  # fmt: skip
seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True,
    help="Of the random orders: the same seed gives the same model.",
)  # fmt: skip
keep_option = click.option(
    "--keep", type=click.Choice(["best", "final"]), default="best", show_default=True,
    help="Which weights: the best that were certified, or the last that the solver proposed.",
)  # fmt: skip
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON report to standard output, nothing else."
)
label_column_option = click.option(
    "--label-column", metavar="NAME|NUMBER",
    help="Of a .csv, .tsv or .parquet file; a number counts from 1, -1 is the last.  "
    "[default: label]",
)  # fmt: skip
hash_bits_option = click.option(
    "--hash-bits", type=click.IntRange(1, 30), metavar="N",
    help="Make features of a table's columns of text, hashed to N bits.",
)  # fmt: skip


qid_column_option = click.option(
    "--qid-column", metavar="NAME|NUMBER",
    help="Of a table: the column of query ids.  [default: qid]",
)  # fmt: skip


def table_options(command: Any) -> Any:
    """How to read tables: passed on to `read`."""
    return label_column_option(hash_bits_option(command))


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turns what is wrong with the user's input into one line and exit code 2."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in UNWRITTEN:  # standard output: see unwritten
            raise
        what = error.strerror or str(error)
        raise InputError(f"{error.filename}: {what}" if error.filename else what) from error
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
    except MemoryError as error:
        raise InputError("the data do not fit into memory") from error
    except ImportError as error:
        if "pip install" not in str(error):  # not an extra that is missing: a defect
            raise
        raise InputError(str(error)) from error


def unwritten(error: OSError) -> BaseException:
    """What to raise when standard output takes no more; a reader that has gone is no error."""
    if error.errno not in UNWRITTEN or error.errno == errno.EPIPE:
        return error
    # What is left in its buffer must not be tried again at the end, with an exit code of its own.
    with open(os.devnull, "wb") as nowhere, contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return InputError(f"standard output: {error.strerror}")


def keep_what_is_found() -> None:
    """From here to the end of the command SIGTERM ends solves early, but not the writing."""
    from bridle.solving.interruption import deferred_termination

    click.get_current_context().with_resource(deferred_termination())


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """All of the text or, if it cannot be written, nothing."""
    from bridle.files.atomic import replacing

    with reported(), replacing(path) as file:
        file.writelines(piece.encode() for piece in pieces)


@dataclass
class Clock:
    """Seconds by what they were spent on."""

    began: float = field(default_factory=time.perf_counter)
    parts: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timing(self, part: str) -> Iterator[None]:
        """Add the time of the block to a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.parts[part] = self.parts.get(part, 0.0) + spent

    def report(self) -> dict[str, float]:
        """Read, solve, certify and write, where they apply, and the total."""
        return {**self.parts, "total": time.perf_counter() - self.began}


def read(path: Source, threads: int | None, like: Any = None, **how: Any) -> Data:
    """As read_arrays; X of a sparse file is a SciPy matrix."""
    from bridle.data.reading import with_matrix

    return with_matrix(read_arrays(path, threads, like, **how))


def read_arrays(
    path: Source,
    threads: int | None,
    like: Any = None,
    *,
    labels: bool = True,
    weights: bool = False,
    queries: bool = False,
    label_column: str | None = None,
    hash_bits: int | None = None,
    qid_column: str | None = None,
) -> Data:
    """A data file, of the kind that its name says; CsrArrays where that spares loading SciPy.

    like: a model, or data that were read before, whose way of counting and columns to follow.
    labels: whether there must be some. weights: whether those of rows are used; where they would
    be ignored, data that have them are refused. queries: whether rows must have query ids.
    """
    from bridle.data import reading

    with reported():
        zero_based = "auto" if like is None else like.zero_based
        wanted = reading.Wanted(
            threads,
            zero_based,
            _columns_of(like),
            label_column,
            hash_bits,
            queries,
            qid_column,
            labels,
        )
        data = reading.read_arrays(path, wanted)
    if labels and data.y is None and data.columns is not None:
        raise InputError(f"{path}: has no label column {data.columns.label!r}")
    if data.weight is not None and labels and not weights:
        raise InputError(f"{path}: its rows have weights, which only train uses")
    return data


def read_numbers(path: Path, n_rows: int, what: str) -> Any:
    """A number a line, as many as there are rows."""
    import numpy as np
    from bridle.files.packed import text_of

    with reported():
        lines = text_of(path).read().split("\n")
    if lines and not lines[-1].strip():
        lines.pop()
    if len(lines) != n_rows:
        raise InputError(f"{path}: {len(lines)} {what} for {n_rows} rows")
    values = np.empty(n_rows)
    for i, line in enumerate(lines):
        try:
            values[i] = float(line)
        except ValueError:
            raise InputError(f"{path}:{i + 1}: expected a number, found {line[:40]!r}") from None
    return values


def columns_info(columns: Any) -> dict[str, Any]:
    """What a model must know of the table it was trained on; nothing for other files."""
    if columns is None:
        return {}
    names = {} if columns.hash_bits else {"feature_names": list(columns.numbers)}
    return {"columns": columns.as_dict(), **names}


def _columns_of(like: Any) -> Any:
    if like is None or hasattr(like, "columns"):
        return None if like is None else like.columns
    from bridle.data.tables import Columns

    kept = like.info.get("columns")
    return None if kept is None else Columns.from_dict(kept)


def read_model(path: Path, kinds: tuple[str, ...] = ("linear",)) -> Any:
    """A model of one of these kinds."""
    from bridle.models.storage import load_model

    with reported():
        model = load_model(path)
    if model.kind not in kinds:
        raise InputError(
            f"{path}: a model of kind {model.kind!r}; this command needs a {' or '.join(kinds)} one"
        )
    return model


def tell_if_nothing(model: Any, status: Status, *, quiet: bool) -> None:
    """That a finished model gives one answer to everything, on standard error."""
    from bridle.models.storage import says_nothing
    from bridle.solving.stopping import Status

    if not quiet and status is Status.CONVERGED and says_nothing(model):
        of_one_class = (
            "rows that lie about the origin on all sides are held by no half-space away from it"
        )
        of_labels = "raise -c, or look whether the features say anything about the labels"
        why = of_one_class if model.kind == "linear-one-class" else of_labels
        click.echo(
            f"bridle: all weights are 0, and every row gets the same answer: {why}", err=True
        )


def fit_width(model: Any, X: Any, source: Source) -> Any:
    """The model for data of X's width; says so when features of the data are not in the model."""
    if X.shape[1] > model.n_features:
        from bridle.files.packed import name_of

        click.echo(
            f"bridle: {name_of(source)}: {X.shape[1] - model.n_features} features beyond the "
            f"model's {model.n_features} are ignored: no training row had them",
            err=True,
        )
    if X.shape[1] == model.n_features:
        return model
    narrow = X.shape[1] < model.n_features
    return model if narrow and model.widens else model.resized(X.shape[1])


def same_classes(model: Any, X: Any, y: Any, path: Path) -> Any:
    """The model for data of X's width whose labels must all be the model's."""
    strange = model.strange(y)
    if len(strange):
        raise InputError(f"{path}: the label {plain(strange[0])} is none of the model's classes")
    return fit_width(model, X, path)


def check_writable(path: Path, *, inputs: tuple[Source, ...] = ()) -> None:
    """Fail before the work, not after it."""
    if path.exists() and not path.is_file():  # a device or a pipe
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: the folder {folder} is not writable")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: may not be written by this user")
    for other in inputs:
        if path.exists() and isinstance(other, Path) and path.samefile(other):
            raise InputError(f"{path}: would overwrite an input file")


@contextlib.contextmanager
def on_cluster(address: str) -> Iterator[Any]:
    """A client of this scheduler."""
    try:
        from bridle.rows.cluster.dask_rows import ClusterError
        from distributed import Client
    except ImportError as error:
        raise InputError("--dask needs the extra: pip install bridle[dask]") from error
    try:
        with reported(), Client(address, timeout="10s") as client:  # type: ignore[no-untyped-call]
            yield client
    except ClusterError as error:
        raise InputError(str(error)) from error


def check_picture(path: Path | None, *, inputs: tuple[Path, ...] = ()) -> None:
    """Fail before the work if a picture is asked for and cannot be drawn or written."""
    if path is None:
        return
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise InputError(f"{path}: pictures need matplotlib: pip install 'bridle[plot]'")
    check_writable(path, inputs=inputs)


def size_report(X: Any, threads: int | None) -> dict[str, Any]:
    """Rows, features, nnz, threads."""
    from bridle.matrix.threads import check_threads

    return {
        "rows": int(X.shape[0]),
        "features": int(X.shape[1]),
        "nnz": int(X.nnz),
        "threads": check_threads(threads),
    }


def peak_rss_mb() -> float | None:
    """The most memory that this process has had, in MiB; None where the system does not say."""
    with contextlib.suppress(OSError, StopIteration, ValueError, IndexError):
        # Of this program alone; what getrusage says began with the process that started it.
        with open("/proc/self/status", "rb") as file:
            line = next(line for line in file if line.startswith(b"VmHWM:"))
        return int(line.split()[1]) / 2**10
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def print_json(report: dict[str, Any]) -> None:
    """One line of strict JSON."""
    click.echo(to_json(report))


def to_json(report: dict[str, Any]) -> str:
    """Strict JSON: what is not finite becomes null."""
    return json.dumps(_finite(report), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.item() if hasattr(value, "item") else value


def plain(label: float | str) -> str:
    """A label as people write it: 1 rather than 1.0."""
    from bridle.models.deciding import plain as written

    return written(label)


def in_words(measures: dict[str, float]) -> str:
    """What was measured of a model's answers, in a line."""
    return ", ".join(
        f"{name.replace('_', ' ')} {measured(name, value)}" for name, value in measures.items()
    )


def measured(name: str, value: float | None) -> str:
    """The value of a measure of this name, if there is one."""
    if value is None:
        return ""
    return percent(value) if name.startswith(("error", "outside")) else f"{value:.6g}"


def percent(rate: float | None) -> str:
    """An error rate."""
    return "unknown" if rate is None else f"{100 * rate:.2f} %"


@contextlib.contextmanager
def progress(goal: float | None) -> Iterator[Callable[[str, Record], None]]:
    """A line that shows the gap falling, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda label, record: None
        return
    from rich.console import Console

    asked = "" if goal is None else f" (goal {goal:.0e})"
    with Console(stderr=True).status("first pass ...") as status:

        def show(label: str, record: Record) -> None:
            seconds = record.seconds_solver + record.seconds_certify
            status.update(
                f"{label}: certified gap {record.relative_gap:.1e}{asked}, "
                f"{record.epoch:.4g} epochs, {seconds:.1f} s"
            )

        yield show


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """On a terminal a table with rules, else aligned columns."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(title=title)
        for i, column in enumerate(columns):
            table.add_column(column, justify="right" if i else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(table)
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    click.echo(title)
    for row in [columns, *rows]:
        first, *rest = zip(row, widths, strict=True)
        click.echo("  ".join([first[0].ljust(first[1]), *(c.rjust(n) for c, n in rest)]))
