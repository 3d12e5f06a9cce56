"""Nystrom and random Fourier features: what they approximate, and what they say they lose."""

from __future__ import annotations

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.problems.approximation import Nystrom, RandomFeatures
from sklearn.metrics.pairwise import rbf_kernel


def make_data(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return X, np.where(np.hypot(X[:, 0], X[:, 1]) + 0.2 * rng.normal(size=n_rows) > 1.1, 1.0, -1.0)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nystrom_is_the_projection_onto_its_landmarks(storage, dtype):
    X, _ = make_data()
    X = X.astype(dtype)
    features = Nystrom(storage(X), 60, gamma=0.3)
    Z = features.transform(storage(X)).astype(np.float64)
    K = rbf_kernel(X.astype(np.float64), gamma=0.3)
    L = features.landmark_rows
    expected = K[:, L] @ np.linalg.pinv(K[np.ix_(L, L)], hermitian=True) @ K[L]
    np.testing.assert_allclose(Z @ Z.T, expected, atol=1e-8 if dtype == np.float64 else 1e-4)
    assert len(set(L.tolist())) == 60
    assert Z.flags.c_contiguous
    diagonal = 1 - (Z**2).sum(axis=1).mean()
    assert features.error.diagonal == pytest.approx(diagonal, abs=1e-3)


def test_nystrom_with_every_row_is_exact():
    X, y = make_data(80)
    features = Nystrom(X, 1000, gamma=0.5)
    assert features.n_components <= 80
    assert features.error.rms < 1e-6
    exact = bridle.KernelProblem(X, y, 1.0, gamma=0.5)
    found = bridle.solve(features.problem(X, y, 1.0), stop=bridle.Gap(1e-6))
    best = bridle.solve(exact, stop=bridle.Gap(1e-6)).certificate
    w = features.expansion(found.w)
    assert best.dual <= exact.primal(w) == pytest.approx(best.primal, rel=1e-4)


def test_pivoted_landmarks_beat_uniform_ones():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(950, 3)) * 0.05, rng.normal(size=(50, 3)) * 3])
    K = rbf_kernel(X, gamma=0.5)
    uniform = []
    for _ in range(5):
        L = rng.choice(1000, 40, replace=False)
        Kll = K[np.ix_(L, L)]
        uniform.append(np.trace(K - K[:, L] @ np.linalg.pinv(Kll, hermitian=True) @ K[L]))
    Z = Nystrom(X, 40, gamma=0.5).transform(X)
    assert np.trace(K - Z @ Z.T) < 0.5 * np.mean(uniform)


def test_random_features_approach_the_kernel():
    X, _ = make_data()
    errors = [RandomFeatures(X, r, gamma=0.3).error.rms for r in (100, 1600)]
    assert errors[1] < 0.4 * errors[0]
    Z = RandomFeatures(sp.csr_matrix(X), 1600, gamma=0.3).transform(sp.csr_matrix(X))
    assert np.abs(Z @ Z.T - rbf_kernel(X, gamma=0.3)).max() < 0.2


def test_the_error_is_said():
    X, _ = make_data()
    assert "20 features approximate the kernel to" in str(Nystrom(X, 20).error)
    with pytest.raises(ValueError, match="n_components"):
        Nystrom(X, 0)
    with pytest.raises(ValueError, match="precomputed"):
        Nystrom(X @ X.T, kernel="precomputed")
