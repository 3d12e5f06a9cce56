"""Ranking metrics: hand-worked cases, definitions written out, and scikit-learn's."""

from __future__ import annotations

import shutil

import ir_measures
import numpy as np
import pytest
from bridle import metrics
from ir_measures import AP, RR, P, Qrel, ScoredDoc, nDCG
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score


def ranked(*grades):
    """Grades in the order of their ranks, and scores that rank them so."""
    return np.array(grades, float), -np.arange(len(grades), dtype=float)


def test_average_precision_by_hand():
    assert metrics.average_precision(*ranked(1, 0, 1, 0, 1))[0] == pytest.approx(
        (1 / 1 + 2 / 3 + 3 / 5) / 3
    )
    assert metrics.average_precision(*ranked(1, 0, 1, 0, 1))[0] == pytest.approx(0.7556, abs=5e-5)
    assert metrics.average_precision(*ranked(0, 0, 0, 1))[0] == 0.25
    assert metrics.average_precision(*ranked(0, 0))[0] == 0.0
    assert metrics.average_precision(*ranked(1, 1))[0] == 1.0


def test_ndcg_by_hand():
    y, scores = ranked(1, 0, 2, 0)
    # LETOR: gains 1, 0, 3, 0; discounts 1, 1, 1/log2(3), 1/2. The best order: 3, 1, 0, 0.
    assert metrics.ndcg(y, scores, convention="letor")[0] == pytest.approx((1 + 3 / np.log2(3)) / 4)
    assert metrics.ndcg(y, scores, k=2, convention="letor")[0] == pytest.approx(1 / 4)
    # Burges: discounts 1, 1/log2(3), 1/2, ...
    burges = metrics.ndcg(y, scores)[0]
    assert burges == pytest.approx((1 + 3 / 2) / (3 + 1 / np.log2(3)))
    # TREC: gains are the grades.
    trec = metrics.ndcg(y, scores, convention="trec")[0]
    assert trec == pytest.approx((1 + 2 / 2) / (2 + 1 / np.log2(3)))
    assert metrics.ndcg(*ranked(0, 0, 0))[0] == 0.0


def test_precision_and_reciprocal_rank_by_hand():
    y, scores = ranked(0, 2, 1, 0)
    assert metrics.precision_at_k(y, scores, k=1)[0] == 0.0
    assert metrics.precision_at_k(y, scores, k=3)[0] == pytest.approx(2 / 3)
    assert metrics.precision_at_k(y, scores, k=10)[0] == pytest.approx(2 / 10)
    assert metrics.precision_at_k(y, scores, k=3, threshold=1)[0] == pytest.approx(1 / 3)
    assert metrics.reciprocal_rank(y, scores)[0] == 0.5
    assert metrics.reciprocal_rank(*ranked(0, 0))[0] == 0.0


def test_pairs_by_hand():
    # 2 above 1: right; 2 above 0: right; 1 tied with 0: half.
    assert metrics.pair_accuracy([2, 1, 0], [3, 1, 1])[0] == pytest.approx(2.5 / 3)
    assert metrics.roc_area([1, 0, 0], [1, 2, 1])[0] == pytest.approx(0.25)
    assert np.isnan(metrics.roc_area([1, 1], [1, 2])[0])
    assert np.isnan(metrics.pair_accuracy([2, 2], [1, 2])[0])


def test_ties_keep_the_order_of_the_rows():
    assert metrics.average_precision([0, 1], [5, 5])[0] == 0.5
    assert metrics.average_precision([1, 0], [5, 5])[0] == 1.0


def many_queries(seed=0, ties=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, 60)
    qid = np.repeat(rng.permutation(1000)[:60], sizes)
    y = rng.integers(0, 4, len(qid)) * (rng.random(len(qid)) < 0.5)
    scores = rng.normal(size=len(qid))
    return y.astype(float), np.round(scores) if ties else scores, qid


