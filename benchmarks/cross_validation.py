"""Choosing C: LinearSVCCV against a grid search over scikit-learn's LinearSVC.

    python -m benchmarks.cross_validation [--rows 20000] [--Cs 20] [--folds 5] [--threads 1]

The same folds, values of C, loss and bias for both; scikit-learn's tolerance is its default, ours a
certified gap of 1e-3. As many processes there as threads here. Prints both times, the accuracies
and the chosen C; writes cross_validation.json. With one thread, processor seconds count: others may
use the machine.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from bridle import LinearSVCCV
from bridle.data import make_corpus


def timed(fit: Any, n_threads: int) -> tuple[Any, float]:
    clock = time.process_time if n_threads == 1 else time.perf_counter
    start = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "failed to converge" at large C
        model = fit()
    return model, clock() - start


def main() -> None:
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.svm import LinearSVC

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cross_validation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--Cs", type=int, default=20)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks"))
    chosen = parser.parse_args()
    X, y = make_corpus(chosen.rows)
    Cs = np.geomspace(1e-3, 1e2, chosen.Cs)
    folds = StratifiedKFold(chosen.folds)
    ours, our_seconds = timed(
        lambda: LinearSVCCV(Cs, cv=folds, n_threads=chosen.threads, random_state=0).fit(X, y),
        chosen.threads,
    )
    peer = LinearSVC(loss="hinge", dual=True, random_state=0)
    double = X.astype(np.float64)
    theirs, their_seconds = timed(
        lambda: GridSearchCV(peer, {"C": Cs}, cv=folds, n_jobs=chosen.threads).fit(double, y),
        chosen.threads,
    )
    report = {
        "rows": chosen.rows, "Cs": chosen.Cs, "folds": chosen.folds, "threads": chosen.threads,
        "seconds": {"LinearSVCCV": our_seconds, "GridSearchCV": their_seconds},
        "accuracy": {
            "LinearSVCCV": float(ours.scores_.mean(axis=0).max()),
            "GridSearchCV": float(theirs.best_score_),
        },
        "C": {"LinearSVCCV": ours.C_, "GridSearchCV": float(theirs.best_params_["C"])},
        "solves": int(ours.n_solves_), "largest_gap": float(ours.gaps_.max()),
    }  # fmt: skip
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "cross_validation.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))
    print(f"{their_seconds / our_seconds:.1f}x faster")


if __name__ == "__main__":
    main()
