"""Random problems on every scale, solved by everything there is and judged exactly.

python tests/exact_draws.py --draws 20000 --seed 1      # on all cores
python tests/exact_draws.py --draws 20000 --part 2/4    # the second quarter of them
python tests/exact_draws.py --seed 1 --draw 137         # one of them again

Prints each wrong certificate with the line that repeats it, and the counts at the end; the exit
status is 1 if there is any. A draw is a function of the seed and its number alone.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from bridle import (
    SVC,
    DistributedProblem,
    Epochs,
    Gap,
    KernelProblem,
    LinearProblem,
    LinearSVC,
    LinearSVCCV,
    MulticlassSVC,
    MultilabelOracle,
    RankingProblem,
    Seconds,
    StoredRows,
    StructuredProblem,
    ValidationLoss,
    certify,
    certify_model,
    load_model,
    path,
    save_model,
    solve,
)
from bridle.data import write_arrow
from bridle.fitting import cross_validation
from bridle.problems.kernel import IndefiniteKernelError
from bridle.rows.cluster.local import LocalParts
from bridle.rows.disk.memory import MemoryPlan, RowVectors
from bridle.solvers import solver_class, solver_names
from bridle.structured.chain import ChainProblem

from exact import (
    Kernelled,
    Linear,
    Outputs,
    Pairs,
    Wrong,
    as_vector,
    chain_outputs,
    dot,
    oracle_outputs,
    wrong_box,
    wrong_certificate,
    wrong_status,
)

LIMIT = 20.0  # seconds for a draw; beyond twice that its process is ended
# What Python and NumPy say of numbers that should not have come to them.
NOT_OF_THE_DOOR = ("cannot convert", "math domain error", "must not contain", "NaN or infinity")


class RefusedError(Exception):
    """Said no at the door, with its reason."""


@dataclass
class Draw:
    """A source of random choices that keeps what was chosen, for the report."""

    rng: np.random.Generator
    timed: bool = True  # whether the clock may have a say, and so the last bits may differ
    chosen: dict[str, Any] = field(default_factory=dict)

    def among(self, name: str, options: Any) -> Any:
        """One of the options; of a dictionary, by weights."""
        names = list(options)
        weights = (
            np.array([options[n] for n in names], float) if isinstance(options, dict) else None
        )
        p = None if weights is None else weights / weights.sum()
        found = names[int(self.rng.choice(len(names), p=p))]
        self.chosen[name] = found
        return found

    def power(self, name: str, low: float, high: float) -> float:
        """A number whose logarithm is uniform."""
        found = float(10.0 ** self.rng.uniform(low, high))
        self.chosen[name] = found
        return found

    def whole(self, low: int, high: int) -> int:
        """low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)


