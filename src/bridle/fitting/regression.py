"""From rows without classes to one function and its certificate, wherever the rows are.

    found = fit_regression(X, y, task=Task(C=0.1, loss=Pinball(0.9), bias="free"))
    found.model, found.solution.certificate
    fit_regression(X, task=Task(loss=OneClass(0.1), bias="free"))

The task's loss is one of residuals, of w.x + b - t instead of y (w.x + b), or that of one class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bridle.fitting.fit import Extras, plain
from bridle.fitting.folds import deal, shared
from bridle.fitting.labels import Labels, row_weights
from bridle.fitting.multiclass import Effort, solve_problems
from bridle.fitting.polish import polished
from bridle.fitting.problems import Problems, Task, linear_problem
from bridle.fitting.refusals import refuse
from bridle.fitting.solutions import Solutions
from bridle.matrix.door import as_matrix, readable
from bridle.matrix.fingerprint import fingerprint
from bridle.models.header import Objective
from bridle.models.one_class import LinearOneClassModel
from bridle.models.regression import RegressionModel
from bridle.models.scaling import divided, largest_values
from bridle.objective import answers
from bridle.objective.losses import loss_from
from bridle.problems.linear import LinearProblem
from bridle.rows.base import SCORES
from bridle.rows.homes import MEMORY, home_of
from bridle.solvers import Solver
from bridle.solvers.smo import Smo
from bridle.solving.many import Watcher
from bridle.solving.solution import Solution
from bridle.solving.stopping import Status, Stop
from numpy.typing import ArrayLike

NO_CLASSES = Labels(np.empty(0), np.empty(0))


class TargetProblem(Problems):
    """The one problem of a regression, or of one class."""

    def __init__(
        self, rows: Any, targets: Any, task: Task, sample_weight: Any, effort: Effort
    ) -> None:
        base = linear_problem(
            rows, targets, task, sample_weight=sample_weight, n_threads=effort.n_threads,
            device=effort.device,
        )  # fmt: skip
        self.n_rows, self.n_features = base.n_rows, base.n_features
        super().__init__(task.settled(self.n_rows), NO_CLASSES)
        self.base: LinearProblem = base if task.lam is None else base.variant(C=self.task.C)
        if hasattr(base.rows, "facts"):  # of a cluster
            self.facts = base.rows.facts

    def __len__(self) -> int:
        return 1

    def problem(self, k: int) -> LinearProblem:  # noqa: D102
        return self.base

    def rule(self, k: int, validation: Any) -> Stop:  # noqa: D102
        rule: Stop = validation
        return rule


class KernelTargets(TargetProblem):
    """The same of a kernel machine."""

    base: Any

    def __init__(
        self, X: Any, targets: Any, task: Task, sample_weight: Any, effort: Effort
    ) -> None:
        from bridle.problems.kernel import KernelProblem

        assert task.kernel is not None
        self.n_rows, self.n_features = X.shape
        Problems.__init__(self, task.settled(self.n_rows), NO_CLASSES)
        self.base = KernelProblem(
            X, targets, self.task.C, loss=task.loss, bias=task.bias, bias_scale=task.bias_scale,
            kernel=task.kernel.settled(X, sample_weight), sample_weight=sample_weight,
            n_threads=effort.n_threads, device=effort.device,
        )  # fmt: skip
        self.X, self._polish = X, effort.solver == "auto"

    def solver(self, solver: str | Solver) -> str | Solver:
        """Asked for "auto", small problems go on to the last digits."""
        assert self.task.kernel is not None
        return Smo(cache_mb=self.task.kernel.cache_size) if solver in ("auto", "smo") else solver

    def finished(self, k: int, solution: Solution) -> Solution:  # noqa: D102
        return polished(self.base, solution, self.solver("auto")) if self._polish else solution


@dataclass(frozen=True)
class RegressionFit:
    """What it leaves behind: the model, and how it came about."""

    model: Any  # of the kind that the task asks for
    solutions: Solutions
    problems: TargetProblem
    calibrated: None = None  # as of a Fit; nothing here is calibrated, or lost
    lost: None = None

    @property
    def solution(self) -> Solution:
        """The only one."""
        return self.solutions.solutions[0]

    @property
    def problem(self) -> LinearProblem:
        """Which it solves."""
        return self.problems.base

    @property
    def labels(self) -> Labels:
        """None."""
        return self.problems.labels

    @property
    def status(self) -> Status:
        """How it ended."""
        return self.solution.status

    def measures(self, n_threads: int | None = None) -> answers.Measures:
        """How far off the training rows are; nothing of rows that are not in memory."""
        problem = self.problem
        if isinstance(self.problems, KernelTargets):
            said = self.model.predict(self.problems.X, n_threads=n_threads)
            found: answers.Measures = self.model.measures(said, problem.targets)
            return found
        if SCORES not in problem.rows.offers:
            return {}
        scores = self.solution.scores
        if not isinstance(scores, np.ndarray):
            scores = problem.scores(self.solution.w, self.solution.b)
        if problem.targets is None:
            return answers.of_one_class(self.model.decide(scores))
        return answers.of_numbers(scores, problem.targets, problem.loss)


def fit_regression(
    rows: Any,
    targets: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | float | None = None,
    task: Task,
    effort: Effort = Effort(),  # noqa: B008  (frozen)
    extras: Extras = Extras(),  # noqa: B008  (frozen)
    watch: Any = None,
) -> RegressionFit:
    """Learn to predict the targets; rows on disk or on a cluster bring theirs.

    Of the loss of one class there are none, and what is learned is who belongs.
    watch: makes the watcher, as in `bridle.fitting.fit.fit`.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), [0.0, 2.0, 4.0]
    >>> task = bridle.fitting.problems.Task(C=100.0, loss=bridle.Squared(), bias="free")
    >>> bridle.fit_regression(X, y, task=task).model.predict([[3.0]]).round(1)
    array([6.])
    """
    loss = loss_from(task.loss)
    if loss.of_classes:
        raise ValueError(f"the loss {loss.name!r} is one of classes, not of targets")
    if loss.one_class:
        targets = None
    home, sizes, name = home_of(rows), None, None
    if task.kernel is not None and (home != MEMORY or extras.scale or extras.held_out is not None):
        away = {} if home == MEMORY else {"memory": home}
        refuse("kernel_function", away | extras.wanted)
    if home == MEMORY:
        rows = readable(rows) if task.kernel is None else as_matrix(rows)
        sample_weight = row_weights(sample_weight, rows.shape[0])
        if extras.scale:
            name = fingerprint(rows, np.ones(rows.shape[0]) if targets is None else targets)
            sizes = largest_values(rows)
            rows = divided(rows, sizes)
    made = TargetProblem if task.kernel is None else KernelTargets
    problems = made(rows, targets, task, sample_weight, effort)
    if watch is not None:
        effort = replace(effort, watch=_watcher(watch))
    validation: Any = None
    if extras.held_out is not None:
        validation = extras.held_out.targets(loss, problems.n_features, sizes)
    solutions = solve_problems(problems, effort, validation=validation)
    weighted = sample_weight is not None or bool(getattr(rows, "weighted", False))
    if isinstance(problems, KernelTargets):
        name = fingerprint(rows, np.ones(problems.n_rows) if targets is None else targets)
        kernel_model = _kernel_model(problems, solutions, name, weighted=weighted)
        return RegressionFit(kernel_model, solutions, problems)
    model = _model(problems, solutions, home == MEMORY and bool(extras.store_dual))
    model = replace(
        model, scale=sizes, coef=model.coef if sizes is None else model.coef / sizes,
        objective=replace(model.objective, weighted=weighted),
        fingerprint=model.fingerprint if name is None else name,
    )  # fmt: skip
    return RegressionFit(model, solutions, problems)


def cross_validated_targets(
    X: Any, targets: ArrayLike, weights: Any, task: Task, effort: Effort, n_folds: int
) -> tuple[answers.Measures | None, float]:
    """How far off rows that were held out are, by their weights, and the worst gap of any fold.

    As `bridle.fitting.folds.cross_validated`: nothing if Ctrl-C left folds unsolved.
    """
    effort = replace(effort, stop=shared(effort.stop, n_folds))
    problems = TargetProblem(readable(X), targets, task, weights, effort)
    base, scores, worst = problems.base, np.zeros(problems.n_rows), 0.0
    used = np.where(base.sample_weight > 0, 0, -1)
    folds = deal(used, n_folds, effort.seed)
    for fold in range(n_folds):
        held = folds == fold
        problems.base = base.variant(sample_weight=np.where(held, 0.0, base.sample_weight))
        (solution,) = solve_problems(problems, effort).solutions
        if solution.status is Status.INTERRUPTED:
            return None, worst
        scores[held] = base.scores(solution.w, solution.b)[held]
        worst = max(worst, solution.certificate.relative_gap)
    assert base.targets is not None
    measures = answers.of_numbers(scores, base.targets, base.loss, base.sample_weight)
    return measures, worst


def _model(
    problems: TargetProblem, solutions: Solutions, store_dual: bool
) -> RegressionModel | LinearOneClassModel:
    problem, (solution,), task = problems.base, solutions.solutions, problems.task
    fingerprint = problem.identity()
    return (LinearOneClassModel if problem.loss.one_class else RegressionModel)(
        np.asarray(solution.w), float(solution.b),
        Objective(
            problem.loss.name, float(problem.C), task.bias, float(task.bias_scale),
            parameters=plain(problem.loss.parameters),
        ),
        solution.certificate, "" if fingerprint is None else str(fingerprint["data"]),
        problem.n_rows, np.array(solution.alpha) if store_dual else None,
        info={"solver": solution.solver, "status": solution.status.value},
    )  # fmt: skip


def _kernel_model(
    problems: KernelTargets, solutions: Solutions, name: str, *, weighted: bool
) -> Any:
    from bridle.models.kernel_function import KernelRegressionModel, OneClassModel

    problem, (solution,) = problems.base, solutions.solutions
    used = np.flatnonzero(solution.w.coefficients)
    kind = OneClassModel if problem.loss.one_class else KernelRegressionModel
    return kind(
        kernel=problem.kernel, support=problems.X[used],
        coefficients=np.ascontiguousarray(solution.w.coefficients[used]),
        intercept=float(solution.b),
        objective=Objective(
            problem.loss.name, float(problem.C), problem.bias, float(problem.bias_scale), weighted,
            parameters=plain(problem.loss.parameters),
        ),
        certificate=solution.certificate, fingerprint=name, n_rows=problems.n_rows,
        info={"solver": solution.solver, "status": solution.status.value},
    )  # fmt: skip


def _watcher(watch: Any) -> Watcher | None:
    watcher: Watcher | None = watch(NO_CLASSES)
    return watcher
