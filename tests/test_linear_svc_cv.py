"""LinearSVCCV: the scores are those of a grid search, every gap is certified, work is shared."""

from __future__ import annotations

import time

import numpy as np
import pytest
from bridle import LinearSVC, LinearSVCCV
from bridle.data.corpus import make_corpus
from bridle.fitting.c_path import start_at
from bridle.fitting.cross_validation import _Solved
from bridle.objective.best_scale import best_scale, scale_within
from bridle.problems.linear import LinearProblem
from bridle.solving.loop import solve
from bridle.solving.stopping import Gap
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import matrix

CS = np.geomspace(0.01, 1.0, 6)


@parametrize_with_checks([LinearSVCCV(Cs=3, cv=3)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [2, 3])
def test_same_scores_as_a_grid_search(classes):
    X, y = matrix.small_data(n_rows=150)
    if classes == 3:
        y = y + 2.0 * (X[:, 0] > 0.5)
    folds = StratifiedKFold(4)
    ours = LinearSVCCV(Cs=CS, cv=folds, tol=1e-7).fit(X, y)
    grid = GridSearchCV(LinearSVC(tol=1e-7), {"C": CS}, cv=folds).fit(X, y)
    assert ours.scores_.mean(axis=0) == pytest.approx(grid.cv_results_["mean_test_score"])
    assert grid.best_params_["C"] == ours.C_
    assert ours.coef_ == pytest.approx(grid.best_estimator_.coef_, abs=1e-4)
    assert np.all(ours.gaps_ <= 1e-7)


def test_neighbours_share_solutions():
    X, y = make_corpus(1500)
    near = LinearSVCCV(Cs=np.geomspace(0.05, 0.1, 40), cv=3, tol=1e-2).fit(X, y)
    assert np.all(near.gaps_ <= 1e-2)
    assert near.n_solves_ < near.gaps_.size / 2


def test_the_same_choice_for_any_number_of_threads():
    X, y = matrix.small_data(n_rows=120)
    y = y + 2.0 * (X[:, 0] > 0.5)

    def chosen(n_threads):
        model = LinearSVCCV(Cs=5, cv=3, random_state=0, n_threads=n_threads).fit(X, y)
        return model.scores_, model.gaps_, model.coef_, model.n_solves_

    alone = chosen(1)
    for n_threads in (2, 3, 8, 16):
        for one, other in zip(alone, chosen(n_threads), strict=True):
            assert np.array_equal(one, other)


def test_groups_weights_and_bad_values():
    X, y = matrix.small_data()
    groups = np.arange(len(y)) % 5
    weights = np.random.default_rng(0).choice([0.0, 1.0, 3.0], len(y))
    fitted = LinearSVCCV(Cs=CS, cv=GroupKFold(5)).fit(X, y, weights, groups=groups)
    assert fitted.scores_.shape == (5, len(CS))
    with pytest.raises(ValueError, match="Cs must be positive"):
        LinearSVCCV(Cs=[1.0, -1.0]).fit(X, y)
    with pytest.raises(ValueError, match="Cs must be at least 1"):
        LinearSVCCV(Cs=0).fit(X, y)


def test_the_default_grid_does_not_mind_the_scale_of_the_data():
    X, y = matrix.small_data()
    a, b = LinearSVCCV(Cs=4).fit(X, y), LinearSVCCV(Cs=4).fit(X * 1000.0, y)
    assert a.Cs_ == pytest.approx(b.Cs_ * 1e6)


def test_a_fold_that_holds_out_a_whole_class():
    X, y = matrix.small_data()
    labels = np.where(y > 0, "a", "b").astype(object)
    labels[7] = "c"
    folds = PredefinedSplit(np.arange(len(y)) % 3)
    found = LinearSVCCV([0.1, 1.0], cv=folds, class_weight="balanced").fit(X, labels)
    assert np.isfinite(found.scores_).all()


def hard_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 60))
    return X, np.where(X[:, 0] + rng.normal(size=len(X)) > 0, 1, -1)


def test_seconds_are_for_the_whole_fit():
    X, y = hard_data()
    model = LinearSVCCV(30, cv=5, tol=1e-12, solver="dcd", max_iter=10**9, max_seconds=1.0)
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning) as seen:  # of a gap, too, where the last fit is cut off
        model.fit(X, y)
    assert any("cross-validation ended early" in str(warning.message) for warning in seen)
    assert time.perf_counter() - began < 10  # each of 150 solves would take its second
    tried = np.isfinite(model.gaps_)
    assert tried[:, 0].all()
    assert not tried.all()
    assert np.array_equal(np.isnan(model.scores_), ~tried)
    assert tried[:, list(model.Cs_).index(model.C_)].all()
    assert model.certificate_.relative_gap < 1
    assert model.score(X, y) > 0.7


def test_a_neighbours_solution_is_certified_at_its_best_length():
    """Plain NumPy finds the same gap for the scaled pair, at C small and large."""
    X, y = make_corpus(800)
    dense = np.hstack([X.toarray().astype(np.float64), np.ones((len(y), 1))])
    problem = LinearProblem(X, y, bias="regularised")
    for C, other in ((1e-3, 1.5e-3), (0.3, 0.4), (20.0, 60.0)):
        here = problem.variant(C=C)
        solution = solve(here, stop=Gap(1e-4))
        scale, certificate = _Solved.of(here, solution).at(other)
        w = scale * np.append(solution.w, solution.b)
        primal = 0.5 * w @ w + other * np.maximum(0.0, 1.0 - y * (dense @ w)).sum()
        assert certificate.primal == pytest.approx(primal, rel=1e-6)
        z = dense * y[:, None]
        S, v = solution.alpha.sum(), z.T @ solution.alpha
        t = min(other / C, S / (v @ v))
        assert certificate.dual == pytest.approx(t * S - 0.5 * t * t * (v @ v), rel=1e-6)
        unscaled = np.append(solution.w, solution.b)
        plain = 0.5 * unscaled @ unscaled
        plain += other * np.maximum(0.0, 1.0 - y * (dense @ unscaled)).sum()
        assert certificate.primal <= plain * (1 + 1e-9)
        assert C == 0.3 or (scale > 1.0 and certificate.relative_gap <= 1e-3)


def test_a_start_at_a_larger_C_is_no_worse_than_the_whole_step():
    X, y = make_corpus(800)
    problem = LinearProblem(X, y, bias="regularised")
    for C in (0.01, 1.0, 2.0, 5.0):
        here, there = problem.variant(C=C), problem.variant(C=2 * C)
        solved = _Solved.of(here, solve(here, stop=Gap(1e-6)))
        found = there.dual(solved.start(2 * C).alpha)
        whole = there.dual(start_at(2 * C, here, solved.solution).alpha)
        stay = there.dual(solved.solution.alpha)
        assert found >= max(whole, stay if C > 0.01 else whole) * (1 - 1e-5)


def test_the_scale_within_is_the_best_one():
    rng = np.random.default_rng(0)
    margins, cost = rng.normal(1.0, 0.5, 300), rng.uniform(0.0, 2.0, 300)
    exact = best_scale(margins, 200.0, cost)
    assert scale_within(margins, 200.0, cost, 0.1, 10.0) == pytest.approx(exact, rel=1e-3)
    assert scale_within(margins, 200.0, cost, 2 * exact, 9 * exact) == pytest.approx(
        2 * exact, rel=1e-3
    )
