"""Learning from a stream: each row is seen once, in its order, and then forgotten.

    min_w  lam/2 |w|^2 + E loss(y w.x)          w <- w - eta_t (lam w - c_t loss'(p_t) y_t x_t)

over rows that keep coming: the mean has no number of rows in it, so that it is lam that is given
and not C. Several classes are one problem each, against the rest.

rate "decaying": eta_t = eta_0 / (1 + lam eta_0 t), and the model is the mean of all w_t, weighted
by t (Lacoste-Julien, Schmidt & Bach, "A simpler approach to obtaining an O(1/t) convergence rate
for the projected stochastic subgradient method", 2012). It settles: right for a source that does
not change. rate "constant": eta_t = eta_0, and the model is the last w. Old rows fade away like
(1 - lam eta_0)^age: right for a source that does.

Each block of rows is scored before it is learned from: the progressive error estimates the error on
what comes next from rows that the model had not seen (Blum, Kalai & Langford, "Beating the
hold-out: bounds for k-fold and progressive cross-validation", COLT 1999).

Nothing is certified: rows that are gone cannot be asked. `certify` says how far from the optimum
the model is on rows that are given to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from bridle import _core
from bridle.fitting.labels import check_of_classes, class_weight_info
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, is_sparse
from bridle.matrix.labels import check_weights
from bridle.models.deciding import class_scores, decide, n_functions
from bridle.models.header import Objective
from bridle.models.linear import LinearModel
from bridle.objective.certificate import UNCERTIFIED, Certificate
from bridle.objective.losses import loss_from
from bridle.objective.scaling import lam_to_C
from bridle.rows.memory import MemoryRows
from bridle.rows.scoring import function_scores
from bridle.solvers.shared.stochastic import (
    StepSettings,
    check_choice,
    check_positive,
    compiled_steps,
    rate_of,
)
from numpy.typing import ArrayLike, NDArray

OnlineRate = Literal["decaying", "constant"]
BIAS_SCALE = 1.0


class OnlineSVM:
    """A linear SVM that learns from blocks of rows as they come.

    classes: all labels that there will be, two or more. lam: of lam/2 |w|^2 + mean loss. rate,
    eta0: see above; eta0 None takes 1 / mean |x|^2 of the first block: the step that moves a row's
    own margin by 1. fit_intercept: a constant feature, part of |w|^2. n_features: grows as blocks
    do that have more.

    The model hardly depends on how the stream is cut into blocks, once eta0 is given. A block costs
    as much as its non-zeros and a few passes over the weights: not single rows, but hundreds.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(2_000, seed=0)
    >>> model = bridle.OnlineSVM([-1, 1], lam=1e-4)
    >>> errors = [model.learn(X[k : k + 500], y[k : k + 500]) for k in range(0, 2_000, 500)]
    >>> errors[-1] < 0.25  # of the rows so far, each before it was learned
    True
    """

    def __init__(
        self,
        classes: ArrayLike,
        lam: float = 1e-4,
        *,
        rate: OnlineRate = "decaying",
        eta0: float | None = None,
        loss: str = "hinge",
        fit_intercept: bool = True,
        n_features: int = 0,
    ) -> None:
        self.classes = np.unique(np.asarray(classes))
        if len(self.classes) < 2:
            raise ValueError(f"there must be at least two classes, got {len(self.classes)}")
        check_positive(lam=lam, eta0=eta0)
        check_choice("rate", rate, OnlineRate)
        self.lam, self.rate, self.eta0 = float(lam), rate, eta0
        self.loss = loss_from(loss)
        check_of_classes(self.loss)
        self.fit_intercept = fit_intercept
        self.class_weight: Array | None = None  # which the rows' weights have in them
        n = n_functions("ovr", len(self.classes))
        self._last = np.zeros((n, n_features + 1))  # the constant feature's weight comes last
        self._mean = np.zeros_like(self._last)
        self.n_rows = 0  # learned from
        self._wrong = self._counted = 0.0
        self.last_error = float("nan")  # of the newest block, before it was learned

    @property
    def n_features(self) -> int:
        """The widest block so far."""
        return self._last.shape[1] - 1

    @property
    def progressive_error(self) -> float:
        """The share of rows that were misclassified before they were learned, by weight.

        The first block does not count: nothing had been learned before it. NaN until the second.
        """
        return self._wrong / self._counted if self._counted else float("nan")

    @property
    def coef(self) -> Array:
        """One row of weights per decision function: one for two classes, else one per class."""
        return np.array(self._weights[:, :-1])

    @property
    def intercept(self) -> Array:
        """One per decision function."""
        return self._weights[:, -1] * (BIAS_SCALE if self.fit_intercept else 0.0)

    @property
    def _weights(self) -> Array:
        return self._mean if self.rate == "decaying" else self._last

    def learn(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Score a block of rows, learn from it, and return the progressive error so far."""
        self._learn(X, y, sample_weight, new=True)
        return self.progressive_error

    def revisit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        """Learn again from rows that were seen before, which say nothing of the error to come."""
        self._learn(X, y, sample_weight, new=False)

    def _learn(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, new: bool) -> None:
        codes = self._codes(y)
        rows = MemoryRows(X, BIAS_SCALE if self.fit_intercept else 0.0, 1)
        X = rows.X
        if len(codes) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows, but y has {len(codes)} labels")
        weights = check_weights(sample_weight, X.shape[0])
        self._grow(X.shape[1])
        if X.shape[1] < self.n_features:
            X = widened(X, self.n_features)
            rows = MemoryRows(X, BIAS_SCALE if self.fit_intercept else 0.0, 1)
            X = rows.X
        if new:
            self._score(X, codes, weights)
        if self.eta0 is None:
            self.eta0 = 1.0 / (float(np.average(rows.squared_norms, weights=weights)) or 1.0)
        share = self._share(len(codes))
        for k in range(len(self._last)):
            positive = 1 if len(self._last) == 1 else k
            signs = np.where(codes == positive, 1.0, -1.0)
            self._learn_one(k, rows, signs * weights, share)
        self.n_rows += len(codes)

    def decision_function(self, X: Any) -> Array:
        """w.x + b: (n,) for two classes, else a column for each class."""
        X = as_matrix(X)
        if X.shape[1] > self.n_features:  # features that no row had weigh nothing
            X = X[:, : self.n_features]
        elif X.shape[1] < self.n_features:
            X = widened(X, self.n_features)
        scores = function_scores(as_matrix(X), self.coef, self.intercept)
        return class_scores(scores, "ovr", len(self.classes))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        labels: NDArray[Any] = self.classes[decide(self.decision_function(X))]
        return labels

    def to_model(self) -> LinearModel:
        """For `save_model` and the command line; it claims nothing: its gap is infinite."""
        if not self.n_rows:
            raise ValueError("nothing has been learned yet")
        coef = self.coef
        return LinearModel(
            coef=coef, intercept=self.intercept, classes=self.classes,
            objective=Objective(
                self.loss.name, lam_to_C(self.lam, self.n_rows),
                "regularised" if self.fit_intercept else "none", BIAS_SCALE,
            ),
            certificates=(UNCERTIFIED,) * len(coef), fingerprint="", n_rows=0,
            last=self._last.copy() if self.rate == "decaying" else None,
            info={"solver": "online", "rate": self.rate, "lam": self.lam, "eta0": self.eta0,
                  "rows_learned": self.n_rows, "wrong": self._wrong, "counted": self._counted,
                  **class_weight_info(self.class_weight)},
        )  # fmt: skip

    @classmethod
    def from_model(cls, model: LinearModel) -> OnlineSVM:
        """One that learns on where the learner of this model ended.

        ValueError if the model was no learner's, or is of an older version's file, or was widened.
        """
        info, objective = model.info, model.objective
        decaying = info.get("rate") == "decaying"
        missing = {"rate", "lam", "eta0", "rows_learned", "wrong", "counted"} - info.keys()
        if missing or (decaying and model.last is None) or model.multi_class != "ovr":
            raise ValueError(
                "the model does not say how to learn on: load it as a LinearSVC to predict"
            )
        learner = cls(
            model.classes, info["lam"], rate=info["rate"], eta0=info["eta0"], loss=objective.loss,
            fit_intercept=objective.bias != "none", n_features=model.n_features,
        )  # fmt: skip
        learner.classes = model.classes
        learner.n_rows, learner._wrong, learner._counted = (
            info[name] for name in ("rows_learned", "wrong", "counted")
        )
        shown = np.column_stack([model.dense().coef, model.intercept / BIAS_SCALE])
        last = model.last if decaying else shown
        assert last is not None
        learner._last, learner._mean = last.copy(), shown
        if "class_weight" in info:
            learner.class_weight = np.array(info["class_weight"])
        return learner

    def certify(
        self, X: Any, y: ArrayLike, *, max_seconds: float = 60.0, n_threads: int | None = None
    ) -> tuple[Certificate, ...]:
        """How far from the optimum of lam/2 |w|^2 + mean loss on these rows, one for each problem.

        In units of the objective that is summed over the rows, C = 1 / (lam rows).
        """
        from dataclasses import replace

        from bridle.fitting.certification import certify_model

        X = as_matrix(X)
        model = self.to_model().resized(X.shape[1])
        objective = replace(model.objective, C=lam_to_C(self.lam, X.shape[0]))
        return certify_model(
            replace(model, objective=objective), X, y, max_seconds=max_seconds, n_threads=n_threads
        )

    def _codes(self, y: ArrayLike) -> NDArray[np.intp]:
        labels = np.asarray(y)
        if labels.ndim != 1:
            raise ValueError(f"y must have one dimension, got {labels.ndim}")
        codes = np.minimum(np.searchsorted(self.classes, labels), len(self.classes) - 1)
        strange = labels[self.classes[codes] != labels]
        if len(strange):
            raise ValueError(f"the label {strange[0]} is none of the classes {_few(self.classes)}")
        return codes

    def _grow(self, n_features: int) -> None:
        more = n_features - self.n_features
        if more > 0:
            self._last = np.insert(self._last, [self.n_features] * more, 0.0, axis=1)
            self._mean = np.insert(self._mean, [self._mean.shape[1] - 1] * more, 0.0, axis=1)

    def _score(self, X: Any, codes: NDArray[np.intp], weights: Array) -> None:
        """Before learning: what would have been said of these rows?"""
        if not self.n_rows:
            return
        scores = class_scores(
            function_scores(X, self.coef, self.intercept), "ovr", len(self.classes)
        )
        wrong = float(weights @ (decide(scores) != codes))
        self._wrong += wrong
        self._counted += float(weights.sum())
        self.last_error = wrong / float(weights.sum())

    def _share(self, n: int) -> float:
        """The part of this block's mean in the mean of all w_t weighted by t = 1, 2, ..."""
        before, after = self.n_rows, self.n_rows + n
        return (after * (after + 1) - before * (before + 1)) / (after * (after + 1))

    def _learn_one(self, k: int, rows: MemoryRows, signed_weights: Array, share: float) -> None:
        assert self.eta0 is not None
        n = rows.n_rows
        name: Any = "constant" if self.rate == "constant" else "eta0/(1 + eta0 lam t)"
        settings = StepSettings(
            rate_of(name, self.lam, self.eta0), steps_before=self.n_rows,
            bucket=n,  # one bucket: in order
        )  # fmt: skip
        steps = compiled_steps(
            rows, self.loss, signed_weights / (self.lam * n), self._last[k], 0.0, np.zeros(n),
            settings,
        )  # fmt: skip
        out, unused = np.empty(rows.n_features + 1), np.empty(n)
        steps.restart_average()
        steps.run(n, _core.Rng(0))
        steps.output("average", out, unused)
        self._mean[k] += share * (out - self._mean[k])
        steps.output("last", out, unused)
        self._last[k] = out


def widened(X: Any, n_features: int) -> Any:
    """X with columns of zeros added up to that number of features; nothing is copied if sparse."""
    if not is_sparse(X):
        return np.hstack([X, np.zeros((X.shape[0], n_features - X.shape[1]), X.dtype)])
    from scipy.sparse import csr_matrix

    X = X.tocsr()
    return csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features), copy=False)


def _few(values: NDArray[Any]) -> str:
    shown: Sequence[Any] = values[:6].tolist()
    return ", ".join(map(str, shown)) + (", ..." if len(values) > 6 else "")
