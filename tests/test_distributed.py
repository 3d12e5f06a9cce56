"""A problem in parts, in this process: the same optimum, true certificates, losses survived."""

from __future__ import annotations

import gc
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import DistributedProblem, Epochs, Gap, LinearProblem, Status, _core, certify, solve
from bridle.data import make_corpus
from bridle.fitting.calibration import Calibration
from bridle.fitting.certification import certify_model
from bridle.fitting.cross_validation import choose_cost_on_cluster
from bridle.fitting.early_stopping import EarlyStopping, HeldOutRows
from bridle.fitting.fit import Extras, fit, gathered
from bridle.fitting.multiclass import Effort, solve_problems
from bridle.fitting.problems import ClusterProblems, Task
from bridle.matrix.fingerprint import fingerprint
from bridle.rows.base import LEVEL
from bridle.rows.cluster import blocks, price
from bridle.rows.cluster.blocks import Block
from bridle.rows.cluster.local import LocalParts
from bridle.rows.cluster.messages import (
    Against,
    Aside,
    FirstShare,
    Look,
    PartsLostError,
    Share,
)
from bridle.rows.cluster.packed import pack, unpack, weight_of
from bridle.rows.cluster.part import Part
from bridle.rows.cluster.resident import LostError
from bridle.rows.cluster.state import BANDS
from bridle.solvers.cocoa import Caution, Cocoa, Line, Rounds
from hypothesis import given, settings
from hypothesis import strategies as st

TOL = 1e-3
STOP = Gap(TOL) | Epochs(300)


@pytest.fixture(scope="module")
def corpus():
    X, y = make_corpus(1500, seed=3)
    return X.astype(np.float32), y


def check_certificate(solution, X, y, C, *, loss, bias, weight=None, order=slice(None)):
    """In plain NumPy, from w, b and the gathered alpha."""
    X = sp.csr_matrix(X[order], dtype=np.float64)
    y = np.asarray(y, float)[order]
    cost = C * (np.ones(len(y)) if weight is None else np.asarray(weight, float)[order])
    alpha = np.asarray(solution.alpha)
    w, b = solution.w, solution.b
    hinge = np.maximum(0.0, 1.0 - y * (X @ w + b))
    combined = X.T @ (alpha * y)
    primal, dual = 0.5 * w @ w, alpha.sum() - 0.5 * combined @ combined
    assert (alpha >= 0).all()
    if loss == "hinge":
        assert (alpha <= cost).all()
        primal += cost @ hinge
    else:
        used = cost > 0
        primal += cost @ hinge**2
        dual -= (alpha[used] ** 2 / (4 * cost[used])).sum()
        assert (alpha[~used] == 0).all()
    if bias == "regularised":
        primal, dual = primal + 0.5 * b * b, dual - 0.5 * (alpha @ y) ** 2
    elif bias == "free":
        assert abs(alpha @ y) <= 1e-9 * alpha.sum()
    else:
        assert b == 0
    found = solution.certificate
    assert found.primal == pytest.approx(primal, rel=1e-10)
    assert found.dual == pytest.approx(min(dual, primal), rel=1e-10)


CASES = list(itertools.product(("hinge", "squared_hinge"), ("none", "regularised", "free")))


