"""`bridle demo`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.settings import named_solvers
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    OutputFile,
    Positive,
    check_writable,
    json_option,
    peak_rss_mb,
    percent,
    print_json,
    print_table,
    progress,
    reported,
    seed_option,
    size_report,
    threads_option,
)  # fmt: skip

if TYPE_CHECKING:
    from bridle.objective.certificate import Trace

SOLVERS = "dcd,ocas,svmperf,pegasos,pegasos:batch=100,pegasos:output=tail-average"
LAM = 1e-4
TEST_SHARE = 5  # one row in so many is kept for testing


@click.command()
@click.option(
    "--rows", type=click.IntRange(min=100), default=100_000, show_default=True,
    help="Documents to generate; the last fifth is for testing.",
)  # fmt: skip
@click.option(
    "--solvers", default=SOLVERS, show_default=True, metavar="LIST",
    help="Separated by commas; settings follow a name after colons.",
)  # fmt: skip
@click.option(
    "--gap", type=Positive, default=1e-3, show_default=True,
    help="Stop each solver at this certified relative gap.",
)  # fmt: skip
@click.option(
    "--max-seconds", type=Positive, default=10, show_default=True,
    help="Stop each solver after so many seconds.",
)  # fmt: skip
@click.option(
    "--picture", type=OutputFile, default=Path("bridle-demo.png"), show_default=True,
    help="Where to save the convergence picture.",
)  # fmt: skip
@threads_option
@seed_option
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    rows: int,
    solvers: str,
    gap: float,
    max_seconds: float,
    picture: Path,
    threads: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Generate a text-like corpus of the shape of RCV1, train with several solvers, compare.

    All minimise lam/2 |w|^2 + mean hinge at lam = 1e-4, without bias. Exit code 3 if none of them
    reached the gap.
    """
    from bridle.data import make_corpus
    from bridle.objective.scaling import lam_to_C
    from bridle.problems.linear import LinearProblem

    with reported():
        methods = named_solvers(solvers)
        picture.parent.mkdir(parents=True, exist_ok=True)
    check_writable(picture)
    began = time.perf_counter()
    X, y = make_corpus(rows, seed=seed)
    cut = rows - rows // TEST_SHARE
    problem = LinearProblem(X[:cut], y[:cut], lam_to_C(LAM, cut), n_threads=threads)
    held_out = LinearProblem(X[cut:], y[cut:], n_threads=threads)
    generated = time.perf_counter() - began
    if not as_json:
        click.echo(
            f"{rows:,} documents, {X.shape[1]:,} features, {X.nnz:,} non-zeros, generated in "
            f"{generated:.1f} s; {cut:,} to train, {rows - cut:,} to test"
        )
    results = {}
    for name, method in methods.items():
        with reported():
            results[name] = _run(problem, method, gap, max_seconds, seed)
    reports = [_report(name, problem, held_out, result) for name, result in results.items()]
    drawn = _draw(picture, {name: result.trace for name, result in results.items()}, gap, cut)
    if as_json:
        print_json({
            **size_report(X, threads), "lam": LAM, "C": problem.C, "solvers": reports,
            "seconds": {"read": generated, "total": time.perf_counter() - began},
            "peak_rss_mb": peak_rss_mb(), "picture": str(picture) if drawn else None,
        })  # fmt: skip
    else:
        print_table(
            f"lam/2 |w|^2 + mean hinge, lam = {LAM:g}",
            ["solver", "seconds", "primal cost", "certified gap", "test error"],
            [[r["solver"], f"{r['seconds']['solve']:.2f}", f"{r['cost']:.5f}",
              f"{r['relative_gap']:.1e}", percent(r["error_test"])] for r in reports],
        )  # fmt: skip
        click.echo(f"picture saved to {picture}" if drawn else "no picture: " + HOW_TO_DRAW)
    ctx.exit(REACHED if any(r["status"] == "converged" for r in reports) else NOT_REACHED)


HOW_TO_DRAW = "it needs matplotlib: pip install 'bridle[plot]'"


def _run(problem: Any, method: Any, gap: float, max_seconds: float, seed: int) -> Any:
    from bridle.solving.loop import solve
    from bridle.solving.stopping import Gap, Seconds

    with progress(gap) as show:
        return solve(
            problem, method, stop=Gap(gap) | Seconds(max_seconds), seed=seed,
            callbacks=[lambda record: show(method.name, record)], interrupt="return",
        )  # fmt: skip


def _report(name: str, problem: Any, held_out: Any, result: Any) -> dict[str, Any]:
    import numpy as np

    wrong = np.mean(np.where(held_out.scores(result.w) > 0, 1, -1) != held_out.y)
    last = result.trace[-1]
    return {
        "solver": name,
        "cost": problem.lam * result.certificate.primal,
        "primal": result.certificate.primal,
        "dual": result.certificate.dual,
        "relative_gap": result.certificate.relative_gap,
        "status": result.status.value,
        "epochs": result.epochs,
        "seconds": {"solve": last.seconds_solver, "certify": last.seconds_certify},
        "error_test": float(wrong),
    }


def _draw(path: Path, traces: dict[str, Trace], gap: float, rows: int) -> bool:
    """Whether matplotlib is there to draw with."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        return False
    from bridle.study.plots import save_convergence

    with reported():
        save_convergence(path, traces, goal=gap, title=f"{rows:,} documents, lam = {LAM:g}")
    return True
