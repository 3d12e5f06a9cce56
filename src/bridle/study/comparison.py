"""Several solvers on one problem, and other libraries beside them, judged by one certificate.

Each run is stopped by its certified gap or by its own time: seconds spent on certificates and on
held-out errors are not charged to it. How far each point is from the optimum is measured against
the best lower bound that any run, or a longer run of the default solver, has proved.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.answers import Measures, of_scores
from bridle.objective.certificate import Certificate, Record, Trace
from bridle.problems.linear import LinearProblem
from bridle.rows.base import ROUNDS
from bridle.solvers import Solver, solver_from
from bridle.solving.interruption import Interrupt, check_interrupt, deferred_interrupt
from bridle.solving.loop import solve
from bridle.solving.stopping import (
    Epochs,
    Gap,
    HeldOutLoss,
    Progress,
    Seconds,
    Status,
    Stop,
    Verdict,
)

Watch = Callable[[str, Record], None]
PEER_TOLERANCES = tuple(10.0**-k for k in range(1, 9))


@dataclass(frozen=True)
class Run:
    """What one solver, or another library, has made of the problem."""

    name: str
    w: Array
    b: float
    alpha: Array | None  # None for other libraries
    certificate: Certificate
    status: Status
    message: str
    epochs: float | None
    seconds: float  # the solver's own
    seconds_certify: float
    trace: Trace
    train: Measures  # how right it is on the training rows: see `bridle.objective.answers`
    test: Measures | None

    @property
    def error_train(self) -> float | None:
        """The share of training rows that it gets wrong; None of targets."""
        return self.train.get("error")

    @property
    def error_test(self) -> float | None:
        """The same of the held-out rows, if there are any."""
        return None if self.test is None else self.test.get("error")

    @property
    def is_peer(self) -> bool:
        """Whether another library did it."""
        return self.alpha is None


@dataclass(frozen=True, repr=False)
class Comparison:
    """All runs, and the best lower bound on the optimum that is known; printed, it is a table.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> found = bridle.compare(problem, {"k = 1": "pegasos", "k = 10": bridle.Pegasos(batch=10)})
    >>> all(run.certificate.primal >= found.best_dual for run in found.runs)
    True
    """

    problem: LinearProblem = field(repr=False)
    gap: float
    best_dual: float
    runs: tuple[Run, ...]

    def __repr__(self) -> str:
        rows = [
            (
                run.name, f"{run.seconds:.3g}", "" if run.epochs is None else f"{run.epochs:.4g}",
                f"{run.certificate.primal:.6g}", f"{run.certificate.relative_gap:.1e}",
                f"{self.suboptimality(run.certificate.primal):.1e}", run.status.value,
            )
            for run in self.runs
        ]  # fmt: skip
        rows.insert(
            0, ("solver", "seconds", "epochs", "primal", "certified gap", "suboptimality", "status")
        )
        first, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        return "\n".join(
            "  ".join([name.ljust(first), *map(str.rjust, cells, widths)]) for name, *cells in rows
        )

    def suboptimality(self, primal: Any) -> Any:
        """(P - D) / |D| with the best D known: an upper bound on (P - P*) / |P*| where D > 0."""
        above = np.asarray(primal) - self.best_dual
        with np.errstate(divide="ignore", invalid="ignore"):  # where D = 0
            return np.where(above == 0.0, 0.0, above / abs(self.best_dual))[()]

    def report(self) -> list[dict[str, Any]]:
        """One dictionary a run, for JSON."""
        return [
            {
                "solver": run.name,
                "peer": run.is_peer,
                "status": run.status.value,
                "message": run.message,
                "primal": run.certificate.primal,
                "dual": run.certificate.dual,
                "relative_gap": run.certificate.relative_gap,
                "source": run.certificate.source,
                "suboptimality": float(self.suboptimality(run.certificate.primal)),
                "epochs": run.epochs,
                "seconds": {"solve": run.seconds, "certify": run.seconds_certify},
                "error_train": run.error_train,
                "error_test": run.error_test,
                **{f"{name}_train": value for name, value in run.train.items()},
                **{f"{name}_test": value for name, value in (run.test or {}).items()},
                "trace": [
                    row | {"suboptimality": float(self.suboptimality(row["primal"]))}
                    for row in run.trace.as_dicts()
                ],
            }
            for run in self.runs
        ]

    def plot(self, path: Any, title: str = "") -> None:
        """Gap, suboptimality and test error against seconds and epochs, into a file."""
        from bridle.study.plots import save_comparison

        save_comparison(path, self, title=title)


@dataclass(frozen=True)
class SolverSeconds(Stop):
    """Stop once the solver itself, certificates apart, has taken s seconds at a certificate."""

    s: float

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        if not len(progress.trace) or progress.trace[-1].seconds_solver < self.s:
            return None
        spent = progress.trace[-1].seconds_solver
        return Verdict(Status.BUDGET, f"after {spent:.3g} s of its own")


def compare(
    problem: LinearProblem,
    solvers: Iterable[str | Solver] | Mapping[str, str | Solver],
    *,
    peers: Iterable[str] = (),
    test: tuple[Any, Array] | None = None,
    gap: float = 1e-3,
    max_seconds: float = 30.0,
    max_epochs: float = 10_000,
    seed: int = 0,
    watch: Watch | None = None,
    interrupt: Interrupt = "raise",
) -> Comparison:
    """Run every solver and every peer on the problem.

    solvers: names or solvers, or a mapping from the name to show. peers: other libraries, out of
    `PEERS`. test: held-out X and labels of -1 and +1, or targets. watch: is told of each record.
    Ctrl-C ends the run at hand and all others, and is then raised with the comparison of what there
    is as its `solution`; interrupt="return" returns that instead.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> found = bridle.compare(problem, ["dcd", "ocas"])
    >>> [run.name for run in found.runs]
    ['dcd', 'ocas']
    """
    check_interrupt(interrupt)
    if ROUNDS in problem.offers:
        raise ValueError(
            "compare looks at the rows themselves: they must be here, not on a cluster"
        )
    if isinstance(solvers, Mapping):
        chosen = {name: solver_from(solver, problem) for name, solver in solvers.items()}
    else:
        chosen = {s if isinstance(s, str) else s.name: solver_from(s, problem) for s in solvers}
    for solver in chosen.values():
        solver.check(problem)
    fits = {name: _peer(name, problem) for name in peers}
    stop: Stop = Gap(gap) | SolverSeconds(max_seconds) | Epochs(max_epochs)
    # What certificates take on top is bounded, too.
    stop = stop | Seconds(10 * max_seconds + 60)
    if test is not None:
        stop = stop | HeldOutLoss(test[0], test[1], loss=problem.loss)
    runs = []
    with deferred_interrupt() as interrupted:
        for name, solver in chosen.items():
            if not interrupted():
                runs.append(_run(problem, name, solver, stop, test, seed, watch))
        best = max((run.certificate.dual for run in runs), default=-np.inf)
        if not interrupted():
            # A bound so good that suboptimalities down to a tenth of the gap can be told.
            finer = Gap(0.1 * gap) | Seconds(max_seconds)
            reference = solve(problem, stop=finer, interrupt="return")
            best = max(reference.certificate.dual, best)
        for name, fit in fits.items():
            if not interrupted():
                runs.append(_run_peer(problem, name, fit, best, gap, max_seconds, test))
    found = Comparison(problem, gap, best, tuple(runs))
    interrupted.raised(interrupt, found)
    return found


def usable(solvers: Mapping[str, Solver], problem: LinearProblem) -> dict[str, Solver]:
    """Those of the solvers that can have the problem."""
    found = {}
    for name, solver in solvers.items():
        with contextlib.suppress(ValueError):
            solver.check(problem)
            found[name] = solver
    return found


def _run(
    problem: LinearProblem, name: str, solver: Solver, stop: Stop,
    test: tuple[Any, Array] | None, seed: int, watch: Watch | None,
) -> Run:  # fmt: skip
    callbacks = [lambda record: watch(name, record)] if watch is not None else []
    solution = solve(problem, solver, stop=stop, seed=seed, callbacks=callbacks, interrupt="return")
    last = solution.trace[-1]
    return Run(
        name, solution.w, solution.b, solution.alpha, solution.certificate, solution.status,
        solution.message, solution.epochs, last.seconds_solver, last.seconds_certify,
        solution.trace, *_measures(problem, solution.w, solution.b, test),
    )  # fmt: skip


def _measures(
    problem: LinearProblem, w: Array, b: float, test: tuple[Any, Array] | None
) -> tuple[Measures, Measures | None]:
    truth = problem.y if problem.targets is None else problem.targets
    train = of_scores(problem.loss, problem.scores(w, b), truth)
    return train, _on_test(problem, w, b, test)


def _on_test(
    problem: LinearProblem, w: Array, b: float, test: tuple[Any, Array] | None
) -> Measures | None:
    if test is None:
        return None
    return of_scores(problem.loss, np.asarray(test[0] @ w).ravel() + b, test[1])


# A peer: trains to a tolerance of its own; weights and intercept.
Fit = Callable[[float], tuple[Array, float]]


def _run_peer(
    problem: LinearProblem, name: str, fit: Fit, best_dual: float, gap: float, max_seconds: float,
    test: tuple[Any, Array] | None,
) -> Run:  # fmt: skip
    """Train at ever smaller tolerances, each from nothing, until the optimum is near enough."""
    trace = Trace()
    spent = 0.0
    status = Status.BUDGET
    for tolerance in PEER_TOLERANCES:
        began = time.perf_counter()
        w, b = fit(tolerance)
        seconds = time.perf_counter() - began
        spent += seconds
        began = time.perf_counter()
        primal = problem.primal(w, b)
        # Rounding can put a peer that is at the optimum a hair below the bound.
        certificate = Certificate(primal, min(primal, best_dual), "dual-solver")
        told = _on_test(problem, w, b, test) or {}
        scores = {f"validation_{name}": value for name, value in told.items()}
        trace.append(
            Record(
                epoch=float("nan"), seconds_solver=seconds,
                seconds_certify=time.perf_counter() - began, primal=certificate.primal,
                dual=certificate.dual, primal_now=certificate.primal, validation=scores,
            )
        )  # fmt: skip
        if certificate.relative_gap <= gap:
            status = Status.CONVERGED
            break
        if spent >= max_seconds:
            break
    message = f"at its own tolerance {tolerance:g}: {certificate}"
    return Run(
        name, w, b, None, certificate, status, message, None, seconds,
        trace[-1].seconds_certify, trace, *_measures(problem, w, b, test),
    )  # fmt: skip


def _peer(name: str, problem: LinearProblem) -> Fit:
    """How to train with another library; an error that says what is missing or impossible."""
    if name not in PEERS:
        raise ValueError(f"unknown peer {name!r}; known: {', '.join(PEERS)}")
    if problem.bias == "free":
        raise ValueError(f"{name} has no free bias; compare with bias none or regularised")
    if problem.hard_margin or (problem.sample_weight != 1).any():
        raise ValueError(f"{name} is compared without sample weights, at a finite C")
    if problem.loss.name not in PEER_LOSSES[name]:
        known = " and ".join(PEER_LOSSES[name])
        raise ValueError(f"{name} is compared on {known}, not on {problem.loss.name}")
    try:
        return PEERS[name](problem)
    except ImportError as error:
        raise ValueError(
            f"the peer {name} is not installed ({error}): pip install {PACKAGES[name]}"
        ) from None


def _sklearn(problem: LinearProblem) -> Fit:
    from sklearn.svm import LinearSVC, LinearSVR

    of_targets, further = problem.loss.residual, dict(problem.loss.parameters)
    kind: Any = LinearSVR if of_targets else LinearSVC

    def fit(tolerance: float) -> tuple[Array, float]:
        import warnings

        model = kind(
            C=problem.C, loss=problem.loss.name, dual=True, tol=tolerance, max_iter=10_000,
            fit_intercept=problem.bias == "regularised", intercept_scaling=problem.bias_scale,
            random_state=0, **further,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge shows in the certificate
            model.fit(problem.X, problem.targets if of_targets else problem.y)
        return model.coef_.ravel().astype(np.float64), float(np.ravel(model.intercept_)[0])

    return fit


def _liblinear(problem: LinearProblem) -> Fit:
    from liblinear.liblinearutil import parameter, train
    from liblinear.liblinearutil import problem as make_problem

    if problem.bias == "regularised" and problem.bias_scale != 1:
        raise ValueError("liblinear is compared with bias_scale = 1")
    number = LIBLINEAR_NUMBERS[problem.loss.name]
    epsilon = problem.loss.parameters.get("epsilon", 0.0)
    biased = problem.bias == "regularised"
    truth = problem.y if problem.targets is None else problem.targets
    data = make_problem(truth, problem.X.astype(np.float64), bias=1 if biased else -1)

    def fit(tolerance: float) -> tuple[Array, float]:
        model = train(
            data, parameter(f"-s {number} -c {problem.C!r} -e {tolerance!r} -p {epsilon!r} -q")
        )
        w, b = model.get_decfun()
        sign = 1.0 if problem.loss.residual or model.get_labels()[0] == 1 else -1.0
        weights = np.zeros(problem.n_features)
        weights[: len(w)] = w
        return sign * weights, sign * float(b) if biased else 0.0

    return fit


def _snapml(problem: LinearProblem) -> Fit:
    from snapml import SupportVectorMachine

    def fit(tolerance: float) -> tuple[Array, float]:
        model = SupportVectorMachine(
            regularizer=1.0 / problem.C, tol=tolerance, max_iter=10_000, kernel="linear",
            fit_intercept=problem.bias == "regularised", intercept_scaling=problem.bias_scale,
            n_jobs=problem.n_threads, random_state=0,
        )  # fmt: skip
        model.fit(problem.X, problem.y)
        b = float(np.ravel(model.intercept_)[0]) if problem.bias == "regularised" else 0.0
        return np.ravel(model.coef_)[: problem.n_features].astype(np.float64), b

    return fit


LIBLINEAR_NUMBERS = {
    "hinge": 3, "squared_hinge": 1, "logistic": 7, "epsilon_insensitive": 13,
    "squared_epsilon_insensitive": 12,
}  # fmt: skip
PEER_LOSSES = {
    "sklearn": (
        "hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive",
    ),
    "liblinear": tuple(LIBLINEAR_NUMBERS),
    "snapml": ("hinge",),
}  # fmt: skip
# Imported only when asked for.
PEERS: dict[str, Callable[[LinearProblem], Fit]] = {
    "sklearn": _sklearn,
    "liblinear": _liblinear,
    "snapml": _snapml,
}
PACKAGES = {"sklearn": "scikit-learn", "liblinear": "liblinear-official", "snapml": "snapml"}
