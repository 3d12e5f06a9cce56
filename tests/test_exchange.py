"""Models that travel: the other tools compute the same, and what comes back is certified."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pytest
from bridle.cli import main
from bridle.data import write_svmlight
from bridle.errors import ModelError
from bridle.exchange import export_model, from_sklearn, import_model, to_sklearn
from bridle.exchange.onnx import build
from bridle.exchange.pipelines import register
from bridle.models.kernel import KernelModel
from bridle.models.linear import LinearModel
from bridle.models.storage import as_model, load_model, save_model
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse import random as sparse_random
from sklearn.base import clone
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC as Peer

from reference import penalised

needs_liblinear = pytest.mark.skipif(
    shutil.which("liblinear-train") is None, reason="needs Debian's liblinear-tools"
)


def draw(labels: list[int], n_rows: int = 120, seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    """Rows of 12 features with the given labels; the first row has the first label."""
    rng = np.random.default_rng(seed)
    X = csr_matrix(sparse_random(n_rows, 12, 0.5, random_state=rng), dtype=np.float32)
    truth = np.random.default_rng(7).normal(size=(12, len(labels)))
    scores = X @ truth + 0.2 * rng.normal(size=(n_rows, len(labels)))
    return X, np.array(labels, np.float64)[scores.argmax(axis=1)]


def tool(name: str, *arguments: Any) -> None:
    command = [f"liblinear-{name}", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def bridle_command(*arguments: Any, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


LABELS = ([-1, 1], [1, -1], [7, 3], [2, 9, 4, -3])


@needs_liblinear
@pytest.mark.parametrize("bias", [-1, 1, 2.5])
@pytest.mark.parametrize("solver", [1, 2, 3])
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_a_model_of_liblinear(tmp_path: Path, labels: list[int], solver: int, bias: float) -> None:
    X, y = draw(labels)
    write_svmlight(tmp_path / "d", X, y)
    tool("train", "-q", "-s", solver, "-B", bias, "-e", 1e-4, tmp_path / "d", tmp_path / "m")
    tool("predict", tmp_path / "d", tmp_path / "m", tmp_path / "theirs")
    theirs = np.loadtxt(tmp_path / "theirs")
    model = import_model(tmp_path / "m", C=1.0)
    np.testing.assert_array_equal(model.resized(12).predict(X), theirs)
    assert math.isinf(model.certificate.relative_gap)  # the file proves nothing
    # Its objective is known, so that its certificate shows how well LIBLINEAR solved it.
    told = bridle_command(
        "import", tmp_path / "m", tmp_path / "ours", "-c", 1, "--data", tmp_path / "d"
    )
    kept = load_model(tmp_path / "ours")
    assert kept.certificate.relative_gap < 1e-3
    assert f"certified gap {kept.certificate.relative_gap:.2e}" in told
    # And back.
    bridle_command("export", tmp_path / "ours", tmp_path / "back.liblinear")
    tool("predict", tmp_path / "d", tmp_path / "back.liblinear", tmp_path / "again")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "again"), theirs)
    assert_same_weights(import_model(tmp_path / "back.liblinear"), kept)


def assert_same_weights(a: LinearModel, b: LinearModel) -> None:
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-15)
    np.testing.assert_allclose(a.intercept, b.intercept, rtol=1e-15)
    np.testing.assert_array_equal(a.classes, b.classes)


@needs_liblinear
@pytest.mark.parametrize("bias", ["none", "regularised", "free", "crammer_singer"])
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_liblinear_predicts_with_our_model(tmp_path: Path, labels: list[int], bias: str) -> None:
    X, y = draw(labels)
    test, _ = draw(labels, seed=1)
    way: Any = {"multi_class": bias} if bias == "crammer_singer" else {"bias": bias}
    svc = bridle.LinearSVC(intercept_scaling=1.7, random_state=0, **way).fit(X, y)
    export_model(tmp_path / "m.liblinear", svc)
    write_svmlight(tmp_path / "t", test, np.zeros(test.shape[0]))
    tool("predict", tmp_path / "t", tmp_path / "m.liblinear", tmp_path / "theirs")
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "theirs"), svc.predict(test))


def test_crammer_and_singer_with_two_columns_is_one_function(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(
        "solver_type MCSVM_CS\nnr_class 2\nlabel 5 3\nnr_feature 2\nbias -1\nw\n1 2\n3 -4\n"
    )
    model = import_model(tmp_path / "m")
    np.testing.assert_array_equal(model.predict(np.array([[1.0, 0.0], [0.0, 1.0]])), [3, 5])


def svmlight_decision(text: str, x: np.ndarray) -> float:
    """What svm_classify computes, by the description of the format."""
    lines = text.splitlines()
    assert lines[0] == "SVM-light Version V6.02"
    kind, degree, gamma, slope, constant = (float(line.split("#")[0]) for line in lines[1:6])
    assert lines[6] == "empty# kernel parameter -u"
    assert len(lines) - 11 == int(lines[9].split("#")[0]) - 1
    value = -float(lines[10].split("#")[0])
    for line in lines[11:]:
        words = line.partition("#")[0].split()
        z = np.zeros_like(x)
        for word in words[1:]:
            index, _, part = word.partition(":")
            z[int(index) - 1] = float(part)
        kernel = {
            0: lambda z: x @ z,
            1: lambda z: (slope * (x @ z) + constant) ** degree,
            2: lambda z: np.exp(-gamma * np.sum((x - z) ** 2)),
            3: lambda z: np.tanh(slope * (x @ z) + constant),
        }[int(kind)]
        value += float(words[0]) * float(kernel(z))
    return value


KERNELS: list[dict[str, Any]] = [
    {"kernel": "rbf", "gamma": 0.7},
    {"kernel": "poly", "gamma": 0.5, "coef0": 1.0, "degree": 2},
    {"kernel": "linear"},
]


@pytest.mark.parametrize("settings", [{}, *KERNELS], ids=lambda s: s.get("kernel", "weights"))
def test_svmlight_there_and_back(tmp_path: Path, settings: dict[str, Any]) -> None:
    X, y = draw([-1, 1])
    fitted: Any = (bridle.SVC(**settings) if settings else bridle.LinearSVC(bias="free")).fit(X, y)
    export_model(tmp_path / "m.svmlight", fitted)
    dense = X.toarray().astype(np.float64)
    scores = fitted.decision_function(X)
    text = (tmp_path / "m.svmlight").read_text()
    np.testing.assert_allclose(
        [svmlight_decision(text, row) for row in dense[:20]], scores[:20], rtol=1e-6, atol=1e-9
    )
    back = import_model(tmp_path / "m.svmlight", C=1.0)
    assert isinstance(
        back, LinearModel if settings.get("kernel", "linear") == "linear" else KernelModel
    )
    assert back.objective.bias == "free"
    np.testing.assert_allclose(back.decision_function(X), scores, rtol=1e-6, atol=1e-9)


def test_a_model_of_svm_learn_is_certified(tmp_path: Path) -> None:
    """Support vectors with alpha*y, as svm_learn writes a linear model, trailing # and all."""
    X, y = draw([-1, 1])
    svc = bridle.SVC(kernel="linear", tol=1e-6).fit(X, y)
    export_model(tmp_path / "m.svmlight", svc)
    text = re.sub(r"(?m)^(\S+ \d+:.*)$", r"\1 #", (tmp_path / "m.svmlight").read_text())
    (tmp_path / "m").write_text(text.replace("V6.02", "V6.01"))
    write_svmlight(tmp_path / "d", X, y)
    told = bridle_command(
        "import", tmp_path / "m", tmp_path / "ours", "-c", 1, "--data", tmp_path / "d"
    )
    assert "certified gap" in told
    assert load_model(tmp_path / "ours").certificate.relative_gap < 1e-4


