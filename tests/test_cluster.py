"""The same on a Dask cluster of processes: rows of every kind, workers that die, bad input."""

from __future__ import annotations

import json
import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from bridle import (
    DaskRows,
    DistributedProblem,
    Epochs,
    Gap,
    LinearOneClassSVM,
    LinearProblem,
    LinearSVC,
    LinearSVCCV,
    LinearSVR,
    LogisticRegression,
    LogisticRegressionCV,
    QuantileRegressor,
    Ridge,
    __version__,
    certify,
    compare,
    path,
    solve,
)
from bridle.data import make_corpus, write_arrow
from bridle.rows.cluster.dask_rows import ClusterError
from bridle.rows.disk.memory import resident_bytes
from sklearn.base import clone
from sklearn.model_selection import KFold

from test_distributed import check_certificate

da = pytest.importorskip("dask.array")
db = pytest.importorskip("dask.bag")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def client():
    import dask

    with (
        dask.config.set({"distributed.worker.daemon": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0",
            silence_logs=50, worker_dashboard_address=":0",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture(autouse=True)
def two_workers_that_answer(client):
    """A test before may have killed one, which the scheduler still names for a moment."""
    deadline = time.time() + 30
    while len(client.run(os.getpid, on_error="ignore")) < 2 and time.time() < deadline:
        time.sleep(0.1)


@pytest.fixture(scope="module")
def corpus():
    X, y = make_corpus(1200, seed=3)
    return X.astype(np.float32), y


def blocks(X, y, n=4):
    return [(X[rows], y[rows]) for rows in np.array_split(np.arange(len(y)), n)]


def bag(X, y, n=4):
    return db.from_sequence(blocks(X, y, n), npartitions=n)


def test_a_bag_of_csr_blocks_two_workers_one_machine(client, corpus):
    X, y = corpus
    rows = DaskRows(client, bag(X, y))
    assert rows.n_parts == 2
    problem = DistributedProblem(rows, 0.5, bias="regularised")
    found = solve(problem, stop=Gap(1e-3) | Epochs(100))
    assert found.converged
    check_certificate(found, X, y, 0.5, loss="hinge", bias="regularised")
    one = solve(LinearProblem(X, y, 0.5, bias="regularised"), "dcd", stop=Gap(1e-3) | Epochs(100))
    assert found.certificate.primal >= one.certificate.dual
    assert one.certificate.primal >= found.certificate.dual
    assert found.epochs <= 2 * one.epochs
    # One vector each way in a round, of float32; two of float64 in a certificate. Where rows are
    # gathered, each comes at most once, and before and after that the parts hear w.
    width, report = X.shape[1] + 1, problem.sides.report
    assert 1 <= report.rounds + report.gathered <= 30
    per_round = 2 * 2 * 4 * width * report.rounds
    per_certificate = 2 * 2 * 8 * width * report.certificates
    gathered = 2 * 4 * width * (1 + report.gathered) + X.nnz * 8 + 16 * len(y)
    most = 1.1 * (per_round + per_certificate + gathered) + 16 * width + 10**4
    assert 0 < rows.bytes_moved < most
    assert rows.seconds_overhead > 0
    assert rows.linked
    assert rows.bytes_between == 0  # two workers: the client talks to both
    again = solve(problem.variant(C=0.1), stop=Gap(1e-3) | Epochs(100))  # the rows are still there
    check_certificate(again, X, y, 0.1, loss="hinge", bias="regularised")


def test_linear_svc_on_arrays_frames_bags_and_files(client, corpus, tmp_path):
    import dask.dataframe as dd
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y = np.where(X[:, 0] - X[:, 1] + rng.normal(size=300) > 0, "yes", "no")
    weight = rng.integers(1, 4, 300).astype(float)
    local = LinearSVC(0.1, class_weight="balanced", random_state=0).fit(X, y, weight)
    options = {"C": 0.1, "class_weight": "balanced", "random_state": 0, "store_dual": True}
    remote = LinearSVC(**options).fit(
        da.from_array(X, chunks=(75, 3)),
        da.from_array(y, chunks=75),
        da.from_array(weight, chunks=75),
    )
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcde")), npartitions=3)
    series = dd.from_pandas(pd.DataFrame({"y": (y == "yes") * 1, "w": weight}), npartitions=3)
    framed = LinearSVC(**options).fit(frame, series["y"], series["w"])
    assert framed.feature_names_in_.tolist() == list("abcde")
    files = [tmp_path / f"{k}.arrow" for k in range(3)]
    for file, rows in zip(files, np.array_split(np.arange(300), 3), strict=True):
        write_arrow(file, sp.csr_matrix(X[rows]), (y[rows] == "yes") * 2.0 - 1, weight=weight[rows])
    filed = LinearSVC(**options).fit(DaskRows(client, files))
    assert remote.classes_.tolist() == ["no", "yes"]
    for model in (remote, framed, filed):
        assert model.certificate_.relative_gap <= 1e-3
        assert model.certificate_.primal >= local.certificate_.dual
        assert local.certificate_.primal >= model.certificate_.dual
        assert np.abs(model.coef_ - local.coef_).max() < 0.1 * np.abs(local.coef_).max()
        assert model.dual_coef_.shape == (1, 300)
    assert filed.n_features_in_ == 5
    assert remote.cluster_.bytes_moved > 0


def test_several_classes_and_the_path(client, corpus):
    X, _ = corpus
    y = np.random.default_rng(0).integers(0, 3, X.shape[0])
    rows = DaskRows(client, bag(X, y))
    model = LinearSVC(0.05, loss="hinge").fit(rows)
    assert model.coef_.shape == (3, X.shape[1])
    for k in range(3):
        one = LinearProblem(X, np.where(y == k, 1, -1), 0.05, bias="regularised")
        primal = one.primal(model.coef_[k], model.intercept_[k])
        assert model.certificates_[k].primal == pytest.approx(primal, rel=1e-9)
    signs = np.where(y == 0, -1, 1)
    found = path(DaskRows(client, bag(X, signs)), None, 0.01, 0.1, gap=0.05)
    alone = path(X, signs, 0.01, 0.1, gap=0.05)
    assert found.complete
    assert abs(len(found) - len(alone)) <= 2
    for C in (0.01, 0.03, 0.1):
        solution, certificate = found.at(C)
        problem = LinearProblem(X, signs, C)
        assert problem.primal(solution.w) == pytest.approx(certificate.primal, rel=1e-9)
        assert certificate.relative_gap <= 0.05
        assert certificate.dual <= solve(problem, "dcd").certificate.primal


def test_bad_input_is_named(client, corpus, tmp_path):
    X, y = corpus
    pieces = blocks(X, y)

    def fit(blocks_):
        return DistributedProblem(DaskRows(client, db.from_sequence(blocks_, npartitions=4)), 1.0)

    narrow = [(pieces[0][0][:, :7], pieces[0][1]), *pieces[1:]]
    with pytest.raises(ValueError, match=r"has \d+ features, but element 0 of partition 0 has 7"):
        fit(narrow)
    with pytest.raises(ValueError, match=r"worker tcp.*element 0 of partition 2 is empty"):
        fit([*pieces[:2], (X[:0], y[:0]), pieces[3]])
    with pytest.raises(ValueError, match="X has 4 partitions, but y has 2"):
        DaskRows(client, da.ones((8, 2), chunks=2), da.ones(8, chunks=4))
    whole = tmp_path / "good.arrow"
    write_arrow(whole, X, y)
    torn = tmp_path / "torn.arrow"
    torn.write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"worker tcp.*torn\.arrow"):
        DaskRows(client, [whole, torn])
    with pytest.raises(ValueError, match="multi_class='ovo' is not available on a cluster"):
        LinearSVC(multi_class="ovo").fit(da.ones((8, 2), chunks=2), da.ones(8, chunks=2))
    worker = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
    client.run(exec, "import bridle; bridle.__version__ = '0.0.9'", workers=[worker])
    try:
        with pytest.raises(ClusterError, match=f"worker {worker} has bridle 0.0.9"):
            DaskRows(client, bag(X, y))
    finally:
        client.run(exec, f"import bridle; bridle.__version__ = {__version__!r}", workers=[worker])


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_worker_that_is_killed(client, corpus, tmp_path, checkpoint):
    X, y = corpus
    rows = DaskRows(client, bag(X, y))
    problem = DistributedProblem(
        rows, 1.0, bias="regularised", checkpoint=tmp_path if checkpoint else None
    )
    victim = client.run(os.getpid)[rows._places[1]]
    killed = threading.Event()

    def kill(record):
        if record.epoch > 2 and not killed.is_set():
            killed.set()
            os.kill(victim, signal.SIGKILL)

    found = solve(problem, stop=Gap(1e-4) | Epochs(300), callbacks=[kill])
    assert killed.is_set()
    assert found.converged
    assert len(rows.losses) == 1
    assert "died" in rows.losses[0]
    assert "read again" in rows.losses[0]
    check_certificate(found, X, y, 1.0, loss="hinge", bias="regularised")
    deadline = time.time() + 30
    while len(client.scheduler_info(n_workers=-1)["workers"]) < 2 and time.time() < deadline:
        time.sleep(0.1)


def wait_for_workers(client, n=2):
    deadline = time.time() + 30
    while len(client.scheduler_info(n_workers=-1)["workers"]) < n and time.time() < deadline:
        time.sleep(0.1)


def test_a_worker_that_dies_after_the_last_certificate(client, corpus):
    """The dual variables are gone, the model and its certificate are not."""
    X, y = corpus
    wait_for_workers(client)
    rows = DaskRows(client, bag(X, y))
    victim = client.run(os.getpid)[rows._places[1]]

    def kill(record):
        if record.relative_gap <= 1e-3:
            os.kill(victim, signal.SIGKILL)

    model = LinearSVC(0.5, loss="hinge", store_dual=True, random_state=0, callback=kill)
    with pytest.warns(RuntimeWarning, match="there is no dual_coef_: these dual variables were"):
        model.fit(rows)
    assert not hasattr(model, "dual_coef_")
    problem = LinearProblem(X, y, 0.5, bias="regularised")
    primal = problem.primal(model.coef_[0], model.intercept_[0])
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert model.certificate_.relative_gap <= 1e-3
    best = solve(problem, "dcd", stop=Gap(1e-5) | Epochs(3000)).certificate
    assert model.certificate_.dual <= best.primal
    assert len(rows.losses) == 1
    model.callback = None
    again = model.fit(rows)  # the rows are there again
    assert again.dual_coef_.shape == (1, len(y))
    wait_for_workers(client)


def test_warm_starts_and_pickles(client, corpus):
    import pickle

    X, y = corpus
    rows = DaskRows(client, bag(X, y))
    model = LinearSVC(0.5, loss="hinge", warm_start=True, random_state=0, tol=1e-4).fit(rows)
    cold = model.n_iter_
    assert model.fit(rows).n_iter_ < cold
    model.set_params(C=0.6).fit(rows)
    assert model.n_iter_ < cold
    problem = LinearProblem(X, y, 0.6, bias="regularised")
    primal = problem.primal(model.coef_[0], model.intercept_[0])
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    with pytest.raises(ValueError, match="warm_start=True on a cluster needs DaskRows"):
        model.fit(bag(X, y))
    copied = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copied.predict(X), model.predict(X))
    assert copied.cluster_.bytes_moved == rows.bytes_moved


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_of_dask_collections_are_lazy(client, n_classes):
    import dask.dataframe as dd
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.array(["a", "b", "c"])[rng.integers(0, n_classes, 90)]
    weight = rng.random(90)
    lazy, labels = da.from_array(X, chunks=(30, 2)), da.from_array(y, chunks=30)
    model = LinearSVC(0.1, random_state=0).fit(X, y)
    for method in (model.predict, model.decision_function):
        found = method(lazy)
        assert isinstance(found, da.Array)
        assert found.dtype == method(X).dtype
        assert found.shape == method(X).shape
        assert np.array_equal(found.compute(), method(X))
    assert model.score(lazy, labels) == model.score(X, y)
    weighted = model.score(lazy, labels, da.from_array(weight, chunks=30))
    assert weighted == pytest.approx(model.score(X, y, weight))
    named = pd.DataFrame(X, columns=list("abcd"))
    framed = LinearSVC(0.1, random_state=0).fit(named, y)
    frame = dd.from_pandas(named, npartitions=3)
    assert np.array_equal(framed.predict(frame).compute(), framed.predict(named))
    assert np.array_equal(
        framed.decision_function(frame).compute(), framed.decision_function(named)
    )
    assert framed.score(frame, dd.from_pandas(pd.Series(y), npartitions=3)) == model.score(X, y)
    pieces = db.from_sequence([X[:50], X[50:]], npartitions=2)
    assert np.array_equal(np.concatenate(model.predict(pieces).compute()), model.predict(X))
    assert model.score(pieces, db.from_sequence([y[:50], y[50:]], npartitions=2)) == pytest.approx(
        model.score(X, y)
    )
    with pytest.raises(TypeError, match="DaskRows are for `fit`"):
        model.predict(DaskRows(client, lazy, labels))


REFUSED = [
    ({"C": np.inf}, "C=inf"), ({"sparse_coef": True}, "sparsify"),
    ({"multi_class": "ovo"}, "against the rest"),
    ({"multi_class": "crammer_singer"}, "against the rest"), ({"warm_start": True}, "DaskRows"),
    ({"solver": "pegasos"}, "needs the rows range by range"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "why"), REFUSED)
def test_what_a_cluster_has_not_is_refused_with_a_reason(client, options, why):
    X, y = da.ones((8, 2), chunks=4), da.from_array(np.arange(8) % 2, chunks=4)
    with pytest.raises(ValueError, match=why):
        LinearSVC(**options).fit(X, y)
    for own, reason in (({"scoring": "roc_auc"}, "count hits"), ({"cv": KFold(3)}, "number")):
        with pytest.raises(ValueError, match=reason):
            LinearSVCCV(**own).fit(X, y)


def test_choice_of_c_probabilities_and_early_stopping(client, corpus):
    """The estimators' face of what tests/test_distributed.py looks at closely."""
    X, y = corpus
    rows = DaskRows(client, bag(X, y))
    chosen = LinearSVCCV([0.01, 0.1, 1.0], cv=3, random_state=0).fit(rows)
    assert chosen.scores_.shape == (3, 3)
    assert chosen.C_ in (0.01, 0.1, 1.0)
    assert chosen.certificate_.relative_gap <= 1e-3
    assert chosen.score(X, y) > 0.9
    sure = LinearSVC(0.1, probability="platt", random_state=0).fit(rows)
    probability = sure.predict_proba(X)[:, 1]
    assert np.mean(np.abs(probability - (y > 0))) < 0.3
    stopped = LinearSVC(10.0, early_stopping=True, validation_fraction=0.2, random_state=0).fit(
        rows
    )
    assert "validation_loss" in stopped.trace_[-1].validation


def test_what_an_estimator_has_it_has_on_a_cluster(client, corpus):
    """Its optimum is that of the same rows here; what it has not is refused by name."""
    X, y = corpus
    targets = np.asarray(X @ np.random.default_rng(0).normal(size=X.shape[1]))
    weight = np.random.default_rng(1).random(len(y))
    many = np.digitize(targets, np.quantile(targets, [0.3, 0.6]))
    weighted = db.from_sequence(
        [(X[:600], y[:600], weight[:600]), (X[600:], y[600:], weight[600:])], npartitions=2
    )
    signs, numbers, classes = (DaskRows(client, bag(X, own)) for own in (y, targets, many))
    cases = [
        (LinearSVC(0.3, bias="free"), signs, y, None),
        (LinearSVC(0.3, loss="squared_hinge", class_weight={-1.0: 1, 1.0: 3}), signs, y, None),
        (LinearSVC(0.3, class_weight="balanced"), signs, y, None),
        (LinearSVC(0.3), DaskRows(client, weighted), y, weight),
        (LinearSVC(0.3), classes, many, None),
        (LogisticRegression(C=0.3), signs, y, None),
        (LogisticRegression(C=0.3, multi_class="ovr"), classes, many, None),
        (LinearSVR(C=0.3, epsilon=0.1), numbers, targets, None),
        (QuantileRegressor(quantile=0.3), numbers, targets, None),
        (Ridge(), numbers, targets, None),
    ]
    for estimator, rows, labels, weights in cases:
        there = clone(estimator).fit(rows).certificate_
        here = clone(estimator).fit(X, labels, sample_weight=weights).certificate_
        assert max(there.relative_gap, here.relative_gap) <= 1e-3, estimator
        assert there.primal >= here.dual * (1 - 1e-9), estimator
        assert here.primal >= there.dual * (1 - 1e-9), estimator
    chosen = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3).fit(signs)
    assert chosen.certificate_.relative_gap <= 1e-3
    sure = LinearSVC(0.3, probability="platt").fit(classes)
    assert np.allclose(sure.predict_proba(X[:9]).sum(axis=1), 1)
    model = LinearSVC(0.3).fit(signs)
    found = certify(
        model.coef_[0], signs, C=0.3, loss=model.loss, bias="regularised", b=model.intercept_[0]
    )
    assert found.primal == pytest.approx(model.certificate_.primal)
    assert found.relative_gap <= 1e-2
    for refused, rows, why in (
        (LogisticRegression(), classes, "multinomial.*cluster"),
        (LinearSVC(penalty="l1"), signs, "copy of the columns"),
        (LinearOneClassSVM(), signs, "share of every row"),
        (LinearSVC(np.inf), signs, "no bounds"),
    ):
        with pytest.raises(ValueError, match=why):
            refused.fit(rows)
    with pytest.raises(ValueError, match="on a cluster"):
        compare(DistributedProblem(signs, 0.3), ["cocoa"])


