"""How fast is a certified chain, and how good, against python-crfsuite on the same features?

    python -m benchmarks.structured [--rounds N] [--chunking] [--letters] [--parsing] [--skip-lbfgs]
    python -m benchmarks.structured --chunking --features dictionaries
    python -m benchmarks.structured --choose-C

Chunking: CoNLL-2000 from BRIDLE_DATA, each contestant from features to a trained model, in turns.
Features: "window", lists of names, the usual window of words and parts of speech; "dictionaries",
as tutorials of python-crfsuite have them (word.lower(), word[-3:], postag, those of the words
beside). Seconds are of the clock on the
wall and of the processor: on a machine that others use, only the second are comparable. Letters:
handwritten words, letter error of ChainSVM at its default settings. Parsing: labelled bracket F1 on
held-out sentences of up to 20 words, TreeSVM at its default settings against the unsmoothed
probabilistic grammar of the same trees. Needs python-crfsuite for the comparison.

--choose-C cross-validates C for chunking on the training sentences.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from bridle import ChainSVM, TreeSVM
from bridle.data.sequences import window_template
from bridle.objective.segments import score_sequences
from bridle.structured.trees import score_trees


def folder() -> Path:
    if "BRIDLE_DATA" not in os.environ:
        raise SystemExit("set BRIDLE_DATA to the folder with structured/conll2000.zip")
    return Path(os.environ["BRIDLE_DATA"]) / "structured"


def word_features(tokens, t):
    """What a tutorial says of a word and its tag, without the words beside it."""
    word, tag = tokens[t][:2]
    return {
        "word.lower()": word.lower(), "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(), "postag": tag, "postag[:2]": tag[:2],
    }  # fmt: skip


def dictionary(tokens, t):
    """A tutorial's features of a token."""
    word = tokens[t][0]
    features = {"bias": 1.0, "word[-3:]": word[-3:], "word[-2:]": word[-2:]}
    features |= word_features(tokens, t) | {"word.isdigit()": word.isdigit()}
    for step, end in ((-1, "BOS"), (1, "EOS")):
        if 0 <= t + step < len(tokens):
            beside = word_features(tokens, t + step)
            features |= {f"{step:+}:{name}": value for name, value in beside.items()}
        else:
            features[end] = True
    return features


FEATURES = {
    "window": window_template(2).features,
    "dictionaries": lambda tokens: [dictionary(tokens, t) for t in range(len(tokens))],
}


def chunking(features="window"):
    """Features and labels of the training and of the test sentences."""
    archive = zipfile.ZipFile(folder() / "conll2000.zip")
    for name in ("train", "test"):
        text = archive.read(f"conll2000/{name}.txt").decode()
        blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
        sentences = [[line.split() for line in block if line.strip()] for block in blocks]
        yield (
            [FEATURES[features]([fields[:2] for fields in s]) for s in sentences],
            [[fields[2] for fields in s] for s in sentences],
        )


def bridle(X, Y):
    model = ChainSVM().fit(X, Y)
    return model.predict, {"relative_gap": model.certificate_.relative_gap, "epochs": model.n_iter_}


def crfsuite(algorithm, **settings):
    def train(X, Y):
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm=algorithm, params=settings, verbose=False)
        for x, y in zip(X, Y, strict=True):
            trainer.append(x, y)
        path = os.path.join(tempfile.mkdtemp(), "model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return lambda sequences: [tagger.tag(x) for x in sequences], {}

    return train


def race(rounds: int, skip_lbfgs: bool, features: str) -> list[dict]:
    (X, Y), (X_test, Y_test) = chunking(features)
    contestants = {
        "bridle ChainSVM": bridle,
        "crfsuite averaged perceptron, 20": crfsuite("ap", max_iterations=20),
        "crfsuite L-BFGS, 100": crfsuite("lbfgs", max_iterations=100),
    }
    if skip_lbfgs:
        contestants.popitem()
    rows = []
    for turn in range(rounds):
        for name, train in contestants.items():
            wall, processor = time.perf_counter(), time.process_time()
            predict, more = train(X, Y)
            row = {
                "round": turn, "name": name, "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - processor, **more,
            }  # fmt: skip
            row["f1"] = 100 * score_sequences(Y_test, predict(X_test)).segments.f1
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def summarise(rows: list[dict]) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows))
    best = {
        name: {
            key: min(row[key] for row in rows if row["name"] == name)
            for key in ("seconds", "cpu_seconds", "f1")
        }
        for name in names
    }
    ours = best[names[0]]
    print(f"\n{'':34}{'F1':>7}{'wall s':>9}{'x ours':>8}{'cpu s':>9}{'x ours':>8}")
    for name, row in best.items():
        print(f"{name:34}{row['f1']:7.2f}{row['seconds']:9.2f}"
              f"{row['seconds'] / ours['seconds']:8.2f}{row['cpu_seconds']:9.2f}"
              f"{row['cpu_seconds'] / ours['cpu_seconds']:8.2f}")  # fmt: skip


