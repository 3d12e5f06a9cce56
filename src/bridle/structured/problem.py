"""The structural problem: margins between the true output and every other one.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i max_y [Delta(y_i, y) - w.psi_i(y)],
    psi_i(y) = Psi(x_i, y_i) - Psi(x_i, y)

The maximum is over every output, the truth with its 0 included: one oracle call a row evaluates it
exactly. A dual point is, for each row, a convex combination of outputs. Only its mean matters:

    D = l - 1/2 |W|^2,   W = sum_i C_i mean psi_i,   l = sum_i C_i mean Delta_i.

So `alpha` is the vector (W, l) here. Slack rescaling replaces psi_i(y) by Delta(y_i, y) psi_i(y).
(Tsochantaridis, Joachims, Hofmann & Altun, "Large margin methods for structured and interdependent
output variables", JMLR 2005.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.certificate import Source
from bridle.problem import Judgement
from bridle.rows import check_vector
from bridle.structured.oracle import Array, Oracle, OracleError, SparseVector, sparse_vector
from numpy.typing import ArrayLike

Rescaling = Literal["margin", "slack"]


@dataclass(frozen=True)
class Constraint:
    """One output of one row: w.psi >= loss is what the row asks for."""

    psi: SparseVector
    loss: float

    def violation(self, w: Array) -> float:
        """loss - w.psi."""
        return self.loss - self.psi.dot(w)


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


class StructuredBase:
    """What every structural problem has in common; subclasses answer for the rows."""

    kind: ClassVar[str] = "structured"
    hard_margin: ClassVar[bool] = False  # C is finite
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
        if not (C > 0 and np.isfinite(C)):
            raise ValueError(
                f"C must be positive and finite, got {C}: structural problems have no hard margin"
            )
        if n_rows < 1:
            raise ValueError("there are no samples")
        self.C = float(C)
        self.n_rows, self.n_features = n_rows, n_features
        self.n_threads = _core.hardware_threads() if n_threads is None else int(n_threads)
        if self.n_threads < 1:
            raise ValueError(f"n_threads must be at least 1, got {n_threads}")
        self.sample_weight = np.ones(n_rows)
        if sample_weight is not None:
            self.sample_weight = check_vector(sample_weight, n_rows, "sample_weight")
            if (self.sample_weight < 0).any() or not self.sample_weight.any():
                raise ValueError("sample_weight must not be negative, nor zero everywhere")
        self.cost = self.C * self.sample_weight

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
        from bridle.solvers.bcfw import OracleBlocks

        return OracleBlocks(self, average)

    def primal(self, w: ArrayLike) -> float:
        """P(w)."""
        w = check_vector(w, self.n_features, "w")
        return 0.5 * float(w @ w) + self.losses(w)

    def dual(self, alpha: ArrayLike) -> float:
        """D of the mean (W, l) of a convex combination of outputs."""
        alpha = check_vector(alpha, self.n_features + 1, "alpha")
        return float(alpha[-1]) - 0.5 * float(alpha[:-1] @ alpha[:-1])

    def judge(self, iterate: Any) -> Judgement:
        """The primal value of the iterate by one oracle pass, and the dual value of its mean."""
        w = np.array(iterate.w, np.float64)
        alpha = iterate.alpha
        if alpha is None:  # no combination: the most violated constraints are one
            alpha = self.cut(w).alpha
        # Part of every row's weight may stay with its truth, whose constraint is 0 >= 0.
        squared_norm = float(alpha[:-1] @ alpha[:-1])
        scale = min(1.0, float(alpha[-1]) / squared_norm) if squared_norm > 0 else 1.0
        source: Source = "solver" if scale == 1.0 and iterate.alpha is not None else "repair"
        alpha = scale * alpha
        return Judgement(w, 0.0, self.primal(w), alpha, self.dual(alpha), source)


class StructuredProblem(StructuredBase):
    """The structural SVM of any oracle.

    X, Y: inputs and true outputs. rescaling: "margin", or "slack", which needs
    `oracle.slack_argmax`. executor: anything with a `map` method, such as a pool of
    concurrent.futures, to ask the oracle of many rows at a time; `n_threads` threads otherwise,
    which helps oracles that release the GIL.
    """

    may_fail: ClassVar[bool] = True  # the oracle is somebody's code

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
            answers = batch(self.X, w, self.Y)
            if len(answers) != self.n_rows:
                raise OracleError(
                    0, f"argmax_batch gave {len(answers)} answers to {self.n_rows} inputs"
                )
            return [self.constraint_of(i, answer) for i, answer in enumerate(answers)]
        if self.executor is not None:
            return list(self.executor.map(_Asker(self, w), range(self.n_rows)))
        if self.n_threads > 1:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(self.n_threads) as pool:
                return list(pool.map(_Asker(self, w), range(self.n_rows)))
        return [self.constraint(i, w) for i in range(self.n_rows)]


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
