"""When to stop: rules that look at the progress and say so, combined with `|`.

stop = Gap(1e-3) | Epochs(1000) | Seconds(60)
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from bridle.matrix.door import as_matrix
from bridle.matrix.labels import check_targets
from bridle.objective.answers import of_scores
from bridle.objective.losses import Hinge, Loss
from bridle.solving.interruption import cause
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.objective.certificate import Certificate, Record
    from bridle.objective.point import Iterate


# What a duality gap P - D is divided by.
RelativeTo = Literal["primal", "dual"]


class Status(enum.Enum):
    """Why a solve ended.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, "pegasos", stop=bridle.Epochs(1)).status is bridle.Status.BUDGET
    True
    """

    CONVERGED = "converged"
    SEPARATED = "separated"  # by a perceptron, whose goal that is, before any gap was reached
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class Progress:
    """What a stopping rule may look at."""

    iterate: Iterate
    seconds: float
    certificate: Certificate | None  # the best so far; None before the first
    trace: Sequence[Record] = ()  # one record for each certificate so far

    @property
    def epoch(self) -> float:  # noqa: D102
        return self.iterate.epoch

    @property
    def step(self) -> int:  # noqa: D102
        return self.iterate.step


@dataclass(frozen=True)
class Verdict:
    """A rule's decision to stop: the status, and what happened, as words after "stopped"."""

    status: Status
    because: str


class Stop:
    """A stopping rule. Subclasses implement `verdict`."""

    def verdict(self, progress: Progress) -> Verdict | None:
        """Why to stop now, or None to go on."""
        raise NotImplementedError

    @property
    def rules(self) -> tuple[Stop, ...]:
        """The simple rules that this one is made of."""
        return (self,)

    @property
    def watches(self) -> bool:
        """Whether a rule wants to look at every iterate, and so every one gets a record."""
        return any(isinstance(rule, HeldOutLoss | Suboptimality) for rule in self.rules)

    @property
    def chooses(self) -> bool:
        """Whether the solution is to be the iterate with the lowest held-out loss."""
        return any(isinstance(rule, ValidationLoss) for rule in self.rules)

    def scores(self, w: NDArray[np.float64], b: float) -> dict[str, float]:
        """What the rules measure of an iterate, by name, for its record."""
        found: dict[str, float] = {}
        for rule in self.rules:
            if isinstance(rule, HeldOutLoss):
                found |= rule.measure(w, b)
        return found

    @property
    def goal(self) -> Gap | None:
        """The gap that is asked for, if one is; of several, the one that is reached first."""
        gaps = [rule for rule in self.rules if isinstance(rule, Gap)]
        return max(gaps, key=lambda rule: rule.part_of_primal, default=None)

    @property
    def gap(self) -> float | None:
        """The same as (P - D) / P, which solvers estimate to time certificates by."""
        return None if self.goal is None else self.goal.part_of_primal

    @property
    def steps(self) -> int | None:
        """The exact number of steps that is asked for, if one is."""
        steps = [rule.n for rule in self.rules if isinstance(rule, Steps)]
        return min(steps) if steps else None

    @property
    def epochs(self) -> float | None:
        """The number of epochs that is asked for, if one is."""
        epochs = [rule.n for rule in self.rules if isinstance(rule, Epochs)]
        return min(epochs) if epochs else None

    def __or__(self, other: Stop) -> Stop:
        return AnyOf((*self.rules, *other.rules))


@dataclass(frozen=True)
class AnyOf(Stop):
    """Stops as soon as one of its parts does."""

    parts: tuple[Stop, ...]

    @property
    def rules(self) -> tuple[Stop, ...]:  # noqa: D102
        return self.parts

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        for rule in self.parts:
            verdict = rule.verdict(progress)
            if verdict is not None:
                return verdict
        return None


