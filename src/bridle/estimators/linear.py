"""LinearSVC: linear support vector classification, one versus rest, with a proof of its accuracy.

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)),   C_i = C sample_weight_i class_weight[y_i],

once for two classes, and once for each class against the others for more.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from bridle import _core
from bridle.calibration import METHODS, Calibrator, fit_calibrator, probabilities
from bridle.certificate import Record, total_trace
from bridle.estimators.base import (
    GapWarning,
    Point,
    encode_labels,
    row_weights,
    seed_from,
    with_class_weight,
)
from bridle.folds import deal, held_out_scores
from bridle.losses import Loss
from bridle.model_io import LinearModel, ModelError, load_model, save_model
from bridle.ovr import OneVsRest, Watcher, solve_one_vs_rest
from bridle.problem import Bias
from bridle.rows import view_rows
from bridle.solvers import Solver
from bridle.stopping import Epochs, Gap, Seconds, Status, Stop
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]

# Read in place: anything else is converted. The core looks for NaN and infinity, in its own pass.
_MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C",
    "ensure_all_finite": False,
}  # fmt: skip

CALIBRATION_FOLDS = 5


def _has_probability(estimator: LinearSVC) -> bool:
    if estimator.probability is False:
        raise AttributeError('there are no probabilities: set probability="platt" or "isotonic"')
    return True


class LinearSVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear support vector classification with a certified duality gap.

    Parameters
    ----------
    C : weight of the losses against 1/2 |w|^2.
    loss : "hinge" or "squared_hinge", or a loss object.
    solver : a name from the registry or a solver object, e.g. Pegasos(batch=100).
    tol : the certified relative duality gap (P - D) / P at which to stop. With solver="auto" it is
        an upper bound: small problems are solved by a direct method, to the limit of precision.
    fit_intercept, bias : bias=None follows fit_intercept: "regularised" (the intercept is the
        weight of a constant feature, as in scikit-learn's and LIBLINEAR's) or "none"; "free" leaves
        the intercept unpenalised.
    intercept_scaling : the value of that constant feature.
    class_weight : {class: weight} or "balanced"; multiplies C for the rows of the class.
    max_iter, max_seconds : budgets for epochs (per class) and for seconds (of the whole fit).
    random_state : int, RandomState or None.
    warm_start : go on from the previous fit: from its dual point where the rows are as many as
        then, else from its weights, which solvers in the dual cannot use.
    verbose : 1 prints a line at each certificate.
    n_threads : for classes in parallel, and for the passes over the data; None takes all cores.
        The result does not depend on it.
    store_dual : whether to keep `dual_coef_`; None keeps it for two classes and with warm_start.
    probability : False, or "platt" or "isotonic" for `predict_proba`: calibrated on the scores of
        rows by models that have not seen them, from five folds. A fit then takes six times as long;
        max_seconds is shared out evenly. Rows count by their sample_weight, not by class_weight.

    Attributes
    ----------
    coef_, intercept_ : (n_problems, n_features) and (n_problems,), with one problem for two classes
        and else one for each class.
    classes_ : the labels, in order.
    dual_coef_ : (n_problems, n_rows), alpha_i y_i: coef_ = dual_coef_ @ X at the optimum.
    certificate_ : primal and dual value, summed over the problems; `certificates_`: each one's.
    trace_ : how they came about, summed over the problems; `traces_`: each one's.
    status_, message_ : how the fit ended: the worst of the problems' endings.
    n_iter_ : epochs, the most of any problem.
    weighted_ : whether rows or classes had weights.
    calibrators_ : with probability, the map from scores to probabilities of each problem.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    """

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array
    dual_coef_: Array
    n_features_in_: int
    calibrators_: list[Calibrator]
    weighted_: bool  # whether rows or classes had weights, which model files do not hold

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str | Loss = "hinge",
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        fit_intercept: bool = True,
        bias: Bias | None = None,
        intercept_scaling: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_threads: int | None = None,
        store_dual: bool | None = None,
        probability: Literal["platt", "isotonic", False] = False,
    ) -> None:
        self.C = C
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.bias = bias
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_threads = n_threads
        self.store_dual = store_dual
        self.probability = probability

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None
    ) -> LinearSVC:
        """Train on the rows of X, which is not copied if it is CSR or C-contiguous floats.

        Ctrl-C ends the fit after the epoch at hand, with a model and its gap.
        """
        X, labels = validate_data(self, X, y, **_MATRIX)
        weights = row_weights(sample_weight, X.shape[0])
        classes, codes = encode_labels(labels, weights)
        self._fit(X, classes, codes, weights, self.C)
        return self

    def _fit(
        self,
        X: Any,
        classes: NDArray[Any],
        codes: NDArray[np.intp],
        weights: Array | None,
        C: float,
    ) -> None:
        if self.probability is not False and self.probability not in METHODS:
            raise ValueError(
                f"probability must be one of {METHODS} or False, got {self.probability!r}"
            )
        seed = seed_from(self.random_state)
        options: dict[str, Any] = {
            "loss": self.loss, "bias": self._bias(), "bias_scale": self.intercept_scaling,
            "n_threads": self.n_threads, "solver": self.solver, "stop": self._stop(), "seed": seed,
        }  # fmt: skip
        found = solve_one_vs_rest(
            X, codes, len(classes), C, watch=self._watcher(classes),
            sample_weight=with_class_weight(weights, self.class_weight, classes, codes),
            start=self._starts(classes, X.shape), **options,
        )  # fmt: skip
        self._keep(found, classes, codes)
        self.weighted_ = weights is not None or self.class_weight is not None
        self._warn()
        if hasattr(self, "calibrators_"):
            del self.calibrators_
        if self.probability is not False and found.status is not Status.INTERRUPTED:
            self._calibrate(X, codes, weights, C, seed, options)

    def _calibrate(
        self,
        X: Any,
        codes: NDArray[np.intp],
        weights: Array | None,
        C: float,
        seed: int,
        options: dict[str, Any],
    ) -> None:
        """Fit the maps from scores to probabilities, on scores by models without the row."""
        row = np.ones(len(codes)) if weights is None else weights
        counted = np.where(row > 0, codes, -1)
        folds = deal(counted, CALIBRATION_FOLDS, seed)

        def training(mask: NDArray[np.bool_]) -> Array | None:
            own = np.where(mask, row, 0.0)
            return with_class_weight(own, self.class_weight, self.classes_, codes)

        n_classes = len(self.classes_)
        held = held_out_scores(X, counted, n_classes, C, folds, training, **options)
        if held.interrupted:
            return
        if held.worst_gap > self.tol:
            warnings.warn(
                f"a fold of the calibration ended early: {held.message}",
                ConvergenceWarning,
                stacklevel=4,
            )
        used = folds >= 0
        positives = [1] if n_classes == 2 else range(n_classes)
        self.calibrators_ = [
            fit_calibrator(str(self.probability), held.scores[used, k], codes[used] == c, row[used])
            for k, c in enumerate(positives)
        ]

    def decision_function(self, X: Any) -> Array:
        """w.x + b for each row: of one shape (n,) for two classes, else (n, n_classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_MATRIX)
        n_threads = _core.hardware_threads() if self.n_threads is None else self.n_threads
        rows = view_rows(X, 1.0)
        out = np.empty((len(self.coef_), X.shape[0]))
        _core.scan(rows, out[0], n_threads)  # indices within bounds, values finite
        for k, (w, b) in enumerate(zip(self.coef_, self.intercept_, strict=True)):
            _core.scores(rows, np.append(w, b), out[k], n_threads)
        return out[0] if len(self.classes_) == 2 else out.T

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[best]
        return labels

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`; each row sums to 1."""
        scores = self.decision_function(X)
        if not hasattr(self, "calibrators_"):
            raise NotFittedError(
                "there are no probabilities: the calibration was interrupted, or `probability` was "
                "set after the fit; fit again"
            )
        return probabilities(self.calibrators_, scores)

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, which the command line reads too."""
        check_is_fitted(self)
        save_model(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LinearSVC:
        """A fitted estimator from a model file, whoever wrote it: `save` or the command line."""
        model = load_model(path)
        if not isinstance(model, LinearModel):
            raise ModelError(
                f"{os.fsdecode(path)}: a model of kind {model.kind!r}, not a linear one"
            )
        estimator: LinearSVC = model.to_estimator()
        return estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _bias(self) -> Bias:
        if self.bias is not None:
            return self.bias
        return "regularised" if self.fit_intercept else "none"

    def _stop(self) -> Stop:
        stop = Gap(self.tol) | Epochs(self.max_iter)
        if self.max_seconds is None:
            return stop
        shares = 1 if self.probability is False else CALIBRATION_FOLDS + 1
        return stop | Seconds(self.max_seconds / shares)

    def _starts(self, classes: NDArray[Any], shape: tuple[int, int]) -> list[Point] | None:
        """Where to go on from, one point for each problem; None to start afresh."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        n_rows, n_features = shape
        if not np.array_equal(self.classes_, classes) or self.coef_.shape[1] != n_features:
            return None
        signed = getattr(self, "dual_coef_", None)
        if signed is not None and signed.shape[1] != n_rows:
            signed = None
        return [
            Point(w, float(b), None if signed is None else np.abs(signed[k]))
            for k, (w, b) in enumerate(zip(self.coef_, self.intercept_, strict=True))
        ]

    def _watcher(self, classes: NDArray[Any]) -> Watcher | None:
        if not self.verbose:
            return None

        def report(k: int, record: Record) -> None:
            prefix = f"class {classes[k]}: " if len(classes) > 2 else ""
            print(
                f"{prefix}epoch {record.epoch:.4g}, primal {record.primal:.6g}, "
                f"certified gap {record.relative_gap:.1e}"
            )

        return report

    def _keep(self, found: OneVsRest, classes: NDArray[Any], codes: NDArray[np.intp]) -> None:
        solutions = found.solutions
        self.classes_ = classes
        self.coef_, self.intercept_ = found.coef, found.intercept
        store = self.store_dual
        if store is None:
            store = len(classes) == 2 or self.warm_start
        if store:
            positive = [1] if len(classes) == 2 else range(len(classes))
            self.dual_coef_ = np.stack(
                [np.where(codes == k, s.alpha, -s.alpha)
                 for k, s in zip(positive, solutions, strict=True)]
            )  # fmt: skip
        elif hasattr(self, "dual_coef_"):
            del self.dual_coef_
        self.certificates_ = [s.certificate for s in solutions]
        self.certificate_ = found.certificate
        self.traces_ = [s.trace for s in solutions]
        self.trace_ = total_trace(self.traces_)
        self.n_iter_ = int(np.ceil(found.epochs))
        self.status_ = found.status
        self.message_ = self._message(found)

    def _message(self, found: OneVsRest) -> str:
        """What to say of the fit: how the problem ended that ended worst."""
        n = len(found.solutions)
        if n == 1:
            return found.worst.message
        about = f"class {self.classes_[found.worst_index]} {found.worst.message}"
        short = sum(not s.converged for s in found.solutions)
        if short:
            return f"{short} of {n} classes fell short; the farthest, {about}"
        return f"all {n} classes converged; the farthest, {about}"

    def _warn(self) -> None:
        worst = max(self.certificates_, key=lambda c: c.relative_gap)
        if worst.relative_gap <= self.tol:
            return
        hint = "raise max_iter or max_seconds, scale the features, or lower C"
        warnings.warn(GapWarning(f"{self.message_} ({hint})", worst, self.tol), stacklevel=4)
