"""The port: where rows are, and what can be computed with them.

`Rows` is one matrix, wherever it is. `Sides` are its rows as one problem sees them: each with a
sign y_i = +-1 and a cost C_i; of a regression, with a target t_i and the sign +1. A certificate is
one sum over their parts, whether a part is all rows in memory, a range of a file or what a worker
of a cluster holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from bridle.matrix.arrays import Array, everywhere, number_or_all
from bridle.matrix.labels import product
from bridle.objective import rounding
from bridle.objective.losses import Loss, inner, weighted_sum
from bridle.objective.point import Iterate
from bridle.objective.rounding import TINY, ZERO, DualSums, Interval, U, gamma
from bridle.objective.scaling import costs
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.rows.memory import MemoryRows


# What rows can be asked for beyond sums over all of them. Solvers say what they need of it.
STEPS = "steps"  # compiled steps that visit all rows in an order of their own
SCORES = "scores"  # a number for each row, all of them in this memory
RANGES = "ranges"  # the rows range by range, any number of times
ROUNDS = "rounds"  # rounds of work by parts that hold rows and dual variables
PASSES = "passes"  # scores and sums over all rows; the numbers of rows are where those are
DESCENT = "descent"  # dual coordinate descent, by whoever has the rows


class Rows(Protocol):
    """A matrix of rows with a constant feature, which is 0 where there is none."""

    offers: frozenset[str]
    constant: float
    n_threads: int  # for passes over the rows

    @property
    def n_rows(self) -> int:
        """How many rows."""

    @property
    def n_features(self) -> int:
        """How many features, without the constant one."""

    @property
    def nnz(self) -> int:
        """The stored entries."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the entries, in which solvers work."""

    def scores(self, w: Array) -> Array:
        """w.x_i of every row; the last weight is the constant feature's."""

    def combine(self, a: Array) -> Array:
        """sum_i a_i x_i, with the constant feature last."""

    def combine_and_score(self, a: Array, w: Array) -> tuple[Array, Array]:
        """Both in one pass."""

    def take(self, chosen: NDArray[np.intp]) -> MemoryRows:
        """A copy of some rows, in memory."""

    def fingerprint(self, y: Any) -> str:
        """A name for the rows and these labels, the same wherever the rows are."""


class Scales(NamedTuple):
    """What makes a point one that a free bias asks for, from inside the box to inside the box.

    alpha times `up` where alpha_i y_i is positive, times `down` elsewhere, and this part, `top`, of
    the largest alpha_i.
    """

    up: float = 1.0
    down: float = 1.0
    top: float = 0.0

    @classmethod
    def between(cls, up: float, down: float) -> Scales:
        """Of the sums of positive and negative alpha_i y_i the heavier shrinks to the other's."""
        return cls(down / up if up > down else 1.0, up / down if down > up else 1.0)

    @classmethod
    def towards(cls, goal: float, sum_: float, most: float) -> Scales:
        """To the sum that the loss of one class pulls for: all smaller, or all nearer the top."""
        if sum_ > goal:
            return cls(goal / sum_, goal / sum_)
        part = min(1.0, (goal - sum_) / (most - sum_)) if most > sum_ else 0.0
        return cls(1.0 - part, 1.0 - part, part)

    @classmethod
    def of(cls, alpha: Array, piece: Piece, loss: Loss) -> Scales:
        """For all rows in one piece."""
        if loss.pull:
            most, goal = float(piece.upper.sum()), loss.pull * float(piece.cost.sum())
            return cls.towards(goal, float(alpha.sum()), most)
        signed = alpha * piece.y
        return cls.between(float(signed[signed > 0].sum()), -float(signed[signed < 0].sum()))

    def applied(self, alpha: Array, piece: Piece) -> Array:
        """The point."""
        if self == LEVEL:
            return alpha
        moved = alpha * np.where(alpha * piece.y > 0, self.up, self.down)
        return piece.clipped(moved + self.top * piece.upper) if self.top else moved


LEVEL = Scales()


class ClippedSum(NamedTuple):
    """Of a_i(t) = clip(alpha_i + sigma_i (1 - p_i - t e_i), 0, upper_i): sum a_i(t) e_i.

    Over the rows that are not clipped: sums of sigma_i e_i^2, of sigma_i e_i y_i, of sigma_i.
    """

    sum: float
    curvature: float
    cross: float
    weight: float