@pytest.fixture(scope="module")
def files(corpus, tmp_path_factory):
    X, y = corpus
    folder = tmp_path_factory.mktemp("rows")
    made = [folder / f"{k}.arrow" for k in range(3)]
    for file, (own, labels) in zip(made, blocks(X, y, 3), strict=True):
        write_arrow(file, own, labels)
    return made


def test_rows_that_stay_on_the_disks_of_the_workers(client, tmp_path):
    X, y = make_corpus(120_000, seed=7)  # much larger than what differs from worker to worker
    files = [tmp_path / f"{k}.arrow" for k in range(2)]
    for file, (own, labels) in zip(files, blocks(X, y, 2), strict=True):
        write_arrow(file, own, labels)
    DaskRows(client, files, memory="8G").close()  # what has to be loaded is loaded now
    most = max(client.run(resident_bytes).values())
    # The least that is taken: what was freed may still be counted, or not any more.
    for extra in range(-160, 160, 4):
        try:
            rows = DaskRows(client, files, memory=most + (extra << 20))
        except ValueError as error:
            assert "memory" in str(error)  # noqa: PT017
            continue
        break
    assert all(part["stored"] for part in rows.call("describe"))
    problem = DistributedProblem(rows, 0.1, bias="regularised")
    found = solve(problem, stop=Gap(1e-3) | Epochs(100))
    assert found.converged
    check_certificate(found, X, y, 0.1, loss="hinge", bias="regularised")
    for wrong, why in ((bag(X[:40], y[:40]), "partition 0"), (["rows.svm"], "rows.svm")):
        with pytest.raises(ValueError, match=f"{why}.*arrow"):
            DaskRows(client, wrong, memory="1G")


