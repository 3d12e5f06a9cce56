"""`bridle rank train`, `bridle rank predict`, `bridle rank eval`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.options import scale_option
from bridle.cli.shared import (
    Clock,
    InputError,
    InputFile,
    InputFileOrStream,
    OutputFileOrStdout,
    check_writable,
    columns_info,
    fit_width,
    json_option,
    print_json,
    print_table,
    qid_column_option,
    read,
    read_model,
    read_numbers,
    reported,
    size_report,
    table_options,
    threads_option,
    write_text,
)  # fmt: skip
from bridle.cli.structural import Training, conclude, solve_task, training_options
from bridle.structured.ranking import RANKING_LOSSES

if TYPE_CHECKING:
    from bridle.data.reading import Data
    from bridle.files.packed import Source

threshold_option = click.option(
    "--threshold", type=float, default=0.0, show_default=True,
    help="Documents of a grade above it are relevant, where there are only relevant and not.",
)  # fmt: skip

SVM_RANK_LOSSES = {"1": "pairs-sum", "2": "pairs"}


@click.group()
def rank() -> None:
    """Rank the documents of queries: files where every row has the id of its query."""


@rank.command()
@training_options(
    C=1.0, gap=1e-3, solver="auto",
    about_C="Weight of the sum of losses over queries. SVM-rank divides its own -c by their "
    "number.",
)  # fmt: skip
@click.option("--loss", help=f"One of {', '.join(RANKING_LOSSES)}.  [default: map]")
@click.option(
    "-l", "svm_rank_loss", type=click.Choice(list(SVM_RANK_LOSSES)),
    help="SVM-rank's name of a loss: 1 is pairs-sum, 2 is pairs.",
)  # fmt: skip
@threshold_option
@click.option(
    "--no-normalise", is_flag=True,
    help="Do not divide the features of a ranking by the number of its pairs.",
)  # fmt: skip
@scale_option
@table_options
@qid_column_option
@click.pass_context
def train(
    ctx: click.Context,
    /,
    *,
    loss: str | None,
    svm_rank_loss: str | None,
    threshold: float,
    no_normalise: bool,
    scale: bool,
    label_column: str | None,
    hash_bits: int | None,
    qid_column: str | None,
    **given: Any,
) -> None:
    """Train a ranker on DATA and write MODEL with its certificate.

    Without MODEL it is written beside the data, as DATA.model. --test reports the MAP of that file.
    """
    clock, options = Clock(), Training(**given)
    if loss is not None and svm_rank_loss is not None:
        raise click.UsageError("--loss and -l say the same thing: give one of them")
    chosen = SVM_RANK_LOSSES[svm_rank_loss] if svm_rank_loss else loss or "map"
    method = options.prepared()
    with clock.timing("read"):
        rows = read(
            options.data, options.threads, queries=True, label_column=label_column,
            hash_bits=hash_bits, qid_column=qid_column,
        )  # fmt: skip
    from bridle.fitting.ranker import ranking_task

    make = partial(
        ranking_task, rows.X, rows.y, rows.qid, options.C, loss=chosen, threshold=threshold,
        normalise=not no_normalise, scale=scale, zero_based=rows.zero_based,
        n_threads=options.threads,
    )  # fmt: skip
    with _about(options.data):
        task, solution = solve_task(make, chosen, method, options, clock)
    fitted = task.fitted(
        solution, seed=options.seed, gap=options.gap, scale=scale, **columns_info(rows.columns)
    )

    def facts() -> dict[str, Any]:
        return {
            "loss": chosen, **size_report(rows.X, options.threads), "queries": fitted.n_queries,
            "skipped": task.problem.n_skipped,
            "map_train": _map(fitted, rows, options.data, options.threads),
            "map_test": _map_of(fitted, options.test, options.threads),
        }  # fmt: skip

    conclude(ctx, options, clock, solution, fitted, facts, partial(_print_training, options))


def _map(model: Any, rows: Data, path: Path, threads: int | None) -> float:
    from bridle.objective import metrics

    with _about(path):
        scores = fit_width(model, rows.X, path).decision_function(rows.X, n_threads=threads)
        found = metrics.average_precision(rows.y, scores, rows.qid, threshold=model.threshold)
    return float(found.mean())


def _map_of(model: Any, test: Path | None, threads: int | None) -> float | None:
    if test is None:
        return None
    return _map(model, read(test, threads, model, queries=True), test, threads)


@rank.command()
@click.argument("data", type=InputFileOrStream)
@click.argument("model", type=InputFile)
@click.argument("output", type=OutputFileOrStdout, required=False)
@threads_option
def predict(*, data: Source, model: Path, output: Path | None, threads: int | None) -> None:
    """Score the documents of DATA by MODEL: one number per line, to OUTPUT or standard output.

    DATA = - reads svmlight lines from standard input.
    """
    if output is not None:
        check_writable(output, inputs=(data, model))
    fitted = read_model(model, ("ranking",))
    X = read(data, threads, fitted, labels=False).X
    with reported():
        scores = fit_width(fitted, X, data).decision_function(X, n_threads=threads)
        text = "".join(f"{score!r}\n" for score in scores.tolist())
        if output is None:
            click.echo(text, nl=False)
        else:
            write_text(output, [text])


@rank.command("eval")
@click.argument("data", type=InputFile)
@click.argument("model", type=InputFile)
@click.option(
    "--scores", is_flag=True, help="MODEL is a file of scores, one per line, from any tool."
)
@click.option(
    "-k", "cutoffs", type=click.IntRange(1), multiple=True, default=(1, 3, 5, 10),
    show_default=True, help="Ranks to cut NDCG and precision at; may be repeated.",
)  # fmt: skip
@click.option(
    "--ndcg", "convention", type=click.Choice(["letor", "trec", "burges"]), default="burges",
    show_default=True,
    help="letor: 2^g - 1 over 1, 1, log2(rank). trec: g over log2(1 + rank). burges: 2^g - 1 over "
    "log2(1 + rank).",
)  # fmt: skip
@threshold_option
@click.option("--summary", is_flag=True, help="Only the means over all queries.")
@table_options
@qid_column_option
@threads_option
@json_option
def evaluate(
    *,
    data: Path,
    model: Path,
    scores: bool,
    cutoffs: tuple[int, ...],
    convention: Any,
    threshold: float,
    summary: bool,
    threads: int | None,
    as_json: bool,
    **tables: Any,
) -> None:
    """Evaluate MODEL on DATA: MAP, MRR, ROC, NDCG@k and P@k, of each query and overall.

    As LETOR's evaluation script, whose NDCG is --ndcg letor: ties keep the order of the file,
    queries without relevant documents count 0, and P@k divides by k. MAP, MRR (recip_rank) and P@k
    are also TREC's, but for the order of ties. ROC is the mean over queries that have both relevant
    and other documents.
    """
    fitted = None if scores else read_model(model, ("ranking",))
    rows = read(data, threads, fitted, queries=True, **tables)
    X, y, qid = rows.X, rows.y, rows.qid
    if fitted is None:
        values = read_numbers(model, len(y), "scores")
    else:
        with reported():
            values = fit_width(fitted, X, data).decision_function(X, n_threads=threads)
    from bridle.objective import metrics

    with _about(data):
        columns = _columns(y, values, qid, threshold, cutoffs, convention)
        ids = metrics.queries(qid)
    overall = {name: metrics.mean(column) for name, column in columns.items()}
    if as_json:
        each = [
            {"qid": int(q), **{name: float(column[i]) for name, column in columns.items()}}
            for i, q in enumerate(ids)
        ]
        print_json({
            **size_report(X, threads), "queries": len(ids), "ndcg": convention, "overall": overall,
            "per_query": None if summary else each,
        })  # fmt: skip
        return
    lines = [] if summary else [
        [str(q), *(_number(column[i]) for column in columns.values())] for i, q in enumerate(ids)
    ]  # fmt: skip
    lines.append(["all", *(_number(value) for value in overall.values())])
    print_table(f"{data}: {len(ids):,} queries, NDCG of {convention}", ["qid", *columns], lines)


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    """As `reported`, with the name of the file in front."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from error


