"""Cutting planes found one at a time, on a problem with two weights: a picture.

Each round asks the oracle at the minimum of the model (a dot), gets one plane, and the model, the
largest of all planes plus 1/2 |w|^2, rises towards the objective.

    python cutting_planes.py [FILE]
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from bridle import StructuredProblem
from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel


class Classes:
    """Three classes of points on a line: features (x, 1) of class 1, the negative of class 2."""

    n_features = 2
    signs = (0.0, 1.0, -1.0)

    def features(self, x, y):
        return self.signs[y] * np.array([x, 1.0])

    def loss(self, y, other):
        return float(y != other)

    def argmax(self, x, w, truth=None):
        def value(y):
            return self.features(x, y) @ w + (0.0 if truth is None else self.loss(truth, y))

        return max(range(3), key=value)


def draw(path: str) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 60)
    x = np.array([0.0, 1.5, -1.5])[y] + 0.7 * rng.normal(size=60)
    problem = StructuredProblem(Classes(), x.tolist(), y.tolist(), C=0.1)
    a, b = np.meshgrid(np.linspace(-0.5, 2.0, 81), np.linspace(-1.0, 1.0, 65))
    grid = np.stack([a.ravel(), b.ravel()], axis=1)
    objective = np.array([problem.primal(w) for w in grid]).reshape(a.shape)
    model, w, path_of_w, gaps = CuttingPlaneModel(2), np.zeros(2), [], []
    figure, axes = plt.subplots(
        2, 3, figsize=(11, 6.6), sharex=True, sharey=True, layout="constrained"
    )
    levels = objective.min() + np.geomspace(0.02, 6, 12)
    cuts = []
    for round_, axis in enumerate(axes.flat, 1):
        cut = problem.cut(w)
        path_of_w.append(w)
        best = min(0.5 * v @ v + problem.losses(v) for v in path_of_w)
        model.add(cut.features, cut.loss)
        cuts.append(cut)
        point = model.solve()
        gaps.append((best - point.value) / best)
        planes = np.max([c.loss - grid @ c.features for c in cuts] + [np.zeros(len(grid))], axis=0)
        surface = (0.5 * (grid**2).sum(axis=1) + planes).reshape(a.shape)
        axis.contour(a, b, objective, levels, colors="0.75", linewidths=0.8)
        axis.contour(a, b, surface, levels, cmap="viridis", linewidths=1.2)
        for c in cuts:  # where the plane is 0: its row of constraints is just met
            axis.contour(a, b, (c.loss - grid @ c.features).reshape(a.shape), [0.0],
                         colors="tab:red", linewidths=0.8, linestyles="dashed")  # fmt: skip
        axis.plot(*np.array(path_of_w).T, "o-", color="black", markersize=4, linewidth=0.8)
        axis.plot(*point.w, "*", color="tab:orange", markersize=12)
        plural = "s" if round_ > 1 else ""
        axis.set_title(f"{round_} cut{plural}: certified gap {100 * gaps[-1]:.1f} %", fontsize=10)
        w = point.w
    figure.suptitle(
        "Contours: objective (grey), model (colour). Dots: oracle calls. Star: model's minimum.",
        fontsize=10,
    )
    figure.supxlabel("$w_1$")
    figure.supylabel("$w_2$")
    figure.savefig(path, dpi=110)
    print(f"gaps {np.round(gaps, 4)}; wrote {path}")


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else "cutting_planes.png")