def test_files_by_their_urls(client, corpus, files, tmp_path):
    """Workers fetch them; memory:// is each process's own, so it is read in this one."""
    import fsspec
    from bridle.rows.cluster.dask_rows import make_part

    rows = DaskRows(client, [f"file://{file}" for file in files])
    found, one = (
        solve(DistributedProblem(own, 0.1), stop=Gap(1e-3) | Epochs(100))
        for own in (rows, DaskRows(client, files))
    )
    assert np.array_equal(found.w, one.w)
    with pytest.raises(FileNotFoundError, match=r"says worker tcp.*file:///none\.arrow"):
        DaskRows(client, ["file:///none.arrow"])
    store = fsspec.filesystem("memory")
    store.pipe("/rows/0.arrow", files[0].read_bytes())
    store.pipe("/rows/torn.arrow", files[0].read_bytes()[:-100])
    X, y = blocks(*corpus, 3)[0]
    part = make_part(0, ["a"], ["memory://rows/0.arrow"], [()], 1)
    assert (part.blocks[0].X != X).nnz == 0
    assert np.array_equal(part.blocks[0].y, y)
    assert part.describe()["name"] == "memory://rows/0.arrow"
    for bad, why in (
        ("memory://rows/torn.arrow", r"memory://rows/torn\.arrow"),
        ("nothing://rows/0.arrow", r"nothing://rows/0\.arrow.*[Pp]rotocol"),
    ):
        with pytest.raises(ValueError, match=why):
            make_part(0, ["a"], [bad], [()], 1)


