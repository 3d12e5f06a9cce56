"""`bridle convert`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from bridle.cli.shared import (
    Clock,
    InputError,
    InputFile,
    OutputFileOrFolder,
    check_writable,
    json_option,
    on_cluster,
    peak_rss_mb,
    print_json,
    reported,
    threads_option,
)
from bridle.data.reading import READERS, data_ending

if TYPE_CHECKING:
    from bridle.data.convert import Converted


@click.command()
@click.argument("data", type=InputFile, nargs=-1)
@click.argument("rows", type=OutputFileOrFolder)
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
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Convert many files on the workers of this Dask scheduler, which see them and ROWS, too.",
)
@threads_option
@json_option
def convert(
    *,
    data: tuple[Path, ...],
    rows: Path,
    features: int | None,
    zero_based: bool | None,
    compact: Literal["exact", "float16"] | None,
    dask: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Turn DATA (svmlight, plain or compressed by gzip or xz) into ROWS, an .arrow file.

    DATA may be an .arrow file itself, to make it compact, or plain again. In bounded memory,
    whatever the size of DATA. ROWS appears when it is complete. It can be trained on when it does
    not fit into memory (train --memory), and pandas, polars and DuckDB read it, too.

    Several DATA, or one with --dask, are the parts of one data set: ROWS is then a folder, and gets
    an .arrow file for each. All are as wide as the widest.
    """
    if not data:
        raise click.UsageError(f"and the .arrow file to make? bridle convert {rows} ROWS.arrow")
    for path in data:
        if path.suffix != ".arrow" and data_ending(path) in READERS:
            raise InputError(
                f"{path}: is no svmlight text; bridle train reads it as it is, and "
                "bridle.data.write_arrow writes what is in memory"
            )
    clock = Clock()
    options: dict[str, Any] = {
        "n_features": features, "compact": compact,
        "zero_based": "auto" if zero_based is None else zero_based,
    }  # fmt: skip
    if len(data) > 1 or dask is not None:
        # A worker has as many threads as Dask gives it; on this machine all threads parse.
        options["n_threads"] = 1 if dask is not None and threads is None else threads
        with contextlib.nullcontext() if dask is None else on_cluster(dask) as client:
            found = _convert_all(data, rows, client, options)
        _report(rows, list(found), list(found.values()), clock, as_json)
        return
    options["n_threads"] = threads
    _report(rows, [rows], [_convert_one(data[0], rows, options)], clock, as_json)


def _convert_one(data: Path, rows: Path, options: dict[str, Any]) -> Converted:
    if rows.suffix != ".arrow":
        raise InputError(f"{rows}: the name must end in .arrow")
    check_writable(rows, inputs=(data,))
    with reported():
        from bridle.data.convert import arrow_to_arrow, svmlight_to_arrow

        if data.suffix == ".arrow":
            if options["n_features"] is not None or options["zero_based"] != "auto":
                raise InputError(f"{data}: an Arrow file says itself how wide it is")
            return arrow_to_arrow(data, rows, compact=options["compact"])
        with _progress(os.path.getsize(data)) as show:
            return svmlight_to_arrow(data, rows, progress=show, **options)


def _convert_all(
    data: tuple[Path, ...], folder: Path, client: Any, options: dict[str, Any]
) -> dict[Path, Converted]:
    from bridle.data.convert_all import arrow_names, svmlights_to_arrow

    def on_workers(convert: Any, *columns: Any) -> list[Converted]:
        found: list[Converted] = client.gather(client.map(convert, *columns, pure=False))
        return found

    for path in data:
        if path.suffix == ".arrow":
            raise InputError(f"{path}: an .arrow file is converted alone, into another .arrow file")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: several files become files in a folder, and this is none")
    if folder.suffix == ".arrow" and not folder.exists():
        raise InputError(f"{folder}: several files become several in a folder, not one .arrow file")
    check_writable(folder)
    folder.mkdir(exist_ok=True)
    with reported():
        targets = [target.absolute() for target in arrow_names(data, folder)]
        for target in targets:
            check_writable(target, inputs=data)
        texts = [text.absolute() for text in data]
        each = map if client is None else on_workers
        return dict(
            zip(targets, svmlights_to_arrow(texts, targets, each=each, **options), strict=True)
        )


def _report(
    rows: Path, files: list[Path], found: list[Converted], clock: Clock, as_json: bool
) -> None:
    seconds = clock.report()["total"]
    n_rows, nnz = sum(one.n_rows for one in found), sum(one.nnz for one in found)
    n_bytes, whole = sum(map(os.path.getsize, files)), found[0]
    if as_json:
        report = {
            "rows": n_rows, "features": whole.n_features, "nnz": nnz,
            "qid": whole.has_qid, "zero_based": whole.zero_based, "bytes": n_bytes,
            "files": [str(file) for file in files],
            "seconds": {"total": seconds}, "peak_rss_mb": peak_rss_mb(),
        }  # fmt: skip
        print_json(report)
        return
    many = f" in {len(files)} files" if files != [rows] else ""
    click.echo(
        f"{rows}: {n_rows:,} rows{many}, {whole.n_features:,} features, {nnz:,} non-zeros, "
        f"{n_bytes / 2**20:,.1f} MiB, in {seconds:.2g} s"
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
