"""`bridle train`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from bridle.cli.settings import make_solver
from bridle.cli.shared import (
    NOT_REACHED,
    REACHED,
    Clock,
    InputError,
    InputFile,
    NotNegative,
    OutputFile,
    Positive,
    check_writable,
    fit_width,
    json_option,
    peak_rss_mb,
    percent,
    plain,
    print_json,
    progress,
    read,
    reported,
    seed_option,
    size_report,
    table_options,
    threads_option,
    to_json,
)  # fmt: skip

if TYPE_CHECKING:
    from bridle.kernel_model import KernelModel
    from bridle.model_io import LinearModel
    from bridle.ovr import OneVsRest

TRACE_SUFFIXES = (".csv", ".json", ".jsonl", ".ndjson")


@click.command()
@click.argument("data", type=InputFile)
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
@click.option("--loss", default="hinge", show_default=True, help="hinge or squared_hinge.")
@click.option(
    "--bias", type=click.Choice(["none", "regularised", "free"]), default="regularised",
    show_default=True, help="Intercept: none, a constant feature, or not penalised.",
)  # fmt: skip
@click.option(
    "--kernel", type=click.Choice(["linear", "rbf", "poly", "sigmoid"]),
    help="Train a kernel machine; without it, a linear one.",
)  # fmt: skip
@click.option(
    "--gamma", default="scale", show_default=True, help="Of the kernel: a number, scale or auto."
)
@click.option("--degree", type=int, default=3, show_default=True, help="Of the poly kernel.")
@click.option("--coef0", type=float, default=0.0, show_default=True, help="Of poly and sigmoid.")
@click.option("--max-seconds", type=Positive, help="Stop solving after so many seconds.")
@click.option(
    "--max-epochs", type=Positive, default=1000, show_default=True,
    help="Stop after so many passes over the data.",
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
@click.option(
    "--trace", type=OutputFile, help="Write the course of the run: .csv, or JSON lines (.jsonl)."
)
@click.pass_context
def train(
    ctx: click.Context,
    /,
    *,
    data: Path,
    model: Path | None,
    C: float | None,
    lam: float | None,
    gap: float,
    solver: str,
    settings: tuple[str, ...],
    loss: str,
    bias: Any,
    kernel: str | None,
    gamma: str,
    degree: int,
    coef0: float,
    max_seconds: float | None,
    max_epochs: float,
    threads: int | None,
    seed: int,
    test: Path | None,
    proof: bool,
    as_json: bool,
    trace: Path | None,
    **tables: Any,
) -> None:
    """Train on DATA (svmlight, .npz, .csv, .parquet) and write MODEL with its certificate.

    Without MODEL it is written beside the data, as DATA.model. More than two classes are trained
    one against the rest. Time limits and Ctrl-C end with the best model so far.
    """
    clock = Clock()
    target = model if model is not None else data.with_name(data.name + ".model")
    if C is not None and lam is not None:
        raise click.UsageError("-c and --lam say the same thing: give one of them")
    if kernel is not None and (loss != "hinge" or proof):
        raise click.UsageError("kernel machines have the hinge loss, and keep no --proof")
    with reported():
        method = make_solver(solver, settings, kind="linear" if kernel is None else "kernel")
    _check_outputs(target, trace, tuple(path for path in (data, test) if path is not None))
    with clock.timing("read"):
        rows = read(data, threads, **tables)
        X, y = rows.X, rows.y
    import numpy as np
    from bridle.kernels import kernel_from
    from bridle.ovr import solve_one_vs_rest
    from bridle.problem import lam_to_C
    from bridle.stopping import Epochs, Gap, Seconds

    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"{data}: every row has the label {plain(classes[0])}: nothing to learn")
    if C is None:
        C = 1.0 if lam is None else lam_to_C(lam, X.shape[0])
    stop = Gap(gap) | Epochs(max_epochs)
    if max_seconds is not None:
        stop = stop | Seconds(max_seconds)
    names = [plain(c) for c in classes] if len(classes) > 2 else []
    with reported(), progress(gap) as show, clock.timing("solve"):
        settled = None if kernel is None else kernel_from(kernel, X, _gamma(gamma), degree, coef0)
        result = solve_one_vs_rest(
            X, codes, len(classes), C, loss=loss, bias=bias, solver=method, stop=stop, seed=seed,
            n_threads=threads, kernel=settled,
            watch=lambda k, record: show(f"class {names[k]}" if names else method.name, record),
        )  # fmt: skip
    _split_certify_time(clock, result)
    from bridle.model_io import LinearModel, Objective, fingerprint, save_model

    common: dict[str, Any] = {
        "classes": classes,
        "objective": Objective(loss=loss, C=C, bias=bias),
        "certificates": tuple(solution.certificate for solution in result.solutions),
        "fingerprint": fingerprint(X, y),
        "n_rows": X.shape[0],
        "zero_based": rows.zero_based,
        "info": {
            "solver": method.name, "settings": list(settings), "seed": seed, "gap": gap,
            "status": result.status.value, **_columns_info(rows),
        },
    }  # fmt: skip
    fitted: LinearModel | KernelModel
    if settled is None:
        alpha = np.vstack([solution.alpha for solution in result.solutions]) if proof else None
        fitted = LinearModel(coef=result.coef, intercept=result.intercept, alpha=alpha, **common)
    else:
        from bridle import kernel_model

        with reported():
            fitted = kernel_model.KernelModel.from_solutions(X, result, settled, **common)
    with clock.timing("write"), reported():
        save_model(target, fitted)
        if trace is not None:
            _write_trace(trace, result, names)
    report = {
        **_objective_report(fitted),
        "status": result.status.value,
        "message": _message(result, names),
        "epochs": result.epochs,
        **size_report(X, threads),
        "error_train": float(np.mean(fitted.predict(X, n_threads=threads) != y)),
        "error_test": _error_on(test, fitted, threads) if test is not None else None,
        "model": str(target),
        "classes": classes.tolist(),
        "per_class": _per_class(classes, result) if names else None,
        "seconds": clock.report(),
        "peak_rss_mb": peak_rss_mb(),
    }
    if as_json:
        print_json(report)
    else:
        _print(report, str(data), test is not None)
    ctx.exit(REACHED if result.status.value == "converged" else NOT_REACHED)


def _columns_info(rows: Any) -> dict[str, Any]:
    """What a model must know of the table it was trained on; nothing for other files."""
    if rows.columns is None:
        return {}
    names = {} if rows.columns.hash_bits else {"feature_names": list(rows.columns.numbers)}
    return {"columns": rows.columns.as_dict(), **names}


def _gamma(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text  # a word, which kernel_from knows or not


def _check_outputs(target: Path, trace: Path | None, inputs: tuple[Path, ...]) -> None:
    check_writable(target, inputs=inputs)
    if trace is None:
        return
    if trace.suffix not in TRACE_SUFFIXES:
        raise click.BadParameter(
            f"{trace}: the name must end in one of {', '.join(TRACE_SUFFIXES)}",
            param_hint="--trace",
        )
    check_writable(trace, inputs=inputs)


def _split_certify_time(clock: Clock, result: OneVsRest) -> None:
    """Divide the solving time as the threads spent it."""
    last = [solution.trace[-1] for solution in result.solutions]
    certifying = sum(record.seconds_certify for record in last)
    solving = sum(record.seconds_solver for record in last)
    wall = clock.parts["solve"]
    clock.parts["certify"] = wall * certifying / max(certifying + solving, 1e-12)
    clock.parts["solve"] = wall - clock.parts["certify"]


def _objective_report(model: LinearModel | KernelModel) -> dict[str, Any]:
    from bridle.problem import C_to_lam

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


def _per_class(classes: Any, result: OneVsRest) -> list[dict[str, Any]]:
    return [
        {
            "class": label, "primal": s.certificate.primal, "dual": s.certificate.dual,
            "relative_gap": s.certificate.relative_gap, "status": s.status.value,
            "epochs": s.epochs,
        }
        for label, s in zip(classes.tolist(), result.solutions, strict=True)
    ]  # fmt: skip


def _error_on(test: Path, model: LinearModel | KernelModel, threads: int | None) -> float:
    import numpy as np

    rows = read(test, threads, model)
    guesses = fit_width(model, rows.X, test).predict(rows.X, n_threads=threads)
    return float(np.mean(guesses != rows.y))


def _message(result: OneVsRest, names: list[str]) -> str:
    if not names:
        return result.solutions[0].message
    worst, name = result.worst, names[result.worst_index]
    reached = sum(solution.converged for solution in result.solutions)
    return (
        f"{reached} of {len(names)} classes converged; the worst is class {name}: {worst.message}"
    )


def _write_trace(path: Path, result: OneVsRest, names: list[str]) -> None:
    rows = [
        ({"class": names[k]} if names else {}) | row
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
