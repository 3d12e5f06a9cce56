"""A picture of the ranking that the oracle of average precision finds most offensive.

Left, the documents of one query by their scores; right, in the ranking that has the largest loss
plus score. Other documents climb above relevant ones, and most where that costs little in score.
Run: python map_oracle.py [picture.png]
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
from bridle import RankingProblem
from bridle.objective.metrics import average_precision

mpl.use("Agg")
import matplotlib.pyplot as plt


def interleaving(scores: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """The oracle's ranking, best first, from its coefficients: how many others stand above each."""
    problem = RankingProblem(scores[:, None], relevant, loss="map")
    coefficients, _, _ = problem.answers(np.ones(1))
    n_relevant = int(relevant.sum())
    pairs = n_relevant * (len(relevant) - n_relevant)
    others_above = np.rint(coefficients * pairs / 2)[relevant]
    place = np.empty(len(relevant))
    order = np.argsort(-scores[relevant], kind="stable")
    place[np.flatnonzero(relevant)[order]] = np.arange(n_relevant) + others_above[order]
    taken = set(place[relevant].astype(int).tolist())
    free = [rank for rank in range(len(relevant)) if rank not in taken]
    place[np.flatnonzero(~relevant)[np.argsort(-scores[~relevant], kind="stable")]] = free
    return np.argsort(place)


def main(path: str) -> None:
    rng = np.random.default_rng(3)
    relevant = np.arange(24) % 3 == 0
    scores = 0.9 * relevant + rng.normal(size=24) * 0.6
    lists = {
        "by score": np.argsort(-scores, kind="stable"),
        "most violated": interleaving(scores, relevant),
    }
    figure, axes = plt.subplots(figsize=(6, 7))
    ranks = [np.argsort(order) for order in lists.values()]
    for document in range(24):
        colour = "tab:blue" if relevant[document] else "tab:orange"
        ends = [ranks[0][document] + 1, ranks[1][document] + 1]
        axes.plot([0, 1], ends, color=colour, lw=1.2, marker="o", ms=7, alpha=0.9)
        axes.text(-0.05, ends[0], f"{scores[document]:.2f}", ha="right", va="center", fontsize=8)
    titles = [
        f"{name}\naverage precision {average_precision(relevant, -rank.astype(float))[0]:.2f}"
        for name, rank in zip(lists, ranks, strict=True)
    ]
    axes.set_xticks([0, 1], titles)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.25, 1.15), ylim=(25, 0), ylabel="rank")
    for label, colour in (("relevant", "tab:blue"), ("other", "tab:orange")):
        axes.plot([], [], "o-", color=colour, label=label)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.1), ncol=2, frameon=False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"{path}: {titles[0]}; {titles[1]}".replace("\n", ", "))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "map_oracle.png")
