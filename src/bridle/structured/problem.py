"""The structural problem: margins between the true output and every other one.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i max_y [Delta(y_i, y) - w.psi_i(y)],
    psi_i(y) = Psi(x_i, y_i) - Psi(x_i, y)

The maximum is over every output, the truth with its 0 included: one oracle call a row evaluates it
exactly. A dual point is, for each row, a convex combination of outputs. Only its mean matters:

    D = l - 1/2 |W|^2,   W = sum_i C_i mean psi_i,   l = sum_i C_i mean Delta_i.

So `alpha` is the vector (W, l) here. With C = inf, the hard margin, every w.psi_i(y) >= Delta must
hold, the objective is 1/2 |w|^2, and the dual's combinations need not be convex: any weights >= 0
will do. If no w satisfies them all, some combination of constraints has W = 0 and l > 0, and the
sum of what they ask for is 0 >= l: a proof.

Values are bounds that hold under rounding: see `bounds`. The oracle is asked in floating point, and
`slips` says how much better than its answer another output may be for that reason.

Slack rescaling replaces psi_i(y) by Delta(y_i, y) psi_i(y).
(Tsochantaridis, Joachims, Hofmann & Altun, "Large margin methods for structured and interdependent
output variables", JMLR 2005.)
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from bridle.errors import OracleError
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.threads import Threads, check_threads
from bridle.objective.certificate import Source
from bridle.objective.rounding import TINY, ZERO, Interval, U, gamma, is_power_of_two, product
from bridle.objective.scaling import check_C
from bridle.problems.base import ORACLE, Judgement, Problem
from bridle.problems.exact import Exact
from bridle.structured.bounds import MORE, NONE, Errors, dual_between, length_above, of_sum
from bridle.structured.oracle import Oracle
from bridle.structured.sparse import Indices, SparseVector, sparse_vector
from numpy.typing import ArrayLike, NDArray

SCALARS = 40  # roundings of sums and products that do not depend on the size of anything
MARGINS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)  # w is made longer by one of these to be feasible
FEASIBLE = 1e-9  # a violation of less than this, relative to the loss or to |w||psi|, is rounding

Rescaling = Literal["margin", "slack"]


@dataclass(frozen=True)
class Constraint:
    """One output of one row: w.psi >= loss is what the row asks for."""

    psi: SparseVector
    loss: float
    errors: Errors = NONE  # of psi and loss, which may have been rounded
    # What psi is the sum of, times the loss with slack rescaling: for proofs, where it was rounded.
    terms: tuple[Indices, Array] | None = None
    factor: float = 1.0
    reach: float = 0.0  # the lengths of the two feature vectors that psi is the difference of
    entries: int = 0  # how many these have

    def exact(self) -> dict[int, Fraction] | None:
        """Psi without rounding, or None if that is not known."""
        if self.terms is None and self.errors.features > 0:
            return None
        indices, values = self.terms or (self.psi.indices, self.psi.values)
        found: dict[int, Fraction] = {}
        for k, value in zip(indices.tolist(), values.tolist(), strict=True):
            found[k] = found.get(k, Fraction(0)) + Fraction(value)
        return {k: Fraction(self.factor) * value for k, value in found.items() if value}

    def above(self, w: Array, length: float) -> float:
        """loss - w.psi, from above; length: |w|, from above.

        With a `reach`, another output may be better by the rounding of either score: an oracle that
        compares them may not have seen it.
        """
        n = len(self.psi.values)
        value = self.loss - self.psi.dot(w)
        error = gamma(max(n, self.entries) + SCALARS) * (
            (self.reach + self.psi.length) * length + self.loss
        )
        error += self.errors.features * length + self.errors.loss
        above = value + MORE * (error + n * TINY)
        return math.nextafter(above, math.inf) if error > 0 else above

    def violation(self, w: Array) -> float:
        """loss - w.psi."""
        return self.loss - self.psi.dot(w)

    def is_violated(self, w: Array) -> bool:
        """Whether w.psi < loss beyond rounding."""
        violation = self.violation(w)
        if violation <= FEASIBLE * self.loss:
            return False
        # Losses may be small numbers throughout: what rounding is depends on w.psi, too.
        size = float(np.sqrt(self.psi.squared_norm * (w @ w)))
        return violation > FEASIBLE * min(1.0, size)


@dataclass(frozen=True)
class Combination:
    """Constraints with weights >= 0: what they ask for in sum, w.W >= l.

    As a proof that no w satisfies them all: the weights sum to 1, W = 0 and l > 0. Weights and psi
    are rounded; the combination that was found is exactly 0.
    """

    rows: NDArray[np.int64]  # whose constraints they are
    psi: Any  # a sparse matrix, one row for each
    losses: Array
    weights: Array
    constraints: Sequence[Constraint] = field(default=(), repr=False)  # the same, not rounded

    @property
    def n_rows(self) -> int:
        """How many different rows take part."""
        return len(np.unique(self.rows))

    def contradiction(self) -> Combination | None:
        """The proof among these constraints, or None if none is found."""
        from bridle.problems.hard_margin import contradiction

        for n in (64, 512):
            chosen = np.sort(np.argsort(-self.weights, kind="stable")[:n])
            weights = contradiction(
                self.psi[chosen], self.losses[chosen], partial(self._exact, chosen)
            )
            if weights is not None:
                used = np.flatnonzero(weights)
                kept = chosen[used]
                return Combination(
                    self.rows[kept], self.psi[kept], self.losses[kept], weights[used],
                    [self.constraints[k] for k in kept.tolist()],
                )  # fmt: skip
            if n >= len(self.weights):
                break
        return None

    def _exact(self, among: NDArray[np.int64], chosen: NDArray[np.int64]) -> Exact | None:
        """The psi of some constraints without rounding, without the columns where all are zero."""
        found = [self.constraints[k].exact() for k in among[chosen].tolist()]
        known = [psi for psi in found if psi is not None]
        if len(known) < len(found):
            return None
        columns = sorted(set().union(*known))
        rows = np.empty((len(known), len(columns)), object)
        for row, psi in zip(rows, known, strict=True):
            row[:] = [psi.get(k, Fraction(0)) for k in columns]
        return rows


@dataclass(frozen=True)
class Cut:
    """The sum of one constraint of each row, times C_i: l - w.W bounds the losses from below."""

    features: Array
    loss: float
    value: float  # loss - w.features at the w that it was found at
    errors: Errors  # of features and loss

    @property
    def alpha(self) -> Array:
        """The same as a dual point."""
        return np.append(self.features, self.loss)


class StructuredBase(Problem):
    """What every structural problem has in common; subclasses answer for the rows."""

    offers: ClassVar[frozenset[str]] = frozenset({ORACLE})
    cheap_cuts: ClassVar[bool] = False  # whether `cut` is much cheaper than a row at a time
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        n_rows: int,
        n_features: int,
        C: float,
        sample_weight: ArrayLike | None,
        n_threads: int | None,
    ) -> None:
        if n_rows < 1:
            raise ValueError("there are no samples")
        self.C = check_C(C)
        self.n_rows, self.n_features = n_rows, n_features
        self.n_threads = check_threads(n_threads)
        self.sample_weight = np.ones(n_rows)
        if sample_weight is not None:
            self.sample_weight = check_vector(sample_weight, n_rows, "sample_weight")
            if (self.sample_weight < 0).any() or not self.sample_weight.any():
                raise ValueError("sample_weight must not be negative, nor zero everywhere")
        # An infinite C of nothing is nothing.
        used = self.sample_weight > 0
        self.cost = np.where(used, self.C * np.where(used, self.sample_weight, 1.0), 0.0)
        exact = np.isinf(C) or is_power_of_two(np.array([C])).all()
        exact = exact or is_power_of_two(self.sample_weight[used]).all()
        self._cost_slip = 0.0 if exact else U  # relative, of any C_i
        self._judged: dict[bytes, Errors] = {}

    def constraint(self, i: int, w: Array) -> Constraint:
        """The most violated constraint of row i."""
        raise NotImplementedError

    def constraints(self, w: Array) -> Sequence[Constraint]:
        """The most violated constraint of every row."""
        return [self.constraint(i, w) for i in range(self.n_rows)]

    def cut(self, w: Array) -> Cut:
        """The most violated constraint of every row, summed."""
        features, loss, value = np.zeros(self.n_features), 0.0, 0.0
        found = self.constraints(w)
        for cost, constraint in zip(self.cost, found, strict=True):
            constraint.psi.add_to(features, cost)
            loss += cost * constraint.loss
            value += cost * max(0.0, constraint.violation(w))
        errors = of_sum(
            self.cost, np.array([c.psi.length for c in found]),
            np.array([c.loss for c in found]), np.array([c.errors for c in found]),
        )  # fmt: skip
        return Cut(features, loss, value, errors)

    def hinges_above(self, w: Array) -> Array:
        """max_y [Delta - w.psi] of every row, from above: by one oracle pass."""
        length = length_above(w)
        found = self.constraints(w)
        hinges = np.array([max(0.0, constraint.above(w, length)) for constraint in found])
        return np.asarray(hinges + MORE * self.slips(w))

    def slips(self, w: Array) -> Array:
        """By how much more than the constraints say the oracle's rounding may have misled it."""
        return np.zeros(self.n_rows)

    @property
    def least_loss(self) -> float | None:
        """The least loss of an output other than the truth; None if that is not known."""
        return None

    def blocks(self, *, average: bool) -> Any:
        """The dual block by block, for bcfw."""
        from bridle.structured.blocks import OracleBlocks

        return OracleBlocks(self, average)

    def primal(self, w: ArrayLike) -> float:
        """P(w), from above."""
        w = check_vector(w, self.n_features, "w")
        if self.hard_margin:
            return (0.5 * product(w, w)).high if self._is_feasible(w) else np.inf
        return self._primal(w).high

    def _primal(self, w: Array) -> Interval:
        return 0.5 * product(w, w) + self._losses(w)

    def losses(self, w: Array) -> float:
        """sum_i C_i max_y [Delta - w.psi], from above: by one oracle pass."""
        return self._losses(w).high

    def _losses(self, w: Array) -> Interval:
        return product(self.cost, self.hinges_above(w)) * (1.0 + 2.0 * self._cost_slip)

    def violated(self, w: Array) -> list[Constraint]:
        """The most violated constraint of every row that has one, beyond rounding."""
        return [
            constraint
            for cost, constraint in zip(self.cost, self.constraints(w), strict=True)
            if cost > 0 and constraint.is_violated(w)
        ]

    def dual(self, alpha: ArrayLike) -> float:
        """D of the mean (W, l) of a convex combination of outputs, from below.

        Of a point that this problem has judged, its errors are known; any other is taken at its
        word.
        """
        alpha = check_vector(alpha, self.n_features + 1, "alpha")
        return dual_between(alpha, self.errors_of(alpha) or NONE).low

    def errors_of(self, alpha: Any) -> Errors | None:
        """How far an exact combination is from a dual point that was judged; None of any other."""
        return None if alpha is None else self._judged.get(_digest(alpha))

    def judge(self, iterate: Any) -> Judgement:
        """The primal value of the iterate by one oracle pass, and the dual value of its mean."""
        w = np.array(iterate.w, np.float64)
        if self.hard_margin:
            return self._judge_hard(w, iterate)
        alpha, errors = self._mean_of(iterate)
        source: Source = "solver"
        if alpha is None:  # no combination: the most violated constraints are one
            cut = self.cut(w)
            alpha, errors, source = cut.alpha, cut.errors, "repair"
        # Part of every row's weight may stay with its truth, whose constraint is 0 >= 0.
        squared_norm = float(alpha[:-1] @ alpha[:-1])
        scale = min(1.0, max(0.0, float(alpha[-1])) / squared_norm) if squared_norm > 0 else 1.0
        if scale != 1.0:
            errors, source = errors.scaled(scale, length_above(alpha)), "repair"
            alpha = scale * alpha
        own, dual = self._better(alpha, errors)
        primal = self._primal(w)
        return Judgement(
            w, 0.0, primal.high, own, dual.low, source, primal_rounding=primal.width,
            dual_rounding=dual.width,
        )  # fmt: skip

    def _mean_of(self, iterate: Any) -> tuple[Array | None, Errors]:
        """The dual point of an iterate, if something is known about it."""
        if iterate.alpha is None:
            return None, NONE
        errors = getattr(iterate, "errors", None) or self.errors_of(iterate.alpha)
        if errors is None:
            return None, NONE
        errors = Errors(*errors)
        # C_i is rounded, too: the weights may be more than they should by that part.
        slip = 2.0 * self._cost_slip * length_above(iterate.alpha)
        return iterate.alpha, Errors(errors.features + slip, errors.loss + slip)

    def _better(self, alpha: Array, errors: Errors) -> tuple[Array, Interval]:
        """A dual point of one's own with its value, or 0, where every weight is with the truth."""
        dual = dual_between(alpha, errors)
        if not dual.low > 0:
            alpha, errors, dual = np.zeros(self.n_features + 1), NONE, ZERO
        self._judged[_digest(alpha)] = errors
        return np.array(alpha), dual

    def _judge_hard(self, w: Array, iterate: Any) -> Judgement:
        """Both points at their best scale, and a proof if that is what the constraints make."""
        alpha, errors = self._mean_of(iterate)
        alpha = np.zeros(self.n_features + 1) if alpha is None else alpha
        squared_norm = float(alpha[:-1] @ alpha[:-1])
        scale = max(0.0, float(alpha[-1])) / squared_norm if squared_norm > 0 else 1.0
        errors = errors.scaled(scale, length_above(alpha))
        own, dual = self._better(scale * alpha, errors)
        feasible = self._feasible(w)
        if feasible is not None:
            primal = 0.5 * product(feasible, feasible)
            return Judgement(
                feasible, 0.0, primal.high, own, dual.low, "solver", primal_rounding=primal.width,
                dual_rounding=dual.width,
            )  # fmt: skip
        combination = getattr(iterate, "combination", None)
        proof = None if combination is None else combination.contradiction()
        return Judgement(w, 0.0, np.inf, own, dual.low, "solver", proof)

    def _feasible(self, w: Array) -> Array | None:
        """A multiple of w, as small as can be found, that certainly satisfies every constraint."""
        scale = self._feasible_scale(w)
        if scale is None:
            return None
        w = scale * w
        if self.least_loss is None:
            longer = ((1.0 + margin) * w for margin in (0.0, *MARGINS))
            return next((v for v in longer if self._answers_satisfied(v)), None)
        enough = self._margin_at(w)
        margin = next((margin for margin in MARGINS if margin >= enough), None)
        return None if margin is None else (1.0 + margin) * w

    def _is_feasible(self, w: Array) -> bool:
        """Whether w.psi >= loss for every output, rounding included."""
        if self.least_loss is None:
            return self._answers_satisfied(w)
        return any(margin >= self._margin_at(w / (1.0 + margin)) for margin in MARGINS)

    def _margin_at(self, w: Array) -> float:
        """An m such that (1 + m) w satisfies every constraint, rounded or not.

        If no loss - w.psi is more than h, then t w.psi >= t (loss - h) >= loss for every output
        whose loss is at least `least_loss`, once t >= least / (least - h). The other one is the
        truth.
        """
        h = float(self.hinges_above(w)[self.cost > 0].max(initial=0.0))
        assert self.least_loss is not None
        return MORE * h / (self.least_loss - h) if h < 0.5 * self.least_loss else np.inf

    def _answers_satisfied(self, w: Array) -> bool:
        """Whether the oracle's answers, if they are the most violated ones, are satisfied."""
        length = length_above(w)
        return all(
            (not len(c.psi.values) and c.loss == 0) or replace(c, reach=0.0).above(w, length) <= 0
            for cost, c in zip(self.cost, self.constraints(w), strict=True)
            if cost > 0
        )

    def _feasible_scale(self, w: Array) -> float | None:
        """The smallest s >= 1 at which s w violates nothing, or None.

        Each constraint that is found violated says how large s must be for it (Dinkelbach's method:
        s rises to its value in few steps).
        """
        s = 1.0
        for _ in range(50):
            found = self.violated(s * w)
            if not found:
                return s
            margins = [constraint.psi.dot(w) for constraint in found]
            if min(margins) <= 0:
                return None
            s = max(c.loss / margin for c, margin in zip(found, margins, strict=True))
            if not s < 1e6:  # what there is of a margin is rounding
                return None
        return None


