"""Certificates of structural problems against fractions: P from above, D from below, always.

A dual value must not exceed any primal value: it is compared with the exact P of every w that any
solver found for the problem, the best of which are optimal to rounding.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import Epochs, Gap, MulticlassSVC, solve
from bridle.objective.point import Iterate
from bridle.structured import StructuredProblem
from bridle.structured.bounds import Errors, MeanIterate, dual_between
from bridle.structured.chain import ChainProblem
from bridle.structured.ranking import RankingProblem

from structured_cases import ORACLES, ChainOracle
from test_structured import NAMES

STOP = Gap(1e-10) | Epochs(60)


def fractions(values):
    return [Fraction(v) for v in np.asarray(values, np.float64).ravel().tolist()]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def half_square(w):
    return dot(w, w) / 2


def costs(problem, weights):
    return [Fraction(problem.C) * c for c in fractions(weights)]


def exact_chain_primal(problem, weights, w):
    """P of a chain problem from its matrix, label sequences by enumeration."""
    chains, w = problem.chains, fractions(w)
    X = chains.X.toarray() if sp.issparse(chains.X) else chains.X
    K, total = chains.n_labels, half_square(w)
    for i, C in enumerate(costs(problem, weights)):
        here = slice(*chains.offsets[i : i + 2])
        rows = [fractions(x) + ([Fraction(chains.bias)] if chains.bias else []) for x in X[here]]
        truth = chains.labels[here].tolist()
        scores = [[dot(x, w[k : len(x) * K : K]) for k in range(K)] for x in rows]
        edges = w[len(rows[0]) * K :] if chains.transitions else [Fraction(0)] * K**2

        def score(y, scores=scores, edges=edges):
            own = sum(s[k] for s, k in zip(scores, y, strict=True))
            return own + sum(edges[a * K + b] for a, b in pairwise(y))

        def loss(y, truth=truth):
            return sum(Fraction(chains.cost[a, b]) for a, b in zip(truth, y, strict=True))

        outputs = product(range(K), repeat=len(rows))
        total += C * (max(loss(y) + score(y) for y in outputs) - score(truth))
    return total


def exact_oracle_primal(problem, weights, w):
    """P of any oracle that has outputs, taking its features and losses as they are."""
    w, total = fractions(w), half_square(fractions(w))
    for i, C in enumerate(costs(problem, weights)):
        x, y = problem.X[i], problem.Y[i]

        def score(other, x=x):
            features = problem.oracle.features(x, other)
            if hasattr(features, "indices"):
                chosen = [w[k] for k in features.indices.tolist()]
                return dot(fractions(features.values), chosen)
            return dot(fractions(features), w)

        values = []
        for other in problem.oracle.outputs(x):
            loss, difference = Fraction(problem.oracle.loss(y, other)), score(y) - score(other)
            slack = problem.rescaling == "slack"
            values.append(loss * (1 - difference) if slack else loss - difference)
        total += C * max(values)
    return total


def exact_hinge(loss, grades, s):
    """max_y Delta - w.psi of one query."""
    n = len(s)
    if loss in ("pairs", "pairs-sum", "roc"):
        grades = grades if loss != "roc" else grades > 0
        pairs = [(i, j) for i in range(n) for j in range(n) if grades[i] > grades[j]]
        total = sum(max(Fraction(0), 1 - s[i] + s[j]) for i, j in pairs)
        return total if loss == "pairs-sum" else total / max(1, len(pairs))
    relevant = [bool(g > 0) for g in grades]
    P = sum(relevant)
    if P in (0, n):
        return Fraction(0)
    if loss in ("f1", "prbep"):
        values = []
        for called in product((False, True), repeat=n):
            if loss == "prbep" and sum(called) != P:
                continue
            hits = sum(a and b for a, b in zip(called, relevant, strict=True))
            score = Fraction(2 * hits, P + sum(called)) if loss == "f1" else Fraction(hits, P)
            change = sum((relevant[i] - called[i]) * s[i] for i in range(n)) / P
            values.append(1 - score - change)
        return max(values)
    values = []
    for order in permutations(range(n)):
        flags = [relevant[d] for d in order]
        if loss == "map":
            hits = [sum(flags[: r + 1]) for r in range(n)]
            precision = sum(Fraction(hits[r], r + 1) for r in range(n) if flags[r]) / P
        else:
            k = min(int(loss.partition("@")[2]), n)
            precision = Fraction(sum(flags[:k]), min(k, P))
        change = sum(
            (s[i] - s[j] for b, j in enumerate(order) for i in order[b + 1 :]
             if relevant[i] and not relevant[j]), Fraction(0),
        )  # fmt: skip
        values.append(1 - precision - 2 * change / (P * (n - P)))
    return max(values)


def exact_ranking_primal(problem, weights, w):
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    w, total = fractions(w), half_square(fractions(w))
    rows = [
        fractions(x) + ([Fraction(problem.bias_scale)] if problem.bias_scale else []) for x in X
    ]
    for q, C in enumerate(costs(problem, weights)):
        here = slice(*problem.offsets[q : q + 2])
        s = [dot(x, w) for x in rows[here]]
        total += C * exact_hinge(str(problem.loss), problem.grades[here], s)
    return total


def exponents(rng):
    """A scale of the features, a C, and weights of rows."""
    scale = 10.0 ** rng.choice([0, 0, rng.uniform(-20, 20)])
    C = 10.0 ** rng.uniform(-8, 8)
    if rng.random() < 0.5:  # C |x|^2 of ordinary size
        C = 10.0 ** np.clip(rng.uniform(-4, 4) - 2 * np.log10(scale), -30, 30)
    return scale, C


def random_chain(rng):
    scale, C = exponents(rng)
    lengths = rng.integers(1, 4, rng.integers(2, 6))
    if rng.random() < 0.3:
        lengths[:] = 1
    K, d = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    X = scale * (rng.normal(size=(lengths.sum(), d)) + rng.choice([0.0, 1e6]))
    X = X.astype(rng.choice(["float32", "float64"]))
    cost = np.abs(rng.normal(size=(K, K))) * (1 - np.eye(K)) if rng.random() < 0.3 else None
    weights = (
        10.0 ** rng.uniform(-3, 3, len(lengths)) if rng.random() < 0.5 else np.ones(len(lengths))
    )
    problem = ChainProblem(
        sp.csr_array(X) if rng.random() < 0.5 else X, np.cumsum([0, *lengths]),
        rng.integers(0, K, lengths.sum()), K, C, cost=cost, sample_weight=weights, n_threads=1,
        transitions=bool(rng.random() < 0.6), bias=float(rng.choice([0.0, scale])),
    )  # fmt: skip
    return problem, weights, exact_chain_primal


def random_oracle(rng):
    _, C = exponents(rng)
    kind = rng.choice([*ORACLES, "slack"])
    if kind == "slack":
        X = [10.0 ** rng.uniform(-3, 3) * rng.normal(size=(2, 2)) for _ in range(4)]
        oracle = ChainOracle(2, 2, cost=np.array([[0.0, 0.3], [0.7, 0.0]]))
        Y = [tuple(rng.integers(0, 2, 2).tolist()) for _ in X]
        return (
            StructuredProblem(oracle, X, Y, C, rescaling="slack"),
            np.ones(4),
            exact_oracle_primal,
        )
    oracle, X, Y = ORACLES[kind]()
    return StructuredProblem(oracle, X[:4], Y[:4], C), np.ones(4), exact_oracle_primal


RANKING = ["map", "precision@2", "roc", "pairs", "pairs-sum", "f1", "prbep"]


def random_ranking(rng):
    scale, C = exponents(rng)
    loss = str(rng.choice(RANKING))
    n_queries = int(rng.integers(1, 4))
    sizes = rng.integers(2, 5, n_queries)
    X = scale * (rng.normal(size=(sizes.sum(), 2)) + rng.choice([0.0, 1e5]))
    grades = rng.integers(0, 3, sizes.sum())
    grades[:2] = 0, 2
    weights = 10.0 ** rng.uniform(-3, 3, n_queries)
    problem = RankingProblem(
        X.astype(rng.choice(["float32", "float64"])), grades,
        np.repeat(np.arange(n_queries), sizes), C, loss=loss, sample_weight=weights,
        bias=float(rng.choice([0.0, 1.0])), n_threads=1,
    )  # fmt: skip
    return problem, weights, exact_ranking_primal


MAKERS = {"chain": random_chain, "oracle": random_oracle, "ranking": random_ranking}


def check_one(make, rng, names=NAMES):
    problem, weights, exact = make(rng)
    least, claimed = None, []
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = solve(problem, name, stop=STOP, seed=int(rng.integers(100)))
        certificate = solution.certificate
        P = exact(problem, weights, solution.w)
        if np.isfinite(certificate.primal):
            assert Fraction(certificate.primal) >= P, (name, certificate, float(P))
        least = P if least is None else min(least, P)
        claimed.append((certificate.dual, name))
    w = np.zeros(problem.n_features)
    least = min(least, exact(problem, weights, w))
    dual, name = max(claimed)
    assert Fraction(dual) <= least, (name, dual, float(least))
    return float(least), dual


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("part", range(4))
def test_bounds_hold_at_every_scale(kind, part):
    rng = np.random.default_rng([part, sorted(MAKERS).index(kind)])
    for _ in range(6):
        check_one(MAKERS[kind], rng)


def test_bounds_are_close_on_ordinary_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3))).argmax(axis=1)
    problem = ChainProblem(X, np.arange(61), y, 3, 0.5, transitions=False)
    for name in ("n-slack", "one-slack", "bcfw"):
        certificate = solve(problem, name, stop=Gap(1e-9) | Epochs(3000)).certificate
        assert 0 < certificate.relative_gap <= 1e-6
        P = exact_chain_primal(problem, np.ones(60), solve(problem, name, stop=Epochs(3)).w)
        assert problem.primal(solve(problem, name, stop=Epochs(3)).w) == pytest.approx(
            float(P), rel=1e-12
        )


def test_a_mean_that_nothing_is_known_of_is_not_believed():
    problem, _, _ = random_chain(np.random.default_rng(3))
    w = np.zeros(problem.n_features)
    claim = np.append(w, 1e30)  # no combination of anything
    judged = problem.judge(Iterate(1, 1.0, w, 0.0, claim))
    assert judged.dual <= judged.primal
    assert judged.source == "repair"
    # One with errors is, and a judged one is known again.
    cut = problem.cut(w)
    judged = problem.judge(MeanIterate(1, 1.0, w, 0.0, cut.alpha, errors=cut.errors))
    assert problem.errors_of(judged.alpha) is not None
    assert problem.errors_of(claim) is None
    assert problem.dual(judged.alpha) == judged.dual


def test_starts_of_another_problem_prove_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), rng.integers(0, 3, 20)
    large, small = (ChainProblem(X, np.arange(21), y, 3, C, transitions=False) for C in (10.0, 0.1))
    start = solve(large, "n-slack", stop=Gap(1e-6) | Epochs(500))
    optimum = solve(small, "n-slack", stop=Gap(1e-9) | Epochs(500)).certificate.primal
    for name in ("one-slack", "subgradient", "n-slack"):
        found = solve(small, name, stop=Epochs(5), start=start).certificate
        assert found.dual <= optimum * (1 + 1e-12)


def test_the_dual_value_from_its_errors():
    alpha, errors = np.array([3.0, 4.0, 20.0]), Errors(0.5, 0.25)
    assert dual_between(alpha, Errors(0.0, 0.0)).low == pytest.approx(7.5, rel=1e-14)
    exact = Fraction(20) - Fraction(1, 4) - Fraction(11, 2) ** 2 / 2
    assert Fraction(dual_between(alpha, errors).low) <= exact
    assert dual_between(alpha, errors).low == pytest.approx(float(exact), rel=1e-2)


def test_hard_margins_are_kept_exactly():
    X = np.array([[3.0, 0.1], [0.3, 3.0], [-3.0, -3.1], [2.9, 0.2]])
    labels = np.array([0, 1, 2, 0])
    problem = ChainProblem(X, np.arange(5), labels, 3, np.inf, transitions=False)
    solution = solve(problem, "n-slack", stop=Gap(1e-6) | Epochs(200))
    assert solution.converged, solution.message
    W = [fractions(column) for column in solution.w.reshape(2, 3).T]
    for x, y in zip(X, labels, strict=True):
        scores = [dot(fractions(x), column) for column in W]
        assert all(scores[y] - scores[k] >= 1 for k in range(3) if k != y)
    assert Fraction(solution.certificate.primal) >= half_square(fractions(solution.w))
    assert problem.primal(solution.w) == solution.certificate.primal
    assert problem.primal(0.99 * solution.w) == np.inf
    with pytest.warns(Warning, match="proves that no w separates"):
        MulticlassSVC(C=np.inf).fit(np.ones((2, 1)), [0, 1])
