"""Kill converters, trainers and workers at random moments, many times, and see what is left.

    python -m benchmarks.kills [--kills 100] [--only converter,trainer,worker] [--rows 60000]

Every kill is a SIGKILL, and only those count that hit work under way:

    converter   `bridle convert`, plain and --compact exact, overwrites a file again and again, and
                is killed at some moment after it began to write. Counts: it was not done (its
                temporary file is left).
                What is there must be the old file or the new one.
    trainer     `bridle train --checkpoint --resume`, in memory, from a file and from a compact one
                by turns, all with one checkpoint. Counts: this process had saved a checkpoint, and
                was still running. What is left must be a whole checkpoint that is no worse than the
                last one seen. After every few kills, or when there is nothing left to gain, a run
                that resumes must converge.
    worker      of a LocalCluster, while it holds a part and solve() is running. Counts: the process
                was alive. Up to three kills hit a run, which must converge nevertheless.

Every model and solution at the end of a run has its certificate recomputed from the data in NumPy:
the primal value from w, and the dual value from alpha. A worker that dies after the last
certificate takes alpha with it; then the claimed bound must lie below an optimum found elsewhere.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from bridle import DaskRows, DistributedProblem, Epochs, Gap, LinearProblem, load_model, solve
from bridle.data import make_corpus, read_arrow, write_arrow, write_svmlight

KINDS = ("converter", "trainer", "worker")
KILLS_A_RUN = {"trainer": 8, "worker": 3}
ATTEMPTS = 20  # give up after so many runs for each kill that is wanted
C = 1.0


def killed(command: list[str], seconds: float) -> bool:
    """Whether the process was still running when its time came."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL
    if process.returncode not in (0, 3):
        raise SystemExit(error.decode())
    return False


def attempts(n: int) -> range:
    """Runs to try, for n kills that hit."""
    return range(ATTEMPTS * n)


def primal_value(X: Any, y: Any, w: Any, b: float) -> float:
    """1/2 (|w|^2 + b^2) + C sum hinge."""
    losses = np.maximum(0.0, 1.0 - y * (X.astype(np.float64) @ w + b))
    return float(0.5 * (w @ w + b * b) + C * losses.sum())


def dual_value(X: Any, y: Any, alpha: Any) -> float:
    """sum alpha - 1/2 |w(alpha)|^2, the constant feature included."""
    assert alpha.min() >= 0
    assert alpha.max() <= C
    w, b = X.astype(np.float64).T @ (alpha * y), float(alpha @ y)
    return float(alpha.sum() - 0.5 * (w @ w + b * b))


def check(claimed: Any, X: Any, y: Any, w: Any, b: float, alpha: Any, gap: float) -> None:
    """The certificate is what the data say."""
    primal, dual = primal_value(X, y, w, b), dual_value(X, y, alpha)
    assert abs(primal - claimed.primal) <= 1e-9 * primal, (primal, claimed)
    assert abs(dual - claimed.dual) <= 1e-9 * primal, (dual, claimed)
    assert primal - dual <= gap * primal, (primal, dual)


