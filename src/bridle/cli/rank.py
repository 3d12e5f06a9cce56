"""`bridle rank train`, `bridle rank predict`, `bridle rank eval`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.settings import make_solver
from bridle.cli.shared import (
    Clock,
    InputError,
    InputFile,
    InputFileOrStream,
    NotNegative,
    OutputFile,
    OutputFileOrStdout,
    Positive,
    check_writable,
    fit_width,
    json_option,
    keep_option,
    peak_rss_mb,
    print_json,
    print_table,
    read_model,
    reported,
    seed_option,
    size_report,
    threads_option,
    write_text,
)  # fmt: skip
from bridle.cli.structural import finish, solution_report, solve_task, write_model
from bridle.structured.ranking import RANKING_LOSSES

if TYPE_CHECKING:
    from bridle.files.packed import Source
    from bridle.solving.solution import Keep

threshold_option = click.option(
    "--threshold", type=float, default=0.0, show_default=True,
    help="Documents of a grade above it are relevant, where there are only relevant and not.",
)  # fmt: skip

SVM_RANK_LOSSES = {"1": "pairs-sum", "2": "pairs"}


@click.group()
def rank() -> None:
    """Rank the documents of queries: svmlight files where every row has a qid."""


@rank.command()
@click.argument("data", type=InputFile)
@click.argument("model", type=OutputFile, required=False)
@click.option("--loss", help=f"One of {', '.join(RANKING_LOSSES)}.  [default: map]")
@click.option(
    "-l", "svm_rank_loss", type=click.Choice(list(SVM_RANK_LOSSES)),
    help="SVM-rank's name of a loss: 1 is pairs-sum, 2 is pairs.",
)  # fmt: skip
@click.option(
    "-c", "C", type=Positive, default=1.0, show_default=True,
    help="Weight of the sum of losses over queries. SVM-rank divides its own -c by their number.",
)  # fmt: skip
@click.option(
    "--gap", type=NotNegative, default=1e-3, show_default=True,
    help="Stop at this certified relative duality gap (P - D) / P.",
)  # fmt: skip
@click.option("--solver", default="auto", show_default=True, help="Name of the method.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="A hyper-parameter of the solver; may be repeated.",
)  # fmt: skip
@threshold_option
@click.option(
    "--no-normalise", is_flag=True,
    help="Do not divide the features of a ranking by the number of its pairs.",
)  # fmt: skip
@click.option("--max-seconds", type=Positive, help="Stop solving after so many seconds.")
@click.option(
    "--max-epochs", type=Positive, default=1000, show_default=True,
    help="Stop after so many passes over the data.",
)  # fmt: skip
@keep_option
@threads_option
@seed_option
@json_option
@click.pass_context
def train(
    ctx: click.Context,
    *,
    data: Path,
    model: Path | None,
    loss: str | None,
    svm_rank_loss: str | None,
    C: float,
    gap: float,
    solver: str,
    settings: tuple[str, ...],
    threshold: float,
    no_normalise: bool,
    max_seconds: float | None,
    max_epochs: float,
    keep: Keep,
    threads: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Train a ranker on DATA and write MODEL with its certificate.

    Without MODEL it is written beside the data, as DATA.model.
    """
    clock = Clock()
    target = model if model is not None else data.with_name(data.name + ".model")
    if loss is not None and svm_rank_loss is not None:
        raise click.UsageError("--loss and -l say the same thing: give one of them")
    chosen = SVM_RANK_LOSSES[svm_rank_loss] if svm_rank_loss else loss or "map"
    from bridle.problems.base import ORACLE

    with reported():
        method = make_solver(solver, settings, frozenset({ORACLE}))
    check_writable(target, inputs=(data,))
    with clock.timing("read"):
        X, y, qid, zero_based = _read(data, threads)
    from bridle.fitting.ranker import ranking_task

    make = partial(
        ranking_task, X, y, qid, C, loss=chosen, threshold=threshold, normalise=not no_normalise,
        zero_based=zero_based, n_threads=threads,
    )  # fmt: skip
    with _about(data):
        task, solution = solve_task(
            make, chosen, method, clock=clock, gap=gap, max_epochs=max_epochs,
            max_seconds=max_seconds, seed=seed, keep=keep,
        )  # fmt: skip
    fitted = task.fitted(solution, seed=seed, gap=gap)
    write_model(target, fitted, clock)
    report = {
        "loss": chosen, **solution_report(solution, C), **size_report(X, threads),
        "queries": fitted.n_queries, "skipped": task.problem.n_skipped,
        **_overall(y, fitted.decision_function(X, n_threads=threads), qid, threshold),
        "model": str(target), "seconds": clock.report(), "peak_rss_mb": peak_rss_mb(),
    }  # fmt: skip
    finish(ctx, report, solution, as_json=as_json, show=partial(_print_training, data))


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
    X, _, _, _ = _read(data, threads, fitted.zero_based)
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
    "--ndcg", "convention", type=click.Choice(["letor", "trec", "burges"]), default="letor",
    show_default=True,
    help="letor: 2^g - 1 over 1, 1, log2(rank). trec: g over log2(1 + rank). burges: 2^g - 1 over "
    "log2(1 + rank).",
)  # fmt: skip
@threshold_option
@click.option("--summary", is_flag=True, help="Only the means over all queries.")
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
) -> None:
    """Evaluate MODEL on DATA: MAP, MRR, ROC, NDCG@k and P@k, of each query and overall.

    As LETOR's evaluation script: ties keep the order of the file, queries without relevant
    documents count 0, and P@k divides by k. MAP, MRR (recip_rank) and P@k are also TREC's, but for
    the order of ties. ROC is the mean over queries that have both relevant and other documents.
    """
    if scores:
        X, y, qid, _ = _read(data, threads)
        values = _read_scores(model, len(y))
    else:
        fitted = read_model(model, ("ranking",))
        X, y, qid, _ = _read(data, threads, fitted.zero_based)
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
    rows = [] if summary else [
        [str(q), *(_number(column[i]) for column in columns.values())] for i, q in enumerate(ids)
    ]  # fmt: skip
    rows.append(["all", *(_number(value) for value in overall.values())])
    print_table(f"{data}: {len(ids):,} queries, NDCG of {convention}", ["qid", *columns], rows)


