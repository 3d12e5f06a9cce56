"""SVR and OneClassSVM: one function of a kernel each, with a proof of its accuracy."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from bridle.errors import ModelError
from bridle.estimators.base import (
    LARGEST_C,
    Certified,
    GapWarning,
    advised,
    callbacks_of,
    interruptible,
    seed_from,
    stop_of,
    validate_data,
)
from bridle.estimators.one_class import Inlying
from bridle.estimators.svc import MATRIX, KernelWeights
from bridle.fitting.polish import polished
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.matrix.fingerprint import fingerprint_of_checked
from bridle.models.header import Objective
from bridle.models.kernel_function import KernelRegressionModel, OneClassModel
from bridle.objective.bias import Bias
from bridle.objective.kernels import Kernel, KernelFunction
from bridle.objective.losses import EpsilonInsensitive, OneClass
from bridle.problems.kernel import KernelProblem
from bridle.rows.gram import expand
from bridle.solvers import Solver
from bridle.solvers.smo import Smo
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback, solve
from bridle.solving.solution import Solution
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

# Kernel values of a Python function that are held at once when predicting.
BLOCK = 2**22


class KernelMachine(Certified, KernelWeights, BaseEstimator):  # type: ignore[misc]
    """What both share. A subclass has its parameters, makes its problem and names its objective.

    Attributes
    ----------
    support_, support_vectors_, n_support_ : the rows of X that f uses.
    dual_coef_ : their coefficients, (1, n_support); sparse if X is.
    coef_ : with the linear kernel, the weights, (1, n_features); read-only.
    intercept_ : (1,).
    certificate_, dual_gap_ : primal and dual value, and their difference; `trace_`: how they came
        about. n_iter_, status_, message_, solver_ : how the fit ended.
    """

    kernel: str | KernelFunction | Kernel
    solver: str | Solver
    tol: float
    max_iter: int
    max_seconds: float | None
    cache_size: float | None
    random_state: Any
    verbose: int
    callback: Callback | None
    support_: NDArray[np.intp]
    intercept_: Array
    _model_class: ClassVar[type[KernelRegressionModel] | type[OneClassModel]]

    @property
    def _choice(self) -> dict[str, Any]:
        """The kernel, for a problem."""
        return {name: getattr(self, name) for name in ("kernel", "gamma", "degree", "coef0")}

    def _fit(self, X: Any, weights: Any, problem: KernelProblem, objective: Objective) -> None:
        plain = self.solver in ("auto", "smo")
        solver = Smo(cache_mb=self.cache_size) if plain else self.solver
        found = solve(
            problem, solver, stop=stop_of(self.tol, self.max_iter, self.max_seconds),
            callbacks=callbacks_of(self.callback), seed=seed_from(self.random_state),
        )  # fmt: skip
        if self.solver == "auto":
            found = polished(problem, found, solver)
        self._keep(X, problem, found)
        self._provenance: dict[str, Any] = {
            "objective": replace(objective, weighted=weights is not None),
            "fingerprint": fingerprint_of_checked(
                X, problem.y if problem.targets is None else problem.targets
            ),
            "n_rows": problem.n_rows,
            "info": {"solver": found.solver, "status": found.status.value},
        }
        if self.verbose:
            print(found.message)
        if not found.certificate.relative_gap <= self.tol:
            message = advised(self.message_, self.status_)
            warnings.warn(GapWarning(message, self.certificate_, self.tol), stacklevel=4)

    def _keep(self, X: Any, problem: KernelProblem, found: Solution) -> None:
        self.kernel_, c = problem.kernel, found.w.coefficients
        self.support_ = np.flatnonzero(c)
        self.support_vectors_ = np.empty((0, 0)) if self.kernel_.given else X[self.support_]
        self.n_support_ = np.array([len(self.support_)], np.int32)
        self._keep_function(c[self.support_], float(found.b), sparse=is_sparse(X))
        self._keep_proof(found)

    def _keep_function(self, coefficients: Array, intercept: float, *, sparse: bool) -> None:
        self._coefficients = coefficients[None]
        self.dual_coef_: Any = self._coefficients
        if sparse:
            from scipy.sparse import csr_matrix

            self.dual_coef_ = csr_matrix(self._coefficients)
        self.intercept_ = np.array([intercept])

    def _values(self, X: Any) -> Array:
        """f of each row."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **MATRIX)
        (c,), b = self._coefficients, float(self.intercept_[0])
        if not len(c):
            return np.full(X.shape[0], b)
        if self.kernel_.given:
            return np.asarray(np.asarray(X[:, self.support_], np.float64) @ c + b)
        step = max(1, BLOCK // len(c)) if self.kernel_.is_matrix else max(1, X.shape[0])
        parts = [
            expand(self.kernel_, X[begin : begin + step], self.support_vectors_, c, self._threads)
            for begin in range(0, X.shape[0], step)
        ]
        return np.asarray(np.concatenate(parts) + b)

    def to_model(self) -> Any:
        """For `save_model`."""
        check_is_fitted(self)
        return self._model_class(
            kernel=self.kernel_, support=self.support_vectors_,
            coefficients=np.ascontiguousarray(self._coefficients[0]),
            intercept=float(self.intercept_[0]), certificate=self.certificate_, **self._provenance,
        )  # fmt: skip

    @classmethod
    def from_model(cls, model: Any) -> Self:
        """A fitted estimator with this function, which needs none of the other rows."""
        estimator = cls(kernel=model.kernel, **cls._parameters_of(model.objective))
        estimator.kernel_, estimator.support_vectors_ = model.kernel, model.support
        estimator._keep_function(model.coefficients, model.intercept, sparse=False)
        estimator.n_features_in_, estimator.certificate_ = model.n_features, model.certificate
        names = ("objective", "fingerprint", "n_rows", "zero_based", "info")
        estimator._provenance = {name: getattr(model, name) for name in names}
        estimator._keep_offset()
        return estimator

    def _keep_offset(self) -> None:
        """What else the intercept is called."""

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        """Those that make this objective."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


def _weights(sample_weight: Any, n_rows: int) -> Any:
    """As scikit-learn takes them: rows with negative ones do not count."""
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        return np.full(n_rows, float(sample_weight))  # type: ignore[arg-type]
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape == (n_rows,) and not (weights > 0).any() and not np.isnan(weights).any():
        raise ValueError("Invalid input - all samples have zero or negative weights.")
    return np.where(np.isnan(weights), weights, np.maximum(weights, 0.0))


class SVR(RegressorMixin, KernelMachine):  # type: ignore[misc]
    """Kernel support vector regression with a certified duality gap.

        min_w  1/2 |w|^2 + C sum_i weight_i max(0, |w.phi(x_i) + b - t_i| - epsilon)

    Parameters
    ----------
    C : weight of the losses against 1/2 |w|^2; infinity is taken as 1e10.
    epsilon : how far a prediction may be off at no cost.
    kernel, degree, gamma, coef0 : as in SVC.
    bias : "free" (as in LIBSVM), "regularised" or "none".
    tol : the certified relative duality gap (P - D) / P at which to stop. With solver="auto" it is
        an upper bound: up to 500 rows are solved to the limit of precision.
    Others, and the attributes, as in SVC and KernelMachine.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0.0, 3.0, 30)
    >>> model = bridle.SVR(C=10.0, epsilon=0.05).fit(x[:, None], np.sin(x))
    >>> bool(np.abs(model.predict(x[:, None]) - np.sin(x)).max() < 0.1)
    True
    """

    _model_class = KernelRegressionModel
    _model_kind = "kernel-regression"

    def __init__(
        self,
        *,
        kernel: str | KernelFunction | Kernel = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
        bias: Bias = "free",
        solver: str | Solver = "auto",
        shrinking: bool = True,
        cache_size: float | None = None,
        verbose: int = 0,
        max_iter: int = -1,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.bias = bias
        self.solver = solver
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.n_threads = n_threads
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @interruptible
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | float | None = None) -> Any:
        """Learn to predict y; with kernel="precomputed" X is the matrix K."""
        X, y = validate_data(self, X, y, y_numeric=True, **MATRIX)
        weights, loss = _weights(sample_weight, X.shape[0]), EpsilonInsensitive(float(self.epsilon))
        problem = KernelProblem(
            X, y, min(self.C, LARGEST_C), loss=loss, bias=self.bias, sample_weight=weights,
            n_threads=self._threads, **self._choice,
        )  # fmt: skip
        objective = Objective(loss.name, problem.C, self.bias, parameters=loss.parameters)
        self._fit(X, weights, problem, objective)
        return self

    def predict(self, X: Any) -> Array:
        """The number of each row."""
        return self._values(X)

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        return {"C": objective.C, "bias": objective.bias, **objective.parameters}


class OneClassSVM(Inlying, KernelMachine):
    """The one-class machine with a certified duality gap: where most rows are, and which are not.

        min_{w, rho}  1/2 |w|^2 + sum_i weight_i max(0, rho - w.phi(x_i)) - nu rho sum_i weight_i

    That is LIBSVM's and scikit-learn's objective, times (nu sum_i weight_i)^2 that of the paper;
    its values are negative, and the relative gap is (P - D) / |D|.

    Parameters
    ----------
    nu : at most this share of the rows is left out, and at least it are support vectors.
    kernel, degree, gamma, coef0 : as in SVC.
    tol : the certified relative duality gap at which to stop. With solver="auto" it is an upper
        bound: up to 500 rows are solved to the limit of precision.
    Others, and the attributes, as in SVC and KernelMachine; `offset_` is rho, minus `intercept_`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = bridle.OneClassSVM(nu=0.1, gamma=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _model_class = OneClassModel
    _model_kind = "one-class"

    def __init__(
        self,
        *,
        kernel: str | KernelFunction | Kernel = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        solver: str | Solver = "auto",
        shrinking: bool = True,
        cache_size: float | None = None,
        verbose: int = 0,
        max_iter: int = -1,
        max_seconds: float | None = None,
        callback: Callback | None = None,
        random_state: Any = None,
        n_threads: int | None = None,
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.solver = solver
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.callback = callback
        self.random_state = random_state
        self.n_threads = n_threads
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | float | None = None) -> Any:
        """Learn where the rows of X are; y is ignored."""
        X = validate_data(self, X, **MATRIX)
        weights = _weights(sample_weight, X.shape[0])
        loss = OneClass(self.nu)
        problem = KernelProblem(
            X, None, loss=loss, bias="free", sample_weight=weights, n_threads=self._threads,
            **self._choice,
        )  # fmt: skip
        objective = Objective(loss.name, 1.0, "free", parameters=loss.parameters)
        self._fit(X, weights, problem, objective)
        self._keep_offset()
        return self

    def _keep_offset(self) -> None:
        self.offset_ = -self.intercept_

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        if objective.loss != "one_class":
            raise ModelError(f"a model of the loss {objective.loss}, which is not one of one class")
        return dict(objective.parameters)