@pytest.fixture(scope="module")
def texts(corpus, tmp_path_factory):
    """svmlight and Parquet parts; the first text shows fewer features than the others."""
    import pandas as pd
    from bridle.data import write_svmlight

    X, y = corpus
    folder = tmp_path_factory.mktemp("texts")
    narrow = X[:, :1000].copy()
    narrow.resize(X.shape)
    svm = []
    for k, (own, labels) in enumerate(blocks(sp.vstack([narrow[:300], X[300:]]).tocsr(), y, 4)):
        svm.append(folder / f"{k}.svm.gz" if k % 2 else folder / f"{k}.svm")
        write_svmlight(svm[-1], own, labels, zero_based=False)
    dense, tables = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32), []
    for k, rows in enumerate(np.array_split(np.arange(120), 3)):
        frame = pd.DataFrame(dense[rows], columns=list("abcd")).assign(truth=dense[rows, 0] > 0)
        tables.append(folder / f"{k}.parquet")
        frame.astype({"truth": int}).to_parquet(tables[-1])
    return svm, tables, dense


def test_texts_and_tables_are_read_by_the_workers(client, corpus, texts):
    svm, tables, dense = texts
    rows = DaskRows(client, svm)
    widths = [one["n_features"] for one in rows.call("describe")]
    assert len(set(widths)) == 1
    from bridle.data import read_svmlight

    parts = [read_svmlight(file) for file in svm]
    assert min(X.shape[1] for X, _ in parts) < widths[0]
    X = sp.vstack([sp.csr_matrix((X.data, X.indices, X.indptr), (X.shape[0], widths[0]))
                   for X, _ in parts]).tocsr()  # fmt: skip
    y = np.concatenate([labels for _, labels in parts])
    model = LinearSVC(0.1, loss="hinge", store_dual=True, random_state=0).fit(rows)
    problem = LinearProblem(X, y, 0.1, bias="regularised")
    primal = problem.primal(model.coef_[0], model.intercept_[0])
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    found = LinearSVC(0.1, loss="hinge", random_state=0).fit(
        DaskRows(client, [f"file://{file}" for file in tables], label_column="truth")
    )
    problem = LinearProblem(dense, np.where(dense[:, 0] > 0, 1, -1), 0.1, bias="regularised")
    primal = problem.primal(found.coef_[0], found.intercept_[0])
    assert found.certificate_.primal == pytest.approx(primal, rel=1e-6)


