"""The picture of docs/losses.md: every loss, and what the dual gains by it.

python -m experiments.conjugates [docs]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.pictures import save_pair
from bridle import EpsilonInsensitive, Loss, Pinball, SquaredEpsilonInsensitive
from bridle.objective.losses import LOSSES
from bridle.study.plots import curve

# Where the default would be too small to be seen, another number.
SHOWN = {
    loss.name: loss
    for loss in (EpsilonInsensitive(0.3), SquaredEpsilonInsensitive(0.3), Pinball(0.75))
}
SHORT = {"epsilon": "ε", "gamma": r"$\gamma$", "delta": "δ", "quantile": "q"}
HEIGHT, REACH = 9.4, 2.5


def gain(loss: Loss, a: np.ndarray) -> np.ndarray:
    """-loss*(-a) at each a = alpha / C."""
    one = np.ones(1)
    return np.array([loss.dual_value(np.array([v]), one) for v in a])


def box(loss: Loss, reach: float) -> np.ndarray:
    """Values of alpha / C from end to end, as far as the picture reaches."""
    one = np.ones(1)
    low, high = float(np.min(loss.lower(one))), float(np.max(loss.upper(one)))
    return np.linspace(max(low, -reach), min(high, reach), 101)


def name(loss: Loss) -> str:
    """As the picture calls it: with the numbers that were chosen for it."""
    chosen = [f"{SHORT.get(key, key)} {value:g}" for key, value in loss.parameters.items()]
    called = loss.name.replace("_", " ").replace("epsilon ", "ε-")
    return ", ".join([called, *chosen])


def draw(figure: Any) -> None:
    for part, residual in zip(figure.subfigures(2, 1), (False, True), strict=True):
        losses = [
            SHOWN.get(n, loss)
            for n, loss in LOSSES.items()
            if loss.residual == residual and not loss.one_class
        ]
        left, right = part.subplots(1, 2)
        p = np.linspace(-REACH, REACH, 101)
        for style, loss in enumerate(losses):
            a = box(loss, 2.0)
            curve(left, p, loss.value(p), style, name(loss))
            curve(right, a, gain(loss, a), style)
        what = "residual  p = w·x + b - t" if residual else "margin  p = y (w·x + b)"
        left.set(xlabel=what, title=r"loss $\ell(p)$", ylim=(-0.1, 3.1))
        right.set(xlabel=r"$\alpha / C$", title=r"$-\ell^*(-\alpha / C)$")
        part.legend(loc="outside upper left", ncols=2, handlelength=2)


def main(docs: str = "docs") -> None:
    save_pair(draw, HEIGHT, Path(docs) / "pictures" / "conjugates.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
