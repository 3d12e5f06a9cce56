"""Every code block of the README and of the documentation runs, page by page, from top to bottom.

Python blocks share the page's names. Of shell blocks (sh, and the lines after `$` of console) those
lines run that call bridle. The files that the pages speak of lie in the working directory.

What a page says is printed is compared with what is: comments on lines of their own right below a
statement that prints, and the lines below a command in a console block. Words must be equal;
numbers may differ by 0.1%, those with an exponent or below 0.01 (gaps) by a factor of 2, those
before a unit of time or memory, or below the word "seconds", by anything, since machines differ;
"..." stands for any text.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import bridle
import numpy as np
import pytest
from bridle.cli import main
from bridle.data import make_corpus, write_svmlight
from bridle.matrix.blas import one_blas_thread
from bridle.solvers import REGISTRY, solver_class
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("needs the source tree", allow_module_level=True)
pytest.importorskip("sybil")
from sybil import Sybil  # noqa: E402
from sybil.parsers.markdown import CodeBlockParser, SkipParser  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
UNIT = r" ?(?:s|ms|MB|GB|minutes)\b"


def check_printed(shown, printed):
    """What a page shows, against what a run has printed."""
    shown = shown.strip()
    parts, numbers = [], []
    for word in re.finditer(rf"\.\.\.|{NUMBER}|\s+|.", shown, re.S):
        if word[0] == "...":
            parts.append(".*?")
        elif word[0].isspace():
            parts.append(r"\s+")
        elif re.fullmatch(NUMBER, word[0]):
            parts.append(f"({NUMBER})")
            numbers.append(word)
        else:
            parts.append(re.escape(word[0]))
    found = re.fullmatch("".join(parts).replace(r"\s+.*?", r"\s*.*?"), printed.strip(), re.S)
    assert found, f"the page shows\n{shown}\nand the run printed\n{printed}"
    for told, true in zip(numbers, found.groups(), strict=True):
        if of_the_machine(shown, *told.span()):
            continue
        a, b = (float(number.replace(",", "")) for number in (told[0], true))
        gap = "e" in told[0] or abs(a) < 0.01
        near = abs(b) / 2 <= abs(a) <= 2 * abs(b) if gap else a == pytest.approx(b, rel=1e-3)
        assert near, f"the page shows {told[0]}, the run printed {true}:\n{shown}\n{printed}"


def of_the_machine(text, begin, end):
    """Whether a number stands before a unit, or in a column below the word "seconds"."""
    line = text.rfind("\n", 0, begin) + 1
    above = text[:line].splitlines()
    return bool(re.match(UNIT, text[end:])) or any(
        row[: end - line].endswith("seconds") for row in above
    )


def run_python(example):
    """Statement by statement, with what each prints compared with the comments below it."""
    code, lines = ast.parse(example.parsed), example.parsed.splitlines()
    for node in code.body:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            part = compile(ast.Module([node], []), example.path, "exec")
            exec(part, example.namespace)
        below = []
        for line in lines[node.end_lineno :]:
            if not line.startswith("#"):
                break
            below.append(line[2:])
        if below and printed.getvalue():
            check_printed("\n".join(below), printed.getvalue())


def run_command(command, shown=None):
    """By a shell where the line needs one; bridle alone in this process, which need not start."""
    words = shlex.split(command, comments=True)
    if words[0] == "bridle" and not set("|;<>&$*") & set("".join(words)):
        with one_blas_thread():  # as the command has it
            ran = CliRunner().invoke(main, words[1:], catch_exceptions=False)
        code, printed = ran.exit_code, ran.output
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], env=os.environ | {"PATH": path}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
        )  # fmt: skip
        code, printed = done.returncode, done.stdout
    assert code == 0, f"{command}\n{printed}"
    if shown:
        check_printed(shown, printed)


def run_shell(example):
    for line in example.parsed.splitlines():
        if line.startswith("bridle "):
            run_command(line)


def run_console(example):
    for part in re.split(r"^\$ ", example.parsed, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        if command.startswith(("bridle ", "head ")):
            run_command(command, shown)


BLOCKS = Sybil(
    [
        CodeBlockParser("python", run_python),
        CodeBlockParser("sh", run_shell),
        CodeBlockParser("console", run_console),
        SkipParser(),
    ]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What the pages call train.svm and so on."""
    folder = tmp_path_factory.mktemp("docs")
    X, y = make_corpus(25_000, seed=0)
    for name, rows in {"news": slice(0, 20_000), "news.test": slice(20_000, 25_000)}.items():
        write_svmlight(folder / f"{name}.svm", X[rows], y[rows])
    X, y = make_corpus(3000, n_features=5000, seed=0)
    parts = {"train": slice(0, 2000), "test": slice(2000, 3000)}
    for name, rows in parts.items():
        write_svmlight(folder / f"{name}.svm", X[rows], y[rows])
    other = bridle.LinearSVC(C=0.5).fit(X[parts["train"]], y[parts["train"]].astype(int))
    bridle.export_model(folder / "theirs.liblinear", other)
    (folder / "bad.svm").write_text("1 1:0.5 2:0.25\n-1 1:1 3:x\n")
    (folder / "train.svm.gz").write_bytes(gzip.compress((folder / "train.svm").read_bytes()))
    rng = np.random.default_rng(0)
    for name in ("letor.svm", "letor.test.svm"):
        D = rng.standard_normal((200, 10)).astype(np.float32)
        grade = np.clip(np.rint(D[:, 0] + rng.normal(scale=0.3, size=200)), 0, 2)
        write_svmlight(folder / name, D, grade, qid=np.repeat(np.arange(1, 21), 10))
    jobs, ages = rng.choice(["clerk", "cook"], 300), rng.integers(18, 80, 300)
    rich = np.where((jobs == "clerk") & (ages > 30), "high", "low")
    people = [f"{age},{job},{label}" for age, job, label in zip(ages, jobs, rich, strict=True)]
    (folder / "people.csv").write_text("\n".join(["age,job,income", *people]) + "\n")
    sentence = "the DT B-NP\ncat NN I-NP\nsleeps VBZ B-VP\n. . O\n\n"
    for name in ("chunks.txt", "chunks.test.txt"):
        text = sentence + sentence.replace("cat", "dog").replace("the", "a")
        (folder / name).write_text(text, encoding="utf-8")
    tree = "(S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog))))\n"
    for name in ("wsj.mrg", "wsj.23.mrg"):
        (folder / name).write_text(tree + tree.replace("cat", "bird"), encoding="utf-8")
    (folder / "sentences.txt").write_text("a bird sees the cat\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:sybil")
