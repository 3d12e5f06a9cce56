"""A chunker: on CoNLL-2000 in the folder BRIDLE_DATA, or on a toy. Run: python tagger.py"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from bridle import ChainSVM
from bridle.data.sequences import window_template

# word, part of speech, chunk, as in CoNLL-2000
TOY = """
the DT B-NP | cat NN I-NP | sees VBZ B-VP | a DT B-NP | small JJ I-NP | dog NN I-NP
a DT B-NP | dog NN I-NP | can MD B-VP | see VB I-VP | the DT B-NP | park NN I-NP
he PRP B-NP | runs VBZ B-VP | in IN B-PP | the DT B-NP | park NN I-NP
the DT B-NP | old JJ I-NP | man NN I-NP | in IN B-PP | the DT B-NP | park NN I-NP | runs VBZ B-VP
she PRP B-NP | can MD B-VP | run VB I-VP | and CC O | he PRP B-NP | sees VBZ B-VP | it PRP B-NP
"""
TOY_TEST = """
she PRP B-NP | sees VBZ B-VP | the DT B-NP | old JJ I-NP | dog NN I-NP
the DT B-NP | small JJ I-NP | cat NN I-NP | can MD B-VP | run VB I-VP | in IN B-PP | it PRP B-NP
"""


def toy(text: str) -> list[list[list[str]]]:
    return [[token.split() for token in line.split("|")] for line in text.strip().splitlines()]


def conll(name: str) -> list[list[list[str]]]:
    """Sentences of (word, part of speech, chunk)."""
    archive = zipfile.ZipFile(Path(os.environ["BRIDLE_DATA"]) / "structured" / "conll2000.zip")
    blocks = archive.read(f"conll2000/{name}.txt").decode().split("\n\n")
    return [[line.split() for line in b.splitlines() if line.strip()] for b in blocks if b.strip()]


def main() -> None:
    real = "BRIDLE_DATA" in os.environ
    train, test = (conll("train"), conll("test")) if real else (toy(TOY), toy(TOY_TEST))
    template = window_template(2)  # the words and parts of speech around each token
    (X, Y), (X_test, Y_test) = (
        (
            [template.features([fields[:2] for fields in sentence]) for sentence in sentences],
            [[fields[2] for fields in sentence] for sentence in sentences],
        )
        for sentences in (train, test)
    )
    print("features of a token:", X[0][1][:6], "...")
    model = ChainSVM().fit(X, Y)
    print(model.certificate_)
    print(model.scores(X_test, Y_test))


if __name__ == "__main__":
    main()