FUNCTIONS = {
    "map": metrics.average_precision,
    "ndcg": metrics.ndcg,
    "ndcg@5": lambda *args: metrics.ndcg(*args, k=5, convention="trec"),
    "precision": lambda *args: metrics.precision_at_k(*args, k=3),
    "mrr": metrics.reciprocal_rank,
    "roc": metrics.roc_area,
    "pairs": metrics.pair_accuracy,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_queries_at_once_are_each_on_its_own(name):
    y, scores, qid = many_queries()
    together = FUNCTIONS[name](y, scores, qid)
    ids = metrics.queries(qid)
    assert len(together) == len(ids) == 60
    for value, query in zip(together, ids, strict=True):
        alone = FUNCTIONS[name](y[qid == query], scores[qid == query])
        np.testing.assert_allclose(value, alone[0], rtol=1e-12)


def test_agree_with_scikit_learn():
    y, scores, qid = many_queries(1, ties=False)
    values = {
        "map": metrics.average_precision(y, scores, qid),
        "ndcg": metrics.ndcg(y, scores, qid, convention="trec"),
        "ndcg@5": metrics.ndcg(y, scores, qid, convention="trec", k=5),
        "roc": metrics.roc_area(y, scores, qid),
    }
    for q, query in enumerate(metrics.queries(qid)):
        rows = qid == query
        relevant = y[rows] > 0
        if rows.sum() < 2 or not relevant.any() or relevant.all():
            continue
        assert values["map"][q] == pytest.approx(average_precision_score(relevant, scores[rows]))
        assert values["roc"][q] == pytest.approx(roc_auc_score(relevant, scores[rows]))
        assert values["ndcg"][q] == pytest.approx(ndcg_score([y[rows]], [scores[rows]]))
        assert values["ndcg@5"][q] == pytest.approx(ndcg_score([y[rows]], [scores[rows]], k=5))


TREC = {  # by trec_eval and, with gains of 2^g - 1, TREC's gdeval, which prints five digits
    AP: (metrics.average_precision, 1e-12),
    AP(rel=2): (lambda *rows: metrics.average_precision(*rows, threshold=1), 1e-12),
    RR: (metrics.reciprocal_rank, 1e-12),
    P @ 3: (lambda *rows: metrics.precision_at_k(*rows, k=3), 1e-12),
    nDCG: (lambda *rows: metrics.ndcg(*rows, convention="trec"), 1e-12),
    nDCG @ 5: (lambda *rows: metrics.ndcg(*rows, k=5, convention="trec"), 1e-12),
    nDCG(dcg="exp-log2") @ 5: (lambda *rows: metrics.ndcg(*rows, k=5), 1e-5),
}


@pytest.mark.parametrize("measure", TREC, ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_agree_with_trecs_programs(measure, ties):
    if "exp" in str(measure) and shutil.which("perl") is None:
        pytest.skip("gdeval is a program in Perl")
    y, scores, qid = many_queries(4, ties=ties)
    # Of equal scores theirs has the last name first, ours the first row.
    rows = [(str(q), f"{len(y) - k:04d}", k) for k, q in enumerate(qid)]
    judged = [Qrel(query, name, int(y[k])) for query, name, k in rows]
    run = [ScoredDoc(query, name, scores[k]) for query, name, k in rows]
    found = ir_measures.iter_calc([measure], judged, run)
    theirs = {metric.query_id: metric.value for metric in found}
    ours, tolerance = TREC[measure]
    values = ours(y, scores, qid)
    for query, value in zip(metrics.queries(qid), values, strict=True):
        assert value == pytest.approx(theirs.get(str(query), 0.0), abs=tolerance)
    assert values.max() > 0.5


def test_roc_counts_ties_as_scikit_learn_does():
    y, scores, qid = many_queries(2)
    values = metrics.roc_area(y, scores, qid)
    for q, query in enumerate(metrics.queries(qid)):
        relevant = y[qid == query] > 0
        if relevant.any() and not relevant.all():
            assert values[q] == pytest.approx(roc_auc_score(relevant, scores[qid == query]))
        else:
            assert np.isnan(values[q])


def test_pair_accuracy_by_definition():
    y, scores, qid = many_queries(3)
    values = metrics.pair_accuracy(y, scores, qid)
    for q, query in enumerate(metrics.queries(qid)):
        g, s = y[qid == query], scores[qid == query]
        pairs = [(i, j) for i in range(len(g)) for j in range(len(g)) if g[i] > g[j]]
        right = [(s[i] > s[j]) + 0.5 * (s[i] == s[j]) for i, j in pairs]
        if pairs:
            assert values[q] == pytest.approx(np.mean(right))


def test_mean_leaves_out_what_is_undefined():
    assert metrics.mean([1.0, np.nan, 0.0]) == 0.5
    assert np.isnan(metrics.mean([np.nan]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.ndcg([0, 1], [1, 2], k=0), "positive integer"),
        (lambda: metrics.ndcg([0, 1], [1, 2], convention="own"), "letor, trec, burges"),
        (lambda: metrics.ndcg([0, -1], [1, 2]), "not negative"),
        (lambda: metrics.average_precision([0, 1], [1, np.nan]), "scores contains NaN"),
        (lambda: metrics.average_precision([0, 1], [1]), "scores must have shape"),
        (lambda: metrics.average_precision([], []), "no documents"),
        (lambda: metrics.average_precision([0, 1, 1], [1, 1, 1], [1, 2, 1]), "stand together"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
