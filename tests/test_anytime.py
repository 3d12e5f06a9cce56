"""Ctrl-C, deadlines and callbacks end every estimator with its best model so far and its gap."""

import signal
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import bridle
import numpy as np
import pytest
from bridle import (
    SVC,
    ChainSVM,
    DualCoordinateDescent,
    Gap,
    LinearProblem,
    LinearSVC,
    LinearSVCCV,
    MulticlassSVC,
    MultilabelSVC,
    MultivariateSVC,
    RankSVM,
    Status,
    StructuredSVM,
    TreeSVM,
    ValidationLoss,
    solve,
)
from bridle.data.trees import read_trees
from bridle.estimators import GapWarning
from bridle.solving.stopping import Epochs, HeldOutLoss
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score


@pytest.fixture(autouse=True)
def python_hears_ctrl_c():
    """Also where the tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def noisy(n=1500, d=60, n_classes=2, seed=0, noise=6.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = X @ np.random.default_rng(1).standard_normal((d, n_classes))
    return X, (scores + noise * rng.standard_normal((n, n_classes))).argmax(axis=1)


class Slow:
    """Multiclass as an oracle in Python, which takes its time."""

    def __init__(self, n_features, n_classes):
        self.d, self.k, self.n_features = n_features, n_classes, n_features * n_classes

    def features(self, x, y):
        return np.arange(y * self.d, (y + 1) * self.d), x

    def loss(self, y, other):
        return float(y != other)

    def argmax(self, x, w, truth=None):
        scores = w.reshape(self.k, self.d) @ x
        return int(np.argmax(scores + (np.arange(self.k) != truth if truth is not None else 0)))


def chains():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((20, 30)) for _ in range(60)]
    return X, [list(rng.integers(0, 4, 20)) for _ in X]


def trees():
    """Phrases of adjectives and nouns, with brackets at random: no grammar explains them all."""
    rng = np.random.default_rng(0)
    nouns = [f"(N n{k})" for k in range(20)]
    found = []
    for _ in range(60):
        words = list(rng.choice(nouns, 8))
        while len(words) > 1:
            k = rng.integers(len(words) - 1)
            words[k : k + 2] = [f"({rng.choice(list('ABC'))} {words[k]} {words[k + 1]})"]
        found += read_trees(f"(S {words[0]})")
    return [tree.words for tree in found], found


# Each with settings that would take far longer than a test may.
NEVER = {"tol": 1e-12, "max_iter": 10**7}
CASES = {
    "LinearSVC": lambda: (LinearSVC(1e3, solver="dcd", **NEVER), *noisy()),
    "LinearSVC, classes": lambda: (
        LinearSVC(1e3, solver="dcd", n_threads=2, **NEVER), *noisy(n_classes=5)),
    "LinearSVC, pairs": lambda: (
        LinearSVC(1e3, solver="dcd", multi_class="ovo", **NEVER), *noisy(n_classes=4)),
    "LinearSVC, joint": lambda: (
        LinearSVC(10.0, multi_class="crammer_singer", **NEVER), *noisy(n_classes=4)),
    "LinearSVCCV": lambda: (LinearSVCCV([1e2, 1e3], cv=2, solver="dcd", **NEVER), *noisy()),
    "SVC": lambda: (SVC(1e4, kernel="linear", tol=1e-13), *noisy(700, 10)),
    "SVC, pairs": lambda: (SVC(1e4, kernel="linear", tol=1e-13), *noisy(1200, 10, n_classes=3)),
    "MulticlassSVC": lambda: (MulticlassSVC(10.0, **NEVER), *noisy(n_classes=4)),
    "MultivariateSVC": lambda: (MultivariateSVC("f1", C=1e5, **NEVER), *noisy()),
    "RankSVM": lambda: (RankSVM("map", 1e5, **NEVER), *noisy(3000)),
    "ChainSVM": lambda: (ChainSVM(10.0, **NEVER), *chains()),
    "TreeSVM": lambda: (TreeSVM(10.0, **NEVER), *trees()),
    "MultilabelSVC": lambda: (
        MultilabelSVC(10.0, **NEVER), noisy(400)[0],
        np.random.default_rng(0).integers(0, 2, (400, 5))),
    "StructuredSVM": lambda: (
        StructuredSVM(Slow(60, 4), 10.0, **NEVER), *noisy(400, n_classes=4)),
}  # fmt: skip


def fitted(model, X, y):
    """The model after a fit that ended early, and how long that took."""
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning) as log:
        model.fit(X, y)
    gaps = [str(warning.message) for warning in log if warning.category is GapWarning]
    assert gaps
    assert all("certified gap" in text for text in gaps)
    assert {warning.filename for warning in log} == {__file__}  # the user's line, not ours
    seconds = time.perf_counter() - began
    assert 0 < model.certificate_.relative_gap <= 1.0
    assert np.isfinite(model.certificate_.primal)
    assert "certified gap" in model.message_
    assert len(model.predict(X)) == len(X)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return seconds


@pytest.mark.parametrize("name", CASES)
def test_a_time_limit(name):
    model, X, y = CASES[name]()
    seconds = fitted(model.set_params(max_seconds=0.3), X, y)
    assert model.status_ is Status.BUDGET
    assert seconds < 20  # not a speed test: it would go on for ever


@pytest.mark.parametrize("name", [name for name in CASES if name != "LinearSVCCV"])
def test_a_deadline_in_a_callback(name):
    model, X, y = CASES[name]()
    deadline, records = time.monotonic() + 0.3, []

    def callback(record):
        records.append(record)
        return time.monotonic() > deadline

    fitted(model.set_params(callback=callback), X, y)
    assert model.status_ is Status.INTERRUPTED
    assert "by a callback" in model.message_
    assert records[-1].relative_gap <= 1.0


def pressed():
    """A callback that presses Ctrl-C once: a second one would act at once."""
    seen = []

    def press(*told):
        seen.append(told)
        if len(seen) == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    return press


def raised():
    """A callback that does as a host that handles Ctrl-C in its own way."""

    def interrupt(*told):
        raise KeyboardInterrupt

    return interrupt


@dataclass(frozen=True)
class Interrupted(DualCoordinateDescent):
    """Where there are no callbacks: Ctrl-C comes with an iterate."""

    press: Any = field(default_factory=pressed)

    def iterates(self, problem, **options):
        found, answer = super().iterates(problem, **options), None
        while True:
            iterate = found.send(answer)
            self.press()
            answer = yield iterate


@contextmanager
def quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.mark.parametrize("how", [pressed, raised], ids=["pressed", "raised"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "LinearSVCCV"])
def test_ctrl_c(name, how):
    model, X, y = CASES[name]()
    model.set_params(callback=how())
    with quietly(), pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X, y)
    assert caught.value.solution is model
    assert str(caught.value) == model.message_
    assert model.status_ is Status.INTERRUPTED
    assert "by Ctrl-C" in model.message_
    assert len(model.predict(X)) == len(X)
    fitted(model.set_params(interrupt="return", callback=how()), X, y)
    assert model.status_ is Status.INTERRUPTED


def test_ctrl_c_where_warnings_are_errors():
    """As in these tests: it is still Ctrl-C that is raised."""
    model, X, y = CASES["LinearSVC"]()
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=pressed()).fit(X, y)
    assert model.status_ is Status.INTERRUPTED


def test_ctrl_c_in_a_cross_validated_choice():
    X, y = noisy()
    model = LinearSVCCV([1e2, 1e3], cv=2, solver=Interrupted(), n_threads=1, **NEVER)
    with quietly(), pytest.raises(KeyboardInterrupt) as caught:
        model.fit(X, y)
    assert caught.value.solution is model
    assert model.status_ is Status.INTERRUPTED
    fitted(model.set_params(interrupt="return", solver=Interrupted()), X, y)


def test_ctrl_c_ends_a_search():
    """It used to end one fit of many, which the search then took for a model like the others."""
    X, y = noisy(200, 5)
    seen, press = [], pressed()

    def callback(record):
        seen.append(record.epoch)
        press()

    model = LinearSVC(1e3, solver="dcd", callback=callback, **NEVER)
    with quietly(), pytest.raises(KeyboardInterrupt):
        cross_val_score(model, X, y, cv=5)
    assert len(seen) == 1


def test_ctrl_c_in_a_path_and_a_comparison():
    X, y = noisy(300, 20)
    signs = 2.0 * y - 1
    with pytest.raises(KeyboardInterrupt) as caught:
        bridle.path(X, signs, 1e-3, 1e3, callback=pressed())
    assert len(caught.value.solution) == 1
    assert not caught.value.solution.complete
    partly = bridle.path(X, signs, 1e-3, 1e3, callback=raised(), interrupt="return")
    assert len(partly) == 1

    problem = LinearProblem(X, signs)
    with pytest.raises(KeyboardInterrupt) as caught:
        bridle.compare(problem, ["dcd", "pegasos"], watch=pressed())
    assert [run.name for run in caught.value.solution.runs] == ["dcd"]
    found = bridle.compare(
        problem, ["dcd", "pegasos"], interrupt="return",
        watch=pressed(),
    )  # fmt: skip
    assert len(found.runs) == 1


def test_what_becomes_of_ctrl_c_has_two_ways():
    X, y = noisy(50, 5)
    with pytest.raises(ValueError, match="got 'never'"):
        LinearSVC(interrupt="never").fit(X, y)


def test_a_callback_ends_the_calibration_too():
    X, y = noisy(300, 10)
    calls = []

    def callback(record):
        calls.append(record)
        return len(calls) > first

    first = 10**9
    LinearSVC(probability="platt", callback=callback, random_state=0).fit(X, y)
    total, calls[:] = len(calls), []
    LinearSVC(callback=callback, random_state=0).fit(X, y)
    first, calls[:] = len(calls) + 1, []  # in the first fold
    model = LinearSVC(probability="platt", callback=callback, random_state=0).fit(X, y)
    assert len(calls) < total
    assert not hasattr(model, "calibrators_")
    with pytest.raises(NotFittedError, match="the calibration was interrupted"):
        model.predict_proba(X)


# Early stopping.


def test_the_solution_is_the_best_by_validation_and_certified_as_it_is():
    X, y = noisy(600, 100)
    signs = 2.0 * y - 1
    problem = LinearProblem(X[:150], signs[:150], 10.0)
    stop = ValidationLoss(X[150:], signs[150:], patience=20) | Epochs(100)
    found = solve(problem, "dcd", stop=stop)
    losses = found.trace["validation_loss"]
    assert losses.min() < losses[-1]
    margins = signs[150:] * (X[150:] @ found.w)
    assert np.mean(np.maximum(0, 1 - margins)) == pytest.approx(losses.min())
    assert found.certificate.primal == pytest.approx(problem.primal(found.w), rel=1e-12)
    assert found.certificate.dual == pytest.approx(problem.dual(found.alpha))
    assert found.status is Status.BUDGET
    assert "since the held-out loss stopped falling, with the weights of epoch" in found.message


def test_a_run_that_converges_still_answers_with_the_best_by_validation():
    X, y = noisy(600, 100)
    signs = 2.0 * y - 1
    problem = LinearProblem(X[:150], signs[:150], 10.0)
    stop = ValidationLoss(X[150:], signs[150:], patience=10**6) | Gap(1e-4) | Epochs(10**6)
    found = solve(problem, "dcd", stop=stop)
    assert found.trace[-1].relative_gap <= 1e-4
    assert found.certificate.relative_gap > 1e-4
    assert found.status is Status.BUDGET
    assert "with the weights of epoch" in found.message


def test_measuring_alone_changes_nothing():
    X, y = noisy(600, 100)
    signs = 2.0 * y - 1
    problem = LinearProblem(X[:150], signs[:150], 10.0)
    plain = solve(problem, "pegasos", stop=Epochs(20))
    watched = solve(problem, "pegasos", stop=HeldOutLoss(X[150:], signs[150:]) | Epochs(20))
    assert watched.certificate.primal <= plain.certificate.primal
    assert watched.certificate.primal == watched.trace["primal"].min()
    assert len(watched.trace["validation_error"]) == 20


@pytest.mark.parametrize("way", ["ovr", "ovo", "crammer_singer"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_early_stopping_of_the_estimator(way, n_classes):
    X, y = noisy(500, 120, n_classes=n_classes)
    test, truth = noisy(3000, 120, n_classes=n_classes, seed=9)
    options = {"loss": "hinge", "multi_class": way, "random_state": 0, "tol": 1e-6, "max_iter": 300}
    solver = {} if way == "crammer_singer" else {"solver": "dcd"}
    early = LinearSVC(
        10.0, early_stopping=True, validation_fraction=0.2, n_iter_no_change=10, **options, **solver
    )
    early.fit(X, y, np.random.default_rng(0).uniform(0.5, 2, len(y)))  # no warning: as asked
    assert early.status_ is Status.BUDGET
    assert early.certificate_.relative_gap > 1e-3
    with pytest.warns(GapWarning):
        full = LinearSVC(10.0, **options, **solver).fit(X, y)
    assert early.n_iter_ < full.n_iter_
    assert early.score(test, truth) > full.score(test, truth) - 0.03  # from fewer rows
    losses = early.traces_[0]["validation_loss"]
    assert np.isfinite(losses).all()


def test_rows_held_out_are_not_learned_from():
    X, y = noisy(400, 20)
    model = LinearSVC(
        1.0, early_stopping=True, validation_fraction=0.25, random_state=0, solver="dcd"
    ).fit(X, y)  # fmt: skip
    assert model.weighted_  # not the objective of all rows, as far as model files know
    unused = model.dual_coef_[0] == 0
    assert unused.sum() >= 100
    again = LinearSVC(
        1.0, early_stopping=True, validation_fraction=0.25, random_state=0, solver="dcd"
    ).fit(X, y)  # fmt: skip
    assert np.array_equal(model.coef_, again.coef_)


def test_what_early_stopping_refuses():
    X, y = noisy(100, 5)
    with pytest.raises(ValueError, match="validation_fraction must be between 0 and 1"):
        LinearSVC(early_stopping=True, validation_fraction=1.5).fit(X, y)
    for way in ("ovr", "ovo", "crammer_singer"):
        with pytest.raises(ValueError, match="patience must be at least 1"):
            LinearSVC(early_stopping=True, n_iter_no_change=0, multi_class=way).fit(X, y)
    with pytest.raises(ValueError, match="early_stopping and probability cannot be combined"):
        LinearSVC(early_stopping=True, probability="platt").fit(X, y)
    with pytest.raises(ValueError, match="needs a class of two rows or more"):
        LinearSVC(early_stopping=True).fit(X[:2], [0, 1])
