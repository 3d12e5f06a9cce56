"""The compiled block-coordinate Frank-Wolfe on chains against a plain twin, visit by visit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from bridle.structured.chain import ChainProblem

from structured_cases import ChainOracle, chain_data


class Twin:
    """Masses on edges, moved run by run; every argmax by enumeration."""

    def __init__(self, oracle, X, Y, C):
        self.oracle, self.X, self.Y, self.C = oracle, X, Y, C
        self.w, self.dual = np.zeros(oracle.n_features), 0.0
        self.masses = [[{(y[t - 1] if t else -1, y[t]): 1.0} for t in range(len(y))] for y in Y]

    def part(self, i, path, begin, end, edge_end):
        """Features and loss of the positions begin to end, with the edges up to edge_end."""
        K, n = self.oracle.K, self.oracle.n_inputs
        emissions, transitions, loss = np.zeros((n, K)), np.zeros((K, K)), 0.0
        for t in range(begin, edge_end):
            if t < end:
                emissions[:, path[t]] += self.X[i][t]
                loss += self.oracle.cost[self.Y[i][t], path[t]]
            if t > 0:
                transitions[path[t - 1], path[t]] += 1
        return np.concatenate([emissions.ravel(), transitions.ravel()]), loss

    def value(self, i, path):
        n = len(path)
        features, loss = self.part(i, path, 0, n, n)
        return loss + features @ self.w

    def visit(self, i):
        """One round of steps. (A second one would begin with a tie, which rounding decides.)"""
        masses, length = self.masses[i], len(self.Y[i])
        paths = list(product(range(self.oracle.K), repeat=length))

        def has_mass(p):
            return all((p[t - 1] if t else -1, p[t]) in masses[t] for t in range(length))

        best = max(paths, key=lambda path: self.value(i, path))
        worst = min(filter(has_mass, paths), key=lambda path: self.value(i, path))
        top = self.value(i, best)
        gap = self.C[i] * (top - self.mean(i))
        begin = 0 if gap > 1e-6 * self.C[i] * max(1.0, abs(top)) else length
        while begin < length:
            end = begin
            while end < length and best[end] != worst[end]:
                end += 1
            if end > begin:
                self.move(i, best, worst, begin, end)
            begin = end + 1
        return max(gap, 0.0)

    def mean(self, i):
        K, n = self.oracle.K, self.oracle.n_inputs
        emissions, transitions = self.w[: n * K].reshape(n, K), self.w[n * K :].reshape(K, K)
        total = 0.0
        for t, edges in enumerate(self.masses[i]):
            for (before, label), mass in edges.items():
                here = self.X[i][t] @ emissions[:, label]
                here += self.oracle.cost[self.Y[i][t], label]
                total += mass * (here + (transitions[before, label] if t else 0.0))
        return total

    def move(self, i, best, worst, begin, end):
        edge_end = min(end + 1, len(best))
        edges = [
            [(path[t - 1] if t else -1, path[t]) for t in range(begin, edge_end)]
            for path in (worst, best)
        ]
        masses = self.masses[i][begin:edge_end]
        held = min(here[edge] for here, edge in zip(masses, edges[0], strict=True))
        (a, loss_a), (s, loss_s) = (
            self.part(i, path, begin, end, edge_end) for path in (worst, best)
        )
        gain = loss_s - loss_a + (s - a) @ self.w
        if gain <= 0:
            return
        curvature = self.C[i] * (a - s) @ (a - s)
        gamma = gain / curvature if curvature * held > gain else held
        for here, old, new in zip(masses, *edges, strict=True):
            here[old] -= gamma
            if here[old] < 1e-14:
                del here[old]
            here[new] = here.get(new, 0.0) + gamma
        self.w += self.C[i] * gamma * (a - s)
        self.dual += self.C[i] * gamma * (gain - 0.5 * gamma * curvature)


def test_the_kernel_equals_its_plain_twin():
    rng = np.random.default_rng(1)
    _, X, Y = chain_data(5, n=10)
    cost = rng.uniform(0.5, 2.0, (3, 3)) * (1 - np.eye(3))  # no ties
    C = rng.uniform(0.1, 1.0, len(X))
    twin = Twin(ChainOracle(4, 3, cost=cost), X, Y, C)
    problem = ChainProblem(
        np.concatenate(X), np.cumsum([0, *map(len, X)]), np.concatenate(Y), 3, cost=cost,
        sample_weight=C,
    )  # fmt: skip
    blocks = problem.blocks(average=True)
    w = np.empty(problem.n_features)
    for _ in range(5):
        order = rng.permutation(len(X))
        visited, gaps = [], np.empty(len(X))
        for i in order:
            visited.append(twin.w.copy())
            gaps[i] = twin.visit(i)
        blocks.visit(order, 0)
        np.testing.assert_allclose(blocks.gaps(), gaps, rtol=1e-9, atol=1e-9)
        assert blocks.dual == pytest.approx(twin.dual, rel=1e-10)
        blocks.average(w)
        np.testing.assert_allclose(w, np.mean(visited, axis=0), atol=1e-10)
        blocks.weights(w)
        np.testing.assert_allclose(w, twin.w, atol=1e-10)
    mine = {
        (t, edge): mass
        for t, edges in enumerate(edges for row in twin.masses for edges in row)
        for edge, mass in edges.items()
    }
    theirs = {(int(t), (int(a), int(b))): m for t, a, b, m in zip(*blocks.marginals(), strict=True)}
    assert theirs == pytest.approx(mine, abs=1e-10)
