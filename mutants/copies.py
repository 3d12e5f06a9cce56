"""Copies of the checkout in which bugs are planted, compiled and looked for.

The core is built once. A copy has that build's objects: after a change, only what includes the
changed file is compiled again, by the commands of the first build with the copy's path in them.
So a copy needs no build of its own, and is as it was once the objects are put back.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mutants.planted import Planted, PlantingError

MODULE, CORE_TESTS = "build/module", "build/core"
LINKED = re.compile(r"CXX_(?:EXECUTABLE|MODULE_LIBRARY)_LINKER__(.+)_Release$")
OBJECT = re.compile(r"CMakeFiles/([^/]+)\.dir/")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
MEMORY = 24 << 20  # KiB of addresses: a bug may ask for memory without end

# An editable installation would lead imports to the user's own tree.
SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]
"""


@dataclass(frozen=True)
class Run:
    """How a command ended: `code` is None if it ran out of time, and negative for a signal."""

    code: int | None
    output: str
    seconds: float

    @property
    def failure(self) -> str | None:
        """The first test that failed, or what happened instead; None if all is well."""
        if self.code == 0:
            return None
        if self.code is None:
            return f"hangs: no end after {self.seconds:.0f} s"
        if self.code < 0 or self.code >= 128:
            number = -self.code if self.code < 0 else self.code - 128
            return f"crashes: {signal.Signals(number).name}"
        named = FAILED.search(self.output)
        return named[1] if named else self.output.strip().splitlines()[-1][:100]


_running: set[subprocess.Popen[str]] = set()


