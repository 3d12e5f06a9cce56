"""Your own ranking oracle: a first page of ten results, of 300, that do not repeat each other.

A query has 300 documents, each relevant or not and about one of twelve topics. Most of what matches
best is about the same two or three, so the ten best matches repeat each other. The loss of a page
is the share of the topics that it could have covered by relevant documents and did not: a second
hit on a topic is worth nothing. The last feature counts pairs of results on one topic; its learned
weight is the price of redundancy.

There are more than 10^18 pages. The score and the loss of a page are sums over topics, so the best
one is found exactly: for each topic the best n of its documents, n = 0, 1, ..., with a hit among
them or without, and then the best way to share ten places among the topics (`argmax`).
Run: python redundant_hits.py
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from bridle import StructuredSVM, check_oracle

TOPICS, DOCUMENTS, PLACES = 12, 300, 10


class Page:
    """x = (features, topics); an output is a tuple of documents; the truth is their relevance."""

    def __init__(self, n_features, places=PLACES):
        self.n_features, self.places = n_features + 1, places
        n, k = np.ogrid[: places + 1, : places + 1]
        self.rest = np.where(k <= n, n - k, places + 1)  # places + 1: there is no such page

    def features(self, x, y):
        documents, topics = x
        page = list(y.page if isinstance(y, Truth) else y)
        counts = np.bincount(topics[page])
        return np.append(documents[page].sum(axis=0), np.sum(counts * (counts - 1)) / 2)

    def loss(self, y, other):
        return 0.0 if other is y else 1.0 - y.covered(other) / y.most

    def argmax(self, x, w, truth=None):
        documents, topics = x
        scores = documents @ w[:-1]
        order = np.argsort(-scores, kind="stable")
        values, steps = np.append(np.zeros(1), np.full(self.places, -np.inf)), []
        for topic in range(TOPICS):
            own = order[topics[order] == topic]
            gains, picks = self._best(own, scores, w[-1], truth)
            # The best page of n places gives k of them to this topic.
            sums = np.append(values, -np.inf)[self.rest] + gains
            steps.append((np.argmax(sums, axis=1), picks))
            values = sums.max(axis=1)
        n, page = self.places, []
        for given, picks in reversed(steps):
            page += picks(given[n])
            n -= given[n]
        return tuple(sorted(page))

    def _best(self, own, scores, price, truth):
        """What a topic adds with n = 0, 1, ... documents at best, and which these are."""
        gains = self._sums(own, scores, price)
        if truth is None:
            return gains, lambda n: own[:n].tolist()
        # With a hit the topic is covered, which lowers the loss; without one nothing is lost.
        covered = np.cumsum(truth.hits[own[: self.places]]) > 0
        gains[1 : 1 + len(covered)] -= covered / truth.most
        missed = own[~truth.hits[own]]
        without = self._sums(missed, scores, price)
        better = np.maximum(gains, without)
        return better, lambda n: (missed if without[n] == better[n] else own)[:n].tolist()

    def _sums(self, own, scores, price):
        n = np.arange(1 + min(self.places, len(own)))
        found = np.full(self.places + 1, -np.inf)
        found[n] = np.append(0.0, np.cumsum(scores[own[: self.places]])) + price * n * (n - 1) / 2
        return found

    def outputs(self, x):
        """Every page, for `check_oracle`, which compares with brute force where they are few."""
        return combinations(range(len(x[1])), self.places)


class Truth:
    """What is relevant, and a page that takes a hit of each topic in turn."""

    def __init__(self, hits, topics, places=PLACES):
        self.hits, self.topics = hits, topics
        turn = np.array([np.sum(hits[:i] & (topics[:i] == topics[i])) for i in range(len(hits))])
        self.page = tuple(np.lexsort((turn, ~hits))[:places].tolist())
        self.most = self.covered(self.page)

    def covered(self, page):
        page = list(page)
        return len(set(self.topics[page][self.hits[page]].tolist()))


def query(rng, documents=DOCUMENTS, places=PLACES):
    """Features: how well title and text match, age, length. Few topics have the best matches."""
    topics = rng.integers(0, TOPICS, documents)
    quality = rng.normal(size=documents) + 1.5 * rng.normal(size=TOPICS)[topics]
    noise = rng.normal(size=(documents, 4))
    features = noise * [0.5, 0.7, 1, 1] + np.outer(quality, [1, 1, 0, 0])
    hits = quality > np.quantile(quality, 0.7)
    return (features, topics), Truth(hits, topics, places)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    small = [query(rng, documents=12, places=3) for _ in range(10)]
    print(check_oracle(Page(4, places=3), small))
    X, Y = zip(*(query(rng) for _ in range(100)), strict=True)
    oracle = Page(4)
    model = StructuredSVM(oracle, C=0.1, tol=1e-2, solver="one-slack").fit(X[:40], Y[:40])
    print(model.certificate_)
    for name, w in (("the price", model.coef_), ("no price", model.coef_ * [1, 1, 1, 1, 0])):
        losses = [oracle.loss(y, oracle.argmax(x, w)) for x, y in zip(X[40:], Y[40:], strict=True)]
        print(f"with {name} of redundancy, topics missed on new queries: {np.mean(losses):.1%}")
    print(f"weights {np.round(model.coef_, 2)}: the last is the price")
