"""Kill trainers and converters at random moments, many times, and see what is left.

    python -m benchmarks.kills [--kills 100] [--rows 20000]

Half of the kills hit `bridle convert`, which overwrites a file again and again: what is left must
be the old file or the new one. The other half hit `bridle train --checkpoint --resume`, in memory
and from disk by turns: what is left must be a whole checkpoint that is no worse than the last one
seen. At the end a run that resumes must converge, with a certificate that NumPy confirms.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bridle import LinearProblem, load_model
from bridle.data import make_corpus, open_arrow, read_arrow, write_arrow, write_svmlight


def killed(command: list[str], seconds: float) -> bool:
    """Whether the process was still running when its time came."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    if process.returncode not in (0, 3):
        raise SystemExit(error.decode())
    return False


def kill_converters(folder: Path, n: int, chance: random.Random, data: Any) -> int:
    X, y = data
    texts = [folder / "a.svm", folder / "b.svm"]
    for k, text in enumerate(texts):
        write_svmlight(text, X[: len(y) // (k + 1)], y[: len(y) // (k + 1)])
    target = folder / "rows.arrow"
    bridle = [sys.executable, "-m", "bridle.cli", "convert"]
    began = time.perf_counter()
    subprocess.run([*bridle, str(texts[0]), str(target)], check=True, capture_output=True)
    usual = time.perf_counter() - began
    sizes, hits = {len(y), len(y) // 2}, 0
    for k in range(n):
        hits += killed([*bridle, str(texts[k % 2]), str(target)], chance.uniform(0.3, 1.1) * usual)
        X2, y2 = read_arrow(target)
        assert X2.shape[0] in sizes
        assert (X[: len(y2)] != X2).nnz == 0
        assert np.array_equal(y[: len(y2)], y2)
    return hits


def kill_trainers(folder: Path, n: int, chance: random.Random, data: Any) -> int:
    X, y = data
    path, saved, model = folder / "train.arrow", folder / "checkpoint", folder / "model"
    write_arrow(path, X, y, batch_bytes=1 << 20)
    problem = LinearProblem(X, y, 1.0, bias="regularised")
    options = ["--checkpoint", str(saved), "--every", "0.01", "--resume", "--solver", "dcd"]
    command = [sys.executable, "-m", "bridle.cli", "train", str(path), str(model), *options]
    hits, epoch, dual = 0, 0.0, 0.0
    for k in range(n):
        streamed = ["--memory", "170M"] if k % 2 else []
        hits += killed([*command, "--gap", "0", *streamed], chance.uniform(0.5, 2.5))
        if saved.exists():
            found = load_model(saved)
            now = problem.dual(np.clip(found.alpha, 0.0, 1.0))
            assert found.epoch >= epoch
            assert now >= dual * (1 - 1e-6), (now, dual)
            epoch, dual = found.epoch, now
    subprocess.run([*command, "--memory", "170M"], check=True, capture_output=True)
    fitted = load_model(model)
    primal = problem.primal(fitted.coef[0], float(fitted.intercept[0]))
    claimed = fitted.certificate
    assert abs(primal - claimed.primal) <= 1e-9 * primal
    best = problem.dual(np.clip(load_model(saved).alpha, 0.0, 1.0))
    assert claimed.dual <= primal
    assert abs(best - claimed.dual) <= 1e-3 * primal
    assert claimed.relative_gap <= 1e-3
    print(f"after {epoch:.0f} epochs in {n} pieces: {claimed}")
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    data = make_corpus(options.rows, seed=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        half = options.kills // 2
        hits = kill_converters(folder, half, chance, data)
        left = [path for path in folder.iterdir() if path.suffix == ".tmp"]
        print(f"converter: {hits} of {half} runs were killed; {len(left)} temporary files are left")
        assert open_arrow(folder / "rows.arrow").n_rows > 0
        hits = kill_trainers(folder, options.kills - half, chance, data)
        print(f"trainer: {hits} of {options.kills - half} runs were killed")


if __name__ == "__main__":
    main()
