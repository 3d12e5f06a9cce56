"""The augmented Lagrangian of the dual's box, a smooth function of w: what newton and cg minimise.

    phi(w) = 1/2 |w|^2 + sum_i max_{0 <= a <= U_i} [a (1 - p_i) - (a - alpha_i)^2 / (2 sigma_i)]

The inner maximum is at a_i = clip(alpha_i + sigma_i (1 - p_i), 0, U_i), and the gradient is
g = w - sum_i a_i z_i. So a is a dual point at every w, with

    P(w) - D(a) = 1/2 |g|^2 + sum_i [C_i loss(p_i) - a_i (1 - p_i) + ...],   every term >= 0:

the first part is how far w is from the minimum of phi, the second how far phi is from P. Hinge:
U_i = C_i, and once the first part is small against the second, alpha <- a and sigma grows (the
method of multipliers). Squared hinge: alpha_i = 0, sigma_i = 2 C_i, U_i = inf makes phi = P. Hard
margin: U_i = inf.

A free bias is eliminated: b(w) is the root of sum_i y_i a_i, which does not rise with b. (Of one
class, whose P has a multiple of b, that sum is to be as much.)

Other losses answer w in their own way, and all else is the same. Smooth ones are minimised
directly: a_i = C_i slope(p_i), phi = P (`Direct`). Kinked ones of residuals have two such maxima a
row, one for each side of its target (`TwoSided`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.losses import inner
from bridle.objective.losses.piecewise import PiecewiseQuadratic
from bridle.rows.base import STEPS, ClippedDuals, ClippedSum

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


BALANCE = 1e-13  # sum_i y_i a_i that counts as 0, relative to sum_i a_i
# A sample is one of so many rows, and has so many for each feature.
FEWER, ROWS_EACH = 8, 16
FIRST_SIGMA = 0.5  # times C_i: a row is between its bounds for margins in an interval of length 2


class AugmentedLagrangian:
    """phi, the point w with its bias b, and all that belongs to them."""

    def __init__(self, problem: LinearProblem, start: Any) -> None:
        self.problem = problem
        self.exact = problem.loss.smooth and not problem.hard_margin
        # Numbers of rows are where those are: NumPy's arrays, or CuPy's.
        self.y, self.cost, self.upper = problem.sides.row_vectors()
        self.targets = 0.0 if problem.targets is None else problem.targets
        self.pull = problem.loss.pull * float(self.cost.sum()) if problem.loss.pull else 0.0
        used = self.cost > 0
        if problem.hard_margin:
            typical = float(problem.squared_norms[used].mean()) or 1.0
            self.sigma = np.where(used, FIRST_SIGMA / typical, 0.0)
        else:
            self.sigma = self.cost * (2.0 if self.exact else FIRST_SIGMA)
        self.alpha = np.zeros_like(self.cost) if self.exact else problem.start_alpha(start)
        self.w = np.zeros(problem.n_features + 1)
        self.b = 0.0
        if start is not None:
            self.w = problem.join(start.w, start.b)
            self.b = float(start.b)
        self.margins = self.times(self.w) - self.targets  # without a free bias
        self.update()

    def times(self, direction: Array) -> Array:
        """z_i . direction for every row."""
        return self._signed(self.problem.rows.scores(direction))

    def combine(self, coefficients: Array) -> Array:
        """sum_i coefficients_i z_i."""
        combined: Array = self.problem.rows.combine(self._signed(coefficients))
        return combined

    def _signed(self, numbers: Array) -> Array:
        """Each times the sign of its row."""
        found: Array = self.problem.rows.product(numbers, self.y)
        return found

    def update(self) -> None:
        """a, g and the two parts of the gap at the present w."""
        problem = self.problem
        if problem.bias == "free":
            self.b = self._balance(self.margins, self.b)
        p = self._with_bias(self.margins, self.b)
        self.a, self.weights, self._slack, self._above = self.answer(p)
        self.gradient = self.w - self.combine(self.a)
        self.inexact = 0.5 * inner(self.gradient, self.gradient)
        self.smoothing = 0.0 if self.exact else self._smoothing(p)

    def answer(self, p: Array) -> ClippedDuals:
        """a at these margins, and how much it falls where they rise."""
        found: ClippedDuals = self.problem.rows.clipped_duals(p, self.alpha, self.sigma, self.upper)
        return found

    def _smoothing(self, p: Array) -> float:
        """How far phi is from P."""
        if self.problem.hard_margin:
            # P is infinite until the very end: go by how far the multipliers still have to move.
            moved = (self.a - self.alpha)[self.sigma > 0]
            return 0.5 * float(np.sum(moved**2 / self.sigma[self.sigma > 0]))
        return self._above

    @property
    def primal(self) -> float:
        """P(w), if it is finite."""
        return 0.5 * inner(self.w, self.w) + self._losses() + self.pull * self.b

    def _losses(self) -> float:
        """sum_i C_i loss, as the answer at w has it."""
        return 0.5 * self._slack if self.exact else self._slack + self._above

    @property
    def settled(self) -> bool:
        """Whether w is so close to the minimum of phi that phi itself should be improved."""
        return not self.exact and self.inexact <= 0.1 * self.smoothing

    def sharpen(self) -> None:
        """The next phi: alpha <- a, larger sigma."""
        self.alpha = self.a
        self.sigma = 3.0 * self.sigma
        self.update()

    def move(self, direction: Array, accuracy: float) -> float:
        """Minimise phi along a descent direction; the length of the step, 0 if there was none.

        accuracy: the slope at which to stop, relative to the slope at 0.
        """
        e = self.times(direction)
        along, bend = inner(self.w, direction), inner(direction, direction)
        bias = self.b

        def slope(t: float) -> tuple[float, float]:
            nonlocal bias
            margins = self.margins
            if self.problem.bias == "free":
                bias = self._balance(margins + t * e, bias)
                margins = self._with_bias(margins, bias)
            part = self._sum(margins, e, t)
            curvature = part.curvature
            if self.problem.bias == "free" and part.weight > 0:
                curvature -= part.cross**2 / part.weight  # b follows
            return along + t * bend - part.sum, bend + max(curvature, 0.0)

        first = slope(0.0)[0]
        if not first < 0:
            return 0.0
        # Newton's own step will do if it does not overshoot.
        overshoots = accuracy < 0.1 or slope(1.0)[0] > -accuracy * first
        t = increasing_root(slope, 1.0, -accuracy * first) if overshoots else 1.0
        if t > 0:
            self.w = self.w + t * direction
            self.margins += t * e
            self.update()
        return t

    def _sum(self, margins: Array, e: Array, t: float) -> ClippedSum:
        found: ClippedSum = self.problem.rows.clipped_sum(
            margins, e, t, self.alpha, self.sigma, self.upper, self.y
        )
        return found

    def _with_bias(self, margins: Array, b: float) -> Array:
        return margins + b * self.y if self.problem.bias == "free" else margins

    def _weight(self, margins: Array, b: float) -> float:
        """sum_i |a_i|."""
        return float(np.abs(self.answer(self._with_bias(margins, b)).a).sum())

    def _balance(self, margins: Array, b: float) -> float:
        """The b at which sum_i y_i a_i = 0, or what pulls at it, from a guess."""
        y, tolerance = self.y, BALANCE * self._weight(margins, b)

        def excess(t: float) -> tuple[float, float]:
            part = self._sum(margins, y, t)
            return self.pull - part.sum, part.curvature

        value, derivative = excess(b)
        if abs(value) <= tolerance:
            return b
        sign = -1.0 if value > 0 else 1.0  # the excess rises with b

        def towards(t: float) -> tuple[float, float]:
            value, derivative = excess(b + sign * t)
            return sign * value, derivative

        guess = abs(value) / derivative if derivative > 0 else 1.0
        return b + sign * increasing_root(towards, guess, tolerance)


class Direct(AugmentedLagrangian):
    """A smooth loss with a second derivative: phi = P."""

    def answer(self, p: Array) -> ClippedDuals:  # noqa: D102
        cost, loss = self.problem.cost, self.problem.loss
        return ClippedDuals(cost * loss.slope(p), cost * loss.curvature(p))

    def _losses(self) -> float:
        p = self._with_bias(self.margins, self.b)
        return inner(self.problem.cost, self.problem.loss.value(p))

    def _sum(self, margins: Array, e: Array, t: float) -> ClippedSum:
        (a, weights, *_), y = self.answer(margins + t * e), self.y
        return ClippedSum(
            inner(a, e), inner(weights * e, e), inner(weights * e, y), float(weights.sum())
        )


class TwoSided(Direct):
    """A loss with kinks around a target: a = a_+ - a_-, each between 0 and its own bound."""

    def __init__(self, problem: LinearProblem, start: Any) -> None:
        loss: PiecewiseQuadratic = problem.loss
        self.tube = loss.shape.tube
        self.above, self.below = problem.upper, -np.asarray(problem.sides.piece.lower)
        begun = problem.start_alpha(start)
        self.up, self.down = np.maximum(begun, 0.0), np.maximum(-begun, 0.0)
        super().__init__(problem, start)

    def answer(self, p: Array) -> ClippedDuals:  # noqa: D102
        u, v = (
            self.up + self.sigma * (-p - self.tube), self.down + self.sigma * (p - self.tube),
        )  # fmt: skip
        self.rising, self.falling = np.clip(u, 0.0, self.above), np.clip(v, 0.0, self.below)
        inside = 1.0 * ((u > 0) & (u < self.above)) + ((v > 0) & (v < self.below))
        return ClippedDuals(self.rising - self.falling, self.sigma * inside)

    def _smoothing(self, p: Array) -> float:
        self.answer(p)
        value = inner(self.problem.cost, self.problem.loss.value(p)) + inner(self.a, p)
        return value + self.tube * float((self.rising + self.falling).sum())

    def sharpen(self) -> None:
        """The next phi: the multipliers move, and sigma grows."""
        self.answer(self._with_bias(self.margins, self.b))
        self.up, self.down = self.rising, self.falling
        self.sigma = 3.0 * self.sigma
        self.update()


def lagrangian_of(problem: LinearProblem, start: Any) -> AugmentedLagrangian:
    """The function that newton minimises for this loss."""
    loss = problem.loss
    if loss.quadratic:
        return AugmentedLagrangian(problem, start)
    return Direct(problem, start) if loss.smooth else TwoSided(problem, start)


def sampled(problem: LinearProblem) -> bool:
    """Whether the minimum on an eighth of the rows is a good place to start from."""
    direct = problem.loss.smooth and not problem.hard_margin and STEPS in problem.offers
    return direct and problem.n_rows >= FEWER * ROWS_EACH * (problem.n_features + 1)


Slope = Callable[[float], tuple[float, float]]


def increasing_root(slope: Slope, guess: float, tolerance: float) -> float:
    """Where a nondecreasing piecewise linear function, negative at 0, is 0 within the tolerance.

    Newton's method, which ends as soon as it hits the right piece, kept inside a bracket.
    `slope` answers the function's value and derivative.
    """
    low, high, t = 0.0, np.inf, guess
    for trial in range(200):
        value, derivative = slope(t)
        if abs(value) <= tolerance:
            return t
        if value < 0:
            low = t
        else:
            high = t
        newton = t - value / derivative if derivative > 0 else np.inf
        crawling = trial % 6 == 5
        if high == np.inf:
            following = 16.0 * t if crawling else min(newton, 16.0 * t)
        elif low < newton < high and not crawling:
            following = newton
        else:
            # The root may be many orders of magnitude below the guess.
            following = 0.5 * (low + high) if low > 0.005 * high else 0.01 * high
        if following in (low, high):
            return high
        t = following
    return t
