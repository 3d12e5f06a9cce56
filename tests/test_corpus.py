"""The corpus has RCV1's shape and difficulty, and its rows depend on the seed alone."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from bridle.data.corpus import BLOCK_ROWS, _block, _model, make_corpus
from scipy.sparse import csr_matrix


def same(a, b):
    return (
        np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
    )


@pytest.fixture(scope="module")
def corpus():
    return make_corpus(40_000)


def test_shape_and_types(corpus):
    X, y = corpus
    assert X.format == "csr"
    assert X.shape == (40_000, 47_236)
    assert y.shape == (40_000,)
    assert (X.data.dtype, X.indices.dtype, X.indptr.dtype) == (np.float32, np.int32, np.int32)
    assert y.dtype == np.float64
    assert X.indptr[0] == 0
    assert X.indptr[-1] == len(X.data) == len(X.indices)


def test_indices_increase_within_rows(corpus):
    X, _ = corpus
    step = np.diff(X.indices.astype(np.int64))
    new_row = np.zeros(len(step), dtype=bool)
    new_row[X.indptr[1:-1] - 1] = True
    assert np.all((step > 0) | new_row)
    assert X.indices.min() >= 0
    assert X.indices.max() < X.shape[1]


def test_values_are_positive_and_rows_have_unit_length(corpus):
    X, _ = corpus
    assert np.all(X.data > 0)
    squares = np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1])
    np.testing.assert_allclose(squares, 1, atol=1e-6)


def test_labels_are_balanced_as_ccat(corpus):
    _, y = corpus
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert np.mean(y > 0) == pytest.approx(0.474, abs=0.01)


def test_non_zeros_per_row(corpus):
    X, _ = corpus
    nnz = np.diff(X.indptr)
    assert nnz.mean() == pytest.approx(75, rel=0.03)
    assert nnz.min() >= 1
    assert nnz.std() > 0.3 * nnz.mean()
    assert nnz.max() > 3 * nnz.mean()  # the long tail of a log-normal


def test_document_frequencies_follow_zipf(corpus):
    X, _ = corpus
    df = np.sort(np.bincount(X.indices, minlength=X.shape[1]))[::-1] / X.shape[0]
    rank = np.arange(100, 10_000)
    slope = np.polyfit(np.log(rank), np.log(df[rank]), 1)[0]
    assert -1.6 < slope < -0.8
    assert df[0] < 0.9  # no word is in every document
    assert np.mean(df > 0) > 0.9  # and few are in none


def test_word_ranks_are_shuffled_over_the_columns(corpus):
    X, _ = corpus
    df = np.bincount(X.indices, minlength=X.shape[1])
    assert abs(np.corrcoef(df, np.arange(len(df)))[0, 1]) < 0.03


def test_rare_words_weigh_more(corpus):
    X, _ = corpus
    df = np.bincount(X.indices, minlength=X.shape[1])[X.indices]
    rare, common = X.data[df < 100], X.data[df > 2000]
    assert rare.mean() > 1.3 * common.mean()


@pytest.mark.parametrize("k", [1, 777, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 5000])
def test_a_corpus_begins_with_the_shorter_one(corpus, k):
    X, y = corpus
    shorter, labels = make_corpus(k)
    assert same(shorter, X[:k])
    assert np.array_equal(labels, y[:k])


def test_blocks_differ(corpus):
    X, _ = corpus
    assert not same(X[:BLOCK_ROWS], X[BLOCK_ROWS : 2 * BLOCK_ROWS])


def test_the_seed_decides():
    shape = {"n_features": 3000, "nnz_per_row": 20}
    X, y = make_corpus(500, seed=7, **shape)
    other, other_y = make_corpus(500, seed=8, **shape)  # also drops the remembered model
    again, again_y = make_corpus(500, seed=7, **shape)
    assert same(X, again)
    assert np.array_equal(y, again_y)
    assert not same(X, other)
    assert not np.array_equal(y, other_y)


def test_the_same_words_on_every_platform():
    X, y = make_corpus(1000)
    words = X.indptr.astype("<i4").tobytes() + X.indices.astype("<i4").tobytes()
    digest = hashlib.sha256(words + y.astype("<i1").tobytes()).hexdigest()
    assert digest[:16] == "011f0a172eb1ab3e"


def test_results_are_the_callers_own():
    X, y = make_corpus(50)
    X.data[:] = 0
    y[:] = 0
    again, labels = make_corpus(50)
    assert np.all(again.data > 0)
    assert np.all(np.abs(labels) == 1)


@pytest.mark.parametrize(
    ("n_features", "nnz_per_row"),
    [(300, 10), (1000, 40), (47_236, 1), (47_236, 300), (200_000, 75)],
)
def test_other_shapes(n_features, nnz_per_row):
    X, y = make_corpus(3000, n_features=n_features, nnz_per_row=nnz_per_row)
    assert X.shape == (3000, n_features)
    assert X.nnz / 3000 == pytest.approx(nnz_per_row, rel=0.06)
    assert np.all(np.isfinite(X.data))
    unflagged = csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
    assert unflagged.has_canonical_format
    assert 0.4 < np.mean(y > 0) < 0.55


def test_a_vocabulary_too_wide_for_short_keys():
    model = _model(0, 3000, 20.0)
    padded = np.concatenate([model.idf, np.ones(2**22 - 3000)])
    narrow, wide = (
        _block(model, 0, 2048),
        _block(replace(model, n_features=2**22, idf=padded), 0, 2048),
    )
    for a, b in zip(narrow, wide, strict=True):
        assert np.array_equal(a, b)


def test_idf_agrees_with_the_sample(corpus):
    X, _ = corpus
    count = np.bincount(X.indices, minlength=X.shape[1])
    seen = count > 200
    drift = _model(0, 47_236, 75.0).idf[seen] - np.log(X.shape[0] / count[seen])
    assert abs(np.median(drift)) < 0.1
    assert np.std(drift) < 0.15


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_rows": 0}, ValueError, "n_rows must be at least 1, got 0"),
        ({"n_rows": -3}, ValueError, "n_rows must be at least 1"),
        ({"n_rows": 10.5}, TypeError, "n_rows must be an integer"),
        ({"n_rows": "10"}, TypeError, "n_rows must be an integer"),
        ({"n_rows": 10, "seed": -1}, ValueError, "seed must be at least 0"),
        ({"n_rows": 10, "seed": None}, TypeError, "seed must be an integer"),
        ({"n_rows": 10, "n_features": 1}, ValueError, "n_features must be at least 2"),
        ({"n_rows": 10, "nnz_per_row": 0}, ValueError, "nnz_per_row must be at least 1"),
        ({"n_rows": 10, "nnz_per_row": np.nan}, ValueError, "nnz_per_row must be at least 1"),
        ({"n_rows": 10, "nnz_per_row": np.inf}, ValueError, "nnz_per_row must be at least 1"),
        ({"n_rows": 10, "n_features": 50}, ValueError, "too small a vocabulary"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        make_corpus(**arguments)


def test_numpy_integers_are_integers():
    X, _ = make_corpus(np.int32(5), seed=np.uint8(0))
    assert same(X, make_corpus(5)[0])


def test_is_as_hard_as_rcv1(corpus):
    svm = pytest.importorskip("sklearn.svm")
    X, y = corpus
    m, lam = 30_000, 1e-4
    judge = svm.LinearSVC(
        loss="hinge",
        C=1 / (lam * m),
        fit_intercept=False,
        tol=1e-3,
        max_iter=10_000,
        random_state=0,
    )
    w = judge.fit(X[:m], y[:m]).coef_[0]
    margin = y * (X @ w)
    cost = lam / 2 * (w @ w) + np.maximum(0, 1 - margin[:m]).mean()
    assert 0.20 < cost < 0.26
    assert 0.05 < np.mean(margin[m:] <= 0) < 0.07
    assert 0.2 < np.mean(margin[:m] < 1) < 0.4  # many support vectors, as in text
