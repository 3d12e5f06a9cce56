"""`bridle check`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.options import C_options, check_cost, gap_option
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    InputFile,
    Positive,
    bias_option,
    json_option,
    keep_what_is_found,
    loss_option,
    peak_rss_mb,
    print_json,
    print_table,
    read,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
)  # fmt: skip

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem

SOUND = 1e-3  # errors of gradients below it are those of differences


@click.command(epilog="Example: bridle check news.svm --lam 1e-4")
@click.argument("data", type=InputFile)
@C_options
@gap_option(1e-3)
@loss_option
@bias_option
@click.option(
    "--sample", type=click.IntRange(10), default=1000, show_default=True,
    help="Rows that gradients and rates are tried on.",
)  # fmt: skip
@click.option(
    "--max-seconds", type=Positive, default=60, show_default=True, help="Stop solving after these."
)
@table_options
@threads_option
@seed_option
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    data: Path,
    C: float | None,
    lam: float | None,
    gap: float,
    loss: str,
    bias: Any,
    sample: int,
    max_seconds: float,
    threads: int | None,
    seed: int,
    as_json: bool,
    **tables: Any,
) -> None:
    """Look at DATA (two classes) and its objective before and after training.

    The gradient against finite differences, the first learning rates on a subsample, the number of
    epochs that is best for held-out rows, and how the rows lie about the margin of a certified
    solution. Writes nothing. Exit code 3 if the gap was not reached or the gradient is wrong.
    """
    clock = Clock()
    check_cost(C, lam)
    if C is not None and math.isinf(C):
        raise click.UsageError("check has no -c inf: the hard margin has no rates to try")
    with clock.timing("read"):
        rows = read(data, threads, **tables)
    keep_what_is_found()
    with reported(), clock.timing("solve"):
        problem = _problem(rows, data, C, lam, loss=loss, bias=bias, n_threads=threads)
        report = {
            **size_report(rows.X, threads), "C": problem.C, "lam": problem.lam, "loss": loss,
            "bias": bias, **_gradient(problem, sample, seed), **_rates(problem, sample, seed),
            **_epochs(problem, seed), **_margins(problem, gap, max_seconds, seed),
        }  # fmt: skip
    report |= {"seconds": clock.report(), "peak_rss_mb": peak_rss_mb()}
    if as_json:
        print_json(report)
    else:
        _print(report, data)
    good = report["status"] == "converged" and report["gradient_error"] <= SOUND
    ctx.exit(REACHED if good else NOT_REACHED)


def _problem(
    rows: Any, data: Path, C: float | None, lam: float | None, **how: Any
) -> LinearProblem:
    import numpy as np
    from bridle.objective.scaling import lam_to_C
    from bridle.problems.linear import LinearProblem

    classes, codes = np.unique(rows.y, return_inverse=True)
    if len(classes) != 2:
        raise InputError(f"{data}: has {len(classes)} classes; check needs two")
    if C is None:
        C = 1.0 if lam is None else lam_to_C(lam, rows.X.shape[0])
    return LinearProblem(rows.X, 2.0 * codes - 1.0, C, **how)


def _gradient(problem: LinearProblem, sample: int, seed: int) -> dict[str, Any]:
    """At random weights that give scores about 1."""
    import numpy as np
    from bridle.study.practice import check_gradient

    small = problem.sample(sample, seed % 2**32)
    w = np.random.default_rng(seed).standard_normal(problem.n_features)
    size = float(np.abs(small.scores(w, 0.0)).mean())
    return {"gradient_error": check_gradient(small, w / size if size > 0 else w, seed=seed)}


def _rates(problem: LinearProblem, sample: int, seed: int) -> dict[str, Any]:
    from bridle.solvers.shared.rate_ladder import BELOW, RATES, rate_costs

    costs = rate_costs(problem, RATES, sample=sample, seed=seed)
    best = min(range(len(RATES)), key=costs.__getitem__)
    ladder = [{"eta0": eta0, "cost": cost} for eta0, cost in zip(RATES, costs, strict=True)]
    return {"rates": ladder, "eta0": BELOW * RATES[best]}


def _epochs(problem: LinearProblem, seed: int) -> dict[str, Any]:
    """None if a subsample has one class only, or the solver does not take the loss or the bias."""
    from bridle.study.practice import best_epochs

    try:
        return {"epochs_a_priori": best_epochs(problem, seed=seed), "no_epochs": None}
    except (ValueError, TypeError) as error:
        return {"epochs_a_priori": None, "no_epochs": str(error)}


def _margins(
    problem: LinearProblem, gap: float, max_seconds: float, seed: int
) -> dict[str, Any]:  # fmt: skip
    from dataclasses import asdict

    from bridle.solving.loop import solve
    from bridle.solving.stopping import Epochs, Gap, Seconds
    from bridle.study.practice import margin_report

    stop = Gap(gap) | Seconds(max_seconds) | Epochs(1000)
    found = solve(problem, "auto", stop=stop, seed=seed, interrupt="return")
    margins = margin_report(problem, found.w, found.b, found.alpha)
    return {
        "solver": found.solver, "primal": found.certificate.primal, "dual": found.certificate.dual,
        "relative_gap": found.certificate.relative_gap, "status": found.status.value,
        "message": found.message, "epochs": found.epochs, "margins": asdict(margins),
    }  # fmt: skip


def _print(report: dict[str, Any], data: Path) -> None:
    print_table(
        f"{data}: {report['rows']:,} rows, {report['features']:,} features, C {report['C']:.6g}, "
        f"lam {report['lam']:.6g}, {report['loss']}, bias {report['bias']}",
        ["eta0", "cost after one epoch of the sample"],
        [
            [f"{step['eta0']:g}", f"{step['cost']:.6g}" if step["cost"] < float("inf") else "-"]
            for step in report["rates"]
        ],
    )
    click.echo(f"start with eta0 = {report['eta0']:g}: half of the best")
    wrong = "" if report["gradient_error"] <= SOUND else ": the loss and its slope disagree"
    click.echo(f"gradient: off by {report['gradient_error']:.1e} from finite differences{wrong}")
    if report["epochs_a_priori"] is None:
        click.echo(f"epochs a priori: unknown: {report['no_epochs']}")
    else:
        click.echo(f"epochs a priori: {report['epochs_a_priori']:g} were best for held-out rows")
    click.echo(f"{report['solver']} {report['message']}")
    margins = report["margins"]
    click.echo(
        f"margin {margins['margin']:.4g}; rows beyond it {margins['beyond']:,}, inside "
        f"{margins['inside']:,}, misclassified {margins['misclassified']:,}; support vectors "
        f"{margins['support_vectors']:,}"
    )
