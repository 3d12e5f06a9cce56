"""A chunker on CoNLL-2000, from the folder BRIDLE_DATA. Run: python -m examples.tagger"""

from __future__ import annotations

from benchmarks.structured import chunking
from bridle import ChainSVM

if __name__ == "__main__":
    (X, Y), (X_test, Y_test) = chunking()
    print("features of a token:", X[0][1][:6], "...")
    model = ChainSVM().fit(X, Y)
    print(model.certificate_)
    print(model.scores(X_test, Y_test))
