"""OnlineSVC: linear support vector classification of a stream, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from bridle.errors import ModelError
from bridle.estimators.base import (
    Certified,
    checked_labels,
    interruptible,
    seed_from,
    validate_data,
)
from bridle.fitting.labels import class_weights, encode, row_costs, row_weights
from bridle.fitting.online import OnlineRate, OnlineSVM
from bridle.matrix.arrays import Array
from bridle.models.linear import LinearModel
from bridle.objective.certificate import Certificate, total
from bridle.solving.interruption import Interrupt, deferred_interrupt
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

_MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C",
}  # fmt: skip

# Rows that `fit` learns from at a time.
_BLOCK = 1000


class OnlineSVC(Certified, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear support vector classification of rows that keep coming; see `bridle.fitting.online`.

    `partial_fit` learns from a block of rows and can forget it; it knows how well it would have
    done on the block before. Where all rows are at hand, LinearSVC finds the optimum and proves it.

    Parameters
    ----------
    lam : of lam/2 |w|^2 + mean loss; LinearSVC's C is 1 / (lam n_rows).
    rate : "decaying" for a source that does not change: the model settles; "constant" for one that
        does: the model follows.
    eta0 : the first step, or every one; None takes 1 / mean |x|^2 of the first block.
    loss : "hinge" or "squared_hinge".
    fit_intercept : a constant feature, part of |w|^2.
    passes : of `fit` over its rows, each in a random order.
    random_state : int, RandomState or None, for those orders. `partial_fit` takes rows as they are.
    class_weight : {class: weight}, multiplies the weight of the rows of the class; "balanced", in
        `fit` alone, which knows how many rows each class has.
    interrupt : Ctrl-C ends `fit` after the block at hand, with the model so far, and is then raised
        ("raise") or not ("return").

    Attributes
    ----------
    coef_, intercept_, classes_, n_features_in_, feature_names_in_ : as in LinearSVC.
    progressive_error_ : the share of rows that were misclassified before they were learned, by
        weight: an estimate of the error on what comes next. NaN until the second block; of `fit`,
        only the first pass counts.
    last_error_ : the same of the newest block alone.
    n_rows_seen_ : how many rows were learned from.
    certificate_, certificates_ : only after `certify`, until the model learns again: how far from
        the optimum it is on the rows that were given there. Of rows that are gone nothing is known.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(2_000, seed=0)
    >>> model = bridle.OnlineSVC(lam=1e-4)
    >>> for begin in range(0, 2_000, 500):
    ...     rows = slice(begin, begin + 500)
    ...     model = model.partial_fit(X[rows], y[rows], classes=[-1, 1])
    >>> model.progressive_error_ < 0.2
    True
    """

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array
    _model_kind = "linear"

    def __init__(
        self,
        lam: float = 1e-4,
        *,
        rate: OnlineRate = "decaying",
        eta0: float | None = None,
        loss: str = "hinge",
        fit_intercept: bool = True,
        passes: int = 10,
        random_state: Any = None,
        class_weight: Mapping[Any, float] | str | None = None,
        interrupt: Interrupt = "raise",
    ) -> None:
        self.lam = lam
        self.rate = rate
        self.eta0 = eta0
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.random_state = random_state
        self.class_weight = class_weight
        self.interrupt = interrupt

    @interruptible
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None
    ) -> OnlineSVC:
        """Forget what was learned; learn from these rows, `passes` times."""
        if self.passes < 1:
            raise ValueError(f"passes must be at least 1, got {self.passes}")
        X, labels = validate_data(self, X, y, **_MATRIX)
        given = row_weights(sample_weight, X.shape[0])
        known = encode(checked_labels(labels), given)
        classes, codes = known.classes, known.codes
        assert codes is not None
        weights = row_costs(known, given, self.class_weight)
        used = np.flatnonzero(codes >= 0 if weights is None else weights > 0)
        self._learner = self._new(classes, X.shape[1])
        self._learner.class_weight = class_weights(self.class_weight, classes, known.totals)
        rng = np.random.default_rng(seed_from(self.random_state))
        with deferred_interrupt() as interrupted:
            for number, rows in self._blocks(rng, used):
                own = None if weights is None else weights[rows]
                learn = self._learner.learn if number == 0 else self._learner.revisit
                learn(X[rows], classes[codes[rows]], own)
                if interrupted():
                    break
        self._show()
        return self

    def _blocks(
        self, rng: np.random.Generator, used: NDArray[np.intp]
    ) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Rows to learn from, and the pass that they are of."""
        for number in range(self.passes):
            order = rng.permutation(used)
            for begin in range(0, len(order), _BLOCK):
                yield number, order[begin : begin + _BLOCK]

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | float | None = None,
    ) -> OnlineSVC:
        """Score a block of rows, then learn from it.

        classes: all labels that there will ever be; needed in the first call.
        """
        first = not hasattr(self, "_learner")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X, labels = validate_data(self, X, y, reset=first, **_MATRIX)
        given = self.classes_ if classes is None else np.unique(classes)
        if not first and not np.array_equal(given, self.classes_):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, was: "
                f"{self.classes_!r}"
            )
        learner = self._new(given, X.shape[1]) if first else self._learner
        each = self._weight_of(given)
        learner.learn(X, labels, self._weights(labels, given, each, sample_weight))
        learner.class_weight = each
        self._learner = learner  # not before: a first block that is refused leaves nothing behind
        self._show()
        return self

    def _weight_of(self, classes: NDArray[Any]) -> Array | None:
        """A class weighs the same in all blocks."""
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" is for `fit`: partial_fit does not know how many rows of '
                "each class will come; give a weight for each class"
            )
        return class_weights(self.class_weight, classes, np.full(len(classes), np.nan))

    def _weights(
        self, labels: Any, classes: NDArray[Any], each: Array | None, sample_weight: Any
    ) -> Array | None:
        """Of the rows of a block."""
        weights = row_weights(sample_weight, len(labels))
        if each is None:
            return weights
        own: Array = each[np.searchsorted(classes, labels).clip(max=len(classes) - 1)]
        return own if weights is None else np.asarray(own * weights)

    @classmethod
    def from_model(cls, model: LinearModel) -> Self:
        """What has learned by then, from `save` or `bridle train -`: it predicts and learns on."""
        try:
            learner = OnlineSVM.from_model(model)
        except ValueError as error:
            raise ModelError(str(error)) from None
        each = learner.class_weight
        estimator = cls(
            learner.lam, rate=learner.rate, loss=learner.loss.name,
            fit_intercept=learner.fit_intercept,
            class_weight=None
            if each is None
            else dict(zip(model.classes.tolist(), each.tolist(), strict=True)),
        )  # fmt: skip
        estimator._learner, estimator.n_features_in_ = learner, learner.n_features
        estimator._show()
        return estimator

    def decision_function(self, X: Any) -> Array:
        """w.x + b: (n,) for two classes, else (n, n_classes)."""
        check_is_fitted(self)
        return self._learner.decision_function(validate_data(self, X, reset=False, **_MATRIX))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        check_is_fitted(self)
        return self._learner.predict(validate_data(self, X, reset=False, **_MATRIX))

    def certify(self, X: Any, y: ArrayLike, *, max_seconds: float = 60.0) -> Certificate:
        """How far from the optimum of lam/2 |w|^2 + mean loss on these rows the model is."""
        check_is_fitted(self)
        X, labels = validate_data(self, X, y, reset=False, **_MATRIX)
        self.certificates_ = list(self._learner.certify(X, labels, max_seconds=max_seconds))
        self.certificate_ = total(self.certificates_)
        return self.certificate_

    def to_model(self) -> LinearModel:
        """For `save_model`; it claims nothing: its gap is infinite."""
        check_is_fitted(self)
        return self._learner.to_model()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _new(self, classes: NDArray[Any], n_features: int) -> OnlineSVM:
        return OnlineSVM(
            classes, self.lam, rate=self.rate, eta0=self.eta0, loss=self.loss,
            fit_intercept=self.fit_intercept, n_features=n_features,
        )  # fmt: skip

    def _show(self) -> None:
        learner = self._learner
        self.classes_ = learner.classes
        self.coef_, self.intercept_ = learner.coef, learner.intercept
        self.progressive_error_ = learner.progressive_error
        self.last_error_ = learner.last_error
        self.n_rows_seen_ = learner.n_rows
        for name in ("certificate_", "certificates_"):
            if hasattr(self, name):
                delattr(self, name)
