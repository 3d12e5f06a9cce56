"""Ranking: oracles against brute force, certificates against NumPy, optima against QPs."""

from __future__ import annotations

import numpy as np
import pytest
from bridle import _core

from ranking_reference import all_outputs, interleave_by_table

LOSSES = ("map", "ndcg", "precision@1", "precision@3", "roc", "pairs", "pairs-sum", "f1", "prbep")


def core_oracle(name, offsets, grades):
    kind, _, k = name.partition("@")
    return _core.ranking_oracle(
        np.asarray(offsets, np.int64), np.asarray(grades, float), kind, int(k or 1)
    )


def ask(name, grades, scores):
    oracle = core_oracle(name, [0, len(grades)], grades)
    coefficients = np.empty(len(grades))
    loss = oracle.answer(0, np.asarray(scores, float), coefficients)
    return coefficients, loss


def small_queries(seed, count, n_max):
    rng = np.random.default_rng(seed)
    while count:
        n = int(rng.integers(2, n_max + 1))
        grades = rng.integers(0, 3, n).astype(float)
        if not ((grades > 0).any() and (grades == 0).any()):
            continue
        scores = rng.normal(size=n) * rng.choice([0.1, 1.0, 5.0])
        if rng.random() < 0.5:
            scores = np.round(scores * 2) / 2  # ties, and pairs exactly one apart
        count -= 1
        yield grades, scores


@pytest.mark.parametrize("name", LOSSES)
def test_oracle_equals_brute_force(name):
    n_max = 5 if name in ("pairs", "pairs-sum") else 6
    for grades, scores in small_queries(1, 60, n_max):
        psi, losses = all_outputs(name, grades)
        best = (losses - psi @ scores).max()
        found, loss = ask(name, grades, scores)
        assert loss - found @ scores == pytest.approx(best, abs=1e-12)
        assert best >= -1e-12
        # The answer is one of the outputs, with the loss that belongs to it.
        distance = np.abs(psi - found).max(axis=1) + np.abs(losses - loss)
        assert distance.min() < 1e-9


@pytest.mark.parametrize("name", ["map", "ndcg"])
@pytest.mark.parametrize("ties", [False, True])
def test_interleaving_equals_dynamic_programme(name, ties):
    rng = np.random.default_rng(2)
    for _ in range(100):
        P, N = rng.integers(1, 40, 2)
        scores = rng.normal(size=P + N) * rng.choice([0.01, 0.3, 3.0])
        if ties:
            scores = np.round(scores * 3) / 3
        grades = np.repeat([1.0, 0.0], [P, N])
        i, r = np.arange(1, P + 1)[:, None], np.arange(N + 1)[None]
        if name == "map":
            gain = i / (i + r) / P
        else:
            gain = 1 / np.log2(1 + i + r) / (1 / np.log2(1 + i)).sum()
        a, b = -np.sort(-scores[:P]), -np.sort(-scores[P:])
        found, loss = ask(name, grades, scores)
        assert loss - found @ scores == pytest.approx(interleave_by_table(a, b, gain), abs=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_threads_do_not_change_answers(name):
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 30, 50))])
    grades, scores = rng.integers(0, 3, offsets[-1]) * 1.0, rng.normal(size=offsets[-1])
    oracle = core_oracle(name, offsets, grades)
    results = []
    for threads in (1, 4):
        out = [np.empty(offsets[-1]), np.empty(50), np.empty(50)]
        oracle.answers(scores, *out, threads)
        results.append(out)
    for one, four in zip(*results, strict=True):
        np.testing.assert_array_equal(one, four)
    for q in range(50):
        part = slice(offsets[q], offsets[q + 1])
        np.testing.assert_array_equal(
            results[0][0][part],
            ask(name, grades[part], scores[part])[0],
        )


def test_core_refuses_what_it_cannot_read():
    with pytest.raises(ValueError, match="offsets"):
        core_oracle("map", [0, 3, 2], np.zeros(2))
    with pytest.raises(ValueError, match="grades"):
        core_oracle("map", [0, 3], np.zeros(2))
    with pytest.raises(ValueError, match="NaN"):
        core_oracle("map", [0, 2], [0, np.nan])
    with pytest.raises(ValueError, match="unknown ranking loss"):
        core_oracle("error", [0, 2], [0, 1])
    oracle = core_oracle("map", [0, 2], [0, 1])
    with pytest.raises(ValueError, match="NaN"):
        oracle.answer(0, np.array([0, np.nan]), np.empty(2))
    with pytest.raises(IndexError):
        oracle.answer(1, np.zeros(2), np.empty(2))
    with pytest.raises(ValueError, match="coefficients"):
        oracle.answer(0, np.zeros(2), np.empty(3))
