"""Rows on a GPU. What needs one is marked `cuda`; the kernels also run on the processor, serially.

Every certificate is recomputed in NumPy, from the rows and the points that were returned.
"""

from __future__ import annotations

import json
import math

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle import DualCoordinateDescent, Epochs, Gap, LinearProblem, LinearSVC, LinearSVCCV, solve
from bridle.errors import DeviceError
from bridle.objective.dual import balanced
from bridle.rows.cuda import placing
from bridle.rows.cuda.device import PIECE, check_where, find_device, missing
from bridle.rows.cuda.placing import place
from bridle.rows.cuda.rows import CudaRows
from bridle.rows.cuda.sides import CudaSides
from bridle.solvers.shared.on_device import DeviceBias, DeviceDescent, DevicePace
from click.testing import CliRunner

from device_on_host import COMPILER, HostDevice

import reference
from matrix import small_data

LOSSES, BIASES = ("hinge", "squared_hinge"), ("none", "regularised", "free")
SOLVERS = {
    "dcd": DualCoordinateDescent(),
    "rounds": DualCoordinateDescent(asynchronous=False),
    "newton": "newton",
    "cg": "cg",
}
KINDS = [("float32", "csr-32"), ("float64", "csr-64"), ("float32", "dense"), ("float64", "dense")]

on_host = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
DEVICES = [pytest.param("host", marks=on_host), pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture(params=DEVICES)
def device(request):
    return HostDevice() if request.param == "host" else find_device()


def weights_of(y):
    return np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.5], len(y))


def both(device, X, y, C=0.5, *, loss="hinge", bias="none", sample_weight=None, room=None):
    """The problem on the processor, and the same on a device."""
    scale = 0.7 if bias == "regularised" else 1.0
    here = LinearProblem(
        X, y, C, loss=loss, bias=bias, bias_scale=scale, sample_weight=sample_weight
    )
    there = here.variant()
    rows = CudaRows(X, here.constant_feature, device=device, room=room)
    there.sides = CudaSides(rows, y, sample_weight, C, here.loss, here.bias_precision)
    return here, there


def check(problem, found, X, y, cost, tol=None):
    """What is certified is true of what is returned."""
    formula = {"loss": problem.loss.name, "bias": problem.bias, "bias_scale": problem.bias_scale}
    alpha = np.asarray(found.alpha)
    reference.assert_feasible(y, alpha, cost, loss=problem.loss.name, bias=problem.bias)
    primal = reference.primal(X, y, found.w, found.b, cost, **formula)
    dual = reference.dual(X, y, alpha, cost, **formula)
    assert primal <= found.certificate.primal * (1 + 1e-12)
    assert found.certificate.primal <= primal * (1 + 1e-7)
    assert found.certificate.dual <= dual + 1e-9 * primal
    if tol is not None:
        assert found.certificate.relative_gap <= tol
        assert found.converged


def test_a_device_is_named_by_one_of_three_words():
    assert check_where("auto") == "auto"
    with pytest.raises(ValueError, match='device must be "cpu", "cuda" or "auto", got \'gpu\''):
        LinearProblem(np.eye(2), [1, -1], device="gpu")


@pytest.mark.skipif(missing() is None, reason="there is a GPU")
def test_without_a_device_one_line_says_why():
    X, y = small_data()
    with pytest.raises(DeviceError, match=r'^device="cuda" is not available: ') as error:
        LinearSVC(device="cuda", loss="hinge").fit(X, y)
    assert "\n" not in str(error.value)
    model = LinearSVC(device="auto", loss="hinge").fit(X, y)
    assert model.place_ == f"cpu ({missing()})"


def test_what_a_device_has_not_is_refused_by_name(tmp_path):
    X, y = small_data()
    problem = LinearProblem(X, y, math.inf)
    assert place("auto", X, math.inf, problem.loss).device == "cpu"
    with pytest.raises(ValueError, match="crammer_singer"):
        LinearSVC(device="cuda", loss="hinge", multi_class="crammer_singer").fit(X, y)


