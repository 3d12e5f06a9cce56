"""The report: its numbers recomputed, and the page itself in a real browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from bridle import Gap, LinearProblem, make_report, solve, write_report
from bridle.cli import main
from bridle.data import make_corpus, write_svmlight
from bridle.study.report import FEATURES, render
from click.testing import CliRunner
from scipy.sparse import csr_matrix

HOSTILE = [
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "quotes \" ' ` ${1+1} \\u003c & &lt; &amp;",
    "\u202egnirts lortnoc\u2028\u0000",
    "עברית وعربي",
    "<!--", "]]>", "",
]  # fmt: skip
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def draw(n_rows: int, n_classes: int, seed: int) -> tuple[csr_matrix, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, len(HOSTILE)))
    truth = np.random.default_rng(99).normal(size=(len(HOSTILE), n_classes))
    codes = (X @ truth + 0.5 * rng.normal(size=(n_rows, n_classes))).argmax(axis=1)
    return csr_matrix(X.astype(np.float32)), 3.0 + codes


def quick(*data, **options):
    # Each part ends at its gap, whatever the load of the machine.
    return make_report(*data, solvers=["dcd", "pegasos"], max_seconds=1e6, **options)


@pytest.fixture(scope="module")
def two():
    return quick(*draw(300, 2, 0), test=draw(200, 2, 1), feature_names=HOSTILE, title=HOSTILE[0])


def test_the_model_is_what_the_report_says(two):
    X, y = draw(300, 2, 0)
    X_test, y_test = draw(200, 2, 1)
    problem = LinearProblem(X, np.where(y == 4, 1, -1), two["model"]["C"], bias="regularised")
    assert two["model"]["relative_gap"] <= 1e-3
    best = solve(problem, "newton", stop=Gap(1e-8))
    assert two["model"]["dual"] <= best.certificate.primal * (1 + 1e-9)
    assert two["model"]["primal"] >= best.certificate.dual * (1 - 1e-9)
    counts = np.array(two["errors"]["counts"])
    assert counts.sum(axis=1).tolist() == [(y_test == 3).sum(), (y_test == 4).sum()]
    error = np.mean((X_test @ best.w + best.b > 0) != (y_test == 4))
    assert two["model"]["error_test"] == pytest.approx(error, abs=0.02)
    assert 1 - np.trace(counts) / 200 == pytest.approx(two["model"]["error_test"])
    assert two["data"]["nnz"] == X.nnz
    assert two["data"]["class_rows"] == [(y == 3).sum(), (y == 4).sum()]
    (features,) = two["features"]
    assert len(features["names"]) == min(FEATURES, len(HOSTILE))
    for name, weight in zip(features["names"], features["weight"], strict=True):
        assert weight == pytest.approx(best.w[HOSTILE.index(name)], abs=0.05)
    for series in two["margins"]["series"]:
        assert sum(series["share"]) == pytest.approx(1)
    below = two["margins"]["below_0"]
    assert below["test rows"] == pytest.approx(error, abs=0.02)


def test_the_errors_over_C_are_those_of_models_fitted_without_the_fold(two):
    from bridle.study.report import _folds

    X, y = draw(300, 2, 0)
    codes = (y == 4).astype(int)
    fold = _folds(codes, 3, 0)
    assert all(abs((codes[fold == f] == 1).sum() - codes.sum() / 3) < 1.01 for f in range(3))
    path = two["path"]
    assert path["complete"]
    assert max(path["gap"]) <= 1e-2
    assert path["error"][path["C"].index(path["chosen"])] == min(path["error"])
    for j in (0, len(path["C"]) // 2, len(path["C"]) - 1):
        errors = []
        for f in range(3):
            kept = fold != f
            fitted = solve(
                LinearProblem(X[kept], 2.0 * codes[kept] - 1, path["C"][j], bias="regularised")
            )
            errors.append(np.mean((X[~kept] @ fitted.w + fitted.b > 0) != codes[~kept]))
        assert path["error"][j] == pytest.approx(np.mean(errors), abs=0.03)


def test_several_classes_without_test_rows():
    X, y = draw(240, 3, 2)
    report = quick(X, y, folds=4)
    assert [f["class"] for f in report["features"]] == ["3", "4", "5"]
    counts = np.array(report["errors"]["counts"])
    assert counts.sum() == 240  # every row was held out once
    assert report["errors"]["error"] == pytest.approx(min(report["path"]["error"]))
    assert report["model"]["error_test"] is None
    assert 0 < report["errors"]["error"] < 0.4


def test_a_class_of_one_row_and_dense_rows():
    X, y = draw(60, 2, 3)
    y[0] = 9.0
    report = quick(X.toarray(), y)
    assert report["data"]["class_rows"][-1] == 1
    json.dumps(report, allow_nan=False)


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    t = X @ [3.0, -1.0, 0.0] + 5.0 + rng.standard_t(3, size=400)
    given = {"test": (X[300:], t[300:]), "feature_names": ["up", "down", "neither"]}
    made = make_report(
        X[:300], t[:300], loss="huber", bias="free", solvers=["dcd", "newton"], max_seconds=1e6,
        **given,
    )  # fmt: skip
    return X, t, made


def test_a_report_of_numbers(numbers):
    X, t, made = numbers
    C = made["model"]["C"]
    best = solve(LinearProblem(X[:300], t[:300], C, loss="huber", bias="free"), stop=Gap(1e-8))
    residual = X[300:] @ best.w + best.b - t[300:]
    found = made["residuals"]["measures"]["test rows"]
    assert found["mean_absolute_error"] == pytest.approx(np.abs(residual).mean(), rel=1e-2)
    assert made["model"]["error_test"] == pytest.approx(
        np.where(abs(residual) <= 1, residual**2 / 2, abs(residual) - 0.5).mean(), rel=1e-2
    )
    path = made["path"]
    assert path["error"][path["C"].index(path["chosen"])] == min(path["error"])
    (features,) = made["features"]
    assert features["names"][:2] == ["up", "down"]
    dots = made["residuals"]
    assert len(dots["said"]) == len(dots["residual"]) == 100
    assert np.array(dots["said"]) - dots["residual"] == pytest.approx(t[300:])
    assert [run["status"] for run in made["comparison"]["runs"]] == ["converged"] * 2
    json.dumps(made, allow_nan=False)


def test_a_report_of_numbers_without_test_rows(tmp_path):
    X = draw(1200, 2, 0)[0]
    write_svmlight(tmp_path / "d", X, np.arange(1200) % 7 + X.toarray()[:, 0])
    ran = CliRunner().invoke(
        main,
        ["report", str(tmp_path / "d"), "-o", str(tmp_path / "p.html"), "--solvers", "dcd",
         "--loss", "epsilon_insensitive", "--max-seconds", "1e6"],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert "mean absolute error" in ran.stdout
    text = re.search(r'id="report">(.*?)</script>', (tmp_path / "p.html").read_text(), re.DOTALL)
    made = json.loads(text.group(1))
    assert len(made["residuals"]["said"]) == 800
    assert made["residuals"]["of"] == 1200
    assert made["model"]["error_test"] is None


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
def test_in_a_browser_residuals_are_drawn(numbers, tmp_path):
    _, _, made = numbers
    write_report(tmp_path / "page.html", made)
    dom = dumped(tmp_path / "page.html", tmp_path)
    assert 'data-drawn="yes"' in dom
    assert '<div id="errors" role="alert"></div>' in dom
    visible = dom[: dom.index('id="report"')]
    assert len(re.findall(r'<svg[^>]*tabindex="0"', visible)) == 6
    assert visible.count('fill-opacity="0.55"') == 100
    assert "The residuals" in visible
    assert "Errors by class" not in visible


def test_what_cannot_be_reported():
    with pytest.raises(ValueError, match="no report of one class"):
        make_report(np.ones((5, 1)), np.ones(5), loss="one_class", bias="free")
    X, y = draw(30, 2, 0)
    with pytest.raises(ValueError, match="nothing to learn"):
        quick(X, np.ones(30))
    with pytest.raises(ValueError, match="2 names for 8 features"):
        quick(X, y, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="label 7, which the training rows have not"):
        quick(X, y, test=(X, np.full(30, 7.0)))
    with pytest.raises(ValueError, match=r"folds must be in 2\.\.30"):
        quick(X, y, folds=31)


def test_the_page_is_one_file_and_its_json_is_the_report(two):
    page = render(two)
    text = re.search(r'id="report">(.*?)</script>', page, re.DOTALL).group(1)
    assert not set("<>&") & set(text)
    assert json.loads(text) == two
    assert page.count("<script") == 2
    links = re.findall(r"https?://[^\s\"']+", page)
    assert set(links) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", page)


def test_writing_is_all_or_nothing(two, tmp_path):
    target = tmp_path / "page.html"
    target.write_text("old")
    with pytest.raises(ValueError):
        write_report(target, two | {"title": float("nan")})
    assert target.read_text() == "old"
    write_report(target, two)
    assert target.read_text(encoding="utf-8") == render(two)
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_the_command(tmp_path):
    X, y = make_corpus(400, seed=0)
    write_svmlight(tmp_path / "train", X[:300], y[:300])
    write_svmlight(tmp_path / "test", X[300:], y[300:])
    page = tmp_path / "page.html"
    arguments = ["report", str(tmp_path / "train"), "--test", str(tmp_path / "test"), "-o",
                 str(page), "--solvers", "dcd,sgd-s", "--max-seconds", "1e6"]  # fmt: skip
    ran = CliRunner().invoke(main, [*arguments, "--json"])
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.stdout)
    assert said["rows"] == 300
    assert said["relative_gap"] <= 1e-3
    text = re.search(r'id="report">(.*?)</script>', page.read_text(), re.DOTALL).group(1)
    assert json.loads(text)["model"]["error_test"] == said["error_test"]
    (tmp_path / "names").write_text("one\n")
    ran = CliRunner().invoke(main, [*arguments, "--names", str(tmp_path / "names")])
    assert ran.exit_code == 2
    assert "has 1 names" in ran.stderr


def dumped(path, tmp_path) -> str:
    """The document as a browser has it once the page's script has run."""
    ran = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}",
         "--virtual-time-budget=5000", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in ran.stderr, ran.stderr
    return ran.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
