"""Handwritten words, letter by letter: on OCR letters in the folder BRIDLE_DATA, or drawn here.

A chain knows which letters follow each other; one decision for each letter does not.
Run: python handwriting.py
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from bridle import ChainSVM

# Five rows of three pixels each; some letters differ in one pixel.
FONT = {
    "a": "010101111101101", "e": "111100110100111", "f": "111100110100100", "i": "010010010010010",
    "l": "100100100100111", "n": "110101101101101", "o": "010101101101010", "r": "110101110101101",
    "s": "011100010001110", "t": "111010010010010",
}  # fmt: skip
WORDS = """
learn line lens less list later letter life file alone often alert noise nation station rotation
train strain retain saint satin frost forest stone notes rest near trail first fast
"""

Words = tuple[list[np.ndarray], list[list[str]]]


def drawn(n: int, seed: int, noise: float = 0.2) -> Words:
    """Words in the font above, with a part of the pixels turned."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    for word in rng.choice(WORDS.split(), n):
        clean = np.array([[pixel == "1" for pixel in FONT[letter]] for letter in word])
        X.append((clean ^ (rng.random(clean.shape) < noise)).astype(np.float64))
        Y.append(list(word))
    return X, Y


def ocr_letters() -> tuple[Words, Words]:
    """Fold 0 to train on, the other nine to test on."""
    data = np.load(Path(os.environ["BRIDLE_DATA"]) / "structured" / "ocr_letters.npz")
    starts = np.flatnonzero(np.diff(data["word"])) + 1
    X = np.split(np.unpackbits(data["X"], axis=1).astype(np.float32), starts)
    Y = [[chr(97 + k) for k in labels] for labels in np.split(data["y"], starts)]
    fold = data["fold"][np.concatenate([[0], starts])]
    first, second = (
        ([X[i] for i in chosen], [Y[i] for i in chosen])
        for chosen in (np.flatnonzero(fold == 0), np.flatnonzero(fold != 0))
    )
    return first, second


def main() -> None:
    if "BRIDLE_DATA" in os.environ:
        (X, Y), (X_test, Y_test) = ocr_letters()
    else:
        (X, Y), (X_test, Y_test) = drawn(300, 0), drawn(300, 1)
    for name, transitions in (("letters alone", False), ("chains", True)):
        model = ChainSVM(transitions=transitions, boundaries=transitions).fit(X, Y)
        error = 1 - model.score(X_test, Y_test)
        print(f"{name}: letter error {100 * error:.1f} %; {model.certificate_}")
    letters = model.classes_
    best = [divmod(k, len(letters)) for k in np.argsort(-model.transitions_, axis=None)[:5]]
    print("pairs of letters of largest weight:", *(letters[a] + letters[b] for a, b in best))
    print("read:", " ".join("".join(word) for word in model.predict(X_test[:6])))
    print("true:", " ".join("".join(word) for word in Y_test[:6]))


if __name__ == "__main__":
    main()
