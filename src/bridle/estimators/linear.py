"""LinearSVC: linear support vector classification, with a proof of its accuracy.

    min_w  1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)),   C_i = C sample_weight_i class_weight[y_i],

once for two classes; for more, once for each class against the others, once for each pair of them,
or all in one problem (see `bridle.fitting.problems`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from bridle.estimators.base import (
    Certified,
    GapWarning,
    advised,
    checked_labels,
    interruptible,
    provenance_of,
    seed_from,
    validate_data,
    watcher_of,
)
from bridle.fitting.calibration import Calibration
from bridle.fitting.early_stopping import EarlyStopping
from bridle.fitting.fit import Extras, Fit, fit, refuse_elsewhere
from bridle.fitting.labels import Labels
from bridle.fitting.multiclass import Effort
from bridle.fitting.problems import Task
from bridle.fitting.refusals import refuse
from bridle.fitting.solutions import Solutions
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.models.calibration import Calibrator, calibrator_from, class_probabilities
from bridle.models.deciding import MultiClass, about, class_scores, n_problems, winners
from bridle.models.linear import LinearModel
from bridle.objective.bias import Bias
from bridle.objective.certificate import Record, total_trace
from bridle.objective.losses import Loss, loss_from
from bridle.rows.cluster.dask_rows import DaskRows, as_rows, is_remote
from bridle.rows.cuda.device import Where
from bridle.rows.cuda.matrix import fetched, is_on_device
from bridle.rows.cuda.scoring import labels_on_device, scores_on_device
from bridle.rows.disk.stored import is_stored
from bridle.rows.scoring import function_scores
from bridle.solvers import Solver
from bridle.solving.interruption import Interrupt
from bridle.solving.loop import Callback
from bridle.solving.many import Watcher
from bridle.solving.solution import Keep
from bridle.solving.stopping import Epochs, Gap, Seconds, Status, Stop
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

# Read in place: anything else is converted. The core looks for NaN and infinity, in its own pass.
MATRIX: dict[str, Any] = {
    "accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C",
    "ensure_all_finite": False,
}  # fmt: skip


def _has_probability(estimator: LinearSVC) -> bool:
    if estimator.probability is False:
        raise AttributeError('there are no probabilities: set probability="platt" or "isotonic"')
    return True


class LinearSVC(Certified, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear support vector classification with a certified duality gap.

    Parameters
    ----------
    C : weight of the losses against 1/2 |w|^2.
    loss : "squared_hinge" (the default, as in scikit-learn) or "hinge", or a loss object. With
        multi_class="crammer_singer" it is not looked at, as in scikit-learn.
    penalty : "l2", or "l1", |w|_1 instead of 1/2 |w|^2, with loss="squared_hinge": many weights are
        then 0. Its solver is "cd", its data are in memory, and a regularised intercept has the
        penalty, too.
    dual : means nothing here, where `solver` says how the problem is solved; accepted, since much
        code says dual="auto".
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
    n_threads : for classes in parallel, and for the passes over the data; None takes all cores that
        this process may use, -1 too, -2 all but one. The result does not depend on it.
    n_jobs : another name of n_threads.
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
    keep : which weights to return: the "best" of those that were certified, by their primal value,
        or the "final" ones, the last that the solver proposed; see `bridle.solve`.
        "final" wins over early_stopping's choice of an epoch.
    device : "cpu"; "cuda", a GPU, where the rows are copied to; "auto", what is predicted to take
        less time. See docs/gpu.md.
    interrupt : what becomes of Ctrl-C, which ends a fit with the best model so far: "raise" raises
        it once the attributes are set, "return" does not.

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
    proof_ : with C = inf, the proof that no weights separate the rows, if one was found.
    n_iter_ : epochs, the most of any problem.
    place_ : what computed, "cpu" or "cuda"; with device="auto" also why.
    weighted_ : whether rows had weights, by themselves, by their classes or since some of them were
        held out.
    calibrators_ : with probability, the map from scores to probabilities of each function.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> model = bridle.LinearSVC(C=0.1).fit(X, y)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    classes_: NDArray[Any]
    coef_: Any  # dense, or CSR after sparsify()
    intercept_: Array
    dual_coef_: Array
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    calibrators_: list[Calibrator]
    _model_kind = "linear"
    _takes_rows_elsewhere = True
    weighted_: bool  # whether rows or classes had weights, which model files do not hold
    # Of subclasses that have no such parameters.
    multi_class: MultiClass = "ovr"
    sparse_coef: bool = False
    early_stopping: bool = False
    callback: Callback | None = None
    penalty: str = "l2"
    dual: bool | str = "auto"
    l1_ratio: float | None = None
    _penalties: tuple[str, ...] = ("l2", "l1")

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str | Loss = "squared_hinge",
        penalty: str = "l2",
        dual: bool | str = "auto",
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
        keep: Keep = "best",
        device: Where = "cpu",
        interrupt: Interrupt = "raise",
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.penalty = penalty
        self.dual = dual
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
        self.keep = keep
        self.device = device
        self.interrupt = interrupt
        self.n_jobs = n_jobs

    @interruptible
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | float | None = None,
    ) -> LinearSVC:
        """Train on the rows of X, which is not copied if it is CSR or C-contiguous floats.

        X may be rows on disk, a StoredRows or ArrowRows, which have their labels and weights; or on
        a cluster: DaskRows, or a collection of Dask, for the current client (see docs/scale.md);
        or on a GPU: CuPy's arrays and matrices, PyTorch's tensors (see docs/gpu.md).
        Ctrl-C ends the fit after the epoch at hand, with a model and its gap, and is then raised.
        """
        self._check_penalty()
        if is_stored(X) or is_remote(X):
            self._fit_elsewhere(X, y, sample_weight, self._cost, self._stop(self.max_seconds))
            return self
        if is_on_device(X):
            self.n_features_in_ = int(X.shape[1])
            y, sample_weight = fetched(y), fetched(sample_weight)
            stop = self._stop(self.max_seconds)
            self._fit(X, checked_labels(y), sample_weight, self._cost, stop)
            return self
        X, labels = validate_data(self, X, y, **MATRIX)
        self._fit(
            X, checked_labels(labels), sample_weight, self._cost, self._stop(self.max_seconds)
        )
        return self

    @property
    def _cost(self) -> float:
        return self.C  # infinity is the hard margin

    def _fit(self, X: Any, y: Any, sample_weight: Any, C: float, stop: Stop) -> None:
        """On rows in memory, which have been validated."""
        warm = self.warm_start and hasattr(self, "coef_")
        found = fit(
            X, y, sample_weight=sample_weight, task=self._task(C), effort=self._effort(stop),
            extras=self._extras(True if self.warm_start and self.store_dual is None
                                else self.store_dual),
            start=self.to_model() if warm else None, watch=self._watcher,
        )  # fmt: skip
        self._keep(found)

    def _fit_elsewhere(self, X: Any, y: Any, sample_weight: Any, C: float, stop: Stop) -> None:
        """On disk or on a cluster."""
        rows: Any = X
        start = None
        if is_stored(X) and self.store_dual:
            refuse("disk", {"store_dual": self.store_dual})
        if is_remote(X):
            remote = rows = self._rows_on_cluster(X, y, sample_weight, C)
            y = sample_weight = None
            if self.warm_start and getattr(self, "cluster_", None) is remote:
                start = remote.solved or None
        task, effort = self._task(C), self._effort(stop)
        found = fit(
            rows, y, sample_weight=sample_weight, task=task, effort=effort,
            extras=self._extras(self.store_dual), start=start, watch=self._watcher,
        )  # fmt: skip
        self.n_features_in_ = found.problems.n_features
        names = getattr(rows, "feature_names", None)
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        if not is_stored(X):
            rows.solved = found.solutions.solutions if self.warm_start else ()
            self.cluster_ = rows
        self._keep(found)

    def _rows_on_cluster(self, X: Any, y: Any, sample_weight: Any, C: float) -> DaskRows:
        if self.warm_start and not isinstance(X, DaskRows):
            raise ValueError(
                "warm_start=True on a cluster needs DaskRows, whose dual variables stay there "
                "between fits: fit(DaskRows(client, X, y))"
            )
        refuse_elsewhere("cluster", self._task(C), self._extras(self.store_dual))
        rows: DaskRows = as_rows(X, y, sample_weight)
        return rows

    def _task(self, C: float) -> Task:
        jointly = self.multi_class == "crammer_singer"
        return Task(
            C,
            "hinge" if jointly else self.loss,
            self._bias(),
            self.intercept_scaling,
            self.multi_class,
            self.class_weight,
            penalty=self.penalty,
            l1_ratio=self.l1_ratio,
        )

    def _effort(self, stop: Stop) -> Effort:
        seed = seed_from(self.random_state)
        return Effort(self.solver, stop, seed, self._threads, keep=self.keep, device=self.device)

    def _extras(self, store_dual: bool | None) -> Extras:
        return Extras(
            early_stopping=EarlyStopping(self.validation_fraction, self.n_iter_no_change)
            if self.early_stopping else None,
            calibration=None if self.probability is False
            else Calibration(self.probability, watcher_of(self.callback)),
            store_dual=store_dual, resumable=self.warm_start, sparse=self.sparse_coef,
        )  # fmt: skip

    def _stop(self, max_seconds: float | None) -> Stop:
        stop = Gap(self.tol) | Epochs(self.max_iter)
        return stop if max_seconds is None else stop | Seconds(max_seconds)

    def _watcher(self, labels: Labels) -> Watcher | None:
        told = watcher_of(self.callback)
        if not self.verbose:
            return told
        several = n_problems(self.multi_class, labels.n_classes) > 1

        def report(k: int, record: Record) -> bool | None:
            prefix = f"{about(self.multi_class, labels.classes, k)}: " if several else ""
            print(
                f"{prefix}epoch {record.epoch:.4g}, primal {record.primal:.6g}, "
                f"certified gap {record.relative_gap:.1e}"
            )
            return None if told is None else told(k, record)

        return report

    def _keep(self, found: Fit) -> None:
        """The fitted attributes; a warning if the gap was not reached."""
        for name in ("dual_coef_", "calibrators_"):
            if hasattr(self, name):
                delattr(self, name)
        self._keep_model(found.model)
        solutions = found.solutions
        self.traces_ = [solution.trace for solution in solutions.solutions]
        self.trace_ = total_trace(self.traces_)
        self.n_iter_ = int(np.ceil(solutions.epochs))
        self.status_, self.solver_ = found.status, solutions.worst.solver
        self.proof_ = solutions.worst.proof
        self.message_ = self._message(solutions)
        self.place_ = solutions.worst.place
        if found.model.alpha is not None:
            self.dual_coef_ = found.dual_coef()
        self._warn(found)

    def _keep_model(self, model: LinearModel) -> None:
        self.classes_, self.coef_, self.intercept_ = model.classes, model.coef, model.intercept
        self.certificates_, self.certificate_ = list(model.certificates), model.certificate
        self.weighted_ = model.objective.weighted or "class_weight" in model.info
        self._provenance = provenance_of(model)
        if "calibrators" in model.info:
            entries = model.info["calibrators"]
            if len(entries) != len(model.intercept):
                raise ValueError(
                    f"{len(entries)} calibrations for {len(model.intercept)} functions"
                )
            self.calibrators_ = [calibrator_from(entry) for entry in entries]

    def to_model(self) -> LinearModel:
        """For `save_model`: the weights, what they prove, and of which data."""
        check_is_fitted(self)
        signed, names = getattr(self, "dual_coef_", None), getattr(self, "feature_names_in_", None)
        about = dict(self._provenance)
        if names is not None:
            about["info"] = about["info"] | {"feature_names": [str(name) for name in names]}
        return LinearModel(
            coef=self.coef_, intercept=self.intercept_, classes=self.classes_,
            certificates=tuple(self.certificates_), multi_class=self.multi_class,
            alpha=None if signed is None else np.abs(signed), **about,
        )  # fmt: skip

    @classmethod
    def from_model(cls, model: LinearModel) -> Self:
        """A fitted estimator with these weights, which predicts without having seen any data."""
        objective: Any = model.objective
        estimator = cls(
            loss=objective.formula if objective.parameters else objective.loss,
            fit_intercept=objective.bias != "none",
            bias=None if objective.bias == "regularised" else objective.bias,
            intercept_scaling=objective.bias_scale,
        )  # fmt: skip
        estimator.set_params(**cls._further_parameters(model))
        estimator._keep_made(model)
        if "calibrators" in model.info:
            estimator.probability = model.info["calibrators"][0]["method"]
        return estimator

    @classmethod
    def _further_parameters(cls, model: LinearModel) -> dict[str, Any]:
        parameters = {"C": model.objective.C, "multi_class": model.multi_class}
        return parameters | model.objective.penalty

    def _keep_made(self, model: LinearModel) -> None:
        """A model that was made elsewhere."""
        self._keep_model(model)
        self.n_features_in_ = model.n_features
        known = "status" in model.info
        self.status_ = Status(model.info["status"]) if known else None  # type: ignore[assignment]
        if "feature_names" in model.info:
            self.feature_names_in_ = np.array(model.info["feature_names"], dtype=object)

    def decision_function(self, X: Any) -> Array:
        """w.x + b for each row: of one shape (n,) for two classes, else (n, n_classes).

        With "ovo" a class has as many points as it wins pairs, and a fraction that orders equals.
        Of rows on a GPU, the scores stay there.
        Of a collection of Dask, this and the other predictions are lazy.
        """
        if is_remote(X):
            n = len(self.classes_)
            lazy: Array = self._on_blocks(
                self.decision_function, X, np.float64, None if n == 2 else n
            )
            return lazy
        if is_on_device(X):
            check_is_fitted(self)
            there: Array = scores_on_device(X, self.coef_, self.intercept_, self.multi_class)
            return there
        return class_scores(self._function_scores(X), self.multi_class, len(self.classes_))

    def _function_scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **MATRIX)
        return function_scores(X, self.coef_, self.intercept_, self._threads)

    def _on_blocks(self, method: Any, X: Any, dtype: Any, width: int | None) -> Any:
        from bridle.estimators.lazy import on_blocks

        check_is_fitted(self)
        return on_blocks(method, X, dtype, width)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy, also on collections of Dask."""
        if not is_remote(X):
            return float(super().score(X, y, sample_weight))
        from bridle.estimators.lazy import score

        return score(self.predict(X), y, sample_weight)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        check_is_fitted(self)
        if is_remote(X):
            labels_of_blocks: NDArray[Any] = self._on_blocks(
                self.predict, X, self.classes_.dtype, None
            )
            return labels_of_blocks
        if is_on_device(X):
            found: NDArray[Any] = labels_on_device(self.decision_function(X), self.classes_)
            return found
        X = validate_data(self, X, reset=False, **MATRIX)
        best = winners(
            X, self.coef_, self.intercept_, self.multi_class, len(self.classes_), self._threads
        )
        labels: NDArray[Any] = self.classes_[best]
        return labels

    @available_if(_has_probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`; each row sums to 1."""
        return self._probabilities(X)

    def _probabilities(self, X: Any) -> Array:
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_penalty(self) -> None:
        loss = loss_from(self.loss)
        if self.penalty not in self._penalties or (self.penalty != "l2" and not loss.smooth):
            raise ValueError(
                f"Unsupported set of arguments: penalty={self.penalty!r}, loss={self.loss!r}, "
                f"dual={self.dual!r}: there is {' and '.join(self._penalties)}, the l1 norm for "
                "smooth losses alone"
            )
        if self.penalty == "l1" and self.dual is True:
            raise ValueError(
                f"Unsupported set of arguments: penalty='l1', loss={self.loss!r}, dual=True: the "
                "l1 penalty is solved in the primal"
            )

    def _bias(self) -> Bias:
        if self.bias is not None:
            return self.bias
        return "regularised" if self.fit_intercept else "none"

    def _message(self, found: Solutions) -> str:
        """What to say of the fit: how the problem ended that ended worst."""
        n = len(found.solutions)
        if n == 1:
            return found.worst.message
        name = about(self.multi_class, self.classes_, found.worst_index)
        many = "pairs" if self.multi_class == "ovo" else "classes"
        short = sum(not s.converged for s in found.solutions)
        how = f"{short} of {n} {many} fell short" if short else f"all {n} {many} converged"
        return f"{how}; the farthest, {name} {found.worst.message}"

    def _warn(self, found: Fit) -> None:
        """To whoever called the `fit` that keeps what was found."""
        if found.lost is not None:
            warnings.warn(f"there is no dual_coef_: {found.lost}", RuntimeWarning, stacklevel=6)
        worst = max(self.certificates_, key=lambda c: c.relative_gap)
        by_choice = self.status_ is Status.SEPARATED or (
            self.early_stopping and self.status_ is Status.BUDGET
        )
        if worst.relative_gap > self.tol and not by_choice:
            message = advised(self.message_, self.status_)
            warnings.warn(GapWarning(message, worst, self.tol), stacklevel=6)
        folds = found.calibrated
        if folds is not None and folds.worst_gap > self.tol:
            warnings.warn(
                f"a fold of the calibration ended early: {folds.message}",
                ConvergenceWarning,
                stacklevel=6,
            )
