"""The command line, as a user meets it: exit codes, what is written where, and how true it is."""

from __future__ import annotations

import csv
import gzip
import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pytest
from bridle.cli import COMMANDS, main
from bridle.cli.settings import make_solver
from bridle.data import read_svmlight, write_svmlight
from bridle.fitting.labels import classes_of
from bridle.models.storage import load_model
from click.testing import CliRunner, Result
from scipy.sparse import csr_matrix

BRIDLE = [sys.executable, "-m", "bridle.cli"]
REPORT = {
    "solver", "C", "lam", "primal", "dual", "relative_gap", "status", "epochs", "seconds", "rows",
    "features", "nnz", "threads", "peak_rss_mb", "error_train", "error_test",
}  # fmt: skip


def draw(n_rows: int, n_classes: int, seed: int) -> tuple[csr_matrix, np.ndarray]:
    """Sparse rows, labelled by noisy linear scores."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n_rows, 30)) * (rng.random((n_rows, 30)) < 0.3)
    dense[0, 29] = 1.0
    X = csr_matrix(dense.astype(np.float32))
    truth = np.random.default_rng(99).normal(size=(30, n_classes))
    labels = (X @ truth + 0.3 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)
    return X, labels * 2.0 - 1 if n_classes == 2 else labels + 5.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, n_rows, n_classes, seed in (
        ("two.svm", 200, 2, 0), ("two.test.svm", 100, 2, 1), ("four.svm", 200, 4, 2),
    ):  # fmt: skip
        write_svmlight(folder / name, *draw(n_rows, n_classes, seed))
    return folder


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def report(*arguments: Any, code: int = 0) -> dict[str, Any]:
    """The JSON on standard output, which must hold nothing else."""
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.output
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout, parse_constant=pytest.fail)


def process(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*BRIDLE, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def primal_and_dual(model: Any, X: csr_matrix, y: np.ndarray) -> tuple[float, float]:
    """P(w, b) and D(alpha) of a model file with its proof, in plain NumPy, summed over classes."""
    dense = X.toarray().astype(np.float64)
    C, loss, bias = model.objective.C, model.objective.loss, model.objective.bias
    primal = dual = 0.0
    positives = model.classes[1:] if len(model.coef) == 1 else model.classes
    for positive, w, b, alpha in zip(
        positives, model.coef, model.intercept, model.alpha, strict=True
    ):
        sign = np.where(y == positive, 1.0, -1.0)
        slack = np.maximum(0, 1 - sign * (dense @ w + b))
        primal += 0.5 * w @ w + C * np.sum(slack if loss == "hinge" else slack**2)
        dual += alpha.sum() - 0.5 * np.sum(((alpha * sign) @ dense) ** 2)
        assert alpha.min() >= 0
        if loss == "hinge":
            assert alpha.max() <= C * (1 + 1e-9)
        else:
            dual -= np.sum(alpha**2) / (4 * C)
        if bias == "regularised":
            primal += 0.5 * b**2
            dual -= 0.5 * (alpha @ sign) ** 2
        elif bias == "free":
            assert abs(alpha @ sign) <= 1e-9 * alpha.sum()
        else:
            assert b == 0
    return primal, dual


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("data", ["two.svm", "four.svm"])
def test_the_gap_it_reports_is_true(
    folder: Path, tmp_path: Path, data: str, loss: str, bias: str
) -> None:
    path = tmp_path / "m"
    told = report(
        "train", folder / data, path, "--loss", loss, "--bias", bias, "--gap", "1e-4", "--proof",
        "-c", "0.7", "--max-epochs", "100000",
    )  # fmt: skip
    X, y = read_svmlight(folder / data)
    primal, dual = primal_and_dual(load_model(path), X, y)
    assert told["primal"] == pytest.approx(primal, rel=1e-7)
    assert told["dual"] == pytest.approx(dual, rel=1e-7)
    assert told["relative_gap"] == pytest.approx((primal - dual) / primal, abs=1e-6)
    assert (primal - dual) / primal <= 1e-4 + 1e-7
    kept = load_model(path).certificate
    assert (kept.primal, kept.dual) == (told["primal"], told["dual"])


def test_train_reports_what_the_design_promises(folder: Path, tmp_path: Path) -> None:
    told = report("train", folder / "two.svm", tmp_path / "m", "--test", folder / "two.test.svm")
    assert set(told) >= REPORT
    assert set(told["seconds"]) == {"read", "solve", "certify", "write", "total"}
    assert told["status"] == "converged"
    assert told["relative_gap"] <= 1e-3
    assert told["lam"] == pytest.approx(1 / (200 * told["C"]))
    X, y = read_svmlight(folder / "two.svm")
    assert (told["rows"], told["features"], told["nnz"]) == (*X.shape, X.nnz)
    assert told["peak_rss_mb"] > 10
    model = load_model(tmp_path / "m")
    for name, field in (("two.svm", "error_train"), ("two.test.svm", "error_test")):
        X, y = read_svmlight(folder / name, n_features=30)
        scores = X.toarray() @ model.coef[0] + model.intercept[0]
        assert told[field] == pytest.approx(np.mean(np.where(scores > 0, 1, -1) != y))
    assert told["error_test"] < 0.3


def test_lam_and_c_are_two_names_of_one_thing(folder: Path, tmp_path: Path) -> None:
    by_c = report("train", folder / "two.svm", tmp_path / "m", "-c", "0.5")
    by_lam = report("train", folder / "two.svm", tmp_path / "m", "--lam", "0.01")
    assert by_c["primal"] == by_lam["primal"]
    both = run("train", folder / "two.svm", "-c", 1, "--lam", 1)
    assert both.exit_code == 2


def test_a_budget_ends_with_code_3_and_a_model(folder: Path, tmp_path: Path) -> None:
    limits = ("--gap", "1e-12", "--max-epochs", "3")
    told = report("train", folder / "two.svm", tmp_path / "m", *limits, code=3)
    assert told["status"] == "budget"
    assert load_model(tmp_path / "m").certificate.relative_gap == told["relative_gap"] > 1e-12
    told = report(
        "train", folder / "four.svm", tmp_path / "n", "--solver", "pegasos", "--gap", "1e-12",
        "--max-seconds", "0.2", "--max-epochs", "1e9", code=3,
    )  # fmt: skip
    assert told["status"] == "budget"
    assert {part["status"] for part in told["per_class"]} == {"budget"}
    assert load_model(tmp_path / "n").coef.shape == (4, 30)


def test_the_default_model_is_beside_the_data(tmp_path: Path) -> None:
    write_svmlight(tmp_path / "d.svm", *draw(50, 2, 3))
    result = run("train", tmp_path / "d.svm")
    assert result.exit_code == 0
    assert load_model(tmp_path / "d.svm.model").n_rows == 50
    assert "certified gap" in result.stdout
    assert result.stderr == ""


def test_settings_reach_the_solver(folder: Path, tmp_path: Path) -> None:
    arguments = ("train", folder / "two.svm", tmp_path / "m", "--max-epochs", 5)
    batch = report(*arguments, "--solver", "pegasos", "--set", "batch=10", code=3)
    single = report(*arguments, "--solver", "pegasos", code=3)
    assert batch["primal"] != single["primal"]
    solver = make_solver("pegasos", ["batch=7", "project=no", "output=tail-average"])
    assert solver == bridle.Pegasos(batch=7, project=False, output="tail-average")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("colour=red", "no setting 'colour'; it has: batch (an integer), project (true or false)"),
        ("batch=many", "batch must be an integer, found 'many'"),
        ("batch=0", "batch must be at least 1"),
        ("start=here", "start must be zero or random, found 'here'"),
        ("project=perhaps", "project must be true or false"),
        ("batch", "expected key=value"),
    ],
)
def test_bad_settings(folder: Path, setting: str, message: str) -> None:
    result = run("train", folder / "two.svm", "--solver", "pegasos", "--set", setting)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_setting_that_may_be_a_function_takes_a_number() -> None:
    assert make_solver("sgd-m", ["repeat=2"]) == bridle.SgdM(repeat=2)
    with pytest.raises(ValueError, match=r"repeat must be an integer or a function \(in Python\)"):
        make_solver("sgd-m", ["repeat=often"])


def bad_inputs(folder: Path) -> dict[str, tuple[list[Any], str]]:
    (folder / "bad.svm").write_text("1 1:2\n-1 1:2 3:x\n")
    (folder / "one.svm").write_text("1 1:2\n1 1:3\n")
    (folder / "empty.svm").write_text("")
    data = folder / "two.svm"
    return {
        "malformed": (["train", folder / "bad.svm"], f"{folder / 'bad.svm'}:2:10: expected"),
        "one class": (["train", folder / "one.svm"], "every row has the label 1"),
        "empty": (["train", folder / "empty.svm"], "empty.svm"),
        "missing": (["train", folder / "none.svm"], "none.svm: there is no such file"),
        "folder": (["train", folder], "is a folder"),
        "missing test": (["train", data, "--test", folder / "none.svm"], "no such file"),
        "no folder": (["train", data, folder / "none" / "m"], "there is no folder"),
        "overwrite": (["train", data, data], "would overwrite an input file"),
        "solver": (["train", data, "--solver", "magic"], "unknown solver 'magic'; known: auto"),
        "loss": (["train", data, "--loss", "zero-one"], "unknown loss 'zero-one'"),
        "bias": (["train", data, "--solver", "sgd-qn", "--bias", "free"], "sgd-qn cannot have"),
        "no model": (["predict", data, data], "not a bridle model"),
        "no model to certify": (["certify", data, folder / "bad.svm"], "not a bridle model"),
        "demo solver": (["demo", "--solvers", "dcd,magic"], "unknown solver 'magic'"),
    }


@pytest.mark.parametrize(
    "case",
    [
        "malformed", "one class", "empty", "missing", "folder", "missing test", "no folder",
        "overwrite", "solver", "loss", "bias", "no model", "no model to certify", "demo solver",
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_code_2(folder: Path, case: str) -> None:
    arguments, message = bad_inputs(folder)[case]
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not list(folder.glob("*.model"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "0"], ["-c", "-1"], ["-c", "nan"], ["--lam", "nan"], ["--gap", "nan"],
        ["--gap", "-1"], ["--max-seconds", "nan"], ["--threads", "0"], ["--bias", "some"],
        ["--seed", "-1"], ["--trace", "trace.txt"], ["--no-such-option"],
    ],
)  # fmt: skip
def test_bad_usage_is_code_2(folder: Path, arguments: list[str]) -> None:
    result = run("train", folder / "two.svm", *arguments)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("data", ["two.svm", "four.svm"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_trace_files(folder: Path, tmp_path: Path, data: str, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    told = report("train", folder / data, tmp_path / "m", "--trace", path)
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file) if suffix == "csv" else map(json.loads, file))
    parts = told.get("per_class") or [{"class": None, **told}]
    for part in parts:
        name = None if part["class"] is None else f"{part['class']:g}"
        gaps = [float(row["relative_gap"]) for row in rows if row.get("class") == name]
        assert gaps == sorted(gaps, reverse=True)
        assert gaps[-1] == pytest.approx(part["relative_gap"])


@pytest.mark.parametrize("data", ["two.svm", "four.svm"])
def test_predict(folder: Path, tmp_path: Path, data: str) -> None:
    assert run("train", folder / data, tmp_path / "m").exit_code == 0
    model = load_model(tmp_path / "m")
    X, y = read_svmlight(folder / data)
    scores = np.squeeze(X.toarray().astype(np.float64) @ model.coef.T + model.intercept)
    labels = model.classes[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]

    shown = run("predict", folder / data, tmp_path / "m")
    assert shown.exit_code == 0
    assert shown.stdout.split() == [f"{label:g}" for label in labels]
    error = np.mean(labels != y)
    assert f"error {100 * error:.2f} %" in shown.stderr

    told = report("predict", folder / data, tmp_path / "m", tmp_path / "out")
    assert told["error_test"] == pytest.approx(error)
    assert (tmp_path / "out").read_text() == shown.stdout

    assert (
        run("predict", folder / data, tmp_path / "m", tmp_path / "out", "--scores").exit_code == 0
    )
    np.testing.assert_allclose(np.loadtxt(tmp_path / "out"), scores, rtol=1e-6, atol=1e-9)


def test_other_widths_other_bases_and_unlabelled_data(tmp_path: Path) -> None:
    train, test = tmp_path / "d.svm", tmp_path / "t.svm"
    train.write_text("1 0:1 3:1\n-1 1:1 3:1\n" * 20)  # counts from 0: four features
    assert run("train", train, tmp_path / "m").exit_code == 0
    test.write_text("0 1:5\n")  # no feature 0, and no label either
    result = run("predict", test, tmp_path / "m")
    assert result.stdout == "-1\n"  # feature 1 is the file's, not the one before
    assert result.stderr == ""
    test.write_text("1 0:1 77:3\n1 0:1\n")
    result = run("predict", test, tmp_path / "m", "--scores")
    first, second = map(float, result.stdout.split())
    assert first == second > 0
    assert "74 features beyond the model's 4 are ignored" in result.stderr
    assert report("predict", test, tmp_path / "m")["error_test"] == 0


def test_gzip(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "d.svm.gz").write_bytes(gzip.compress((folder / "two.svm").read_bytes()))
    plain = report("train", folder / "two.svm", tmp_path / "a")
    packed = report("train", tmp_path / "d.svm.gz", tmp_path / "b")
    assert plain["primal"] == packed["primal"]


def test_certify(folder: Path, tmp_path: Path) -> None:
    for data in ("two.svm", "four.svm"):
        sloppy = report("train", folder / data, tmp_path / "m", "--max-epochs", 1, code=3)
        told = report("certify", folder / data, tmp_path / "m", "--max-seconds", 5)
        assert told["primal"] == pytest.approx(sloppy["primal"])
        assert told["dual"] >= sloppy["dual"]
        assert told["relative_gap_in_file"] == sloppy["relative_gap"] > told["relative_gap"]
        assert told["source"] == "dual-solver"
        assert told["trained_on_these_data"] is True
        optimum = report("train", folder / data, tmp_path / "best", "--gap", "1e-4")
        assert told["dual"] <= optimum["primal"]
    other = run("certify", folder / "two.test.svm", tmp_path / "m")
    assert other.exit_code == 2
    assert "is none of the model's classes" in other.stderr


def test_the_same_seed_gives_the_same_model(folder: Path, tmp_path: Path) -> None:
    weights = []
    for seed, threads in ((1, 1), (1, 2), (2, 1)):
        report(
            "train", folder / "four.svm", tmp_path / "m", "--seed", seed, "--threads", threads,
            "--solver", "dcd", "--max-epochs", 3, code=3,
        )  # fmt: skip
        weights.append(load_model(tmp_path / "m").coef)
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_demo(tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "p.png"
    arguments = ("demo", "--rows", 2000, "--solvers", "dcd,pegasos:batch=10", "--max-seconds", 1)
    result = run(*arguments, "--picture", picture)
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    header = next(line for line in result.stdout.splitlines() if line.startswith("solver"))
    assert header.split() == [
        "solver",
        "seconds",
        "primal",
        "cost",
        "certified",
        "gap",
        "test",
        "error",
    ]
    told = report(*arguments, "--picture", picture)
    assert [part["solver"] for part in told["solvers"]] == ["dcd", "pegasos:batch=10"]
    assert told["solvers"][0]["status"] == "converged"
    assert told["solvers"][0]["cost"] == pytest.approx(1e-4 * told["solvers"][0]["primal"])


# What only a process of its own can show.


def test_exit_codes_and_pure_output_through_a_pipe(folder: Path, tmp_path: Path) -> None:
    good = process("train", folder / "two.svm", tmp_path / "m", "--json")
    assert good.returncode == 0
    assert good.stderr == ""
    assert json.loads(good.stdout)["status"] == "converged"
    short = process(
        "train", folder / "two.svm", tmp_path / "m", "--gap", "1e-12", "--max-epochs", 2
    )
    assert short.returncode == 3
    assert short.stderr == ""
    assert "\x1b" not in short.stdout
    bad = process("train", folder / "missing.svm")
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1


@pytest.mark.parametrize("data", ["two.svm", "four.svm"])
def test_ctrl_c_on_a_terminal_writes_the_best_model(
    folder: Path, tmp_path: Path, data: str
) -> None:
    """Progress is shown on a terminal; once it is, Ctrl-C ends the run with a model."""
    ours, theirs = pty.openpty()
    command = [
        *BRIDLE, "train", folder / data, tmp_path / "m", "--json", "--solver", "pegasos",
        "--gap", "1e-13", "--max-epochs", "1e12", "--max-seconds", "100",
    ]  # fmt: skip
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    seen = b""
    while b"certified gap" not in seen:
        seen += os.read(ours, 1 << 16)
    run.send_signal(signal.SIGINT)
    with pytest.raises(OSError):  # noqa: PT012  (a terminal that nobody holds any more)
        while os.read(ours, 1 << 16):
            pass
    output, _ = run.communicate(timeout=60)
    os.close(ours)
    assert run.returncode == 3
    told = json.loads(output)
    assert told["status"] == "interrupted"
    assert load_model(tmp_path / "m").certificate.relative_gap == told["relative_gap"]


def loaded_after(*arguments: Any) -> set[str]:
    code = (
        "import sys\nfrom bridle.cli import main\n"
        f"try: main({[str(a) for a in arguments]!r})\n"
        "except SystemExit: pass\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in found.stdout.splitlines()[-1].split()}


def test_help_imports_nothing_heavy() -> None:
    assert not loaded_after("--help") & {"numpy", "scipy", "rich", "sklearn", "matplotlib"}
    for command in COMMANDS:
        assert not loaded_after(command, "--help") & {"scipy", "rich", "sklearn", "matplotlib"}


def test_the_command_line_never_imports_scikit_learn(folder: Path, tmp_path: Path) -> None:
    model, picture = tmp_path / "m", tmp_path / "p.png"
    for arguments in (
        ["train", folder / "four.svm", model],
        ["predict", folder / "four.svm", model],
        ["certify", folder / "four.svm", model, "--max-seconds", 1],
        ["train", folder / "four.svm", model, "--probability", "isotonic", "--scale"],
        ["train", "-s", 4, "-v", 2, "-q", folder / "four.svm"],
        ["export", model, tmp_path / "m.liblinear"],
        ["import", tmp_path / "m.liblinear", model, "-c", 1, "--data", folder / "four.svm"],
        ["demo", "--rows", 200, "--solvers", "dcd", "--picture", picture],
    ):
        loaded = loaded_after(*arguments)
        assert "numpy" in loaded  # it did run
        assert not loaded & {"sklearn", "rich"}
        if arguments[0] != "demo":
            assert "matplotlib" not in loaded


def test_a_hyphen_is_standard_output_for_labels_and_no_file_for_models(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = folder / "two.svm"
    told = run("train", data, "-")
    assert told.exit_code == 2
    assert told.stderr.startswith("bridle: -: is not written to standard output; name a file")
    assert run("train", data, "m", "--quiet").exit_code == 0
    assert run("predict", data, "m", "-").stdout == run("predict", data, "m").stdout != ""
    told = run("predict", data, "m", "-", "--json")
    assert told.exit_code == 2
    assert "name a file for the labels" in told.stderr
    assert not Path("-").exists()


@pytest.mark.parametrize(
    "labels",
    [
        [1.0, -1.0, 1.0],
        [2.0, 2.0],
        [0.0],
        [3.0, 1.0, 2.0, 1.0],
        ["b", "a", "b"],
        ["a"],
        [-0.0, 0.0],
    ],
)
def test_classes_are_those_of_numpy(labels: list[Any]) -> None:
    found, wanted = classes_of(np.array(labels)), np.unique(labels, return_inverse=True)
    assert found[0].tolist() == wanted[0].tolist()
    assert found[1].tolist() == wanted[1].tolist()


def test_train_and_predict_do_without_scipy(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    for arguments in (
        ["train", folder / "two.svm", model, "--solver", "dcd", "--test", folder / "two.test.svm"],
        ["train", folder / "four.svm", model, "--solver", "dcd", "--proof"],
        ["predict", folder / "four.svm", model, tmp_path / "out"],
        ["predict", folder / "two.test.svm", model, tmp_path / "out"],
    ):
        loaded = loaded_after(*arguments)
        assert "numpy" in loaded  # it did run
        assert "scipy" not in loaded  # importing it takes longer than reading most files
    assert (tmp_path / "out").stat().st_size > 0


def test_every_command_is_documented() -> None:
    result = run("--help")
    for name, (_, _, short) in COMMANDS.items():
        assert f"  {name} " in result.stdout
        assert short in result.stdout
        assert run(name, "--help").exit_code == 0
    assert "--dask ADDRESS" in run("train", "--help").stdout
    assert run("--version").stdout == f"bridle {bridle.__version__}\n"
    assert run("no-such-command").exit_code == 2