def convert(text: Path, target: Path, compact: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bridle.cli", "convert", str(text), str(target)]
    command += ["--compact", "exact"] if compact else []
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def is_writing(folder: Path) -> bool:
    return any(folder.glob(".rows.arrow.*.tmp"))


def writing_seconds(process: subprocess.Popen[bytes], folder: Path) -> float:
    """From when the temporary file is seen to the end."""
    while process.poll() is None and not is_writing(folder):
        time.sleep(0.001)
    began = time.perf_counter()
    if process.wait() != 0:
        raise SystemExit("the first conversion failed")
    return time.perf_counter() - began


def kill_converters(folder: Path, n: int, chance: random.Random, data: Any) -> str:
    X, y = data
    texts = [folder / "a.svm", folder / "b.svm"]
    for k, text in enumerate(texts):
        write_svmlight(text, X[: len(y) // (k + 1)], y[: len(y) // (k + 1)])
    target = folder / "rows.arrow"
    usual = [
        writing_seconds(convert(texts[0], target, compact), folder) for compact in (False, True)
    ]
    sizes, hits, runs = {len(y), len(y) // 2}, 0, 0
    for k in attempts(n):
        if hits == n:
            break
        runs += 1
        compact = k % 4 > 1
        process = convert(texts[k % 2], target, compact)
        while process.poll() is None and not is_writing(folder):
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 1.1 / (1 + k % 2)) * usual[compact])
        dead = process.poll() is None
        process.kill()
        process.wait()
        left = list(folder.glob(".rows.arrow.*.tmp"))
        assert dead or process.returncode == 0
        hits += dead and len(left) == 1
        print(f"  run {k}: {hits} of {n}", flush=True)
        for path in left:
            path.unlink()
        X2, y2 = read_arrow(target)
        X2.resize(len(y2), X.shape[1])  # columns that do not occur have no place in a text
        assert len(y2) in sizes
        assert (X[: len(y2)] != X2).nnz == 0
        assert np.array_equal(y[: len(y2)], y2)
    return f"{hits} real kills in {runs} runs; the file was whole after each"


def kill_trainers(folder: Path, n: int, chance: random.Random, data: Any) -> str:
    X, y = data
    saved, model = folder / "checkpoint", folder / "model"
    plain, compact = folder / "train.arrow", folder / "compact.arrow"
    write_arrow(plain, X, y, batch_bytes=1 << 20)
    write_arrow(compact, X, y, compact="exact")
    streamed = ["--memory", "130M"]  # 60,000 rows do not fit into that
    ways = [[str(plain)], [str(plain), *streamed], [str(plain)], [str(compact), *streamed]]
    options = [
        "--checkpoint", str(saved), "--every", "0.01", "--resume", "--solver", "dcd",
        "--max-epochs", "1e9", "--seed", str(chance.randrange(1000)),
    ]  # fmt: skip
    hits, runs, finished, epoch, dual = 0, 0, 0, 0.0, 0.0
    for k in attempts(n):
        if hits == n:
            break
        runs += 1
        data_from, *memory = ways[k % 4]
        command = [sys.executable, "-m", "bridle.cli", "train", data_from, str(model)]
        command += [*options, *memory]
        before = saved.stat().st_mtime_ns if saved.exists() else 0
        dead = killed([*command, "--gap", "0"], chance.uniform(0.8, 3.0))
        hit = dead and saved.exists() and saved.stat().st_mtime_ns > before
        hits += hit
        print(f"  run {k}: {hits} of {n}; {finished} certificates recomputed", flush=True)
        for path_left in folder.glob(".checkpoint.*"):
            path_left.unlink()
        if saved.exists():
            found = load_model(saved)
            now = dual_value(X, y, np.clip(np.ravel(found.alpha), 0.0, C))
            assert found.epoch >= epoch
            assert now >= dual * (1 - 1e-6), (now, dual)
            epoch, dual = found.epoch, now
        if not dead or (hit and hits % KILLS_A_RUN["trainer"] == 0) or hits == n:
            subprocess.run([*command, "--proof"], check=True, capture_output=True)
            fitted = load_model(model)
            w, b, alpha = fitted.coef[0], float(fitted.intercept[0]), np.ravel(fitted.alpha)
            check(fitted.certificate, X, y, w, b, alpha, 1e-3)
            finished, epoch, dual = finished + 1, 0.0, 0.0
            saved.unlink()
    return f"{hits} real kills in {runs} runs; {finished} final certificates recomputed"


class Killer(threading.Thread):
    """Kills workers that hold parts, until the run is over or has had enough."""

    def __init__(self, cluster: Any, rows: Any, times: list[float], chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.cluster, self.rows, self.times, self.chance = cluster, rows, times, chance
        self.over, self.hits = threading.Event(), 0

    def run(self) -> None:
        """A kill after each of the times."""
        for seconds in self.times:
            if self.over.wait(seconds):
                return
            place = self.chance.choice(self.rows._places)
            nannies = [n for n in self.cluster.workers.values() if n.worker_address == place]
            pid = nannies[0].pid if nannies else None
            if pid is None or not _alive(pid):
                continue  # it is dead already, and not yet back
            os.kill(pid, signal.SIGKILL)
            self.hits += not self.over.is_set()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill_workers(folder: Path, n: int, chance: random.Random, data: Any) -> str:
    import dask
    from distributed import Client, LocalCluster

    X, y = data
    files = [folder / f"part-{k}.arrow" for k in range(4)]
    for file, own in zip(files, np.array_split(np.arange(len(y)), 4), strict=True):
        write_arrow(file, X[own], y[own])
    optimum = solve(LinearProblem(X, y, C, bias="regularised"), "dcd", stop=Gap(1e-6)).certificate
    hits, runs, losses, recomputed, usual = 0, 0, 0, 0, 0.0
    for k in attempts(n):
        if hits >= n:
            break
        # A new cluster each time: a nanny whose worker dies while it starts gives up.
        with (
            dask.config.set({"distributed.worker.daemon": False}),
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0",
                         silence_logs=50, worker_dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):  # fmt: skip
            client.wait_for_workers(2, timeout=60)
            rows = DaskRows(client, files)
            saved = folder / f"saved-{k}" if k % 2 else None
            if saved is not None:
                saved.mkdir()
            problem = DistributedProblem(rows, C, bias="regularised", checkpoint=saved)
            many = min(KILLS_A_RUN["worker"], n - hits)
            times = [chance.uniform(0.0, 1.1) * usual for _ in range(many)] if runs else []
            killer = Killer(cluster, rows, times, chance)
            began = time.perf_counter()
            killer.start()
            found = solve(problem, stop=Gap(1e-3) | Epochs(1000), seed=k)
            killer.over.set()
            usual = usual or time.perf_counter() - began  # of the first, which is left in peace
            killer.join()
            runs, hits, losses = runs + 1, hits + killer.hits, losses + len(rows.losses)
            claimed = found.certificate
            assert found.converged, found
            primal = primal_value(X, y, found.w, found.b)
            assert abs(primal - claimed.primal) <= 1e-9 * primal
            assert claimed.dual <= optimum.primal
            try:
                alpha = np.asarray(found.alpha)
            except RuntimeError as error:
                if "lost" not in str(error):
                    raise
            else:
                check(claimed, X, y, found.w, found.b, alpha, 1e-3)
                recomputed += 1
            print(
                f"  run {k}: {hits} of {n}; {len(rows.losses)} parts read again, {recomputed} "
                f"certificates recomputed",
                flush=True,
            )
            rows.close()
    return (
        f"{hits} real kills in {runs} runs, {losses} parts read again; {recomputed} certificates "
        f"recomputed from alpha, {runs - recomputed} with alpha lost checked against the optimum"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="real ones, of all kinds together")
    parser.add_argument("--only", default=",".join(KINDS), help="some of the kinds")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    X, y = make_corpus(options.rows, seed=1)
    kinds = options.only.split(",")
    few = min(options.rows, 10_000)  # a cluster of one machine has enough to do with these
    for kind, share in zip(
        kinds, np.array_split(np.arange(options.kills), len(kinds)), strict=True
    ):
        with tempfile.TemporaryDirectory() as name:
            how = {"converter": kill_converters, "trainer": kill_trainers, "worker": kill_workers}
            data = (X[:few], y[:few]) if kind == "worker" else (X, y)
            print(f"{kind}: {how[kind](Path(name), len(share), chance, data)}", flush=True)


if __name__ == "__main__":
    main()
