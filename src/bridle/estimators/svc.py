"""SVC: support vector classification with kernels, with a proof of its accuracy.

    min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.phi(x_i) + b)),   phi(a).phi(b) = K(a, b),

with b free, as in LIBSVM: once for two classes; for more, once for each pair of classes or once for
each class against the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from bridle.errors import ModelError
from bridle.estimators.base import (
    LARGEST_C,
    Certified,
    GapWarning,
    advised,
    checked_labels,
    interruptible,
    provenance_of,
    seed_from,
    stop_of,
    validate_data,
    watcher_of,
)
from bridle.fitting.calibration import Calibration
from bridle.fitting.fit import Extras, Fit, fit
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import KernelChoice, KernelProblems, Task
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.matrix.threads import check_threads
from bridle.models.calibration import Calibrator, calibrator_from, class_probabilities
from bridle.models.deciding import class_scores, decide, pairs, votes, whole_votes
from bridle.models.kernel import KernelModel
from bridle.objective.bias import Bias
from bridle.objective.kernels import Kernel, KernelFunction
from bridle.rows.cuda.device import Where, find_device, missing
from bridle.rows.cuda.gram import scores_on
from bridle.rows.gram import kernel_matrix
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.solution import Keep
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

Indices = NDArray[np.intp]

MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C",
}  # fmt: skip
# Kernel values that are held at once when predicting.
_BLOCK = 2**22


def _has_probability(estimator: SVC) -> bool:
    if estimator.probability is False:
        raise AttributeError(
            "predict_proba is not available when probability=False: set probability=True"
        )
    return True


def _counted(sample_weight: Any, y: Any) -> Any:
    """Weights as scikit-learn's SVC takes them: rows with negative ones do not count."""
    if sample_weight is None or np.isscalar(sample_weight):
        return sample_weight
    weights = np.maximum(np.asarray(sample_weight, np.float64), 0.0)
    if weights.shape != (len(y),) or np.isnan(weights).any():
        return sample_weight  # refused where all others are
    if not weights.any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    if len(np.unique(np.asarray(y)[weights > 0])) < 2:
        raise ValueError(
            "Invalid input - all samples with positive weights belong to the same class: there "
            "must be rows of at least two classes, got 1 class"
        )
    return weights


class KernelWeights:
    """`coef_` of kernel machines, whose `_coefficients` has a row for each function."""

    kernel: Any
    support_vectors_: Any
    _coefficients: Array

    @property
    def coef_(self) -> Any:
        """The weights of each machine, for the linear kernel."""
        if self.kernel != "linear" and getattr(self.kernel, "name", None) != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        check_is_fitted(self)
        weights = self._coefficients @ self.support_vectors_
        if not is_sparse(self.support_vectors_):
            weights.flags.writeable = False
            return weights
        from scipy.sparse import csr_matrix

        sparse = csr_matrix(weights)
        sparse.data.flags.writeable = False
        return sparse


