"""Kernel machines on a device: the GPU where there is one, and anywhere the processor as one."""

from __future__ import annotations

import json

import bridle
import numpy as np
import pytest
import scipy.sparse as sp
from bridle.errors import DeviceError
from bridle.estimators import svc
from bridle.objective.kernels import kernel_from
from bridle.problems.kernel import Expansion
from bridle.rows.cuda import gram
from bridle.rows.cuda.device import find_device, missing
from bridle.rows.cuda.gram import apply, scores_on
from bridle.rows.cuda.ring import RowRing
from bridle.rows.gram import kernel_matrix
from bridle.solvers.shared import decomposition
from bridle.solvers.shared.decomposition import Decomposition
from sklearn.datasets import load_digits

from device_on_host import COMPILER, HostDevice
from test_kernel import BIASES, KERNELS, make_data, recompute
from test_kernel_cli import run

ON_HOST = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


@pytest.fixture(
    params=[pytest.param("host", marks=ON_HOST), pytest.param("cuda", marks=pytest.mark.cuda)]
)
def device(request, monkeypatch):
    """What `device="cuda"` means in a test."""
    found = HostDevice() if request.param == "host" else find_device()
    for module in (gram, svc):
        monkeypatch.setattr(module, "find_device", lambda: found)
        monkeypatch.setattr(module, "missing", lambda: None)
    return found


def problem_of(X, y, C=2.0, **settings):
    return bridle.KernelProblem(X, y, C, coef0=1.0, bias_scale=1.5, device="cuda", **settings)


@pytest.mark.parametrize(
    ("name", "bias", "storage", "dtype"),
    [
        ("rbf", "free", np.ascontiguousarray, "float32"),
        ("rbf", "regularised", sp.csr_matrix, "float64"),
        ("rbf", "none", np.ascontiguousarray, "float64"),
        ("poly", "free", sp.csr_matrix, "float32"),
        ("poly", "regularised", np.ascontiguousarray, "float32"),
        ("linear", "free", np.ascontiguousarray, "float64"),
        ("linear", "none", sp.csr_matrix, "float32"),
    ],
)
def test_certificates_are_what_numpy_computes(device, name, bias, storage, dtype):
    X, y = make_data(300, dtype=dtype)
    weight = np.random.default_rng(3).integers(0, 4, size=300)
    problem = problem_of(storage(X), y, kernel=name, bias=bias, sample_weight=weight)
    solver = bridle.Smo(working_set=64)
    found = bridle.solve(problem, solver, stop=bridle.Gap(1e-6) | bridle.Seconds(60))
    primal, dual = recompute(problem, found)
    assert found.converged, found.message
    assert primal <= found.certificate.primal == pytest.approx(primal, rel=1e-9)
    assert dual >= found.certificate.dual == pytest.approx(dual, rel=1e-9)
    assert (np.diff(found.trace["relative_gap"]) <= 0).all()


@pytest.mark.parametrize("bias", BIASES)
def test_the_optimum_is_the_processors(device, bias):
    X, y = make_data(400)
    settings = {"kernel": "rbf", "coef0": 1.0, "bias": bias, "bias_scale": 1.5}
    here = bridle.solve(bridle.KernelProblem(X, y, 5.0, **settings), stop=bridle.Gap(1e-9))
    there = bridle.solve(problem_of(X, y, 5.0, kernel="rbf", bias=bias), stop=bridle.Gap(1e-9))
    assert there.converged, there.message
    assert there.certificate.primal == pytest.approx(here.certificate.primal, rel=2e-9)


@pytest.mark.parametrize("storage", [np.ascontiguousarray, sp.csr_matrix])
@pytest.mark.parametrize("name", KERNELS)
def test_sums_are_within_their_bounds(device, name, storage, monkeypatch):
    """Many digits more than float64 has, in as many blocks as there are rows."""
    monkeypatch.setattr(gram, "GROUP", 7)
    monkeypatch.setattr(gram, "TILE", 100)
    X, y = make_data(60, dtype=np.float32)
    values = problem_of(storage(X), y, kernel=name, gamma=0.3).values
    c = np.random.default_rng(1).normal(size=60) * (np.arange(60) % 3 > 0)
    wide = X.astype(np.longdouble)
    kernel = values.kernel
    squares = (wide**2).sum(axis=1)
    K = kernel.formula(wide @ wide.T, squares[:, None], squares[None])
    sums = values.expand(c)
    assert (np.abs(sums.values - K @ c) <= sums.error).all()
    assert (sums.error < 1e-9 * (1 + np.abs(K) @ np.abs(c))).all()
    chosen = np.array([3, 50, 7])
    some = device.get(values.sums(c, device.put(chosen)))
    np.testing.assert_allclose(some, sums.values[chosen], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_formula_turns_products_into_values(device, name, dtype):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(9, 4)), rng.normal(size=(5000, 4))
    kernel = kernel_from(name, A, 0.3, 3, 0.5)
    products = device.put((A @ B.T).astype(dtype))
    norms = [device.put((M**2).sum(axis=1)) for M in (A, B)]
    apply(device, kernel, products, *norms, 0.25)
    precision = 1e-12 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(
        device.get(products), kernel.values(A, B) + 0.25, rtol=precision, atol=precision
    )


