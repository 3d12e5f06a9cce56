"""From rows and labels to a model and its certificates: the one way, wherever the rows are.

    found = fit(X, y, task=Task(C=0.1, bias="regularised"), effort=Effort(seed=1))
    found.model, found.solutions.certificate

rows      a matrix in memory; StoredRows or ArrowRows on disk; DaskRows or a collection of Dask
labels    of rows in memory or of a collection; others have them

What a way of learning cannot have is refused by name, with the reason: see
`bridle.fitting.refusals`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.fitting.labels import (
    Labels,
    check_of_classes,
    class_weight_info,
    class_weights,
    encode,
    row_costs,
    row_weights,
)
from bridle.fitting.multiclass import Effort, solve_problems
from bridle.fitting.problems import (
    ClusterProblems,
    KernelProblems,
    Problems,
    StoredProblems,
    Task,
    check_joint,
    problems_in_memory,
)
from bridle.fitting.refusals import WAYS, refuse
from bridle.fitting.solutions import Solutions, Weights
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, is_sparse, readable
from bridle.matrix.labels import with_signs
from bridle.matrix.threads import check_threads
from bridle.models.calibration import own_probabilities
from bridle.models.deciding import check_multi_class, is_joint, n_functions
from bridle.models.header import Objective
from bridle.models.linear import LinearModel
from bridle.objective import answers
from bridle.objective.losses import loss_from
from bridle.objective.point import Point
from bridle.problems.penalised import l1_ratio_of
from bridle.rows.cuda.matrix import is_on_device
from bridle.rows.homes import home_of
from bridle.solving.many import Watcher, without_dual
from bridle.solving.solution import Solution
from bridle.solving.stopping import Status
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from bridle.fitting.calibration import Calibrated, Calibration
    from bridle.fitting.early_stopping import EarlyStopping, HeldOutRows

Watching = Callable[[Labels], Watcher | None]


@dataclass(frozen=True)
class Extras:
    """What a fit is to do beside solving.

    scale: divide each feature by its largest absolute value. held_out: stop by these rows, where
    early_stopping sets some of the rows aside. store_dual: keep the dual variables,
    which prove the certificates, in the model; None keeps them for two classes. resumable: keep
    what a later fit can start from with the solutions. sparse: keep the weights as a CSR matrix.
    """

    scale: bool = False
    early_stopping: EarlyStopping | None = None
    held_out: HeldOutRows | None = None
    calibration: Calibration | None = None
    store_dual: bool | None = False
    resumable: bool = False
    sparse: bool = False

    @property
    def wanted(self) -> dict[str, Any]:
        """Those that are asked for, by the names that the user knows."""
        asked = {
            "scale": self.scale, "early_stopping": self.early_stopping is not None,
            "probability": None if self.calibration is None else self.calibration.method,
            "sparse_coef": self.sparse, "validation": self.held_out is not None,
        }  # fmt: skip
        return {name: value for name, value in asked.items() if value}


@dataclass(frozen=True)
class Fit:
    """What a fit leaves behind: the model, and how it came about."""

    model: Any  # LinearModel or KernelModel; None for a kernel that no file could hold
    solutions: Solutions
    problems: Problems
    provenance: dict[str, Any]  # objective, fingerprint, info ...: what models say of themselves
    calibrated: Calibrated | None = None
    lost: str | None = None  # why there are no dual variables, though they were asked for
    tally: Tally | None = None  # of the class of each row, where certificates saw it

    @property
    def labels(self) -> Labels:
        """Classes, their total weights, and of rows in memory the codes."""
        return self.problems.labels

    @property
    def weighted(self) -> bool:
        """Whether rows had weights, by themselves, by their classes or since some are held out."""
        return self.provenance["objective"].weighted or "class_weight" in self.provenance["info"]

    @property
    def status(self) -> Status:
        """The worst of the problems' endings."""
        return self.solutions.status

    @property
    def calibration_info(self) -> dict[str, Any]:
        """For a model's `info`: the maps from scores to probabilities, if there are any."""
        if self.calibrated is None:
            return {}
        return {"calibrators": [found.as_dict() for found in self.calibrated.calibrators]}

    def dual_coef(self) -> Array:
        """alpha_i y_i, a row for each decision function; of a model that has its dual variables."""
        alpha, codes = self.model.alpha, self.problems.codes()
        n_threads = self.problems.n_threads
        signed = [
            with_signs(own, codes, self.problems.sides(k)[0], n_threads)
            for k, own in enumerate(alpha)
        ]
        return signed[0][np.newaxis] if len(signed) == 1 else np.stack(signed)

    def measures(self, n_threads: int | None = None) -> answers.Measures:
        """How right the model is on the training rows."""
        return {"error": self.error_rate(n_threads)}

    def error_rate(self, n_threads: int | None = None) -> float:
        """The share of training rows that the model misclassifies.

        From the scores of the certificates, where they saw all rows; else it takes another pass.
        """
        if isinstance(self.problems, StoredProblems | ClusterProblems):
            return self.problems.error_rate(self.model.coef, self.model.intercept)
        codes = self.problems.codes()
        guesses = None if self.tally is None else self.tally.guesses()
        if guesses is None:
            X: Any = self.problems.X  # type: ignore[attr-defined]
            unscaled = replace(self.model, scale=None)
            if self.model.scale is not None and self.model.kind == "linear":
                unscaled = replace(unscaled, coef=self.model.coef * self.model.scale)
            predicted = unscaled.predict(X, n_threads=n_threads)
            guesses = np.searchsorted(self.labels.classes, predicted)
        return float(np.mean(guesses != codes))


