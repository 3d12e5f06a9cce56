"""What the system refuses: threads, memory, room on a disk; and signals that end a process.

Each fault is made to happen, at a place that is the same in every run: by a function that fails, a
limit on the process, or a signal that the process sends to itself.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import bridle
import numpy as np
import pytest
from bridle.cli import main
from bridle.data import (
    ArrowError,
    open_arrow,
    read_arrow,
    read_svmlight,
    write_arrow,
    write_npz,
    write_svmlight,
)
from bridle.data.convert import svmlight_to_arrow
from bridle.data.sequences import read_template
from bridle.exchange import export_model
from bridle.files.atomic import replacing
from bridle.files.container import read_container, write_container
from bridle.matrix.threads import Threads, check_threads
from bridle.models.storage import load_model, save_model
from bridle.rows.disk.memory import MemoryPlan
from bridle.rows.disk.ranges import DiskRows
from bridle.structured import StructuredProblem
from click.testing import CliRunner
from scipy.sparse import random as random_sparse

from structured_cases import chain_data

HANGING = 300  # seconds: only a process that waits for ever takes as long


def draw(n_classes: int, n_rows: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(n_classes)
    X = random_sparse(n_rows, 30, 0.3, format="csr", random_state=1)
    planes = rng.normal(size=(30, n_classes))
    return X, np.argmax(X @ planes + 0.1 * rng.normal(size=(n_rows, n_classes)), axis=1) + 1.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("faults")
    X, y = draw(2)
    write_svmlight(home / "two.svm", X, y)
    write_svmlight(home / "ranked.svm", X, y - 1, qid=np.arange(len(y)) // 10)
    write_svmlight(home / "four.svm", *draw(4))
    words = [f"w{k % 17} {'AB'[k % 3 == 0]}" + "\n" * (k % 7 == 6) for k in range(300)]
    (home / "tagged.txt").write_text("\n".join(words) + "\n")
    return home


def python(code: str, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANGING, check=False, **options
    )


# Threads


@pytest.fixture(params=[0, 1, 2])
def few_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives so many threads at a time, and then says what it says."""
    start = threading.Thread.start
    mine: list[threading.Thread] = []

    def refusing(thread: threading.Thread) -> None:
        mine[:] = [other for other in mine if other.is_alive()]
        if len(mine) >= request.param:
            raise RuntimeError("can't start new thread")
        mine.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refusing)