def steps_of(problem, set_size=16, cache=1 << 24):
    """What the solver runs, from zero."""
    zeros = np.zeros(problem.n_rows)
    return Decomposition(
        problem.values, problem.constant, problem.signed_cost, zeros, zeros,
        problem.bias == "free", set_size, cache,
    )  # fmt: skip


def solved_by_pairs(K, a, f, bound, goal):
    """NumPy's twin of solve_pairs."""
    a, f, enough, positive = a.copy(), f.copy(), -1.0, bound > 0
    most = np.abs(bound)
    for step in range(100 * len(a)):
        up, down = np.where(positive, most - a, a), np.where(positive, a, most - a)
        i = int(np.argmin(np.where(up > 0, f, np.inf)))
        violation = np.max(np.where(down > 0, f, -np.inf)) - f[i]
        if not violation > max(0.0, enough):
            break
        enough = goal * violation if step == 0 else enough
        eta = np.maximum(K[i, i] + np.diag(K) - 2 * K[i], 1e-12)
        able = (down > 0) & (f > f[i])
        j = int(np.argmax(np.where(able, (f - f[i]) ** 2 / eta, -1.0)))
        t = min((f[j] - f[i]) / eta[j], up[i], down[j])
        a[i] += t if positive[i] else -t
        a[j] -= t if positive[j] else -t
        f += t * (K[i] - K[j])
    return a, step


def solved_by_singles(K, a, f, bound, goal):
    """NumPy's twin of solve_singles."""
    a, f, enough, positive = a.copy(), f.copy(), -1.0, bound > 0
    most = np.abs(bound)
    for step in range(100 * len(a)):
        up, down = np.where(positive, most - a, a), np.where(positive, a, most - a)
        free = ((f < 0) & (up > 0)) | ((f > 0) & (down > 0))
        worst = np.max(np.where(free, np.abs(f), 0.0))
        if not worst > max(0.0, enough):
            break
        enough = goal * worst if step == 0 else enough
        i = int(np.argmax(np.where(free, f**2 / np.diag(K), -1.0)))
        t = np.sign(-f[i]) * min(abs(f[i]) / K[i, i], up[i] if f[i] < 0 else down[i])
        a[i] += t if positive[i] else -t
        f += t * K[i]
    return a, step


@pytest.mark.parametrize("q", [5, 70, 300])
@pytest.mark.parametrize("free", [True, False])
def test_a_working_set_is_solved_as_numpy_does(device, free, q):
    rng = np.random.default_rng(q)
    X, y = make_data(q, seed=q)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + 0.5
    bound = y * rng.choice([0.0, 0.5, 2.0], size=q)
    twin = solved_by_pairs if free else solved_by_singles
    expected, steps = twin(K, np.zeros(q), -y, bound, 0.1)
    where = rng.permutation(2 * q)[:q]
    full = {name: np.zeros(2 * q) for name in ("a", "f", "bound", "diagonal")}
    full["f"][where], full["bound"][where], full["diagonal"][where] = -y, bound, np.diag(K)
    given = [device.put(values) for values in full.values()]
    outs = [device.put(np.empty(q, np.int32)), device.put(np.empty(q)), device.put(np.empty(4))]
    name = "solve_pairs" if free else "solve_singles"
    device.kernel("kernels", name, VALUE="double")((1,), (256,), (
        device.put(K), np.int32(q), device.put(where), *given, 0.1, 100 * q, *outs,
    ))  # fmt: skip
    moved, change, told = (device.get(out) for out in outs)
    alpha, n_moved = device.get(given[0])[where], int(told[3])
    assert told[0] == steps > 0
    np.testing.assert_allclose(alpha, expected, atol=1e-9)
    assert np.array_equal(moved[:n_moved], np.flatnonzero(alpha))
    np.testing.assert_allclose(change[:n_moved], (np.sign(bound) * alpha)[alpha != 0], atol=1e-12)
    assert told[1] > 0
    assert 0 < told[2] <= 1.0 + 1e-12