@dataclass
class Data:
    """Rows, labels of -1 and +1, weights or None, and a C that suits them or does not."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    C: float
    loss: str = "hinge"
    bias: str = "none"
    bias_scale: float = 1.0

    def judge(self, longest: int | None = 1) -> Linear:
        return Linear(self.X, self.y, self.C, loss=self.loss, bias=self.bias,
                      bias_scale=self.bias_scale, weight=self.weight, longest=longest)  # fmt: skip

    @property
    def task(self) -> dict[str, Any]:
        return {"loss": self.loss, "bias": self.bias, "bias_scale": self.bias_scale}


# ---------------------------------------------------------------------------------------- the data


def dense_rows(d: Draw, m: int, n: int) -> np.ndarray:
    X = d.rng.normal(size=(m, n))
    if d.chance(0.2):
        X = np.round(X)
    scale = d.among("scales", {"plain": 3, "one": 3, "columns": 2, "rows": 1})
    if scale == "one":
        X *= d.power("scale", -20, 20)
    elif scale == "columns":
        X *= 10.0 ** d.rng.uniform(-10, 10, n)
    elif scale == "rows":
        X *= 10.0 ** d.rng.uniform(-6, 6, (m, 1))
    if d.chance(0.2):
        X += d.power("offset", 2, 10) * (np.abs(X).max() or 1.0) * d.rng.choice([-1, 0, 1], n)
    for name, p in (("same rows", 0.15), ("no row", 0.1), ("no column", 0.1)):
        if d.chance(p):
            d.chosen[name] = True
            if name == "same rows":
                X[d.whole(0, m - 1)] = X[d.whole(0, m - 1)]
            elif name == "no row":
                X[d.whole(0, m - 1)] = 0
            else:
                X[:, d.whole(0, n - 1)] = 0
    return X


def stored(d: Draw, X: np.ndarray) -> Any:
    X = X.astype(d.among("dtype", {"float64": 3, "float32": 2}))
    storage = d.among("storage", {"dense": 3, "csr32": 1, "csr64": 1})
    if storage == "dense":
        return X
    rows = sp.csr_matrix(X)
    rows.indices = rows.indices.astype(np.int32 if storage == "csr32" else np.int64)
    rows.indptr = rows.indptr.astype(rows.indices.dtype)
    return rows


def rows_and_labels(d: Draw, most: int = 12) -> tuple[Any, np.ndarray]:
    m, n = d.whole(2, most), d.whole(1, 5)
    X = dense_rows(d, m, n)
    teacher = X @ d.rng.normal(size=n)
    y = np.where(teacher > np.median(teacher), 1.0, -1.0)
    if d.among("labels", {"noisy": 2, "random": 1, "teacher": 1}) != "teacher":
        flip = d.rng.random(m) < (0.15 if d.chosen["labels"] == "noisy" else 0.5)
        y[flip] *= -1
    y[d.whole(0, m - 1)] = 1.0
    if (y > 0).all():
        y[d.whole(0, m - 1)] = -1.0
    if not (y > 0).any():
        y[(int(np.argmin(y)) + 1) % m] = 1.0
    return stored(d, X), y


def a_C(d: Draw, X: Any) -> float:
    how = d.among("C is", {"suited": 8, "any": 5, "tiny": 0.5, "absurd": 0.5})
    dense = (X.toarray() if sp.issparse(X) else X).astype(float)
    norm = float(np.mean(np.sum(dense**2, axis=1)))
    if how == "suited" and 0 < norm < 1e300:
        return float(np.clip(d.power("C", -4, 4) / norm, 1e-300, 1e300))
    if how == "absurd":
        return d.among("C", [1e-300, 1e300])
    return d.among("C", [1e-18]) if how == "tiny" else d.power("C", -8, 8)


def weights_of(d: Draw, m: int) -> np.ndarray | None:
    how = d.among("weights", {"none": 5, "some": 2, "many decades": 3})
    if how == "none":
        return None
    weight = 10.0 ** d.rng.uniform(*((-1, 1) if how == "some" else (-7, 7)), m)
    weight[d.rng.random(m) < 0.1] = 0.0
    if not weight.any():
        weight[d.whole(0, m - 1)] = 1.0
    return weight


def data(d: Draw, *, losses: Any = None, biases: Any = None) -> Data:
    X, y = rows_and_labels(d)
    bias = d.among("bias", biases or {"none": 3, "regularised": 3, "free": 3})
    scale = d.power("bias_scale", -6, 6) if bias == "regularised" and d.chance(0.6) else 1.0
    loss = d.among("loss", losses or {"hinge": 5, "squared_hinge": 4, "perceptron": 0.4})
    return Data(X, y, weights_of(d, len(y)), a_C(d, X), loss, bias, scale)


def a_stop(d: Draw) -> tuple[Any, float | None]:
    tol: float | None = d.power("tol", -10, -3) if d.chance(0.75) else None
    epochs = d.among("epochs", [0.5, 1, 3, 10, 40, 150])
    stop: Any = Epochs(epochs)
    if tol is not None:
        stop = Gap(tol) | stop
    if d.chance(0.05):
        stop = stop | Seconds(d.among("seconds", [0.0]))
    return stop, tol


# -------------------------------------------------------------------------------- what is asked of


def door(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What it makes of these; a ValueError of its own is a refusal."""
    try:
        return function(*given, **named)
    except IndefiniteKernelError:
        raise
    except ValueError as error:
        text = str(error)
        frames = traceback.extract_tb(error.__traceback__)
        if "bridle" not in frames[-1].filename or any(t in text for t in NOT_OF_THE_DOOR):
            raise
        raise RefusedError(text) from error


def a_solver(d: Draw, problem: Any, known: Any = ()) -> str:
    names = [
        name for name in known or solver_names(problem)
        if solver_class(name, problem.offers).refusal(problem) is None
    ]  # fmt: skip
    if not names:
        raise RefusedError("no solver can have this problem")
    return d.among("solver", names)


def start_elsewhere(d: Draw, problem: Any) -> Any:
    """The solution at another C."""
    other = problem.C * d.power("started at C times", -3, 3)
    if not 0 < other < math.inf:
        return None
    try:
        return solve(problem.variant(C=other), briefly("dcd", problem), stop=Epochs(5))
    except Exception:  # that one is not what is judged here
        return None


def solved(d: Draw, problem: Any, start: Any = None, rule: Any = None) -> tuple[Any, float | None]:
    stop, tol = a_stop(d)
    if rule is not None:
        stop = stop | rule
    callbacks = []
    if d.chance(0.1):
        last = d.whole(1, 4)
        seen: list[Any] = []
        callbacks = [lambda record: seen.append(record) or len(seen) >= last]
        d.chosen["callback ends after"] = last
    solver = a_solver(d, problem)
    found = door(
        solve, problem, solver, stop=stop, callbacks=callbacks, seed=d.whole(0, 99), start=start
    )
    return found, tol