def _read(
    path: Source, threads: int | None, zero_based: Any = "auto"
) -> tuple[Any, Any, Any, bool]:
    from bridle.data.svmlight import read_queries_and_base

    with reported():
        return read_queries_and_base(path, n_threads=threads, zero_based=zero_based)


@contextlib.contextmanager
def _about(path: Path) -> Iterator[None]:
    """As `reported`, with the name of the file in front."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: {error}") from error


def _read_scores(path: Path, n_rows: int) -> Any:
    import numpy as np

    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    if lines and not lines[-1].strip():
        lines.pop()
    if len(lines) != n_rows:
        raise InputError(f"{path}: {len(lines)} scores for {n_rows} documents")
    values = np.empty(n_rows)
    for i, line in enumerate(lines):
        try:
            values[i] = float(line)
        except ValueError:
            raise InputError(f"{path}:{i + 1}: expected a number, found {line[:40]!r}") from None
    return values


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


def _overall(y: Any, scores: Any, qid: Any, threshold: float) -> dict[str, float]:
    from bridle.objective import metrics

    return {
        "map_train": float(metrics.average_precision(y, scores, qid, threshold=threshold).mean())
    }


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"


def _print_training(data: Path, report: dict[str, Any]) -> None:
    seconds = report["seconds"]
    click.echo(
        f"{data}: {report['queries']:,} queries, {report['rows']:,} documents, "
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
    click.echo(f"training MAP {report['map_train']:.4f}; model written to {report['model']}")