class SVC(Certified, KernelWeights, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel support vector classification with a certified duality gap.

    Parameters
    ----------
    C : weight of the losses against 1/2 |w|^2; infinity is taken as 1e10.
    kernel : "linear", "rbf", "poly", "sigmoid", "precomputed", a Kernel of your own,
        or a function of two matrices.
    degree, gamma, coef0 : of the kernel. gamma "scale" is 1 / (n_features X.var()), "auto"
        1 / n_features.
    solver : a name or a solver object for kernel problems; "auto" is smo.
    tol : the certified relative duality gap (P - D) / P at which to stop. With solver="auto" it is
        an upper bound: up to 500 rows are solved to the limit of precision.
    bias : "free" (as in LIBSVM), "regularised" or "none".
    class_weight : {class: weight} or "balanced"; multiplies C for the rows of the class.
    multi_class : "ovo" trains a machine for each pair of classes, "ovr" one for each class.
    decision_function_shape : with "ovo" machines, "ovr" turns their votes into one score for each
        class, "ovo" gives the scores of the pairs.
    break_ties : whether `predict` decides between classes of as many votes by their scores; else
        the first of them wins, as in LIBSVM.
    probability : False, or "platt" (True is the same) or "isotonic" for `predict_proba`, as in
        LinearSVC: a fit then takes about six times as long.
    shrinking : means nothing here, accepted as scikit-learn's.
    cache_size : megabytes for kernel rows; None: 500, on a GPU most of its free memory.
    device : where to compute: "cpu", "cuda" (a GPU, with CuPy) or "auto", what is predicted to take
        less time. `place_` says which it was, and why.
    max_iter, max_seconds : budgets for epochs of each machine (-1: none) and seconds of the fit.
    callback : a function of the newest Record; returning True ends the fit, with the best model so
        far and its gap.
    random_state : for stochastic solvers.
    verbose : 1 prints a line for each machine.
    n_threads, n_jobs, interrupt : as in LinearSVC. The result does not depend on the threads.
    keep : which weights to return: the "best" of those that were certified, by their primal value,
        or the "final" ones, the last that the solver proposed; see `bridle.solve`.

    Attributes
    ----------
    support_, support_vectors_, n_support_ : rows that some machine uses, in the order of classes.
    dual_coef_ : alpha_i y_i of the support vectors. "ovo": (n_classes - 1, n_support), row by row
        the other classes in order, as in scikit-learn; else one row for each machine. Sparse if X
        is, as support_vectors_ are.
    coef_ : with the linear kernel, the weights of each machine; read-only.
    intercept_ : of each machine.
    certificate_ : primal and dual value, summed over the machines; `certificates_`: each one's.
    loo_error_bounds_ : of each machine: no more than this part of its rows is misclassified when
        left out (Joachims' xi-alpha estimate).
    n_iter_ : epochs of each machine.
    calibrators_ : with probability, the map from scores to probabilities of each machine.
    status_, message_, place_, classes_, n_features_in_, feature_names_in_ : as in LinearSVC.

    Rows with a negative sample_weight do not count, as those of weight 0, and as in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(100, noise=0.1, random_state=0)
    >>> bridle.SVC(C=10.0, gamma=2.0).fit(X, y).score(X, y)
    1.0
    """

    classes_: NDArray[Any]
    support_: Indices
    dual_coef_: Any  # dense, or CSR if X was
    intercept_: Array
    n_features_in_: int
    calibrators_: list[Calibrator]
    _model_kind = "kernel"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | KernelFunction | Kernel = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        bias: Bias = "free",
        class_weight: Mapping[Any, float] | str | None = None,
        multi_class: Literal["ovo", "ovr"] = "ovo",
        decision_function_shape: Literal["ovo", "ovr"] = "ovr",
        break_ties: bool = False,
        probability: Literal["platt", "isotonic"] | bool = False,
        shrinking: bool = True,
        cache_size: float | None = None,
        max_iter: int = -1,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        keep: Keep = "best",
        device: Where = "cpu",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.solver = solver
        self.tol = tol
        self.bias = bias
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.keep = keep
        self.device = device
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @interruptible
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None) -> SVC:
        """Train on the rows of X; with kernel="precomputed" X is the matrix K."""
        for name in ("multi_class", "decision_function_shape"):
            if getattr(self, name) not in ("ovo", "ovr"):
                raise ValueError(f'{name} must be "ovo" or "ovr", got {getattr(self, name)!r}')
        X, labels = validate_data(self, X, y, **MATRIX)
        if is_sparse(X) and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported: give a dense matrix")
        sample_weight = _counted(sample_weight, labels)
        choice = KernelChoice(self.kernel, self.gamma, self.degree, self.coef0, self.cache_size)
        found = fit(
            X, checked_labels(labels), sample_weight=sample_weight,
            task=Task(
                min(self.C, LARGEST_C), "hinge", self.bias, multi_class=self.multi_class,
                class_weight=self.class_weight, kernel=choice,
            ),
            effort=Effort(
                self.solver, stop_of(self.tol, self.max_iter, self.max_seconds),
                seed_from(self.random_state), self._threads, watcher_of(self.callback),
                keep=self.keep, device=self.device,
            ),
            extras=Extras(calibration=self._calibration()),
        )  # fmt: skip
        self._keep(X, found)
        for k, solution in enumerate(found.solutions.solutions):
            if self.verbose:
                print(f"{self._about(found, k)}: {solution.message}")
            self._warn(found, k)
        return self

    def to_model(self) -> KernelModel:
        """For `save_model`."""
        check_is_fitted(self)
        return KernelModel(
            kernel=self.kernel_, support=self.support_vectors_,
            coefficients=np.ascontiguousarray(self._coefficients), intercept=self.intercept_,
            classes=self.classes_, certificates=tuple(self.certificates_),
            multi_class=self.multi_class, **self._provenance,
        )  # fmt: skip

    @classmethod
    def from_model(cls, model: KernelModel) -> Self:
        """A fitted estimator with these support vectors, which needs none of the other rows."""
        known: dict[str, Any] = {
            "C": model.objective.C, "bias": model.objective.bias, "kernel": model.kernel,
            "multi_class": model.multi_class, "break_ties": model.breaks_ties,
        }  # fmt: skip
        estimator = cls(**known)
        if model.scale is not None:
            raise ModelError("a kernel model of scaled features: use bridle.load_model")
        estimator.kernel_, estimator.classes_ = model.kernel, model.classes
        estimator.place_ = "cpu"
        estimator.support_vectors_, estimator._coefficients = model.support, model.coefficients
        estimator.intercept_, estimator.n_features_in_ = model.intercept, model.n_features
        estimator.certificates_ = list(model.certificates)
        estimator.certificate_, estimator._provenance = model.certificate, provenance_of(model)
        estimator._keep_calibrators(model.info)
        return estimator

    def decision_function(self, X: Any) -> Array:
        """Scores: (n,) for two classes, else one column for each class or for each pair."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        if self.multi_class == "ovr" or self.decision_function_shape == "ovo":
            return scores
        return votes(scores, len(self.classes_))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: by the votes of the pairs, equal ones as `break_ties` says."""
        ovo = self.multi_class == "ovo" and len(getattr(self, "classes_", ())) > 2
        if self.break_ties and ovo and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        scores = class_scores(self._scores(X), self.multi_class, len(self.classes_))
        if ovo and not self.break_ties:
            scores = whole_votes(scores)
        labels: NDArray[Any] = self.classes_[decide(scores)]
        return labels

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`; each row sums to 1."""
        scores = self._scores(X)
        if not hasattr(self, "calibrators_"):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False, nor after a "
                "calibration that was interrupted: fit again"
            )
        return class_probabilities(self.calibrators_, scores, len(self.classes_), self.multi_class)

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _calibration(self) -> Calibration | None:
        if self.probability is False:
            return None
        method = "platt" if self.probability is True else str(self.probability)
        return Calibration(method, watcher_of(self.callback))

    def _keep_calibrators(self, info: Mapping[str, Any]) -> None:
        if hasattr(self, "calibrators_"):
            del self.calibrators_
        if "calibrators" in info:
            self.calibrators_ = [calibrator_from(entry) for entry in info["calibrators"]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _about(self, found: Fit, k: int) -> str:
        positive, negative = found.problems.sides(k)
        if len(self.classes_) == 2:
            negative = 0
        other = "the rest" if negative is None else self.classes_[negative]
        return f"{self.classes_[positive]} against {other}"

    def _warn(self, found: Fit, k: int) -> None:
        solution, problems = found.solutions.solutions[k], found.problems
        assert isinstance(problems, KernelProblems)
        if solution.certificate.relative_gap <= self.tol:
            return
        why, indefinite = solution.message, problems.indefinite[k]
        if indefinite is not None:
            why = (
                f"the {self.kernel_.name} kernel is not positive semi-definite ({indefinite}): "
                "the answer is a stationary point, without a bound"
            )
        else:
            why = advised(why, solution.status)
        message = f"{self._about(found, k)}: {why}"
        warnings.warn(GapWarning(message, solution.certificate, self.tol), stacklevel=4)

    def _keep(self, X: Any, found: Fit) -> None:
        problems, solutions = found.problems, found.solutions
        assert isinstance(problems, KernelProblems)
        coefficients = np.zeros((len(problems), X.shape[0]))
        for k, solution in enumerate(solutions.solutions):
            if solution.w.centres is not None:
                raise ValueError(
                    f"{solution.solver} answers with vectors that are not rows of X, which SVC "
                    'cannot keep; choose its maintenance "removal" or "projection"'
                )
            coefficients[k][problems.rows_of(k)] = solution.w.coefficients
        self.kernel_, self.classes_ = problems.kernel, found.labels.classes
        codes, used = problems.codes(), np.flatnonzero(coefficients.any(axis=0))
        self.support_ = used[np.argsort(codes[used], kind="stable")]
        self.n_support_ = np.bincount(codes[self.support_], minlength=len(self.classes_))
        self.support_vectors_ = np.empty((0, 0)) if self.kernel_.given else X[self.support_]
        self._coefficients = coefficients[:, self.support_]
        self.dual_coef_ = self._coefficients
        if len(self.classes_) > 2 and self.multi_class == "ovo":
            self.dual_coef_ = _by_other_class(self._coefficients, codes[self.support_])
        if is_sparse(X):
            from scipy.sparse import csr_matrix

            self.dual_coef_ = csr_matrix(self.dual_coef_)
        self.intercept_ = solutions.intercept
        self.certificates_ = [solution.certificate for solution in solutions.solutions]
        self.certificate_ = solutions.certificate
        self.traces_ = [solution.trace for solution in solutions.solutions]
        worst = max(solutions.solutions, key=lambda s: s.certificate.relative_gap)
        self.status_, self.message_, self.solver_ = worst.status, worst.message, worst.solver
        self.place_ = worst.place
        epochs = [np.ceil(solution.epochs) for solution in solutions.solutions]
        self.n_iter_ = np.array(epochs, dtype=np.int32)
        self.loo_error_bounds_ = problems.loo_error_bounds
        info = found.provenance["info"] | found.calibration_info
        if len(self.classes_) > 2 and self.multi_class == "ovo":
            info = info | {"break_ties": self.break_ties}
        self._provenance = found.provenance | {"info": info}
        self._keep_calibrators(info)
        self.weighted_ = found.weighted

    def _scores(self, X: Any) -> Array:
        """The score of each row by each machine."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **MATRIX)
        n_threads = check_threads(self._threads)
        out, n_support = np.tile(self.intercept_, (X.shape[0], 1)), self._coefficients.shape[1]
        if n_support == 0:
            return out
        if self.place_.startswith("cuda") and missing() is None:  # a model may move
            support, coefficients = self.support_vectors_, self._coefficients
            return out + scores_on(find_device(), self.kernel_, X, support, coefficients)
        step = max(1, _BLOCK // n_support)
        for begin in range(0, X.shape[0], step):
            part = X[begin : begin + step]
            if self.kernel_.given:
                values = np.asarray(part[:, self.support_], dtype=np.float64)
            else:
                values = kernel_matrix(self.kernel_, part, self.support_vectors_, n_threads)
            out[begin : begin + step] += values @ self._coefficients.T
        return out


def _by_other_class(coefficients: Array, codes: Indices) -> Array:
    """scikit-learn's layout: a support vector's column lists its pairs by the other class."""
    n_classes = int((1 + np.sqrt(1 + 8 * len(coefficients))) / 2)
    table = np.zeros((n_classes - 1, len(codes)))
    for row, (i, j) in zip(coefficients, pairs(n_classes), strict=True):  # i < j
        table[j - 1, codes == i] = row[codes == i]
        table[i, codes == j] = row[codes == j]
    return table
