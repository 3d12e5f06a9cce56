"""`bridle train --folds` and `--search-c`: accuracies on rows that were held out."""

from __future__ import annotations

from typing import Any

import click
from bridle.cli.shared import print_json

LOG2_FIRST, LOG2_LAST = -10, 10
PATIENCE = 4  # doublings of C without a better accuracy


def cross_validate(
    X: Any,
    codes: Any,
    n_classes: int,
    C: float | None,
    n_folds: int,
    row_weight: Any,
    counts: Any,
    options: dict[str, Any],
    gap: float,
    *,
    quiet: bool,
    as_json: bool,
) -> bool:
    """Print the accuracy; whether every fold reached the gap."""
    C = 1.0 if C is None else C
    accuracy, worst_gap = _validate(X, codes, n_classes, C, n_folds, row_weight, counts, options)
    reached = accuracy is not None and worst_gap <= gap
    if as_json:
        stopped = "interrupted" if accuracy is None else "budget"
        print_json({
            "folds": n_folds, "C": C, "accuracy": accuracy,
            "error_test": None if accuracy is None else 1 - accuracy,
            "worst_gap": worst_gap, "status": "converged" if reached else stopped,
        })  # fmt: skip
    elif accuracy is None:
        click.echo("stopped by Ctrl-C before all folds were solved: no accuracy", err=True)
    elif not quiet:
        click.echo(f"Cross Validation Accuracy = {100 * accuracy:g}%")
    return reached


def search(
    X: Any,
    codes: Any,
    n_classes: int,
    C: float | None,
    n_folds: int,
    row_weight: Any,
    counts: Any,
    options: dict[str, Any],
    gap: float,
    *,
    quiet: bool,
    as_json: bool,
) -> bool:
    """Double C until the accuracy has not risen for a while; print the best."""
    C = 2.0**LOG2_FIRST if C is None else C
    tried: list[dict[str, float]] = []
    best: dict[str, Any] = {"C": None, "accuracy": None}
    reached = True
    while C <= 2.0**LOG2_LAST or not tried:
        accuracy, worst_gap = _validate(
            X, codes, n_classes, C, n_folds, row_weight, counts, options
        )
        reached = reached and accuracy is not None and worst_gap <= gap
        if accuracy is None:
            click.echo(f"stopped by Ctrl-C at C = {C:g}", err=True)
            break
        tried.append({"C": C, "accuracy": accuracy})
        if not quiet and not as_json:
            click.echo(f"C = {C:g}  CV accuracy = {100 * accuracy:g}%")
        if not tried[:-1] or accuracy > best["accuracy"]:
            best = tried[-1]
        elif C / best["C"] >= 2**PATIENCE:
            break
        C *= 2
    if as_json:
        print_json({"folds": n_folds, **best, "tried": tried})
    elif not quiet and tried:
        click.echo(f"Best C = {best['C']:g}  CV accuracy = {100 * best['accuracy']:g}%")
    return reached


def _validate(
    X: Any, codes: Any, n_classes: int, C: float, n_folds: int, row_weight: Any, counts: Any,
    options: dict[str, Any],
) -> tuple[float | None, float]:  # fmt: skip
    """Accuracy and the worst gap of any fold; no accuracy if Ctrl-C left folds unsolved.

    row_weight: in the objective; counts: in the accuracy, None if each row counts 1.
    """
    import numpy as np
    from bridle.fitting.folds import deal, held_out_scores

    row = np.ones(len(codes)) if row_weight is None else row_weight
    counted = codes if counts is None else np.where(counts > 0, codes, -1)
    folds = deal(counted, n_folds, options["seed"])
    held = held_out_scores(
        X, codes, n_classes, C, folds, lambda mask: np.where(mask, row, 0.0), **options
    )
    return None if held.interrupted else held.accuracy(codes, counts), held.worst_gap
