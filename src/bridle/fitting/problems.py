"""Classes into problems: the only place where fitting constructs problems.

    "ovr"             class k against the rest, for each k: y_i = +1 for rows of class k, else -1
    "ovo"             class i against class j, for each pair, on the rows of these two alone
    "crammer_singer"  all classes in one problem: each true class ahead of every other one,

        min_w  1/2 sum_k |w_k|^2 + sum_i C_i max_k [cost(y_i, k) - (w_{y_i} - w_k).x_i],
        cost(k, k) = 0, and 1 for every other pair unless given

(Crammer & Singer, "On the algorithmic implementation of multiclass kernel-based vector machines",
JMLR 2001), the structural SVM of sequences of length one. The rows of its dual points sum to zero
over the classes: with two of them w_1 = -w_0, and w_1 - w_0 is the decision function.

    "multinomial"     the same with the logistic loss: see `bridle.problems.multinomial`

Two classes are one problem, with the second class as +1. A problem is made when its turn comes.
Rows in memory, on disk and on a cluster answer the same questions here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.errors import DeviceError
from bridle.fitting.labels import ClassWeight, Labels, class_weights
from bridle.fitting.solutions import JointSolution, Solutions
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, is_sparse, readable
from bridle.matrix.fingerprint import fingerprint_of_checked
from bridle.matrix.labels import check_weights, with_signs
from bridle.matrix.threads import check_threads
from bridle.models.deciding import MultiClass, n_problems, pairs
from bridle.objective.bias import Bias
from bridle.objective.losses import Hinge, Loss, loss_from
from bridle.objective.scaling import lam_to_C
from bridle.problems.linear import LinearProblem
from bridle.problems.penalised import PenalisedProblem, l1_ratio_of
from bridle.rows.cuda.device import Where
from bridle.rows.cuda.gram import kernel_place
from bridle.rows.cuda.matrix import fingerprint_on_device, is_on_device
from bridle.rows.cuda.placing import place
from bridle.rows.homes import home_of
from bridle.solvers import Solver
from bridle.solving.solution import Solution
from bridle.solving.stopping import Stop
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from bridle.fitting.early_stopping import Validation
    from bridle.objective.kernels import Kernel, KernelFunction
    from bridle.problems.kernel import KernelProblem
    from bridle.problems.multinomial import MultinomialProblem
    from bridle.rows.cluster.messages import Aside
    from bridle.rows.disk.stored import StoredRows
    from bridle.structured.chain import ChainProblem

Indices = NDArray[np.intp]
Codes = NDArray[Any]


@dataclass(frozen=True)
class KernelChoice:
    """A kernel whose gamma may depend on the rows.

    cache_size: megabytes for its values; None: 500, or most of what a GPU has left.
    """

    kernel: str | KernelFunction | Kernel = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float | None = None

    def settled(self, X: Any, sample_weight: Array | None) -> Kernel:
        """On these rows, which count as often as they weigh, whatever their class."""
        from bridle.objective.kernels import Kernel, kernel_from

        if isinstance(self.kernel, Kernel):
            return self.kernel
        return kernel_from(self.kernel, X, self.gamma, self.degree, self.coef0, sample_weight)


@dataclass(frozen=True)
class Task:
    """What is to be learned: the objective, and how several classes compete.

    class_weight: multiplies C for the rows of a class, in every problem. cost: of confusing one
    class with another, true class first, for "crammer_singer". kernel: None is a linear machine.
    lam: instead of C, that of lam/2 |w|^2 + mean loss. penalty: "l2", "l1" or "elasticnet", whose
    l1 norm counts l1_ratio: see `bridle.problems.penalised`.
    """

    C: float = 1.0
    loss: str | Loss = Hinge()  # noqa: RUF009  (frozen)
    bias: Bias = "none"
    bias_scale: float = 1.0
    multi_class: MultiClass = "ovr"
    class_weight: ClassWeight = None
    cost: ArrayLike | None = None
    kernel: KernelChoice | None = None
    lam: float | None = None
    penalty: str = "l2"
    l1_ratio: float | None = None

    def settled(self, n_rows: int) -> Task:
        """The same with its C, now that the number of rows is known."""
        if self.lam is None:
            return self
        return replace(self, C=lam_to_C(self.lam, n_rows), lam=None)

    @property
    def formula(self) -> dict[str, Any]:
        """What every linear problem wants to know."""
        return {"loss": self.loss, "bias": self.bias, "bias_scale": self.bias_scale}


def linear_problem(
    rows: Any,
    y: ArrayLike | None,
    task: Task,
    *,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
    device: Where = "cpu",
) -> Any:
    """One problem of labels -1 and +1, wherever the rows are."""
    ratio = l1_ratio_of(task.penalty, task.l1_ratio)
    if ratio > 0:
        if device == "cuda" or is_on_device(rows):
            raise DeviceError(f'a GPU has no penalty="{task.penalty}": it is for the processor')
        assert y is not None
        return PenalisedProblem(
            rows, y, task.C, l1_ratio=ratio, sample_weight=sample_weight, n_threads=n_threads,
            **task.formula,
        )  # fmt: skip
    return LinearProblem(
        rows,
        y,
        task.C,
        sample_weight=sample_weight,
        n_threads=n_threads,
        device=device,
        **task.formula,
    )


def joint_problem(
    X: Any,
    codes: ArrayLike,
    n_classes: int,
    task: Task,
    *,
    sample_weight: ArrayLike | None = None,
    n_threads: int | None = None,
) -> ChainProblem:
    """All classes in one; ValueError says what of the task it cannot have.

    Rows whose code is none of a class must have weight zero.
    """
    loss = loss_from(task.loss).name
    if loss != "hinge":
        raise ValueError(f'multi_class="crammer_singer" has the loss "hinge", not "{loss}"')
    if task.bias == "free":
        raise ValueError(
            'multi_class="crammer_singer" cannot leave the intercept unpenalised: bias must be '
            '"regularised" or "none"'
        )
    from bridle.structured.chain import ChainProblem

    X = as_matrix(X)
    return ChainProblem(
        X, np.arange(X.shape[0] + 1), np.maximum(np.asarray(codes), 0), n_classes, task.C,
        cost=task.cost, transitions=False,
        bias=task.bias_scale if task.bias == "regularised" else 0.0,
        sample_weight=sample_weight, n_threads=n_threads,
    )  # fmt: skip


class Problems:
    """The problems of one fit, in the order of the decision functions."""

    n_rows: int
    n_features: int
    workers = 1  # how many are solved at a time
    n_threads = 1  # of all of them together

    def __init__(self, task: Task, labels: Labels) -> None:
        self.task, self.labels = task, labels

    def __len__(self) -> int:
        return n_problems(self.task.multi_class, self.labels.n_classes)

    def sides(self, k: int) -> tuple[int, int | None]:
        """The positive and the negative class of function k; None for all the rest."""
        return sides_of(self.task.multi_class, self.labels.n_classes, k)

    def problem(self, k: int) -> Any:
        """Problem k, whose turn has come."""
        raise NotImplementedError

    def finished(self, k: int, solution: Solution) -> Solution:
        """What is to be done when it is solved."""
        return solution

    def rows_of(self, k: int) -> Any:
        """Which rows, among all, the dual variables of problem k belong to."""
        return slice(None)

    def rule(self, k: int, validation: Validation) -> Stop | None:
        """When to stop problem k, by rows held out."""
        return validation.rule(*self.sides(k), loss_from(self.task.loss))

    def solver(self, solver: str | Solver) -> str | Solver:
        """The solver to use where this one is asked for."""
        return solver

    def collect(self, solutions: tuple[Solution, ...]) -> Solutions:
        """The solutions as decision functions."""
        return Solutions(solutions, self.task.multi_class)

    def codes(self) -> Codes:
        """The place of each row's label among the classes."""
        assert self.labels.codes is not None
        return self.labels.codes

    def dual_variables(self, solutions: Solutions) -> Array:
        """A row for each problem; those of rows that are not in it are zero."""
        if len(self) == 1:
            alpha = np.asarray(solutions.solutions[0].alpha, np.float64)
            if len(alpha) == self.n_rows:
                return alpha[np.newaxis]
        table = np.zeros((len(self), self.n_rows))
        for k, solution in enumerate(solutions.solutions):
            table[k][self.rows_of(k)] = np.asarray(solution.alpha)
        return table