def test_auto_counts_copies_and_problems(monkeypatch):
    """Large costs and many entries are the GPU's; little work, and many small problems, are not."""
    device = HostDevice()
    monkeypatch.setattr(placing, "missing", lambda: None)
    monkeypatch.setattr(placing, "find_device", lambda: device)
    monkeypatch.setattr(placing, "copy_rate", lambda: 2e10)
    X, loss = np.ones((100_000, 100)), bridle.Hinge()
    assert place("auto", X, 0.01, loss).device == "cpu"  # it would have to be started
    device.started = True
    found = place("auto", X, 0.01, loss)
    assert found.device == "cuda"
    assert "s predicted on the GPU" in str(found)
    assert place("auto", X[:100], 0.01, loss).device == "cpu"
    assert place("auto", X[:20_000], 0.01, loss, n_problems=50, n_threads=50).device == "cpu"
    assert place("cpu", X, 0.01, loss).device == "cpu"


def test_rows_elsewhere_are_refused(tmp_path):
    from bridle.cli import main

    X, y = small_data(storage="csr-32", dtype="float32")
    bridle.data.write_arrow(tmp_path / "rows.arrow", X, y)
    rows = bridle.StoredRows(tmp_path / "rows.arrow")
    with pytest.raises(ValueError, match="only rows in memory go to a GPU"):
        LinearSVC(device="cuda", loss="hinge").fit(rows)
    with pytest.raises(DeviceError, match="these are on disk"):
        LinearProblem(rows, device="cuda")
    asked = ["train", str(tmp_path / "rows.arrow"), "--memory", "1G", "--device", "cuda"]
    ran = CliRunner().invoke(main, asked)
    assert ran.exit_code == 2
    assert "only rows in memory go to a GPU" in ran.output


@pytest.mark.parametrize(("dtype", "storage"), [*KINDS, ("float32", "csr-64")])
def test_passes_equal_those_on_the_processor(device, dtype, storage):
    X, y = small_data(dtype=dtype, storage=storage)
    here, there = both(device, X, y, bias="regularised", sample_weight=weights_of(y))
    rng = np.random.default_rng(2)
    w, a = rng.normal(size=here.n_features + 1), rng.normal(size=here.n_rows)
    weights = np.abs(a)
    scores = device.get(there.rows.scores(w))
    np.testing.assert_allclose(scores, here.rows.scores(w), rtol=0, atol=1e-12)
    np.testing.assert_allclose(there.rows.combine(a), here.rows.combine(a), rtol=0, atol=1e-12)
    grams = [np.tril(p.rows.weighted_gram(weights)) for p in (here, there)]
    np.testing.assert_allclose(*grams, rtol=0, atol=1e-11)
    np.testing.assert_allclose(there.squared_norms, here.squared_norms, rtol=1e-14)
    assert there.rows.most_entries == here.rows.most_entries
    assert there.rows.largest_length == pytest.approx(here.rows.largest_length)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", BIASES)
def test_a_point_is_judged_as_on_the_processor(device, loss, bias):
    X, y = small_data(dtype="float32", storage="csr-32")
    here, there = both(device, X, y, loss=loss, bias=bias, sample_weight=weights_of(y))
    rng = np.random.default_rng(3)
    w, b = rng.normal(size=here.n_features), 0.3 if bias != "none" else 0.0
    alpha = np.minimum(rng.random(here.n_rows), here.upper)
    alpha = balanced(alpha, y) if bias == "free" else alpha  # far from it, the processor repairs
    assert there.primal(w, b) == pytest.approx(here.primal(w, b), rel=1e-12)
    assert there.dual(alpha) == pytest.approx(here.dual(alpha), rel=1e-10)
    for own in (alpha, None):
        iterate = bridle.Iterate(0, 0.0, w, b, own)
        one, other = here.judge(iterate), there.judge(iterate)
        assert other.primal == pytest.approx(one.primal, rel=1e-12)
        if own is not None:
            assert other.dual == pytest.approx(one.dual, rel=1e-10)
            if loss == "squared_hinge":  # of the hinge, any b between two breakpoints may be best
                assert other.b == pytest.approx(one.b, rel=1e-9, abs=1e-9)


