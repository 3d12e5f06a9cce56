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

Slack rescaling replaces psi_i(y) by Delta(y_i, y) psi_i(y).
(Tsochantaridis, Joachims, Hofmann & Altun, "Large margin methods for structured and interdependent
output variables", JMLR 2005.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from bridle.errors import OracleError
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.threads import Threads, check_threads
from bridle.objective.certificate import Source
from bridle.problems.base import ORACLE, Judgement, Problem
from bridle.structured.oracle import Oracle
from bridle.structured.sparse import SparseVector, sparse_vector
from numpy.typing import ArrayLike, NDArray

FEASIBLE = 1e-9  # a violation of less than this, relative to the loss or to |w||psi|, is rounding

Rescaling = Literal["margin", "slack"]


@dataclass(frozen=True)
class Constraint:
    """One output of one row: w.psi >= loss is what the row asks for."""

    psi: SparseVector
    loss: float

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

    As a proof that no w satisfies them all: the weights sum to 1, W = 0 to rounding, and l > 0.
    """

    rows: NDArray[np.int64]  # whose constraints they are
    psi: Any  # a sparse matrix, one row for each
    losses: Array
    weights: Array

    @property
    def n_rows(self) -> int:
        """How many different rows take part."""
        return len(np.unique(self.rows))

    def contradiction(self) -> Combination | None:
        """The proof among these constraints, or None if none is found."""
        from bridle.problems.hard_margin import contradiction

        for n in (64, 512):
            chosen = np.sort(np.argsort(-self.weights, kind="stable")[:n])
            weights = contradiction(self.psi[chosen], self.losses[chosen])
            if weights is not None:
                used = np.flatnonzero(weights)
                kept = chosen[used]
                return Combination(
                    self.rows[kept], self.psi[kept], self.losses[kept], weights[used]
                )
            if n >= len(self.weights):
                break
        return None


@dataclass(frozen=True)
class Cut:
    """The sum of one constraint of each row, times C_i: l - w.W bounds the losses from below."""

    features: Array
    loss: float
    value: float  # loss - w.features at the w that it was found at

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
        if not C > 0:
            raise ValueError(f"C must be positive, got {C}")
        if n_rows < 1:
            raise ValueError("there are no samples")
        self.C = float(C)
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

    def constraint(self, i: int, w: Array) -> Constraint:
        """The most violated constraint of row i."""
        raise NotImplementedError

    def constraints(self, w: Array) -> Sequence[Constraint]:
        """The most violated constraint of every row."""
        return [self.constraint(i, w) for i in range(self.n_rows)]

    def cut(self, w: Array) -> Cut:
        """The most violated constraint of every row, summed."""
        features, loss, value = np.zeros(self.n_features), 0.0, 0.0
        for cost, constraint in zip(self.cost, self.constraints(w), strict=True):
            constraint.psi.add_to(features, cost)
            loss += cost * constraint.loss
            value += cost * max(0.0, constraint.violation(w))
        return Cut(features, loss, value)

    def losses(self, w: Array) -> float:
        """sum_i C_i max_y [Delta - w.psi], by one oracle pass."""
        return self.cut(w).value

    def blocks(self, *, average: bool) -> Any:
        """The dual block by block, for bcfw."""
        from bridle.structured.blocks import OracleBlocks

        return OracleBlocks(self, average)

    def primal(self, w: ArrayLike) -> float:
        """P(w)."""
        w = check_vector(w, self.n_features, "w")
        if self.hard_margin:
            return np.inf if self.violated(w) else 0.5 * float(w @ w)
        return 0.5 * float(w @ w) + self.losses(w)

    def violated(self, w: Array) -> list[Constraint]:
        """The most violated constraint of every row that has one, beyond rounding."""
        return [
            constraint
            for cost, constraint in zip(self.cost, self.constraints(w), strict=True)
            if cost > 0 and constraint.is_violated(w)
        ]

    def dual(self, alpha: ArrayLike) -> float:
        """D of the mean (W, l) of a convex combination of outputs."""
        alpha = check_vector(alpha, self.n_features + 1, "alpha")
        return float(alpha[-1]) - 0.5 * float(alpha[:-1] @ alpha[:-1])

    def judge(self, iterate: Any) -> Judgement:
        """The primal value of the iterate by one oracle pass, and the dual value of its mean."""
        w = np.array(iterate.w, np.float64)
        if self.hard_margin:
            return self._judge_hard(w, iterate)
        alpha = iterate.alpha
        if alpha is None:  # no combination: the most violated constraints are one
            alpha = self.cut(w).alpha
        # Part of every row's weight may stay with its truth, whose constraint is 0 >= 0.
        squared_norm = float(alpha[:-1] @ alpha[:-1])
        scale = min(1.0, float(alpha[-1]) / squared_norm) if squared_norm > 0 else 1.0
        source: Source = "solver" if scale == 1.0 and iterate.alpha is not None else "repair"
        alpha = scale * alpha
        return Judgement(w, 0.0, self.primal(w), alpha, self.dual(alpha), source)

    def _judge_hard(self, w: Array, iterate: Any) -> Judgement:
        """Both points at their best scale, and a proof if that is what the constraints make."""
        alpha = np.zeros(self.n_features + 1) if iterate.alpha is None else iterate.alpha
        squared_norm = float(alpha[:-1] @ alpha[:-1])
        alpha = alpha * (float(alpha[-1]) / squared_norm if squared_norm > 0 else 1.0)
        scale = self._feasible_scale(w)
        if scale is not None:
            w = scale * w
            return Judgement(w, 0.0, 0.5 * float(w @ w), alpha, self.dual(alpha), "solver")
        combination = getattr(iterate, "combination", None)
        proof = None if combination is None else combination.contradiction()
        return Judgement(w, 0.0, np.inf, alpha, self.dual(alpha), "solver", proof)

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
        return Constraint(psi.scaled(loss) if self.rescaling == "slack" else psi, loss)

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
            with Threads(self.n_threads) as pool:
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
