"""Pegasos's theorems, measured (Shalev-Shwartz, Singer & Srebro 2007).

f(w; A) = lam/2 |w|^2 + 1/|A| sum_{i in A} max(0, 1 - w.z_i),  c = (sqrt(lam) + R)^2,  R = max |x|.
"""

from __future__ import annotations

import numpy as np
import pytest
from bridle import Gap, LinearProblem, Pegasos, _core, lam_to_C, solve

import matrix

LAM = 0.05
M = 60


@pytest.fixture(scope="module")
def setting():
    X, y = matrix.small_data(n_rows=M)
    problem = LinearProblem(X, y, lam_to_C(LAM, M))
    Z = X * y[:, None]
    optimum = solve(problem, "dcd", stop=Gap(1e-9)).w
    c = (np.sqrt(LAM) + np.max(np.linalg.norm(X, axis=1))) ** 2
    return problem, Z, optimum, c


def f(w, Z):
    return 0.5 * LAM * w @ w + np.mean(np.maximum(0, 1 - Z @ w))


def steps(problem, T, seed, **settings):
    """w_1, ..., w_{T+1} of a run."""
    iterates = Pegasos(project=True, bucket=1, **settings).iterates(
        problem, rng=_core.Rng(seed), pace=lambda step, rows=1: 1
    )
    return [np.zeros(problem.n_features)] + [next(iterates).w.copy() for _ in range(T)]


def batches_without_replacement(T, k, seed):
    """The batches that the kernel draws: a partial shuffle of whatever order the last one left."""
    rng, order = _core.Rng(seed), np.arange(M)
    for _ in range(T):
        for j in range(k):
            other = j + rng.below(M - j)
            order[j], order[other] = order[other], order[j]
        yield order[:k].copy()


def test_the_optimum_lies_in_the_ball(setting):
    _, _, optimum, _ = setting
    assert np.linalg.norm(optimum) <= 1 / np.sqrt(LAM)


@pytest.mark.parametrize("T", [3, 30, 300])
@pytest.mark.parametrize("k", [1, 4, 20, M])
@pytest.mark.parametrize("seed", range(3))
def test_regret_in_every_run_and_for_every_batch_size(setting, seed, k, T):
    problem, Z, optimum, c = setting
    ws = steps(problem, T, seed, batch=k, sampling="without-replacement")
    batches = list(batches_without_replacement(T, k, seed))
    # The twin's next step from w_t is the kernel's: these are the batches it drew.
    for t in range(2, T, max(1, T // 10)):
        A, w = batches[t - 1], ws[t - 1]
        twin = (1 - 1 / t) * w + (Z[A] @ w < 1) @ Z[A] / (LAM * t * k)
        twin *= min(1, 1 / (np.sqrt(LAM) * max(np.linalg.norm(twin), 1e-300)))
        assert ws[t] == pytest.approx(twin, rel=1e-6, abs=1e-9)
    ours = np.mean([f(w, Z[A]) for w, A in zip(ws, batches, strict=False)])
    best = np.mean([f(optimum, Z[A]) for A in batches])
    assert ours <= best + c * np.log(T) / (LAM * T)


@pytest.mark.parametrize("T", [3, 30, 300])
def test_average_iterate_of_the_batch_method(setting, T):
    problem, Z, optimum, c = setting
    average = np.mean(steps(problem, T, 0, batch=M)[:T], axis=0)
    assert f(average, Z) <= f(optimum, Z) + c * np.log(T) / (LAM * T)
    # The kernel's lazy average is the same.
    iterates = Pegasos(batch=M, output="average").iterates(
        problem, rng=_core.Rng(0), pace=lambda step, rows=1: 1
    )
    for _ in range(T):
        iterate = next(iterates)
    assert iterate.w == pytest.approx(average, rel=1e-9, abs=1e-12)


def test_random_iterate_in_expectation_and_with_probability(setting):
    problem, Z, optimum, c = setting
    T, runs = 100, 200
    excess = []
    for seed in range(runs):
        iterates = Pegasos(sampling="iid", output="random", bucket=1).iterates(
            problem, rng=_core.Rng(seed), pace=lambda step, rows=1: T
        )
        w = np.zeros(problem.n_features)
        while (iterate := next(iterates)).step < T:
            pass
        w = iterate.w
        excess.append(f(w, Z) - f(optimum, Z))
    bound = c * np.log(T) / (LAM * T)
    assert np.mean(excess) <= bound
    for delta in (0.5, 0.1, 0.02):
        # Markov: more than bound/delta happens with probability delta at most.
        assert np.mean(np.array(excess) > bound / delta) <= delta
