"""What is shipped: one version, an sdist of what it should hold, the ABI that a wheel promises."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import bridle
import numpy as np
import pytest
from bridle.data import make_corpus

ROOT = Path(__file__).parents[1]
needs_source = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").is_file() or not (ROOT / "conda").is_dir(),
    reason="needs the source tree",
)


@needs_source
def test_one_version() -> None:
    """The literal of the package is the one that is installed, compiled, cited and packed."""
    assert version("bridle") == bridle.__version__ == bridle._core.version
    for name, pattern in {
        "CITATION.cff": r"^version: (\S+)$",
        "conda/recipe.yaml": r"^  version: \"(\S+)\"$",
    }.items():
        found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert found == [bridle.__version__], name


@needs_source
def test_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {"plot", "arrow", "parquet", "dask", "onnx", "qp", "all"} <= extras.keys()
    assert "version" in project["dynamic"]


@needs_source
def test_the_sdist_holds_the_sources_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core", reason="needs the build tools")
    code = f"import scikit_build_core.build as b; print(b.build_sdist({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as opened:
        held = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    made = re.compile(r"__pycache__|\.(so|pyd)$|src/bridle/_core/")
    kinds = ("src/bridle/**/*", "core/**/*.?pp", "tests/**/*.py")
    files = [path for kind in kinds for path in ROOT.glob(kind) if path.is_file()]
    wanted = {str(p.relative_to(ROOT)) for p in files if not made.search(p.as_posix())}
    loose = {"pyproject.toml", "CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md"}
    assert wanted | loose | {"CITATION.cff", "PKG-INFO"} <= held
    strange = re.compile(r"^(core|src/bridle|tests)/|^[\w.-]+$")
    assert not [name for name in held if not strange.match(name)]
    assert not [name for name in held if re.search(r"\.venv|__pycache__|\.so$|\.pyc$|^build", name)]
    assert archive.name == f"bridle-{bridle.__version__}.tar.gz"


def test_the_stable_abi_from_3_12_on() -> None:
    """What the wheel's name promises: without CMake's component it would be dropped in silence."""
    name = Path(bridle._core.__file__).name
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    stable = sys.version_info >= (3, 12) and not free_threaded
    assert (".abi3." in name or sys.platform == "win32") == stable
    if free_threaded:
        assert not sys._is_gil_enabled()  # the module says that it does without


@pytest.mark.skipif(sys.version_info < (3, 12), reason="interpreters are Python's from 3.12 on")
def test_a_subinterpreter_is_told_that_it_cannot_have_the_module() -> None:
    """As NumPy says, too; in a process of its own, for a crash to end."""
    load = f"""if True:
        from importlib import machinery, util
        loader = machinery.ExtensionFileLoader("_core", {bridle._core.__file__!r})
        try:
            util.module_from_spec(util.spec_from_loader("_core", loader))
        except ImportError as error:
            print(error, flush=True)"""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    code = f"import {name} as i; i.run_string(i.create(), {load!r})"
    run = [sys.executable, "-c", code]
    ran = subprocess.run(run, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "does not support loading in subinterpreters" in ran.stdout


def test_fits_from_many_threads_are_the_fits_of_one() -> None:
    X, y = make_corpus(600, seed=3)

    def fitted(seed: int) -> np.ndarray:
        model = bridle.LinearSVC(C=0.1, loss="hinge", random_state=seed, n_threads=2)
        return model.fit(X, y).coef_

    alone = [fitted(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(fitted, range(8)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