def test_the_code_blocks_run(page, files, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    for file in files.iterdir():
        if file.name in text or file.name == "train.svm":
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = BLOCKS.parse(page)
    X, y = bridle.data.read_svmlight("train.svm")
    blocks.namespace.update(X=X, y=y)  # the reader's own, as everywhere in scikit-learn
    for example in blocks.examples():
        example.evaluate()


def extension(name):
    with mock.patch.object(sys, "path", [str(ROOT / "docs/_ext"), *sys.path]):
        return importlib.import_module(name)


def test_the_table_of_losses_is_what_the_code_says():
    losses = extension("loss_table")
    assert losses.PAGE.read_text(encoding="utf-8") == losses.page()
    for name in bridle.objective.losses.LOSSES:
        assert f"| `{name}`" in losses.PAGE.read_text(encoding="utf-8")  # its formulas


def test_every_command_is_named_where_its_page_begins():
    page = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
    named = re.findall(r"`bridle (\w+)", page.partition("\n## ")[0])
    assert set(named) >= set(main.list_commands(None))


def test_who_refuses_a_free_bias():
    page = (ROOT / "docs/how-to-choose.md").read_text(encoding="utf-8")
    told = re.search(r"A \*free\* bias is refused, by name, by ([^.]+)\.", page)[1]
    X, y = np.eye(4), np.array([1, -1, 1, -1])

    def takers(bias):
        problem = bridle.LinearProblem(X, y, 1.0, bias=bias)
        kinds = {name: solver_class(name, problem.offers) for name in REGISTRY}
        return {name for name, kind in kinds.items() if kind.refusal(problem) is None}

    assert set(re.findall(r"`([\w-]+)`", told)) == takers("regularised") - takers("free")


def test_the_table_of_the_floors_is_what_the_code_says():
    floors = extension("floors")
    assert floors.PAGE.read_text(encoding="utf-8") == floors.page()


def test_every_public_name_is_in_the_reference(tmp_path):
    extension("names").write_reference(tmp_path)
    pages = "".join(p.read_text(encoding="utf-8") for p in (tmp_path / "api").glob("*.rst"))
    for name, home in bridle._HOME.items():
        entries = {f"{kind}:: {module}.{name}\n" for kind in ("autoclass", "autofunction")
                   for module in ("bridle", home)}  # fmt: skip
        assert sum(pages.count(entry) for entry in entries) == 1, name


def test_docstrings_become_what_they_say():
    lines = [
        "Steps of `eta`, |w| <= 1 and a_i*b.", "",
        "    w <- w + 1/2 sum_{i in A_t} eta_t z_i'w  if  w.z_i <= lam", "",
        "batch: rows. rate: (`w`) of `w`s.", "- one", "- two", "", "Parameters", "----------",
        "C : a weight,", "    positive.",
    ]  # fmt: skip
    module = extension("names")
    text = "\n".join(module._around_examples(lines, {"batch", "rate"}))
    assert r"Steps of ``eta``, \|w\| <= 1 and a\_i\*b." in text
    formula = (
        r"w \leftarrow  w + \tfrac{1}{2} \sum_{i \in A_{t}} \eta_{t} z_{i}^\top w "
        r"\quad \text{ if } \quad w \cdot z_{i} \le  \lambda "
    )
    assert f".. math::\n\n   {formula}\n" in text
    assert r"- ``rate``: (``w``) of ``w``\ s." in text
    assert "\n- one\n\n- two\n" in text
    assert ".. rubric:: Parameters" in text
    assert "- ``C``: a weight,\n  positive." in text