SHARING = 4  # problems that share a GPU: while one waits for this process, others compute


class InMemory(Problems):
    """Rows in memory."""

    base: Any

    def __init__(
        self,
        X: Any,
        labels: Labels,
        task: Task,
        costs: ArrayLike | None,
        n_threads: int | None,
        device: Where = "cpu",
    ) -> None:
        if labels.n_classes < 2:
            raise ValueError(f"there must be at least two classes, got {labels.n_classes}")
        self.X = X if is_on_device(X) else readable(X)
        self.n_threads, self.device = check_threads(n_threads), device
        self.n_rows, self.n_features = self.X.shape
        super().__init__(task.settled(self.n_rows), labels)
        self.costs = None if costs is None else np.asarray(costs, np.float64)

    @property
    def most_at_once(self) -> int:
        """Problems that may be solved at a time."""
        return len(self) * 1024

    def weighing(self, k: int, costs: Array) -> tuple[Any, Indices | None]:
        """Problem k whose rows weigh this; and the classes it has, where it has not all of them."""
        raise ValueError(
            f'C is not chosen with multi_class="{self.task.multi_class}": choose "ovr", or, of a '
            'logistic loss, "multinomial"'
        )

    def signs(self, k: int, rows: Any = slice(None)) -> Array:
        """+1 for the rows of the positive class of problem k, -1 for the others."""
        return with_signs(1.0, self.codes()[rows], self.sides(k)[0], self.n_threads)

    def fingerprint(self, X: Any, y: NDArray[Any]) -> str:
        """The name of the rows, which may have been scaled since, with these labels."""
        return fingerprint_on_device(X, y) if is_on_device(X) else fingerprint_of_checked(X, y)

    @cached_property
    def _weights(self) -> Array:
        return check_weights(self.costs, self.n_rows)