@pytest.mark.parametrize(
    "classes", [[-1, 1], [4, 2, 9, -3], ["ham", "spam"], ["a", "b", "ç"], [0.5, 1.5]], ids=str
)
def test_onnxruntime_predicts_the_same(tmp_path: Path, classes: list[Any]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    svc = bridle.LinearSVC().fit(*draw(list(range(len(classes)))))
    model = replace(as_model(svc), classes=np.array(classes))
    save_model(tmp_path / "m", model)
    bridle_command("export", tmp_path / "m", tmp_path / "m.onnx")
    test, _ = draw(list(range(len(classes))), n_rows=500, seed=5)
    labels, scores = runtime.InferenceSession(tmp_path / "m.onnx").run(None, {"X": test.toarray()})
    np.testing.assert_allclose(scores, model.decision_function(test), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(labels, model.predict(test))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("estimator", [
    bridle.LinearSVC(multi_class="ovo"), bridle.LinearSVC(multi_class="crammer_singer"),
    bridle.LinearSVC(probability="platt"), bridle.LinearSVC(probability="isotonic"),
    bridle.LinearSVC(multi_class="ovo", probability="isotonic"), bridle.SVC(),
    bridle.SVC(probability=True), bridle.SVC(multi_class="ovr", kernel="poly", coef0=1.0),
    bridle.SVC(kernel="sigmoid", gamma=0.01), bridle.SVC(kernel="linear"),
    bridle.LogisticRegression(), bridle.LogisticRegression(multi_class="ovr"),
], ids=str)  # fmt: skip
@pytest.mark.filterwarnings("ignore::bridle.GapWarning")  # of the sigmoid, which is no kernel
def test_nothing_of_a_classifier_is_lost_in_onnx(estimator: Any, n_classes: int) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y = draw(list(range(n_classes)))
    model = as_model(clone(estimator).fit(X, y))
    model = model.dense() if model.kind == "linear" else model
    session = runtime.InferenceSession(build(model).SerializeToString())
    test, _ = draw(list(range(n_classes)), n_rows=300, seed=5)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": test.toarray()}), strict=True))
    scores = model.decision_function(test)
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found["label"], model.predict(test))
    assert ("probabilities" in found) == ("calibrators" in model.info)
    if "probabilities" in found:
        chances = model.predict_proba(test)
        np.testing.assert_allclose(found["probabilities"], chances, rtol=1e-6, atol=1e-9)


def test_what_an_export_leaves_out_is_said(tmp_path: Path) -> None:
    X, y = draw([-1, 1])
    save_model(tmp_path / "m", bridle.LinearSVC(probability="platt").fit(X, y))
    for ending, said in (("liblinear", True), ("svmlight", True), ("onnx", False)):
        line = ["export", str(tmp_path / "m"), str(tmp_path / f"m.{ending}")]
        told = CliRunner().invoke(main, line)
        assert ("its probabilities are not in" in told.stderr) == said


def test_scaled_kernel_machines_in_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y = draw([1, 2])
    write_svmlight(tmp_path / "d", X, y)
    bridle_command("train", tmp_path / "d", tmp_path / "m", "--kernel", "rbf", "--scale")
    bridle_command("export", tmp_path / "m", tmp_path / "m.onnx")
    model = load_model(tmp_path / "m")
    _, scores = runtime.InferenceSession(tmp_path / "m.onnx").run(None, {"X": X.toarray()})
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [
    {}, {"loss": "hinge", "C": 0.3}, {"fit_intercept": False}, {"intercept_scaling": 3.0},
    {"class_weight": "balanced"}, {"class_weight": {2: 5.0}}, {"multi_class": "crammer_singer"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("labels", [[1, 2], [1, 2, 3]], ids=str)
def test_scikit_learn_there_and_back(labels: list[int], options: dict[str, Any]) -> None:
    X, y = draw(labels)
    rng = np.random.default_rng(3)
    weight = rng.uniform(0.5, 2.0, len(y)) * y  # so that balancing by rows or by weights differs
    theirs = Peer(tol=1e-8, max_iter=10**6, random_state=0, **options).fit(
        X, y, sample_weight=weight
    )
    model = from_sklearn(theirs, X, y, sample_weight=weight)
    assert 0 <= model.certificate.relative_gap < 1e-3
    np.testing.assert_array_equal(model.predict(X), theirs.predict(X))
    again = to_sklearn(model)
    np.testing.assert_array_equal(again.decision_function(X), theirs.decision_function(X))
    np.testing.assert_array_equal(again.predict(X), theirs.predict(X))
    for name in ("C", "fit_intercept", "intercept_scaling", "multi_class"):
        assert again.get_params()[name] == theirs.get_params()[name]
    ours = bridle.LinearSVC().fit(X, y)
    np.testing.assert_array_equal(to_sklearn(ours).predict(X), ours.predict(X))


@pytest.mark.parametrize("options", [
    {}, {"C": 0.3, "class_weight": "balanced"}, {"fit_intercept": False},
    {"solver": "saga", "l1_ratio": 0.5}, {"solver": "saga", "l1_ratio": 1.0},
    {"solver": "liblinear", "l1_ratio": 1.0, "intercept_scaling": 3.0},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("labels", [[1, 2], [1, 2, 3]], ids=str)
def test_logistic_regression_there_and_back(labels: list[int], options: dict[str, Any]) -> None:
    if len(labels) > 2 and "l1_ratio" in options:
        pytest.skip("one problem of several classes has no l1 norm")
    X, y = draw(labels)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(y)) * y
    theirs = penalised(tol=1e-5, max_iter=10**5, **options)
    theirs.fit(X, y, sample_weight=weight)
    model = from_sklearn(theirs, X, y, sample_weight=weight)
    assert 0 <= model.certificate.relative_gap < 1e-3
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    again = to_sklearn(model)
    np.testing.assert_allclose(again.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    for name in ("C", "fit_intercept", "intercept_scaling", "l1_ratio", "solver"):
        assert again.get_params()[name] == theirs.get_params()[name]


def test_a_sparse_machine_of_scikit_learns() -> None:
    X, y = draw([1, 2, 3])
    theirs = Peer(penalty="l1", tol=1e-8, max_iter=10**6).fit(X, y)
    model = from_sklearn(theirs, X, y)
    assert 0 <= model.certificate.relative_gap < 1e-3
    again = to_sklearn(model)
    assert again.penalty == "l1"
    np.testing.assert_array_equal(again.predict(X), theirs.predict(X))


def test_what_scikit_learn_has_and_bridle_has_not() -> None:
    X, y = draw([1, 2, 3])
    saga = penalised(solver="saga", l1_ratio=0.5, tol=0.1).fit(X, y)
    with pytest.raises(ValueError, match='multi_class="multinomial" has no penalty="elasticnet"'):
        from_sklearn(saga, X, y)
    with pytest.raises(TypeError, match="got LogisticRegressionCV"):
        from_sklearn(LogisticRegressionCV(), X, y)
    with pytest.raises(ValueError, match="is one problem of all of them"):
        to_sklearn(bridle.LogisticRegression(multi_class="ovr").fit(X, y))
    with pytest.raises(ValueError, match="of several classes have no penalty"):
        to_sklearn(bridle.LogisticRegression(bias="regularised").fit(X, y))
    with pytest.raises(ValueError, match="the hinge and its square"):
        to_sklearn(bridle.LinearSVC(loss="smoothed_hinge").fit(X, y))
    with pytest.raises(TypeError, match="fitted"):
        from_sklearn(Peer(), X, y)
    with pytest.raises(ValueError, match="labels that the estimator was not trained on"):
        from_sklearn(Peer().fit(X, y), X, y + 1)


def test_what_a_format_cannot_hold(tmp_path: Path) -> None:
    X, y = draw([1, 2, 3])
    three = bridle.LinearSVC().fit(X, y)
    words = bridle.LinearSVC().fit(X, np.where(y == 1, "a", "b"))
    kernel = bridle.SVC(multi_class="ovr").fit(X, y)
    pairs = bridle.LinearSVC(multi_class="ovo").fit(X, y)
    multinomial = bridle.LogisticRegression().fit(X, y)
    ranker = bridle.RankSVM().fit(X, y - 1, qid=np.zeros(len(y), int))
    with pytest.raises(ValueError, match="not pairs"):
        to_sklearn(pairs)
    for model, name, message in (
        (three, "svmlight", "two classes only"), (words, "liblinear", "labels are integers"),
        (kernel, "liblinear", "linear models only"), (pairs, "liblinear", "has pairs"),
        (multinomial, "liblinear", "this model is multinomial"),
        (ranker, "onnx", "models of kind 'ranking' do not go to ONNX"),
        (three, "pmml", "is no format: liblinear, svmlight, onnx"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            export_model(tmp_path / "m", model, name)
    with pytest.raises(ValueError, match="which format"):
        export_model(tmp_path / "m", three)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_a_fitted_svc_can_be_saved(tmp_path: Path, multi_class: Any) -> None:
    X, y = draw([1, 2, 3])
    svc = bridle.SVC(multi_class=multi_class).fit(X, y)
    save_model(tmp_path / "m", svc)
    model = load_model(tmp_path / "m")
    np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), svc.predict(X))
    assert model.certificates == tuple(svc.certificates_)
    with pytest.raises(ValueError, match="cannot be kept in a file"):
        save_model(tmp_path / "m", bridle.SVC(kernel="precomputed").fit((X @ X.T).toarray(), y > 1))


LIBLINEAR = """solver_type L2R_L1LOSS_SVC_DUAL
nr_class 3
label 1 2 3
nr_feature 2
bias 1
w
0.5 0.25 1
-1 2 3e-2
0 0 0.125
"""
SVMLIGHT = """SVM-light Version V6.02
2 # kernel type
3 # kernel parameter -d
0.5 # kernel parameter -g
1 # kernel parameter -s
1 # kernel parameter -r
empty# kernel parameter -u
4 # highest feature index
9 # number of training documents
3 # number of support vectors plus 1
0.17 # threshold b, each following line is a SV (starting with alpha*y)
0.5 1:0.2 4:0.7 #
-0.5 2:0.2 #
"""
# Written by LIBLINEAR 2.50 on twelve rows; what its predict says of four of them stands beside.
ROWS = np.array([[2.0, -2.6, 0.4], [-0.6, -0.5, -0.2], [-2.0, -0.2, -0.9], [3.3, 0.2, -0.4]])
LOGISTIC_OF_TWO = """solver_type L2R_LR
nr_class 2
label 2 -1
nr_feature 3
bias 2
w
0.60385078657284197
-0.32768023842325872
0.41333330624017245
0.59767424207572384
"""
LOGISTIC_OF_THREE = """solver_type L2R_LR_DUAL
nr_class 3
label 3 1 2
nr_feature 3
bias 2
w
0.83202056887179376 -0.34310051738855551 -0.60385078634989042
-0.28754771944220542 0.13770872795951411 0.3276802388051665
0.10044025433710659 0.28735595368963557 -0.41333330860632922
-0.47658199387438782 0.039577863716848488 -0.59767424199416475
"""
SPARSE_OF_THREE = """solver_type L1R_LR
nr_class 3
label 1 2 3
nr_feature 3
bias 2
w
1.0764023538117007 -0.1645646174404066 -0.71767475069105247
0 0 0
0 0 0
-0.024846216143392878 -0.50132811218354723 0
"""
SPARSE = """solver_type L1R_L2LOSS_SVC
nr_class 2
label 2 -1
nr_feature 3
bias 2
w
0.68955399025934072
0
0
-0.17414906110527995
"""
REGRESSION = """solver_type L2R_L1LOSS_SVR_DUAL
nr_class 2
nr_feature 3
bias 2
w
0.91031014254392517
-1.7295333895155616
0.56146968432413558
0.16501816152535415
"""


@pytest.mark.parametrize(("text", "labels", "chances"), [
    (LOGISTIC_OF_TWO, [2, 2, -1, 2], [[0.0316654, 0.968335], [0.286139, 0.713861],
                                      [0.579036, 0.420964], [0.0493979, 0.950602]]),
    (LOGISTIC_OF_THREE, [3, 1, 1, 3],
     [[0.260702, 0.0275724, 0.711725], [0.52129, 0.276435, 0.202275],
      [0.489125, 0.458614, 0.0522609], [0.213142, 0.0434655, 0.743393]]),
    (SPARSE_OF_THREE, [1, 3, 3, 1],
     [[0.6896080, 0.1616175, 0.1487744], [0.2712183, 0.2349065, 0.4938751],
      [0.07994303, 0.2712581, 0.6487989], [0.7878994, 0.1426085, 0.06949215]]),
])  # fmt: skip
def test_a_logistic_model_of_liblinear(
    tmp_path: Path, text: str, labels: list[int], chances: list[list[float]]
) -> None:
    (tmp_path / "m").write_text(text)
    model = import_model(tmp_path / "m", 0.5)
    np.testing.assert_array_equal(model.predict(ROWS), labels)
    np.testing.assert_allclose(model.predict_proba(ROWS), chances, rtol=2e-5)  # of six digits
    export_model(tmp_path / "again", model, "liblinear")
    again = import_model(tmp_path / "again", 0.5)
    np.testing.assert_array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
    assert as_model(bridle.LogisticRegression.from_model(model)).objective == model.objective
    save_model(tmp_path / "ours", model)
    told = CliRunner().invoke(
        main, ["export", str(tmp_path / "ours"), str(tmp_path / "n.liblinear")]
    )
    assert "probabilities" not in told.stderr  # which are the model's own, there as here


def test_a_model_of_liblinear_with_an_l1_penalty(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(SPARSE)
    model = import_model(tmp_path / "m", 0.5)
    said = [1.0308098583081216, -0.7620305163661643, -1.7274061027292413, 1.9272300456452645]
    np.testing.assert_allclose(model.decision_function(ROWS), said, rtol=1e-12)
    assert model.objective.penalty == {"penalty": "l1"}
    assert model.objective.bias_scale == 2
    export_model(tmp_path / "again", model, "liblinear")
    theirs, ours = SPARSE.split(), (tmp_path / "again").read_text().split()
    assert (ours[1], np.float64(ours[-4:]).tolist()) == (
        "L1R_L2LOSS_SVC", np.float64(theirs[-4:]).tolist(),
    )  # fmt: skip
    assert bridle.LinearSVC.from_model(model).penalty == "l1"
    mixed = replace(model, objective=replace(model.objective, l1_ratio=0.5))
    with pytest.raises(ModelError, match="'squared_hinge' and the penalty 'elasticnet'"):
        export_model(tmp_path / "x", mixed, "liblinear")


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_what_was_trained_with_an_l1_penalty_is_certified_back(tmp_path: Path, loss: str) -> None:
    X, y = draw([2, 9, 4])
    write_svmlight(tmp_path / "d", X, y)
    bridle_command("train", tmp_path / "d", tmp_path / "m", "--loss", loss, "--penalty", "l1")
    bridle_command("export", tmp_path / "m", tmp_path / "m.liblinear")
    line = ["import", tmp_path / "m.liblinear", tmp_path / "again", "-c", 1]
    bridle_command(*line, "--data", tmp_path / "d")
    ours, again = load_model(tmp_path / "m"), load_model(tmp_path / "again")
    assert_same_weights(ours, again)
    assert again.objective == ours.objective
    assert again.certificate.primal == pytest.approx(ours.certificate.primal, rel=1e-9)
    assert again.certificate.relative_gap <= 1e-3


def test_a_regression_of_liblinear(tmp_path: Path) -> None:
    (tmp_path / "m").write_text(REGRESSION)
    model = import_model(tmp_path / "m", 0.5, epsilon=0.25)
    said = [6.872031294608673, 0.5363229954173069, -1.6500000000257518, 2.763565241812895]
    np.testing.assert_allclose(model.predict(ROWS), said, rtol=1e-12)
    assert model.objective.parameters == {"epsilon": 0.25}
    assert model.objective.bias_scale == 2
    export_model(tmp_path / "again", model, "liblinear")
    theirs, ours = REGRESSION.split(), (tmp_path / "again").read_text().split()
    assert ours[:9] == theirs[:9]
    np.testing.assert_array_equal(np.float64(ours[9:]), np.float64(theirs[9:]))
    line = ["import", tmp_path / "m", tmp_path / "ours", "-c", 0.5]
    assert "-p" in bridle_command(*line, code=2)
    write_svmlight(tmp_path / "d", csr_matrix(ROWS), model.predict(ROWS) + 0.1)
    assert "certified gap" in bridle_command(*line, "-p", 0.25, "--data", tmp_path / "d")
    assert bridle.LinearSVR.load(tmp_path / "ours").epsilon == 0.25
    huber = replace(model, objective=replace(model.objective, loss="huber", parameters={}))
    with pytest.raises(ModelError, match="no solver for the loss 'huber'"):
        export_model(tmp_path / "x", huber, "liblinear")


@needs_liblinear
@pytest.mark.parametrize("kind", ["logistic", "epsilon_insensitive"])
def test_liblinear_predicts_with_our_models_of_every_kind(tmp_path: Path, kind: str) -> None:
    X, y = draw([1, 2, 3])
    write_svmlight(tmp_path / "d", X, y)
    bridle_command("train", tmp_path / "d", tmp_path / "ours", "--loss", kind)
    bridle_command("export", tmp_path / "ours", tmp_path / "m.liblinear")
    tool("predict", tmp_path / "d", tmp_path / "m.liblinear", tmp_path / "theirs")
    found = load_model(tmp_path / "ours").predict(X)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "theirs"), found, rtol=1e-5)


def test_a_regression_in_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, y = draw([1, 2, 3])
    for estimator in (bridle.LinearSVR(), bridle.QuantileRegressor(quantile=0.8)):
        fitted = estimator.fit(X, y)
        export_model(tmp_path / "m.onnx", fitted)
        (said,) = runtime.InferenceSession(tmp_path / "m.onnx").run(None, {"X": X.toarray()})
        np.testing.assert_allclose(said, fitted.predict(X), rtol=1e-12, atol=1e-12)


WRONG = [
    (LIBLINEAR, "L2R_L1LOSS_SVC_DUAL", "TWOCLASS_SVM", 1),
    (LIBLINEAR, "nr_class 3", "rho 0.5", 2),
    (LIBLINEAR, "nr_class 3", "nr_class 1", 2),
    (LIBLINEAR, "label 1 2 3", "label 1 2", 3),
    (LIBLINEAR, "label 1 2 3", "label 1 2 2", 3),
    (LIBLINEAR, "nr_feature 2", "nr_feature 2000000000", 10),
    (LIBLINEAR, "nr_feature 2", "nr_feature 99999999999", 4),
    (LIBLINEAR, "nr_feature 2", "nr_feature 1", 9),
    (LIBLINEAR, "bias 1", "bias nan", 5),
    (LIBLINEAR, "bias 1\n", "", 5),
    (LIBLINEAR, "-1 2 3e-2", "-1 2", 8),
    (LIBLINEAR, "-1 2 3e-2", "-1 2 x", 8),
    (LIBLINEAR, "-1 2 3e-2", "-1 2 1_0", 8),
    (LIBLINEAR, "-1 2 3e-2", "-1 2 ä", 8),
    (SVMLIGHT, "2 # kernel type", "4 # kernel type", 2),
    (SVMLIGHT, "2 # kernel type", "2 # colonel type", 2),
    (SVMLIGHT, "0.5 # kernel parameter -g", "inf # kernel parameter -g", 4),
    (SVMLIGHT, "3 # number of support", "5 # number of support", 10),
    (SVMLIGHT, "4:0.7", "5:0.7", 12),
    (SVMLIGHT, "2:0.2", "2:x", 13),
    (SVMLIGHT, "2:0.2", "0:1", 13),
    ("", "", "no model\n", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "line"), WRONG, ids=lambda v: str(v)[:20])
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, text: str, old: str, new: str, line: int
) -> None:
    assert old in text
    path = tmp_path / "m"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ModelError) as caught:
        import_model(path)
    assert str(caught.value).startswith(f"{path}:{line}:")
    assert bridle_command("import", path, tmp_path / "o", "-c", 1, code=2).count("\n") == 1


@pytest.mark.parametrize("text", [LIBLINEAR, SVMLIGHT])
def test_hostile_files_end_in_an_error_or_a_model(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m"
    path.write_text(text)
    import_model(path)

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def attack(data: st.DataObject) -> None:
        raw = bytearray(text.encode())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(raw) - 1))
            end = data.draw(st.integers(at, min(len(raw), at + 30)))
            raw[at:end] = data.draw(
                st.binary(max_size=8) | st.sampled_from([b"\n", b"1e999", b"-7"])
            )
        path.write_bytes(raw)
        with contextlib.suppress(ModelError):
            assert np.isfinite(import_model(path).intercept).all()
            return
        with pytest.raises(ModelError, match=rf"^{re.escape(str(path))}:\d+:[^\n]*$"):
            import_model(path)

    attack()


@pytest.mark.parametrize("words", [False, True])
def test_pipelines_go_to_onnx_by_skl2onnx(words: bool) -> None:
    runtime, skl2onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("skl2onnx")
    register(bridle.LinearSVC, bridle.SVC)
    X, codes = draw([0, 1, 2])
    X, y = X.toarray(), np.array(["a", "b", "c"])[codes.astype(int)] if words else codes.astype(int)
    for last in (bridle.LinearSVC(), bridle.LinearSVC(probability="platt"), bridle.SVC()):
        pipe = make_pipeline(StandardScaler(), last).fit(X, y)
        made = skl2onnx.to_onnx(pipe, X[:1], options={"zipmap": False}, target_opset=15)
        labels, second = runtime.InferenceSession(made.SerializeToString()).run(None, {"X": X})
        np.testing.assert_array_equal(labels, pipe.predict(X))
        known = pipe.predict_proba(X) if hasattr(pipe, "predict_proba") else None
        expected = pipe.decision_function(X) if known is None else known
        np.testing.assert_allclose(second, expected, rtol=1e-4, atol=1e-5)


def test_regressions_in_pipelines_go_to_onnx_by_skl2onnx() -> None:
    runtime, skl2onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("skl2onnx")
    register(bridle.LinearSVR, bridle.LogisticRegression)
    X, y = draw([0, 1, 2])
    X = X.toarray()
    pipe = make_pipeline(StandardScaler(), bridle.LinearSVR()).fit(X, y)
    made = skl2onnx.to_onnx(pipe, X[:1], target_opset=15)
    (said,) = runtime.InferenceSession(made.SerializeToString()).run(None, {"X": X})
    np.testing.assert_allclose(said[:, 0], pipe.predict(X), rtol=1e-4, atol=1e-5)
    pipe = make_pipeline(StandardScaler(), bridle.LogisticRegression()).fit(X, y.astype(int))
    made = skl2onnx.to_onnx(pipe, X[:1], options={"zipmap": False}, target_opset=15)
    _, chances = runtime.InferenceSession(made.SerializeToString()).run(None, {"X": X})
    np.testing.assert_allclose(chances, pipe.predict_proba(X), rtol=1e-4, atol=1e-5)
