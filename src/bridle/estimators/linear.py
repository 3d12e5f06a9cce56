"""LinearSVC: linear support vector classification, with a proof of its accuracy.

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)),   C_i = C sample_weight_i class_weight[y_i],

once for two classes; for more, once for each class against the others, once for each pair of them,
or all in one problem (see `bridle.solving.many`).
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from bridle.errors import ModelError
from bridle.estimators.base import (
    Certified,
    GapWarning,
    Point,
    encode_labels,
    ending,
    row_weights,
    seed_from,
    with_class_weight,
)
from bridle.estimators.stored import fit_stored, is_stored
from bridle.fitting.calibration import fit_calibrators
from bridle.fitting.classes import Machines, Validation, Weights
from bridle.fitting.folds import deal, held_out_scores, hold_out
from bridle.fitting.multiclass import solve_multiclass
from bridle.fitting.one_vs_one import rows_of
from bridle.matrix.door import is_sparse
from bridle.models.calibration import METHODS, Calibrator, class_probabilities
from bridle.models.deciding import (
    MultiClass,
    about,
    check_multi_class,
    class_scores,
    decide,
    n_functions,
    n_problems,
    pairs,
)
from bridle.models.linear import LinearModel
from bridle.models.storage import load_model
from bridle.objective.bias import Bias
from bridle.objective.certificate import Record, total_trace
from bridle.objective.losses import Loss
from bridle.rows.cluster.dask_rows import is_remote
from bridle.rows.scoring import function_scores
from bridle.solvers import Solver
from bridle.solving.loop import Callback
from bridle.solving.many import Keep, Watcher, without_dual
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, Gap, Seconds, Status, Stop
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

# So many scores are held at once while predicting.
_BLOCK = 2**20


def _has_probability(estimator: LinearSVC) -> bool:
    if estimator.probability is False:
        raise AttributeError('there are no probabilities: set probability="platt" or "isotonic"')
    return True


class LinearSVC(Certified, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
    multi_class : "ovr", a machine for each class against the rest; "ovo", one for each pair of
        classes; "crammer_singer", all classes in one problem, which has the hinge loss, no free
        intercept, no warm start and no `dual_coef_`.
    store_dual : whether to keep `dual_coef_`; None keeps it for two classes and with warm_start.
    sparse_coef : keep `coef_` as a CSR matrix, class by class as they are solved: for many classes.
        The same as `sparsify()` after the fit, at a lower peak of memory.
    early_stopping : stop where the loss on rows held out stops falling, and take the weights of
        the epoch where it was lowest, with the gap that those certify. `tol` still ends a fit.
    validation_fraction : the part of each class that is held out, and not learned from.
    n_iter_no_change : epochs to wait for a lower loss.
    callback : a function of the newest Record, called at each certificate; returning True ends the
        fit, with the best model so far and its gap: for deadlines, progress bars and plots. Several
        problems may call it from several threads, one at a time.
    probability : False, or "platt" or "isotonic" for `predict_proba`: calibrated on the scores of
        rows by models that have not seen them, from five folds. A fit then takes six times as long;
        max_seconds is shared out evenly. Rows count by their sample_weight, not by class_weight.

    Attributes
    ----------
    coef_, intercept_ : (n_functions, n_features) and (n_functions,): one function for two classes,
        else one for each class, or with "ovo" for each pair (0, 1), (0, 2), ... of classes, where
        the first one is positive.
    classes_ : the labels, in order.
    dual_coef_ : (n_functions, n_rows), alpha_i y_i: coef_ = dual_coef_ @ X at the optimum.
    certificate_ : primal and dual value, summed over the problems; `certificates_`: each one's.
        "crammer_singer" is one problem, with one certificate.
    trace_ : how they came about, summed over the problems; `traces_`: each one's.
    status_, message_ : how the fit ended: the worst of the problems' endings.
    n_iter_ : epochs, the most of any problem.
    weighted_ : whether rows had weights, by themselves, by their classes or since some of them were
        held out.
    calibrators_ : with probability, the map from scores to probabilities of each function.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    """

    classes_: NDArray[Any]
    coef_: Any  # dense, or CSR after sparsify()
    intercept_: Array
    dual_coef_: Array
    n_features_in_: int
    calibrators_: list[Calibrator]
    weighted_: bool  # whether rows or classes had weights, which model files do not hold
    # Of subclasses that have no such parameters.
    multi_class: MultiClass = "ovr"
    sparse_coef: bool = False
    early_stopping: bool = False
    callback: Callback | None = None

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
        multi_class: MultiClass = "ovr",
        store_dual: bool | None = None,
        sparse_coef: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        callback: Callback | None = None,
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
        self.multi_class = multi_class
        self.store_dual = store_dual
        self.sparse_coef = sparse_coef
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.callback = callback
        self.probability = probability

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | float | None = None,
    ) -> LinearSVC:
        """Train on the rows of X, which is not copied if it is CSR or C-contiguous floats.

        X may be rows on disk, a StoredRows or ArrowRows, which have their labels and weights; or on
        a cluster: DaskRows, or a collection of Dask, for the current client (see docs/scale.md).
        Ctrl-C ends the fit after the epoch at hand, with a model and its gap.
        """
        if is_stored(X):
            self._check_options()
            fit_stored(self, X, y, sample_weight)
            return self
        if is_remote(X):
            from bridle.estimators.on_cluster import fit_linear_svc

            fit_linear_svc(self, X, y, sample_weight)
            return self
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
        stop: Stop | None = None,
    ) -> None:
        self._check_options()
        seed = seed_from(self.random_state)
        options: dict[str, Any] = {
            "multi_class": self.multi_class, "loss": self.loss, "bias": self._bias(),
            "bias_scale": self.intercept_scaling, "n_threads": self.n_threads,
            "solver": self.solver, "stop": stop or self._stop(), "seed": seed,
        }  # fmt: skip
        costs = with_class_weight(weights, self.class_weight, classes, codes)
        validation = None
        if self.early_stopping:
            validation, costs = self._set_aside(X, codes, weights, costs, seed)
        shelf = None
        if self.multi_class != "crammer_singer":
            n = n_functions(self.multi_class, len(classes))
            shelf = Weights(n, X.shape[1], sparse=self.sparse_coef)
        found = solve_multiclass(
            X, codes, len(classes), C, watch=self._watcher(classes), sample_weight=costs,
            start=self._starts(classes, codes, costs, X.shape[1]),
            keep=self._keeper(len(classes), shelf), validation=validation, **options,
        )  # fmt: skip
        self._keep(found, classes, codes, costs)
        self.coef_ = found.coef if shelf is None else shelf.coef()
        if self.sparse_coef:
            self.sparsify()
        self.weighted_ = costs is not None
        self._warn()
        if hasattr(self, "calibrators_"):
            del self.calibrators_
        if self.probability is not False and found.status is not Status.INTERRUPTED:
            self._calibrate(X, codes, weights, C, seed, options)

    def _set_aside(
        self,
        X: Any,
        codes: NDArray[np.intp],
        weights: Array | None,
        costs: Array | None,
        seed: int,
    ) -> tuple[Validation, Array]:
        """Rows to stop by, and the costs of the others: those set aside have none."""
        row = np.ones(len(codes)) if weights is None else weights
        rows = hold_out(np.where(row > 0, codes, -1), self.validation_fraction, seed)
        if not len(rows):
            raise ValueError("early_stopping needs a class of two rows or more")
        rest = np.ones(len(codes)) if costs is None else costs.copy()
        held = rest[rows].copy()
        rest[rows] = 0.0
        return Validation(X[rows], codes[rows], held, self.n_iter_no_change), rest

    def _check_options(self) -> None:
        check_multi_class(self.multi_class)
        if self.probability is not False and self.probability not in METHODS:
            raise ValueError(
                f"probability must be one of {METHODS} or False, got {self.probability!r}"
            )
        if self.early_stopping and self.probability is not False:
            raise ValueError(
                "early_stopping and probability cannot be combined: calibrate a fit that stops "
                "early with scikit-learn's CalibratedClassifierCV"
            )
        if self.multi_class == "crammer_singer" and (self.store_dual or self.warm_start):
            name = "store_dual" if self.store_dual else "warm_start"
            raise ValueError(
                f'{name} needs one dual variable for each row, which multi_class="crammer_singer" '
                f"does not have"
            )

    def _stores_dual(self, n_classes: int) -> bool:
        if self.store_dual is None:
            two = n_classes == 2 and self.multi_class != "crammer_singer"
            return two or self.warm_start
        return self.store_dual

    def _keeper(self, n_classes: int, shelf: Weights | None) -> Keep:
        """What to keep of each solution: with many classes the rest must go at once."""
        stores = self._stores_dual(n_classes)

        def keep(k: int, solution: Solution) -> Solution:
            if not stores:
                solution = without_dual(k, solution)
            return solution if shelf is None else shelf.take(k, solution)

        return keep

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
        told = ending(self.callback)
        held = held_out_scores(
            X, counted, n_classes, C, folds, training,
            watch=None if told is None else lambda _, record: told(record), **options,
        )  # fmt: skip
        if held.interrupted:
            return
        if held.worst_gap > self.tol:
            warnings.warn(
                f"a fold of the calibration ended early: {held.message}",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.calibrators_ = fit_calibrators(
            str(self.probability), held.scores, codes, n_classes, self.multi_class,
            np.where(folds >= 0, row, 0.0),
        )  # fmt: skip

    def _sides(self, k: int) -> tuple[int, int | None]:
        """The positive and the negative class of function k; None for all the rest."""
        n_classes = len(self.classes_)
        if self.multi_class == "ovo":
            return pairs(n_classes)[k]
        return (1, None) if n_classes == 2 else (k, None)

    def decision_function(self, X: Any) -> Array:
        """w.x + b for each row: of one shape (n,) for two classes, else (n, n_classes).

        With "ovo" a class has as many points as it wins pairs, and a fraction that orders equals.
        Of a collection of Dask, this and the other predictions are lazy.
        """
        if is_remote(X):
            n = len(self.classes_)
            lazy: Array = self._on_blocks(
                self.decision_function, X, np.float64, None if n == 2 else n
            )
            return lazy
        return class_scores(self._function_scores(X), self.multi_class, len(self.classes_))

    def _function_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_MATRIX)
        return function_scores(X, self.coef_, self.intercept_, self.n_threads)

    def _on_blocks(self, method: Any, X: Any, dtype: Any, width: int | None) -> Any:
        from bridle.estimators.on_cluster import on_blocks

        check_is_fitted(self)
        return on_blocks(method, X, dtype, width)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy, also on collections of Dask."""
        if not is_remote(X):
            return float(super().score(X, y, sample_weight))
        from bridle.estimators.on_cluster import score

        return score(self.predict(X), y, sample_weight)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        check_is_fitted(self)
        if is_remote(X):
            labels_of_blocks: NDArray[Any] = self._on_blocks(
                self.predict, X, self.classes_.dtype, None
            )
            return labels_of_blocks
        X = validate_data(self, X, reset=False, **_MATRIX)
        best = np.empty(X.shape[0], np.intp)
        step = max(1, _BLOCK // self.coef_.shape[0])
        for begin in range(0, X.shape[0], step):
            part = X if step >= X.shape[0] else X[begin : begin + step]
            scores = function_scores(part, self.coef_, self.intercept_, self.n_threads)
            best[begin : begin + step] = decide(
                class_scores(scores, self.multi_class, len(self.classes_))
            )
        labels: NDArray[Any] = self.classes_[best]
        return labels

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`; each row sums to 1."""
        if is_remote(X):
            n = len(self.classes_)
            lazy: Array = self._on_blocks(self.predict_proba, X, np.float64, n)
            return lazy
        scores = self._function_scores(X)
        if not hasattr(self, "calibrators_"):
            raise NotFittedError(
                "there are no probabilities: the calibration was interrupted, or `probability` was "
                "set after the fit; fit again"
            )
        return class_probabilities(self.calibrators_, scores, len(self.classes_), self.multi_class)

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def sparsify(self) -> LinearSVC:
        """Keep `coef_` as a CSR matrix, which is smaller if more than half of it is zero."""
        check_is_fitted(self)
        if not is_sparse(self.coef_):
            from scipy.sparse import csr_matrix

            self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearSVC:
        """Keep `coef_` as an array again."""
        check_is_fitted(self)
        if is_sparse(self.coef_):
            self.coef_ = self.coef_.toarray()
        return self

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
        return stop if self.max_seconds is None else stop | self._share(self.max_seconds)

    def _share(self, seconds: float) -> Stop:
        """What the fit itself has of these seconds: calibration trains as often as it has folds."""
        return Seconds(seconds / (1 if self.probability is False else CALIBRATION_FOLDS + 1))

    def _starts(
        self,
        classes: NDArray[Any],
        codes: NDArray[np.intp],
        costs: Array | None,
        n_features: int,
    ) -> list[Point] | None:
        """Where to go on from, one point for each problem; None to start afresh."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        expected = (n_functions(self.multi_class, len(classes)), n_features)
        if not np.array_equal(self.classes_, classes) or self.coef_.shape != expected:
            return None
        signed = getattr(self, "dual_coef_", None)
        if signed is not None and signed.shape[1] != len(codes):
            signed = None
        rows = self._rows_of(codes, costs)
        coef = self.coef_.toarray() if is_sparse(self.coef_) else self.coef_
        return [
            Point(w, float(b), None if signed is None else np.abs(signed[k][rows(k)]))
            for k, (w, b) in enumerate(zip(coef, self.intercept_, strict=True))
        ]

    def _rows_of(self, codes: NDArray[np.intp], costs: Array | None) -> Callable[[int], Any]:
        """Which rows the dual variables of problem k belong to."""
        if self.multi_class != "ovo":
            return lambda k: slice(None)
        weights = np.ones(len(codes)) if costs is None else costs
        duels = pairs(int(codes.max()) + 1)
        return lambda k: rows_of(codes, duels[k], weights)

    def _watcher(self, classes: NDArray[Any]) -> Watcher | None:
        if not self.verbose and self.callback is None:
            return None
        several = n_problems(self.multi_class, len(classes)) > 1
        told, lock = ending(self.callback), threading.Lock()

        def report(k: int, record: Record) -> bool | None:
            if self.verbose:
                prefix = f"{about(self.multi_class, classes, k)}: " if several else ""
                print(
                    f"{prefix}epoch {record.epoch:.4g}, primal {record.primal:.6g}, "
                    f"certified gap {record.relative_gap:.1e}"
                )
            if told is None:
                return None
            with lock:
                return told(record)

        return report

    def _keep(
        self,
        found: Machines,
        classes: NDArray[Any],
        codes: NDArray[np.intp],
        costs: Array | None,
    ) -> None:
        solutions = found.solutions
        self._keep_certificates(found, classes)
        if self._stores_dual(len(classes)):
            self.dual_coef_ = np.zeros((len(solutions), len(codes)))
            rows = self._rows_of(codes, costs)
            for k, (signed, solution) in enumerate(zip(self.dual_coef_, solutions, strict=True)):
                signed[rows(k)] = solution.alpha
                signed[codes != self._sides(k)[0]] *= -1.0
        elif hasattr(self, "dual_coef_"):
            del self.dual_coef_

    def _keep_certificates(self, found: Machines, classes: NDArray[Any]) -> None:
        solutions = found.solutions
        self.classes_ = classes
        self.intercept_ = found.intercept
        self.certificates_ = [s.certificate for s in solutions]
        self.certificate_ = found.certificate
        self.traces_ = [s.trace for s in solutions]
        self.trace_ = total_trace(self.traces_)
        self.n_iter_ = int(np.ceil(found.epochs))
        self.status_, self.solver_ = found.status, found.worst.solver
        self.message_ = self._message(found)

    def _message(self, found: Machines) -> str:
        """What to say of the fit: how the problem ended that ended worst."""
        n = len(found.solutions)
        if n == 1:
            return found.worst.message
        name = about(self.multi_class, self.classes_, found.worst_index)
        many = "pairs" if self.multi_class == "ovo" else "classes"
        short = sum(not s.converged for s in found.solutions)
        how = f"{short} of {n} {many} fell short" if short else f"all {n} {many} converged"
        return f"{how}; the farthest, {name} {found.worst.message}"

    def _warn(self) -> None:
        worst = max(self.certificates_, key=lambda c: c.relative_gap)
        by_choice = self.early_stopping and self.status_ is Status.BUDGET
        if worst.relative_gap <= self.tol or by_choice:
            return
        hint = "raise max_iter or max_seconds, scale the features, or lower C"
        warnings.warn(GapWarning(f"{self.message_} ({hint})", worst, self.tol), stacklevel=4)
