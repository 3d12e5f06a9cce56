"""Small structural problems, in plain NumPy and by brute force, to compare everything with."""

from __future__ import annotations

from itertools import product

import numpy as np
import scipy.sparse as sp
from bridle.data.trees import read_trees
from bridle.structured import StructuredProblem
from bridle.structured.chain import ChainProblem
from bridle.structured.grammar import Grammar
from bridle.structured.multilabel import MultilabelOracle
from bridle.structured.sparse import sparse_vector
from bridle.structured.tree import TreeOracle


class ChainOracle:
    """Chains of labels, by enumeration."""

    def __init__(self, n_inputs, n_labels, cost=None, transitions=True):
        self.n_inputs, self.K, self.transitions = n_inputs, n_labels, transitions
        self.cost = 1.0 - np.eye(n_labels) if cost is None else cost
        self.n_features = n_inputs * n_labels + (n_labels**2 if transitions else 0)

    def features(self, x, y):
        emissions = np.zeros((self.n_inputs, self.K))
        transitions = np.zeros((self.K, self.K))
        for t, label in enumerate(y):
            emissions[:, label] += x[t]
            if t > 0:
                transitions[y[t - 1], label] += 1
        parts = (
            [emissions.ravel(), transitions.ravel()] if self.transitions else [emissions.ravel()]
        )
        return np.concatenate(parts)

    def loss(self, y, other):
        return float(sum(self.cost[a, b] for a, b in zip(y, other, strict=True)))

    def outputs(self, x):
        return product(range(self.K), repeat=len(x))

    def argmax(self, x, w, truth=None):
        return max(self.outputs(x), key=lambda y: self._value(x, w, y, truth))

    def slack_argmax(self, x, w, truth):
        margin = self.features(x, truth) @ w
        return max(
            self.outputs(x),
            key=lambda y: self.loss(truth, y) * (1 - margin + self.features(x, y) @ w),
        )

    def _value(self, x, w, y, truth):
        loss = 0.0 if truth is None else self.loss(truth, y)
        return loss + self.features(x, y) @ w


def chain_data(seed=0, n=12, n_inputs=4, n_labels=3, longest=4):
    """Noisy chains with random teacher weights; lists of matrices and of label tuples."""
    rng = np.random.default_rng(seed)
    oracle = ChainOracle(n_inputs, n_labels)
    w = rng.normal(size=oracle.n_features)
    X = [
        rng.normal(size=(rng.integers(1, longest + 1), n_inputs))
        * (rng.random((1, n_inputs)) < 0.8)
        for _ in range(n)
    ]
    Y = [oracle.argmax(x + 0.8 * rng.normal(size=x.shape), w) for x in X]
    return oracle, X, Y


def both_problems(seed=0, C=1.0, *, storage="dense", dtype=np.float64, **sizes):
    """The same problem by enumeration and in the compiled core."""
    oracle, X, Y = chain_data(seed, **sizes)
    offsets = np.cumsum([0, *map(len, X)])
    rows = np.concatenate(X).astype(dtype)
    X = [x.astype(dtype).astype(np.float64) for x in X]
    if storage == "csr":
        rows = sp.csr_array(rows)
    labels = np.concatenate([np.array(y) for y in Y])
    return (
        StructuredProblem(oracle, X, Y, C),
        ChainProblem(rows, offsets, labels, oracle.K, C, n_threads=2),
    )


def tree_data(seed=0, n=8):
    """Short sentences of an ambiguous toy grammar with chains, and random trees of theirs."""
    rng = np.random.default_rng(seed)
    oracle = TreeOracle(Grammar.read(read_trees(TOY_TREES), rare=0, frequent=2))
    X = [[str(word) for word in rng.choice(["a", "b", "c"], rng.integers(1, 4))] for _ in range(n)]
    Y = []
    for x in X:
        trees = list(oracle.outputs(x))
        Y.append(trees[rng.integers(len(trees))])
    return oracle, X, Y


TOY_TREES = """
(S (X (A a) (B b)) (Y (Z (C c))))
(S (A a) (Y (Z (B b) (B c))))
(S (X (A c) (A b) (B a)))
(S (Y (A b)))
(X (S (B a)) (A b))
(S (X (B c)))
(S (Y (Z (A a))))
"""


def multilabel_data(seed=0, n=12, n_inputs=3, n_labels=4, *, pairs=True):
    rng = np.random.default_rng(seed)
    oracle = MultilabelOracle(n_inputs, n_labels, pairs=pairs)
    X = list(rng.normal(size=(n, n_inputs)))
    w = rng.normal(size=oracle.n_features)
    Y = [oracle.argmax(x + 0.5 * rng.normal(size=n_inputs), w) for x in X]
    return oracle, X, Y


# name -> (oracle, X, Y) with small outputs, for every oracle: a new one is one line here.
ORACLES = {
    "chain": lambda: chain_data(1, n=8, longest=3),
    "tree": tree_data,
    "multilabel": multilabel_data,
    "independent labels": lambda: multilabel_data(pairs=False),
}


def dense_features(problem, i, y):
    """Psi(x_i, y) as a plain array."""
    vector = np.zeros(problem.n_features)
    features = problem.oracle.features(problem.X[i], y)
    sparse_vector(features, problem.n_features).add_to(vector, 1.0)
    return vector


def exact_optimum(problem):
    """min P by the quadratic programme over all constraints of all rows."""
    from bridle.solvers.shared.cutting_plane_model import CuttingPlaneModel

    model = CuttingPlaneModel(problem.n_features, caps=problem.cost)
    for i, x in enumerate(problem.X):
        for y in problem.oracle.outputs(x):
            constraint = problem.constraint_of(i, y)
            if len(constraint.psi.values) == 0 and constraint.loss == 0:
                continue
            g = np.zeros(problem.n_features)
            constraint.psi.add_to(g, 1.0)
            model.add(g, constraint.loss, i)
    point = model.solve(1e-12)
    return point.value, point.w


def plain_primal(problem, w):
    """P(w) with loops, by enumeration."""
    total = 0.5 * float(w @ w)
    oracle = problem.oracle
    for i, (x, y) in enumerate(zip(problem.X, problem.Y, strict=True)):
        truth = dense_features(problem, i, y)
        worst = 0.0
        for other in oracle.outputs(x):
            margin = (truth - dense_features(problem, i, other)) @ w
            loss = oracle.loss(y, other)
            value = loss * (1 - margin) if problem.rescaling == "slack" else loss - margin
            worst = max(worst, value)
        total += problem.cost[i] * worst
    return total