@pytest.mark.parametrize("bias", ["none", "free"])
def test_the_worst_violators_are_chosen(device, bias, monkeypatch):
    monkeypatch.setattr(decomposition, "WIDTH", 40)
    problem = problem_of(*make_data(500), kernel="rbf", bias=bias)
    steps = steps_of(problem, 40)
    steps.run(3)
    v = [device.get(values) for values in steps.v]
    up = np.where(v[2] > 0, v[2] - v[0], v[0]) > 0
    down = np.where(v[2] > 0, v[0], -v[2] - v[0]) > 0
    taken = steps.place_of[steps.last_chosen]
    fresh = np.ones(500, bool)
    fresh[taken[taken >= 0]] = False
    if bias == "free":
        kinds = [np.where(up, v[1], np.inf), np.where(down, -v[1], np.inf)]
        limits, n = [-kinds[1].min(), -kinds[0].min()], 10
    else:
        moves = ((v[1] < 0) & up) | ((v[1] > 0) & down)
        kinds, limits, n = [np.where(moves, -(v[1] ** 2) / v[3], np.inf)], [0.0], 20
    expected = set()
    for keys, limit in zip(kinds, limits, strict=True):
        order = np.argsort(np.where(fresh, keys, np.inf), kind="stable")[:n]
        expected |= set(order[keys[order] < limit])
    chosen = steps._choose()
    assert set(chosen) - set(taken) == expected
    assert len(set(chosen)) == len(chosen)


@pytest.mark.parametrize("bias", BIASES)
def test_scores_of_rows_left_out_follow_when_these_come_back(device, bias):
    problem = problem_of(*make_data(400, 5), 10.0, kernel="rbf", bias=bias)
    steps, alpha, left_out = steps_of(problem), np.empty(400), []
    for _ in range(4):
        report = steps.run(60)
        left_out.append(400 - report.n_active)
        steps.unshrink()
        steps.alpha(alpha)
        assert steps.run(0).dual == pytest.approx(problem.dual(alpha), rel=1e-8)
    assert max(left_out) > 100


def test_a_small_cache_will_do(device):
    X, y = make_data(400, 5)
    problem = problem_of(X, y, 10.0, kernel="rbf", bias="free")
    settings = {"working_set": 32}
    ample = bridle.solve(problem, bridle.Smo(**settings), stop=bridle.Gap(1e-5))
    tight = bridle.solve(
        problem, bridle.Smo(**settings, cache_mb=40 * 400 * 8 / 1e6), stop=bridle.Gap(1e-5)
    )
    assert tight.certificate.primal == pytest.approx(ample.certificate.primal, rel=2e-5)
    assert tight.converged
    least = bridle.solve(
        problem, bridle.Smo(**settings, cache_mb=2 * 400 * 8 / 1e6), stop=bridle.Gap(1e-2)
    )
    assert least.converged
    with pytest.raises(ValueError, match="does not hold two kernel rows"):
        bridle.solve(problem, bridle.Smo(cache_mb=0.001))


def test_the_same_bits_every_time_and_a_start(device):
    problem = problem_of(*make_data(300), 10.0, kernel="rbf", bias="free")
    one, other = (bridle.solve(problem, stop=bridle.Gap(1e-4)) for _ in range(2))
    assert np.array_equal(one.alpha, other.alpha)
    assert one.certificate == other.certificate
    again = bridle.solve(problem, stop=bridle.Gap(1e-4), start=one)
    assert again.steps == 0
    assert again.converged


def test_rows_that_do_not_fit_are_refused(device, monkeypatch):
    def full(values):
        raise MemoryError

    monkeypatch.setattr(device, "put", full)
    with pytest.raises(DeviceError, match="no room for 50 rows of 7 features"):
        problem_of(*make_data(50))


def test_kernel_rows_stay_what_they_are(device):
    """A table of i + 1000 j, of which rows are asked for and columns left out at random."""
    rng = np.random.default_rng(0)
    ring = RowRing(device, np.float64, 50, 50 * 12)
    columns, rows = np.arange(50), np.arange(50)

    def compute(wanted, out):
        out[:] = device.put(wanted[:, None] + 1000.0 * columns[None])

    for turn in range(60):
        wanted = rng.permutation(rows)[: min(len(rows), rng.integers(1, 11))]
        places = ring.fetch(wanted, compute)
        found = device.get(ring.table)[places]
        assert np.array_equal(found, wanted[:, None] + 1000.0 * columns[None])
        if turn % 10 == 9:
            kept = np.sort(rng.permutation(len(columns))[: int(0.8 * len(columns))])
            columns = rows = columns[kept]
            ring.keep(device.put(kept), columns)
            here = ring.row_at[ring.row_at >= 0]
            assert set(here) <= set(columns)
            whole = device.get(ring.table)[ring.place_of[here]]
            assert np.array_equal(whole, here[:, None] + 1000.0 * columns[None])


