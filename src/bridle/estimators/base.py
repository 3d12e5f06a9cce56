"""What the estimators share: labels, weights and seeds going in, the certificate coming out."""

from __future__ import annotations

import functools
import html
import inspect
import os
import threading
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Self, TypeVar, cast

import numpy as np
from bridle import __version__
from bridle.errors import ModelError
from bridle.estimators.nested import Nested
from bridle.fitting.labels import encode
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_readable, is_sparse
from bridle.matrix.labels import two_values
from bridle.models.storage import as_model, load_model, save_model
from bridle.objective.certificate import Certificate, Record, Trace
from bridle.solving.interruption import Interrupt, check_interrupt, deferred_interrupt
from bridle.solving.loop import Callback
from bridle.solving.many import Watcher
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, Gap, Seconds, Status, Stop
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from sklearn.utils.validation import validate_data as sklearn_validate_data

F = TypeVar("F", bound=Callable[..., Any])
# What C = inf is taken as where there is no hard margin: dual variables are hardly ever so large.
LARGEST_C = 1e10

# Parameters that are numbers, wherever they occur; None where that is the default.
NUMBERS = (
    "C", "tol", "max_iter", "max_seconds", "epsilon", "intercept_scaling",
    "nu", "quantile", "degree", "coef0", "n_threads", "n_jobs",
)  # fmt: skip

# What may help, by how a fit ended. Whom a callback or Ctrl-C has ended needs no advice.
ADVICE = {
    Status.BUDGET: "raise max_iter or max_seconds, scale the features, or lower C",
    Status.STALLED: "raise tol, scale the features, or give X in float64 if it is in float32",
    Status.INFEASIBLE: "no weights separate these rows: choose a finite C",
}

NOTHING = (
    "all weights are 0: every row gets the same answer; raise C, or look whether X says anything "
    "about y"
)
NOTHING_INSIDE = (
    "all weights are 0: every row gets the same answer, inside; rows that lie about the origin on "
    "all sides are held by no half-space away from it: do not centre them, or take a kernel"
)


def advised(message: str, status: Status) -> str:
    """The message, and what may help."""
    return f"{message} ({ADVICE[status]})" if status in ADVICE else message


def interruptible(fit: F) -> F:
    """Of an estimator's `fit`: Ctrl-C ends it after the epoch at hand, with its attributes set.

    It is then raised, with the estimator as its `solution`; interrupt="return" swallows it.
    """

    @functools.wraps(fit)
    def fit_and_raise(self: Any, *arguments: Any, **options: Any) -> Any:
        check_interrupt(self.interrupt)
        check_numbers(self)
        if not self._takes_rows_elsewhere:
            refuse_rows_elsewhere(self, arguments[0] if arguments else options.get("X"))
        with deferred_interrupt() as interrupted:
            try:
                fit(self, *arguments, **options)
            except ConvergenceWarning:  # an error, to whom warnings are; everything is set by then
                if not interrupted():
                    raise
        interrupted.raised(self.interrupt, self)
        if self._says_nothing():
            warnings.warn(self._nothing, UserWarning, stacklevel=2)
        return self

    return cast(F, fit_and_raise)


def check_numbers(estimator: Any) -> None:
    """TypeError if a parameter that is a number is something else."""
    for name, parameter in inspect.signature(type(estimator)).parameters.items():
        value = getattr(estimator, name, None)
        if name not in NUMBERS or isinstance(value, Real) or value is parameter.default:
            continue
        raise TypeError(f"{name} must be a number, got {value!r}")


def refuse_rows_elsewhere(estimator: Any, X: Any) -> None:
    """TypeError if X is rows on disk or on a cluster; Dask's collections can become arrays."""
    if hasattr(X, "__arrow_rows__") or hasattr(X, "__row_parts__"):
        raise TypeError(
            f"{type(estimator).__name__} needs its rows in memory, not {type(X).__name__}: of rows "
            "on disk or on a cluster learn LinearSVC, LogisticRegression and the linear regressors"
        )


