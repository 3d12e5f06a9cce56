"""Checkpoints: runs that are killed go on from them, and what they then claim is true."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bridle import (
    Checkpoint,
    CheckpointError,
    Epochs,
    Gap,
    LinearProblem,
    ModelError,
    StreamedProblem,
    load_model,
    solve,
)
from bridle.cli import main
from bridle.data import make_corpus, write_arrow, write_svmlight
from click.testing import CliRunner


@pytest.fixture(scope="module")
def data() -> Any:
    return make_corpus(3000, seed=4)


@pytest.fixture(scope="module")
def path(data: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.arrow"
    write_arrow(path, *data, batch_bytes=1 << 18)
    return path


def saving(path: Path, *, resume: bool = False) -> Checkpoint:
    return Checkpoint(path, every=1e-9, resume=resume)


@pytest.mark.parametrize("solver", ["dcd", "auto", "pegasos", "newton", "interior-point"])
def test_a_run_goes_on_from_where_it_was(data: Any, tmp_path: Path, solver: str) -> None:
    X, y = data
    problem = LinearProblem(X[:200], y[:200], 0.5, bias="regularised")
    first = solve(problem, solver, stop=Epochs(3), checkpoint=saving(tmp_path / "c"))
    saved = load_model(tmp_path / "c")
    assert (saved.epoch, saved.step) == (first.epochs, first.steps)
    again = solve(
        problem, solver, stop=Gap(1e-3) | Epochs(60), checkpoint=saving(tmp_path / "c", resume=True)
    )
    assert problem.primal(again.w, again.b) == pytest.approx(again.certificate.primal)
    assert problem.dual(again.alpha) == pytest.approx(again.certificate.dual)
    assert again.certificate.relative_gap <= max(1e-3, 1.1 * first.certificate.relative_gap)
    assert load_model(tmp_path / "c").epoch == pytest.approx(first.epochs + again.epochs)


def test_nothing_is_lost_of_dual_ascent(path: Path, tmp_path: Path) -> None:
    problem = StreamedProblem(path, 1.0, bias="regularised")
    first = solve(problem, stop=Epochs(5), checkpoint=saving(tmp_path / "c"))
    again = solve(problem, stop=Epochs(1), checkpoint=saving(tmp_path / "c", resume=True))
    assert again.certificate.dual >= first.certificate.dual


def test_memory_and_disk_go_on_from_each_other(path: Path, data: Any, tmp_path: Path) -> None:
    problems = [
        LinearProblem(*data, 1.0, bias="regularised"),
        StreamedProblem(path, 1.0, bias="regularised"),
    ]
    assert problems[0].identity() == problems[1].identity()
    for k in range(4):
        solution = solve(
            problems[k % 2], "dcd", stop=Epochs(4),
            checkpoint=saving(tmp_path / "c", resume=k > 0),
        )  # fmt: skip
    assert solution.certificate.relative_gap < 1e-3
    assert load_model(tmp_path / "c").epoch >= 16


def test_another_problem_is_refused(data: Any, tmp_path: Path) -> None:
    X, y = data
    kept = LinearProblem(X, y, 1.0)
    solve(kept, "dcd", stop=Epochs(1), checkpoint=saving(tmp_path / "c"))
    weights = np.linspace(1, 2, len(y))
    others = {
        "data": LinearProblem(X, -y, 1.0),
        "rows": LinearProblem(X[:-1], y[:-1], 1.0),
        "C": LinearProblem(X, y, 2.0),
        "loss": LinearProblem(X, y, 1.0, loss="squared_hinge"),
        "bias": LinearProblem(X, y, 1.0, bias="regularised"),
        "row weights": LinearProblem(X, y, 1.0, sample_weight=weights),
    }
    for name, problem in others.items():
        with pytest.raises(CheckpointError, match=rf"another problem: its (data|{name}) was"):
            solve(problem, checkpoint=saving(tmp_path / "c", resume=True))
    with pytest.raises(CheckpointError, match="exists already"):
        solve(kept, checkpoint=saving(tmp_path / "c"))
    raw = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(raw[:-100])
    with pytest.raises(ModelError, match="damaged"):
        solve(kept, checkpoint=saving(tmp_path / "c", resume=True))
    with pytest.raises(ValueError, match="every must be"):
        Checkpoint("c", every=0)


def test_checkpoints_are_for_linear_problems(data: Any, tmp_path: Path) -> None:
    from bridle import KernelProblem

    X, y = data
    with pytest.raises(ValueError, match="not for this KernelProblem"):
        solve(KernelProblem(X[:50], y[:50]), checkpoint=saving(tmp_path / "c"))


def test_the_interval_is_kept(data: Any, tmp_path: Path) -> None:
    seen = []

    def look(record: Any) -> None:
        seen.append((tmp_path / "c").exists())

    problem = LinearProblem(*data, 1.0)
    found = solve(
        problem, "dcd", stop=Epochs(3), callbacks=[look],
        checkpoint=Checkpoint(tmp_path / "c", every=1000),
    )  # fmt: skip
    assert not any(seen)
    assert load_model(tmp_path / "c").epoch == found.epochs  # the end is always saved


def test_the_command_line(path: Path, data: Any, tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> Any:
        result = CliRunner().invoke(main, ["train", str(path), str(tmp_path / "m"), *arguments])
        assert result.exit_code == code, result.output
        return result

    saved = str(tmp_path / "c")
    run("--checkpoint", saved, "--max-epochs", "2", "--every", "0.001", code=3)
    assert "exists already" in run("--checkpoint", saved, code=2).stderr
    report = json.loads(run("--checkpoint", saved, "--resume", "--memory", "2G", "--json").stdout)
    assert report["relative_gap"] <= 1e-3
    assert "its C was 1.0" in run("--checkpoint", saved, "--resume", "-c", "2", code=2).stderr
    assert "only a run with --checkpoint has --resume" in run("--resume", code=2).stderr
    assert "too few" in run("--memory", "1M", code=2).stderr
    assert "no size" in run("--memory", "much", code=2).stderr
    assert "hard margin" in run("--memory", "2G", "-c", "inf", code=2).stderr
    assert "needs all rows in memory" in run("--memory", "2G", "--solver", "newton", code=2).stderr
    text = tmp_path / "rows.svm"
    write_svmlight(text, *data)
    result = CliRunner().invoke(main, ["train", str(text), "--memory", "1G"])
    assert result.exit_code == 2
    assert "bridle convert" in result.stderr


def test_several_classes_have_a_file_each(data: Any, tmp_path: Path) -> None:
    X, y = data
    labels = np.where(y > 0, 2, np.arange(len(y)) % 2)
    write_arrow(tmp_path / "rows.arrow", X, labels)
    arguments = ["train", str(tmp_path / "rows.arrow"), str(tmp_path / "m"), "--json"]
    plain = CliRunner().invoke(main, arguments)
    streamed = CliRunner().invoke(
        main, [*arguments, "--memory", "2G", "--checkpoint", str(tmp_path / "c")]
    )
    assert plain.exit_code == streamed.exit_code == 0
    assert {p.name for p in tmp_path.glob("c*")} == {"c.0", "c.1", "c.2"}
    one, two = json.loads(plain.stdout), json.loads(streamed.stdout)
    assert two["primal"] == pytest.approx(one["primal"], rel=2e-3)
    assert two["error_train"] == pytest.approx(one["error_train"], abs=0.01)


def test_killed_trainers_lose_nothing(path: Path, data: Any, tmp_path: Path) -> None:
    saved, model = tmp_path / "c", tmp_path / "m"
    command = [
        sys.executable, "-m", "bridle.cli", "train", str(path), str(model), "--memory", "2G",
        "--checkpoint", str(saved), "--every", "0.001", "--resume", "--gap", "0", "--solver", "dcd",
        "--max-epochs", "100000",
    ]  # fmt: skip
    chance, epochs, dual = random.Random(0), 0.0, 0.0
    problem = LinearProblem(*data, 1.0, bias="regularised")
    for _ in range(6):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not saved.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5 + chance.random() * 0.5)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        found = load_model(saved)  # its checksum says that it is whole
        assert found.epoch >= epochs
        now = problem.dual(np.clip(found.alpha, 0, 1))
        assert now >= dual * (1 - 1e-6)
        epochs, dual = found.epoch, now
    assert epochs > 0
    report = json.loads(
        subprocess.run(
            [*command[:-6], "--gap", "1e-3", "--json"], capture_output=True, check=True
        ).stdout
    )
    fitted = load_model(model)
    assert problem.primal(fitted.coef[0], fitted.intercept[0]) == pytest.approx(report["primal"])
    assert report["relative_gap"] <= 1e-3
    assert not list(tmp_path.glob("m.*"))