class AgainstRest(InMemory):
    """One class after the other against the rest: the same rows with other signs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        chosen = None
        elsewhere = self.device == "auto" and self.task.penalty == "l2"
        if elsewhere and not is_on_device(self.X):
            loss = loss_from(self.task.loss)
            chosen = place("auto", self.X, self.task.C, loss, len(self), self.n_threads)
            self.device = chosen.device
        self.base: Any = linear_problem(
            self.X, self.signs(0), self.task, sample_weight=self.costs, n_threads=self.n_threads,
            device=self.device,
        )  # fmt: skip
        if chosen is not None:
            self.base.sides.place = str(chosen)
        self.workers = min(self.n_threads, len(self), self.most_at_once)

    def fingerprint(self, X: Any, y: NDArray[Any]) -> str:  # noqa: D102
        seen = X is self.X  # whose columns were looked at
        return str(self.base.rows.fingerprint(y)) if seen else super().fingerprint(X, y)

    @property
    def most_at_once(self) -> int:
        """Problems that may be solved at a time: few, where all of them share a GPU."""
        return SHARING if self.base.place.startswith("cuda") else super().most_at_once

    def weighing(self, k: int, costs: Array) -> tuple[Any, None]:  # noqa: D102
        return self.base.variant(y=self.signs(k), sample_weight=costs), None

    def problem(self, k: int) -> Any:  # noqa: D102
        if len(self) == 1:
            return self.base
        return self.base.variant(y=self.signs(k))


class PairOfClasses(InMemory):
    """One class against another, each on a copy of its own rows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.workers = min(self.n_threads, len(self))
        self._weights  # noqa: B018  (checked now)

    def rows_of(self, k: int) -> Indices:  # noqa: D102
        return rows_of_pair(self.codes(), self.sides(k), self._weights)

    def problem(self, k: int) -> Any:  # noqa: D102
        rows = self.rows_of(k)
        return linear_problem(
            self.X[rows], self.signs(k, rows), self.task, sample_weight=self._weights[rows],
            n_threads=self.n_threads, device=self.device,
        )  # fmt: skip


class Jointly(InMemory):
    """All classes in one problem."""

    base: ChainProblem

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.device == "cuda":
            raise DeviceError(
                'device="cuda" has no multi_class="crammer_singer": choose "ovr" or "ovo"'
            )
        self.base = joint_problem(
            self.X, self.codes(), self.labels.n_classes, self.task, sample_weight=self.costs,
            n_threads=self.n_threads,
        )  # fmt: skip

    def problem(self, k: int) -> ChainProblem:  # noqa: D102
        return self.base

    def rule(self, k: int, validation: Validation) -> Stop:  # noqa: D102
        from bridle.fitting.early_stopping import JointValidation

        return JointValidation.of(validation, self.base, self.labels.n_classes)

    def collect(self, solutions: tuple[Solution, ...]) -> JointSolution:  # noqa: D102
        constant = self.base.chains.bias
        return JointSolution(solutions, "crammer_singer", self.labels.n_classes, constant)