def test_in_a_browser_the_page_shows_the_numbers_and_runs_nothing_hostile(two, tmp_path):
    write_report(tmp_path / "page.html", two)
    dom = dumped(tmp_path / "page.html", tmp_path)
    assert 'data-drawn="yes"' in dom
    assert '<div id="errors" role="alert"></div>' in dom
    visible = dom[: dom.index('id="report"')]
    assert len(re.findall(r'<svg[^>]*tabindex="0"', visible)) == 5
    shown = {html.unescape(t) for t in re.findall(r"<bdi>(.*?)</bdi>", visible, re.DOTALL)}
    for name in HOSTILE:
        assert name.replace("\0", "\ufffd") in {t.replace("\0", "\ufffd") for t in shown}
    assert "<title>bridle: &lt;/script&gt;" in dom
    assert "<img" not in visible
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", visible)
    assert f"{100 * two['model']['error_test']:.2f} %" in cells
    for count in np.ravel(two["errors"]["counts"]):
        assert str(count) in cells
    for run in two["comparison"]["runs"]:
        assert f"{100 * run['error_test']:.2f} %" in cells
    for error in two["path"]["error"]:
        assert any(abs(float(c[:-2]) - 100 * error) < 0.0051 for c in cells if c.endswith(" %"))


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)")
def test_in_a_browser_keys_and_buttons_work_and_faults_are_shown(two, tmp_path):
    """Presses every button and an arrow key in every chart; then makes a fault on purpose."""
    probe = """<script>
    for (const b of document.querySelectorAll("button")) { b.click(); b.click(); b.click(); }
    const svgs = document.querySelectorAll("svg[tabindex]");
    for (const s of svgs) for (const key of ["ArrowRight", "ArrowRight", "ArrowDown"])
      s.dispatchEvent(new KeyboardEvent("keydown", { key }));
    document.body.dataset.said = [...document.querySelectorAll(".says")].map((s) => s.textContent)
      .join("|");
    document.body.dataset.faults = document.getElementById("errors").childElementCount;
    setTimeout(() => { nosuchthing(); });
    </script></body>"""
    page = tmp_path / "page.html"
    page.write_text(render(two).replace("</body>", probe), encoding="utf-8")
    ran = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
         page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    body = re.search(r"<body[^>]*>", ran.stdout).group(0)
    assert 'data-faults="0"' in body
    said = re.search(r'data-said="([^"]*)"', body).group(1).split("|")
    assert len(said) == 5
    assert all("Hover" not in text and ": " in text for text in said)
    assert "nosuchthing is not defined" in ran.stdout[ran.stdout.index('<div id="errors"') :][:200]