class ClippedDuals(NamedTuple):
    """a_i = clip(alpha_i + sigma_i (1 - p_i), 0, upper_i).

    Beside them sigma_i where that is between, sum a_i (1 - p_i), and by how much
    sum upper_i max(1 - p_i, 0) is more.
    """

    a: Array
    weights: Array
    slack: float = 0.0
    above: float = 0.0


@dataclass(frozen=True)
class Piece:
    """Some rows that are at hand, each with its sign and its cost. where: among all rows.

    lower, upper: the boxes of their dual variables. targets: of a loss of residuals, else None.
    """

    rows: MemoryRows
    y: Array
    cost: Array
    signed_cost: Array
    lower: Array | float
    upper: Array
    targets: Array | None
    where: slice

    @classmethod
    def of(
        cls,
        rows: MemoryRows,
        labels: Array,
        C: float,
        weight: Array | None,
        loss: Loss,
        where: slice,
    ) -> Piece:
        """With C_i = C c_i and the bounds that the loss puts on the dual variables.

        labels: signs, or targets where the loss is of residuals.
        """
        n, y = len(labels), np.ones(len(labels)) if loss.residual else labels
        if weight is None or bool((weight == 1.0).all()):
            cost, least = everywhere(C, n), np.full(1, C)
        else:
            cost, least = costs(C, weight)
        lower, upper = loss.lower(least), loss.upper(least)
        if len(least) < n:
            lower, upper = (everywhere(float(np.max(bound)), n) for bound in (lower, upper))
        return cls(
            rows, y, cost, product(y, number_or_all(cost), rows.n_threads), lower, upper,
            labels if loss.residual else None, where,
        )  # fmt: skip

    @property
    def total_cost(self) -> Interval:
        """sum_i C_i."""
        one = number_or_all(self.cost)
        if isinstance(one, float):
            return len(self.cost) * Interval(one, one)
        return rounding.total(one, self.rows.n_threads)

    def clipped(self, alpha: Array) -> Array:
        """Inside the boxes."""
        return np.clip(alpha, self.lower, self.upper)

    def margins(self, scores: Array) -> Array:
        """y_i s_i, or s_i - t_i where there are targets."""
        return self.y * scores if self.targets is None else scores - self.targets

    def squared_radius(self, loss: Loss) -> float:
        """A share of the bound on |w*|^2."""
        if self.targets is None:
            return loss.squared_radius(self.cost)
        return 2.0 * weighted_sum(self.cost, loss.value(-self.targets))

    def pull(self, loss: Loss) -> Interval:
        """Its share of what the loss of one class has sum_i alpha_i be."""
        if not loss.pull:
            return ZERO
        return loss.pull * self.total_cost * Interval.around(1.0, 2 * U)  # costs round

    def unshifted(self, scores: Array) -> Array:
        """The scores that have the margins y_i s_i: for the best bias."""
        return scores if self.targets is None else scores - self.targets


@dataclass(frozen=True)
class Pass:
    """What one look at some rows found: sum a_i x_i and w.x_i, and how far off they may be."""

    combined: Array
    drift: float  # the length of the error of `combined`, at most
    scores: Array
    error: Any  # of each score, or of all of them, at most; with room for one more rounding

    def shifted(self, b: float) -> Pass:
        """With a bias in the scores."""
        if not np.any(self.error):  # w = 0: so are the scores, and b is added exactly
            return replace(self, scores=self.scores + b)
        return replace(self, scores=self.scores + b, error=self.error + gamma(16) * abs(b))

    def scaled(self, s: float) -> Pass:
        """The scores of s w, rounded, instead of w."""
        return replace(self, scores=s * self.scores, error=2.0 * s * self.error)


def quick_look(rows: MemoryRows, a: Array, w: Array, b: float) -> Pass:
    """In float64, with bounds that cost nothing: those of the longest row for all of them."""
    combined, scores = rows.combine_and_score(a, w)
    found = Pass(combined, quick_drift(rows, rounding.size(a)), scores, quick_error(rows, w))
    return found.shifted(b) if b != 0 else found


def quick_looks(rows: MemoryRows, a: Array, sizes: Sequence[float], w: Array) -> list[Pass]:
    """Those of several points in one pass over the rows: a row of each table for each.

    sizes: sum |a_i| of each, at most.
    """
    combined, scores = rows.combine_and_score_all(a, w)
    return [
        Pass(combined[k], quick_drift(rows, sizes[k]), scores[k], quick_error(rows, w[k]))
        for k in range(len(a))
    ]