@pytest.mark.parametrize(("loss", "bias"), CASES)
@pytest.mark.parametrize("n_parts", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_of_one_machine_with_a_true_certificate(
    corpus, loss, bias, n_parts, dtype, weighted
):
    X, y = corpus[0][:400].astype(dtype), corpus[1][:400]
    weight = None
    if weighted:
        weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    parts = LocalParts(X, y, n_parts, weight, shuffle=5)
    problem = DistributedProblem(parts, 0.5, loss=loss, bias=bias)
    found = solve(problem, "auto", stop=STOP, seed=1)
    assert found.converged
    assert found.solver == "cocoa"
    check_certificate(found, X, y, 0.5, loss=loss, bias=bias, weight=weight, order=parts.order)
    one = LinearProblem(X, y, 0.5, loss=loss, bias=bias, sample_weight=weight)
    best = solve(one, "dcd", stop=Gap(1e-6) | Epochs(3000)).certificate
    assert best.dual * (1 - 1e-9) <= found.certificate.primal <= best.primal / (1 - TOL)


@pytest.mark.parametrize("work", [0.05, 1.0, 2.5])
def test_any_amount_of_local_work_converges(corpus, work):
    X, y = corpus
    problem = DistributedProblem(LocalParts(X, y, 4), 0.1)
    found = solve(problem, Cocoa(work=work, gather=0), stop=STOP)
    assert found.converged
    assert problem.sides.report.gathered == 0
    check_certificate(found, X, y, 0.1, loss="hinge", bias="none")
    # Epochs are visits: rows that rest at their bounds are not visited, and buckets are whole.
    assert found.epochs == found.steps / len(y)
    assert found.epochs <= 1 + 1.5 * work * problem.sides.report.rounds  # the first is an epoch
    assert problem.sides.report.rounds >= 2


@pytest.mark.parametrize("gather", [0, 8])
def test_the_dual_never_falls(corpus, gather):
    X, y = corpus
    found = solve(
        DistributedProblem(LocalParts(X, y, 8), 1.0), Cocoa(work=0.5, gather=gather),
        stop=Epochs(10), callbacks=[lambda record: None],
    )  # fmt: skip
    assert (np.diff(found.trace["dual"]) >= 0).all()


@pytest.mark.parametrize(("loss", "bias"), CASES)
@pytest.mark.parametrize("gather", [0, 0.1, 8])
def test_late_rounds_are_worked_on_in_one_place(corpus, monkeypatch, loss, bias, gather):
    """Never, when few rows move, and at once; with a part of several blocks, dense or not."""
    monkeypatch.setattr(price, "LATENCY", 0.0)
    X, y = corpus[0][:600], corpus[1][:600]
    parts = LocalParts(X, y, 3)
    parts.parts[1] = Part(
        1, [Block("a", X[200:330], y[200:330]), Block("b", X[330:400], y[330:400])]
    )
    problem = DistributedProblem(parts, 0.3, loss=loss, bias=bias)
    found = solve(problem, Cocoa(work=0.1, gather=gather), stop=Gap(1e-4) | Epochs(600))
    assert found.converged
    check_certificate(found, X, y, 0.3, loss=loss, bias=bias)
    report = problem.sides.report
    # With the squared hinge rows on the wrong side never rest: many move, and they come late.
    if gather in (0, 8) or loss == "hinge":
        assert (report.gathered > 0) == (gather > 0)
    if gather == 8:
        assert report.rounds + report.gathered <= 30


def test_rows_that_may_move_are_those_whose_alpha_is_not_what_the_margin_asks_for():
    margins = np.array([1.3, 1.3, 1.04, 0.97, 0.7, 0.7, 1.0])
    alpha = np.array([0.0, 0.2, 0.0, 1.0, 1.0, 0.9, 0.5])
    part = Part(0, [Block("rows", np.diag(margins), np.ones(7))])
    part.encode(np.array([-1, 1]))
    part.open(0, Against(1.0, "hinge", "none", 1.0, 1), 0, None, None)
    state = part.runs[0].states[0]
    state.out = [np.arange(7)]
    state.take_back([alpha])
    state.out = []
    near = part.near(0, 1.0, True, np.ones(8), 0.0)
    each = 7 * 8 + 16
    narrowest, widest = [1, 5, 6], range(7)
    assert near.tolist() == [7 * each, 5 * each, 5 * each, 5 * each, 3 * each]
    share = part.gather(0, 1.0, len(BANDS) - 1)
    assert np.array_equal(share.X[0], np.diag(margins)[narrowest])
    assert np.array_equal(share.alpha, alpha[narrowest])
    # What was handed out is taken back in that order, and is not counted again.
    part.accept(0, 1.0, [np.array([0.1, 0.3, 0.4])])
    assert np.allclose(state.alpha()[narrowest], [0.1, 0.3, 0.4])
    left = part.near(0, 1.0, False, np.ones(8), 0.0)
    assert left.tolist() == [(len(widest) - 3) * each, 2 * each, 2 * each, 2 * each, 0]
    # After a certificate at these weights nobody need look at the rows again.
    part.judge(0, 1.0, np.ones(8), LEVEL, 0, None)
    again = part.near(0, 1.0, False, None, 0.0)
    assert np.array_equal(again, left)


def test_work_follows_from_the_price_of_a_message(corpus):
    X, y = corpus
    small, large = (
        price.worthwhile_work(DistributedProblem(LocalParts(rows, labels, 2)).sides.begin(None, 0))
        for rows, labels in ((X, y), (sp.vstack([X] * 8).tocsr(), np.tile(y, 8)))
    )
    assert small == pytest.approx(8 * large)
    # That many epochs take three times as long as the messages.
    vectors = 2 * 2 * 4 * (X.shape[1] + 1)
    seconds = small * X.nnz / 2 / price.RATE
    assert seconds == pytest.approx(3 * (vectors / price.BANDWIDTH + price.LATENCY))
    for bad in ({"work": 0.0}, {"gather": -1.0}, {"gather": np.inf}):
        with pytest.raises(ValueError, match=r"work|gather"):
            Cocoa(**bad)


@given(st.integers(0, 2000), st.floats(0, 1), st.sampled_from([0.0, 3.0, -1e-30]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_packed_messages_are_the_same(size, share, most, single):
    rng = np.random.default_rng(size)
    vector = np.where(rng.random(size) < share, rng.normal(size=size), most)
    vector = vector.astype(np.float32 if single else np.float64)
    sent = pack((1, [vector, Share((), np.empty(0), vector)], "w", {"a": 1}))
    one, (two, three), *rest = unpack(sent)
    for found in (two, three.alpha):
        assert np.array_equal(found, vector)
        assert found.dtype == vector.dtype
    assert (one, three.X, rest) == (1, (), ["w", {"a": 1}])
    assert weight_of(sent) <= 2 * vector.nbytes
    if share < 0.2 and size > 300:
        assert weight_of(sent) < vector.nbytes


def test_a_round_weighs_no_more_than_the_features_that_parts_have(corpus):
    """Of w, caution and step only what is not zero travels, in the precision of the data."""
    X, y = corpus[0][:60], corpus[1][:60]
    parts = LocalParts(X, y, 2)
    problem = DistributedProblem(parts, 0.5)
    before = parts.bytes_moved
    rounds = Cocoa(work=0.5, gather=0).iterates(problem, rng=_core.Rng(0))
    next(rounds)
    own = sum(np.unique(X[half].indices).size for half in (slice(0, 30), slice(30, 60)))
    # From zero: the first w, all dual variables and one caution for all features weigh nothing.
    # The step, and how far each weight was pushed.
    assert 0 < parts.bytes_moved - before <= 2 * 8 * (own + 2)  # the bias, too
    before, known = parts.bytes_moved, np.unique(X.indices).size
    next(rounds)
    told = 2 * 8 * known * 2  # w, and a caution for each feature of which something is known
    assert 0 < parts.bytes_moved - before <= told + 8 * own
    assert told + 8 * own < 2 * 2 * 4 * X.shape[1]  # what dense vectors would weigh


def test_the_same_seed_gives_the_same_bits(corpus):
    X, y = corpus
    runs = [
        solve(DistributedProblem(LocalParts(X, y, 3), 0.5, bias="regularised"), stop=STOP, seed=7)
        for _ in range(2)
    ]
    assert np.array_equal(runs[0].w, runs[1].w)
    assert runs[0].certificate == runs[1].certificate


def test_dense_blocks_of_float64_and_rows_of_zeros():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 6))
    X[17] = 0
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=200) > 0, 1.0, -1.0)
    found = solve(DistributedProblem(LocalParts(X, y, 3), 0.1, bias="regularised"), stop=STOP)
    assert found.converged
    check_certificate(found, X, y, 0.1, loss="hinge", bias="regularised")


