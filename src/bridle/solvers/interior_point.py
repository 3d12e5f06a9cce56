"""A primal-dual interior point method: small problems to the limit of precision.

With Z the rows z_i = y_i x_i, and D_ii = 0, U_i = C_i (hinge) or D_ii = 1/(2 C_i), U_i = inf
(squared hinge), the optimum is where, with slacks s, xi >= 0,

    w = Z' alpha,   Z w + b y + D alpha + xi - s = 1,   alpha_i s_i = 0,   (U_i - alpha_i) xi_i = 0,

and y' alpha = 0 if the bias is free. Newton's method on these equations, with mu > 0 in place of
the zeros and mu driven to 0 (Mehrotra, "On the implementation of a primal-dual interior point
method", SIAM J. Optimization 2(4), 1992; for support vector machines: Ferris & Munson,
"Interior-point methods for massive support vector machines", SIAM J. Optimization 13(3), 2002). A
step solves

    (Z Z' + Theta) d_alpha + y d_b = rho,   Theta = D + s / alpha + xi / (U - alpha),

as a system of min(rows, features) equations. Ten to forty steps suffice, for badly scaled data too,
up to features of some thousands: what coordinate descent needs a hundred thousand epochs for. Each
takes rows x features x min(rows, features) operations, and memory for the rows as a dense float64
matrix.

It is a direct method: once the gap is small, convergence is faster than linear and digits cost
next to nothing. So it proposes each iterate until its gap is 10% and then, after a few steps more,
the optimum to the limit of precision. The answer does not depend on a seed, and only by rounding
on the order of the rows, or on whether a row of weight 2 or two equal rows are given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.blas import one_blas_thread
from bridle.matrix.door import is_sparse
from bridle.objective.point import Iterate
from bridle.solvers.base import Iterates, Pace, Solver
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.problems.linear import LinearProblem


# Solves for d_alpha and d_b, given rho and y' d_alpha.
Solve = Callable[[Array, float], tuple[Array, float]]

MOST_STEPS = 200  # ten times what it takes


def operations(problem: LinearProblem) -> float:
    """How many multiplications a step of the method takes."""
    n, d = problem.n_rows, problem.n_features + 1
    return float(n * d * min(n, d))


@dataclass(frozen=True)
class InteriorPoint(Solver):
    """A primal-dual interior point method, for small or low-dimensional dense problems.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 5))  # few features
    >>> problem = bridle.LinearProblem(X, np.where(X[:, 0] > 0.5, 1, -1), C=0.1)
    >>> bridle.solve(problem, bridle.InteriorPoint()).certificate.relative_gap <= 1e-3
    True
    """

    name: ClassVar[str] = "interior-point"
    loss_needs: ClassVar[frozenset[str]] = frozenset({"quadratic"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    float64: ClassVar[bool] = True

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """The start, if it is a dual point; each iterate until its gap is small; the last one.

        Interior points cannot go on from a start: it serves if it is good enough as it is.
        """
        used = problem.cost > 0
        first = 1
        if start is not None and start.alpha is not None:
            yield Iterate(1, 1, start.w, start.b, problem.start_alpha(start))
            first = 2
        if problem.bias == "free" and len(set(problem.y[used])) < 2:
            # Only one class has weight: its side of a free bias costs nothing, and alpha = 0.
            yield Iterate(first, first, np.zeros(problem.n_features), 0.0, np.zeros(problem.n_rows))
            return
        with one_blas_thread():
            yield from _follow_path(problem, _State(problem, used), first)


def _follow_path(problem: LinearProblem, state: _State, first: int) -> Iterates:
    best = state.copy_if_better(None)
    worse = 0
    for step in range(first, MOST_STEPS + 1):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            moved = state.step()  # a step that leaves the numbers is no step
        better = state.copy_if_better(best)
        # The gap may rise far from the optimum; close to it, only rounding makes it rise.
        worse = worse + 1 if better is best and best.gap < 0.1 else 0
        best = better
        if not moved or worse == 5 or best.gap == 0.0:
            break
        if state.gap > 0.1:
            yield state.iterate(problem, step)
    yield best.iterate(problem, step)


@dataclass(frozen=True)
class _Best:
    alpha: Array
    b: float
    gap: float
    used: NDArray[np.bool_]

    def iterate(self, problem: LinearProblem, step: int) -> Iterate:
        alpha = np.zeros(problem.n_rows)
        alpha[self.used] = self.alpha
        joined = problem.rows.combine(alpha * problem.y)
        return Iterate(step, step, *problem.split(joined, self.b), alpha, gap_estimate=self.gap)


class _State:
    """alpha, b, s and xi, all strictly inside, and the Newton step from there."""

    def __init__(self, problem: LinearProblem, used: NDArray[np.bool_]) -> None:
        self.used = used
        self.y, self.cost = problem.y[self.used], problem.cost[self.used]
        self.Z = _signed_rows(problem, self.used)
        self.free = problem.bias == "free"
        self.boxed = problem.loss.bounded_dual
        self.curvature = np.zeros_like(self.cost) if self.boxed else 0.5 / self.cost
        # Equations for the rows if they are fewer than the features.
        self.gram = self.Z @ self.Z.T if len(self.Z) < self.Z.shape[1] else None
        self._start()

    def _start(self) -> None:
        """A multiple of the costs, balanced if the bias is free, and slacks that fit it."""
        alpha = self.cost.copy()
        if self.free:
            up, down = alpha[self.y > 0].sum(), alpha[self.y < 0].sum()
            alpha *= np.where(self.y > 0, min(up, down) / up, min(up, down) / down)
        w = self.Z.T @ alpha
        theta = alpha.sum() / (w @ w + self.curvature @ alpha**2 + 1e-300)
        self.alpha = min(theta, 0.5) * alpha
        self.b = 0.0
        missing = 1.0 - self._margins() - self.curvature * self.alpha
        least = max(1e-3, float(np.abs(missing).mean()))
        self.xi = np.maximum(missing, 0.0) + least if self.boxed else np.zeros_like(missing)
        self.s = np.maximum(self.xi - missing, least)
        self._measure()

    def _margins(self) -> Array:
        margins: Array = self.Z @ (self.Z.T @ self.alpha) + self.b * self.y
        return margins

    def _measure(self) -> None:
        """The relative gap of the point, and what is left of its linear equation."""
        w = self.Z.T @ self.alpha
        margins = self.Z @ w + self.b * self.y
        lack = np.maximum(0.0, 1.0 - margins)
        loss = self.cost @ (lack if self.boxed else lack**2)
        primal = 0.5 * float(w @ w) + float(loss)
        dual = float(self.alpha.sum() - 0.5 * self.curvature @ self.alpha**2 - 0.5 * w @ w)
        finite = np.isfinite(primal) and np.isfinite(dual)
        gap = max(0.0, primal - dual) / primal if primal > 0 else 0.0
        self.gap = gap if finite else np.inf
        self.left = 1.0 - margins - self.curvature * self.alpha - self.xi + self.s

    def copy_if_better(self, best: _Best | None) -> _Best:
        if best is not None and not self.gap < best.gap:
            return best
        return _Best(self.alpha.copy(), self.b, self.gap, self.used)

    def iterate(self, problem: LinearProblem, step: int) -> Iterate:
        return self.copy_if_better(None).iterate(problem, step)

    def step(self) -> bool:
        """One predictor and corrector step; whether there was one to take."""
        above = self.cost - self.alpha if self.boxed else np.ones_like(self.alpha)
        products = self.alpha @ self.s + (above @ self.xi if self.boxed else 0.0)
        mu = float(products) / (len(self.alpha) * (2 if self.boxed else 1))
        theta = self.curvature + self.s / self.alpha + self.xi / above
        solve = self._factor(theta)
        zero = np.zeros_like(self.alpha)
        try:
            ahead = self._direction(solve, theta, above, zero, zero)
            reach = self._reach(ahead, above)
            d_alpha, _, d_s, d_xi = ahead
            after = (self.alpha + reach * d_alpha) @ (self.s + reach * d_s)
            if self.boxed:
                after += (above - reach * d_alpha) @ (self.xi + reach * d_xi)
            sigma = min(1.0, float(after) / float(products)) ** 3
            target = np.full_like(self.alpha, sigma * mu)
            direction = self._direction(
                solve, theta, above, target - d_alpha * d_s, target + d_alpha * d_xi
            )
        except np.linalg.LinAlgError:
            return False
        if not all(np.isfinite(part).all() for part in direction):
            return False
        length = min(1.0, 0.995 * self._reach(direction, above))
        d_alpha, d_b, d_s, d_xi = direction
        self.alpha = self.alpha + length * d_alpha
        self.b += length * d_b
        self.s = self.s + length * d_s
        self.xi = self.xi + length * d_xi
        self._measure()
        inside = self.gap < np.inf and self.alpha.min() > 0 and self.s.min() > 0
        return bool(inside and (not self.boxed or (self.alpha < self.cost).all()))

    def _direction(
        self, solve: Solve, theta: Array, above: Array,
        target_s: Array, target_xi: Array,
    ) -> tuple[Array, float, Array, Array]:  # fmt: skip
        """The Newton direction towards alpha s = target_s and (U - alpha) xi = target_xi."""
        rho = self.left + target_s / self.alpha - self.s
        if self.boxed:
            rho = rho - target_xi / above + self.xi
        balance = -float(self.y @ self.alpha) if self.free else 0.0
        d_alpha, d_b = solve(rho, balance)
        # Refined once: theta spans many orders of magnitude near the end.
        residual = rho - self.Z @ (self.Z.T @ d_alpha) - theta * d_alpha - d_b * self.y
        more = solve(residual, balance - float(self.y @ d_alpha) if self.free else 0.0)
        d_alpha, d_b = d_alpha + more[0], d_b + more[1]
        d_s = (target_s - self.s * d_alpha) / self.alpha - self.s
        if not self.boxed:
            return d_alpha, d_b, d_s, np.zeros_like(d_s)
        return d_alpha, d_b, d_s, (target_xi + self.xi * d_alpha) / above - self.xi

    def _factor(self, theta: Array) -> Solve:
        if self.gram is None:
            return self._factor_features(theta)
        return self._factor_rows(theta, self.gram)

    def _factor_features(self, theta: Array) -> Solve:
        """(I + Z' Theta^-1 Z) d_w = Z' Theta^-1 rho; a free bias is one unpenalised column more."""
        Z = np.column_stack([self.Z, self.y]) if self.free else self.Z
        eye = np.ones(Z.shape[1])
        if self.free:
            eye[-1] = 0.0
        matrix = np.diag(eye) + (Z.T / theta) @ Z
        scale = 1.0 / np.sqrt(np.diag(matrix))
        matrix *= np.outer(scale, scale)

        def solve(rho: Array, balance: float) -> tuple[Array, float]:
            right = Z.T @ (rho / theta)
            if self.free:
                right[-1] -= balance
            d_w = scale * np.linalg.solve(matrix, scale * right)
            return (rho - Z @ d_w) / theta, float(d_w[-1]) if self.free else 0.0

        return solve

    def _factor_rows(self, theta: Array, gram: Array) -> Solve:
        """(Z Z' + Theta) d_alpha + y d_b = rho, scaled by Theta^-1/2; y' d_alpha = balance."""
        root = 1.0 / np.sqrt(theta)
        matrix = np.eye(len(theta)) + np.outer(root, root) * gram

        def solve(rho: Array, balance: float) -> tuple[Array, float]:
            if not self.free:
                return root * np.linalg.solve(matrix, root * rho), 0.0
            both = np.linalg.solve(matrix, np.column_stack([root * rho, root * self.y]))
            d_rho, d_y = root * both[:, 0], root * both[:, 1]
            d_b = (self.y @ d_rho - balance) / (self.y @ d_y)
            return d_rho - d_b * d_y, float(d_b)

        return solve

    def _reach(self, direction: tuple[Array, float, Array, Array], above: Array) -> float:
        """How far one can go and stay inside, at most 1."""
        d_alpha, _, d_s, d_xi = direction
        pairs = [(self.alpha, d_alpha), (self.s, d_s)]
        if self.boxed:
            pairs += [(above, -d_alpha), (self.xi, d_xi)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return min(1.0, *(float(np.where(d < 0, -v / d, np.inf).min()) for v, d in pairs))


def _signed_rows(problem: LinearProblem, used: NDArray[np.bool_]) -> Array:
    """The rows y_i x_i as a dense matrix, the constant feature included."""
    X = problem.X[used]
    dense = X.toarray() if is_sparse(X) else X
    Z = np.empty((len(dense), problem.n_features + (problem.bias == "regularised")))
    np.multiply(dense, problem.y[used, None], out=Z[:, : problem.n_features])
    if problem.bias == "regularised":
        Z[:, -1] = problem.bias_scale * problem.y[used]
    return Z