def _columns(
    y: Any, scores: Any, qid: Any, threshold: float, cutoffs: tuple[int, ...], convention: Any
) -> dict[str, Any]:
    from bridle.objective import metrics

    return {
        "MAP": metrics.average_precision(y, scores, qid, threshold=threshold),
        "MRR": metrics.reciprocal_rank(y, scores, qid, threshold=threshold),
        "ROC": metrics.roc_area(y, scores, qid, threshold=threshold),
        **{f"NDCG@{k}": metrics.ndcg(y, scores, qid, k=k, convention=convention) for k in cutoffs},
        **{
            f"P@{k}": metrics.precision_at_k(y, scores, qid, k=k, threshold=threshold)
            for k in cutoffs
        },
    }


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _print_training(options: Training, report: dict[str, Any]) -> None:
    seconds = report["seconds"]
    click.echo(
        f"{options.data}: {report['queries']:,} queries, {report['rows']:,} documents, "
        f"{report['features']:,} features, read in {seconds['read']:.2g} s"
    )
    if report["skipped"]:
        click.echo(
            f"{report['skipped']:,} queries have nothing to rank: their documents are all relevant "
            "or all not"
        )
    click.echo(f"{report['solver']} {report['message']}")
    click.echo(
        f"loss {report['loss']}, C {report['C']:.6g}, primal {report['primal']:.8g}, dual "
        f"{report['dual']:.8g}; {seconds['solve']:.2g} s solving"
    )
    if options.test is not None:
        click.echo(f"{options.test}: MAP {report['map_test']:.4f}")
    click.echo(f"training MAP {report['map_train']:.4f}; model written to {report['model']}")