def cells():
    for loss in LOSSES:
        for bias in BIASES:
            for k, (dtype, storage) in enumerate(KINDS):
                for solver in SOLVERS:
                    # On the processor, each solver on one kind of rows.
                    cuda = [pytest.mark.cuda]
                    if k == (LOSSES.index(loss) + list(SOLVERS).index(solver)) % len(KINDS):
                        yield pytest.param(
                            "host", loss, bias, dtype, storage, solver, marks=on_host
                        )
                    yield pytest.param("cuda", loss, bias, dtype, storage, solver, marks=cuda)


@pytest.mark.parametrize(("where", "loss", "bias", "dtype", "storage", "solver"), list(cells()))
def test_what_is_certified_is_true(where, loss, bias, dtype, storage, solver):
    X, y = small_data(dtype=dtype, storage=storage)
    device, weights = HostDevice() if where == "host" else find_device(), weights_of(y)
    _, there = both(device, X, y, loss=loss, bias=bias, sample_weight=weights)
    found = solve(there, SOLVERS[solver], stop=Gap(1e-5) | Epochs(2000))
    check(there, found, X, y, 0.5 * weights, 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0, 1e3])
def test_it_is_safe_at_every_C(device, loss, C):
    X, y = small_data(n_rows=400, n_features=30, dtype="float64", storage="csr-32")
    _, there = both(device, X, y, C, loss=loss)
    stop = Gap(1e-3) | Epochs(300 if device.xp is np else 3000)
    found = solve(there, "auto", stop=stop)
    check(there, found, X, y, C, 1e-3)
    assert np.all(np.diff([record.dual for record in found.trace]) >= 0)


def test_the_same_bits_in_rounds(device):
    X, y = small_data(n_rows=300, dtype="float32", storage="csr-32")
    _, there = both(device, X, y, bias="regularised")
    runs = [solve(there, SOLVERS["rounds"], stop=Epochs(8), seed=3) for _ in range(2)]
    for name in ("w", "alpha"):
        one, other = (np.asarray(getattr(run, name)) for run in runs)
        np.testing.assert_array_equal(one, other)
    assert runs[0].certificate == runs[1].certificate


def test_a_certificate_has_the_same_bits_every_time(device):
    X, y = small_data(n_rows=2000, n_features=40, dtype="float32", storage="csr-32")
    _, there = both(device, X, y)
    rng = np.random.default_rng(5)
    point = bridle.Iterate(0, 0.0, rng.normal(size=40), 0.0, 0.5 * rng.random(2000))
    found = [there.judge(point) for _ in range(3)]
    assert len({(judged.primal, judged.dual) for judged in found}) == 1


def test_rows_that_do_not_fit_come_in_ranges(device):
    for storage in ("csr-32", "dense"):
        X, y = small_data(n_rows=500, dtype="float32", storage=storage)
        _, whole = both(device, X, y)
        _, ranged = both(device, X, y, room=3000)
        assert not ranged.rows.resident
        assert ranged.rows.n_parts > 3
        w, a = np.ones(X.shape[1] + 1), np.linspace(-1, 1, 500)
        scores = [device.get(p.rows.scores(w)) for p in (whole, ranged)]
        np.testing.assert_array_equal(*scores)
        combined = [p.rows.combine(a) for p in (whole, ranged)]
        np.testing.assert_allclose(*combined, rtol=0, atol=1e-12)
        found = solve(ranged, "dcd", stop=Gap(1e-4) | Epochs(500))
        check(ranged, found, X, y, 0.5, 1e-4)