def fit(
    rows: Any,
    labels: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | float | None = None,
    task: Task = Task(),  # noqa: B008  (frozen)
    effort: Effort = Effort(),  # noqa: B008  (frozen)
    extras: Extras = Extras(),
    start: Any = None,
    watch: Watching | None = None,
) -> Fit:
    """Learn what the task says of these rows.

    start: what to go on from: a model that an earlier fit on as many rows has made; on a cluster
    the solutions of that fit, whose dual variables are still there. watch: makes the watcher of all
    problems, once the classes are known.
    """
    check_multi_class(task.multi_class)
    check_of_classes(loss_from(task.loss))
    homes = {"disk": _on_disk, "cluster": _on_cluster}
    how = _How(task, effort, extras, start, watch)
    return homes.get(home_of(rows), _in_memory)(rows, labels, sample_weight, how)


@dataclass(frozen=True)
class _How:
    """What `fit` was asked for."""

    task: Task
    effort: Effort
    extras: Extras
    start: Any
    watch: Watching | None


def _on_disk(rows: Any, labels: Any, sample_weight: Any, how: _How) -> Fit:
    from bridle.rows.disk.stored import as_stored

    refuse_elsewhere("disk", how.task, how.extras)
    _refuse_device("disk", how.effort)
    stored = as_stored(rows, labels, sample_weight)
    check_joint("disk", how.task, len(stored.classes))
    if how.task.multi_class == "multinomial":  # of two classes
        how = replace(how, task=replace(how.task, multi_class="ovr"))
    problems = StoredProblems(stored, how.task, how.effort.n_threads)
    known = (stored.fingerprint(), stored.weighted, stored.zero_based)
    return _solved(problems, how, known, start=None, validation=_held_out(how, problems))


def _on_cluster(rows: Any, labels: Any, sample_weight: Any, how: _How) -> Fit:
    from bridle.fitting.early_stopping import check_fraction
    from bridle.rows.cluster.dask_rows import as_rows
    from bridle.rows.cluster.messages import Aside

    refuse_elsewhere("cluster", how.task, how.extras)
    _refuse_device("cluster", how.effort)
    _check_combination(how.task, how.extras)
    parts = as_rows(rows, labels, sample_weight)
    problems = ClusterProblems(parts, how.task, how.effort.checkpoint)
    facts, extras = problems.facts, how.extras
    check_joint("cluster", how.task, len(facts.classes))
    known = (problems.base.rows.fingerprint(), facts.weighted, facts.zero_based)
    if extras.calibration is not None:
        from bridle.fitting.folds import shared

        stop = shared(how.effort.stop, 1 + extras.calibration.folds)
        how = replace(how, effort=replace(how.effort, stop=stop))
    validation, stopping = _held_out(how, problems), extras.early_stopping
    if stopping is not None:
        validation = stopping
        check_fraction(stopping.fraction)
        problems = problems.without(Aside(how.effort.seed, 0.0, stopping.fraction))
        known = (known[0], True, known[2])
    start = None if how.start is None else problems.starts(how.start)
    found = _solved(problems, how, known, start=start, validation=validation)
    calibration = extras.calibration
    if calibration is None:
        return found
    return _calibrated(found, lambda: calibration.fitted_on_cluster(problems, how.effort))