def quick_error(rows: MemoryRows, w: Array) -> float:
    """How far any of the scores may be off, at most; those of w = 0 are exact."""
    n, size = rows.most_entries, rounding.length(w)
    return gamma(n + 16) * (size * rows.largest_length).high + n * TINY if size.high > 0 else 0.0


def quick_drift(rows: MemoryRows, size: float) -> float:
    """The length of the error of sum a_i x_i, at most; size: sum |a_i|, at most."""
    return gamma(rows.n_rows + 16) * size * rows.largest_length + _underflow(rows)


def careful_look(rows: MemoryRows, a: Array, w: Array, b: float) -> Pass:
    """With twice the digits, and row by row: for gaps that are not much larger than rounding."""
    if not w.any():  # whose scores are exact
        return quick_look(rows, a, w, b)
    combined, scores = rows.careful_combine_and_score(a, w, b)
    lengths = np.sqrt(rows.squared_norms) * (1.0 + gamma(rows.most_entries + 16)) + math.sqrt(TINY)
    n = rows.most_entries
    reach = rounding.length(w).high * lengths + abs(b)
    # The products' own errors are of second order; what is returned of their sum is rounded once.
    error = 8 * U * np.abs(scores) + 2.0 * gamma(n + 16) ** 2 * reach + 8 * n * TINY
    if rows.constant:  # b is known as the weight of the constant feature, which was rounded
        error = error + 4 * U * abs(rows.constant * float(w[-1]))
    sizes = rounding.product(np.abs(a), lengths).high
    drift = 4 * U * rounding.length(combined).high + 2.0 * gamma(rows.n_rows + 16) ** 2 * sizes
    return Pass(combined, drift + 8 * _underflow(rows), scores, error)


def _underflow(rows: MemoryRows) -> float:
    """The length of what products that are too small to be numbers may add up to."""
    return rows.n_rows * math.sqrt(rows.n_features + 1.0) * TINY


@dataclass(frozen=True)
class Judged:
    """A share of a certificate, or the whole of it: sums over rows at (w, alpha)."""

    w_alpha: Array  # sum alpha_i y_i x_i
    drift: float  # the length of what rounding did to it, at most
    value: Interval  # the dual value but for 1/2 |w(alpha)|^2
    total: Interval  # sum |alpha_i|
    balance: Interval  # sum alpha_i y_i
    positive: Interval = ZERO  # what is positive in `value`, at most
    longest: float = 0.0  # |x_i|, at most
    moved: float = 0.0  # how far alpha had to go into its box, in sum
    shifted: float = 0.0  # the same, and to the balance that a free bias asks for
    loss: Interval = ZERO  # sum C_i loss, where the bias is known
    errors: int = 0  # rows that w puts on the wrong side, where somebody counts them
    bracket: tuple[float, float] = (np.inf, -np.inf)  # of the breakpoints of a free bias

    @cached_property
    def length(self) -> Interval:
        """|w(alpha)|."""
        found = rounding.length(self.w_alpha)
        return (found + Interval(-self.drift, self.drift)).within(0.0, math.inf)

    def dual(self) -> Interval:
        """D(alpha), where sum alpha_i y_i need not be 0."""
        return self.value - 0.5 * self.length.squared()

    def pulled(self, goal: Interval) -> Judged:
        """Of the nearest point that sums up to the goal exactly, which is |r| away in sum.

        r is by how much the balance is off; w(alpha) moves by no more than |r| |x|. (Of one class,
        whose dual value is 0 but for w.)
        """
        r = (self.balance - goal).size
        return replace(self, balance=goal, drift=self.drift + r * self.longest * (1.0 + 4 * U))

    def balanced(self) -> Judged:
        """Of the point whose heavier class is scaled down until sum alpha_i y_i = 0 exactly.

        (Of a regression, whose heavier sign of alpha.) It is |r| / heavier of that class away, r
        the balance as it is. The dual value is concave and not negative at 0, so it falls by no
        more than that part of its positive terms; w(alpha) moves by no more than |r| |x|.
        """
        r = self.balance.size
        heavier = (0.5 * (self.total + r)).low
        part = min(1.0, (Interval(r, r) / heavier).high) if heavier > 0 else float(r > 0)
        return replace(
            self, value=self.value - Interval(0.0, part) * self.positive,
            total=self.total - Interval(0.0, r), balance=ZERO,
            drift=self.drift + 2.0 * r * self.longest,
        )  # fmt: skip


