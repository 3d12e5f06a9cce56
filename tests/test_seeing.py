"""What a user sees of a model: the features that decide, the boundary, the certificate in HTML."""

import io

import matplotlib

matplotlib.use("Agg")

import bridle
import numpy as np
import pytest
from bridle import (
    SVC,
    ChainSVM,
    LinearSVC,
    LinearSVCCV,
    MulticlassSVC,
    MultivariateSVC,
    OnlineSVC,
    ProgressBar,
    RankSVM,
    explain,
    plot_boundary,
)
from bridle.study.plots import support_vectors
from matplotlib import pyplot
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture(scope="module")
def iris():
    data = load_iris(as_frame=True)
    return data.data, np.asarray(data.target_names)[data.target]


def test_explain_lists_the_largest_weights_of_each_class(iris):
    X, y = iris
    model = LinearSVC(random_state=0).fit(X, y)
    found = explain(model, n=2)
    assert [side.label for side in found.sides] == ["setosa", "versicolor", "virginica"]
    for side, w, b in zip(found.sides, model.coef_, model.intercept_, strict=True):
        assert side.against == "the rest"
        assert side.intercept == b
        order = np.argsort(-w)
        assert [name for name, _ in side.towards] == [X.columns[j] for j in order[:2]]
        assert [name for name, _ in side.away] == [X.columns[j] for j in order[::-1][:2]]
        assert all(weight > 0 for _, weight in side.towards)
        assert all(weight < 0 for _, weight in side.away)
    text = str(found)
    assert "virginica against the rest" in text
    assert "petal width (cm)" in text
    assert "<table" in found._repr_html_()


def test_explain_any_linear_model(iris, tmp_path):
    X, y = iris
    two = y != "setosa"
    binary = LinearSVC().fit(X[two], y[two])
    (side,) = explain(binary).sides
    assert (side.label, side.against) == ("virginica", "versicolor")
    binary.save(tmp_path / "model")
    assert explain(bridle.load_model(tmp_path / "model")) == explain(binary)
    assert explain(binary.sparsify()) == explain(bridle.load_model(tmp_path / "model"))
    duels = explain(LinearSVC(multi_class="ovo").fit(X, y)).sides
    assert [(s.label, s.against) for s in duels] == [
        ("setosa", "versicolor"), ("setosa", "virginica"), ("versicolor", "virginica"),
    ]  # fmt: skip
    for model in (MulticlassSVC(), OnlineSVC(), LinearSVCCV(3)):
        assert len(explain(model.fit(X, y)).sides) == 3
    ranker = RankSVM("roc").fit(X.to_numpy(), (y == "virginica").astype(float))
    assert explain(ranker, ["a", "b", "c", "d"]).sides[0].label == "score"
    f1 = MultivariateSVC("f1", C=1e3).fit(X.to_numpy(), y == "setosa")
    assert explain(f1).sides[0].towards[0][0].startswith("feature ")
    with pytest.raises(ValueError, match="there are 4 features but 3 names"):
        explain(binary, ["a", "b", "c"])
    with pytest.raises(TypeError, match="has no weights of features"):
        explain(SVC().fit(X, y))


def test_explain_looks_into_pipelines_and_searches(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), LinearSVC(random_state=0)).fit(X, y)
    found = explain(pipeline)
    assert found == explain(pipeline[-1], X.columns)
    search = GridSearchCV(pipeline, {"linearsvc__C": [0.1]}, cv=3).fit(X, y)
    assert explain(search).sides[0].towards[0][0] in X.columns
    texts = make_pipeline(TfidfVectorizer(), LinearSVC()).fit(
        ["good", "bad", "good day"], [1, 0, 1]
    )
    assert explain(texts, n=1).sides[0].away[0][0] == "bad"
    assert explain(texts, n=1).sides[0].towards[0][0] == "good"


def test_explain_counts_what_is_used():
    X = np.zeros((40, 5))
    X[:, 1] = np.linspace(-1, 1, 40)
    found = explain(LinearSVC(100.0).fit(X, X[:, 1] > 0))
    assert (found.n_used, found.n_features) == (1, 5)
    assert [name for name, _ in found.sides[0].towards] == ["feature 1"]
    assert found.sides[0].away == ()