def _held_out(how: _How, problems: Problems) -> Any:
    """Rows of their own to stop by, if there are any."""
    held = how.extras.held_out
    if held is None:
        return None
    return held.validation(problems.labels.classes, problems.n_features, None)


def refuse_elsewhere(way: str, task: Task, extras: Extras) -> None:
    """ValueError if rows "disk" or on a "cluster" cannot have this."""
    asked = {
        "multi_class": None if task.multi_class in ("ovr", "multinomial") else task.multi_class,
        "class_weight": task.class_weight, "kernel": task.kernel and task.kernel.kernel,
        "warm_start": extras.resumable or None,
        "penalty": None if task.penalty == "l2" else task.penalty,
    }  # fmt: skip
    unusual = {name: value for name, value in asked.items() if value is not None}
    refuse(way, unusual | extras.wanted)
    if way == "cluster" and not np.isfinite(task.C):
        raise ValueError("C=inf is not available on a cluster: its dual variables have no bounds")


def _refuse_device(way: str, effort: Effort) -> None:
    if effort.device == "cuda":
        refuse(way, {"device": effort.device})


def _in_memory(rows: Any, y: Any, sample_weight: Any, how: _How) -> Fit:
    if y is None:
        raise ValueError("the labels are missing: only rows on disk or on a cluster bring theirs")
    task, effort, extras = how.task, how.effort, how.extras
    _check_combination(task, extras)
    # Where SciPy computes with it, the columns are looked at before; the core does it by itself.
    if is_on_device(rows):
        refuse("cuda", extras.wanted)
        X = rows
    else:
        X = as_matrix(rows) if extras.scale or task.kernel is not None else readable(rows)
    weights = row_weights(sample_weight, X.shape[0])
    labels = encode(y, weights, check_threads(effort.n_threads))
    assert labels.codes is not None
    if is_joint(task.multi_class, labels.n_classes) and extras.store_dual and not extras.resumable:
        raise ValueError(
            f"store_dual needs one dual variable for each row, which multi_class="
            f'"{task.multi_class}" does not have'
        )
    costs = row_costs(labels, weights, task.class_weight)
    sizes, solved = _scaled(X) if extras.scale else (None, X)
    if task.kernel is not None:
        settled = task.kernel.settled(solved, weights)
        task = replace(task, kernel=replace(task.kernel, kernel=settled))
    validation, stopping = None, extras.early_stopping
    if stopping is not None:
        validation, costs = stopping.set_aside(solved, labels.codes, weights, costs, effort.seed)
    elif extras.held_out is not None:
        validation = extras.held_out.validation(labels.classes, X.shape[1], sizes)
    if extras.calibration is not None:
        from bridle.fitting.folds import shared

        effort = replace(effort, stop=shared(effort.stop, 1 + extras.calibration.folds))
    problems = problems_in_memory(solved, labels, task, costs, effort.n_threads, effort.device)
    name = problems.fingerprint(X, np.asarray(y))
    known = (name, weights is not None or stopping is not None, False)
    found = _solved(
        problems, replace(how, effort=effort), known, start=_starts(how.start, problems),
        validation=validation, sizes=sizes,
    )  # fmt: skip
    if (calibration := extras.calibration) is None:
        return found
    return _calibrated(
        found, lambda: calibration.fitted(solved, labels, weights, found.problems.task, effort)
    )


def _scaled(X: Any) -> tuple[Array, Any]:
    """The largest values of the features, and X divided by them."""
    from bridle.models.scaling import divided, largest_values

    sizes = largest_values(X)
    return sizes, divided(X, sizes)


def _calibrated(found: Fit, calibrate: Callable[[], Calibrated | None]) -> Fit:
    """With maps from scores to probabilities, unless Ctrl-C came before them."""
    if found.status is Status.INTERRUPTED:
        return found
    made = calibrate()
    if made is None:
        return found
    found = replace(found, calibrated=made)
    if found.model is None:
        return found
    info = found.model.info | found.calibration_info
    return replace(found, model=replace(found.model, info=info))


