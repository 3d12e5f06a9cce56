"""`bridle convert`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import click
from bridle.cli.shared import (
    Clock,
    InputError,
    InputFile,
    OutputFile,
    check_writable,
    json_option,
    peak_rss_mb,
    print_json,
    reported,
    threads_option,
)


@click.command()
@click.argument("data", type=InputFile)
@click.argument("rows", type=OutputFile)
@click.option(
    "--features", type=click.IntRange(1), metavar="N",
    help="How many the data have: for files of one data set, of which some lack the last ones.",
)  # fmt: skip
@click.option(
    "--zero-based/--one-based",
    default=None,
    help="Whether DATA counts features from 0 or from 1.  [default: from 1, unless a 0 occurs]",
)
@click.option(
    "--compact", type=click.Choice(["exact", "float16"]),
    help="Fewer bytes: columns as gaps of 16 bits, and values as 16-bit numbers of different ones. "
    "exact: the same rows, values as they are if there are too many different ones. float16: "
    "values are rounded to 16 bits.",
)  # fmt: skip
@threads_option
@json_option
def convert(
    *,
    data: Path,
    rows: Path,
    features: int | None,
    zero_based: bool | None,
    compact: Literal["exact", "float16"] | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Turn DATA (svmlight, plain or compressed by gzip or xz) into ROWS, an .arrow file.

    In bounded memory, whatever the size of DATA. ROWS appears when it is complete. It can be
    trained on when it does not fit into memory (train --memory), and pandas, polars and DuckDB read
    it, too.
    """
    clock = Clock()
    if rows.suffix != ".arrow":
        raise InputError(f"{rows}: the name must end in .arrow")
    check_writable(rows, inputs=(data,))
    with reported():
        from bridle.data.convert import svmlight_to_arrow

        with _progress(os.path.getsize(data)) as show:
            found = svmlight_to_arrow(
                data, rows, n_threads=threads, n_features=features,
                zero_based="auto" if zero_based is None else zero_based, progress=show,
                compact=compact,
            )  # fmt: skip
    seconds = clock.report()["total"]
    if as_json:
        report = {
            "rows": found.n_rows, "features": found.n_features, "nnz": found.nnz,
            "qid": found.has_qid, "zero_based": found.zero_based, "bytes": os.path.getsize(rows),
            "seconds": {"total": seconds}, "peak_rss_mb": peak_rss_mb(),
        }  # fmt: skip
        print_json(report)
        return
    click.echo(
        f"{rows}: {found.n_rows:,} rows, {found.n_features:,} features, {found.nnz:,} non-zeros, "
        f"{os.path.getsize(rows) / 2**20:,.1f} MiB, in {seconds:.2g} s"
    )


@contextlib.contextmanager
def _progress(n_bytes: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("converting", total=n_bytes)
        yield lambda done: bar.update(task, completed=done)
