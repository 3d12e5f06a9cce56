"""Ranking: oracles against brute force, certificates against NumPy, optima against QPs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from bridle import (
    Epochs,
    Gap,
    GapWarning,
    LinearProblem,
    MultivariateSVC,
    RankingProblem,
    RankSVM,
    _core,
    solve,
)
from bridle.structured.ranking import LABELLING_LOSSES, RANKING_LOSSES, ranking_loss_from
from sklearn.utils.estimator_checks import parametrize_with_checks

from ranking_reference import all_outputs, interleave_by_table, ranking_loss

# Every loss: a new one is one name here, and its outputs in ranking_reference.py.
LOSSES = (
    "map", "ndcg", "ndcg@1", "ndcg@3", "ndcg@9", "precision@1", "precision@3", "roc", "pairs",
    "pairs-sum", "f1", "prbep",
)  # fmt: skip


def oracle_of(name, offsets, grades):
    loss = ranking_loss_from(name)
    return loss.oracle(np.asarray(offsets, np.int64), loss.relevance(grades, 0.0))


def core_oracle(name, offsets, grades):
    return _core.structured.ranking_oracle(
        np.asarray(offsets, np.int64), np.asarray(grades, float), name, 1
    )


def ask(name, grades, scores):
    oracle = oracle_of(name, [0, len(grades)], grades)
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


def test_every_ranking_loss_is_here():
    known = {name.partition("@")[0] for name in (*RANKING_LOSSES, *LABELLING_LOSSES)}
    assert known == {name.partition("@")[0] for name in LOSSES}


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


@pytest.mark.parametrize("name", ["map", "ndcg", "ndcg@3", "precision@3", "roc"])
def test_undivided_features_equal_brute_force(name):
    loss = replace(ranking_loss_from(name), normalise=False)
    for grades, scores in small_queries(2, 40, 6):
        relevance = loss.relevance(grades, 0.0)
        n_relevant = int(relevance.sum())
        pairs = n_relevant * (len(grades) - n_relevant)
        psi, losses = all_outputs(name, grades)
        best = (losses - pairs * psi @ scores).max()
        oracle = loss.oracle(np.array([0, len(grades)]), relevance)
        found, both = np.empty(len(grades)), np.empty((2, 1))
        delta = oracle.answer(0, scores, found)
        assert delta - found @ scores == pytest.approx(best, abs=1e-12)
        again = np.empty(len(grades))
        oracle.answers(scores, again, both[0], both[1], 1)
        assert both[1] == pytest.approx(best, abs=1e-12)
        np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("name", ["map", "roc"])
def test_undivided_features_are_longer_rows(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] + rng.normal(size=40) > 0.5).astype(float)
    pairs = y.sum() * (len(y) - y.sum())
    ours = RankSVM(name, C=1e-3, normalise=False, tol=1e-6).fit(X, y)
    other = RankSVM(name, C=1e-3, tol=1e-6).fit(pairs * X, y)
    assert ours.coef_ == pytest.approx(other.coef_, rel=1e-3)
    assert ours.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-5)


@pytest.mark.parametrize("name", ["pairs", "f1"])
def test_only_features_that_are_divided_can_be_left_undivided(name):
    with pytest.raises(ValueError, match=f"the features of {name} are not divided"):
        replace(ranking_loss_from(name), normalise=False)


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
    oracle = oracle_of(name, offsets, grades)
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


# The problem and its certificate.


def small_data(seed=0, n_queries=4, n_features=3):
    """Queries of 2 to 5 documents, one of them with nothing to rank."""
    rng = np.random.default_rng(seed)
    blocks = []
    for query in range(n_queries):
        n = int(rng.integers(3, 6))
        grades = rng.permutation(np.concatenate([[0, 1], rng.integers(0, 3, n - 2)]))
        blocks.append((rng.normal(size=(n, n_features)), grades, np.full(n, query + 7)))
    blocks.append((rng.normal(size=(2, n_features)), np.zeros(2), np.full(2, 99)))
    X, y, qid = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return X, y.astype(float), qid


def constraints_of(name, X, y, qid):
    """For each query all (psi, loss), by definition."""
    result = []
    for query in np.unique(qid):
        rows = qid == query
        grades = y[rows]
        if len(np.unique(grades)) == 1:
            result.append((np.zeros((1, X.shape[1])), np.zeros(1)))
            continue
        coefficients, losses = all_outputs(name, grades)
        result.append((coefficients @ X[rows], losses))
    return result


def primal_by_definition(w, constraints, cost):
    hinges = [max((losses - psi @ w).max(), 0.0) for psi, losses in constraints]
    return 0.5 * w @ w + cost @ np.array(hinges)


def optimum_by_qp(constraints, cost):
    """min 1/2 |w|^2 + sum_q C_q xi_q over every constraint at once."""
    import clarabel
    from scipy import sparse

    d, n = constraints[0][0].shape[1], len(constraints)
    rows, bounds = [], []
    for q, (psi, losses) in enumerate(constraints):
        slack = np.zeros((len(losses), n))
        slack[:, q] = -1.0
        rows.append(np.hstack([-psi, slack]))
        bounds.append(-losses)
    rows.append(np.hstack([np.zeros((n, d)), -np.eye(n)]))
    bounds.append(np.zeros(n))
    A, b = sparse.csc_matrix(np.vstack(rows)), np.concatenate(bounds)
    H = sparse.csc_matrix(np.diag(np.concatenate([np.ones(d), np.zeros(n)])))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-10
    g = np.concatenate([np.zeros(d), cost])
    cones = [clarabel.NonnegativeConeT(len(b))]
    result = clarabel.DefaultSolver(H, g, A, b, cones, settings).solve()
    return result.obj_val


@pytest.mark.parametrize("solver", ["one-slack", "n-slack", "bcfw", "subgradient"])
@pytest.mark.parametrize("name", LOSSES)
def test_certificate_holds_by_definition(name, solver):
    X, y, qid = small_data()
    weights = np.array([1.0, 0.5, 2.0, 1.0, 3.0])
    problem = RankingProblem(X, y, qid, 2.0, loss=name, sample_weight=weights)
    tol = 1e-2 if solver == "subgradient" else 1e-4
    solution = solve(problem, solver, stop=Gap(tol) | Epochs(3000))
    assert solution.converged, solution.message
    constraints, cost = constraints_of(name, X, y, qid), 2.0 * weights
    certificate = solution.certificate
    assert primal_by_definition(solution.w, constraints, cost) == pytest.approx(certificate.primal)
    W, loss = solution.alpha[:-1], solution.alpha[-1]
    assert loss - 0.5 * W @ W == pytest.approx(certificate.dual, rel=1e-9)
    # (W, l) is a convex combination of outputs: the line it stands for is below the losses.
    rng = np.random.default_rng(0)
    for w in [W, solution.w, *rng.normal(size=(50, 3)), *10 * rng.normal(size=(50, 3))]:
        risk = primal_by_definition(w, constraints, cost) - 0.5 * w @ w
        assert loss - w @ W <= risk * (1 + 1e-9) + 1e-9
    best = optimum_by_qp(constraints, cost)
    slack = 1e-7 * best
    assert certificate.dual - slack <= best <= certificate.primal + slack
    assert certificate.relative_gap <= tol


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["csr32", "dense32", "csr64"])
def test_storage_does_not_matter(name, kind):
    from scipy import sparse

    X, y, qid = small_data(seed=5)
    X = np.where(np.abs(X) < 0.3, 0.0, X).astype(np.float32)
    w = np.random.default_rng(1).normal(size=3)
    expected = RankingProblem(X.astype(float), y, qid, loss=name).cut(w)
    stored = {"csr32": sparse.csr_matrix(X), "dense32": X,
              "csr64": sparse.csr_matrix(X.astype(float))}[kind]  # fmt: skip
    problem = RankingProblem(stored, y, qid, loss=name, n_threads=2)
    cut = problem.cut(w)
    np.testing.assert_allclose(cut.features, expected.features, rtol=1e-12, atol=1e-12)
    assert cut.value == pytest.approx(problem.cost @ problem.hinges_above(w))
    assert cut.value == pytest.approx(cut.loss - w @ cut.features)
    parts = problem.constraints(w)
    assert sum(part.violation(w) for part in parts) == pytest.approx(cut.value, rel=1e-5)


def test_constant_feature_is_part_of_w():
    X, y, qid = small_data(seed=2)
    w = np.random.default_rng(0).normal(size=4)
    joined = RankingProblem(np.hstack([X, np.full((len(X), 1), 2.0)]), y, qid, loss="f1")
    problem = RankingProblem(X, y, qid, loss="f1", bias=2.0)
    np.testing.assert_allclose(problem.cut(w).features, joined.cut(w).features)
    one, other = problem.constraint(1, w), joined.constraint(1, w)
    np.testing.assert_allclose(one.psi.values, other.psi.values)
    assert problem.primal(w) == pytest.approx(joined.primal(w))


@pytest.mark.parametrize("seed", range(3))
def test_pairs_agree_with_a_pairwise_classifier(seed):
    """The same hinges, written out as rows of differences, by LinearProblem and LIBLINEAR."""
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(60, 4)), np.repeat(np.arange(5), 12)
    y = np.digitize(X[:, 0] + rng.normal(size=60), [-0.5, 0.5]).astype(float)
    rows, weights = [], []
    for query in range(5):
        members = np.flatnonzero(qid == query)
        pairs = [(i, j) for i in members for j in members if y[i] > y[j]]
        rows += [X[i] - X[j] for i, j in pairs]
        weights += [1 / len(pairs)] * len(pairs)
    signs = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)
    Z, weights = np.array(rows) * signs[:, None], np.array(weights)
    C = 3.0
    ours = solve(
        RankingProblem(X, y, qid, C, loss="pairs"), "one-slack", stop=Gap(1e-6) | Epochs(5000)
    )
    assert ours.converged
    ordinary = LinearProblem(Z, signs, C, sample_weight=weights)
    assert ordinary.primal(ours.w) == pytest.approx(ours.certificate.primal, rel=1e-9)
    theirs = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=200_000)
    theirs.fit(Z, signs, sample_weight=weights)
    best = ordinary.primal(theirs.coef_.ravel())
    assert ours.certificate.dual <= best * (1 + 1e-6)
    assert ours.certificate.primal <= best * (1 + 2e-6)


@pytest.mark.parametrize(
    "name", ["map", "pairs", "roc", "ndcg", "ndcg@10", "precision@10", "f1", "prbep"]
)
def test_a_query_of_100000_documents(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 3)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=len(X)) > 1.5).astype(float)
    problem = RankingProblem(X, y, C=10.0, loss=name)
    solution = solve(problem, "one-slack", stop=Gap(1e-2) | Epochs(100))
    assert solution.converged, solution.message


BAD = {
    "negative": ({"qid": [1, 1, -2, -2]}, "negative, got -2 in row 2"),
    "scattered": ({"qid": [1, 2, 1, 2]}, "query 1 do not stand together: it .* in row 2"),
    "fraction": ({"qid": [1, 1, 1.5, 1.5]}, "whole numbers"),
    "nan qid": ({"qid": [1, 1, np.nan, 2]}, "qid contains NaN"),
    "dates as qid": ({"qid": np.array(["2020-01-01"] * 4, "M8[D]")}, "whole numbers or names"),
    "short qid": ({"qid": [1, 1]}, "one number for each of the 4 rows"),
    "one class": ({"y": [1, 1, 0, 0]}, "nothing to learn: none of the 2 queries"),
    "one grade": ({"y": [1, 1, 2, 2], "loss": "pairs"}, "nothing to learn"),
    "nan y": ({"y": [1, np.nan, 0, 0]}, "y contains NaN"),
    "text y": ({"y": ["a", "b", "a", "b"]}, "grades of relevance"),
    "nan X": ({"X": np.full((4, 2), np.nan)}, "NaN"),
    "loss": ({"loss": "error"}, "unknown ranking loss 'error'; known: map"),
    "k": ({"loss": "precision@0"}, "positive number"),
    "no k": ({"loss": "precision"}, "unknown ranking loss"),
    "map@k": ({"loss": "map@3"}, "unknown ranking loss"),
    "C": ({"C": 0.0}, "C must be positive"),
    "weights": ({"sample_weight": [1, 1, 1, 1]}, "sample_weight must have shape"),
    "threshold": ({"threshold": np.nan}, "threshold"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    change, message = BAD[case]
    given = {"X": np.eye(4)[:, :2], "y": [0, 1, 0, 1], "qid": [1, 1, 2, 2]} | change
    with pytest.raises(ValueError, match=message):
        RankingProblem(**given)


def test_queries_without_two_grades_are_counted():
    X, y, qid = small_data()
    assert RankingProblem(X, y, qid).n_skipped == 1
    assert RankingProblem(X, y + 5, qid, threshold=5.0).n_skipped == 1


def test_one_slack_goes_on_from_a_solution():
    X, y, qid = small_data()
    problem = RankingProblem(X, y, qid, 5.0)
    first = solve(problem, "one-slack", stop=Gap(1e-6) | Epochs(1000))
    again = solve(problem, "one-slack", stop=Gap(1e-6) | Epochs(1000), start=first)
    assert again.epochs <= 2
    with pytest.raises(ValueError, match="hard margin"):
        solve(RankingProblem(X, y, qid, np.inf), "one-slack")


# The estimators.


# RankSVM takes grades, not classes; nothing else is left out.
WEIGHTED = "rows of one query cannot weigh differently"
RANKERS_FAIL = {
    f"check_sample_weight{which}": WEIGHTED
    for which in ("_equivalence_on_dense_data", "_equivalence_on_sparse_data", "s_not_overwritten")
}


@parametrize_with_checks(
    [RankSVM("pairs"), MultivariateSVC()],
    expected_failed_checks=lambda model: RANKERS_FAIL if isinstance(model, RankSVM) else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def queries(seed=0, n_queries=30, n_features=5):
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), rng.integers(5, 15, n_queries))
    X = rng.normal(size=(len(qid), n_features))
    noisy = X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=len(qid)) + rng.normal(size=30)[qid]
    return X, np.digitize(noisy, [0.5, 1.5]).astype(float), qid


def test_weights_of_rows_are_those_of_queries():
    X, y, qid = queries()
    each = np.random.default_rng(0).integers(0, 3, 30).astype(float)
    by_query = RankSVM().fit(X, y, qid=qid, query_weight=each)
    by_row = RankSVM().fit(X, y, qid=qid, sample_weight=each[qid])
    assert np.array_equal(by_query.coef_, by_row.coef_)
    copies = RankSVM(tol=1e-6).fit(X, y, qid=qid, sample_weight=np.where(qid == 3, 2.0, 1.0))
    third = qid == 3
    more = np.concatenate([qid, np.full(third.sum(), 99)])
    twice = RankSVM(tol=1e-6).fit(np.vstack([X, X[third]]), np.append(y, y[third]), qid=more)
    assert twice.certificate_.primal == pytest.approx(copies.certificate_.primal, rel=1e-5)
    with pytest.raises(ValueError, match="the same for all rows of a query: row 1 weighs 2"):
        RankSVM().fit(X, y, qid=qid, sample_weight=np.arange(len(y)) + 1.0)
    with pytest.raises(ValueError, match="one of sample_weight and query_weight"):
        RankSVM().fit(X, y, qid=qid, sample_weight=np.ones(len(y)), query_weight=each)


@pytest.mark.parametrize(
    "name", ["map", "ndcg", "ndcg@4", "precision@3", "roc", "pairs", "pairs-sum"]
)
def test_rank_svm_learns_its_metric(name):
    X, y, qid = queries()
    model = RankSVM(name, C=1.0, random_state=0).fit(X, y, qid=qid)
    assert model.certificate_.relative_gap <= 1e-3
    score = model.score(X, y, qid=qid)
    flipped = RankSVM(name, C=1.0).fit(X, y, qid=qid)
    flipped.coef_ = -flipped.coef_
    assert score > flipped.score(X, y, qid=qid) + 0.2
    np.testing.assert_allclose(model.predict(X), X @ model.coef_)
    relevant = y > 0
    some = [q for q in range(30) if relevant[qid == q].any() and not relevant[qid == q].all()]
    if name not in ("pairs", "pairs-sum"):
        assert model.n_skipped_ == 30 - len(some)


def test_score_is_one_minus_the_loss_of_the_scores():
    X, y, qid = queries(1)
    for name in ("map", "ndcg", "ndcg@4", "precision@3", "roc"):
        model = RankSVM(name).fit(X, y, qid=qid)
        values = []
        for query in range(30):
            rows = qid == query
            order = np.argsort(-model.predict(X[rows]), kind="stable")
            relevance = [bool(flag) for flag in (y[rows] > 0)[order]]
            if not any(relevance) and name != "roc":
                values.append(0.0)
            elif name == "roc":
                flags = np.array(relevance)
                if flags.any() and not flags.all():
                    pairs = [flags[i] > flags[j] for i in range(len(flags))
                             for j in range(i + 1, len(flags)) if flags[i] != flags[j]]  # fmt: skip
                    values.append(np.mean(pairs))
            else:
                values.append(1 - ranking_loss(name, relevance))
        assert model.score(X, y, qid=qid) == pytest.approx(np.mean(values))


@pytest.mark.parametrize("column", [0, 2, -1])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_queries_in_a_column_of_X(column, storage):
    from scipy import sparse

    X, y, qid = queries()
    plain = RankSVM().fit(X, y, qid=qid)
    place = column % 6
    joined = np.insert(X, place, qid, axis=1)
    if storage == "csr":
        joined = sparse.csr_matrix(joined)
    model = RankSVM(qid_column=column).fit(joined, y)
    np.testing.assert_allclose(np.delete(model.coef_, place), plain.coef_)
    assert model.coef_[place] == 0
    np.testing.assert_allclose(model.predict(joined), plain.predict(X))
    assert model.score(joined, y) == pytest.approx(plain.score(X, y, qid=qid))
    with pytest.raises(ValueError, match="not both"):
        model.fit(joined, y, qid=qid)
    with pytest.raises(ValueError, match="6 columns"):
        RankSVM(qid_column=6).fit(joined, y)


def test_grid_search_over_groups():
    from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

    X, y, qid = queries()
    joined = np.insert(X, 0, qid, axis=1)
    search = GridSearchCV(
        RankSVM(qid_column=0), {"C": [0.01, 1.0], "loss": ["map", "pairs"]}, cv=GroupKFold(3)
    )
    search.fit(joined, y, groups=qid)
    assert search.best_score_ > 0.7
    scores = cross_val_score(RankSVM(qid_column=0), joined, y, groups=qid, cv=GroupKFold(3))
    assert (scores > 0.5).all()


def test_messages_count_what_was_skipped(capsys):
    X, y, qid = queries()
    y[qid < 4] = 0
    model = RankSVM(verbose=1).fit(X, y, qid=qid)
    assert model.n_skipped_ >= 4
    assert f"{model.n_skipped_} of 30 queries have nothing to rank" in capsys.readouterr().out
    with pytest.warns(GapWarning, match="certified gap"):
        RankSVM(max_iter=1, tol=1e-9).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="MultivariateSVC"):
        RankSVM("f1").fit(X, y)


@pytest.mark.parametrize("loss", ["f1", "prbep", "roc"])
def test_multivariate_classifier(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=600) > 1.0, "yes", "no")
    model = MultivariateSVC(loss).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    called, truth = model.predict(X) == "yes", y == "yes"
    f1 = 2 * (called & truth).sum() / (called.sum() + truth.sum())
    assert f1 > 0.8
    if loss != "f1":
        assert called.sum() == truth.sum()
    with pytest.raises(ValueError, match="f1, prbep or roc"):
        MultivariateSVC("map").fit(X, y)
