"""A certificate for any weights, whoever trained them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.fitting.fit import Extras, refuse_elsewhere
from bridle.fitting.labels import Labels
from bridle.fitting.problems import (
    Task,
    linear_problem,
    problems_elsewhere,
    problems_in_memory,
)
from bridle.matrix.labels import check_weights
from bridle.models.deciding import is_joint
from bridle.models.regression import LinearFunction
from bridle.models.scaling import divided
from bridle.models.storage import CERTIFIED, as_model
from bridle.objective.bias import Bias
from bridle.objective.certificate import Certificate
from bridle.objective.losses import Hinge, Loss
from bridle.objective.point import Point
from bridle.problems.linear import LinearProblem
from bridle.problems.penalised import PenalisedProblem
from bridle.rows.homes import MEMORY, home_of
from bridle.solving.loop import solve
from bridle.solving.solution import Solution
from bridle.solving.stopping import Epochs, Gap, Seconds
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from bridle.models.linear import LinearModel


def certify(
    w: ArrayLike,
    X: Any,
    y: ArrayLike | None = None,
    C: float = 1.0,
    *,
    b: float = 0.0,
    bias: Bias | None = None,
    bias_scale: float = 1.0,
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    sample_weight: ArrayLike | None = None,
    max_seconds: float = 60.0,
    n_threads: int | None = None,
) -> Certificate:
    """P(w) from above, and the best lower bound on min P that a dual solver finds in that time.

    X, y: rows in memory and their labels; or rows elsewhere, on disk (StoredRows) or on a cluster
    (DaskRows), which bring their own.
    bias: how the tool that made w treats its intercept: "regularised" (LIBLINEAR, scikit-learn's
    LinearSVC), "free" (scikit-learn's SGDClassifier, LIBSVM, SVM-light), or "none". Without it,
    "none" if b is 0, and "regularised" else.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> found = bridle.certify(np.zeros(X.shape[1]), X, y, C=0.1)  # of no weights at all
    >>> round(found.primal, 6), found.relative_gap > 0.1
    (50.0, True)
    """
    if bias is None:
        bias = "regularised" if b != 0 else "none"
    task = Task(C, loss, bias, bias_scale)
    problem = linear_problem(X, y, task, sample_weight=sample_weight, n_threads=n_threads)
    return certify_weights(problem, w, b, max_seconds=max_seconds)


def certify_weights(
    problem: LinearProblem | PenalisedProblem,
    w: ArrayLike,
    b: float = 0.0,
    *,
    max_seconds: float = 60.0,
) -> Certificate:
    """The same for a problem that is there already.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> w = bridle.solve(problem, "pegasos", stop=bridle.Epochs(5)).w  # or of any other tool
    >>> bridle.certify_weights(problem, w).relative_gap < 0.1
    True
    """
    primal = problem.primal(w, b)
    bound = _best_dual(problem, primal, max_seconds)
    certificate = Certificate(primal, bound.certificate.dual, "dual-solver")
    if certificate.dual > certificate.primal:
        raise problem.contradicted(certificate)
    return certificate


def certify_model(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    max_seconds: float = 60.0,
    n_threads: int | None = None,
) -> tuple[Certificate, ...]:
    """One for each problem of a linear model, or estimator, on data of its width and classes.

    Nothing in the model is believed but its weights and its objective, with the class weights in
    its `info`, if any. The time is shared evenly.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(500, seed=0)
    >>> model = bridle.LinearSVC(C=0.1).fit(X, y)
    >>> [certificate.relative_gap <= 1e-3 for certificate in bridle.certify_model(model, X, y)]
    [True]
    """
    model = as_model(model)
    if model.kind not in CERTIFIED:
        raise ValueError(
            f"a {' or '.join(CERTIFIED)} model can be certified, not one of kind {model.kind!r}"
        )
    if model.objective.weighted and sample_weight is None:
        raise ValueError("the model was trained with sample weights, which its file does not hold")
    if isinstance(model, LinearFunction):
        return (_certify_function(model, X, y, sample_weight, max_seconds, n_threads),)
    if home_of(X) != MEMORY:
        return _certify_elsewhere(model, X, max_seconds)
    labels = np.asarray(y)
    strange = labels[~np.isin(labels, model.classes)]
    if len(strange):
        raise ValueError(f"the label {strange[0]} is none of the model's classes")
    order = np.argsort(model.classes, kind="stable")
    model, codes = model.dense(), order[np.searchsorted(model.classes, labels, sorter=order)]
    if model.scale is not None:  # the objective is that of the scaled features
        X, model = divided(X, model.scale), replace(model, coef=model.coef * model.scale)
    objective: Any = model.objective
    task = Task(
        objective.C, objective.formula, objective.bias, objective.bias_scale, model.multi_class,
        cost=model.info.get("cost"), **objective.penalty,
    )  # fmt: skip
    known = Labels(model.classes, np.full(len(model.classes), np.nan), codes)
    each, n = check_weights(sample_weight, len(codes)), len(model.certificates)
    certificates = []
    for k in range(n):
        problems = problems_in_memory(X, known, task, each * model.costs_of(codes, k), n_threads)
        problems.workers = 1  # one after the other, each with all threads
        problem = problems.problem(k)
        if is_joint(model.multi_class, len(model.classes)):
            certificates.append(_certify_table(problem, _table(model), max_seconds))
            continue
        b = float(model.intercept[k])
        certificates.append(certify_weights(problem, model.coef[k], b, max_seconds=max_seconds / n))
    return tuple(certificates)


def _certify_elsewhere(model: LinearModel, X: Any, max_seconds: float) -> tuple[Certificate, ...]:
    """Of rows on disk or on a cluster, with the class weights that the model says."""
    if model.scale is not None:
        raise ValueError("the model divides its features, which rows elsewhere cannot be")
    weights = model.info.get("class_weight")
    objective: Any = model.objective
    task = Task(
        objective.C, objective.formula, objective.bias, objective.bias_scale, model.multi_class,  # type: ignore[arg-type]
        weights and dict(zip(model.classes.tolist(), weights, strict=True)), **objective.penalty,
    )  # fmt: skip
    refuse_elsewhere(home_of(X), task, Extras())
    problems = problems_elsewhere(X, task)
    if not np.array_equal(problems.labels.classes, model.classes):
        raise ValueError(
            f"the rows have the labels {problems.labels.classes}, the model {model.classes}"
        )
    model, n = model.dense(), len(model.certificates)
    return tuple(
        certify_weights(
            problems.problem(k),
            model.coef[k],
            float(model.intercept[k]),
            max_seconds=max_seconds / n,
        )
        for k in range(n)
    )


def _certify_function(
    model: LinearFunction, X: Any, y: Any, sample_weight: Any, max_seconds: float,
    n_threads: int | None,
) -> Certificate:  # fmt: skip
    coef, objective = model.coef, model.objective
    if model.scale is not None:  # the objective is that of the scaled features
        X, coef = divided(X, model.scale), coef * model.scale
    return certify(
        coef, X, y, objective.C, b=model.intercept, bias=objective.bias,  # type: ignore[arg-type]
        bias_scale=objective.bias_scale, loss=objective.formula, sample_weight=sample_weight,
        max_seconds=max_seconds, n_threads=n_threads,
    )  # fmt: skip


def _table(model: LinearModel) -> NDArray[np.float64]:
    """The weights of each class, that of the constant feature included, feature by feature."""
    table = model.coef
    scales = {"none": None, "regularised": model.objective.bias_scale, "free": 1.0}
    if (scale := scales[model.objective.bias]) is not None:
        table = np.column_stack([table, model.intercept / scale])
    if len(model.classes) == 2:
        table = np.vstack([-0.5 * table, 0.5 * table])
    return np.asarray(table.T.ravel())


def _certify_table(problem: Any, w: NDArray[np.float64], max_seconds: float) -> Certificate:
    """As `certify_weights`, of all classes at once."""
    primal = problem.primal(w)
    deadline = time.perf_counter() + max_seconds
    dual = -np.inf
    for tol in (1e-2, 1e-4, 1e-6):  # from the start each time: the solver cannot go on
        left = max(0.0, deadline - time.perf_counter())
        own = solve(problem, "auto", stop=Gap(tol) | Seconds(left) | Epochs(10**6)).certificate
        dual = max(dual, own.dual)
        if own.relative_gap > tol or own.gap <= 0.02 * (primal - dual):
            break
    certificate = Certificate(primal, dual, "dual-solver")
    if certificate.dual > certificate.primal:
        raise problem.contradicted(certificate)
    return certificate


def _best_dual(
    problem: LinearProblem | PenalisedProblem, primal: float, max_seconds: float
) -> Solution:
    """Raise the dual until its own error is a small part of the gap that it is to measure."""
    deadline = time.perf_counter() + max_seconds
    start: Any = None
    for tol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
        left = max(0.0, deadline - time.perf_counter())
        found = solve(problem, "auto", stop=Gap(tol) | Seconds(left) | Epochs(10**6), start=start)
        own = found.certificate
        if not found.converged or own.gap <= 0.02 * (primal - own.dual):
            break
        start = Point(found.w, found.b, found.alpha)
    return found