@pytest.mark.parametrize("storage", [np.ascontiguousarray, sp.csr_matrix])
def test_scores_of_other_rows(device, storage, monkeypatch):
    monkeypatch.setattr(gram, "TILE", 300)
    A, _ = make_data(130, dtype=np.float32)
    B, _ = make_data(40, seed=1, dtype=np.float32)
    coefficients = np.random.default_rng(0).normal(size=(3, 40))
    kernel = kernel_from("rbf", A, 0.4)
    expected = kernel_matrix(kernel, A, B) @ coefficients.T
    found = scores_on(device, kernel, storage(A), B, coefficients)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    found = scores_on(device, kernel, A, storage(B), coefficients)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_decisions_of_a_problem(device):
    X, y = make_data(150)
    problem = problem_of(X, y, kernel="rbf", bias="free")
    w = Expansion(np.random.default_rng(0).normal(size=150))
    peer = bridle.KernelProblem(X, y, 2.0, kernel="rbf", coef0=1.0, bias="free")
    np.testing.assert_allclose(
        problem.decision(X[:20], w, 0.5), peer.decision(X[:20], w, 0.5), rtol=1e-11
    )


def test_an_indefinite_kernel_has_no_certificate(device):
    X, y = make_data(200)
    problem = bridle.KernelProblem(
        X, y, kernel="sigmoid", gamma=1.0, coef0=-2.0, device="cuda", bias="free"
    )
    assert problem.indefinite is not None
    found = bridle.solve(problem, stop=bridle.Gap(1e-3) | bridle.Epochs(20))
    assert found.certificate.dual == -np.inf


def test_a_kernel_without_a_formula_is_refused(device):
    X, y = make_data(50)
    with pytest.raises(DeviceError, match=r"linear, rbf, poly, sigmoid, not precomputed$"):
        bridle.KernelProblem(X @ X.T, y, kernel="precomputed", device="cuda")


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes(device, multi_class):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300] % 4
    machines = [
        bridle.SVC(10.0, tol=1e-6, multi_class=multi_class, device=where).fit(X, y)
        for where in ("cpu", "cuda")
    ]
    assert [machine.place_ for machine in machines] == ["cpu", "cuda"]
    here, there = (machine.decision_function(X) for machine in machines)
    np.testing.assert_allclose(there, here, atol=1e-3)
    assert machines[1].certificate_.relative_gap <= 1e-6
    assert (machines[1].predict(X) == machines[0].predict(X)).all()


def test_a_model_from_a_device_predicts_without_one(device, monkeypatch):
    X, y = make_data(120)
    machine = bridle.SVC(device="cuda").fit(X, y)
    there = machine.decision_function(X)
    monkeypatch.setattr(svc, "missing", lambda: "it is elsewhere")
    np.testing.assert_allclose(machine.decision_function(X), there, atol=1e-9)


def test_auto_takes_what_is_predicted_to_be_faster(device, monkeypatch):
    X, y = make_data(200)
    device.started = True
    few = bridle.KernelProblem(X, y, device="auto")
    assert few.place.startswith("cpu (0.0")
    assert few.place.endswith("s on the processor)")
    monkeypatch.setattr(gram, "CPU_PAIR", 1.0)
    many = bridle.KernelProblem(X, y, device="auto")
    assert many.place.startswith("cuda (")
    assert bridle.solve(many).place == many.place
    own = bridle.KernelProblem(X, y, kernel=lambda A, B: A @ B.T, device="auto")
    assert own.place == "cpu (the kernels there are linear, rbf, poly, sigmoid, not callable)"


def test_the_command_line(device, tmp_path):
    X, y = make_data(100)
    data = tmp_path / "data.svm"
    bridle.data.write_svmlight(data, X, y)
    options = ["--kernel", "rbf", "--device", "cuda", "--json"]
    report = json.loads(run("train", data, tmp_path / "model", *options).stdout)
    assert report["place"] == "cuda"
    assert report["relative_gap"] <= 1e-3


@pytest.mark.skipif(missing() is None, reason="there is a GPU")
def test_without_a_device_auto_is_the_processor():
    X, y = make_data(50)
    assert bridle.KernelProblem(X, y, device="auto").place.startswith("cpu (")
    with pytest.raises(DeviceError, match="is not available"):
        bridle.KernelProblem(X, y, device="cuda")
    with pytest.raises(ValueError, match="device must be"):
        bridle.KernelProblem(X, y, device="gpu")