class StructuredProblem(StructuredBase):
    """The structural SVM of any oracle.

    X, Y: inputs and true outputs. rescaling: "margin", or "slack", which needs
    `oracle.slack_argmax`. executor: anything with a `map` method, such as a pool of
    concurrent.futures, to ask the oracle of many rows at a time; `n_threads` threads otherwise,
    which helps oracles that release the GIL.

    Examples
    --------
    >>> oracle = bridle.MultilabelOracle(n_inputs=2, n_labels=2)
    >>> problem = bridle.StructuredProblem(oracle, [[0.0, 1.0], [1.0, 0.0]], [(0, 1), (1, 0)])
    >>> bridle.solve(problem, "n-slack").certificate.relative_gap <= 1e-3
    True
    """

    may_fail = True  # the oracle is somebody's code

    def __init__(
        self,
        oracle: Oracle,
        X: Sequence[Any],
        Y: Sequence[Any],
        C: float = 1.0,
        *,
        rescaling: Rescaling = "margin",
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = 1,
        executor: Any = None,
    ) -> None:
        if len(X) != len(Y):
            raise ValueError(f"there are {len(X)} inputs but {len(Y)} outputs")
        if rescaling not in ("margin", "slack"):
            raise ValueError(f"rescaling must be 'margin' or 'slack', got {rescaling!r}")
        if rescaling == "slack" and not hasattr(oracle, "slack_argmax"):
            raise ValueError(
                f"slack rescaling needs a method slack_argmax(x, w, truth), "
                f"which {type(oracle).__name__} has not"
            )
        super().__init__(len(X), int(oracle.n_features), C, sample_weight, n_threads)
        self.oracle, self.X, self.Y = oracle, X, Y
        self.rescaling = rescaling
        self.executor = executor
        self._largest_factor = 0.0
        self._truths: list[SparseVector | None] = [None] * len(X)

    def answer(self, i: int, w: Array) -> Any:
        """The oracle's answer for row i."""
        w = w.view()  # the oracle may look at it, not write
        w.flags.writeable = False
        try:
            if self.rescaling == "slack":
                return self.oracle.slack_argmax(self.X[i], w, self.Y[i])  # type: ignore[attr-defined]
            return self.oracle.argmax(self.X[i], w, self.Y[i])
        except OracleError:
            raise
        except Exception as error:
            raise OracleError(i, f"the oracle raised {type(error).__name__}: {error}") from error

    def constraint(self, i: int, w: Array) -> Constraint:  # noqa: D102
        return self.constraint_of(i, self.answer(i, w))

    def constraint_of(self, i: int, answer: Any) -> Constraint:
        """The constraint that belongs to an output of row i."""
        try:
            truth = self._truths[i]
            if truth is None:
                truth = sparse_vector(self.oracle.features(self.X[i], self.Y[i]), self.n_features)
                self._truths[i] = truth
            other = sparse_vector(self.oracle.features(self.X[i], answer), self.n_features)
            loss = float(self.oracle.loss(self.Y[i], answer))
        except Exception as error:
            raise OracleError(i, f"{type(error).__name__}: {error}") from error
        if not np.isfinite(loss) or loss < 0:
            raise OracleError(i, f"the loss must be finite and not negative, got {loss}")
        psi = truth.minus(other)
        # Other outputs may have a larger loss than an answer that is the truth.
        factor = loss if self.rescaling == "slack" else 1.0
        self._largest_factor = max(self._largest_factor, factor)
        reach = self._largest_factor * (2.0 * truth.length + MORE * psi.length)
        if self.rescaling == "slack":
            psi = psi.scaled(loss)
        terms = None
        if self.hard_margin:
            indices = np.concatenate([truth.indices, other.indices])
            terms = indices, np.concatenate([truth.values, -other.values])
        # Every entry of psi is a difference, rounded once, and a product, rounded once more.
        errors = Errors(gamma(3) * psi.length + len(psi.values) * TINY, 0.0)
        return Constraint(
            psi, loss, errors, terms, factor, reach, len(truth.indices) + len(other.indices)
        )

    def slips(self, w: Array) -> Array:  # noqa: D102
        rounding = getattr(self.oracle, "rounding", None)
        if rounding is None:
            return np.zeros(self.n_rows)
        return np.asarray(rounding(self.X, w), np.float64)

    def constraints(self, w: Array) -> Sequence[Constraint]:  # noqa: D102
        batch = getattr(self.oracle, "argmax_batch", None)
        if batch is not None and self.rescaling == "margin":
            try:
                answers = batch(self.X, w, self.Y)
            except Exception as error:
                raise self._culprit(w, error) from error
            if len(answers) != self.n_rows:
                raise OracleError(
                    0, f"argmax_batch gave {len(answers)} answers to {self.n_rows} inputs"
                )
            return [self.constraint_of(i, answer) for i, answer in enumerate(answers)]
        if self.executor is not None:
            return list(self.executor.map(_Asker(self, w), range(self.n_rows)))
        if self.n_threads > 1:
            with Threads(min(self.n_threads, self.n_rows)) as pool:
                return list(pool.map(_Asker(self, w), range(self.n_rows)))
        return [self.constraint(i, w) for i in range(self.n_rows)]

    def _culprit(self, w: Array, error: Exception) -> OracleError:
        """Which sample a batch failed at: asked about alone, it fails again."""
        for i in range(self.n_rows):
            try:
                self.answer(i, w)
            except OracleError as alone:
                return alone
        what = f"argmax_batch raised {type(error).__name__}: {error}; argmax does not, for any"
        return OracleError(0, what)


@dataclass
class _Asker:
    """A function of the row that can be sent to another process."""

    problem: StructuredProblem
    w: Array

    def __call__(self, i: int) -> Constraint:
        return self.problem.constraint(i, self.w)

    def __getstate__(self) -> dict[str, Any]:
        from copy import copy

        problem = copy(self.problem)
        problem.executor = None
        return {"problem": problem, "w": self.w}


def _digest(alpha: Any) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(alpha, np.float64).data).digest()
