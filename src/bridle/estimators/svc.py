"""SVC: support vector classification with kernels, with a proof of its accuracy.

    min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (w.phi(x_i) + b)),   phi(a).phi(b) = K(a, b),

with b free, as in LIBSVM: once for two classes; for more, once for each pair of classes or once for
each class against the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from bridle import _core
from bridle.estimators.base import (
    Certified,
    GapWarning,
    encode_labels,
    ending,
    row_weights,
    seed_from,
    stop_of,
    with_class_weight,
)
from bridle.fitting.leave_one_out import xi_alpha_bound
from bridle.fitting.polish import polish
from bridle.models.deciding import class_scores, decide, pairs, votes
from bridle.objective.bias import Bias
from bridle.objective.certificate import total
from bridle.objective.kernels import Kernel, KernelFunction, kernel_from
from bridle.objective.kernels.precomputed import Precomputed
from bridle.problems.kernel import KernelProblem
from bridle.rows.gram import kernel_matrix
from bridle.solvers import Solver
from bridle.solvers.smo import Smo
from bridle.solving.loop import Callback, solve
from bridle.solving.many import solve_each
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, Gap
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C",
}  # fmt: skip
# Up to so many rows "auto" goes on to the last digits.
_SMALL = 500
# Kernel values that are held at once when predicting.
_BLOCK = 2**22


@dataclass(frozen=True)
class _Task:
    """One two-class problem: which rows, their labels, and which class is which."""

    rows: Indices
    signs: Array
    positive: int
    negative: int | None  # None: all the rest


class SVC(Certified, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel support vector classification with a certified duality gap.

    Parameters
    ----------
    C : weight of the losses against 1/2 |w|^2.
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
    cache_size : megabytes for kernel rows.
    max_iter, max_seconds : budgets for epochs of each machine (-1: none) and seconds of the fit.
    callback : a function of the newest Record; returning True ends the fit, with the best model so
        far and its gap.
    random_state : for stochastic solvers.
    verbose : 1 prints a line for each machine.
    n_threads : None takes all cores. The result does not depend on it.

    Attributes
    ----------
    support_, support_vectors_, n_support_ : rows that some machine uses, in the order of classes.
    dual_coef_ : alpha_i y_i of the support vectors. "ovo": (n_classes - 1, n_support), row by row
        the other classes in order, as in scikit-learn; else one row for each machine.
    intercept_ : of each machine.
    certificate_ : primal and dual value, summed over the machines; `certificates_`: each one's.
    loo_error_bounds_ : of each machine: no more than this part of its rows is misclassified when
        left out (Joachims' xi-alpha estimate).
    status_, message_, n_iter_, classes_, n_features_in_, feature_names_in_ : as in LinearSVC.
    """

    classes_: NDArray[Any]
    support_: Indices
    dual_coef_: Array
    intercept_: Array
    n_features_in_: int

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
        cache_size: float = 500.0,
        max_iter: int = -1,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
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
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None) -> SVC:
        """Train on the rows of X; with kernel="precomputed" X is the matrix K."""
        for name in ("multi_class", "decision_function_shape"):
            if getattr(self, name) not in ("ovo", "ovr"):
                raise ValueError(f'{name} must be "ovo" or "ovr", got {getattr(self, name)!r}')
        X, labels = validate_data(self, X, y, **_MATRIX)
        weights = row_weights(sample_weight, X.shape[0])
        classes, codes = encode_labels(labels, weights)
        weights_given = weights  # gamma counts rows as often as they weigh, whatever their class
        weights = with_class_weight(weights, self.class_weight, classes, codes)
        kernel = kernel_from(self.kernel, X, self.gamma, self.degree, self.coef0, weights_given)
        # A function is asked once, for all machines.
        gram = np.asarray(kernel.values(X, X)) if kernel.is_matrix else None
        tasks = self._tasks(codes, len(classes), weights)
        self.kernel_, self.classes_ = kernel, classes
        problems: list[Any] = [None] * len(tasks)
        bounds = np.empty(len(tasks))
        indefinite: list[str | None] = [None] * len(tasks)

        def problem_of(k: int) -> KernelProblem:
            problem = problems[k] = self._problem(tasks[k], X, gram, weights)
            return problem

        def finish(k: int, found: Solution) -> Solution:
            problem, problems[k] = problems[k], None
            found = self._polished(problem, found)
            if self.verbose:
                print(f"{self._about(tasks[k])}: {found.message}")
            bounds[k], indefinite[k] = xi_alpha_bound(problem, found), problem.indefinite
            return found

        told = ending(self.callback)
        solutions = solve_each(
            len(tasks), problem_of, self._solver(), workers=1, start=None, keep=finish,
            stop=stop_of(self.tol, self.max_iter, self.max_seconds),
            watch=None if told is None else lambda _, record: told(record),
            seed=seed_from(self.random_state),
        )  # fmt: skip
        for task, found, why in zip(tasks, solutions, indefinite, strict=True):
            self._warn(task, found, why)
        self._keep(X, codes, tasks, solutions)
        self.loo_error_bounds_ = bounds
        self.weighted_ = weights is not None
        return self

    def decision_function(self, X: Any) -> Array:
        """Scores: (n,) for two classes, else one column for each class or for each pair."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0]
        if self.multi_class == "ovr" or self.decision_function_shape == "ovo":
            return scores
        return votes(scores, len(self.classes_))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: by the votes of the pairs, ties decided by their scores."""
        scores = self._scores(X)
        best = decide(class_scores(scores, self.multi_class, len(self.classes_)))
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _tasks(self, codes: Indices, n_classes: int, weights: Array | None) -> list[_Task]:
        used = codes >= 0 if weights is None else (codes >= 0) & (weights > 0)
        if self.multi_class == "ovr" and n_classes > 2:
            return [_task(codes, used, k, None) for k in range(n_classes)]
        return [_task(codes, used, i, j) for i, j in pairs(n_classes)]

    def _problem(
        self, task: _Task, X: Any, gram: Array | None, weights: Array | None
    ) -> KernelProblem:
        kernel, rows = self.kernel_, task.rows
        everything = len(rows) == X.shape[0]
        if gram is not None:
            part = gram if everything else gram[np.ix_(rows, rows)]
            kernel = Precomputed()
        else:
            part = X if everything else X[rows]
        return KernelProblem(
            part, task.signs, self.C, kernel=kernel, bias=self.bias, n_threads=self.n_threads,
            sample_weight=None if weights is None else weights[rows],
        )  # fmt: skip

    def _polished(self, problem: KernelProblem, found: Solution) -> Solution:
        exact = self.solver == "auto" and problem.n_rows <= _SMALL and problem.indefinite is None
        if not (exact and found.converged):
            return found
        # Accuracy costs next to nothing here.
        finer = solve(problem, self._solver(), stop=Gap(1e-10) | Epochs(20), start=found)
        kept = {name: getattr(finer, name) for name in ("w", "b", "alpha", "certificate")}
        return polish(problem, replace(found, **kept))

    def _solver(self) -> str | Solver:
        if self.solver in ("auto", "smo"):
            return Smo(cache_mb=self.cache_size)
        return self.solver

    def _about(self, task: _Task) -> str:
        other = "the rest" if task.negative is None else self.classes_[task.negative]
        return f"{self.classes_[task.positive]} against {other}"

    def _warn(self, task: _Task, found: Solution, indefinite: str | None) -> None:
        if found.certificate.relative_gap <= self.tol:
            return
        why = found.message
        if indefinite is not None:
            why = (
                f"the {self.kernel_.name} kernel is not positive semi-definite ({indefinite}): "
                "the answer is a stationary point, without a bound"
            )
        message = f"{self._about(task)}: {why}"
        warnings.warn(GapWarning(message, found.certificate, self.tol), stacklevel=3)

    def _keep(
        self, X: Any, codes: Indices, tasks: list[_Task], solutions: Sequence[Solution]
    ) -> None:
        coefficients = np.zeros((len(tasks), X.shape[0]))
        for row, task, found in zip(coefficients, tasks, solutions, strict=True):
            if found.w.centres is not None:
                raise ValueError(
                    f"{found.solver} answers with vectors that are not rows of X, which SVC cannot "
                    'keep; choose its maintenance "removal" or "projection"'
                )
            row[task.rows] = found.w.coefficients
        used = np.flatnonzero(coefficients.any(axis=0))
        self.support_ = used[np.argsort(codes[used], kind="stable")]
        self.n_support_ = np.bincount(codes[self.support_], minlength=len(self.classes_))
        self.support_vectors_ = np.empty((0, 0)) if self.kernel_.given else X[self.support_]
        self._coefficients = coefficients[:, self.support_]
        self.dual_coef_ = self._coefficients
        if len(self.classes_) > 2 and self.multi_class == "ovo":
            self.dual_coef_ = _by_other_class(self._coefficients, tasks, codes[self.support_])
        self.intercept_ = np.array([found.b for found in solutions])
        self.certificates_ = [found.certificate for found in solutions]
        self.certificate_ = total(self.certificates_)
        self.traces_ = [found.trace for found in solutions]
        worst = max(solutions, key=lambda found: found.certificate.relative_gap)
        self.status_, self.message_ = worst.status, worst.message
        self.solver_ = worst.solver
        self.n_iter_ = int(np.ceil(max(found.epochs for found in solutions)))

    def _scores(self, X: Any) -> Array:
        """The score of each row by each machine."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **_MATRIX)
        n_threads = _core.hardware_threads() if self.n_threads is None else self.n_threads
        out = np.tile(self.intercept_, (X.shape[0], 1))
        if len(self.support_) == 0:
            return out
        step = max(1, _BLOCK // len(self.support_))
        for begin in range(0, X.shape[0], step):
            part = X[begin : begin + step]
            if self.kernel_.given:
                values = np.asarray(part[:, self.support_], dtype=np.float64)
            else:
                values = kernel_matrix(self.kernel_, part, self.support_vectors_, n_threads)
            out[begin : begin + step] += values @ self._coefficients.T
        return out


def _task(codes: Indices, used: NDArray[np.bool_], positive: int, negative: int | None) -> _Task:
    if negative is not None:
        used = used & ((codes == positive) | (codes == negative))
    rows = np.flatnonzero(used)
    return _Task(rows, np.where(codes[rows] == positive, 1.0, -1.0), positive, negative)


def _by_other_class(coefficients: Array, tasks: list[_Task], codes: Indices) -> Array:
    """scikit-learn's layout: a support vector's column lists its pairs by the other class."""
    n_classes = int(max(task.positive for task in tasks)) + 2
    table = np.zeros((n_classes - 1, len(codes)))
    for row, task in zip(coefficients, tasks, strict=True):
        assert task.negative is not None
        i, j = task.positive, task.negative  # i < j
        table[j - 1, codes == i] = row[codes == i]
        table[i, codes == j] = row[codes == j]
    return table