class Certified(Nested):
    """What every estimator here has: its proof, its file, its threads, its way with Ctrl-C."""

    interrupt: Interrupt = "raise"
    n_threads: int | None = None
    n_jobs: int | None = None
    _takes_rows_elsewhere = False  # on disk, or on a cluster
    _model_kind: str | None = None  # of the files that it loads; None if there are none
    _decisive: tuple[str, ...] = ("coef_",)  # attributes that tell inputs apart, alone
    _nothing: str = NOTHING  # to be said if all of them are 0

    @property
    def _threads(self) -> int | None:
        """How many: n_threads, or n_jobs, which is its name elsewhere."""
        if self.n_jobs is not None and self.n_threads not in (None, self.n_jobs):
            raise ValueError(
                f"n_threads={self.n_threads} and n_jobs={self.n_jobs} are two names of one number: "
                "give one of them"
            )
        return self.n_jobs if self.n_threads is None else self.n_threads

    def _says_nothing(self) -> bool:
        """Whether the fit has come to an end at which every input gets the same answer."""
        if getattr(self, "status_", Status.CONVERGED) is not Status.CONVERGED:
            return False
        known = [getattr(self, name, None) for name in self._decisive]
        return bool(known) and not any(
            w is None or np.any(w.data if is_sparse(w) else w) for w in known
        )

    def _keep_proof(self, solution: Solution) -> None:
        self.certificate_ = solution.certificate
        self.trace_ = solution.trace
        self.status_, self.message_ = solution.status, solution.message
        self.proof_ = solution.proof  # that a hard margin cannot be had, if that was found
        self.solver_ = solution.solver
        self.n_iter_: Any = int(np.ceil(solution.epochs))

    @property
    def dual_gap_(self) -> float:
        """P - D, in the unit of the objective: what `certificate_` proves."""
        gap: float = self.certificate_.gap
        return gap

    def save(self, path: str | os.PathLike[str], *, dual: bool = False) -> None:
        """Write the model to a file, which `load` and the command line read.

        dual: with the dual variables, of estimators that have them: a number for each row, which
        prove the certificate and are a start for other fits, but predict nothing.
        """
        check_is_fitted(self)
        save_model(path, as_model(self), dual=dual)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A fitted estimator from a model file, whoever wrote it: `save` or the command line."""
        model = load_model(path)
        if model.kind != cls._model_kind:
            raise ModelError(
                f"{os.fsdecode(path)}: a model of kind {model.kind!r}, which is no {cls.__name__}"
            )
        return cls.from_model(model)

    @classmethod
    def from_model(cls, model: Any) -> Self:
        """A fitted estimator with this model, which predicts without having seen any data."""
        raise TypeError(f"no model file holds a {cls.__name__}: pickle it")

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, "_bridle_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        if (version := rest.pop("_bridle_version", "0.1.0")) != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by bridle {version}, and is read by "
                f"{__version__}: it may not work; models that are to last are written by `save`",
                UserWarning,
                stacklevel=2,
            )
        super().__setstate__(rest)  # type: ignore[misc]

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + certificate_panel(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += certificate_panel(self)
        return bundle


def validate_data(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """scikit-learn's, of a matrix whose arrays fit together: it looks at values, not at columns."""
    check_readable(X)
    return sklearn_validate_data(estimator, X, *y, **options)


def certificate_panel(estimator: Any) -> str:
    """A card in HTML: the gap, how it fell and how it ended; nothing without a fit."""
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return ""
    status = getattr(estimator, "status_", None)
    solver, message = (getattr(estimator, name, "") for name in ("solver_", "message_"))
    asked = getattr(estimator, "early_stopping", False)  # to stop before the gap
    reached = asked or status not in (*ADVICE, Status.INTERRUPTED)
    colour = "#2a8f5c" if reached else "#c77700"  # on light and on dark pages
    small = "style='opacity:.75;font-size:.85em'"
    course = _falling(getattr(estimator, "trace_", None), colour)
    end = str(message or getattr(status, "value", ""))
    if not reached and status in ADVICE:
        end += f"; {ADVICE[status]}"
    return (
        f"<div style='display:inline-block;max-width:32em;margin-top:.6em;padding:.5em .9em;"
        f"border:1px solid rgba(128,128,128,.4);border-left:4px solid {colour};"
        f"border-radius:6px;font-family:system-ui,sans-serif;line-height:1.45;color:inherit'>"
        f"<div {small}>certified relative gap</div>"
        f"<div style='font-size:1.35em'>{certificate.relative_gap:.2e} {course}</div>"
        f"<div {small}>primal {certificate.primal:.6g}, dual {certificate.dual:.6g}"
        f"{html.escape(f', {solver}') if solver else ''}</div>"
        f"<div {small if reached else ''}>{'' if reached else '&#9888; '}"
        f"{html.escape(end)}</div></div>"
    )


