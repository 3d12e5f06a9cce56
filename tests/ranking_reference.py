"""Ranking losses by definition: every output tried, in plain NumPy. For small queries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np


def average_precision(relevance: list[bool]) -> float:
    """Of a list of documents in the order of their ranks."""
    hits, total = 0, 0.0
    for rank, relevant in enumerate(relevance, 1):
        if relevant:
            hits += 1
            total += hits / rank
    return total / hits


def binary_ndcg(relevance: list[bool]) -> float:
    def dcg(flags: list[bool]) -> float:
        return sum(1 / np.log2(1 + rank) for rank, flag in enumerate(flags, 1) if flag)

    return dcg(relevance) / dcg(sorted(relevance, reverse=True))


def ranking_loss(name: str, relevance: list[bool]) -> float:
    if name == "map":
        return 1 - average_precision(relevance)
    if name == "ndcg":
        return 1 - binary_ndcg(relevance)
    k = min(int(name.partition("@")[2]), len(relevance))
    if name.startswith("ndcg@"):
        discounts = 1 / np.log2(2 + np.arange(k))
        return 1 - discounts @ relevance[:k] / discounts[: sum(relevance)].sum()
    return 1 - sum(relevance[:k]) / min(k, sum(relevance))


def outputs(name: str, grades: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """(coefficients of psi, Delta) of every output."""
    n = len(grades)
    if name in ("pairs", "pairs-sum", "roc"):
        labels = grades if name != "roc" else (grades > 0).astype(float)
        pairs = [(i, j) for i in range(n) for j in range(n) if labels[i] > labels[j]]
        scale = 1.0 if name == "pairs-sum" else 1 / len(pairs)
        for swapped in product((0, 1), repeat=len(pairs)):
            c = np.zeros(n)
            for (i, j), flag in zip(pairs, swapped, strict=True):
                c[i] += flag * scale
                c[j] -= flag * scale
            yield c, scale * sum(swapped)
        return
    relevant = grades > 0
    n_relevant = int(relevant.sum())
    if name in ("f1", "prbep"):
        for labels in product((False, True), repeat=n):
            called = np.array(labels)
            if name == "prbep" and called.sum() != n_relevant:
                continue
            hits = (called & relevant).sum()
            score = 2 * hits / (n_relevant + called.sum()) if name == "f1" else hits / n_relevant
            yield (relevant * 1.0 - called * 1.0) / n_relevant, 1 - score
        return
    n_others = n - n_relevant
    for order in permutations(range(n)):
        rank = np.empty(n, int)
        rank[list(order)] = np.arange(n)
        c = np.zeros(n)
        for i in np.flatnonzero(relevant):
            for j in np.flatnonzero(~relevant):
                if rank[j] < rank[i]:
                    c[i] += 2 / (n_relevant * n_others)
                    c[j] -= 2 / (n_relevant * n_others)
        yield c, ranking_loss(name, [bool(relevant[d]) for d in order])


def all_outputs(name: str, grades: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All different outputs: a matrix of coefficients and a vector of losses."""
    rows = {
        (tuple(np.round(c, 12)), round(loss, 12)): (c, loss) for c, loss in outputs(name, grades)
    }
    return np.array([c for c, _ in rows.values()]), np.array([loss for _, loss in rows.values()])


def interleave_by_table(a: np.ndarray, b: np.ndarray, gain: np.ndarray) -> float:
    """max over r_1 <= ... <= r_P of sum_i gain[i, 0] - gain[i, r_i] + pair scores, in O(P N).

    a, b: falling scores of relevant and other documents; gain[i, r]: what relevant document i
    contributes to the metric with r others above it.
    """
    P, N = len(a), len(b)
    best = np.zeros(N + 1)
    for i in range(P):
        scores = np.concatenate([[0.0], np.cumsum(a[i] - b)]) * 2 / (P * N)
        value = gain[i, 0] - gain[i] - scores
        best = np.maximum.accumulate(best) + value
    return float(best.max())