def test_a_class_against_the_rest(corpus):
    X, _ = corpus
    y = np.random.default_rng(0).choice(["a", "b", "c"], X.shape[0])
    problem = DistributedProblem(LocalParts(X, y, 2), 0.05).variant(positive=2)
    found = solve(problem, stop=STOP)
    assert found.converged
    check_certificate(found, X, np.where(y == "c", 1, -1), 0.05, loss="hinge", bias="none")


class Flaky(LocalParts):
    """Loses a part now and then, in the middle of anything."""

    def __init__(self, *arguments, seed, chance=0.05, most=12):
        self.rng, self.chance, self.left, self.calm = (
            np.random.default_rng(seed),
            chance,
            most,
            True,
        )
        super().__init__(*arguments)

    def call(self, method, *arguments, only=None):
        chosen = list(range(len(self)) if only is None else only)
        if self.calm or self.left == 0 or self.rng.random() > self.chance:
            return super().call(method, *arguments, only=only)
        self.left -= 1
        gone = int(self.rng.choice(chosen))
        for k in chosen[: self.rng.integers(len(chosen) + 1)]:  # some heard, some did not
            if k != gone:
                super().call(method, *arguments, only=[k])
        self.lose(gone)
        raise PartsLostError([gone], f"part {gone}")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bias", ["regularised", "free"])
@pytest.mark.parametrize(("keep", "gather"), [(False, 0), (True, 0), (False, 0.05), (True, 1)])
def test_lost_parts_never_make_a_certificate_false(corpus, tmp_path, seed, bias, keep, gather):
    X, y = corpus
    parts = Flaky(X, y, 4, seed=seed, chance=0.2 if gather else 0.05)
    checkpoint = tmp_path if keep else None
    problem = DistributedProblem(parts, 0.3, bias=bias, checkpoint=checkpoint)
    parts.calm = False
    found = solve(problem, Cocoa(work=0.05, gather=gather), stop=STOP)
    parts.calm = True
    assert found.converged
    assert problem.sides.report.losses
    check_certificate(found, X, y, 0.3, loss="hinge", bias=bias)


def test_a_checkpoint_saves_the_work_of_a_lost_part(corpus, tmp_path):
    X, y = corpus
    parts = LocalParts(X, y, 3)
    problem = DistributedProblem(parts, 0.3, checkpoint=tmp_path)
    solve(problem, stop=STOP)
    saved = np.load(next(tmp_path.glob("*-1.npy")))
    assert saved.shape == (500,)
    parts.lose(1)
    problem.sides.run.recover(PartsLostError([1], "part 1"))
    alpha = np.concatenate(
        [state.alpha() for state in parts.parts[1].runs[problem.sides.run.number].states]
    )
    assert np.allclose(alpha, saved, rtol=1e-6)


@pytest.mark.parametrize("bias", ["regularised", "free"])
def test_a_part_that_another_solve_saw_go_begins_anew_in_this_one(corpus, bias):
    X, y = corpus
    parts = LocalParts(X, y, 3)
    problem = DistributedProblem(parts, 0.3, bias=bias)
    gone = []

    def lose(_record):
        if not gone:
            parts.lose(1)
            gone.extend(parts.call("encode", problem.rows.classes, only=[1]))

    found = solve(problem, Cocoa(work=0.05), stop=STOP, callbacks=[lose])
    assert gone
    assert found.converged
    assert "part 1 was read again" in problem.sides.report.losses[0]
    check_certificate(found, X, y, 0.3, loss="hinge", bias=bias)
    again = pickle.loads(pickle.dumps(PartsLostError([1, 2], "both")))
    assert (again.numbers, str(again)) == ((1, 2), "both")