def letters() -> None:
    data = np.load(folder() / "ocr_letters.npz")
    starts = np.flatnonzero(np.diff(data["word"])) + 1
    X = np.split(np.unpackbits(data["X"], axis=1).astype(np.float32), starts)
    Y = [labels.tolist() for labels in np.split(data["y"], starts)]
    fold = data["fold"][np.concatenate([[0], starts])]
    for name, chosen in (("train on fold 0", fold == 0), ("train on folds 1-9", fold != 0)):
        train, test = np.flatnonzero(chosen), np.flatnonzero(~chosen)
        clock = time.perf_counter()
        model = ChainSVM().fit([X[i] for i in train], [Y[i] for i in train])
        seconds = time.perf_counter() - clock
        error = 1 - model.score([X[i] for i in test], [Y[i] for i in test])
        print(f"letters, {name}: error {100 * error:.2f} %, gap "
              f"{model.certificate_.relative_gap:.1e}, {seconds:.1f} s", flush=True)  # fmt: skip


def cross_validate(n_folds: int = 3) -> None:
    """Segment F1 by C, cross-validated on the training sentences of CoNLL-2000 alone."""
    X, Y = next(iter(chunking()))
    fold = np.arange(len(X)) % n_folds
    for C in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0):
        scores = []
        for k in range(n_folds):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            model = ChainSVM(C=C).fit([X[i] for i in train], [Y[i] for i in train])
            truth = [Y[i] for i in test]
            scores.append(score_sequences(truth, model.predict([X[i] for i in test])).segments.f1)
        print(f"C = {C}: F1 {100 * np.mean(scores):.2f} % "
              f"({', '.join(f'{100 * score:.2f}' for score in scores)})", flush=True)  # fmt: skip


def parsing() -> None:
    from examples.parser import probabilistic, treebank

    folder()
    train, test = treebank()
    sentences = [tree.words for tree in test]
    print(f"parsing: {len(train)} trees to train on, {len(test)} to test on")
    for order in (0, 1, 2, 99):
        score = score_trees(test, probabilistic(train, sentences, order))
        print(f"parsing, probabilistic grammar, order {order}: F1 {100 * score.f1:.2f} %")
    clock = time.perf_counter()
    model = TreeSVM().fit([tree.words for tree in train], train)
    seconds = time.perf_counter() - clock
    score = model.scores(sentences, test)
    print(f"parsing, TreeSVM: F1 {100 * score.f1:.2f} %, precision {100 * score.precision:.2f} %, "
          f"recall {100 * score.recall:.2f} %, gap {model.certificate_.relative_gap:.1e}, "
          f"{seconds:.1f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chunking", action="store_true")
    parser.add_argument("--features", choices=FEATURES, default="window")
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--parsing", action="store_true")
    parser.add_argument("--choose-C", action="store_true", dest="choose_C")
    parser.add_argument("--skip-lbfgs", action="store_true")
    chosen = parser.parse_args()
    if chosen.choose_C:
        return cross_validate()
    every = not (chosen.chunking or chosen.letters or chosen.parsing)
    if chosen.letters or every:
        letters()
    if chosen.parsing or every:
        parsing()
    if chosen.chunking or every:
        summarise(race(chosen.rounds, chosen.skip_lbfgs, chosen.features))


if __name__ == "__main__":
    main()
