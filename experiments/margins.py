"""Margins and support vectors in two dimensions: the hard margin, and the soft one for three C."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Gap, LinearProblem, solve
from bridle.study.plots import colour, ink

from experiments.common import Data

HEIGHT = 6.6
SEEN = (
    "Four pairs of clouds with a separating line and dashed margins: the hard margin touches "
    "one point on either side; the smaller C, the wider the margins and the more ringed "
    "support vectors, from 2 to 31."
)
CS = (100.0, 1.0, 0.05)
N = 60


def points(separation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds of points."""
    rng = np.random.default_rng(seed)
    y = np.repeat([-1.0, 1.0], N // 2)
    return rng.normal(scale=0.8, size=(N, 2)) + separation * y[:, None] * [0.8, 0.6], y


def measure(data: Data) -> dict[str, Any]:
    panels = []
    for C, separation in ((np.inf, 2.6), *((C, 1.1) for C in CS)):
        X, y = points(separation, 4)
        found = solve(LinearProblem(X, y, C, bias="free"), "newton", stop=Gap(1e-7))
        panels.append({
            "C": None if np.isinf(C) else C, "X": X.tolist(), "y": y.tolist(),
            "w": found.w.tolist(), "b": found.b, "alpha": found.alpha.tolist(),
            "width": 2 / float(np.linalg.norm(found.w)),
            "support_vectors": int((found.alpha > 1e-6 * found.alpha.max()).sum()),
            "margin": (y * (X @ found.w + found.b)).tolist(),
        })  # fmt: skip
    return {"panels": panels}


def claim(n: dict[str, Any]) -> str:
    hard, *soft = n["panels"]
    counts = ", ".join(f"{p['support_vectors']} at C = {p['C']:g}" for p in soft)
    return (
        f"The hard margin rests on {hard['support_vectors']} points, none inside it. On "
        f"overlapping classes the margin grows as C falls, from {soft[0]['width']:.2f} to "
        f"{soft[-1]['width']:.2f}, and so does the number of support vectors: {counts}."
    )


def holds(n: dict[str, Any]) -> bool:
    hard, *soft = n["panels"]
    widths = [p["width"] for p in soft]
    counts = [p["support_vectors"] for p in soft]
    return (
        min(hard["margin"]) > 1 - 1e-3 and hard["support_vectors"] <= 4
        and widths == sorted(widths) and counts == sorted(counts)
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots(2, 2).ravel()
    for ax, p in zip(axes, n["panels"], strict=True):
        X, y, w, alpha = (np.array(p[k]) for k in ("X", "y", "w", "alpha"))
        for style, (sign, marker) in enumerate(((-1, "o"), (1, "s"))):
            ax.scatter(*X[y == sign].T, color=colour(style), marker=marker, s=22, zorder=3)
        held = alpha > 1e-6 * alpha.max()
        ax.scatter(*X[held].T, s=80, facecolors="none", edgecolors=ink(), linewidths=1.2, zorder=4)
        low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
        across = np.array([low[0], high[0]])
        for value, dash in ((0, "-"), (1, "--"), (-1, "--")):
            up = (value - p["b"] - w[0] * across) / w[1]
            ax.plot(across, up, color=ink(), linewidth=1.2, linestyle=dash)
        name = "hard, C = ∞" if p["C"] is None else f"soft, C = {p['C']:g}"
        ax.set_title(f"{name}\n{p['support_vectors']} support vectors", fontsize=12)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        ax.set_aspect("equal")


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