def judge_piece(
    piece: Piece, loss: Loss, own: Array | None, w: Array, b: float, scales: Scales
) -> tuple[Judged, Array, Pass]:
    """A piece's share, with the feasible alpha that was judged and the look at its rows.

    own: the solver's dual variables, or None. b: a bias that is not among the weights.
    """
    point, look = piece.rows.judge(own, piece, scales, w)
    if b != 0:
        look = look.shifted(b)
    return point.judged(piece, loss, look), point.alpha, look


@dataclass(frozen=True)
class Feasible:
    """A feasible dual point made of a solver's: how far its variables had to go, in sum."""

    alpha: Array
    moved: float  # into their box
    shifted: float  # and to the balance that a free bias asks for
    sums: DualSums

    @classmethod
    def at(cls, piece: Piece, alpha: Array) -> Feasible:
        """A point that is feasible already."""
        return cls(alpha, 0.0, 0.0, rounding.dual_sums(alpha, piece.y, piece.rows.n_threads))

    @classmethod
    def of(cls, piece: Piece, own: Array | None, scales: Scales) -> Feasible:
        """Clipped, and scaled; see `judge_piece`."""
        inside = np.zeros(len(piece.y)) if own is None else np.asarray(own)
        clipped = piece.clipped(inside)
        moved = float(np.abs(clipped - inside).sum())
        if scales == LEVEL:
            return replace(cls.at(piece, clipped), moved=moved, shifted=moved)
        alpha = scales.applied(clipped, piece)
        shifted = float(np.abs(alpha - inside).sum())
        return replace(cls.at(piece, alpha), moved=moved, shifted=shifted)

    def judged(self, piece: Piece, loss: Loss, look: Pass) -> Judged:
        """The piece's share of the dual value, by a look at its rows."""
        share = dual_share(piece, loss, self, look.combined, look.drift)
        return replace(share, moved=self.moved, shifted=self.shifted)


def dual_share(piece: Piece, loss: Loss, point: Feasible, combined: Array, drift: float) -> Judged:
    """A piece's share of the dual value of a feasible point, of whose weights this is known."""
    alpha, sums = point.alpha, point.sums
    n_threads = piece.rows.n_threads
    value = loss.dual_between(alpha, piece.cost, sums, n_threads)
    positive = loss.highest_dual_value(sums.size, piece.total_cost)
    if piece.targets is not None:
        value = value + rounding.product(alpha, piece.targets, n_threads)
        positive = positive + rounding.product(np.abs(alpha), np.abs(piece.targets), n_threads)
    longest = piece.rows.largest_length
    return Judged(combined, drift, value, sums.size, sums.balance, positive, longest)


def loss_at(piece: Piece, loss: Loss, scores: Array, error: Any) -> Interval:
    """sum C_i loss(p_i), of scores that are known up to an error."""
    costs = Interval.around(1.0, 2 * U)  # which are rounded products
    if loss.core is not None and piece.targets is None and np.ndim(error) == 0:
        n_threads = piece.rows.n_threads
        return loss.compiled_between(piece.signed_cost, scores, error, n_threads) * costs
    p = piece.margins(scores)
    if piece.targets is not None:  # another difference
        error = error + 2 * U * np.abs(p)
    return loss.sum_between(p, error, piece.cost) * costs


def bias_bracket(piece: Piece, loss: Loss, scores: Array) -> tuple[float, float]:
    """From the least to the largest breakpoint of a free bias."""
    points = (loss.target * piece.y - piece.unshifted(scores))[piece.cost > 0]
    return (float(points.min()), float(points.max())) if len(points) else (np.inf, -np.inf)


def losses_at(piece: Piece, loss: Loss, scores: Array, biases: Array) -> tuple[Array, Array]:
    """sum C_i loss with each of these biases added to the scores, and its slope in the bias."""
    values, slopes = np.zeros(len(biases)), np.zeros(len(biases))
    for k, b in enumerate(biases):
        margins = piece.margins(scores + b)
        values[k] = weighted_sum(piece.cost, loss.value(margins))
        slopes[k] = -inner(piece.cost * loss.slope(margins), piece.y)
    return values, slopes