def run(command: list[str], folder: Path, env: dict[str, str], limit: float | None = None) -> Run:
    """A command with its children, which go with it when its time is over."""
    limited = ["sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh", *command]
    began = time.perf_counter()
    process = subprocess.Popen(
        limited, cwd=folder, env=env, start_new_session=True, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    _running.add(process)
    try:
        output, _ = process.communicate(timeout=limit)
        code: int | None = process.returncode
    except BaseException as end:
        os.killpg(process.pid, signal.SIGKILL)
        output, code = process.communicate()[0], None
        if not isinstance(end, subprocess.TimeoutExpired):
            raise
    finally:
        _running.discard(process)
    return Run(code, output, time.perf_counter() - began)


def end_all() -> None:
    """Every command that is under way, with its children."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@dataclass(frozen=True)
class Unit:
    """A source file of a target, and how it is compiled."""

    target: str
    object: str  # within the folder of the build
    command: str
    files: frozenset[str]  # of the checkout, that it is made of


@dataclass
class Build:
    """A finished build: its units, and how its targets are linked."""

    folder: str
    units: list[Unit] = field(default_factory=list)
    links: dict[str, tuple[str, str]] = field(default_factory=dict)  # target: output, command

    @classmethod
    def of(cls, root: Path, folder: str, ninja: str) -> Build:
        """As ninja knows it."""

        def ask(*question: str) -> str:
            command = [ninja, "-C", str(root / folder), "-t", *question]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            return text.removeprefix(f"ninja: Entering directory `{root / folder}'\n")

        build = cls(folder)
        files: dict[str, frozenset[str]] = {}
        for block in ask("deps").split("\n\n"):
            head, *lines = block.splitlines() or [""]
            inside = {os.path.relpath(root / folder / line.strip(), root) for line in lines}
            files[head.partition(":")[0]] = frozenset(inside)
        for entry in json.loads((root / folder / "compile_commands.json").read_text()):
            output = os.path.relpath(Path(entry["directory"]) / entry["output"], root / folder)
            target = OBJECT.search(output)
            assert target is not None
            build.units.append(Unit(target[1], output, entry["command"], files[output]))
        for line in ask("targets", "all").splitlines():
            output, _, rule = line.partition(": ")
            if linked := LINKED.match(rule):
                build.links[linked[1]] = output, ask("commands", "-s", output).strip()
        return build

    def touched(self, file: str) -> list[Unit]:
        """Those that include the file."""
        return [unit for unit in self.units if file in unit.files]


class Copies:
    """The first copy, which is built, and what is needed to make more of it."""

    def __init__(self, root: Path, folder: Path, python: str) -> None:
        self.folder, self.python, self.root = folder, python, folder / "base"
        bin_folder = str(Path(python).parent)
        self.env = os.environ | {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1",
        }  # fmt: skip
        self._copy(root)
        self.builds: list[Build] = []

    def _copy(self, root: Path) -> None:
        """The checkout as it is, but for the builds, which know what has changed since."""
        self.root.mkdir(parents=True, exist_ok=True)
        for old in self.root.iterdir():
            if old.name != "build":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        files = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        for file in filter(None, files):
            if (root / file).exists():
                (self.root / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / file, self.root / file)
        (self.root / "build/site").mkdir(parents=True, exist_ok=True)
        (self.root / "build/site/sitecustomize.py").write_text(SITE)

    def build(self, jobs: int) -> None:
        """The C++ tests and the module."""
        version = re.search(r'^version = "(.+)"', (self.root / "pyproject.toml").read_text(), re.M)
        assert version is not None
        python = [f"-DPython_EXECUTABLE={self.python}", f"-DSKBUILD_PROJECT_VERSION={version[1]}"]
        for folder, target, options in (
            (CORE_TESTS, "all", ["-DBRIDLE_PYTHON=OFF"]), (MODULE, "_core", python)
        ):  # fmt: skip
            configure = ["cmake", "-S", ".", "-B", folder, "-G", "Ninja"]
            configure += ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options]
            if shutil.which("ccache"):
                configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
            self._must([*configure])
            self._must(["cmake", "--build", folder, "--target", target, "-j", str(jobs)])
            ninja = shutil.which("ninja", path=self.env["PATH"])
            assert ninja is not None
            self.builds.append(Build.of(self.root, folder, ninja))
        place_module(self.root)

    def _must(self, command: list[str]) -> None:
        done = run(command, self.root, self.env)
        if done.code != 0:
            raise PlantingError(f"{' '.join(command)} failed:\n{done.output[-3000:]}")

    def another(self, number: int) -> Copy:
        """A copy of the copy."""
        root = self.folder / f"copy-{number}"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(self.root, root)
        return Copy(root, self)


def place_module(root: Path) -> None:
    """The compiled module goes into the package."""
    for module in (root / MODULE).glob("_core*.so"):
        shutil.copy2(module, root / "src/bridle" / module.name)


class Copy:
    """One copy, in which one bug at a time is planted."""

    def __init__(self, root: Path, origin: Copies) -> None:
        self.root, self.origin = root, origin
        paths = [str(root / "build/site"), str(root / "src")]
        self.env = origin.env | {
            "PYTHONPATH": os.pathsep.join(paths), "CCACHE_BASEDIR": str(root),
        }  # fmt: skip

    @contextlib.contextmanager
    def planted(self, bug: Planted) -> Iterator[None]:
        """With the bug in it, not compiled yet; afterwards without."""
        file = self.root / bug.file
        text = file.read_text()
        file.write_text(bug.in_text(text))
        self._forget_bytecode(file)
        try:
            yield
        finally:
            file.write_text(text)
            self._forget_bytecode(file)
            self._put_back(bug.file)
            shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)

    def _forget_bytecode(self, file: Path) -> None:
        """Python would take a file of the same second and size for the same."""
        for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
            cached.unlink()

    def _put_back(self, file: str) -> None:
        for build in self.origin.builds:
            touched = build.touched(file)
            outputs = [build.links[t][0] for t in sorted({unit.target for unit in touched})]
            for output in [unit.object for unit in touched] + outputs:
                place = Path(build.folder) / output
                shutil.copy2(self.origin.root / place, self.root / place)
        if file.startswith("core/"):
            place_module(self.root)

    def compile(self, build: Build, file: str) -> dict[str, str]:
        """Every target of a build that includes the file; from its name to its output."""
        touched = build.touched(file)
        links = {unit.target: build.links[unit.target] for unit in touched}
        for command in [unit.command for unit in touched] + [c for _, c in links.values()]:
            here = command.replace(str(self.origin.root), str(self.root))
            done = run(["sh", "-c", here], self.root / build.folder, self.env)
            if done.code != 0:
                raise PlantingError(f"does not compile:\n{done.output[-2000:]}")
        return {target: output for target, (output, _) in links.items()}

    def core_tests(self, file: str, limit: float) -> str | None:
        """The first C++ test that fails among those that include the file."""
        build = self.origin.builds[0]
        for target, output in self.compile(build, file).items():
            folder = self.root / build.folder
            done = run([str(folder / output)], folder, self.env, limit)
            if done.code != 0:
                last = (done.output.strip().splitlines() or [""])[-1]
                said = done.failure if done.code is None or done.code < 0 else last[:200]
                return f"{target}.cpp: {said}".replace(f"{self.root}/", "")
        return None

    def compile_module(self, file: str) -> None:
        """The Python module with what is in the file now."""
        self.compile(self.origin.builds[1], file)
        place_module(self.root)

    def tests(self, files: tuple[str, ...], limit: float | None = None) -> Run:
        """The Python tests of these files, up to the first that fails."""
        command = [self.origin.python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        return run(command, self.root, self.env, limit)

    def check_imports(self) -> None:
        """PlantingError if Python finds the package elsewhere."""
        found = run([self.origin.python, "-c", "import bridle; print(bridle.__file__)"],
                    self.root, self.env)  # fmt: skip
        if not found.output.startswith(str(self.root)):
            raise PlantingError(f"the copy's own package is not imported: {found.output[-500:]}")