@dataclass(frozen=True)
class Gap(Stop):
    """Stop at a certified relative duality gap of at most `tol`.

    relative_to: "primal" is (P - D) / P; "dual" is P / D - 1, which bounds (P - P*) / P*.

    Examples
    --------
    >>> bridle.Gap(1e-4) | bridle.Seconds(60)  # whichever comes first
    AnyOf(parts=(Gap(tol=0.0001, relative_to='primal'), Seconds(s=60)))
    """

    tol: float
    relative_to: RelativeTo = "primal"

    def __post_init__(self) -> None:
        _check_tol(self.tol)
        if self.relative_to not in get_args(RelativeTo):
            raise ValueError(f'relative_to must be "primal" or "dual", got {self.relative_to!r}')

    def of(self, certificate: Certificate) -> float:
        """The gap as this rule measures it, never less than it is."""
        if self.relative_to == "primal":
            return certificate.relative_gap
        return certificate.suboptimality_bound

    @property
    def part_of_primal(self) -> float:
        """(P - D) / P where this gap is `tol`: P / D - 1 = t is (P - D) / P = t / (1 + t)."""
        if self.relative_to == "primal":
            return self.tol
        return self.tol / (1.0 + self.tol) if self.tol < math.inf else 1.0

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        certificate = progress.certificate
        if certificate is None or not self.of(certificate) <= self.tol:
            return None
        return Verdict(Status.CONVERGED, f"after {progress.epoch:.4g} epochs")


@dataclass(frozen=True)
class Suboptimality(Stop):
    """Stop when P <= (1 + tol) optimum, of one problem whose optimum is known.

    Every iterate gets a certificate, so that the first one that is good enough ends the run; the
    seconds of the solver alone are in the trace. So does the proof that no weights are.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> optimum = bridle.solve(problem, stop=bridle.Gap(1e-6)).certificate.primal
    >>> found = bridle.solve(problem, "pegasos", stop=bridle.Suboptimality(0.01, optimum))
    >>> found.certificate.primal <= 1.01 * optimum
    True
    """

    tol: float
    optimum: float

    def __post_init__(self) -> None:
        _check_tol(self.tol)
        if not 0 <= self.optimum < math.inf:
            raise ValueError(f"optimum must be finite and at least 0, got {self.optimum}")

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        certificate, most = progress.certificate, (1.0 + self.tol) * self.optimum
        if certificate is None:
            return None
        after = f"after {progress.epoch:.4g} epochs"
        if certificate.primal <= most:
            above = certificate.primal / self.optimum - 1.0 if self.optimum > 0 else 0.0
            return Verdict(Status.CONVERGED, f"{after}, {above:.1e} above the optimum given,")
        if certificate.dual > most:
            least = f"since no weights reach {most:.9g}: all have at least {certificate.dual:.9g};"
            return Verdict(Status.STALLED, f"{after}, {least}")
        return None


def _check_tol(tol: float) -> None:
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, got {tol}")


@dataclass(frozen=True)
class Epochs(Stop):
    """Stop after n passes over the data; n may be a fraction.

    Solvers whose steps are cheaper than an epoch take the fewest steps that see n times as many
    rows as there are: the last minibatch is the one that completes them. Others end with the
    iterate, often a whole epoch, that does.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, "pegasos", stop=bridle.Epochs(2)).epochs
    2.0
    """

    n: float

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        if progress.epoch < self.n:
            return None
        return Verdict(Status.BUDGET, f"after {progress.epoch:.4g} epochs")


@dataclass(frozen=True)
class Steps(Stop):
    """Stop after n steps: exactly n for solvers whose steps are cheaper than an epoch.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> bridle.solve(problem, "pegasos", stop=bridle.Steps(250)).steps
    250
    """

    n: int

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        if progress.step < self.n:
            return None
        return Verdict(Status.BUDGET, f"after {progress.step} steps")


