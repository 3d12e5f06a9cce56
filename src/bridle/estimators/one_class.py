"""The linear one-class machine: a half-space that holds most rows, with a proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.estimators.base import NOTHING_INSIDE, interruptible, validate_data
from bridle.estimators.linear import MATRIX
from bridle.estimators.regression import OneFunction
from bridle.matrix.arrays import Array
from bridle.models.header import Objective
from bridle.models.one_class import above_boundary
from bridle.objective.bias import Bias
from bridle.objective.losses import Loss, OneClass
from bridle.rows.cluster.dask_rows import is_remote
from bridle.rows.disk.stored import is_stored
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin


class Inlying(OutlierMixin):  # type: ignore[misc]
    """What one-class machines answer."""

    intercept_: Array
    offset_: Array

    if TYPE_CHECKING:

        def _values(self, X: Any) -> Array: ...

    def decision_function(self, X: Any) -> Array:
        """Not negative where rows belong."""
        return above_boundary(self._values(X), float(self.intercept_[0]))

    def score_samples(self, X: Any) -> Array:
        """The same without the offset."""
        return np.asarray(self.decision_function(X) + self.offset_)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """+1 of rows that belong, -1 of others."""
        return np.where(self.decision_function(X) >= 0, 1, -1).astype(np.intp)


class LinearOneClassSVM(Inlying, OneFunction):
    """The linear one-class machine with a certified duality gap.

        min_{w, rho}  1/2 |w|^2 + sum_i weight_i max(0, rho - w.x_i) - nu rho sum_i weight_i

    That is the objective of LIBLINEAR's `-s 21` and of OneClassSVM(kernel="linear"); those of
    scikit-learn's SGDOneClassSVM are this one's w and rho divided by nu sum_i weight_i: the same
    half-space. The values are negative, and the relative gap is (P - D) / |D|. Where no half-space
    without the origin holds all but that share of the rows, the best w is 0 and tells nothing.

    Parameters
    ----------
    nu : at most this share of the rows is left out.
    tol : the certified relative duality gap at which to stop.
    Others, as in LinearSVC. Of SGDOneClassSVM's, `learning_rate`, `eta0`, `power_t`, `shuffle`
        and `average` have no place here, and without rho (`fit_intercept=False`) there is no
        one-class machine.

    Attributes
    ----------
    coef_, offset_, intercept_ : (1, n_features), rho as (1,), and minus that.
    dual_coef_ : (1, n_rows), the dual variables: coef_ = dual_coef_ @ X at the optimum.
    certificate_, dual_gap_ : primal and dual value, and their difference; `trace_`: how they came
        about. n_iter_, status_, message_, solver_ : how the fit ended.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) + 3.0
    >>> model = bridle.LinearOneClassSVM(nu=0.1).fit(X)
    >>> model.predict([[3.0, 3.0], [-3.0, 0.0]])
    array([ 1, -1])
    """

    _model_kind = "linear-one-class"
    _nothing = NOTHING_INSIDE

    def __init__(
        self,
        nu: float = 0.5,
        *,
        tol: float = 1e-3,
        solver: str | Solver = "auto",
        max_iter: int = 1000,
        max_seconds: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        n_threads: int | None = None,
        callback: Callback | None = None,
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.nu = nu
        self.tol = tol
        self.solver = solver
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.verbose = verbose
        self.n_threads = n_threads
        self.callback = callback
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @interruptible
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | float | None = None) -> Any:
        """Learn where the rows of X are; y is ignored. X may be rows on disk."""
        if not (is_stored(X) or is_remote(X)):
            X = validate_data(self, X, **MATRIX)
        return self._fit(X, None, sample_weight)

    def _formula(self) -> tuple[float, Loss, Bias]:
        return 1.0, OneClass(float(self.nu)), "free"

    @classmethod
    def _parameters_of(cls, objective: Objective) -> dict[str, Any]:
        return dict(objective.parameters)

    def _keep_model(self, model: Any) -> None:
        super()._keep_model(model)
        self.coef_, self.intercept_ = self.coef_[None], np.array([float(self.intercept_)])
        self.offset_ = -self.intercept_
        if hasattr(self, "dual_coef_"):
            self.dual_coef_ = self.dual_coef_[None]
