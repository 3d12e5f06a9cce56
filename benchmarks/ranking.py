"""How good is a linear ranker, and how fast, against boosted trees and a pairwise LinearSVC?

    python -m benchmarks.ranking [--sets OHSUMED,MQ2008] [--losses map,pairs] [--out FILE]

LETOR's OHSUMED and MQ2008 from BRIDLE_DATA, their five folds: three parts train, the fourth chooses
C (or the number of trees) by MAP, the fifth tests. Features are divided by their standard deviation
on the training parts; C is one of 10^-5, 10^-4.5, ..., 10^3. LightGBM's lambdarank and XGBoost's
rank:map choose their number of trees, at most 500, and their size out of two. Seconds are of the
processor: of the fit that was chosen, mean over the folds, and of the whole search, sum over the
folds. The pairwise LinearSVC is LIBLINEAR's squared hinge on differences of documents, pairs
weighted so that every query counts alike.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bridle import RankSVM
from bridle.data import read_svmlight
from bridle.objective.metrics import average_precision, ndcg

LOSSES = ("map", "ndcg", "precision@10", "roc", "pairs", "pairs-sum")
CS = tuple(float(c) for c in 10.0 ** np.arange(-5, 3.25, 0.5))
PUBLISHED = {
    "OHSUMED": {"SVM-map": 0.4453, "RankSVM": 0.4334, "AdaRank-MAP": 0.4487},
    "MQ2008": {"RankSVM-struct": 0.4696, "AdaRank-MAP": 0.4764, "ListNet": 0.4775},
}

Scorer = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Part:
    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray

    def map(self, scores: np.ndarray) -> float:
        return float(average_precision(self.y, scores, self.qid).mean())

    @property
    def sizes(self) -> np.ndarray:
        return np.unique(self.qid, return_counts=True)[1]

    def sorted(self) -> Part:
        order = np.argsort(self.qid, kind="stable")
        return Part(self.X[order], self.y[order], self.qid[order])


@dataclass(frozen=True)
class Line:
    data: str
    contestant: str
    map: float
    ndcg10: float
    seconds_fit: float
    seconds_search: float
    maps: tuple[float, ...]
    chosen: tuple[Any, ...]


def folds(name: str) -> Iterator[tuple[Part, Part, Part]]:
    """Training, validation and test parts, features divided by the training deviation."""
    folder = Path(os.environ["BRIDLE_DATA"]) / "ranking" / name
    read = [read_svmlight(folder / f"S{i}.svm.xz", qid=True, dtype=np.float64) for i in range(1, 6)]
    width = max(X.shape[1] for X, _, _ in read)
    parts = []
    for X, y, qid in read:
        X.resize(X.shape[0], width)
        parts.append(Part(X.toarray(), y, qid))
    for first in range(5):
        *training, validation, test = [parts[(first + k) % 5] for k in range(5)]
        train = Part(*(np.concatenate([getattr(p, f) for p in training])
                       for f in ("X", "y", "qid")))  # fmt: skip
        deviation = train.X.std(axis=0)
        deviation[deviation == 0] = 1.0
        yield tuple(Part(p.X / deviation, p.y, p.qid) for p in (train, validation, test))


def ours(loss: str) -> Callable[[Part, Part], Iterator[tuple[Any, Scorer]]]:
    def search(train: Part, validation: Part) -> Iterator[tuple[Any, Scorer]]:
        for C in CS:
            model = RankSVM(loss, C=C, max_iter=2000, n_threads=1)
            yield C, model.fit(train.X, train.y, qid=train.qid).predict

    return search


def _linear(w: np.ndarray) -> Scorer:
    return lambda X: X @ w


def pairwise(train: Part, validation: Part) -> Iterator[tuple[Any, Scorer]]:
    from sklearn.svm import LinearSVC

    rows, weights = [], []
    for query in np.unique(train.qid):
        X, y = train.X[train.qid == query], train.y[train.qid == query]
        higher, lower = np.nonzero(y[:, None] > y[None, :])
        if len(higher):
            rows.append(X[higher] - X[lower])
            weights.append(np.full(len(higher), 1.0 / len(higher)))
    Z, weight = np.vstack(rows), np.concatenate(weights)
    signs = np.where(np.arange(len(Z)) % 2, 1.0, -1.0)
    Z *= signs[:, None]
    for C in CS[::2]:
        model = LinearSVC(C=C, fit_intercept=False, dual=False)
        model.fit(Z, signs, sample_weight=weight)
        yield C, _linear(model.coef_.ravel())


def lightgbm_rank(train: Part, validation: Part) -> Iterator[tuple[Any, Scorer]]:
    import lightgbm

    train, held = train.sorted(), validation.sorted()
    for leaves in (7, 31):
        model = lightgbm.LGBMRanker(
            objective="lambdarank", metric="map", n_estimators=500,
            learning_rate=0.05, num_leaves=leaves, n_jobs=1, verbose=-1, random_state=0,
        )  # fmt: skip
        model.fit(
            train.X, train.y, group=train.sizes, eval_set=[(held.X, held.y)],
            eval_group=[held.sizes], eval_at=[1000],
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )  # fmt: skip
        yield (leaves, model.best_iteration_), model.booster_.predict


def xgboost_rank(train: Part, validation: Part) -> Iterator[tuple[Any, Scorer]]:
    import xgboost

    train, held = train.sorted(), validation.sorted()
    for depth in (3, 6):
        model = xgboost.XGBRanker(
            objective="rank:map", eval_metric="map", n_estimators=500, learning_rate=0.05,
            max_depth=depth, n_jobs=1, early_stopping_rounds=50, random_state=0,
        )  # fmt: skip
        model.fit(
            train.X, (train.y > 0).astype(int), group=train.sizes, verbose=False,
            eval_set=[(held.X, (held.y > 0).astype(int))], eval_group=[held.sizes],
        )  # fmt: skip
        yield (depth, model.best_iteration), model.predict


def measure(name: str, contestant: str, search: Any) -> Line:
    maps, gains, fits, chosen, total = [], [], [], [], 0.0
    for train, validation, test in folds(name):
        best: tuple[float, Any, Scorer, float] | None = None
        clock = began = time.process_time()
        for setting, scorer in search(train, validation):
            seconds = time.process_time() - clock
            reached = validation.map(scorer(validation.X))
            if best is None or reached > best[0]:
                best = (reached, setting, scorer, seconds)
            clock = time.process_time()
        total += time.process_time() - began
        assert best is not None
        scores = best[2](test.X)
        maps.append(test.map(scores))
        gains.append(float(ndcg(test.y, scores, test.qid, k=10).mean()))
        chosen.append(best[1])
        fits.append(best[3])
    return Line(name, contestant, float(np.mean(maps)), float(np.mean(gains)),
                float(np.mean(fits)), total, tuple(maps), tuple(chosen))  # fmt: skip


def contestants(losses: list[str]) -> Iterator[tuple[str, Any]]:
    for loss in losses:
        yield f"bridle {loss}", ours(loss)
    yield "LinearSVC on pairs", pairwise
    for module, name, search in (
        ("lightgbm", "LightGBM lambdarank", lightgbm_rank),
        ("xgboost", "XGBoost rank:map", xgboost_rank),
    ):
        try:
            __import__(module)
        except ImportError as error:
            print(f"without {name}: {error}")
        else:
            yield name, search


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ranking", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(PUBLISHED))
    parser.add_argument("--losses", type=lambda text: text.split(","), default=list(LOSSES))
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks/ranking.json"))
    chosen = parser.parse_args()
    if "BRIDLE_DATA" not in os.environ:
        raise SystemExit("set BRIDLE_DATA to the folder with ranking/OHSUMED and ranking/MQ2008")
    warnings.filterwarnings("ignore", module="lightgbm")
    lines = []
    for name in chosen.sets:
        shown = ", ".join(f"{k} {v:.4f}" for k, v in PUBLISHED.get(name, {}).items())
        print(f"\n{name} (published test MAP: {shown})")
        print(f"{'':24}{'MAP':>8}{'NDCG@10':>9}{'fit s':>9}{'search s':>10}", flush=True)
        for contestant, search in contestants(chosen.losses):
            line = measure(name, contestant, search)
            lines.append(asdict(line))
            print(f"{contestant:24}{line.map:8.4f}{line.ndcg10:9.4f}{line.seconds_fit:9.3f}"
                  f"{line.seconds_search:10.1f}", flush=True)  # fmt: skip
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
