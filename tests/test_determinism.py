"""Same seed, same bits: any number of threads, every estimator; and ties in the same order."""

import hashlib
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from bridle import (
    SVC,
    ChainSVM,
    LinearSVC,
    LinearSVCCV,
    LogisticRegressionCV,
    MulticlassSVC,
    MultivariateSVC,
    OnlineSVC,
    RankSVM,
    load_model,
    save_model,
)
from bridle.solvers import REGISTRY, solver_class
from scipy import sparse
from sklearn.base import clone

import matrix

THREADS = (1, 2, 3, 8, 16)


def noisy(n=900, d=40, n_classes=3, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(dtype)
    X[np.abs(X) < 0.7] = 0.0
    scores = X @ rng.standard_normal((d, n_classes)) + 3 * rng.standard_normal((n, n_classes))
    return X, scores.argmax(axis=1)


def bits(*arrays):
    digest = hashlib.blake2b()
    for array in arrays:
        dense = array.toarray() if sparse.issparse(array) else array
        digest.update(np.ascontiguousarray(dense).tobytes())
    return digest.hexdigest()


def state(model):
    """Everything that a fit has found, as bits."""
    arrays = [model.coef_] if not hasattr(model, "support_") else [model.support_, model.dual_coef_]
    arrays += [np.asarray(getattr(model, "intercept_", 0.0))]
    proof = getattr(model, "certificate_", None)
    return bits(*arrays), proof


ESTIMATORS = {
    "LinearSVC": LinearSVC(0.01, loss="hinge", random_state=7),
    "LinearSVC squared": LinearSVC(0.01, loss="squared_hinge", random_state=7),
    "LinearSVC free": LinearSVC(0.01, loss="hinge", bias="free", random_state=7),
    "LinearSVC ovo": LinearSVC(0.01, multi_class="ovo", random_state=7),
    "LinearSVC joint": LinearSVC(0.01, multi_class="crammer_singer", random_state=7),
    "LinearSVC early": LinearSVC(0.01, early_stopping=True, random_state=7),
    "LinearSVCCV": LinearSVCCV(Cs=3, cv=3, random_state=7),
    "LogisticRegressionCV": LogisticRegressionCV(Cs=3, cv=3, random_state=7),
    "SVC": SVC(),
    "SVC ovr": SVC(multi_class="ovr", kernel="poly"),
    "MulticlassSVC": MulticlassSVC(0.01),
    "MultivariateSVC": MultivariateSVC("f1"),
    "RankSVM": RankSVM("map", solver="bcfw", random_state=7),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_any_number_of_threads(name, storage):
    X, y = noisy(n_classes=2 if name in ("MultivariateSVC", "RankSVM") else 3, dtype=np.float32)
    model = ESTIMATORS[name]
    found = [state(clone(model).set_params(n_threads=n).fit(storage(X), y)) for n in THREADS]
    assert all(other == found[0] for other in found)


@pytest.mark.parametrize("bias", ["none", "regularised"])
def test_any_number_of_threads_on_rows_enough_for_rounds(bias):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 64), np.float32)
    y = X @ rng.standard_normal(64) + 4 * rng.standard_normal(len(X)) > 1
    model = LinearSVC(0.01, loss="hinge", solver="dcd", bias=bias, random_state=7)
    found = [state(clone(model).set_params(n_threads=n).fit(X, y)) for n in THREADS]
    assert all(other == found[0] for other in found)


@pytest.mark.filterwarnings("ignore:all weights are 0")  # which a gap of 0.9 allows
@pytest.mark.filterwarnings("ignore::bridle.GapWarning")  # five epochs may be too few
@pytest.mark.parametrize("name", [n for n in matrix.SOLVERS if n != "qp"])
def test_any_number_of_threads_with_every_solver(name):
    X, y = noisy(n_classes=3)
    fits = []
    for n in THREADS:
        model = LinearSVC(0.01, loss="hinge", solver=name, bias="none", random_state=3,
                          n_threads=n, tol=0.9, max_iter=5)  # fmt: skip
        fits.append(state(model.fit(X, y)))
    assert all(other == fits[0] for other in fits)


def test_every_linear_solver_is_tested_here():
    linear = {name for name in REGISTRY if solver_class(name).needs <= matrix.MEMORY}
    assert linear <= set(matrix.SOLVERS)


def test_probabilities_any_number_of_threads():
    X, y = noisy()
    p = [
        LinearSVC(0.01, probability="platt", random_state=0, n_threads=n).fit(X, y).predict_proba(X)
        for n in THREADS
    ]
    assert all(bits(other) == bits(p[0]) for other in p)


def test_chains_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((8, 6)) for _ in range(40)]
    y = [list((x[:, 0] + rng.standard_normal(8) > 0).astype(int)) for x in X]
    models = [ChainSVM(n_threads=n, random_state=1).fit(X, y) for n in THREADS]
    for model in models:
        assert state(model) == state(models[0])
        assert bits(model.transitions_) == bits(models[0].transitions_)


def test_another_seed_is_another_order():
    X, y = noisy()
    one, other = (
        LinearSVC(0.01, solver="dcd", random_state=s, tol=0.5).fit(X, y).coef_ for s in (1, 2)
    )
    assert not np.array_equal(one, other)


SCRIPT = """
    import hashlib, sys
    import numpy as np
    from scipy import sparse
    from bridle import SVC, LinearSVC, OnlineSVC

    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 60))
    y = (X @ rng.standard_normal((60, 3)) + 2 * rng.standard_normal((400, 3))).argmax(axis=1)
    digest = hashlib.blake2b()
    models = [
        LinearSVC(0.1, random_state=0), LinearSVC(0.1, solver="dcd", random_state=0),
        LinearSVC(0.1, loss="squared_hinge", solver="newton"), OnlineSVC(random_state=0),
    ]
    if int(np.__version__.split(".")[0]) > 1:  # the BLAS of NumPy 1.26 adds otherwise by threads
        models.append(SVC())
    for model in models:
        digest.update(model.fit(X, y).decision_function(X).tobytes())
    print(digest.hexdigest())
"""


def test_another_process_with_other_blas_threads_and_hash_seed():
    outputs = set()
    for threads, seed in (("1", "0"), ("2", "1")):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, threads) | {"PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(SCRIPT)],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        outputs.add(run.stdout)
    assert len(outputs) == 1


# Equal scores: the first class, everywhere.


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(fit_intercept=False),
        LinearSVC(fit_intercept=False, multi_class="ovo"),
        LinearSVC(fit_intercept=False, multi_class="crammer_singer"),
        SVC(kernel="linear", bias="none"),
        SVC(kernel="linear", bias="none", multi_class="ovr"),
        MulticlassSVC(fit_intercept=False),
        OnlineSVC(fit_intercept=False),
    ],
)
def test_ties_go_to_the_first_class(model, n_classes, tmp_path):
    X, y = noisy(120, 5, n_classes)
    labels = np.array(["a", "b", "c"])[y]
    nothing = np.zeros((1, 5))
    model = clone(model).fit(X, labels)
    pairs = n_classes == 3 and getattr(model, "multi_class", "") == "ovo"
    assert pairs or not model.decision_function(nothing).any()
    assert model.predict(nothing)[0] == "a"
    if isinstance(model, LinearSVC | OnlineSVC):
        save_model(tmp_path / "model", model)
        assert load_model(tmp_path / "model").predict(nothing)[0] == "a"