def judged(judge: Any, found: Any, tol: float | None, others: Any = ()) -> list[Wrong]:
    """Of a Solution."""
    return [
        *wrong_certificate(judge, found.certificate, found.w, found.b, found.alpha, others),
        *wrong_box(judge, found.alpha),
        *wrong_status(found.converged, found.certificate, tol),
    ]


def others_of(problem: Any) -> list[Any]:
    """Good points by other solvers, where a claim is to be compared with the optimum."""
    points = []
    for name in ("qp", "newton", "dcd"):
        try:
            found = solve(problem, briefly(name, problem), stop=Gap(1e-13))
        except Exception:
            continue
        if np.isfinite(found.w).all() and math.isfinite(found.b):
            points.append((found.w, found.b))
    return points


def linear(d: Draw) -> list[Wrong]:
    given = data(d)
    problem = door(LinearProblem, given.X, given.y, given.C, sample_weight=given.weight,
                   n_threads=1, **given.task)  # fmt: skip
    start = None
    if d.chance(0.1):
        start = start_elsewhere(d, problem)
    stop = None
    if d.chance(0.05) and given.C < 1e100:
        d.chosen["held out"] = True
        stop = ValidationLoss(given.X, given.y, patience=d.whole(1, 3))
    found, tol = solved(d, problem, start, stop)
    judge = given.judge()
    wrong = judged(judge, found, tol)
    if any(w.kind == "dual not proven" for w in wrong):  # and is it even true?
        wrong = judged(judge, found, tol, others_of(problem))
    return wrong


def hard_margin(d: Draw) -> list[Wrong]:
    given = data(d, losses={"hinge": 1})
    given.C = math.inf
    problem = door(LinearProblem, given.X, given.y, given.C, sample_weight=given.weight,
                   n_threads=1, **given.task)  # fmt: skip
    found, tol = solved(d, problem)
    judge = given.judge()
    if found.status.name == "INFEASIBLE":
        return [Wrong("no proof", "the rows can be separated")] if judge.separable() else []
    return judged(judge, found, tol)


def kernelled(d: Draw) -> list[Wrong]:
    X, y = rows_and_labels(d, 8)
    kernel = d.among("kernel", {"rbf": 4, "poly": 2, "linear": 2, "precomputed": 1})
    if kernel == "precomputed":
        B = d.rng.integers(-8, 9, (len(y), d.whole(1, 5))).astype(float)
        X = np.ldexp(B @ B.T, d.whole(-20, 20))
        if d.chance(0.2):
            X[0, 0] -= d.power("less", -3, 3)
    bias = d.among("bias", ["none", "regularised", "free"])
    scale = d.power("bias_scale", -3, 3) if bias == "regularised" else 1.0
    weight, C = weights_of(d, len(y)), a_C(d, X) if d.chance(0.5) else d.power("C", -3, 3)
    gamma = d.among("gamma is", ["scale", "auto", "drawn"])
    if gamma == "drawn":
        gamma = d.power("gamma", -3, 1)
    try:
        problem = door(
            KernelProblem, X, y, C, kernel=kernel, gamma=gamma, degree=d.whole(1, 4),
            coef0=float(d.whole(0, 2)), bias=bias, bias_scale=scale, sample_weight=weight,
            n_threads=1,
        )  # fmt: skip
        if not math.isfinite(problem.kernel.parameters.get("gamma", 0.0)):
            raise RefusedError("gamma is infinite")
        found, tol = solved(d, problem)
    except IndefiniteKernelError as error:
        raise RefusedError(str(error)) from error
    judge = Kernelled(X, y, C, kernel=problem.kernel, bias=bias, bias_scale=scale, weight=weight)
    if kernel == "precomputed" and not judge.definite():
        if found.certificate.dual > -math.inf and not assumes_definite(found):
            return [Wrong("indefinite", f"a bound of {found.certificate.dual!r}")]
        return []
    return judged(judge, found, tol)


def assumes_definite(found: Any) -> bool:
    """Whether a result says that its proof holds for positive semi-definite kernels only."""
    return "definite" in f"{found.message} {found.certificate} {found.certificate!r}"


def along_the_path(d: Draw) -> list[Wrong]:
    given = data(d, losses={"hinge": 1, "squared_hinge": 1})
    low, gap = given.C, d.power("gap", -4, -1)
    high = low * d.power("C ratio", 0, 6)
    if not high < math.inf:
        raise RefusedError("C is too large")
    problem = door(LinearProblem, given.X, given.y, low, sample_weight=given.weight, **given.task)
    solver = briefly(a_solver(d, problem, ("auto", "dcd", "newton", "qp")), problem)
    found = door(path, given.X, given.y, low, high, gap=gap, sample_weight=given.weight,
                 n_threads=1, solver=solver, **given.task)  # fmt: skip
    wrong = []
    bottom, top = found.points[0].low, found.points[-1].high
    if not bottom <= top:
        raise RefusedError("the path covers nothing")
    for _ in range(4):
        C = float(np.clip(10.0 ** d.rng.uniform(math.log10(bottom), math.log10(top)), bottom, top))
        solution, certificate = found.at(C)
        given.C = C
        for w in wrong_certificate(
            given.judge(longest=None), certificate, solution.w, solution.b, solution.alpha
        ):
            wrong.append(replace(w, text=f"at C = {C!r}: {w.text}"))
        if found.complete and not certificate.relative_gap <= gap:
            wrong.append(Wrong("status", f"complete, but {certificate.relative_gap!r} at {C!r}"))
    return wrong


