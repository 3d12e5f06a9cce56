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
    options: dict[str, Any],
    gap: float,
    *,
    quiet: bool,
    as_json: bool,
) -> bool:
    """Print the accuracy; whether every fold reached the gap."""
    C = 1.0 if C is None else C
    accuracy, worst_gap, done = _validate(X, codes, n_classes, C, n_folds, row_weight, options)
    reached = done and worst_gap <= gap
    if as_json:
        print_json({
            "folds": n_folds, "C": C, "accuracy": accuracy, "error_test": 1 - accuracy,
            "worst_gap": worst_gap, "status": "converged" if reached else "budget",
        })  # fmt: skip
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
    options: dict[str, Any],
    gap: float,
    *,
    quiet: bool,
    as_json: bool,
) -> bool:
    """Double C until the accuracy has not risen for a while; print the best."""
    C = 2.0**LOG2_FIRST if C is None else C
    tried: list[dict[str, float]] = []
    best, reached = {"C": C, "accuracy": -1.0}, True
    while C <= 2.0**LOG2_LAST or not tried:
        accuracy, worst_gap, done = _validate(X, codes, n_classes, C, n_folds, row_weight, options)
        reached = reached and done and worst_gap <= gap
        if not done:
            break
        tried.append({"C": C, "accuracy": accuracy})
        if not quiet and not as_json:
            click.echo(f"C = {C:g}  CV accuracy = {100 * accuracy:g}%")
        if accuracy > best["accuracy"]:
            best = tried[-1]
        elif C / best["C"] >= 2**PATIENCE:
            break
        C *= 2
    if as_json:
        print_json({"folds": n_folds, **best, "tried": tried})
    elif not quiet:
        click.echo(f"Best C = {best['C']:g}  CV accuracy = {100 * best['accuracy']:g}%")
    return reached


def _validate(
    X: Any, codes: Any, n_classes: int, C: float, n_folds: int, row_weight: Any,
    options: dict[str, Any],
) -> tuple[float, float, bool]:  # fmt: skip
    """Accuracy, the worst gap of any fold, and whether all folds were solved."""
    import numpy as np
    from bridle.folds import deal, held_out_scores

    row = np.ones(len(codes)) if row_weight is None else row_weight
    folds = deal(codes, n_folds, options["seed"])
    held = held_out_scores(
        X, codes, n_classes, C, folds, lambda mask: np.where(mask, row, 0.0), **options
    )
    return held.accuracy(codes), held.worst_gap, not held.interrupted