def total(parts: Iterable[Judged]) -> Judged:
    """The whole, whatever the number of parts, of which one is in memory at a time."""
    w_alpha: Array | None = None
    names = ("value", "total", "balance", "positive", "loss")
    sums = dict.fromkeys(names, ZERO)
    drift = moved = shifted = longest = 0.0
    errors, low, high = 0, np.inf, -np.inf
    for part in parts:  # in their order, whoever answered first
        if w_alpha is None:
            w_alpha = part.w_alpha
        else:
            w_alpha += part.w_alpha
            drift += U * rounding.length(w_alpha).high  # of this addition
        drift, longest = drift + part.drift, max(longest, part.longest)
        for name in names:
            sums[name] = sums[name] + getattr(part, name)
        moved, shifted = moved + part.moved, shifted + part.shifted
        errors += part.errors
        low, high = min(low, part.bracket[0]), max(high, part.bracket[1])
    assert w_alpha is not None
    return Judged(
        w_alpha, drift * (1.0 + 1e-9), **sums, longest=longest, moved=moved, shifted=shifted,
        errors=errors, bracket=(low, high),
    )  # fmt: skip


def draw(y: Array, cost: Array, n: int, seed: int) -> NDArray[np.intp]:
    """About n rows that cost something, both signs among them, in order."""
    rng = np.random.default_rng(seed)
    useful = np.flatnonzero(cost > 0)
    drawn = rng.choice(useful, size=min(n, len(useful)), replace=False)
    for sign in (-1, 1):
        if not (y[drawn] == sign).any() and (y == sign).any():
            drawn = np.append(drawn, rng.choice(np.flatnonzero(y == sign)))
    return np.sort(drawn)


@dataclass(frozen=True)
class Findings:
    """What the rows say of a point: the point that was judged, its loss and its dual point."""

    joined: Array  # w with the weight of the constant feature
    b: float
    loss: Interval
    judged: Judged
    alpha: Any  # an array, or a handle on dual variables that stay elsewhere
    repaired: bool
    scores: Array | None = None  # with the bias, of rows in memory
    error: Any = 0.0  # of the scores, at most

    @cached_property
    def half_norm(self) -> Interval:
        """1/2 |w|^2."""
        return 0.5 * rounding.product(self.joined, self.joined)

    def blurred(self, floor: float = 0.0) -> bool:
        """Whether rounding is more than a tenth of the gap; floor: a lower bound of any P."""
        primal, dual = self.half_norm + self.loss, self.judged.dual()
        gap = primal.high - max(dual.low, floor)
        return primal.width + min(dual.width, gap) > 0.1 * gap


class Sides(Protocol):
    """Rows as one problem sees them: signs, costs, and everything that is a sum over them."""

    @property
    def rows(self) -> Rows:
        """All of them."""

    @property
    def dear(self) -> bool:
        """Whether judging reads rows that are not in memory."""

    @property
    def place(self) -> str:
        """What computes: "cpu" or "cuda", and why where that was chosen."""

    @property
    def may_fail(self) -> bool:
        """Whether a machine may be lost, and with it what it has found."""

    @property
    def variant(self) -> Callable[..., Sides]:
        """The same rows with other signs, weights or C: what can change depends on their home."""

    def judge(self, iterate: Iterate, joined: Array) -> Findings:
        """One sum over the parts of the rows; a point far from feasible is repaired first."""

    def primal_loss(self, joined: Array, b: float) -> Interval:
        """sum_i C_i loss at these weights; b is a free bias."""

    def dual_sums(self, alpha: Any) -> Judged:
        """The share of the dual in a certificate, of a feasible point."""

    def is_feasible(self, alpha: Array, rounding: float) -> bool:
        """Whether alpha is inside its box, and balanced for a free bias, but for rounding."""

    def zeros(self) -> Any:
        """The dual point at the origin; None if there is no handle for it."""

    def still_has(self, alpha: Any) -> bool:
        """Whether these dual variables can still be looked at."""

    def start_alpha(self, start: Any) -> Any:
        """The start's dual variables inside the box, or zeros: the caller's own."""

    def rescaled(self, alpha: Any, ratio: float) -> Any:
        """Dual variables to start from at `ratio` times C."""

    def squared_radius(self) -> float:
        """A bound on |w*|^2."""

    def identity(self) -> tuple[str, str] | None:
        """Fingerprints of rows with signs, and of weights; None where checkpoints make no sense."""

    def sample(self, n: int, seed: int) -> tuple[MemoryRows, Array, Array]:
        """About n rows in memory, both signs among them, with signs and weights."""