def briefly(name: str, problem: Any) -> Any:
    """A solver that gives up after 100 iterates."""
    kind = solver_class(name, problem.offers)

    def iterates(self: Any, problem: Any, **how: Any) -> Any:
        inner, answer = kind.iterates(self, problem, **how), None
        for _ in range(100):
            try:
                answer = yield inner.send(answer)
            except StopIteration:
                return

    return type(kind.__name__, (kind,), {"iterates": iterates})()


def certified(d: Draw) -> list[Wrong]:
    given = data(d, losses={"hinge": 1, "squared_hinge": 1})
    size = d.power("size of w", -8, 8)
    w = d.rng.normal(size=given.X.shape[1]) * size
    b = 0.0 if given.bias == "none" else float(d.rng.normal() * size)
    seconds = d.among("seconds", [0.0, 0.02]) if d.timed else 0.0
    certificate = door(certify, w, given.X, given.y, given.C, b=b, sample_weight=given.weight,
                       max_seconds=seconds, n_threads=1, **given.task)  # fmt: skip
    judge = given.judge()
    problem = LinearProblem(given.X, given.y, given.C, sample_weight=given.weight, n_threads=1,
                            **given.task)  # fmt: skip
    return wrong_certificate(judge, certificate, w, b, None, others_of(problem))


def on_disk(d: Draw) -> list[Wrong]:
    given = data(d, biases={"none": 1, "regularised": 1})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.arrow"
        door(write_arrow, file, given.X, given.y, weight=given.weight, batch_bytes=64)
        problem = door(LinearProblem, StoredRows(file), None, given.C, n_threads=1, **given.task)
        if d.among("streamed", [True, False]):  # reads its rows anew in every epoch
            rows = problem.rows
            rows.plan = MemoryPlan(False, 2, int(rows.sizes.max()) + 64, 0, d.chance(0.5))
            rows.vectors = RowVectors(problem.n_rows, rows.plan.vectors_on_disk)
        found, tol = solved(d, problem)
        return judged(given.judge(), found, tol)


def in_parts(d: Draw) -> list[Wrong]:
    given = data(d, losses={"hinge": 1, "squared_hinge": 1})
    parts = LocalParts(given.X, given.y, d.whole(1, min(3, len(given.y))), given.weight)
    problem = door(DistributedProblem, parts, given.C, **given.task)
    found, tol = solved(d, problem)
    alpha = np.empty(len(given.y))
    alpha[parts.order] = np.asarray(found.alpha)
    return [
        *wrong_certificate(given.judge(), found.certificate, found.w, found.b, alpha),
        *wrong_status(found.converged, found.certificate, tol),
    ]


def chains(d: Draw) -> list[Wrong]:
    K, n = d.whole(2, 3), d.whole(1, 4)
    lengths = [d.whole(1, 3) for _ in range(n)] if d.chance(0.6) else [1] * n
    offsets = [0, *np.cumsum(lengths).tolist()]
    X = stored(d, dense_rows(d, offsets[-1], d.whole(1, 3)))
    labels = d.rng.integers(0, K, offsets[-1]).tolist()
    how: dict[str, Any] = {"transitions": max(lengths) > 1 and d.chance(0.7), "bias": 0.0}
    if d.chance(0.4):
        how["bias"] = d.power("bias", -3, 3)
    if d.chance(0.3):
        how["cost"] = (1 - np.eye(K)) * 10.0 ** d.rng.uniform(-2, 2, (K, K))
    weight, C = weights_of(d, n), a_C(d, X)
    problem = door(ChainProblem, X, offsets, labels, K, C, sample_weight=weight, n_threads=1, **how)
    found, tol = solved(d, problem)
    judge = Outputs(chain_outputs(X, offsets, labels, K, **how), costs(C, weight, n))
    return judged(judge, found, tol)


