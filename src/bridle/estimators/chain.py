"""ChainSVM: label sequences, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bridle.estimators.base import interruptible
from bridle.estimators.structural import Structural
from bridle.fitting.chain import chain_task
from bridle.models.chain import ChainExtras, ChainModel
from bridle.objective.segments import SequenceScores, score_sequences
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted


class ChainSVM(Structural, BaseEstimator):  # type: ignore[misc]
    """Structural SVM for sequences: emissions and transitions, Hamming's loss, Viterbi's algorithm.

    min_w 1/2 |w|^2 + C sum_i max_y [Hamming(y_i, y) - w.(Psi(x_i, y_i) - Psi(x_i, y))]

    X in `fit` and `predict` is a list of sequences. A sequence is a list of tokens, each a list of
    feature names or a dictionary of features as in python-crfsuite, or a matrix with one row for
    each position. y is a list of label sequences.

    tol: the certified relative duality gap to reach. boundaries: weights of labels at the start and
    at the end of a sequence. fit_intercept: a constant feature. max_iter, max_seconds: budgets for
    passes over the data and for seconds. callback: a function of the newest Record; returning True
    ends the fit, with the best model so far and its gap. keep: which weights to return,
    the "best" or the "final" ones, as in `bridle.solve`.

    After fit: classes_, coef_ (n_features x n_classes), intercept_, transitions_ (previous label
    first), start_, end_, vocabulary_ (None for matrices), certificate_, trace_, status_,
    message_, n_iter_, model_.

    Examples
    --------
    >>> X = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"]]]
    >>> model = bridle.ChainSVM().fit(X, [["D", "N"], ["D", "N"]])
    >>> list(model.predict([[["w=the"], ["w=dog"]]])[0])
    ['D', 'N']
    """

    model_: ChainModel
    _model_kind = "chain"
    _decisive = ("coef_", "transitions_", "start_", "end_")

    def __init__(
        self,
        C: float = 0.1,
        *,
        solver: str | Solver = "bcfw",
        tol: float = 1e-2,
        fit_intercept: bool = True,
        transitions: bool = True,
        boundaries: bool = True,
        cost: ArrayLike | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        keep: Keep = "best",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            C, solver, tol, max_iter, max_seconds, callback, random_state, n_threads, keep,
            interrupt, n_jobs,
        )  # fmt: skip
        self.fit_intercept = fit_intercept
        self.transitions = transitions
        self.boundaries = boundaries
        self.cost = cost

    @interruptible
    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Sequence[Any]],
        sample_weight: ArrayLike | None = None,
    ) -> ChainSVM:
        """Learn from sequences and their labels; sample_weight has one entry for each sequence."""
        extras = ChainExtras(self.transitions, self.boundaries, self.fit_intercept)
        return self._fit(
            chain_task(
                X, y, self.C, extras=extras, cost=self.cost, sample_weight=sample_weight,
                n_threads=self._threads,
            )
        )  # fmt: skip

    def _show(self, model: ChainModel) -> None:
        self.classes_ = np.array(model.classes)
        self.coef_ = model.emissions
        extra = list(model.extra_weights)
        zeros = np.zeros(len(model.classes))
        self.intercept_ = extra.pop() if self.fit_intercept else zeros
        ends: list[NDArray[np.float64]] = extra if self.boundaries else [zeros, zeros]
        self.start_, self.end_ = ends
        self.transitions_ = model.transition_weights
        self.vocabulary_ = getattr(model.features, "vocabulary", None)
        self.n_features_in_ = model.features.n_features

    @classmethod
    def _parameters_of(cls, model: ChainModel) -> dict[str, Any]:
        extras = model.extras
        return {
            "C": model.C, "transitions": extras.transitions, "boundaries": extras.boundaries,
            "fit_intercept": extras.intercept,
        }  # fmt: skip

    def predict(self, X: Sequence[Any]) -> list[list[Any]]:
        """The best labels of every sequence."""
        check_is_fitted(self, "model_")
        return self.model_.predict(X, n_threads=self._threads)

    def decision_function(self, X: Sequence[Any]) -> list[NDArray[np.float64]]:
        """Max-marginals: of each sequence a row for each position, a column for each of classes_.

        An entry is the score of the best labels of the whole sequence that have this label here.
        The largest of a row is the score of `predict`'s labels; how far the next one is below
        says how sure this label is.
        """
        check_is_fitted(self, "model_")
        return self.model_.max_marginals(X, n_threads=self._threads)

    def predict_marginals(self, X: Sequence[Any]) -> list[list[dict[Any, float]]]:
        """Of each position of each sequence, {label: weight}, as sklearn-crfsuite has it.

        All label sequences count, each exp(score): what a conditional random field with these
        weights would say. The weights were not trained for that, and it is not calibrated.
        """
        check_is_fitted(self, "model_")
        classes = self.model_.classes
        return [
            [dict(zip(classes, row, strict=True)) for row in table.tolist()]
            for table in self.model_.marginals(X, n_threads=self._threads)
        ]

    def scores(self, X: Sequence[Any], y: Sequence[Sequence[str]]) -> SequenceScores:
        """Accuracy by token, and precision, recall and F1 by segment as conlleval counts them."""
        return score_sequences(y, self.predict(X))

    def score(self, X: Sequence[Any], y: Sequence[Sequence[Any]]) -> float:
        """The part of all tokens whose label is right."""
        right = total = 0
        for truth, answer in zip(y, self.predict(X), strict=True):
            right += sum(a == b for a, b in zip(truth, answer, strict=True))
            total += len(answer)
        return right / total if total else 0.0


__all__ = ["ChainSVM"]