BLOBS = make_blobs(90, centers=[[0, 0], [3, 0.5], [1.2, 3]], random_state=2)
MOONS = make_moons(120, noise=0.2, random_state=0)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (LinearSVC(), MOONS),
        (LinearSVC(store_dual=False), MOONS),
        (SVC(gamma=2.0), MOONS),
        (SVC(), BLOBS),
        (LinearSVC(), BLOBS),
        (LinearSVC(multi_class="ovo", store_dual=True), BLOBS),
        (LinearSVC(multi_class="crammer_singer"), BLOBS),
        (MulticlassSVC(), BLOBS),
        (make_pipeline(StandardScaler(), LinearSVC()), MOONS),
        (make_pipeline(StandardScaler(), SVC()), BLOBS),
    ],
)
def test_boundaries(model, data):
    X, y = data
    labels = np.array(["a", "b", "c"])[y]
    model.fit(X, labels)
    ax = plot_boundary(model, X, labels, title="a title")
    try:
        shown = ax.get_legend_handles_labels()[1]
        ringed = support_vectors(model, X, labels)
        assert 0 < len(ringed) < len(X)
        assert shown == [*np.unique(labels), f"support vectors ({len(ringed)})"]
        rings = ax.collections[-1].get_offsets()
        assert np.array_equal(np.asarray(rings), X[ringed])
        assert ax.get_title() == "a title"
    finally:
        pyplot.close(ax.figure)


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("data", [MOONS, BLOBS], ids=["moons", "blobs"])
def test_rings_by_dual_variables_and_by_margins_agree(data, multi_class):
    X, y = data
    for steps in ((), (StandardScaler(),)):
        with_dual, without = (
            make_pipeline(*steps, LinearSVC(multi_class=multi_class, store_dual=s)).fit(X, y)
            for s in (True, False)
        )
        expected = support_vectors(with_dual, X, y)
        assert np.array_equal(expected, support_vectors(without, X, y))
        if not steps:
            assert np.array_equal(expected, support_vectors(without[-1], X, y))


def test_boundaries_of_frames_and_of_what_is_not_flat():
    pandas = pytest.importorskip("pandas")
    X, y = MOONS
    frame = pandas.DataFrame(X, columns=["width", "height"])
    ax = plot_boundary(LinearSVC().fit(frame, y), frame, y)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    pyplot.close(ax.figure)
    flat = LinearSVC().fit(np.eye(2, 3), [0, 1])
    with pytest.raises(ValueError, match="two features"):
        plot_boundary(flat, np.eye(2, 3), [0, 1])


def test_trace_plot(iris):
    X, y = iris
    ax = LinearSVC(0.01, solver="dcd").fit(X, y).trace_.plot()
    assert ax.get_ylabel() == "certified relative gap (P - D) / P"
    pyplot.close(ax.figure)


@pytest.mark.parametrize(
    "model", [LinearSVC(), LinearSVCCV(3), SVC(), MulticlassSVC(), RankSVM(), MultivariateSVC()]
)
def test_html_shows_the_certificate(model, iris):
    X, y = iris
    X, y = X.to_numpy()[50:], (y[50:] == "virginica").astype(int)
    assert "certified relative gap" not in model._repr_html_()
    model.fit(X, y)
    for text in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert f"{model.certificate_.relative_gap:.2e}" in text
        assert "converged" in text
        assert model.solver_ in text
    assert type(model).__name__ in repr(model)


def test_html_of_sequences_and_of_pipelines(iris):
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((5, 3)) for _ in range(10)]
    model = ChainSVM().fit(X, [["<b>" if row[0] > 0 else "n" for row in x] for x in X])
    assert "certified relative gap" in model._repr_html_()
    pipeline = make_pipeline(StandardScaler(), LinearSVC()).fit(*iris)
    assert "LinearSVC" in pipeline._repr_html_()


def test_html_escapes_what_classes_are_called():
    X, y = BLOBS
    model = LinearSVC().fit(X, np.array(["<b><i>x", "<b><i>y", "<b><i>z"])[y])
    assert "<b><i>" not in model._repr_html_().rsplit("certified relative gap", 1)[1]
    assert "&lt;b&gt;&lt;i&gt;" in model._repr_html_()


def test_the_bar_fills_as_the_gap_falls(iris):
    out = io.StringIO()
    X, y = bridle.data.make_corpus(3000, seed=0)
    LinearSVC(1.0, solver="pegasos", tol=0.05, callback=ProgressBar(0.05, stream=out)).fit(X, y)
    frames = out.getvalue().split("\r")[1:]
    filled = [frame.count("#") for frame in frames]
    assert filled == sorted(filled)
    assert filled[0] < filled[-1] == 30
    assert frames[-1].endswith("s \n")
    assert all("certified gap" in frame and "of 5.0e-02" in frame for frame in frames)
    out = io.StringIO()
    LinearSVC(n_threads=1, callback=ProgressBar(stream=out)).fit(*iris)
    assert out.getvalue().count("\n") == 3  # one line for each class
    with pytest.raises(ValueError, match="goal must be between 0 and 1"):
        ProgressBar(0.0)


def test_interior_points_do_not_make_every_row_a_support_vector():
    X, y = load_iris(return_X_y=True)
    problem = bridle.LinearProblem(X[50:], np.where(y[50:] == 1, 1.0, -1.0), C=1.0)
    inner, exact = (
        bridle.solve(problem, name, stop=bridle.Gap(1e-9) | bridle.Epochs(10_000))
        for name in ("interior-point", "newton")
    )
    counts = [
        bridle.margin_report(problem, found.w, found.b, found.alpha).support_vectors
        for found in (inner, exact)
    ]
    assert counts[0] == pytest.approx(counts[1], abs=2)
    assert counts[0] < 60