class Multinomially(InMemory):
    """All classes in one logistic loss."""

    base: MultinomialProblem

    def __init__(self, *arguments: Any) -> None:
        from bridle.problems.multinomial import MultinomialProblem

        super().__init__(*arguments)
        if self.device == "cuda" or is_on_device(self.X):
            raise DeviceError('a GPU has no multi_class="multinomial": choose "ovr" or "ovo"')
        self.base = MultinomialProblem(
            self.X, self.codes(), self.labels.n_classes, self.task.C, bias=self.task.bias,
            bias_scale=self.task.bias_scale, sample_weight=self.costs, n_threads=self.n_threads,
        )  # fmt: skip

    def problem(self, k: int) -> MultinomialProblem:  # noqa: D102
        return self.base

    def weighing(self, k: int, costs: Array) -> tuple[MultinomialProblem, Indices | None]:
        """A class without rows is left out: its best score is minus infinity."""
        codes = self.codes()
        kept = np.bincount(codes[costs > 0], minlength=self.labels.n_classes) > 0
        if kept.all():
            return self.base.variant(sample_weight=costs), None
        places = np.where(kept, np.cumsum(kept) - 1, -1)
        return self.base.variant(codes=places[codes], sample_weight=costs), np.flatnonzero(kept)

    def rule(self, k: int, validation: Validation) -> Stop:  # noqa: D102
        raise ValueError(
            'multi_class="multinomial" has no rule for rows held out: choose "ovr", or stop at tol'
        )

    def collect(self, solutions: tuple[Solution, ...]) -> JointSolution:  # noqa: D102
        return JointSolution(solutions, "multinomial", self.labels.n_classes, self.base.constant)


