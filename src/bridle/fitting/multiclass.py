"""One option for the way to several classes: see `bridle.machines`."""

from __future__ import annotations

from typing import Any

from bridle.fitting.classes import Machines
from bridle.models.deciding import MultiClass, check_multi_class


def solve_multiclass(
    X: Any,
    codes: Any,
    n_classes: int,
    C: float = 1.0,
    *,
    multi_class: MultiClass = "ovr",
    **options: Any,
) -> Machines:
    """Solve in the given way; options as in `solve_one_vs_rest`, whichever it is."""
    check_multi_class(multi_class)
    if multi_class == "ovr":
        from bridle.fitting.one_vs_rest import solve_one_vs_rest

        return solve_one_vs_rest(X, codes, n_classes, C, **options)
    if multi_class == "ovo":
        from bridle.fitting.one_vs_one import solve_one_vs_one

        return solve_one_vs_one(X, codes, n_classes, C, **options)
    from bridle.fitting.crammer_singer import solve_crammer_singer

    return solve_crammer_singer(X, codes, n_classes, C, **options)