def test_work_is_done_in_order_by_as_many_threads_as_there_are(few_threads: None) -> None:
    with Threads(4) as pool:
        assert list(pool.map(lambda k: k * k, range(50))) == [k * k for k in range(50)]
        assert pool.submit(sum, [1, 2]).result() == 3
        failed = pool.submit(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failed.result()


def fits(X: Any, y: Any, folder: Path, tmp_path: Path) -> list[Any]:
    """Everything that starts threads in Python."""
    several = bridle.LinearSVC(n_threads=4, tol=1e-6).fit(X, y)
    chosen = bridle.LinearSVCCV(Cs=3, cv=2, n_threads=4).fit(X, y)
    path = tmp_path / "rows.arrow"
    svmlight_to_arrow(folder / "four.svm", path, block_bytes=1 << 10)
    on_disk = DiskRows(open_arrow(path), memory=1 << 40)
    on_disk.plan = MemoryPlan(False, 3, int(on_disk.sizes.max()), 0, False)  # read ahead
    chains = StructuredProblem(*chain_data(), n_threads=4)
    return [
        several.coef_, chosen.coef_, path.read_bytes(), on_disk.combine(np.ones(len(y))),
        bridle.solve(chains, "one-slack").w,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def expected(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return fits(*draw(4), folder, tmp_path_factory.mktemp("expected"))


def test_fewer_threads_give_the_same_results(
    folder: Path, tmp_path: Path, expected: list[Any], few_threads: None
) -> None:
    for found, known in zip(fits(*draw(4), folder, tmp_path), expected, strict=True):
        np.testing.assert_array_equal(found, known)


def test_an_error_ends_the_other_problems(few_threads: None) -> None:
    """Without threads, too: what nobody will see is not solved to its end, which is far away."""
    X, y = draw(4)
    first = iter([ZeroDivisionError])

    def watch(record: Any) -> None:
        for error in first:
            raise error

    # Of the others, no run would end by itself.
    with pytest.raises(ZeroDivisionError):
        bridle.LinearSVC(
            solver="sgd", n_threads=4, tol=1e-300, max_iter=10**12, callback=watch
        ).fit(X, y)


# Address space for the program, and not for another thread: its stack alone is larger than that.
NO_ROOM_FOR_THREADS = """
import resource, sys, threading
import numpy as np
import bridle, bridle.estimators, scipy.sparse
from bridle.data import read_svmlight
bridle.LinearSVC, bridle.SVC
from threadpoolctl import threadpool_info
threadpool_info()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
if sys.argv[2] == "limited":
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), used + (1 << 28)))
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        pass
    else:
        sys.exit("a thread was started")
X, y = read_svmlight(sys.argv[1], n_threads=4)
model = bridle.LinearSVC(n_threads=4, tol=1e-6).fit(X, y)
kernel = bridle.SVC(tol=1e-6).fit(X[:100], y[:100])
scores = kernel.decision_function(X)
print(model.coef_.tolist(), scores.tolist())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages as Linux does")
def test_a_process_that_may_not_start_threads_works_alone(folder: Path) -> None:
    """The compiled kernels as well as the classes that are fitted side by side."""
    stack = 1 << 30
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard != resource.RLIM_INFINITY and hard < stack:
        pytest.skip("the stacks of threads may not be made large here")
    options = {
        "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_STACK, (stack, hard)),
        "env": os.environ | {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    }
    alone = python(NO_ROOM_FOR_THREADS, folder / "four.svm", "limited", **options)
    assert (alone.returncode, alone.stderr) == (0, "")
    many = python(NO_ROOM_FOR_THREADS, folder / "four.svm", "free", env=options["env"])
    assert alone.stdout == many.stdout


# Memory

OUT_OF_MEMORY = """
import resource, sys
from bridle.data import read_svmlight
read_svmlight(sys.argv[1], n_threads=1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
room = used + (1 << 27)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
text = "1 " + " ".join(f"{j}:1" for j in range(1, 200)) + "\\n"
with open(sys.argv[2], "w") as file:
    file.writelines(text for _ in range(60_000))
try:
    read_svmlight(sys.argv[2], n_threads=4)
except MemoryError:
    print("MemoryError")
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts pages as Linux does")
def test_memory_that_a_thread_lacks_is_a_memory_error(folder: Path, tmp_path: Path) -> None:
    """12 million entries need 96 MB beside the 65 of the mapped file: 128 are left."""
    told = python(OUT_OF_MEMORY, folder / "two.svm", tmp_path / "wide.svm")
    assert (told.returncode, told.stdout, told.stderr) == (0, "MemoryError\n", "")


# Files


def writers(X: Any, y: Any, model: Any, saved: Any) -> dict[str, Any]:
    """name -> a function that writes to a path."""
    from bridle.study.plots import save_convergence
    from bridle.study.report import write_report

    return {
        "model": lambda path: save_model(path, model),
        "svmlight": lambda path: write_svmlight(path, X, y),
        "npz": lambda path: write_npz(path, X, y),
        "arrow": lambda path: write_arrow(path, X, y),
        "exported": lambda path: export_model(path, model, "liblinear"),
        "report": lambda path: write_report(path, {"a": 1}),
        "picture.png": lambda path: save_convergence(path, {"dcd": saved}, goal=1e-3, title=""),
    }


@pytest.fixture(scope="module")
def fitted() -> Any:
    return bridle.LinearSVC(tol=1e-4).fit(*draw(2))


# Python 3.11 would write files of bytecode that end at the limit, and believe them later.
NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}

NAMES = ("model", "svmlight", "npz", "arrow", "exported", "report", "picture.png")


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_leaves_the_old_file(
    name: str, fitted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may write 100 bytes to a file: the error has its name, and the old one stays."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    target = tmp_path / name
    target.write_bytes(b"old")
    write = writers(*draw(2), fitted.to_model(), fitted.trace_)[name]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            write(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == os.fspath(target)
    assert caught.value.errno == errno.EFBIG
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert target.read_bytes() == b"old"
    write(target)
    assert target.read_bytes() != b"old"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_may_say_so_late(
    step: str, fitted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), full)
    (tmp_path / "m").write_bytes(b"old")
    with pytest.raises(OSError) as caught:
        save_model(tmp_path / "m", fitted.to_model())
    assert caught.value.filename == os.fspath(tmp_path / "m")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a system that says so, since a superuser may write everywhere."""

    def refused(path: Any, *arguments: Any) -> None:
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))

    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(OSError) as caught, replacing(tmp_path / "m"):
        pass
    monkeypatch.undo()
    assert caught.value.filename == os.fspath(tmp_path / "m")
    assert not list(tmp_path.iterdir())


# The command line, in a process of its own that gets SIGTERM at a certificate, while it reads, or
# while it writes.
BRIDLE = [sys.executable, "-m", "bridle.cli"]
RUN = """
import os, signal, sys
from bridle.cli import main
def now(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
def before(module, name):
    plain = getattr(module, name)
    def spied(*arguments, **options):
        now()
        return plain(*arguments, **options)
    setattr(module, name, spied)
when = sys.argv.pop(1)
if when == "solving":
    from bridle.objective.certificate import Trace
    before(Trace, "append")
elif when == "writing":
    before(os, "fsync")
elif when == "reading":
    import bridle.data.reading
    before(bridle.data.reading, "read_arrays")
main(prog_name="bridle")
"""

LONG = ["--gap", "1e-13", "--max-epochs", "1e12"]
TRAININGS = {
    "two": ["train", "two.svm", "--solver", "pegasos", *LONG],
    "four": ["train", "four.svm", "--solver", "pegasos", "--threads", "3", *LONG],
    "rank": ["rank", "train", "ranked.svm", *LONG],
    "tag": ["tag", "train", "tagged.txt", *LONG],
}


def line_of(folder: Path, words: list[str], target: Path) -> list[str]:
    at = 2 if words[0] in ("rank", "tag") else 1
    return [*words[:at], str(folder / words[at]), str(target), *words[at + 1 :]]


@pytest.mark.parametrize("name", TRAININGS)
def test_sigterm_writes_the_best_model(folder: Path, tmp_path: Path, name: str) -> None:
    told = python(RUN, "solving", *line_of(folder, TRAININGS[name], tmp_path / "m"))
    assert told.returncode == 143, told.stderr
    assert told.stderr == ""
    assert "by SIGTERM" in told.stdout
    assert "m" in [path.name for path in tmp_path.iterdir()]
    load_model(tmp_path / "m")


def test_sigterm_while_the_model_is_written(folder: Path, tmp_path: Path) -> None:
    """The gap was reached, and the exit code is that of the signal all the same."""
    told = python(RUN, "writing", "train", folder / "two.svm", tmp_path / "m")
    assert (told.returncode, told.stderr) == (143, "")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    load_model(tmp_path / "m")


def test_sigterm_before_there_is_anything_to_keep(folder: Path, tmp_path: Path) -> None:
    told = python(RUN, "reading", "train", folder / "two.svm", tmp_path / "m")
    assert (told.returncode, told.stdout, told.stderr) == (143, "", "")
    assert not list(tmp_path.iterdir())


def test_sigterm_on_a_conversion_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    told = python(RUN, "writing", "convert", folder / "two.svm", tmp_path / "rows.arrow")
    assert (told.returncode, told.stdout, told.stderr) == (143, "", "")
    assert not list(tmp_path.iterdir())


def test_sigterm_on_a_path_prints_what_is_certified(folder: Path) -> None:
    told = python(RUN, "solving", "path", folder / "two.svm", "--solver", "pegasos", "--gap", 1e-9)
    assert (told.returncode, told.stderr) == (143, "")
    assert "by SIGTERM" in told.stdout


@pytest.mark.parametrize("name", ["compare", "cross-validation"])
def test_sigterm_where_no_model_is_written(folder: Path, tmp_path: Path, name: str) -> None:
    words: list[Any] = ["compare", folder / "two.svm", "--picture", tmp_path / "p.png"]
    if name == "cross-validation":
        words = ["train", folder / "two.svm", "--folds", 3]
    told = python(RUN, "solving", *words)
    assert (told.returncode, told.stderr) == (143, "")
    assert not list(tmp_path.iterdir())


def test_sigterm_on_a_stream(folder: Path, tmp_path: Path) -> None:
    """Once it has told of its first rows, it waits for more of them."""
    run = subprocess.Popen(
        [*BRIDLE, "train", "-", tmp_path / "m", "--block", "100", "--classes", "1,2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert run.stdin is not None
    assert run.stderr is not None
    run.stdin.writelines((folder / "two.svm").read_bytes().splitlines(True)[:100])
    run.stdin.flush()
    assert b"100 rows" in run.stderr.readline()
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=HANGING) == 143
    run.stdin.close()
    run.stderr.close()
    assert run.stdout is not None
    run.stdout.close()
    assert np.any(load_model(tmp_path / "m").coef)


COMMANDS = {
    "model": ["train", "{two}", "{out}"],
    "trace": ["train", "{two}", "/dev/null", "--trace", "{out}.csv"],
    "checkpoint": ["train", "{two}", "/dev/null", "--checkpoint", "{out}"],
    "stream": ["train", "-", "{out}", "--classes", "1,2"],
    "predictions": ["predict", "{two}", "{model}", "{out}"],
    "converted": ["convert", "{two}", "{out}.arrow"],
    "report": ["report", "{two}", "-o", "{out}", "--max-seconds", "0.1"],
    "picture": ["path", "{two}", "--picture", "{out}.png"],
    "ranker": ["rank", "train", "{ranked}", "{out}"],
    "tagger": ["tag", "train", "{tagged}", "{out}"],
    "exported": ["export", "{model}", "{out}", "--format", "liblinear"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_told_in_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    """Exit code 2, the name of the file, and what was there before."""
    (tmp_path / "out").mkdir()
    model = tmp_path / "model"
    save_model(model, bridle.LinearSVC(tol=1e-3).fit(*draw(2)).to_model())
    where = {
        "two": folder / "two.svm", "ranked": folder / "ranked.svm",
        "tagged": folder / "tagged.txt", "model": model, "out": tmp_path / "out" / "file",
    }  # fmt: skip
    words = [word.format(**where) for word in COMMANDS[name]]
    target = Path(next(word for word in words if word.startswith(str(where["out"]))))
    before = {}
    if name != "checkpoint":  # an old one is not overwritten in any case
        target.write_bytes(b"old")
        before = {target.name: b"old"}
    with (folder / "two.svm").open("rb") as rows:
        told = subprocess.run(
            [*BRIDLE, *words], stdin=rows, capture_output=True, text=True, check=False,
            timeout=HANGING, env=os.environ | NO_BYTECODE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)),
        )  # fmt: skip
    assert told.returncode == 2, told.stderr
    assert told.stderr.splitlines()[-1] == f"bridle: {target}: File too large"
    assert "Traceback" not in told.stderr
    assert {path.name: path.read_bytes() for path in target.parent.iterdir()} == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["predict", "{two}", "{model}"], ["train", "{two}", "{model}"]])
def test_standard_output_that_is_full(folder: Path, tmp_path: Path, words: list[str]) -> None:
    model = tmp_path / "model"
    save_model(model, bridle.LinearSVC(tol=1e-3).fit(*draw(2)).to_model())
    words = [word.format(two=folder / "two.svm", model=model) for word in words]
    with open("/dev/full", "wb") as full:
        told = subprocess.run(
            [*BRIDLE, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert told.returncode == 2
    assert told.stderr == "bridle: standard output: No space left on device\n"


# What fuzzing has found on the command line


def test_a_ranker_takes_data_that_have_fewer_features(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "ranked.svm").read_text().splitlines()
    (tmp_path / "narrow.svm").write_text("".join(f"{' '.join(x.split()[:4])}\n" for x in lines))
    model = tmp_path / "m"
    for words in (
        ["rank", "train", folder / "ranked.svm", model, "--gap", "0.1"],
        ["rank", "eval", tmp_path / "narrow.svm", model],
        ["rank", "predict", tmp_path / "narrow.svm", model, tmp_path / "scores"],
    ):
        told = CliRunner().invoke(main, [str(word) for word in words])
        assert told.exit_code == 0, told.output
    assert len((tmp_path / "scores").read_text().split()) == len(lines)


def test_an_imported_kernel_model_is_not_certified(folder: Path, tmp_path: Path) -> None:
    export_model(tmp_path / "text", bridle.SVC().fit(*draw(2)), "svmlight")
    line = ["import", tmp_path / "text", tmp_path / "m", "-c", 1]
    assert CliRunner().invoke(main, list(map(str, line))).exit_code == 0
    told = CliRunner().invoke(main, [*map(str, line), "--data", str(folder / "two.svm")])
    assert told.exit_code == 2
    assert "kernel model, and --data certifies linear ones" in told.stderr


@pytest.mark.parametrize("n_batches", [1, 3])
def test_an_arrow_file_with_damaged_columns_is_refused(tmp_path: Path, n_batches: int) -> None:
    X, y = draw(2, 30)
    path = tmp_path / "rows.arrow"
    write_arrow(path, X, y, batch_bytes=(1 << 20) // (1 if n_batches == 1 else 1 << 10))
    rows = open_arrow(path)
    assert (rows.n_batches > 1) == (n_batches > 1)
    span = rows.columns_of(rows.n_batches - 1)
    rows.close()
    raw = bytearray(path.read_bytes())
    raw[span.position : span.position + 4] = (10**6).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(ArrowError, match=f"{path}: batch"):
        read_arrow(path)


def test_a_checkpoint_whose_squares_overflow_is_refused(tmp_path: Path) -> None:
    X, y = draw(2)
    problem, saved = bridle.LinearProblem(X, 2 * y - 3), bridle.Checkpoint(tmp_path / "c")
    bridle.solve(problem, "pegasos", stop=bridle.Epochs(2), checkpoint=saved)
    content = read_container(tmp_path / "c")
    content.arrays["w"] = np.full(30, 1e200)
    write_container(tmp_path / "c", content)
    with pytest.raises(bridle.CheckpointError, match="numbers that no run comes to"):
        bridle.solve(problem, "pegasos", checkpoint=bridle.Checkpoint(tmp_path / "c", resume=True))


def test_other_files_are_named_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("U00:%x[0;0]\n")
    with pytest.raises(ValueError, match=f"{tmp_path / 't'}: template line"):
        read_template(tmp_path / "t")


# Processes

FORKED = """
import multiprocessing, sys
import bridle
from bridle.data import read_svmlight
def fit(n_threads):
    X, y = read_svmlight(sys.argv[1], n_threads=n_threads)
    machine = bridle.SVC(tol=1e-4).fit(X[:100], y[:100])
    return bridle.LinearSVC(n_threads=n_threads).fit(X, y).coef_, machine.decision_function(X)
if __name__ == "__main__":
    before = fit(4)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map(fit, [1, 4, 4]):
            for one, other in zip(found, before):
                assert (one == other).all()
    for one, other in zip(fit(4), before):
        assert (one == other).all()
    print("done")
"""


def test_a_process_forks_after_threads_were_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(FORKED)
    told = subprocess.run(
        [sys.executable, tmp_path / "forks.py", folder / "four.svm"], capture_output=True,
        text=True, timeout=HANGING, check=False,
    )  # fmt: skip
    assert (told.returncode, told.stdout) == (0, "done\n"), told.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux does")
def test_a_process_keeps_its_threads_and_forks_without_them(folder: Path) -> None:
    """The pool stands, and no larger than was asked for; a fork finds it at rest, and ends it."""
    told = python(STANDING, folder / "four.svm", env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    assert (told.returncode, told.stdout) == (0, "[3, 3, 3, 0, 5]\n"), told.stderr


STANDING = """
import os, sys
import numpy as np
from bridle import _core
text = np.fromfile(sys.argv[1], np.uint8)
def after(n_threads):
    _core.text.read_svmlight(text, "it", True, None, False, None, n_threads, 64, False)
    return len(os.listdir("/proc/self/task")) - before
before = len(os.listdir("/proc/self/task"))
counts = [after(4), after(4), after(2)]
if (child := os.fork()) == 0:
    before = len(os.listdir("/proc/self/task"))
    os._exit(after(4))
assert os.waitpid(child, 0)[1] >> 8 == 3
counts.append(len(os.listdir("/proc/self/task")) - before)
print([*counts, after(6)])
"""


@pytest.mark.parametrize("said", ["0", "many", "-1", "1.5", "99999"])
def test_threads_of_the_environment(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDLE_THREADS", "3")
    assert check_threads(None) == 3
    assert check_threads(2) == 2
    monkeypatch.setenv("BRIDLE_THREADS", said)
    with pytest.raises(ValueError, match=f"BRIDLE_THREADS must be a number .* got '{said}'"):
        bridle.LinearSVC().fit(*draw(2))
    monkeypatch.setenv("BRIDLE_THREADS", " ")
    assert check_threads(None) >= 1


def test_the_reader_is_the_same_for_any_number_of_threads(folder: Path) -> None:
    one, many = (read_svmlight(folder / "four.svm", n_threads=n) for n in (1, 4))
    assert (one[0] != many[0]).nnz == 0