def test_an_object_store(texts, files, monkeypatch):
    """An S3-like store on this machine, of any format, with widths that its parts agree on."""
    server = pytest.importorskip("moto.server", reason="moto is the store that is asked")
    pytest.importorskip("s3fs", reason="s3fs is how fsspec asks it")
    import fsspec
    from bridle.data.reading import Wanted
    from bridle.rows.cluster.dask_rows import make_part

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    store = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    store.start()
    try:
        host, port = store.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        client = fsspec.filesystem("s3", skip_instance_cache=True)
        client.mkdir("rows")
        svm, tables, _ = texts
        names = []
        for file in (svm[0], svm[1], files[0], tables[0]):
            client.put(str(file), f"rows/{file.name}")
            names.append(f"s3://rows/{file.name}")
        texts_of = make_part(0, names[:2], names[:2], [(), ()], 1, Wanted())
        assert texts_of.blocks[0].n_features == texts_of.blocks[1].n_features
        texts_of.widen(50_000)
        assert texts_of.n_features == texts_of.blocks[0].X.shape[1] == 50_000
        arrow = make_part(0, names[2:3], names[2:3], [()], 1)
        assert arrow.describe()["name"] == names[2]
        table = make_part(0, names[3:], names[3:], [()], 1, Wanted(label_column="truth"))
        assert table.blocks[0].X.shape == (40, 4)
        with pytest.raises(FileNotFoundError, match="s3://rows/none"):
            make_part(0, ["a"], ["s3://rows/none.arrow"], [()], 1)
    finally:
        store.stop()


