"""Sets of labels: the search against brute force, MultilabelSVC, and its model file."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import MultilabelSVC, _core, load_model, save_model
from bridle.structured.multilabel import MultilabelOracle

from structured_cases import multilabel_data


def together(n=150, d=6, seed=0):
    """Labels of which the second says nothing about x, only about the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    first = (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    third = (X[:, 1] > 0).astype(int)
    return X, np.column_stack([first, 1 - first, third])


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("strength", [0.1, 1.0, 10.0])
def test_the_search_equals_brute_force(n, strength):
    rng = np.random.default_rng(n)
    scores = rng.normal(size=(20, n))
    pairs = strength * np.triu(rng.normal(size=(n, n)), 1)
    sets, values = np.empty((20, n), np.uint8), np.empty(20)
    _core.structured.label_sets(scores, pairs + pairs.T, sets, values, 2)
    every = np.array(list(product((0, 1), repeat=n)))
    inner = np.einsum("yl,lm,ym->y", every, pairs, every)
    np.testing.assert_allclose(values, (scores @ every.T + inner).max(axis=1), atol=1e-12)
    own = np.einsum("il,il->i", scores, sets) + np.einsum("il,lm,im->i", sets, pairs, sets)
    np.testing.assert_allclose(own, values, atol=1e-12)


def test_the_kernel_checks_its_arrays():
    with pytest.raises(ValueError, match="pairs has 2 entries, expected 3"):
        _core.structured.label_sets(
            np.zeros((1, 3)), np.zeros((2, 3)), np.zeros((1, 3), np.uint8), np.zeros(1), 1
        )


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_multilabel_svc(pairs, form, tmp_path):
    X, Y = together()
    model = MultilabelSVC(C=0.1, pairs=pairs, tol=1e-2).fit(form(X), Y)
    assert model.certificate_.relative_gap <= 1e-2
    assert model.score(form(X), Y) > 0.9
    if pairs:
        assert model.pairs_[0, 1] < 0  # they exclude each other
    answers = model.predict(form(X))
    save_model(tmp_path / "model", model.model_)
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(form(X)), answers)
    assert loaded.certificate == model.certificate_


def test_without_pairs_it_is_one_machine_for_each_label():
    from bridle import LinearProblem, solve

    X, Y = together(60)
    # y in {0, 1} with Hamming's loss: max(0, 1 - (2y - 1) w.x), the hinge.
    whole = MultilabelSVC(C=0.2, pairs=False, fit_intercept=False, tol=1e-5, max_iter=10_000)
    parts = [solve(LinearProblem(X, 2.0 * y - 1, 0.2)).certificate for y in Y.T]
    total = whole.fit(X, Y).certificate_.primal
    assert total == pytest.approx(sum(c.primal for c in parts), rel=1e-3)


def test_what_is_wrong():
    X, Y = together(10)
    with pytest.raises(ValueError, match="a row of 0 and 1"):
        MultilabelSVC().fit(X, Y + 1)
    with pytest.raises(ValueError, match="n_threads must be at least 1"):
        MultilabelSVC(n_threads=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"y must have shape \(3, 3\), got \(3,\)"):
        MultilabelSVC().fit(X, Y).score(X[:3], Y[0])
    with pytest.raises(ValueError, match="only up to 24; use pairs=False"):
        MultilabelOracle(3, 30)
    oracle, _, _ = multilabel_data()
    with pytest.raises(ValueError, match="4 times 0 or 1"):
        oracle.loss((0, 1, 0, 1), (0, 2, 0, 1))
    with pytest.raises(ValueError, match="expected \\(3,\\)"):
        oracle.argmax(np.zeros(5), np.zeros(oracle.n_features))
