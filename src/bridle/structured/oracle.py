"""What a structural SVM must be told about its outputs.

Psi(x, y)                        the joint features of an input and an output
Delta(y, y') >= 0                the loss of answering y' where y is true; Delta(y, y) = 0
argmax_y' w.Psi(x, y')           the prediction
argmax_y' Delta(y, y') + w.Psi(x, y')    the most violated constraint: the oracle of training
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from bridle.matrix.arrays import Array


@runtime_checkable
class Oracle(Protocol):
    """An oracle. Inputs x and outputs y may be any Python objects.

    Optional further methods:

    slack_argmax(x, w, truth): argmax_y' Delta(truth, y') (1 - w.(Psi(x, truth) - Psi(x, y'))),
        for slack rescaling; without it, asking for that is an error.
    argmax_batch(xs, w, truths=None): a list with one answer for each input.
    rounding(xs, w): for each input, how far the value of its answer may be from the best, at most,
        because scores are rounded while they are compared. Without it, no farther than the
        rounding of the scores of the answer and of the truth.
    outputs(x): every possible output of a small input, for `check_oracle`.
    as_json(), from_json(parts): its parameters, for model files, if it is one of
        `bridle.structured.ORACLES`.

    Examples
    --------
    >>> import numpy as np
    >>> class Sign:  # y is -1 or 1; no base class is needed
    ...     n_features = 1
    ...     def features(self, x, y): return np.array([x * y])
    ...     def loss(self, y, other): return float(y != other)
    ...     def argmax(self, x, w, truth=None):
    ...         return max((-1, 1), key=lambda y: w[0] * x * y + (truth not in (None, y)))
    >>> bridle.StructuredSVM(Sign()).fit([-2.0, 3.0], [-1, 1]).predict([-1.0, 1.0])
    [-1, 1]
    """

    n_features: int  # the size of w

    def features(self, x: Any, y: Any) -> Any:
        """Psi(x, y): an array, a scipy sparse row, or a pair (indices, values)."""

    def loss(self, y: Any, other: Any) -> float:
        """Delta(y, other)."""

    def argmax(self, x: Any, w: Array, truth: Any = None) -> Any:
        """The best output for w; with a truth, the one of largest loss plus score."""