def test_a_look_at_some_rows_shows_the_gap_of_all():
    """Of rows in play and at rest alike, at any weights; scores are of rows in play alone."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(800, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=800) > 0, 1.0, -1.0)
    rows = _core.matrix.dense_rows(X, 0.0, X)
    part = _core.steps.dcd_part(rows, "hinge", y, (X**2).sum(axis=1), np.zeros(800))
    w, alpha, scores = np.zeros(5), np.empty(800), np.empty(800)
    for _ in range(4):
        part.visit(_core.Rng(1), 4, 1.0, w, 0.0, 0.0, w)
    part.alpha(alpha)
    w, b = np.append(0.1 * rng.normal(size=4), 0.0), 0.2
    part.scores(w, b, scores)
    resting = np.isnan(scores)
    assert resting.sum() == 800 - part.n_active > 0
    margins = y * (X @ w[:4] + b)
    assert np.allclose((y * scores)[~resting], margins[~resting])
    gaps = np.maximum(0, 1 - margins) + alpha * (margins - 1)
    look = part.look(_core.Rng(2), 40_000, w, b)
    for found, chosen in ((look.active, ~resting), (look.resting, resting)):
        assert abs(found.gap - gaps[chosen].sum()) <= 4 * found.error
        assert found.error < 0.1 * gaps[chosen].sum()


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_dual_is_known_between_certificates(corpus, n_parts, loss):
    X, y = corpus
    problem = DistributedProblem(LocalParts(X, y, n_parts), 0.3, loss=loss, bias="regularised")
    seen = []
    for k, iterate in enumerate(Cocoa(work=0.3).iterates(problem, rng=_core.Rng(0))):
        before = problem.sides.run.dual
        judged = problem.judge(iterate)
        assert judged.dual == pytest.approx(before, rel=1e-5)
        if k:
            gap = (judged.primal - judged.dual) / judged.primal
            seen.append((iterate.gap_estimate, gap))
        if k == 6:
            break
    # Of one part the guess is of this iterate, else of the one before; of rows that were drawn.
    if n_parts == 1:
        assert all(0.5 * gap < guess < 2 * gap for guess, gap in seen)


def test_rows_that_were_visited_after_they_were_gathered_are_gathered_anew(corpus):
    X, y = corpus
    problem = DistributedProblem(LocalParts(X, y, 3), 0.3, bias="free")
    run = problem.sides.begin(None, 0)
    rounds = Rounds(Cocoa(gather=100.0), run, _core.Rng(0))
    rounds.one()
    for _ in range(2):
        assert rounds.here.fetch()
        rounds.here.solve(rounds.rng, 32)
        rounds.learn(run.visit(**rounds.order()))
        w = np.sum([one[0] for one in run.call("settle")], axis=0)[:-1]
        assert np.allclose(w, run.w, atol=1e-5)


def test_rows_at_rest_that_cost_more_than_the_others_are_visited_again(corpus):
    X, y = corpus
    problem = DistributedProblem(LocalParts(X, y, 2), 0.3)
    run = problem.sides.begin(None, 0)
    rounds = Rounds(Cocoa(), run, _core.Rng(0))
    part = problem.rows.parts.parts[0].runs[run.number]
    for _ in range(12):
        if part.states[0].descent.n_active < part.states[0].block.n_rows:
            break
        rounds.learn(run.visit(**rounds.order()))
    assert part.states[0].descent.n_active < part.states[0].block.n_rows
    assert not rounds.seen.wake
    order = run.order(**rounds.order())
    steps = run.parts.call("visit", run.number, order)
    rounds.seen.add(0.1, [replace(step, look=Look(1.0, 1.5, 0.1)) for step in steps], run)
    assert rounds.order()["wake"]
    part.visit(replace(order, wake=True, epochs=1e-9, look=0))
    assert part.states[0].descent.n_active == part.states[0].block.n_rows


def test_more_parts_than_rows_to_draw(corpus, monkeypatch):
    X, y = corpus
    for name in ("LEAST_DRAWN", "MOST_DRAWN"):
        monkeypatch.setattr(f"bridle.solvers.cocoa.{name}", 1)
    assert solve(DistributedProblem(LocalParts(X, y, 3), 0.3), stop=STOP).converged


def test_lost_dual_variables_are_not_handed_out(corpus):
    X, y = corpus
    parts = LocalParts(X, y, 2)
    found = solve(DistributedProblem(parts, 0.3), stop=STOP)
    parts.lose(0)
    with pytest.raises(LostError, match="lost"):
        np.asarray(found.alpha)


def test_workers_forget_what_nobody_can_ask_for(corpus, tmp_path):
    X, _ = corpus
    y = np.random.default_rng(0).integers(0, 4, X.shape[0])
    parts = LocalParts(X, y, 2)
    problems = ClusterProblems(parts, Task(0.05), tmp_path)
    problem = problems.base
    found = solve_problems(problems, Effort(stop=STOP))
    assert not any(part.runs for part in parts.parts)
    assert not list(tmp_path.iterdir())
    assert all(len(part.snapshots) <= 5 for part in parts.parts)  # one a class, one to be forgotten
    alpha, lost = gathered(problems, found)
    assert lost is None
    assert alpha.shape == (4, len(y))
    parts.lose(1)
    alpha, lost = gathered(problems, found)
    assert alpha is None
    assert "lost" in lost
    problem.rows.encode([1])
    del found
    gc.collect()
    solve(problem.variant(C=0.1, positive=1), stop=Epochs(1))
    assert all(len(part.snapshots) <= 2 for part in parts.parts)


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
def test_a_sample_is_that_of_one_machine(corpus, bias):
    X, y = corpus
    weight = np.arange(len(y)) % 3.0
    parts = DistributedProblem(LocalParts(X, y, 3, weight), 2.0, bias=bias, bias_scale=0.5)
    whole = LinearProblem(X, y, 2.0, bias=bias, bias_scale=0.5, sample_weight=weight)
    ours, theirs = parts.sample(50, 1), whole.sample(50, 1)
    np.testing.assert_array_equal(ours.X.toarray(), theirs.X.toarray())
    np.testing.assert_array_equal(ours.y, theirs.y)
    np.testing.assert_allclose(ours.cost, theirs.cost)
    w = np.random.default_rng(0).normal(size=X.shape[1])
    b = 0.0 if bias == "none" else 0.3
    np.testing.assert_allclose(parts.scores(w, b), whole.scores(w, b))
    assert ours.primal(w, b) == pytest.approx(theirs.primal(w, b))


def test_the_fingerprint_is_that_of_one_machine(corpus):
    X, y = corpus
    for n_parts in (1, 3):
        assert DistributedProblem(LocalParts(X, y, n_parts)).rows.fingerprint() == fingerprint(X, y)
    dense = X[:, :50].toarray()
    assert DistributedProblem(LocalParts(dense, y, 2)).rows.fingerprint() == fingerprint(dense, y)


def test_bad_blocks_are_named():
    X, y = np.ones((4, 3)), np.array([1, -1, 1, -1])
    with pytest.raises(ValueError, match="partition 5 is empty"):
        Part(0, [Block("partition 5", X[:0], y[:0])])
    with pytest.raises(ValueError, match=r"rows.arrow has 2 features, but a.arrow has 3"):
        Part(0, [Block("a.arrow", X, y), Block("rows.arrow", X[:, :2], y)])
    with pytest.raises(ValueError, match=r"b.arrow counts features from 0, but a.arrow from 1"):
        Part(0, [Block("a.arrow", X, y), Block("b.arrow", X, y, zero_based=True)])
    with pytest.raises(ValueError, match=r"partition 1: 4 rows, but labels of shape \(3,\)"):
        Part(0, [Block("partition 1", X, y[:3])])
    with pytest.raises(ValueError, match=r"partition 2: .*NaN"):
        Part(0, [Block("partition 2", X * np.nan, y)])
    with pytest.raises(ValueError, match="partition 3: sample_weight must not be negative"):
        Part(0, [Block("partition 3", X, y, -np.ones(4))])
    with pytest.raises(ValueError, match="at least two classes"):
        DistributedProblem(LocalParts(X, np.ones(4), 2))
    with pytest.raises(ValueError, match="hard margin"):
        solve(DistributedProblem(LocalParts(X, y, 2), np.inf))
    with pytest.raises(ValueError, match="needs rows in this process"):
        solve(DistributedProblem(LocalParts(X, y, 2)), "dcd")


def test_the_kernel_of_a_part_equals_its_twin():
    """One visit with a caution for each feature, on the same permutation; a step kept by half."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9, 4))
    y = np.where(rng.random(9) < 0.5, 1.0, -1.0)
    w, b, response, C = rng.normal(size=5), 0.3, 0.2, 0.4
    w[-1] = 0.0
    caution = np.array([2.5, 1.0, 3.0, 1.5, 2.0])
    squared = (X**2).sum(axis=1)
    rows = _core.matrix.dense_rows(X, 0.0, X)
    kernel = _core.steps.dcd_part(rows, "squared_hinge", C * y, squared, np.zeros(9))
    step = np.zeros(5)
    kernel.set_caution(caution)
    done = kernel.visit(_core.Rng(3), 1, 1.0, w, b, response, step)
    order = np.empty(9, np.int64)
    _core.Rng(3).permutation(order)
    alpha, local, bias, curvature = np.zeros(9), w.copy(), b, 1 / (2 * C)
    for i in order:
        gradient = y[i] * (X[i] @ local[:4] + bias) - 1 + alpha[i] * curvature
        length = caution[:4] @ X[i] ** 2 + caution[4] * response
        delta = max(-alpha[i], -gradient / (length + curvature))
        alpha[i] += delta
        local[:4] += caution[:4] * delta * y[i] * X[i]
        bias += caution[4] * response * delta * y[i]
    assert done.visits == 9
    assert done.finished
    assert done.whole
    assert np.allclose(step[:4], X.T @ (alpha * y), atol=1e-12)
    moved = kernel.moved()
    assert moved.balance == pytest.approx(alpha @ y)
    assert moved.curvature == pytest.approx(curvature * alpha @ alpha)
    assert moved.separable == pytest.approx(alpha.sum() - 0.5 * curvature * alpha @ alpha)
    kernel.keep(0.5)
    out = np.empty(9)
    kernel.alpha(out)
    assert np.allclose(out, 0.5 * alpha, atol=1e-12)
    for bad in (caution[:4], 0 * caution, np.inf * caution):
        with pytest.raises(ValueError, match="caution"):
            kernel.set_caution(bad)


