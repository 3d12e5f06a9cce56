"""`bridle train --folds` and `--search-c`: accuracies on rows that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from bridle.cli.shared import print_json

LOG2_FIRST, LOG2_LAST = -10, 10
PATIENCE = 4  # doublings of C without a better accuracy

# From C to the accuracy, or None if Ctrl-C left folds unsolved, and the worst gap of any fold.
Validate = Callable[[float], tuple[float | None, float]]


def cross_validate(
    validate: Validate, C: float | None, n_folds: int, gap: float, *, quiet: bool, as_json: bool
) -> bool:
    """Print the accuracy; whether every fold reached the gap."""
    C = 1.0 if C is None else C
    accuracy, worst_gap = validate(C)
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


def _differ(tried: list[dict[str, float]]) -> bool:
    """Whether C has made a difference yet: below some C every model says the larger class."""
    return len({one["accuracy"] for one in tried}) > 1


def search(
    validate: Validate, C: float | None, n_folds: int, gap: float, *, quiet: bool, as_json: bool
) -> bool:
    """Double C until the accuracy has not risen for a while; print the best."""
    C = 2.0**LOG2_FIRST if C is None else C
    tried: list[dict[str, float]] = []
    best: dict[str, Any] = {"C": None, "accuracy": None}
    reached = True
    while C <= 2.0**LOG2_LAST or not tried:
        accuracy, worst_gap = validate(C)
        reached = reached and accuracy is not None and worst_gap <= gap
        if accuracy is None:
            click.echo(f"stopped by Ctrl-C at C = {C:g}", err=True)
            break
        tried.append({"C": C, "accuracy": accuracy})
        if not quiet and not as_json:
            click.echo(f"C = {C:g}  CV accuracy = {100 * accuracy:g}%")
        if not tried[:-1] or accuracy > best["accuracy"]:
            best = tried[-1]
        elif C / best["C"] >= 2**PATIENCE and (best["accuracy"] == 1 or _differ(tried)):
            break
        C *= 2
    if as_json:
        print_json({"folds": n_folds, **best, "tried": tried})
    elif not quiet and tried:
        click.echo(f"Best C = {best['C']:g}  CV accuracy = {100 * best['accuracy']:g}%")
    return reached
