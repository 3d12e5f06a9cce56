"""`bridle train --folds` and `--search-c`: how right answers are on rows that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from bridle.cli.shared import print_json

LOG2_FIRST, LOG2_LAST = -10, 10
PATIENCE = 4  # doublings of C without a better accuracy

# From C to what was measured, or None if Ctrl-C left folds unsolved, and the worst gap of any fold.
Measures = dict[str, float]
Validate = Callable[[float], tuple[Measures | None, float]]


def cross_validate(
    validate: Validate, C: float | None, n_folds: int, gap: float, *, quiet: bool, as_json: bool
) -> bool:
    """Print what was measured; whether every fold reached the gap."""
    C = 1.0 if C is None else C
    measures, worst_gap = validate(C)
    reached = measures is not None and worst_gap <= gap
    if as_json:
        stopped = "interrupted" if measures is None else "budget"
        print_json({
            "folds": n_folds, "C": C, "accuracy": None, "error_test": None,
            **({} if measures is None else _reported(measures)),
            "worst_gap": worst_gap, "status": "converged" if reached else stopped,
        })  # fmt: skip
    elif measures is None:
        click.echo("stopped by Ctrl-C before all folds were solved: no accuracy", err=True)
    elif not quiet:
        for name, value in _shown(measures):
            click.echo(f"Cross Validation {name} = {value}")
    return reached


def _reported(measures: Measures) -> Measures:
    told = {f"{name}_test": value for name, value in measures.items()}
    return told | ({"accuracy": 1 - measures["error"]} if "error" in measures else {})


def _shown(measures: Measures) -> list[tuple[str, str]]:
    """Names and values, in LIBLINEAR's words where it has some."""
    if "error" in measures:
        return [("Accuracy", f"{100 * (1 - measures['error']):g}%")]
    return [(name.replace("_", " ").capitalize(), f"{v:g}") for name, v in measures.items()]


def _differ(tried: list[dict[str, float]]) -> bool:
    """Whether C has made a difference yet: below some C every model says the larger class."""
    return len({one["score"] for one in tried}) > 1


def search(
    validate: Validate, C: float | None, n_folds: int, gap: float, *, quiet: bool, as_json: bool
) -> bool:
    """Double C until the answers have not got better for a while; print the best."""
    from bridle.objective.answers import score

    C = 2.0**LOG2_FIRST if C is None else C
    tried: list[dict[str, float]] = []
    best: dict[str, Any] = {"C": None, "accuracy": None}
    reached = True
    while C <= 2.0**LOG2_LAST or not tried:
        measures, worst_gap = validate(C)
        reached = reached and measures is not None and worst_gap <= gap
        if measures is None:
            click.echo(f"stopped by Ctrl-C at C = {C:g}", err=True)
            break
        tried.append({"C": C, **_reported(measures), "score": score(measures)})
        if not quiet and not as_json:
            click.echo(f"C = {C:g}  {_told(measures)}")
        if not tried[:-1] or tried[-1]["score"] > best["score"]:
            best, told = tried[-1], _told(measures)
        elif C / best["C"] >= 2**PATIENCE and (best["score"] == 0 or _differ(tried)):
            break
        C *= 2
    if as_json:
        plain = [{k: v for k, v in one.items() if k != "score"} for one in (best, *tried)]
        print_json({"folds": n_folds, **plain[0], "tried": plain[1:]})
    elif not quiet and tried:
        click.echo(f"Best C = {best['C']:g}  {told}")
    return reached


def _told(measures: Measures) -> str:
    return ", ".join(f"CV {name.lower()} = {value}" for name, value in _shown(measures))
