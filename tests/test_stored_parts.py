"""Parts whose rows stay on disk: the optimum of the same rows in memory, true certificates."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from bridle import Cocoa, DistributedProblem, Epochs, Gap, LinearProblem, _core, solve
from bridle.data import make_corpus, write_arrow
from bridle.data.arrow import open_arrow
from bridle.rows.base import LEVEL
from bridle.rows.cluster import stored
from bridle.rows.cluster.blocks import Block
from bridle.rows.cluster.dask_rows import make_part
from bridle.rows.cluster.local import LocalParts
from bridle.rows.cluster.messages import Against
from bridle.rows.cluster.part import Part
from bridle.rows.cluster.stored import (
    StoredBlock,
    StoredRowsOfPart,
    StoredState,
    shared_memory,
)
from bridle.rows.disk.memory import TooLittleMemoryError
from bridle.solvers.cocoa import Rounds

from test_distributed import check_certificate

ROWS = 8000
RESIDENT = 100 << 20


@pytest.fixture(autouse=True)
def always_so_much_resident(monkeypatch):
    """What fits depends on what else this process has had in memory."""
    for module in ("cluster.stored", "disk.memory"):
        monkeypatch.setattr(f"bridle.rows.{module}.resident_bytes", lambda: RESIDENT)


class StoredParts(LocalParts):
    """Each part has a file on disk, and little memory for it."""

    def __init__(self, X, y, n_parts, folder, sample_weight=None):
        super().__init__(X, y, n_parts)
        for k, own in enumerate(np.array_split(np.arange(len(y)), n_parts)):
            file = str(folder / f"{k}.arrow")
            weight = None if sample_weight is None else sample_weight[own]
            write_arrow(file, X[own], y[own], weight=weight)
            self.parts[k] = Part(k, [little(file)])


def little(file):
    """As little memory as will do."""
    memory = RESIDENT
    while True:
        memory += 1 << 20
        try:
            found = StoredRowsOfPart(StoredBlock(file, memory), 1, (0, 0))
        except ValueError as error:
            assert "memory" in str(error)  # noqa: PT017
            continue
        assert not found.disk.plan.resident
        return StoredBlock(file, memory)


@pytest.fixture(scope="module")
def corpus():
    X, y = make_corpus(ROWS, seed=5)
    return X.astype(np.float32), y


@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize(
    ("loss", "bias"),
    [("hinge", "regularised"), ("hinge", "free"), ("squared_hinge", "none"), ("logistic", "free")],
)
def test_the_optimum_and_a_true_certificate(corpus, tmp_path, n_parts, loss, bias):
    X, y = corpus
    parts = StoredParts(X, y, n_parts, tmp_path)
    problem = DistributedProblem(parts, 0.3, loss=loss, bias=bias)
    found = solve(problem, Cocoa(work=0.3), stop=Gap(1e-3) | Epochs(200))
    assert found.converged
    if loss != "logistic":
        check_certificate(found, X, y, 0.3, loss=loss, bias=bias)
    one = solve(LinearProblem(X, y, 0.3, loss=loss, bias=bias), stop=Gap(1e-3))
    assert found.certificate.primal >= one.certificate.dual
    assert one.certificate.primal >= found.certificate.dual


def test_what_a_part_says_is_the_same(corpus, tmp_path):
    """Passes over a file give what they give over the rows in memory."""
    X, y = corpus
    weight = np.random.default_rng(0).random(ROWS)
    file = str(tmp_path / "rows.arrow")
    write_arrow(file, X, y, weight=weight)
    one, two = Part(0, [Block("rows", X, y, weight)]), Part(0, [little(file)])
    told, same = one.describe(), two.describe()
    assert told.keys() == same.keys()
    assert (told["stored"], same["stored"]) == (False, True)
    for name in set(told) - {"name", "stored"}:
        assert np.all(told[name] == same[name]), name
    rng = np.random.default_rng(1)
    w, a = rng.normal(size=X.shape[1] + 1), rng.random(ROWS)
    w[-1] = 0.0
    against = Against(0.3, "hinge", "regularised", 1.0, 1)
    for part in (one, two):
        part.encode(np.array([-1.0, 1.0]))
    for ask in (
        lambda part: part.scores(w),
        lambda part: part.combine(a, [0]),
        lambda part: part.codes(),
        lambda part: part.errors(w[None, :-1], np.array([0.1])),
        lambda part: part.loss(against, w, 0.2).middle,
        lambda part: part.sample([3, 7000], [0])[7000][1],
    ):
        assert np.allclose(ask(one), ask(two), rtol=1e-12)
    opened = [part.open(0, against, 0, None, None) for part in (one, two)]
    assert opened[0].squared_norm == pytest.approx(opened[1].squared_norm)
    judged = [part.judge(0, 1.0, 0.01 * w, LEVEL, 0, None) for part in (one, two)]
    assert judged[1].loss.low <= judged[0].loss.middle <= judged[1].loss.high
    sizes = [part.near(0, 1.0, True, None, 0.0) for part in (one, two)]
    assert np.allclose(*sizes, rtol=0.02)  # every row weighs as the mean there
    shares = [part.gather(0, 1.0, 4) for part in (one, two)]
    assert all(np.array_equal(*pair) for pair in zip(*(share.X for share in shares), strict=True))


def test_what_is_not_kept_of_a_round_is_undone(corpus, tmp_path):
    X, y = corpus
    problem = DistributedProblem(StoredParts(X, y, 2, tmp_path), 1.0)
    run = problem.sides.begin(None, 0)
    rounds = Rounds(Cocoa(work=0.4, gather=0), run, _core.Rng(0))
    for kept in (1.0, 0.5, 0.0, 0.7, 1.0, 1.0, 1.0):
        before = run.w.copy()
        steps = run.visit(**rounds.order())
        total = np.sum([step.step.astype(np.float64) for step in steps], axis=0)
        run.move(kept, total, 0.0, 0.0)
        rounds.first = None
        assert np.allclose(run.w, before + kept * total[:-1])
        w = np.sum([one[0] for one in run.call("settle")], axis=0)[:-1]
        assert np.allclose(w, run.w, atol=1e-4)
    state = problem.rows.parts.parts[0].runs[run.number].states[0]
    assert isinstance(state, StoredState)
    assert state.descent.n_active < state.block.n_rows  # some rest, and are woken
    state.descent.unshrink()
    assert state.descent.n_active == state.block.n_rows


def test_a_look_at_ranges_shows_the_gap(corpus, tmp_path):
    X, y = corpus
    problem = DistributedProblem(StoredParts(X, y, 1, tmp_path), 0.3)
    run = problem.sides.begin(None, 0)
    rounds = Rounds(Cocoa(work=1.0), run, _core.Rng(0))
    for _ in range(3):
        rounds.one()
    (part,) = problem.rows.parts.parts
    state = part.runs[run.number].states[0]
    looks = [state.descent.look(_core.Rng(k), 4 * ROWS, run.vector(), run.b) for k in range(3)]
    alpha = state.alpha()
    margins = y * (X @ run.w)
    gaps = np.maximum(0, 1 - margins) * 0.3 + alpha * (margins - 1)
    for look in looks:
        found, error = look.active.gap + look.resting.gap, look.active.error + look.resting.error
        assert abs(found - gaps.sum()) <= 5 * error


def test_ranges_are_judged_one_at_a_time(corpus, tmp_path, monkeypatch):
    """Each has weights as wide as the data: those of all ranges may be more than the rows."""
    X, y = corpus
    problem = DistributedProblem(StoredParts(X, y, 1, tmp_path), 0.3)
    seen, alive, judge = [], [], stored.judge_piece

    def watched(*given):
        alive.append(sum(one() is not None for one in seen))
        found = judge(*given)
        seen.append(weakref.ref(found[0].w_alpha))
        return found

    monkeypatch.setattr(stored, "judge_piece", watched)
    solve(problem, Cocoa(), stop=Epochs(1))
    assert len(seen) > 10
    assert max(alive) <= 2  # the last one and the sum


def test_rows_that_fit_are_held_in_memory(corpus, tmp_path):
    X, y = corpus
    files = [str(tmp_path / f"{k}.arrow") for k in range(2)]
    for k, own in enumerate(np.array_split(np.arange(ROWS), 2)):
        write_arrow(files[k], X[own], y[own])
    enough = RESIDENT + (1 << 30)
    held = make_part(0, files, files, [(), ()], 1, memory=enough)
    assert not any(isinstance(block, StoredRowsOfPart) for block in held.blocks)
    scarce = little(files[0]).memory + (1 << 20)
    on_disk = make_part(0, files[:1], files[:1], [()], 1, memory=scarce)
    assert all(isinstance(block, StoredRowsOfPart) for block in on_disk.blocks)
    disk = on_disk.blocks[0].disk
    assert disk.plan.buffers * disk.plan.buffer_bytes < open_arrow(files[0]).bytes_in_memory
    with pytest.raises(ValueError, match="memory"):
        make_part(0, files, files, [(), ()], 1, memory=RESIDENT + 1000)


def test_what_several_files_need_is_said_of_all(corpus, tmp_path):
    X, y = corpus
    files = []
    for k, own in enumerate((slice(0, 300), slice(300, None))):
        files.append(str(tmp_path / f"{k}.arrow"))
        write_arrow(files[-1], X[own], y[own])
    with pytest.raises(TooLittleMemoryError, match=r"^1 MiB of .*0.arrow and 1 more") as caught:
        shared_memory(files, 1 << 20)
    shared_memory(files, caught.value.needed + 1)
    with pytest.raises(TooLittleMemoryError):
        shared_memory(files, caught.value.needed - (1 << 20))