class KernelProblems(InMemory):
    """Kernel machines, each on the rows of its classes that weigh something.

    loo_error_bounds, indefinite: of each problem when it is solved, see `bridle.estimators.svc`.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.task.multi_class not in ("ovo", "ovr"):
            raise ValueError('kernel machines have multi_class "ovo" or "ovr", not one problem')
        choice = self.task.kernel
        assert choice is not None
        self.cache_size, self.kernel = choice.cache_size, choice.settled(self.X, None)
        # The place is that of all problems, each of which may be too small for "auto".
        self._place = kernel_place(self.device, self.kernel, self.X, self.n_threads)
        self._on_device: KernelProblem | None = None
        if self._place.device == "cuda" and len(self) > 1:
            self._on_device = self._problem(self.X, np.arange(self.n_rows), 0, self.kernel)
        # What is no formula of the core is asked once, for all problems.
        self._gram = None
        if self.kernel.is_matrix:
            values = self.kernel.values(self.X, self.X)
            self._gram = values if is_sparse(values) else np.asarray(values)  # sparse: refused
        self._polish = False
        self._open: dict[int, KernelProblem] = {}
        self.loo_error_bounds = np.full(len(self), np.nan)
        self.indefinite: list[str | None] = [None] * len(self)

    def rows_of(self, k: int) -> Indices:  # noqa: D102
        return rows_of_pair(self.codes(), self.sides(k), self._weights)

    def problem(self, k: int) -> KernelProblem:  # noqa: D102
        rows, kernel, part = self.rows_of(k), self.kernel, self.X
        everything = len(rows) == self.n_rows
        if self._gram is not None:
            from bridle.objective.kernels.precomputed import Precomputed

            kernel = Precomputed()
            part = self._gram if everything else self._gram[np.ix_(rows, rows)]
        if self._on_device is not None:
            weights = None if self.costs is None else self.costs[rows]
            self._open[k] = self._on_device.part(rows, y=self.signs(k, rows), sample_weight=weights)
        else:
            part = part if everything or self._gram is not None else part[rows]
            self._open[k] = self._problem(part, rows, k, kernel)
        return self._open[k]

    def _problem(self, X: Any, rows: Indices, k: int, kernel: Kernel) -> KernelProblem:
        """Problem k on these rows, which X has."""
        from bridle.problems.kernel import KernelProblem

        return KernelProblem(
            X, self.signs(k, rows), self.task.C, kernel=kernel, bias=self.task.bias,
            bias_scale=self.task.bias_scale, n_threads=self.n_threads, device=self._place,
            sample_weight=None if self.costs is None else self.costs[rows],
        )  # fmt: skip

    def solver(self, solver: str | Solver) -> str | Solver:
        """Asked for "auto", small problems go on to the last digits."""
        from bridle.solvers.smo import Smo

        self._polish = solver == "auto"
        return Smo(cache_mb=self.cache_size) if solver in ("auto", "smo") else solver

    def finished(self, k: int, solution: Solution) -> Solution:
        """Polished, and with a bound on the error of leaving a row out."""
        from bridle.fitting.leave_one_out import xi_alpha_bound
        from bridle.fitting.polish import polished

        problem = self._open.pop(k)
        if self._polish:
            solution = polished(problem, solution, self.solver("auto"))
        self.indefinite[k] = problem.indefinite
        self.loo_error_bounds[k] = xi_alpha_bound(problem, solution)
        scores = solution.w.scores  # without the bias
        return solution if scores is None else replace(solution, scores=scores + solution.b)


class StoredProblems(Problems):
    """Rows on disk: one class after the other against the rest, each reads the file for itself."""

    def __init__(self, rows: StoredRows, task: Task, n_threads: int | None) -> None:
        self.rows, (self.n_rows, self.n_features) = rows, rows.shape
        task, counts = task.settled(self.n_rows), rows.class_counts.astype(np.float64)
        super().__init__(task, Labels(rows.classes, counts))
        base = LinearProblem(
            rows, None, task.C, positive=float(rows.classes[-1]), n_threads=n_threads,
            **task.formula,
        )  # fmt: skip
        positives = [rows.classes[self.sides(k)[0]] for k in range(len(self))]
        self._own = [base.variant(positive=float(label)) for label in positives]

    def problem(self, k: int) -> LinearProblem:  # noqa: D102
        return self._own[k]

    def error_rate(self, coef: Array, intercept: Array) -> float:
        """Of two classes the certificates have counted the errors; else it takes another pass."""
        sides = self._own[0].sides
        if len(self) == 1:
            return float(sides.best_judged[1] / self.n_rows)
        return float(sides.error_rate(coef, intercept, self.labels.classes))


class ClusterProblems(Problems):
    """Rows on a cluster: one class after the other against the rest, each has all of the cluster.

    parts: DaskRows, or what else answers for them.
    """

    def __init__(self, parts: Any, task: Task, checkpoint: Any = None) -> None:
        base = LinearProblem(parts, None, checkpoint=checkpoint, **task.formula)
        self.facts, task = base.rows.facts, task.settled(base.n_rows)
        super().__init__(task, Labels(self.facts.classes, self.facts.weights))
        self.n_rows, self.n_features = base.n_rows, base.n_features
        self._set(base.variant(C=task.C), self.labels.totals)

    def _set(self, base: LinearProblem, totals: Array) -> None:
        """totals: the weight of the rows of each class that the problems see."""
        weights = class_weights(self.task.class_weight, self.labels.classes, totals)
        self.base = base.variant(class_weight=weights)
        self._own = [self.base.variant(positive=self.sides(k)[0]) for k in range(len(self))]

    def without(self, aside: Aside) -> ClusterProblems:
        """The same, but for the rows that are set aside."""
        other = copy.copy(self)
        shares = self.base.rows.ask("totals_without", aside, self.labels.n_classes)
        other._set(self.base.variant(aside=aside), np.sum(shares, axis=0))
        return other

    def rule(self, k: int, validation: Any) -> Stop | None:
        """By rows of their own, or by those that are set aside."""
        if validation is None or self.base.sides.aside is None:
            return super().rule(k, validation)
        from bridle.fitting.early_stopping import AsideLoss

        return AsideLoss.of(self._own[k], validation.patience)

    def counting(self, class_weight: Array | None) -> ClusterProblems:
        """The same, whose `accuracy` counts rows by these weights of their classes."""
        other = copy.copy(self)
        other.base = self.base.variant(class_weight=class_weight)
        return other

    def held(self, coef: Array, intercept: Array) -> tuple[Array, NDArray[np.intp], Array]:
        """Scores, classes and weights of the rows that are set aside."""
        found = self.base.rows.ask("held", self.base.sides.against, coef, intercept)
        scores, codes, weights = (np.concatenate(part) for part in zip(*found, strict=True))
        return scores, codes, weights

    def accuracy(self, coef: Array, intercept: Array) -> float:
        """On the rows that are set aside, by their weights and those of their classes."""
        hits = self.base.rows.ask("held_hits", self.base.sides.against, coef, intercept)
        right, count = np.sum(hits, axis=0)
        return float(right / count) if count > 0 else np.nan

    def problem(self, k: int) -> LinearProblem:  # noqa: D102
        return self._own[k]

    def finished(self, k: int, solution: Solution) -> Solution:
        """The workers forget the run; alpha stays while somebody has it."""
        self._own[k].sides.close()
        return solution

    def codes(self) -> Codes:  # noqa: D102
        return np.concatenate(self.base.rows.ask("codes"))

    def starts(self, solved: Any) -> list[Solution] | None:
        """The last fit's solutions, whose dual variables are still with the rows, at this C."""
        if len(solved) != len(self) or any(solution.alpha.lost for solution in solved):
            return None
        return [replace(s, alpha=self.base.rescaled(s.alpha, self.task.C)) for s in solved]

    def error_rate(self, coef: Array, intercept: Array) -> float:
        """The share of rows that these weights misclassify, by one more pass."""
        counts = zip(*self.base.rows.ask("errors", coef, intercept), strict=True)
        wrong, used = (sum(part) for part in counts)
        return float(wrong / max(1, used))