@on_host
def test_a_device_that_is_full_says_so():
    X, _ = small_data(n_rows=500, dtype="float32", storage="csr-32")
    with pytest.raises(DeviceError, match=r"^the GPU has 5e-05 GB free, but 500 rows and 12 feat"):
        CudaRows(X, device=HostDevice(memory=50_000))
    rows = CudaRows(X, device=HostDevice(memory=60_000))
    assert not rows.resident
    assert CudaRows(X, device=HostDevice(memory=100_000)).resident


def test_steps_that_collide_are_taken_back():
    """All rows of a round see the same weights: with the same rows, they overshoot together."""
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    X = np.ones((256, 2))
    y = np.where(np.arange(256) % 8 == 0, -1.0, 1.0)
    _, there = both(HostDevice(), X, y, 10.0)
    descent = DeviceDescent(there, None, asynchronous=False)
    descent.stochastic, descent.pace = False, DevicePace(256)
    rng, duals = bridle._core.Rng(0), [descent.dual]
    for _ in range(6):
        descent.epoch(rng)
        duals.append(descent.dual)
    assert np.all(np.diff(duals) >= 0)
    assert duals[-1] > duals[0]
    assert descent.pace.level > 0


def test_the_pace_follows_what_passes_gain():
    pace = DevicePace(1024)
    assert (pace.groups, pace.caution) == (1024, 0.0)
    pace.learn(0.1)
    assert pace.groups == 512
    for _ in range(pace.patience):
        pace.learn(0.95)
    assert pace.level == 0
    patience = pace.patience
    pace.slow_down()
    assert pace.patience > patience
    while not pace.alone:
        careful = pace.caution > 0
        pace.slow_down()
    assert careful
    assert pace.caution == 0.0


def test_the_bias_is_that_of_the_compiled_descent():
    bias = DeviceBias(4.0, 0.25)
    bias.balance = 3.0
    bias.start(0.5)
    assert bias.value == pytest.approx(0.25)
    bias.balance = 5.0
    before = bias.value
    bias.recentre(0.1)
    assert bias.centre == before


def test_bad_rows_are_refused_as_on_the_processor(device):
    X, y = small_data(storage="csr-32")
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        both(device, X, y)
    with pytest.raises(ValueError, match="NaN"):
        CudaRows(X, device=device)
    X, _ = small_data(storage="csr-32")
    X.indices[5] = 99
    with pytest.raises(ValueError):
        CudaRows(X, device=device)


def test_columns_out_of_order_are_put_in_order(device):
    X = sp.csr_matrix(np.arange(1.0, 7.0).reshape(2, 3))
    shuffled = sp.csr_matrix((X.data[[2, 0, 1, 3, 5, 4]], X.indices[[2, 0, 1, 3, 5, 4]], X.indptr))
    rows = CudaRows(shuffled, device=device)
    np.testing.assert_allclose(device.get(rows.scores(np.array([1.0, 2.0, 3.0, 0.0]))), [14, 32])


@pytest.mark.cuda
def test_copies_in_pieces_arrive_whole():
    device, rng = find_device(), np.random.default_rng(0)
    for size in (0, 1, PIECE // 4, 5 * PIECE + 17):
        values = rng.normal(size=size).astype(np.float32)
        np.testing.assert_array_equal(device.get(device.put(values)), values)


@pytest.mark.cuda
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("C", [1e-3, 0.03, 1.0, 30.0, 1e3])
def test_a_corpus_is_certified_at_every_C(loss, bias, C):
    X, y = bridle.data.make_corpus(4000, seed=1, n_features=3000)
    problem = LinearProblem(X, y, C, loss=loss, bias=bias, device="cuda")
    found = solve(problem, stop=Gap(1e-3) | Epochs(3000))
    check(problem, found, X, y, C, 1e-3)
    assert np.all(np.diff([record.dual for record in found.trace]) >= 0)
    assert found.place == "cuda"


@pytest.mark.cuda
def test_estimators_have_a_device():
    X, y = bridle.data.make_corpus(3000, seed=2, n_features=3000)
    options = {"C": 0.1, "loss": "hinge", "tol": 1e-4, "random_state": 0}
    here = LinearSVC(**options).fit(X, y)
    there = LinearSVC(device="cuda", **options).fit(X, y)
    assert there.place_ == "cuda"
    assert there.certificate_.primal == pytest.approx(here.certificate_.primal, rel=2e-4)
    np.testing.assert_allclose(there.dual_coef_ @ X, there.coef_, atol=0.05)
    again = LinearSVC(device="cuda", warm_start=True, **options).fit(X, y)
    epochs = again.n_iter_
    assert again.fit(X, y).n_iter_ <= epochs
    several = np.arange(3000) % 5
    model = LinearSVC(device="cuda", **options).fit(X, several)
    assert len(model.certificates_) == 5
    assert model.certificate_.relative_gap <= 1e-4
    weighted = LinearSVC(device="cuda", class_weight="balanced", **options).fit(X, y)
    assert weighted.certificate_.relative_gap <= 1e-4
    chosen = LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=3, device="cuda", loss="hinge").fit(X, y)
    assert chosen.gaps_.max() <= 1e-3


