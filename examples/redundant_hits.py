"""Your own ranking oracle: a first page of three results that do not repeat each other.

A query has eight documents, each relevant or not and about one of four topics. The loss of a page
is the share of the topics that it could have covered by relevant documents and did not: a second
hit on the same topic is worth nothing. The last feature counts pairs of results on one topic, and
its learned weight is the price of redundancy. Run: python redundant_hits.py
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from bridle import StructuredSVM, check_oracle

PAGE = 3


class Page:
    """x = (features, topics); an output is a set of three documents; the truth is relevance."""

    n_features = 5

    def features(self, x, y):
        documents, topics = x
        chosen = list(self.page(x, y))
        repeated = sum(topics[i] == topics[j] for i, j in combinations(chosen, 2))
        return np.append(documents[chosen].sum(axis=0), float(repeated))

    def loss(self, y, other):
        covered = len({topic for topic, hit in zip(y.topics, y.hits, strict=True) if hit})
        best = min(PAGE, covered)
        return 1.0 - y.coverage(other) / best if other is not y else 0.0

    def outputs(self, x):
        return combinations(range(len(x[1])), PAGE)

    def argmax(self, x, w, truth=None):
        def value(y):
            return self.features(x, y) @ w + (0.0 if truth is None else self.loss(truth, y))

        return max(self.outputs(x), key=value)

    def page(self, x, y):
        return y.best if isinstance(y, Truth) else y


class Truth:
    """What is relevant, and a page that covers as many topics as can be."""

    def __init__(self, hits, topics):
        self.hits, self.topics = hits, topics
        self.best = max(combinations(range(len(hits)), PAGE), key=self.coverage)

    def coverage(self, page):
        return len({self.topics[i] for i in page if self.hits[i]})


def query(rng):
    documents, topics = rng.normal(size=(8, 4)), rng.integers(0, 4, 8)
    hits = documents[:, 0] + 0.4 * rng.normal(size=8) > 0
    if not hits.any():
        hits[documents[:, 0].argmax()] = True
    return (documents, topics), Truth(hits, topics)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X, Y = zip(*(query(rng) for _ in range(300)), strict=True)
    print(check_oracle(Page(), list(zip(X[:5], Y[:5], strict=True))))
    model = StructuredSVM(Page(), C=0.03, tol=1e-2).fit(X[:200], Y[:200])
    print(model.certificate_)
    oracle, plain = Page(), model.coef_ * [1, 1, 1, 1, 0]
    for name, w in (("with its price of redundancy", model.coef_), ("without", plain)):
        losses = [
            oracle.loss(y, oracle.argmax(x, w)) for x, y in zip(X[200:], Y[200:], strict=True)
        ]
        print(f"{name:30} uncovered topics on new queries: {100 * np.mean(losses):.1f} %")
    print(f"weights {np.round(model.coef_, 2)}: the last is the price")