def problems_elsewhere(rows: Any, task: Task, n_threads: int | None = None) -> Problems:
    """Those of the task on rows that bring their labels."""
    if home_of(rows) == "disk":
        from bridle.rows.disk.stored import as_stored

        return StoredProblems(as_stored(rows), task, n_threads)
    return ClusterProblems(rows, task)


def problems_in_memory(
    X: Any,
    labels: Labels,
    task: Task,
    costs: ArrayLike | None,
    n_threads: int | None,
    device: Where = "cpu",
) -> InMemory:
    """Those of the task, on rows in memory. costs: the weight of each row, its class's included."""
    if task.kernel is not None:
        return KernelProblems(X, labels, task, costs, n_threads, device)
    ways = {
        "ovr": AgainstRest, "ovo": PairOfClasses, "crammer_singer": Jointly,
        "multinomial": Multinomially if labels.n_classes > 2 else AgainstRest,
    }  # fmt: skip
    if (
        task.penalty != "l2"
        and task.multi_class not in ("ovr", "ovo")
        and (task.multi_class == "crammer_singer" or labels.n_classes > 2)
    ):
        raise ValueError(
            f'multi_class="{task.multi_class}" has no penalty="{task.penalty}": choose "ovr" or '
            '"ovo"'
        )
    if task.multi_class == "multinomial" and loss_from(task.loss).name != "logistic":
        raise ValueError(
            f'multi_class="multinomial" has the loss "logistic", not "{loss_from(task.loss).name}"'
        )
    return ways[task.multi_class](X, labels, task, costs, n_threads, device)


def check_joint(way: str, task: Task, n_classes: int) -> None:
    """ValueError if rows "disk" or on a "cluster" have more classes than one problem of all has."""
    if task.multi_class == "multinomial" and n_classes > 2:
        raise ValueError(
            f'multi_class="multinomial" needs the rows in memory, and these {n_classes} classes '
            f'are on {"disk" if way == "disk" else "a cluster"}: choose multi_class="ovr"'
        )


def sides_of(multi_class: str, n_classes: int, k: int) -> tuple[int, int | None]:
    """The positive and the negative class of function k; None for all the rest."""
    if multi_class == "ovo":
        return pairs(n_classes)[k]
    return (1 if n_classes == 2 else k), None


def rows_of_pair(codes: Codes, sides: tuple[int, int | None], weights: Array) -> Indices:
    """The rows of the two classes (None: of all) that have a weight."""
    positive, negative = sides
    own = codes >= 0 if negative is None else (codes == positive) | (codes == negative)
    return np.flatnonzero(own & (weights > 0))
