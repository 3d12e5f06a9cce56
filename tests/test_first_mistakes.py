"""What people get wrong on their first day is answered in words that say what to do."""

from pathlib import Path

import bridle
import numpy as np
import pytest
from bridle.cli import dialect
from click.testing import CliRunner
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

X = np.random.default_rng(0).normal(size=(40, 3))
y = np.where(X[:, 0] > 0, 1, -1)


@pytest.mark.parametrize("C", ["1", None, [1.0]])
def test_a_C_that_is_no_number(C: object) -> None:
    with pytest.raises(TypeError, match="C must be a number"):
        bridle.LinearSVC(C=C).fit(X, y)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (bridle.LinearSVC, "tol"), (bridle.LinearSVC, "max_iter"), (bridle.LinearSVC, "n_jobs"),
        (bridle.LinearSVR, "epsilon"), (bridle.SVC, "C"), (bridle.SVC, "gamma"),
        (bridle.SVC, "degree"), (bridle.LogisticRegression, "C"), (bridle.OneClassSVM, "nu"),
        (bridle.QuantileRegressor, "quantile"), (bridle.Ridge, "tol"),
    ],
)  # fmt: skip
def test_words_in_place_of_numbers(estimator: type, name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{name} must be a number.*, got 'much'"):
        estimator(**{name: "much"}).fit(X, y)


def test_names_of_scikit_learns_solvers() -> None:
    with pytest.raises(ValueError, match=r"known: auto.*the name is scikit-learn's: leave it out"):
        bridle.LogisticRegression(solver="lbfgs").fit(X, y)


def test_a_number_in_place_of_a_stopping_rule() -> None:
    with pytest.raises(TypeError, match=r"such as Gap\(1e-3\), got 0.001"):
        bridle.solve(bridle.LinearProblem(X, y), stop=1e-3)


def test_rows_about_the_origin_have_no_half_space() -> None:
    with pytest.warns(UserWarning, match="do not centre them"):
        bridle.LinearOneClassSVM().fit(np.vstack([X, -X]))
    with pytest.warns(UserWarning, match="lower alpha"):
        bridle.Ridge().fit(X, np.ones(40))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        bridle.LinearSVC().fit(X, y).save(tmp_path / "none" / "model")
    assert str(caught.value).endswith("model'")


def test_a_picture_of_a_model_that_is_not_fitted() -> None:
    with pytest.raises(ValueError, match="a fitted classifier: this SVC is none"):
        bridle.plot_boundary(bridle.SVC(), X[:, :2], y)


def test_values_that_touch_their_options() -> None:
    apart = dialect.translate(["-s", "3", "-B", "1", "a.svm"])
    assert dialect.translate(["-s3", "-B1", "a.svm"]) == apart


def test_numbers_that_are_taken_for_classes(tmp_path: Path) -> None:
    from bridle.cli import main

    data = tmp_path / "t.svm"
    data.write_text("1.5 1:1\n2.5 1:2\n1.5 1:1\n")
    said = CliRunner().invoke(main, ["train", str(data)])
    assert "labels such as 1.5 are taken for classes" in said.output, said.output
    said = CliRunner().invoke(main, ["train", str(data), "--loss", "squared"])
    assert "taken for classes" not in said.output


def test_no_penalty_as_scikit_learn_writes_it() -> None:
    X, y = make_classification(200, 5, flip_y=0.3, random_state=0)
    model = bridle.LogisticRegression(C=np.inf).fit(X, y)
    theirs = LogisticRegression(C=1e10, tol=1e-8, max_iter=1000).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-3)


def test_a_model_that_says_nothing_is_told_of(tmp_path: Path) -> None:
    from bridle.cli import main

    (tmp_path / "flat.svm").write_text("1 1:0\n-1 1:0\n" * 3)
    words = ["train", str(tmp_path / "flat.svm"), str(tmp_path / "m")]
    assert "all weights are 0" in CliRunner().invoke(main, words).stderr
    assert CliRunner().invoke(main, [*words, "--quiet"]).stderr == ""


def test_a_table_of_one_class_needs_no_labels(tmp_path: Path) -> None:
    from bridle.cli import main

    data, model, out = (str(tmp_path / name) for name in ("t.csv", "t.model", "said"))
    Path(data).write_text("a,b\n1,2\n3,4\n2,3\n")
    trained = CliRunner().invoke(main, ["train", data, model, "--loss", "one_class"])
    assert trained.exit_code == 0, trained.output
    assert CliRunner().invoke(main, ["predict", data, model, out]).exit_code == 0
    assert set(Path(out).read_text().split()) <= {"1", "-1"}
    refused = CliRunner().invoke(main, ["train", data, model])
    assert refused.exit_code == 2
    assert "which column is the label" in refused.output


def test_a_conversion_to_nowhere(tmp_path: Path) -> None:
    from bridle.cli import main

    said = CliRunner().invoke(main, ["convert", str(tmp_path / "t.svm")])
    assert said.exit_code == 2
    assert "bridle convert" in said.output
    assert "ROWS.arrow" in said.output


@pytest.mark.parametrize("estimator", [bridle.SVC, bridle.OnlineSVC, bridle.OneClassSVM])
def test_rows_on_disk_for_what_needs_them_in_memory(tmp_path: Path, estimator: type) -> None:
    bridle.data.write_arrow(tmp_path / "rows.arrow", X, y)
    rows = bridle.StoredRows(tmp_path / "rows.arrow")
    with pytest.raises(TypeError, match=f"{estimator.__name__} needs its rows in memory"):
        estimator().fit(rows)
    with pytest.raises(TypeError, match=f"{estimator.__name__} needs its rows in memory"):
        estimator().fit(X=rows)
    model = bridle.LinearSVC().fit(rows)
    for answer in (model.predict, model.decision_function):
        with pytest.raises(TypeError, match="StoredRows stay on disk"):
            answer(rows)


def test_a_table_is_not_converted(tmp_path: Path) -> None:
    from bridle.cli import main

    table, rows = tmp_path / "t.csv", tmp_path / "t.arrow"
    table.write_text("a,b,label\n1,2,1\n3,4,-1\n")
    for words in (["convert", table, rows], ["train", table, "m", "--memory", "1G"]):
        said = CliRunner().invoke(main, [str(word) for word in words])
        assert said.exit_code == 2
        assert "svmlight text" in said.output
        assert "write_arrow" in said.output
        assert "convert t.csv" not in said.output  # would not work


def test_several_files_without_a_cluster(tmp_path: Path) -> None:
    from bridle.cli import main

    said = CliRunner().invoke(main, ["train", "0.arrow", "1.arrow", str(tmp_path / "m")])
    assert said.exit_code == 2
    assert "several files are for a cluster (--dask)" in said.output
    texts = [tmp_path / "0.svm", tmp_path / "1.svm"]
    for text in texts:
        text.write_text("1 1:2\n-1 2:1\n")
    words = ["convert", *texts, tmp_path / "all.arrow"]
    said = CliRunner().invoke(main, [str(word) for word in words])
    assert said.exit_code == 2
    assert "several files become several in a folder" in said.output


@pytest.mark.parametrize("client", ["tcp://127.0.0.1:8786", None])
def test_a_client_that_is_none(client: object) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
        bridle.DaskRows(client, ["0.arrow"])
