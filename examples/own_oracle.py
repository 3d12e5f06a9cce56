"""Your own oracle in twenty lines: learn to rank three runners from their features.

The output is a permutation; the loss counts the pairs in the wrong order. Run: python own_oracle.py
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
from bridle import StructuredSVM, check_oracle


class Podium:
    """Psi(x, y) = sum over places of (number of runners behind) * features of the runner there."""

    n_features = 4

    def features(self, x, y):
        return sum((len(y) - 1 - place) * x[runner] for place, runner in enumerate(y))

    def loss(self, y, other):
        return float(sum(other.index(a) > other.index(b) for a, b in combinations(y, 2)))

    def outputs(self, x):
        return permutations(range(len(x)))

    def argmax(self, x, w, truth=None):
        def value(y):
            return self.features(x, y) @ w + (0.0 if truth is None else self.loss(truth, y))

        return max(self.outputs(x), key=value)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    speed = rng.normal(size=4)
    races = rng.normal(size=(200, 3, 4))
    results = [tuple(np.argsort(-(x @ speed + rng.normal(size=3))).tolist()) for x in races]
    print(check_oracle(Podium(), zip(races[:5], results[:5], strict=True)))
    model = StructuredSVM(Podium(), C=0.01, tol=1e-3).fit(list(races[:150]), results[:150])
    print(model.certificate_)
    print(f"wrong pairs on new races: {1 - model.score(list(races[150:]), results[150:]):.2f} of 3")
    cosine = model.coef_ @ speed / np.linalg.norm(model.coef_) / np.linalg.norm(speed)
    print(f"cosine with the true speeds: {cosine:.3f}")
