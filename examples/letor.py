"""LETOR from file to evaluation: choose C on one part, test on another.

Run: python letor.py TRAIN VALIDATION TEST, three svmlight files with qid (plain, gzip or xz), such
as LETOR's; without them three small files are made up.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from bridle import RankSVM
from bridle.data import read_svmlight, write_svmlight
from bridle.objective.metrics import average_precision, ndcg, precision_at_k, queries


def made_up(folder: Path) -> list[Path]:
    """60 queries of 20 documents with three grades, in three files."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    taste, paths = rng.normal(size=10), []
    for name in ("train", "validation", "test"):
        X, qid = rng.normal(size=(1200, 10)), np.repeat(np.arange(60), 20)
        y = np.digitize(X @ taste + 3 * rng.normal(size=1200), [2.0, 5.0])
        paths.append(folder / f"{name}.svm")
        write_svmlight(paths[-1], csr_matrix(X), y, qid=qid)
    return paths


def main(paths: list[Path]) -> None:
    parts = [read_svmlight(path, qid=True) for path in paths]
    width = max(X.shape[1] for X, _, _ in parts)
    for X, _, _ in parts:
        X.resize(X.shape[0], width)
    train, validation, test = parts
    best = (-1.0, None)
    for C in 10.0 ** np.arange(-4, 3):
        model = RankSVM("map", C=C).fit(train[0], train[1], qid=train[2])
        reached = model.score(validation[0], validation[1], qid=validation[2])
        print(f"C {C:<8g} validation MAP {reached:.4f}   {model.certificate_}")
        best = max(best, (reached, model), key=lambda pair: pair[0])
    model = best[1]
    print(f"{model.n_skipped_} of {model.n_queries_} training queries had nothing to rank")
    X, y, qid = test
    scores = model.predict(X)
    print(f"test: C {model.C:g}, {len(queries(qid))} queries")
    print(f"  MAP     {average_precision(y, scores, qid).mean():.4f}")
    print(f"  NDCG@10 {ndcg(y, scores, qid, k=10).mean():.4f}")
    print(f"  P@5     {precision_at_k(y, scores, qid, k=5).mean():.4f}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main([Path(name) for name in sys.argv[1:]])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(made_up(Path(folder)))