def test_the_first_epoch_of_a_part_equals_its_twin():
    """Of t rows seen by all parts, their problem with costs m/t C stands for the whole."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(9, 4))
    y = np.where(rng.random(9) < 0.5, 1.0, -1.0)
    v, b, response, balance, C = rng.normal(size=5), 0.3, 0.2, 0.7, 0.4
    v[-1] = 0.0
    caution, squared = np.array([2.5, 1.0, 3.0, 1.5, 2.0]), (X**2).sum(axis=1)
    rows = _core.matrix.dense_rows(X, 0.0, X)
    kernel = _core.steps.dcd_part(rows, "hinge", C * y, squared, np.zeros(9))
    kernel.set_caution(caution)
    step, first = np.zeros(5), FirstShare(27.0, 4.0, 6.0, 3.0)
    done = kernel.visit(_core.Rng(3), 1, 1.0, v, b, response, step, balance, first)
    order = np.empty(9, np.int64)
    _core.Rng(3).permutation(order)
    alpha, local = np.zeros(9), v.copy()
    for k, i in enumerate(order):
        scale = (27 + 4) / (6 + 3 * k + 4)
        change = balance + caution[4] * (alpha @ y)
        bias = b + response * (scale * change - balance)
        gradient = y[i] * (scale * X[i] @ local[:4] + bias) - 1
        length = scale * (caution[:4] @ X[i] ** 2 + caution[4] * response)
        alpha[i] = np.clip(-gradient / length, 0, C)
        local[:4] += caution[:4] * alpha[i] * y[i] * X[i]
    assert done.visits == 9
    assert done.finished
    assert np.allclose(step[:4], X.T @ (alpha * y), atol=1e-12)
    out = np.empty(9)
    kernel.alpha(out)
    assert np.allclose(out, alpha, atol=1e-12)
    assert alpha.max() > 0
    assert first.after(9).rows_seen == 33


def test_dual_variables_from_outside():
    """Rows in play take them; where one of them rests, all are in play again."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
    rows = _core.matrix.dense_rows(X, 0.0, X)
    part = _core.steps.dcd_part(rows, "hinge", y, (X**2).sum(axis=1), np.zeros(200))
    w, before, after = np.zeros(5), np.empty(200), np.empty(200)
    for _ in range(5):
        part.visit(_core.Rng(1), 4, 1.0, w, 0.0, 0.0, w)
    resting = np.empty(200, np.uint8)
    part.resting(resting)
    assert resting.sum() == 200 - part.n_active > 0
    part.keep(1.0)
    for chosen, n_active in (
        (np.flatnonzero(resting == 0)[:7], part.n_active),
        (np.flatnonzero(resting)[:3], 200),
    ):
        part.alpha(before)
        before[chosen] = 0.25
        part.set_alpha(chosen, before[chosen])
        part.alpha(after)
        assert np.array_equal(before, after)
        assert part.moved().balance == 0
        assert part.n_active == n_active
    with pytest.raises(ValueError, match="rows"):
        part.set_alpha(np.array([200]), np.zeros(1))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_what_is_not_kept_of_a_step_is_undone(loss):
    """Whatever was visited how often, left out or woken up since; in rounds of any length."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 4))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=200) > 0, 1.0, -1.0)
    C, squared = 2.0, (X**2).sum(axis=1)
    rows = _core.matrix.dense_rows(X, 0.0, X)
    kernel = _core.steps.dcd_part(rows, loss, C * y, squared, np.zeros(200))
    orders, w, before, left_out = _core.Rng(1), np.zeros(5), np.zeros(200), 0
    curvature = 0.0 if loss == "hinge" else 1 / (2 * C)
    for k in range(60):
        step, now, after = np.zeros(5), np.empty(200), np.empty(200)
        for _ in range(rng.integers(1, 4)):
            kernel.visit(orders, 4, rng.choice([0.2, 0.7, 1.0]), w, 0.0, 0.0, step)
            left_out = max(left_out, 200 - kernel.n_active)
        if k % 9 == 8:
            kernel.unshrink()
        kernel.alpha(now)
        moved, delta = kernel.moved(), now - before
        assert moved.balance == pytest.approx(delta @ y, abs=1e-12)
        assert moved.curvature == pytest.approx(curvature * delta @ delta)
        separable = delta.sum() - 0.5 * curvature * (now @ now - before @ before)
        assert moved.separable == pytest.approx(separable, abs=1e-12)
        part = rng.choice([0.0, 0.5, 1.0])
        kernel.keep(part)
        kernel.alpha(after)
        assert np.allclose(after, before + part * delta, atol=1e-14)
        assert kernel.moved().balance == 0
        w[:4], before = X.T @ (after * y), after
    assert left_out > 20


def test_caution_is_what_the_parts_agreed_on():
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=3), rng.normal(size=(4, 5))
    # Of the first three features all parts say the same; of the next four one part each; of the
    # last one, nobody has said anything yet.
    said = np.zeros((4, 9))
    said[:, :3], said[range(4), range(3, 7)] = common, own[range(4), range(4)]
    caution = Caution(4, 9)
    first = caution.order(0.1)
    assert np.array_equal(first["caution"], np.full(9, 4.0))
    assert first["tell"]
    assert first["memory"] == 0.0
    summed = said.sum(axis=0)
    caution.learn(Line(summed, 0.0, 1.0, (0.0, 0.0), (said**2).sum(axis=0)), 0.1)
    told = caution.order(0.1)["caution"]
    assert np.allclose(told[:3], 4)
    assert np.allclose(told[3:7], 1)
    assert 1 < told[7] < 4
    # With these the parts' models add up to the length of the summed step.
    assert (told * said**2).sum() == pytest.approx(summed @ summed)


@pytest.mark.parametrize("n_parts", [2, 16])
def test_more_parts_do_not_take_many_more_visits(n_parts):
    X, y = make_corpus(4000, seed=1)
    one = solve(LinearProblem(X, y, 1.0, bias="regularised"), "dcd", stop=STOP)
    parts = LocalParts(X, y, n_parts, shuffle=0)
    found = solve(DistributedProblem(parts, 1.0, bias="regularised"), stop=STOP)
    assert found.converged
    assert found.epochs <= {2: 2, 16: 4}[n_parts] * one.epochs


def test_parts_of_one_class_each(corpus):
    X, y = corpus
    order = np.argsort(y, kind="stable")
    problem = DistributedProblem(LocalParts(X[order], y[order], 4), 0.3, bias="regularised")
    found = solve(problem, stop=STOP)
    assert found.converged
    check_certificate(found, X[order], y[order], 0.3, loss="hinge", bias="regularised")


@pytest.mark.parametrize("method", ["forget", "codes", "errors"])
def test_a_part_lost_between_runs_learns_its_classes_again(corpus, method):
    X, y = corpus
    parts = LocalParts(X, y, 3)
    problem = DistributedProblem(parts, 0.3)
    first = solve(problem, stop=STOP)
    whole, left = parts.call, [True]

    def call(name, *arguments, only=None):
        if name == method and left:
            left.clear()
            parts.lose(1)
            raise PartsLostError([1], "part 1")
        return whole(name, *arguments, only=only)

    parts.call = call
    if method == "forget":
        check_certificate(solve(problem, stop=STOP), X, y, 0.3, loss="hinge", bias="none")
    elif method == "codes":
        assert np.array_equal(np.concatenate(problem.rows.ask("codes")), (y > 0) * 1)
    else:
        found = problem.rows.ask("errors", first.w[None], np.zeros(1))
        assert sum(used for _, used in found) == len(y)
    assert not left


def three_classes(corpus):
    X, y = corpus
    return X, np.where(y > 0, 2, np.arange(len(y)) % 2)


def rows_aside(parts, aside):
    return np.concatenate([block.aside(aside) for part in parts.parts for block in part.blocks])


@pytest.mark.parametrize("class_weight", [None, "balanced", {1: 3.0}])
def test_rows_that_are_set_aside_weigh_nothing(corpus, class_weight):
    X, labels = three_classes(corpus)
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], len(labels))
    parts = LocalParts(X, labels, 3, weight)
    problems = ClusterProblems(parts, Task(0.5, class_weight=class_weight, bias="regularised"))
    seen = np.zeros(len(labels), int)
    for k in range(4):
        aside = Aside.fold(k, 4, 7)
        own = problems.without(aside)
        mask = rows_aside(parts, aside)
        seen += mask
        for code in range(3):  # a quarter of each class
            mine = (labels == code) & (weight > 0)
            assert abs((mask & mine).sum() - 0.25 * mine.sum()) <= 3
        training = np.where(mask, 0.0, weight)
        factor = np.ones(3) if class_weight is None else np.array([1.0, 3.0, 1.0])
        if class_weight == "balanced":
            factor = training.sum() / (3 * np.bincount(labels, training))
        found = solve(own.problem(1), Cocoa(), stop=STOP)
        check_certificate(
            found, X, np.where(labels == 1, 1, -1), 0.5, loss="hinge", bias="regularised",
            weight=training * factor[labels],
        )  # fmt: skip
        assert found.converged
        coef, intercept = found.w[None], np.array([found.b])
        scores, codes, weights = own.held(coef, intercept)
        assert scores[:, 0] == pytest.approx(X[mask] @ found.w + found.b, abs=1e-5)
        assert np.array_equal(codes, labels[mask])
        assert np.array_equal(weights, weight[mask])
        loss, error = own.problem(1).sides.held_loss(found.w, found.b)
        p = np.where(labels == 1, 1, -1) * (X @ found.w + found.b)
        cost = np.where(mask, weight * factor[labels], 0.0)
        assert loss == pytest.approx(np.average(np.maximum(0, 1 - p), weights=cost), rel=1e-5)
        assert error == pytest.approx(np.average(p <= 0, weights=cost), abs=1e-9)
    assert np.array_equal(seen, weight > 0)


@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("several", [False, True])
def test_probabilities_of_rows_on_a_cluster(corpus, method, several):
    """Maps from the scores of models that have not seen the rows, as on one machine."""
    X, labels = three_classes(corpus) if several else corpus
    task = Task(0.5, bias="regularised")
    found = fit(LocalParts(X, labels, 3), task=task, extras=Extras(calibration=Calibration(method)))
    twin = fit(X, labels, task=task, extras=Extras(calibration=Calibration(method)))
    assert found.calibrated.worst_gap <= 1e-3
    ours, theirs = (one.model.predict_proba(X) for one in (found, twin))
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).mean() < 0.05  # the folds differ


def test_early_stopping_on_a_cluster(corpus):
    X, y = corpus
    parts = LocalParts(X, y, 3)
    stop = EarlyStopping(0.2, 3)
    found = fit(
        parts, task=Task(30.0), extras=Extras(early_stopping=stop),
        effort=Effort(Cocoa(work=0.5, gather=0), Gap(1e-9) | Epochs(400), seed=5),
    )  # fmt: skip
    solution = found.solutions.solutions[0]
    losses = [record.validation["validation_loss"] for record in solution.trace]
    mask = rows_aside(parts, Aside(5, 0.0, 0.2))
    assert 0.15 < mask.mean() < 0.25
    assert found.solutions.status is Status.BUDGET
    assert len(losses) > 3
    p = y * (X @ found.model.coef[0])
    assert min(losses) == pytest.approx(np.maximum(0, 1 - p)[mask].mean(), rel=1e-5)
    weight = np.where(mask, 0.0, 1.0)
    w = found.model.coef[0]
    primal = 0.5 * w @ w + 30.0 * weight @ np.maximum(0, 1 - p)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        fit(parts, extras=Extras(early_stopping=EarlyStopping(1.5)))
    held = HeldOutRows(X[:200], y[:200])
    stopped = fit(parts, task=Task(1.0), extras=Extras(held_out=held), effort=Effort(stop=STOP))
    assert stopped.solutions.solutions[0].trace[-1].validation["validation_loss"] > 0


@pytest.mark.parametrize("several", [False, True])
def test_the_choice_of_C_on_a_cluster(corpus, several):
    X, labels = three_classes(corpus) if several else corpus
    Cs = np.array([1e-3, 1e-2, 0.1, 0.12, 1.0])
    parts = LocalParts(X, labels, 3)
    choice = choose_cost_on_cluster(
        parts, 3, Cs, task=Task(bias="regularised"), effort=Effort(stop=STOP, seed=1),
        interrupted=lambda: False,
    )  # fmt: skip
    assert (choice.gaps <= 1e-3).all()
    n = 3 * (3 if several else 1)
    assert choice.n_solves <= n * 5
    for f in range(3):
        mask = rows_aside(parts, Aside.fold(f, 3, 1))
        for j, C in enumerate(Cs):
            twin = fit(X[~mask], labels[~mask], task=Task(C, bias="regularised"))
            accuracy = np.mean(twin.model.predict(X[mask]) == labels[mask])
            assert choice.scores[f, j] == pytest.approx(accuracy, abs=0.03)
    assert np.argmax(choice.scores.mean(axis=0)) == list(Cs).index(choice.C)
    assert not [run for part in parts.parts for run in part.runs]  # nothing is left behind
    grid = choose_cost_on_cluster(
        parts, 2, 3, task=Task(), effort=Effort(stop=STOP), interrupted=lambda: True
    )
    assert grid.Cs == pytest.approx(np.geomspace(1e-3, 1e3, 3), rel=1e-3)  # rows of length 1
    with pytest.raises(ValueError, match="at least two folds"):
        choose_cost_on_cluster(
            parts, 1, 3, task=Task(), effort=Effort(stop=STOP), interrupted=lambda: False
        )


def test_weights_are_certified_where_the_rows_are(corpus):
    X, y = corpus
    w = solve(LinearProblem(X, y, 0.3), stop=Gap(0.05)).w
    there = certify(w, LocalParts(X, y, 3), C=0.3)
    here = certify(w, X, y, C=0.3)
    assert there.primal == pytest.approx(here.primal, rel=1e-9)
    assert there.relative_gap == pytest.approx(here.relative_gap, rel=0.05)
    X, labels = three_classes(corpus)
    model = fit(X, labels, task=Task(0.3, bias="regularised", class_weight={1: 2.0})).model
    theirs = certify_model(model, LocalParts(X, labels, 2))
    for ours, own in zip(theirs, model.certificates, strict=True):
        assert ours.primal == pytest.approx(own.primal, rel=1e-6)
        assert ours.dual <= own.primal
        assert ours.relative_gap <= 1.1 * own.relative_gap + 1e-4


@pytest.mark.parametrize(("loss", "bias"), CASES)
def test_several_classes_share_their_messages(corpus, loss, bias):
    X, labels = three_classes(corpus)
    weight = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(labels))
    parts, alone = (LocalParts(X, labels, 3, weight) for _ in range(2))
    task, solver = Task(0.5, loss=loss, bias=bias), Cocoa(work=0.1, gather=0)
    found = solve_problems(ClusterProblems(parts, task), Effort(solver, STOP, seed=4))
    assert len(found.solutions) == 3
    for k, solution in enumerate(found.solutions):
        assert solution.converged
        signs = np.where(labels == k, 1, -1)
        check_certificate(solution, X, signs, 0.5, loss=loss, bias=bias, weight=weight)
    problems = ClusterProblems(alone, task)
    for k in range(3):
        twin = solve(problems.problem(k), solver, stop=STOP, seed=4)
        assert twin.converged
    assert parts.calls < 0.67 * alone.calls
    del found, twin, solution
    gc.collect()
    DistributedProblem(parts).sides.close()


def test_classes_that_share_messages_survive_a_loss(corpus):
    X, labels = three_classes(corpus)
    parts = Flaky(X, labels, 3, seed=5)
    problems = ClusterProblems(parts, Task(0.5))
    parts.calm = False
    found = solve_problems(problems, Effort(Cocoa(work=0.2), STOP, seed=4))
    assert parts.left < 12  # some were lost
    parts.calm = True
    for k, solution in enumerate(found.solutions):
        assert solution.converged
        if not solution.alpha.lost:
            signs = np.where(labels == k, 1, -1)
            check_certificate(solution, X, signs, 0.5, loss="hinge", bias="none")


@pytest.mark.parametrize(("loss", "bias"), CASES)
@pytest.mark.parametrize("n_threads", [3])
def test_parts_with_several_threads(corpus, monkeypatch, loss, bias, n_threads):
    """Blocks within, rounds between: true certificates, in not many more epochs."""
    monkeypatch.setattr(blocks, "WORTH", 0.01)
    X, y = corpus
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], len(y))
    parts = LocalParts(X, y, 2, weight, n_threads=n_threads)
    assert [len(part.blocks) for part in parts.parts] == [n_threads] * 2
    problem = DistributedProblem(parts, 0.5, loss=loss, bias=bias)
    for gather in (0.0, 8.0):
        found = solve(problem, Cocoa(gather=gather), stop=STOP)
        assert found.converged
        check_certificate(found, X, y, 0.5, loss=loss, bias=bias, weight=weight)
    few = LocalParts(X, y, 2, weight)
    twin = solve(DistributedProblem(few, 0.5, loss=loss, bias=bias), Cocoa(gather=0), stop=STOP)
    many = solve(problem, Cocoa(gather=0), stop=STOP)
    assert many.epochs <= 4 * twin.epochs + 4
    again = DistributedProblem(
        LocalParts(X, y, 2, weight, n_threads=n_threads), 0.5, loss=loss, bias=bias
    )
    twice = solve(again, Cocoa(gather=0), stop=STOP)
    assert np.array_equal(twice.w, many.w)
    assert np.array_equal(np.asarray(twice.alpha), np.asarray(many.alpha))


def test_rows_are_divided_among_threads_where_there_are_enough():
    X, y = np.ones((300, 2)), np.arange(300) % 2
    assert [b.n_rows for b in Part(0, [Block("a", X, y)], 3).blocks] == [100, 100, 100]
    # A tenth of the entries, in a round, are four times the weights in each block.
    assert len(Part(0, [Block("a", X, y)], 16).blocks) == 5
    assert len(Part(0, [Block("a", X[:50], y[:50])] * 3, 2).blocks) == 3