def _check_combination(task: Task, extras: Extras) -> None:
    if extras.early_stopping is not None and extras.calibration is not None:
        raise ValueError(
            "early_stopping and probability cannot be combined: calibrate a fit that stops early "
            "with scikit-learn's CalibratedClassifierCV"
        )
    if extras.held_out is not None and extras.calibration is not None:
        raise ValueError("validation and probability cannot be combined")
    if task.multi_class == "crammer_singer" and (extras.store_dual or extras.resumable):
        name = "warm_start" if extras.resumable else "store_dual"
        raise ValueError(WAYS["crammer_singer"].refusal(name, name))
    if task.kernel is not None:
        refuse("kernel", extras.wanted)
        if loss_from(task.loss).name != "hinge":
            raise ValueError("kernel machines have the hinge loss")


def _solved(
    problems: Problems,
    how: _How,
    known: tuple[str, bool, bool],
    *,
    start: Sequence[Any] | None,
    validation: Any = None,
    sizes: Array | None = None,
) -> Fit:
    """The problems solved, and a model made of it.

    known: the fingerprint, whether rows weigh differently, whether texts count from zero.
    """
    effort, keeper = how.effort, _Keeper(problems, how.extras)
    if how.watch is not None:
        effort = replace(effort, watch=how.watch(problems.labels))
    solutions = solve_problems(
        problems, effort, start=start, take=keeper.take, validation=validation
    )
    about = _provenance(problems, solutions, effort, known, sizes)
    if isinstance(problems, KernelProblems):
        model, lost = _kernel_model(problems, solutions, about), None
    else:
        model, lost = _linear_model(problems, solutions, keeper, about)
    return Fit(model, solutions, problems, about, lost=lost, tally=keeper.tally)


class _Keeper:
    """What to keep of each solution: with many classes the rest must go at once."""

    def __init__(self, problems: Problems, extras: Extras) -> None:
        task, n_classes = problems.task, problems.labels.n_classes
        jointly = is_joint(task.multi_class, n_classes)
        self.stores_dual = bool(extras.store_dual)
        if extras.store_dual is None:
            self.stores_dual = n_classes == 2 and not jointly and problems.labels.codes is not None
        self.stores_dual &= not jointly
        self._keeps_alpha = self.stores_dual or extras.resumable
        self._sparse = extras.sparse
        self.weights: Weights | None = None
        if task.kernel is None and not jointly:
            n = n_functions(task.multi_class, n_classes)
            self.weights = Weights(n, problems.n_features, sparse=extras.sparse)
        apart = len(problems) == 1 and not jointly
        self.tally = Tally(problems) if task.multi_class == "ovr" or apart else None

    def take(self, k: int, solution: Solution) -> Solution:
        """As soon as it is found; several threads may come with theirs."""
        if self.tally is not None:
            self.tally.see(k, solution)
        solution = replace(solution, scores=None)
        if not self._keeps_alpha:
            solution = without_dual(k, solution)
        return solution if self.weights is None else self.weights.take(k, solution)

    def coef(self, solutions: Solutions) -> Any:
        """The weights of all functions."""
        coef = solutions.coef if self.weights is None else self.weights.coef()
        if self._sparse and not is_sparse(coef):
            from scipy.sparse import csr_matrix

            return csr_matrix(coef)
        return coef


class Tally:
    """The class that wins each row, of those seen so far: two vectors, however many classes."""

    def __init__(self, problems: Problems) -> None:
        self._waiting, self._two = len(problems), len(problems) == 1
        self._n_rows = problems.n_rows
        self._best: Array = np.empty(0)
        self._winner: NDArray[np.intp] = np.empty(0, np.intp)
        self._lock = threading.Lock()

    def see(self, k: int, solution: Solution) -> None:
        """The scores of all rows by function k, if its certificate kept them; the first wins."""
        scores = solution.scores
        if not isinstance(scores, np.ndarray) or len(scores) != self._n_rows:
            return
        with self._lock:
            self._waiting -= 1
            if self._two:
                self._best = scores
            elif not len(self._best):
                self._best, self._winner = scores.copy(), np.full(len(scores), k)
            else:
                ahead = (scores > self._best) | ((scores == self._best) & (k < self._winner))
                self._best[ahead], self._winner[ahead] = scores[ahead], k

    def guesses(self) -> NDArray[np.intp] | None:
        """The class of each row; None if the scores of some function are missing."""
        if self._waiting:
            return None
        return (self._best > 0).astype(np.intp) if self._two else self._winner