def ranked(d: Draw) -> list[Wrong]:
    n = d.whole(1, 4)
    offsets = [0, *np.cumsum([d.whole(2, 4) for _ in range(n)]).tolist()]
    X = stored(d, dense_rows(d, offsets[-1], d.whole(1, 4)))
    loss = d.among("loss", ["pairs", "pairs-sum", "roc"])
    grades = d.rng.integers(0, 2 if loss == "roc" else 3, offsets[-1]).astype(float)
    qid = np.repeat(np.arange(n), np.diff(offsets))
    weight, C = weights_of(d, n), a_C(d, X)
    problem = door(RankingProblem, X, grades, qid, C, loss=loss, sample_weight=weight, n_threads=1)
    found, tol = solved(d, problem)
    judge = Pairs(X, grades.tolist(), offsets, costs(C, weight, n), mean=loss != "pairs-sum")
    return judged(judge, found, tol)


class Patient:
    """Chains of two labels whose oracle compares exactly: what is rounded is not its fault."""

    n_inputs, n_features = 2, 8

    def features(self, x: Any, y: Any) -> np.ndarray:
        found = np.zeros(8)
        for t, label in enumerate(y):
            found[2 * label : 2 * label + 2] += x[t]
            if t:
                found[4 + 2 * y[t - 1] + label] += 1
        return found

    def loss(self, y: Any, other: Any) -> float:
        return float(sum(a != b for a, b in zip(y, other, strict=True)))

    def outputs(self, x: Any) -> Iterator[Any]:
        return product((0, 1), repeat=len(x))

    def argmax(self, x: Any, w: Any, truth: Any = None) -> Any:
        weights = as_vector(w)

        def value(y: Any) -> Fraction:
            loss = 0.0 if truth is None else self.loss(truth, y)
            return Fraction(loss) + dot(as_vector(self.features(x, y)), weights)

        return max(self.outputs(x), key=value)

    def slack_argmax(self, x: Any, w: Any, truth: Any) -> Any:
        weights, true = as_vector(w), self.features(x, truth)

        def value(y: Any) -> Fraction:
            margin = dot(as_vector(true), weights) - dot(as_vector(self.features(x, y)), weights)
            return Fraction(self.loss(truth, y)) * (1 - margin)

        return max(self.outputs(x), key=value)


def oracles(d: Draw) -> list[Wrong]:
    n, sets = d.whole(1, 4), d.chance(0.4)
    d.chosen["oracle"] = "label sets" if sets else "chains"
    rows = dense_rows(d, 3 * n, 2)
    if sets:
        X: list[Any] = list(rows[:n])
        oracle: Any = MultilabelOracle(2, 3, pairs=d.chance(0.5))
    else:
        X = [rows[3 * i : 3 * i + d.whole(1, 3)] for i in range(n)]
        oracle = Patient()
    Y = [list(oracle.outputs(x))[int(d.rng.integers(2))] for x in X]
    rescaling = "margin" if sets else d.among("rescaling", ["margin", "slack"])
    weight, C = weights_of(d, n), a_C(d, rows)
    problem = door(StructuredProblem, oracle, X, Y, C, rescaling=rescaling, sample_weight=weight)
    found, tol = solved(d, problem)
    outputs = oracle_outputs(oracle, X, Y, slack=rescaling == "slack")
    return judged(Outputs(outputs, costs(C, weight, n)), found, tol)


def costs(C: float, weight: Any, n: int) -> list[Fraction]:
    """C_i, not rounded."""
    return Linear(np.ones((n, 1)), np.ones(n), C, weight=weight).cost


def estimator(d: Draw) -> list[Wrong]:
    """LinearSVC: of two classes, or several against the rest."""
    given = data(d, losses={"hinge": 1, "squared_hinge": 1})
    tol = d.power("tol", -8, -3)
    model = LinearSVC(C=given.C, loss=given.loss, bias=given.bias, tol=tol, random_state=0,
                      intercept_scaling=given.bias_scale, max_iter=d.among("epochs", [1, 10, 100]),
                      n_threads=1)  # fmt: skip
    codes = given.y if d.chance(0.6) else d.rng.integers(0, 3, len(given.y))
    d.chosen["classes"] = len(set(codes.tolist()))
    door(model.fit, given.X, codes, sample_weight=given.weight)
    wrong = []
    if d.chance(0.4):
        wrong += model_again(given, model, codes)
    coef = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
    for k, certificate in enumerate(model.certificates_):
        positive = model.classes_[-1] if len(model.certificates_) == 1 else model.classes_[k]
        given.y = np.where(codes == positive, 1.0, -1.0)
        judge, b = given.judge(), float(model.intercept_[k])
        alpha = None
        if getattr(model, "dual_coef_", None) is not None:
            alpha = np.asarray(model.dual_coef_)[k] * given.y
        wrong += wrong_certificate(judge, certificate, coef[k], b, alpha)
    return wrong


