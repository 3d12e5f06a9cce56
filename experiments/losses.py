"""The hinge, the perceptron's loss and the 0/1 loss over the margin."""

from __future__ import annotations

from typing import Any

import numpy as np
from bridle import Hinge, PerceptronLoss, SquaredHinge
from bridle.study.plots import curve, ink

from experiments.common import Data, key_above

HEIGHT = 4.8
SEEN = (
    "Losses over the margin: the hinge, a line that ends at 1; its square, a parabola; the "
    "perceptron loss, a line that ends at 0; and the step of the 0/1 loss."
)


def measure(data: Data) -> dict[str, Any]:
    p = np.linspace(-2, 3, 101)
    shown = {"hinge": Hinge(), "squared hinge": SquaredHinge(), "perceptron": PerceptronLoss()}
    return {
        "margin": p.tolist(), "0/1": (p <= 0).astype(float).tolist(),
        "losses": {name: loss.value(p).tolist() for name, loss in shown.items()},
    }  # fmt: skip


def claim(n: dict[str, Any]) -> str:
    return (
        "The hinge and its square bound the 0/1 loss from above everywhere and are 0 from margin 1 "
        "on; the perceptron's loss is the hinge moved to 0, asks for no margin and bounds nothing."
    )


def holds(n: dict[str, Any]) -> bool:
    p, step = np.array(n["margin"]), np.array(n["0/1"])
    hinge, squared, plain = (
        np.array(n["losses"][k]) for k in ("hinge", "squared hinge", "perceptron")
    )
    return bool(
        (hinge >= step).all() and (squared >= step).all() and not (plain >= step).all()
        and (hinge[p >= 1] == 0).all() and (squared[p >= 1] == 0).all()
        and np.allclose(plain, np.maximum(0, -p)) and (hinge[p < 1] > 0).all()
    )  # fmt: skip


def draw(n: dict[str, Any], figure: Any) -> None:
    ax = figure.subplots()
    for style, (name, values) in enumerate(n["losses"].items()):
        curve(ax, n["margin"], values, style, name)
    ax.step(n["margin"], n["0/1"], where="pre", color=ink(), linewidth=2.4, label="0/1")
    ax.set(xlabel="margin  y (w·x + b)", ylabel="loss", ylim=(-0.1, 4.2))
    key_above(figure, ax)


if __name__ == "__main__":
    import sys

    from experiments.common import run

    raise SystemExit(run([sys.modules[__name__]]))