@dataclass(frozen=True)
class Seconds(Stop):
    """Stop after s seconds by the clock on the wall, as soon as the epoch at hand is done.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> found = bridle.solve(problem, "dcd", stop=bridle.Gap(1e-4) | bridle.Seconds(60))
    >>> found.certificate.relative_gap <= 1e-4
    True
    """

    s: float

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        if progress.seconds < self.s:
            return None
        return Verdict(Status.BUDGET, f"after {progress.seconds:.3g} s")


@dataclass(frozen=True)
class HeldOutLoss(Stop):
    """Measure every iterate on held-out rows, for the record; never stop.

    Each iterate gets a record, with `validation_loss` and `validation_error` (the share of rows
    misclassified) beside the training objective; of a loss of residuals y holds the targets, and
    the measures are those of `bridle.objective.answers`. Rows count by their sample_weight.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(600, seed=0)
    >>> problem = bridle.LinearProblem(X[:500], y[:500], C=0.1)
    >>> stop = bridle.Gap(1e-3) | bridle.HeldOutLoss(X[500:], y[500:])
    >>> 0.0 < bridle.solve(problem, stop=stop).trace[-1].validation["validation_loss"] < 1.0
    True
    """

    X: Any = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    loss: Loss = Hinge()  # noqa: RUF009  (frozen)
    sample_weight: NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        object.__setattr__(self, "X", as_matrix(self.X))
        object.__setattr__(self, "y", np.asarray(self.y, np.float64))
        if self.loss.residual:
            check_targets(self.y, self.X.shape[0])
        elif not np.isin(self.y, (-1.0, 1.0)).all() or self.y.shape != (self.X.shape[0],):
            raise ValueError("y must hold a label of -1 or +1 for each row of X")

    def measure(self, w: NDArray[np.float64], b: float) -> dict[str, float]:
        """The mean loss and the error on the held-out rows."""
        scores = np.asarray(self.X @ w).ravel() + b
        if self.loss.residual:
            found = of_scores(self.loss, scores, self.y, self.sample_weight)
            told = {f"validation_{name}": value for name, value in found.items()}
            return {"validation_loss": told.pop("validation_mean_loss"), **told}
        margins = self.y * scores
        return self.means(self.loss.value(margins), margins <= 0)

    def means(self, losses: NDArray[Any], wrong: NDArray[Any]) -> dict[str, float]:
        """Over the rows, by weight."""
        return {
            "validation_loss": float(np.average(losses, weights=self.sample_weight)),
            "validation_error": float(np.average(wrong, weights=self.sample_weight)),
        }

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        return None


STOPPED_FALLING = "the held-out loss stopped falling"


@dataclass(frozen=True)
class ValidationLoss(HeldOutLoss):
    """Stop when the mean loss on held-out rows has not fallen for `patience` records and epochs.

    The solution is the iterate with the lowest held-out loss, and its certificate says how far
    that one is from the optimum on the training rows.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(600, seed=0)
    >>> problem = bridle.LinearProblem(X[:500], y[:500], C=10.0)
    >>> stop = bridle.ValidationLoss(X[500:], y[500:], patience=2)
    >>> found = bridle.solve(problem, "sgd-s", stop=stop)
    >>> bool(found.trace["validation_error"].min() < 0.3)
    True
    """

    patience: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1, got {self.patience}")

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        losses = [record.validation["validation_loss"] for record in progress.trace]
        best = int(np.argmin(losses)) if losses else 0
        # A record may be of less than an epoch, or of several.
        if len(losses) - 1 - best < self.patience:
            return None
        if round(progress.epoch - progress.trace[best].epoch, 6) < self.patience:
            return None
        return Verdict(
            Status.BUDGET,
            f"after {progress.epoch:.4g} epochs, since {STOPPED_FALLING}",
        )


@dataclass(frozen=True)
class Interrupted(Stop):
    """Stop when the flag is up: how Ctrl-C, which only the main thread hears, reaches others."""

    flag: Callable[[], bool]

    def verdict(self, progress: Progress) -> Verdict | None:  # noqa: D102
        return Verdict(Status.INTERRUPTED, cause()) if self.flag() else None