def model_again(given: Data, model: LinearSVC, codes: np.ndarray) -> list[Wrong]:
    """Written, read and certified again."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "it.bridle"
        save_model(file, model.to_model())
        again = load_model(file).dense()
    known = np.isin(codes, again.classes)
    X, labels = given.X[known], codes[known]
    weight = None if given.weight is None else given.weight[known]
    certificates = door(
        certify_model, again, X, labels, sample_weight=weight, max_seconds=0.0, n_threads=1
    )
    wrong = []
    for k, certificate in enumerate(certificates):
        positive = again.classes[-1] if len(certificates) == 1 else again.classes[k]
        here = replace(given, X=X, y=np.where(labels == positive, 1.0, -1.0), weight=weight)
        b = float(again.intercept[k])
        for certificate_of in (certificate, again.certificates[k]):
            wrong += wrong_certificate(here.judge(), certificate_of, again.coef[k], b, None)
    return wrong


def kernel_estimator(d: Draw) -> list[Wrong]:
    X, y = rows_and_labels(d, 8)
    kernel = d.among("kernel", ["rbf", "linear", "poly"])
    bias = d.among("bias", ["none", "regularised", "free"])
    weight, C = weights_of(d, len(y)), d.power("C", -3, 3)
    model = SVC(C=C, kernel=kernel, bias=bias, tol=d.power("tol", -8, -3), n_threads=1,
                max_iter=d.among("epochs", [1, 10, 100]), degree=2, random_state=0)  # fmt: skip
    door(model.fit, X, y, sample_weight=weight)
    if not math.isfinite(model.kernel_.parameters.get("gamma", 0.0)):
        raise RefusedError("gamma is infinite")
    # Rows without weight are no part of the problem: their kernel values are not looked at.
    judge = Kernelled(X, y, C, kernel=model.kernel_, bias=bias, weight=weight)

    @dataclass
    class Expansion:
        coefficients: np.ndarray
        centres: Any = None

    coefficients = np.zeros(len(y))
    found = model.dual_coef_  # sparse where the rows are
    coefficients[model.support_] = (found.toarray() if sp.issparse(found) else found)[0]
    b = float(model.intercept_[0])
    return wrong_certificate(judge, model.certificate_, Expansion(coefficients), b, None)


def multiclass(d: Draw) -> list[Wrong]:
    m, K = d.whole(3, 8), d.whole(2, 3)
    X = stored(d, dense_rows(d, m, d.whole(1, 4)))
    codes = d.rng.permutation(np.arange(m) % K)
    scale = d.power("bias_scale", -3, 3) if d.chance(0.5) else 0.0
    C, weight = a_C(d, X), weights_of(d, m)
    model = MulticlassSVC(
        C=C, tol=d.power("tol", -8, -3), fit_intercept=scale > 0, intercept_scaling=scale or 1.0,
        max_iter=d.among("epochs", [1, 10, 100]), n_threads=1,
    )  # fmt: skip
    door(model.fit, X, codes, sample_weight=weight)
    known = np.isin(codes, model.classes_)  # rows without weight may have had a class of their own
    X, codes = X[known], np.searchsorted(model.classes_, codes[known])
    K, n = len(model.classes_), len(codes)
    cost = costs(C, None if weight is None else weight[known], n)
    outputs = chain_outputs(X, range(n + 1), codes.tolist(), K, transitions=False, bias=scale)
    w = weights_of_classes(model, scale)
    return wrong_certificate(Outputs(outputs, cost), model.certificate_, w, 0.0, None)


def weights_of_classes(model: Any, scale: float) -> list[Fraction]:
    """The table, feature by feature, that coef_ and intercept_ stand for; of two classes half each.

    A quotient by the scale is rounded, far beyond what floats can tell apart.
    """
    rows = [list(map(Fraction, row)) for row in model.coef_.tolist()]
    if scale:
        for row, b in zip(rows, model.intercept_.tolist(), strict=True):
            row.append(Fraction(round(Fraction(b) / Fraction(scale) * 2**1300), 2**1300))
    if len(rows) == 1:
        rows = [[-v / 2 for v in rows[0]], [v / 2 for v in rows[0]]]
    return [row[j] for j in range(len(rows[0])) for row in rows]


def cross_validated(d: Draw) -> list[Wrong]:
    given = data(d, losses={"hinge": 1, "squared_hinge": 1})
    m = len(given.y)
    if min((given.y > 0).sum(), (given.y < 0).sum()) < 2:
        raise RefusedError("a class of one row has no folds")
    tol = d.power("tol", -6, -2)
    model = LinearSVCCV(
        Cs=(given.C * np.geomspace(1e-3, 1e3, d.whole(1, 6)) if d.chance(0.6) else d.whole(1, 6)),
        cv=2, loss=given.loss, bias=given.bias, tol=tol, intercept_scaling=given.bias_scale,
        n_threads=1, max_iter=d.among("epochs", [3, 30, 100]), random_state=0,
    )  # fmt: skip
    with looking_at_folds() as seen:
        door(model.fit, given.X, given.y, sample_weight=given.weight)
    wrong = []
    if np.isnan(model.gaps_).any() or (model.gaps_ < 0).any():
        wrong.append(Wrong("not a number", f"gaps {model.gaps_!r}"))
    given.C = model.C_
    alpha = None if model.dual_coef_ is None else model.dual_coef_[0] * given.y
    b = float(model.intercept_[0])
    wrong += wrong_certificate(given.judge(), model.certificate_, model.coef_[0], b, alpha)
    for problem, solution, C, scale, certificate in seen:
        given.C, given.weight = C, problem.sample_weight
        assert len(given.weight) == m
        judge = Scaled(scale, given.judge(longest=None))
        wrong += [
            replace(found, text=f"in a fold at C = {C!r}: {found.text}")
            for found in wrong_certificate(
                judge, certificate, solution.w, solution.b, solution.alpha
            )
        ]
    return wrong


class Scaled(Linear):
    """Judges s times the weights that it is given, not rounded."""

    def __init__(self, scale: float, judge: Linear) -> None:
        self.__dict__.update(judge.__dict__)
        self.scale = Fraction(scale)

    def primal(self, w: Any, b: Any = 0.0) -> Any:
        weights = [self.scale * Fraction(v) for v in w.tolist()]
        return super().primal(weights, self.scale * Fraction(b))


@contextmanager
def looking_at_folds() -> Iterator[list[Any]]:
    """What folds were told of solutions at another C, where they still ask in this way."""
    seen: list[Any] = []
    solved_type = getattr(cross_validation, "_Solved", None)
    asked = getattr(solved_type, "at", None)
    if asked is None:
        yield seen
        return

    def at(self: Any, C: float) -> Any:
        answer = asked(self, C)
        if answer[1] is not None:
            seen.append((self.problem, self.solution, C, *answer))
        return answer

    solved_type.at = at  # type: ignore[union-attr]
    try:
        yield seen
    finally:
        solved_type.at = asked  # type: ignore[union-attr]


KINDS: dict[Callable[[Draw], list[Wrong]], float] = {
    linear: 42, kernelled: 12, along_the_path: 7, certified: 5, chains: 8, hard_margin: 6,
    on_disk: 4, in_parts: 3, ranked: 3, oracles: 4, estimator: 3, kernel_estimator: 2,
    multiclass: 2, cross_validated: 2,
}  # fmt: skip
NAMES = {function.__name__: weight for function, weight in KINDS.items()}


class LateError(BaseException):
    """A draw that takes too long; no handler of errors is to stop it."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises LateError in what takes longer, as soon as it is back in Python."""

    def ring(*_: Any) -> None:
        raise LateError(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# ------------------------------------------------------------------------------------ one of them


@dataclass(frozen=True)
class Outcome:
    """What became of a draw. refused: why it was turned away at the door."""

    index: int
    kind: str
    chosen: dict[str, Any]
    wrong: tuple[Wrong, ...] = ()
    refused: str = ""
    seconds: float = 0.0


def run_draw(seed: int, index: int, *, timed: bool = True) -> Outcome:
    """Draw a problem, have it solved, judge the answer."""
    draw = Draw(np.random.default_rng([seed, index]), timed)
    kind = draw.among("what", NAMES)
    function = next(f for f in KINDS if f.__name__ == kind)
    began, wrong, refused = time.perf_counter(), [], ""
    try:
        with warnings.catch_warnings(), limited(LIMIT) if timed else nullcontext():
            warnings.simplefilter("ignore")
            wrong = function(draw)
    except RefusedError as reason:
        refused = str(reason)
    except LateError as reason:
        wrong = [Wrong("hang", str(reason))]
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = next((f for f in reversed(frames) if "bridle" in f.filename), frames[-1])
        where = f"{Path(place.filename).name}:{place.lineno}"
        wrong = [Wrong(f"raises {type(error).__name__}", f"{error} ({where})")]
    seconds = time.perf_counter() - began
    return Outcome(index, kind, draw.chosen, tuple(wrong), refused, seconds)


# ------------------------------------------------------------------------------------ many of them


def work(seed: int, indices: list[int], pipe: Any) -> None:
    """In a process of its own: says which draw it begins, and what became of it."""
    for index in indices:
        pipe.send(index)
        pipe.send(run_draw(seed, index))
    pipe.send(None)


@dataclass
class Worker:
    """A process with its share of the draws."""

    seed: int
    left: list[int]
    process: Any = None
    pipe: Any = None
    at: int = -1
    since: float = 0.0

    def start(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.Process(
            target=work, args=(self.seed, self.left, theirs), daemon=True
        )
        self.process.start()
        theirs.close()
        self.since = time.monotonic()

    def messages(self) -> Iterator[Any]:
        """Outcomes; a process that is gone leaves one, too, and another goes on."""
        try:
            while self.pipe.poll():
                message = self.pipe.recv()
                if isinstance(message, int):
                    self.at, self.since = message, time.monotonic()
                elif message is None:
                    self.left, self.process = [], None
                    return
                else:
                    self.left = self.left[self.left.index(message.index) + 1 :]
                    yield message
        except EOFError:
            yield self.given_up("crash", "its process ended")

    def given_up(self, kind: str, text: str) -> Outcome:
        self.process.kill()
        self.process.join()
        status = f" (exit status {self.process.exitcode})" if kind == "crash" else ""
        what = Draw(np.random.default_rng([self.seed, self.at])).among("what", NAMES)
        outcome = Outcome(self.at, what, {}, (Wrong(kind, text + status),))
        self.left = self.left[self.left.index(self.at) + 1 :] if self.at in self.left else []
        self.process = None
        if self.left:
            self.start()
        return outcome


def outcomes(seed: int, indices: list[int], n_processes: int) -> Iterator[Outcome]:
    """Of all draws, as they come."""
    workers = [Worker(seed, indices[k::n_processes]) for k in range(n_processes)]
    workers = [worker for worker in workers if worker.left]
    for worker in workers:
        worker.start()
    while running := [worker for worker in workers if worker.process is not None]:
        wait([worker.pipe for worker in running], timeout=1.0)
        for worker in running:
            yield from worker.messages()
            late = worker.process is not None and time.monotonic() - worker.since > 2 * LIMIT
            if late:
                yield worker.given_up("hang", f"not done after {2 * LIMIT:g} s")


def report(outcome: Outcome, seed: int) -> str:
    line = f"python tests/exact_draws.py --seed {seed} --draw {outcome.index}"
    chosen = ", ".join(
        f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in outcome.chosen.items()
    )
    found = "; ".join(map(str, outcome.wrong)) or (
        f"refused: {outcome.refused}" if outcome.refused else "right"
    )
    return f"{line}\n    {found}\n    {chosen}"


class Tally:
    """Counts of what was drawn, refused and wrong; errors up to `beyond` are not listed."""

    def __init__(self, seed: int, beyond: float) -> None:
        self.seed, self.beyond, self.began = seed, beyond, time.monotonic()
        self.kinds: Counter[str] = Counter()
        self.wrong: Counter[tuple[str, str]] = Counter()
        self.worse: Counter[tuple[str, str]] = Counter()  # than `beyond`
        self.by_solver: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.n_wrong, self.n_worse, self.slowest = 0, 0, Outcome(-1, "", {})

    def add(self, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        self.slowest = max(self.slowest, outcome, key=lambda one: one.seconds)
        if outcome.refused:
            self.refused[outcome.refused[:100]] += 1
        self.wrong.update({(outcome.kind, wrong.kind) for wrong in outcome.wrong})
        self.n_wrong += bool(outcome.wrong)
        serious = tuple(wrong for wrong in outcome.wrong if wrong.size > self.beyond)
        if serious:
            self.n_worse += 1
            self.worse.update({(outcome.kind, wrong.kind) for wrong in serious})
            solver = str(outcome.chosen.get("solver", "-"))
            self.by_solver.update({(solver, wrong.kind) for wrong in serious})
            print(report(replace(outcome, wrong=serious), self.seed), flush=True)

    def summary(self) -> Iterator[str]:
        n, seconds = sum(self.kinds.values()), time.monotonic() - self.began
        yield (
            f"\n{n} draws in {seconds:.0f} s, {n / seconds:.1f} a second: {self.n_wrong} wrong, "
            f"{self.n_worse} of them by more than {self.beyond:g}; {sum(self.refused.values())} "
            f"refused at the door; the slowest, {self.slowest.index}, took "
            f"{self.slowest.seconds:.1f} s"
        )
        for what, count in self.kinds.most_common():
            found = [
                f"{kind} {c} ({self.worse[what, kind]})"
                for (of, kind), c in self.wrong.most_common() if of == what
            ]  # fmt: skip
            yield f"{what}: {count} draws; {', '.join(found) or 'none wrong'}"
        for (solver, kind), count in sorted(self.by_solver.items()):
            yield f"  {solver}: {kind}: {count}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n shares")
    parser.add_argument("--draw", type=int, help="only this one, in this process")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--beyond", type=float, default=0.0, help="list errors of this size only")
    parser.add_argument("--refusals", action="store_true", help="list why some were turned away")
    given = parser.parse_args()
    if given.draw is not None:
        outcome = run_draw(given.seed, given.draw)
        print(report(outcome, given.seed))
        return int(bool(outcome.wrong))
    share, shares = map(int, given.part.split("/"))
    indices = list(range(given.draws))[share - 1 :: shares]
    tally = Tally(given.seed, given.beyond)
    for outcome in outcomes(given.seed, indices, given.processes):
        tally.add(outcome)
    print(*tally.summary(), sep="\n")
    if given.refusals:
        print(*(f"  refused {n} times: {why}" for why, n in tally.refused.most_common()), sep="\n")
    return int(tally.n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