def _provenance(
    problems: Problems,
    solutions: Solutions,
    effort: Effort,
    known: tuple[str, bool, bool],
    sizes: Array | None,
) -> dict[str, Any]:
    """What every kind of model says of where it comes from."""
    task, (name, weighted, zero_based) = problems.task, known
    loss, solver = loss_from(task.loss), problems.solver(effort.solver)
    bias, scale = task.bias, float(task.bias_scale)
    return {
        "objective": Objective(
            loss.name, float(task.C), bias, scale, weighted, plain(loss.parameters),
            l1_ratio_of(task.penalty, task.l1_ratio),
        ),
        "fingerprint": name, "n_rows": problems.n_rows, "zero_based": zero_based, "scale": sizes,
        "info": {
            "solver": solver if isinstance(solver, str) else solver.name,
            "status": solutions.status.value, **_class_weight_info(task, problems),
            **({} if task.cost is None else {"cost": np.asarray(task.cost, float).tolist()}),
        },
    }  # fmt: skip


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Those that a header can hold."""
    return {k: v for k, v in parameters.items() if isinstance(v, int | float | str | bool)}


def _kernel_model(problems: KernelProblems, solutions: Solutions, about: dict[str, Any]) -> Any:
    """None where a file could not hold it: its kernel has no name, or the vectors are merged."""
    from bridle.models.kernel import KernelModel
    from bridle.objective.kernels.settling import is_storable

    merged = any(solution.w.centres is not None for solution in solutions.solutions)
    if not is_storable(problems.kernel) or (merged and len(problems) > 1):
        return None
    return KernelModel.from_solutions(
        problems.X, solutions, problems.kernel, classes=problems.labels.classes,
        rows=[problems.rows_of(k) for k in range(len(problems))],
        certificates=tuple(solution.certificate for solution in solutions.solutions),
        multi_class=problems.task.multi_class, **about,
    )  # fmt: skip


def _linear_model(
    problems: Problems, solutions: Solutions, keeper: _Keeper, about: dict[str, Any]
) -> tuple[LinearModel, str | None]:
    """The model; and why it has no dual variables, if they were to be kept and are lost."""
    alpha, lost = gathered(problems, solutions) if keeper.stores_dual else (None, None)
    coef, sizes = keeper.coef(solutions), about["scale"]
    if loss_from(problems.task.loss).sigmoid:  # of its scores is the probability itself
        about = about | {"info": about["info"] | {"calibrators": own_probabilities(len(coef))}}
    if sizes is not None:
        coef = coef.multiply(1.0 / sizes).tocsr() if is_sparse(coef) else coef / sizes
    model = LinearModel(
        coef=coef, intercept=solutions.intercept, alpha=alpha, classes=problems.labels.classes,
        certificates=tuple(solution.certificate for solution in solutions.solutions),
        multi_class=problems.task.multi_class, **about,
    )  # fmt: skip
    return model, lost


def _class_weight_info(task: Task, problems: Problems) -> dict[str, Any]:
    labels = problems.labels
    return class_weight_info(class_weights(task.class_weight, labels.classes, labels.totals))


def gathered(problems: Problems, solutions: Solutions) -> tuple[Array | None, str | None]:
    """The dual variables, a row for each problem; or why there are none any more.

    A worker may die after the last certificate, with what it alone had: the weights and the
    certificate are as good as before.
    """
    if not isinstance(problems, ClusterProblems):
        return problems.dual_variables(solutions), None
    from bridle.rows.cluster.resident import LostError

    try:
        return problems.dual_variables(solutions), None
    except LostError as error:
        return None, str(error)


def _starts(model: Any, problems: Problems) -> list[Point] | None:
    """Where to go on from, one point for each problem; None to start afresh."""
    expected = (n_functions(problems.task.multi_class, problems.labels.n_classes),
                problems.n_features)  # fmt: skip
    if model is None or not np.array_equal(model.classes, problems.labels.classes):
        return None
    if model.multi_class != problems.task.multi_class or model.coef.shape != expected:
        return None
    coef, alpha = model.dense().coef, model.alpha
    if is_joint(model.multi_class, len(model.classes)):
        base: Any = problems.problem(0)
        last = [model.intercept / base.constant] if base.constant else []
        return [Point(np.vstack([coef.T, *last]).ravel())]
    if alpha is not None and alpha.shape[1] != problems.n_rows:
        alpha = None
    return [
        Point(w, float(b), None if alpha is None else alpha[k][problems.rows_of(k)])
        for k, (w, b) in enumerate(zip(coef, model.intercept, strict=True))
    ]
