"""Every code block of the README and of the documentation runs, page by page, from top to bottom.

Python blocks share the page's names. Of shell blocks (sh, and the lines after `$` of console) those
lines run that call bridle. The files that the pages speak of lie in the working directory.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import bridle
import numpy as np
import pytest
from bridle.data import make_corpus, write_svmlight

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs").is_dir():
    pytest.skip("needs the source tree", allow_module_level=True)
pytest.importorskip("sybil")
from sybil import Sybil  # noqa: E402
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def run_shell(example):
    for line in example.parsed.splitlines():
        command = line.removeprefix("$ ") if example.parsed.startswith("$ ") else line
        if command == line and example.parsed.startswith("$ "):
            continue  # what was printed
        if command.startswith("bridle "):
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                ["bash", "-c", command], env=os.environ | {"PATH": path}, capture_output=True,
                text=True, check=False, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


BLOCKS = Sybil(
    [
        PythonCodeBlockParser(),
        CodeBlockParser("sh", run_shell),
        CodeBlockParser("console", run_shell),
        SkipParser(),
    ]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What the pages call train.svm and so on."""
    folder = tmp_path_factory.mktemp("docs")
    X, y = make_corpus(3000, n_features=5000, seed=0)
    parts = {"train": slice(0, 2000), "test": slice(2000, 3000)}
    for name, rows in (parts | {"news": parts["train"], "news.test": parts["test"]}).items():
        write_svmlight(folder / f"{name}.svm", X[rows], y[rows])
    other = bridle.LinearSVC(C=0.5).fit(X[parts["train"]], y[parts["train"]].astype(int))
    bridle.export_model(folder / "theirs.liblinear", other)
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
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    blocks = BLOCKS.parse(page)
    X, y = bridle.data.read_svmlight("train.svm")
    blocks.namespace.update(X=X, y=y)  # the reader's own, as everywhere in scikit-learn
    for example in blocks.examples():
        example.evaluate()


def reference():
    found = importlib.util.spec_from_file_location("reference", ROOT / "docs/_ext/reference.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_public_name_is_in_the_reference(tmp_path):
    reference().write_reference(tmp_path)
    pages = "".join(p.read_text(encoding="utf-8") for p in (tmp_path / "api").glob("*.rst"))
    for name, home in bridle._HOME.items():
        entries = {f"{kind}:: {module}.{name}\n" for kind in ("autoclass", "autofunction")
                   for module in ("bridle", home)}  # fmt: skip
        assert sum(pages.count(entry) for entry in entries) == 1, name


def test_docstrings_become_what_they_say():
    lines = [
        "Steps of `eta`, |w| <= 1 and a_i*b.", "",
        "    min_w |w|^2", "", "batch: rows. rate: of `w`s.", "", "Parameters", "----------",
        "C : a weight,", "    positive.",
    ]  # fmt: skip
    module = reference()
    split = module._split(lines, {"batch", "rate"})
    text = "\n".join(module._restructured(split, {"batch", "rate"}))
    assert r"Steps of ``eta``, \|w\| <= 1 and a\_i\*b." in text
    assert "::\n\n    min_w |w|^2" in text
    assert r"- ``rate``: of ``w``\ s." in text
    assert ".. rubric:: Parameters" in text
    assert "- ``C``: a weight,\n  positive." in text