def train(client, *words):
    from bridle.cli import main
    from click.testing import CliRunner

    return CliRunner().invoke(main, ["train", "--dask", client.scheduler.address, *map(str, words)])


def test_the_workers_convert_the_files_of_one_data_set(client, corpus, tmp_path):
    """The texts lack the last features, each its own: the workers agree on a width."""
    from bridle.cli import main
    from bridle.data import write_svmlight
    from click.testing import CliRunner

    X, y = corpus[0][:300], corpus[1][:300]
    texts = [tmp_path / f"{k}.svm" for k in range(3)]
    for k, text in enumerate(texts):
        write_svmlight(text, X[k * 100 : (k + 1) * 100], y[k * 100 : (k + 1) * 100])
    words = ["--dask", client.scheduler.address, "--json", *texts, tmp_path / "rows"]
    done = CliRunner().invoke(main, ["convert", *map(str, words)])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["features"] == int(X.indices.max()) + 1
    rows = DaskRows(client, report["files"])  # which they refuse if widths differ
    found = solve(DistributedProblem(rows, 0.5), stop=Gap(1e-3) | Epochs(100))
    check_certificate(found, X[:, : report["features"]], y, 0.5, loss="hinge", bias="none")


def test_the_command_line(client, corpus, files, tmp_path):
    from bridle import load_model
    from bridle.matrix.fingerprint import fingerprint

    X, y = corpus
    target = tmp_path / "out.model"
    done = train(
        client, *files, target, "--lam", 1 / (0.1 * len(y)), "--json", "--proof", "--test",
        files[0], "--trace", tmp_path / "t.csv", "--weight", "1=2", "--set", "work=0.1",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["workers"] == 2
    assert report["bytes_moved"] > 0
    assert report["C"] == pytest.approx(0.1)
    assert (tmp_path / "t.csv").read_text().startswith("epoch,")
    model = load_model(target)
    weight = np.where(y > 0, 2.0, 1.0)
    problem = LinearProblem(X, y, 0.1, bias="regularised", sample_weight=weight)
    primal = problem.primal(model.coef[0], model.intercept[0])
    assert report["primal"] == pytest.approx(primal, rel=1e-9)
    assert report["dual"] == pytest.approx(problem.dual(model.alpha[0]), rel=1e-9)
    assert report["error_train"] == pytest.approx(np.mean(model.predict(X) != y))
    first = len(y) // 3
    assert report["error_test"] == pytest.approx(np.mean(model.predict(X[:first]) != y[:first]))
    assert model.fingerprint == fingerprint(X, y)
    assert model.info["class_weight"] == [1.0, 2.0]


def test_the_command_line_with_budgets_and_checkpoints(client, files, tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    done = train(client, *files, tmp_path / "m", "--max-epochs", 1, "--checkpoint", folder)
    assert done.exit_code == 3, done.output
    assert "stopped after 1" in done.stdout
    assert "workers" in done.stdout
    assert not list(folder.iterdir())
    assert "first pass" not in done.stderr  # no line of progress: this is no terminal
    done = train(client, *files, tmp_path / "m", "--max-seconds", 30, "--gap", 0.1, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    done = train(client, "-s", 3, "-c", 0.1, "-B", 1, *files, tmp_path / "m", "-q")
    assert done.exit_code == 0, done.output
    held = ("--probability", "platt"), ("--validation", files[0])
    for words in held:
        done = train(client, *words, *files, tmp_path / "m", "-q")
        assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--kernel", "rbf"], "--dask has no --kernel: a kernel machine compares rows"),
        (["--folds", "3"], "--dask has no --folds: LinearSVCCV chooses C there"),
        (["--search-c"], "--dask has no --search-c"),
        (["--multiclass", "ovo"], "--dask has no --multiclass: the classes are solved one against"),
        (["--scale"], "--dask has no --scale"),
        (["--threads", "2"], "--dask has no --threads"),
        (["--memory", "1M"], "memory are too few"),
        (["--resume"], "--dask has no --resume"),
        (["-c", "inf"], "--dask has no -c inf"),
        (["-c", "1", "--lam", "1"], "give one of them"),
        (["--weight", "7=2"], "--weight 7=2"),
        (["--solver", "dcd"], "needs rows in this process"),
        (["--checkpoint", "nowhere"], "nowhere"),
        (["rows.svm", "x"], "give .arrow files"),
        (["none.arrow"], "none.arrow: No such file or directory, says worker tcp"),
    ],
)
def test_the_command_line_refuses_with_a_reason(client, files, tmp_path, monkeypatch, words, why):
    monkeypatch.chdir(tmp_path)
    named = [] if words[0].endswith((".arrow", ".svm")) else [tmp_path / "m"]
    done = train(client, *files, *named, *words)
    assert done.exit_code == 2
    assert why in done.output
    assert not (tmp_path / "m").exists()