def _falling(trace: Any, colour: str) -> str:
    """The gap over the certificates of a run, on a logarithmic scale, as a line of 120 x 24."""
    if not isinstance(trace, Trace):
        return ""
    gap = np.asarray(trace["relative_gap"], np.float64)
    gap = gap[np.isfinite(gap) & (gap > 0)]
    if len(gap) < 2 or gap.max() == gap.min():
        return ""
    across = np.linspace(2, 118, len(gap))
    down = 22 - 20 * (np.log(gap / gap.min()) / np.log(gap.max() / gap.min()))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
    return (
        "<svg width='120' height='24' role='img' style='vertical-align:middle;margin-left:.6em'>"
        f"<title>the gap fell from {gap[0]:.1e} to {gap[-1]:.1e}</title><polyline "
        f"points='{points}' fill='none' stroke='{colour}' stroke-width='2'/></svg>"
    )


class GapWarning(ConvergenceWarning):  # type: ignore[misc]
    """A fit ended before the gap that was asked for; `relative_gap` says where it is, proven.

    Examples
    --------
    >>> import warnings
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = bridle.LinearSVC(max_iter=1, tol=1e-9).fit(X, y)
    >>> isinstance(caught[0].message, bridle.GapWarning), caught[0].message.relative_gap > 1e-9
    (True, True)
    """

    def __init__(self, message: str, certificate: Certificate, tol: float) -> None:
        super().__init__(message, certificate, tol)  # all three, so that it can be pickled
        self.message, self.certificate, self.tol = message, certificate, tol

    @property
    def relative_gap(self) -> float:
        """The certified relative gap that was reached."""
        return self.certificate.relative_gap

    def __str__(self) -> str:
        return self.message


def warn_of_gap(solution: Solution, tol: float) -> None:
    """To whoever called the `fit` that calls this, if the solution ended before the gap."""
    if not solution.converged:
        message = advised(solution.message, solution.status)
        warnings.warn(GapWarning(message, solution.certificate, tol), stacklevel=4)


def provenance_of(model: Any) -> dict[str, Any]:
    """What a linear or kernel model says of where it comes from, for `to_model`."""
    names = ("objective", "fingerprint", "n_rows", "zero_based", "info", "scale")
    return {name: getattr(model, name) for name in names}


def seed_from(random_state: Any) -> int:
    """A seed from scikit-learn's random_state: an int, None, or a RandomState."""
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def stop_of(tol: float, max_iter: float, max_seconds: float | None) -> Stop:
    """The gap that is asked for, within the budgets; a negative max_iter is none."""
    stop: Stop = Gap(tol)
    if max_iter >= 0:
        stop = stop | Epochs(max_iter)
    return stop if max_seconds is None else stop | Seconds(max_seconds)


def callbacks_of(callback: Callback | None) -> tuple[Callback, ...]:
    """For `solve`."""
    return () if callback is None else (callback,)


def ending(callback: Callback | None) -> Callback | None:
    """A callback that, once it has said that the fit is to end, says so of every further run."""
    if callback is None:
        return None
    ended = False

    def say(record: Record) -> bool:
        nonlocal ended
        ended = ended or callback(record) is True
        return ended

    return say


def checked_labels(y: Any, n_threads: int = 1) -> NDArray[Any]:
    """Labels of classes, as scikit-learn sees it."""
    labels = np.asarray(y)
    two = two_values(labels, n_threads)
    if two is None or not all(float(value).is_integer() for value in two[:2]):
        check_classification_targets(y)
    return labels


def encode_labels(y: NDArray[Any], weights: Array | None) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes, in order, and each row's place among them: see `bridle.fitting.labels`."""
    labels = encode(checked_labels(y), weights)
    assert labels.codes is not None
    return labels.classes, labels.codes


def watcher_of(callback: Callback | None) -> Watcher | None:
    """A callback that sees the records of all problems, one at a time; see `ending`."""
    told, lock = ending(callback), threading.Lock()
    if told is None:
        return None

    def watch(k: int, record: Record) -> bool | None:
        with lock:
            return told(record)

    return watch
