"""Problems on rows that are on disk: the same optimum, and certificates that NumPy confirms."""

from __future__ import annotations

import errno
import itertools
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import (
    Checkpoint,
    Epochs,
    Gap,
    LinearProblem,
    LinearSVC,
    StoredRows,
    StreamedProblem,
    _core,
    load_model,
    solve,
)
from bridle.data import ArrowError, make_corpus, open_arrow, write_arrow
from bridle.data.arrow import ArrowRows, Span, _Spans
from bridle.data.compact import Compact
from bridle.fitting.fit import fit
from bridle.fitting.multiclass import Effort, solve_problems
from bridle.fitting.problems import StoredProblems, Task
from bridle.objective.certificate import Certificate
from bridle.rows.disk import memory
from bridle.rows.disk.kept import ROW_BYTES
from bridle.rows.disk.memory import MemoryPlan, RowVectors, parse_size, resident_bytes
from bridle.rows.disk.ranges import DiskRows
from bridle.solvers import solver_from
from bridle.solvers.shared import stored as streamed
from bridle.solvers.shared.stored import Descent

N = 3000


@pytest.fixture(scope="module")
def data() -> Any:
    return make_corpus(N, seed=3)


@pytest.fixture(scope="module")
def path(data: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.arrow"
    write_arrow(path, *data, batch_bytes=1 << 18)
    return path


def streaming(problem: StreamedProblem, *, keep: int = 0, on_disk: bool = False) -> None:
    """Make it read its rows in every epoch, however little memory they need."""
    stream = problem.rows
    largest = int(stream.sizes.max()) + 64
    stream.plan = MemoryPlan(False, 2, largest, keep, on_disk)
    stream.vectors = RowVectors(problem.n_rows, on_disk)


def recomputed(X: Any, y: Any, solution: Any, C: Any, loss: str, constant: float) -> Any:
    """P and D in plain NumPy; C: of all rows, or of each."""
    w = np.append(solution.w, solution.b / constant if constant else 0.0)
    X = sp.hstack([X.astype(float), np.full((len(y), 1), constant)]).tocsr()
    slack = np.maximum(0, 1 - y * (X @ w + (0.0 if constant else solution.b)))
    losses = slack if loss == "hinge" else slack**2
    alpha = np.asarray(solution.alpha)
    assert (alpha >= 0).all()
    w_alpha = X.T @ (alpha * y)
    dual = alpha.sum() - 0.5 * w_alpha @ w_alpha
    if loss == "hinge":
        assert (alpha <= C * (1 + 1e-12)).all()
    else:
        dual -= (alpha**2 / (4 * C)).sum()
    return 0.5 * w @ w + (C * losses).sum(), dual


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", ["none", "regularised"])
@pytest.mark.parametrize("keep", [0, 1 << 18, 1 << 24])
@pytest.mark.parametrize("on_disk", [False, True])
def test_dcd_reaches_the_gap_that_numpy_confirms(
    path: Path, data: Any, loss: str, bias: Any, keep: int, on_disk: bool
) -> None:
    X, y = data
    problem = StreamedProblem(path, 2.0, loss=loss, bias=bias)
    streaming(problem, keep=keep, on_disk=on_disk)
    solution = solve(problem, "dcd", stop=Gap(1e-3) | Epochs(100))
    assert solution.converged
    assert isinstance(solution.alpha, np.memmap) == on_disk
    primal, dual = recomputed(X, y, solution, 2.0, loss, 1.0 if bias == "regularised" else 0.0)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert solution.certificate.dual == pytest.approx(dual, rel=1e-9)
    best = solve(LinearProblem(X, y, 2.0, loss=loss, bias=bias), "dcd", stop=Gap(1e-6))
    assert solution.certificate.dual <= best.certificate.primal * (1 + 1e-9)
    assert solution.certificate.primal >= best.certificate.dual * (1 - 1e-9)


def test_the_rows_kept_in_memory_save_reading(path: Path) -> None:
    """All that do not rest, or some at a time."""
    found = {}
    for keep in (0, 1 << 18, 1 << 24):
        problem = StreamedProblem(path, 2.0)
        streaming(problem, keep=keep)
        solution = solve(problem, "dcd", stop=Gap(1e-4) | Epochs(200))
        assert solution.converged
        found[keep] = problem.rows.bytes_read
    assert found[1 << 18] < 0.8 * found[0]
    assert found[1 << 24] < 0.4 * found[0]


def test_copies_stay_within_their_bytes(path: Path) -> None:
    problem = StreamedProblem(path, 2.0)
    entry = problem.rows.source.dtype.itemsize + problem.rows.source.column_dtype.itemsize
    for keep in (1 << 10, 1 << 17, 1 << 18):
        streaming(problem, keep=keep)
        state, rng = Descent(problem, None, bucket=32, n_blocks=1), _core.Rng(0)
        kept, most, made_room = state.kept, 0, 0
        assert kept is not None
        for _ in range(3):
            for part, piece in problem.sides.pieces():
                before = kept.n_rows
                state.visit(part, piece, rng)
                made_room += kept.n_rows < before
                most = max(most, ROW_BYTES * kept.n_rows + entry * kept.nnz)
            state.end_epoch(rng)
        assert most <= keep
        assert (made_room > 0) == (keep > 1 << 10)  # not even one piece fits into that
        # However often rows were visited: w is that of alpha.
        w = state.iterate(0.0, None).w
        assert problem.weights(state.alpha) == pytest.approx(w, abs=1e-4)


def test_a_run_may_stop_within_its_first_epoch(
    path: Path, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the steps are those of m/t v: the certificate is true, and others can go on from it."""
    X, y = data
    monkeypatch.setattr(streamed, "STRETCH", 1 << 19)
    problem = StreamedProblem(path, 2.0, bias="regularised")
    streaming(problem)
    stopped = solve(problem, "dcd", stop=Epochs(0.3))
    assert 0.3 <= stopped.epochs < 0.9
    primal, dual = recomputed(X, y, stopped, 2.0, "hinge", 1.0)
    assert stopped.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert stopped.certificate.dual == pytest.approx(dual, rel=1e-9)
    # m/t v says more of all rows than v does.
    assert problem.primal(problem.weights(stopped.alpha), stopped.b) > primal
    ended = solve(problem, "dcd", stop=Gap(1e-3) | Epochs(100), start=stopped)
    assert ended.converged
    in_memory = solve(LinearProblem(X, y, 2.0, bias="regularised"), "dcd", start=stopped)
    assert in_memory.converged


def test_rows_kept_in_memory_are_never_taken_for_all_rows(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although none of them rests, those on disk do: a certificate that fails wakes them."""
    kept, woken = [], []
    end, wake = Descent.end_epoch, Descent.wake_all

    def noted_end(state: Descent, rng: Any) -> Any:
        kept.append(state.all_kept)
        return end(state, rng)

    def noted_wake(state: Descent) -> None:
        woken.append(len(kept))
        wake(state)

    monkeypatch.setattr(Descent, "end_epoch", noted_end)
    monkeypatch.setattr(Descent, "wake_all", noted_wake)
    problem = StreamedProblem(path, 2.0)
    streaming(problem, keep=1 << 24)
    iterates = solver_from("dcd").iterates(problem, start=None, rng=_core.Rng(0))
    answer = None
    for _ in range(40):
        iterates.send(answer)
        first = kept[-1] and not any(kept[:-1])
        answer = Certificate(1.0, 0.0, "solver") if first else None
        if any(kept[:-1]):
            break
        if first:
            epoch = len(kept)
    assert epoch in woken


@pytest.mark.parametrize("bias", ["regularised", "free"])
@pytest.mark.parametrize("keep", [0, 1 << 18])
def test_an_epoch_that_a_certificate_takes_along(path: Path, bias: Any, keep: int) -> None:
    """The certificate is that of a pass of its own, and the epoch one like the others."""
    problem, twin = (StreamedProblem(path, 2.0, bias=bias) for _ in range(2))
    for own in (problem, twin):
        streaming(own, keep=keep)
    iterates = solver_from("dcd").iterates(problem, start=None, rng=_core.Rng(0))
    iterate = next(iterates)
    for _ in range(4):
        while iterate.ride is None:  # all that moves is in memory, and the next epoch reads nothing
            iterate = iterates.send(None)
        twin.rows.bytes_read = 0
        alone = twin.judge(replace(iterate, alpha=iterate.alpha.copy(), ride=None))
        before, read = problem.rows.bytes_read, twin.rows.bytes_read
        joint = problem.judge(iterate)
        assert joint.primal == pytest.approx(alone.primal, rel=1e-12)
        assert joint.dual == pytest.approx(alone.dual, rel=1e-9)
        assert np.array_equal(joint.alpha, alone.alpha)
        epoch = iterate.epoch
        iterate = iterates.send(Certificate(joint.primal, joint.dual, "solver"))
        assert iterate.epoch == epoch + 1
        assert problem.rows.bytes_read == before + read
        w = twin.weights(np.asarray(iterate.alpha))
        assert w == pytest.approx(iterate.w, abs=1e-4)


def test_what_ends_a_run_is_saved_as_it_was_judged(path: Path, tmp_path: Path) -> None:
    problem = StreamedProblem(path, 2.0, bias="regularised")
    streaming(problem)
    saved = Checkpoint(tmp_path / "run.ckpt", every=1e-6)
    found = solve(problem, "dcd", stop=Gap(1e-3), checkpoint=saved)
    assert found.converged
    point = load_model(tmp_path / "run.ckpt")
    assert np.array_equal(point.w, found.w)
    assert np.array_equal(point.alpha, found.alpha)


@pytest.mark.parametrize("name", ["pegasos", "sgd", "svmsgd", "asgd"])
def test_stochastic_solvers_certify_what_they_have(path: Path, data: Any, name: str) -> None:
    X, y = data
    problem = StreamedProblem(path, 0.1, bias="regularised")
    streaming(problem)
    solution = solve(problem, name, stop=Gap(1e-2) | Epochs(30))
    primal, dual = recomputed(X, y, solution, 0.1, "hinge", 1.0)
    assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert solution.certificate.dual == pytest.approx(dual, rel=1e-9)
    in_memory = solve(
        LinearProblem(X, y, 0.1, bias="regularised"), name, stop=Gap(1e-2) | Epochs(30)
    )
    assert solution.certificate.relative_gap <= 2 * in_memory.certificate.relative_gap + 1e-2


@pytest.mark.parametrize("name", ["dcd", "pegasos", "sgd", "svmsgd", "asgd"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_certificate_is_true(name: str, dtype: Any, data: Any, tmp_path: Path) -> None:
    """With weights, for both losses, without and with a bias, with little memory and with more."""
    X, y = data[0][:600].astype(dtype), data[1][:600]
    weight = np.random.default_rng(1).choice([0.2, 1.0, 3.0], 600)
    write_arrow(tmp_path / "rows.arrow", X, y, weight=weight, batch_bytes=1 << 15)
    for loss, bias, keep in itertools.product(
        ("hinge", "squared_hinge"), ("none", "regularised"), (0, 1 << 16, 1 << 24)
    ):
        problem = StreamedProblem(tmp_path / "rows.arrow", 0.5, loss=loss, bias=bias)  # type: ignore[arg-type]
        streaming(problem, keep=keep)
        solution = solve(problem, name, stop=Gap(1e-3) | Epochs(6))
        constant = 1.0 if bias == "regularised" else 0.0
        primal, dual = recomputed(X, y, solution, 0.5 * weight, loss, constant)
        assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
        assert solution.certificate.dual == pytest.approx(dual, rel=1e-9, abs=1e-9 * primal)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_free_bias_on_disk(loss: str, on_disk: bool, data: Any, tmp_path: Path) -> None:
    """The optimum of the same rows in memory; the dual point is balanced, the bias the best."""
    X, y = data[0][:800], data[1][:800]
    weight = np.random.default_rng(1).choice([0.2, 1.0, 3.0], 800)
    write_arrow(tmp_path / "rows.arrow", X, y, weight=weight, batch_bytes=1 << 15)
    problem = StreamedProblem(tmp_path / "rows.arrow", 0.5, loss=loss, bias="free")
    streaming(problem, keep=1 << 16, on_disk=on_disk)
    found = solve(problem, "dcd", stop=Gap(1e-3) | Epochs(300))
    assert found.converged
    alpha = np.asarray(found.alpha)
    assert abs(alpha @ y) <= 1e-9 * alpha.sum()
    twin = LinearProblem(X, y, 0.5, loss=loss, bias="free", sample_weight=weight)
    assert twin.primal(found.w, found.b) == pytest.approx(found.certificate.primal, rel=1e-9)
    assert twin.dual(alpha) == pytest.approx(found.certificate.dual, rel=1e-9)
    assert problem.primal(found.w, found.b) == pytest.approx(found.certificate.primal, rel=1e-9)
    assert problem.dual(alpha) == pytest.approx(found.certificate.dual, rel=1e-9)
    assert problem.dual(np.where(y > 0, alpha, 0)) == -np.inf
    if loss != "logistic":
        primal, dual = recomputed(X, y, found, 0.5 * weight, loss, 0.0)
        assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
        assert found.certificate.dual == pytest.approx(dual, rel=1e-9)
    best = min(twin.primal(found.w, found.b + d) for d in (-1e-2, -1e-3, 1e-3, 1e-2))
    # 1% of the gap is what the bias may cost.
    assert found.certificate.primal <= best + 0.011 * found.certificate.gap
    again = solve(problem, "dcd", stop=Gap(1e-3) | Epochs(300), start=found)
    assert again.epochs <= 3


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize(
    "name",
    ["sgd-s", "sgd-m", "sgd-qn", "mpu", "perceptron", "margin-perceptron", "pegasos", "svmsgd"],
)
def test_stochastic_solvers_walk_over_a_file(
    name: str, bias: Any, data: Any, tmp_path: Path
) -> None:
    X, y = data[0][:1000], data[1][:1000]
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], 1000)
    write_arrow(tmp_path / "rows.arrow", X, y, weight=weight, batch_bytes=1 << 16)
    problem = StreamedProblem(tmp_path / "rows.arrow", 0.5, bias=bias)
    if solver_from(name).refusal(problem) is not None:
        assert bias == "free"
        return
    streaming(problem)
    assert len(problem.rows) > 3
    for start in (None, solve(problem, "dcd", stop=Epochs(3))):
        found = solve(problem, name, stop=Gap(1e-3) | Epochs(8), start=start)
        primal, dual = recomputed(
            X, y, found, 0.5 * weight, "hinge", 1.0 if bias == "regularised" else 0.0
        )
        assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
        assert found.certificate.dual == pytest.approx(dual, rel=1e-9, abs=1e-9 * primal)
    if name in ("sgd-s", "mpu"):
        assert found.certificate.relative_gap < 0.5


@pytest.mark.parametrize("name", ["sgd-s", "sgd-qn", "mpu", "perceptron"])
def test_steps_on_one_range_are_those_in_memory(name: str, data: Any, tmp_path: Path) -> None:
    X, y = data[0][:500], data[1][:500]
    write_arrow(tmp_path / "one.arrow", X, y)
    problem = StreamedProblem(tmp_path / "one.arrow", 0.5)
    problem.rows.ranges = problem.rows.source.ranges(1 << 40)
    problem.rows.sizes = np.array([problem.rows.source.range_bytes(problem.rows.ranges[0])])
    for of_disk, of_memory in zip(
        *(
            itertools.islice(solver_from(name, **eta).iterates(p, rng=_core.Rng(1)), 3)
            for p in (problem, LinearProblem(X, y, 0.5))
            for eta in ({"eta0": 0.1} if name == "sgd-qn" else {},)
        ),
        strict=True,
    ):
        assert of_disk.step == of_memory.step
        one, other = (LinearProblem(X, y, 0.5).primal(i.w, i.b) for i in (of_disk, of_memory))
        assert one == pytest.approx(other, rel=1e-6)


def test_minibatches(path: Path) -> None:
    problem = StreamedProblem(path, 0.1)
    solver = solver_from("pegasos", batch=10, output="tail-average")
    solution = solve(problem, solver, stop=Epochs(10))
    assert solution.steps == 10 * (N // 10)
    assert solution.certificate.relative_gap < 0.5


def test_the_same_seed_gives_the_same_bits_with_and_without_reading_ahead(path: Path) -> None:
    found = []
    for buffers, keep in ((None, 0), (2, 0), (5, 0), (2, 1 << 18), (5, 1 << 18)):
        problem = StreamedProblem(path, 1.0, bias="regularised", n_threads=buffers)
        if buffers is not None:
            streaming(problem)
            plan = problem.rows.plan
            assert plan is not None
            problem.rows.plan = MemoryPlan(False, buffers, plan.buffer_bytes, keep, False)
        found.append(solve(problem, seed=5))
    for one, other in ((0, 1), (0, 2), (3, 4)):
        assert np.array_equal(found[one].w, found[other].w)
        assert np.array_equal(found[one].alpha, found[other].alpha)
    assert not np.array_equal(found[0].w, found[3].w)


def test_one_range_is_the_solver_in_memory(data: Any, tmp_path: Path) -> None:
    X, y = data
    write_arrow(tmp_path / "one.arrow", X, y)
    problem = StreamedProblem(tmp_path / "one.arrow", 1.0, bias="regularised")
    problem.rows.ranges = problem.rows.source.ranges(1 << 40)
    problem.rows.sizes = np.array([problem.rows.source.range_bytes(problem.rows.ranges[0])])
    twin = LinearProblem(X, y, 1.0, bias="regularised")
    # From a point: the first epoch from zero visits some rows twice, in memory.
    start = solve(twin, "dcd", stop=Epochs(2))
    on_disk = solve(problem, "dcd", stop=Epochs(1), start=start)
    in_memory = solve(twin, "dcd", stop=Epochs(1), start=start)
    assert in_memory.certificate.relative_gap < 0.5
    # The streamed one knows the mean length and cost of its rows from the first range only: here,
    # of all.
    assert on_disk.certificate.primal == pytest.approx(in_memory.certificate.primal, rel=1e-6)
    assert on_disk.certificate.dual == pytest.approx(in_memory.certificate.dual, rel=1e-6)


def test_weights_classes_and_warm_starts(data: Any, tmp_path: Path) -> None:
    X, y = data
    weight = np.random.default_rng(0).choice([0.0, 1.0, 3.0], N)
    labels = np.where(y > 0, 7, np.arange(N) % 2)
    write_arrow(tmp_path / "w.arrow", X, labels, weight=weight, batch_bytes=1 << 17)
    with pytest.raises(ValueError, match="3 classes; say which is positive"):
        StreamedProblem(tmp_path / "w.arrow")
    with pytest.raises(ValueError, match="no row has the label 5"):
        StreamedProblem(tmp_path / "w.arrow", positive=5)
    problem = StreamedProblem(tmp_path / "w.arrow", 1.0, positive=7)
    twin = LinearProblem(X, y, 1.0, sample_weight=weight)
    first = solve(problem, stop=Gap(1e-3))
    assert twin.primal(first.w) == pytest.approx(first.certificate.primal)
    assert twin.dual(first.alpha) == pytest.approx(first.certificate.dual)
    assert problem.primal(first.w) == pytest.approx(first.certificate.primal)
    assert problem.dual(first.alpha) == pytest.approx(first.certificate.dual)
    assert problem.dual(first.alpha + 5) == -np.inf
    again = solve(problem, stop=Gap(1e-3), start=first)
    assert again.epochs <= 2
    other = solve(problem.variant(positive=0, C=0.5), stop=Gap(1e-3))
    twin = LinearProblem(X, np.where(labels == 0, 1, -1), 0.5, sample_weight=weight)
    assert twin.primal(other.w) == pytest.approx(other.certificate.primal)


def test_what_cannot_be_streamed_is_said(path: Path) -> None:
    with pytest.raises(ValueError, match="hard margin needs all rows in memory"):
        StreamedProblem(path, C=np.inf)
    problem = StreamedProblem(path)
    for name in ("newton", "norma", "sgd-r"):  # norma looks back at rows, sgd-r draws them
        with pytest.raises(ValueError, match=f"{name} needs all rows in memory"):
            solve(problem, name)
    with pytest.raises(ValueError, match="sampled in epochs"):
        solve(problem, solver_from("pegasos", sampling="iid"), stop=Epochs(1))
    streaming(problem, on_disk=True)
    with pytest.raises(ValueError, match="must fit into memory"):
        solve(problem, "pegasos", stop=Epochs(1))
    with pytest.raises(ValueError, match=r"1 MiB of memory are too few for .*rows.arrow"):
        StreamedProblem(path, memory=1 << 20)


def test_sizes() -> None:
    assert parse_size("2G") == parse_size("2 GiB") == 2 << 30
    assert parse_size("1.5m") == 3 << 19
    assert parse_size("100") == 100
    for text in ("", "G", "-1G", "2X", "1e9"):
        with pytest.raises(ValueError, match="no size"):
            parse_size(text)
    assert resident_bytes() > 1 << 20


BAD: dict[str, tuple[Any, str]] = {
    "column beyond": (lambda X: X.indices.__setitem__(9, X.shape[1]), "has column index"),
    "negative column": (lambda X: X.indices.__setitem__(9, -1), "has column index -1"),
    "disorder": (lambda X: X.indices.__setitem__(slice(0, 2), X.indices[1::-1].copy()), "after"),
    "duplicate": (lambda X: X.indices.__setitem__(1, X.indices[0]), "must increase"),
    "nan": (lambda X: X.data.__setitem__(9, np.nan), "NaN or infinity"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_rows_are_named(name: str, data: Any, tmp_path: Path) -> None:
    X, y = data
    spoil, words = BAD[name]
    X = X[:500].copy()
    assert X.indptr[1] >= 2
    write_arrow(tmp_path / "bad.arrow", X, y[:500])
    rows = open_arrow(tmp_path / "bad.arrow")
    batch = rows.batch(0)
    spans = rows._spans[0]
    X.sort_indices()
    spoil(X)
    raw = bytearray((tmp_path / "bad.arrow").read_bytes())
    for span, array in ((spans.columns, X.indices), (spans.values, X.data)):
        raw[span.position : span.end] = array.astype(span.dtype).tobytes()
    (tmp_path / "bad.arrow").write_bytes(raw)
    with pytest.raises(ArrowError, match=rf"bad.arrow: batch 0: .*{words}"):
        solve(StreamedProblem(tmp_path / "bad.arrow"), stop=Epochs(1))
    assert batch.n_rows == 500


def test_damaged_files_end_in_an_error_or_in_other_numbers_never_in_a_crash(
    data: Any, tmp_path: Path
) -> None:
    X, y = data
    whole = tmp_path / "whole.arrow"
    write_arrow(whole, X[:200], y[:200], batch_bytes=1 << 14)
    good = whole.read_bytes()
    chance, outcomes = random.Random(0), {"read": 0, "refused": 0}
    for trial in range(300):
        raw = bytearray(good)
        if trial % 3 == 0:
            del raw[chance.randrange(len(raw)) :]
        else:
            # Most of the bytes are entries; the metadata deserves its share.
            near = chance.choice([2000, len(raw)])
            for _ in range(chance.choice([1, 1, 8])):
                at = chance.choice([chance.randrange(near), len(raw) - 1 - chance.randrange(near)])
                raw[at] = chance.randrange(256)
        damaged = tmp_path / "damaged.arrow"
        damaged.write_bytes(raw)
        try:
            rows = open_arrow(damaged)
            for memory in (None, 1 << 40):
                stream = DiskRows(rows, memory=memory)
                for part in stream.parts():
                    assert part.rows.n_rows > 0
            outcomes["read"] += 1
        except ArrowError as error:
            outcomes["refused"] += str(damaged) in str(error)
    assert outcomes["refused"] > 100
    assert sum(outcomes.values()) == 300


def test_linear_svc_fits_rows_on_disk(path: Path, data: Any) -> None:
    X, y = data
    for rows in (StoredRows(path, memory="2G"), open_arrow(path)):
        model = LinearSVC(C=0.5, loss="hinge", random_state=0).fit(rows)
        problem = LinearProblem(X, y, 0.5, bias="regularised")
        primal = problem.primal(model.coef_[0], model.intercept_[0])
        assert model.certificate_.primal == pytest.approx(primal)
        assert model.certificate_.relative_gap <= 1e-3
        assert model.score(X, y) > 0.9
        assert model.n_features_in_ == X.shape[1]
        assert not hasattr(model, "dual_coef_")
    with pytest.raises(ValueError, match="are columns of the file"):
        LinearSVC().fit(open_arrow(path), y)
    with pytest.raises(ValueError, match="class_weight='balanced' needs the rows in memory"):
        LinearSVC(class_weight="balanced").fit(open_arrow(path))


def test_linear_svc_fits_several_classes_on_disk(data: Any, tmp_path: Path) -> None:
    X, y = data
    labels = np.where(y > 0, 5, np.arange(N) % 2)
    write_arrow(tmp_path / "three.arrow", X, labels)
    stored = StoredRows(tmp_path / "three.arrow")
    model = LinearSVC(loss="hinge", random_state=0).fit(stored)
    twin = LinearSVC(loss="hinge", random_state=0).fit(X, labels)
    assert model.classes_.tolist() == [0, 1, 5]
    assert model.certificate_.primal == pytest.approx(twin.certificate_.primal, rel=2e-3)
    error = float(np.mean(model.predict(X) != labels))
    found = fit(stored, task=Task(loss="hinge", bias="regularised"))
    np.testing.assert_array_equal(found.model.coef, model.coef_)
    assert found.error_rate() == pytest.approx(error)


def test_a_disk_without_room_for_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is named: an error without a file is taken for one of standard output."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"wanted: 78\.12 KiB for dual variables") as caught:
        RowVectors(10_000, on_disk=True).zeros()
    assert caught.value.filename == tempfile.gettempdir()


def test_offsets_beyond_32_bits() -> None:
    """Where rows and entries are, for batches that no test could hold."""
    rows = object.__new__(ArrowRows)
    n, width = 3, 2**31 - 5
    ends = np.array([0, width, 2 * width, 3 * width], np.int64)
    raw = ends.tobytes()
    rows.path = "synthetic"
    offsets = Span(0, np.dtype(np.int64), n + 1)
    huge = Span(64, np.dtype(np.float32), 3 * width)
    columns = Span(huge.end, np.dtype(np.int32), 3 * width)
    label = Span(columns.end, np.dtype(np.float64), n)
    assert columns.end > 2**35
    rows._as_gaps, rows._known, rows._factors = False, None, None
    rows._spans = [_Spans(n, label, None, None, offsets, columns, offsets, huge)]
    rows._read = (
        lambda k, begin, memory: memory.__setitem__(  # type: ignore[method-assign]
            slice(None), raw[begin : begin + len(memory)]
        )
    )
    found = rows.ranges(width * 8)
    assert [part.first_index for part in found] == [0, width, 2 * width]
    assert [part.nnz for part in found] == [width] * 3
    assert sum(part.nnz for part in found) == 3 * width > 2**32
    assert rows.range_bytes(found[2]) == 8 * width + 24 + 8 * 64


def test_the_promise_about_memory_is_kept(tmp_path: Path) -> None:
    """In a process of its own, with less than the file needs and with more; of compact files."""
    X, y = make_corpus(60_000, seed=5)
    X, y = sp.vstack([X] * 6).tocsr(), np.tile(y, 6)
    ways: tuple[tuple[Compact | None, int], ...]
    ways = (None, 160), (None, 400), ("float16", 160), ("exact", 160)
    for compact, allowed in ways:
        path = tmp_path / f"{compact}.arrow"
        if not path.exists():
            write_arrow(path, X, y, batch_bytes=1 << 20, compact=compact)
        command = [sys.executable, "-m", "bridle.cli", "train", str(path), str(tmp_path / "m")]
        run = subprocess.run(
            [*command, "--memory", f"{allowed}M", "--json"], capture_output=True, check=True
        )
        report = json.loads(run.stdout)
        assert report["relative_gap"] <= 1e-3
        assert report["peak_rss_mb"] <= allowed
    assert (tmp_path / "None.arrow").stat().st_size > 200 << 20


def test_dual_variables_make_room_for_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where these would have next to none; a solver that copies no rows has them in memory."""
    monkeypatch.setattr(memory, "resident_bytes", lambda: 50 << 20)
    path, rng = tmp_path / "rows.arrow", np.random.default_rng(0)
    X = sp.csr_matrix(rng.normal(size=(100_000, 16)).astype(np.float32))
    write_arrow(path, X, np.where(rng.random(100_000) < 0.5, 1, -1))
    rows = open_arrow(path)
    ranges = DiskRows(rows).ranges
    size, seen = sum(map(rows.range_bytes, ranges)), {}
    for allowed in range(64 << 20, (64 << 20) + 2 * size, 1 << 19):
        plan, held = (
            MemoryPlan.of(rows, ranges, allowed, copies=copies) for copies in (True, False)
        )
        assert held.resident == plan.resident
        assert plan.resident or plan.vectors_on_disk or plan.keep_bytes >= size / 20
        if not plan.resident:
            seen[allowed] = plan.vectors_on_disk, held.vectors_on_disk
    assert sorted(seen.values(), reverse=True) == list(seen.values())
    allowed = {both: memory for memory, both in seen.items()}
    assert set(allowed) == {(True, True), (True, False), (False, False)}
    problem = StreamedProblem(path, memory=allowed[True, False])
    assert problem.rows.vectors.on_disk
    solve(problem, "pegasos", stop=Epochs(1))
    assert not problem.rows.vectors.on_disk
    with pytest.raises(ValueError, match="must fit into memory"):
        solve(StreamedProblem(path, memory=allowed[True, True]), "pegasos", stop=Epochs(1))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("keep", [0, 1 << 22])
def test_several_classes_in_one_pass_over_the_file(
    loss: str, bias: Any, keep: int, data: Any, tmp_path: Path
) -> None:
    """One epoch of each reads the file once for all, and each certificate is its own."""
    X, y = data[0][:900], data[1][:900]
    labels = np.where(y > 0, 5, np.arange(900) % 3)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], 900)
    write_arrow(tmp_path / "four.arrow", X, labels, weight=weight, batch_bytes=1 << 15)
    problems = StoredProblems(
        StoredRows(tmp_path / "four.arrow"), Task(0.5, loss=loss, bias=bias), 1
    )
    shared = problems.problem(0)
    streaming(shared, keep=keep)
    rows, size = shared.rows, int(shared.rows.sizes.sum())
    each = 34 * 900 + 8 * 12 * (X.shape[1] + 1)
    if keep:  # for three of the four together, and then for the last one
        rows.plan = MemoryPlan(False, 2, int(rows.sizes.max()) + 64, 3 * each + 4096, False)
    else:
        rows.plan = MemoryPlan(False, 2, int(rows.sizes.max()) + 64, 0, False, spare=4 * each)
    found = solve_problems(problems, Effort("dcd", Gap(1e-3) | Epochs(300), seed=2)).solutions
    assert len(found) == 4
    for solution, label in zip(found, (0, 1, 2, 5), strict=True):
        assert solution.converged
        signs = np.where(labels == label, 1.0, -1.0)
        constant = 1.0 if bias == "regularised" else 0.0
        primal, dual = recomputed(X, signs, solution, 0.5 * weight, loss, constant)
        assert solution.certificate.primal == pytest.approx(primal, rel=1e-9)
        assert solution.certificate.dual == pytest.approx(dual, rel=1e-9)
        if bias == "free":
            assert abs(np.asarray(solution.alpha) @ signs) <= 1e-9 * solution.alpha.sum()
    if not keep:
        epochs = max(solution.epochs for solution in found)
        certificates = sum(len(solution.trace) for solution in found)
        # Every epoch, certificates with their repairs, and looks at the first range.
        most = (epochs + 3 * certificates) * size + 10 * int(rows.sizes.max())
        assert rows.bytes_read <= most


def test_classes_that_do_not_fit_together_are_solved_one_by_one(data: Any, tmp_path: Path) -> None:
    X, y = data[0][:300], data[1][:300]
    labels = np.where(y > 0, 5, np.arange(300) % 2)
    write_arrow(tmp_path / "three.arrow", X, labels)
    problems = StoredProblems(StoredRows(tmp_path / "three.arrow"), Task(0.5), 1)
    streaming(problems.problem(0))
    own = [problems.problem(k) for k in range(3)]
    assert solver_from("dcd").side_by_side(own, 0) is None
    found = solve_problems(problems, Effort(stop=Gap(1e-3) | Epochs(300)))
    assert all(solution.converged for solution in found.solutions)