@pytest.mark.cuda
def test_rows_on_the_device_stay_there():
    import cupy
    import cupyx.scipy.sparse

    X, y = bridle.data.make_corpus(2000, seed=3)
    there = cupyx.scipy.sparse.csr_matrix(X)
    model = LinearSVC(C=0.1, loss="hinge").fit(there, cupy.asarray(y))
    assert model.place_ == "cuda"
    assert model.certificate_.relative_gap <= 1e-3
    predicted = model.predict(there)
    assert isinstance(predicted, cupy.ndarray)
    np.testing.assert_array_equal(predicted.get(), model.predict(X))
    np.testing.assert_allclose(
        model.decision_function(there).get(), model.decision_function(X), atol=1e-9
    )
    dense = cupy.asarray(X.toarray())
    same = LinearSVC(C=0.1, loss="hinge").fit(dense, y)
    assert same.certificate_.relative_gap <= 1e-3
    in_memory = LinearSVC(C=0.1, loss="hinge").fit(X, y)
    assert model.to_model().fingerprint == in_memory.to_model().fingerprint
    with pytest.raises(ValueError, match="these are on a GPU"):
        LinearSVC(loss="hinge", probability="platt").fit(there, y)


@pytest.mark.cuda
def test_tensors_are_taken_in_place():
    torch = pytest.importorskip("torch")
    X, y = small_data(n_rows=300, dtype="float32")
    tensor = torch.from_numpy(X).cuda()
    found = solve(LinearProblem(tensor, y, 0.5), "dcd", stop=Gap(1e-4) | Epochs(500))
    check(LinearProblem(X, y, 0.5), found, X, y, 0.5, 1e-4)


@pytest.mark.cuda
def test_a_path_and_the_command_line_have_a_device(tmp_path):
    from bridle.cli import main

    X, y = bridle.data.make_corpus(2000, seed=4)
    found = bridle.path(X, y, 0.01, 1.0, gap=1e-2, device="cuda")
    assert found.complete
    assert all(point.solution.place == "cuda" for point in found)
    data = tmp_path / "data.svm"
    bridle.data.write_svmlight(data, X, y)
    ran = CliRunner().invoke(main, ["train", str(data), "--device", "cuda", "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["place"] == "cuda"


@pytest.mark.cuda
def test_a_callback_ends_a_run_with_the_best_so_far():
    X, y = bridle.data.make_corpus(3000, seed=5, n_features=3000)
    problem = LinearProblem(X, y, 1.0, device="cuda")
    found = solve(problem, "dcd", stop=Gap(1e-9), callbacks=[lambda record: record.epoch > 3])
    assert found.status is bridle.Status.INTERRUPTED
    check(problem, found, X, y, 1.0)


@pytest.mark.cuda
def test_auto_says_which_it_took_and_why():
    X, y = small_data()
    found = solve(LinearProblem(X, y, 0.5, device="auto"))
    assert found.place.startswith("cpu (")
    assert "predicted on the GPU" in found.place
