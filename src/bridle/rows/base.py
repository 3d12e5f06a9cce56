"""The port: where rows are, and what can be computed with them.

`Rows` is one matrix, wherever it is. `Sides` are its rows as one problem sees them: each with a
sign y_i = +-1 and a cost C_i. A certificate is one sum over their parts, whether a part is all rows
in memory, a range of a file or what a worker of a cluster holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss, inner, weighted_sum
from bridle.objective.point import Iterate
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.rows.memory import MemoryRows


# What rows can be asked for beyond sums over all of them. Solvers say what they need of it.
STEPS = "steps"  # compiled steps that visit all rows in an order of their own
SCORES = "scores"  # a number for each row, all of them in this memory
RANGES = "ranges"  # the rows range by range, any number of times
ROUNDS = "rounds"  # rounds of work by parts that hold rows and dual variables


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


@dataclass(frozen=True)
class Piece:
    """Some rows that are at hand, each with its sign and its cost. where: among all rows."""

    rows: MemoryRows
    y: Array
    cost: Array
    signed_cost: Array
    upper: Array
    where: slice

    @classmethod
    def of(cls, rows: MemoryRows, y: Array, cost: Array, loss: Loss, where: slice) -> Piece:
        """With the bounds that the loss puts on the dual variables."""
        return cls(rows, y, cost, np.copysign(cost, y), loss.upper(cost), where)


@dataclass(frozen=True)
class Judged:
    """A share of a certificate, or the whole of it: sums over rows at (w, alpha)."""

    w_alpha: Array  # sum alpha_i y_i x_i
    value: float  # the dual value but for 1/2 |w(alpha)|^2
    total: float  # sum alpha_i
    balance: float  # sum alpha_i y_i
    moved: float = 0.0  # how far alpha had to go into its box, in sum
    shifted: float = 0.0  # the same, and to the balance that a free bias asks for
    loss: float = 0.0  # sum C_i loss, where the bias is known
    errors: int = 0  # rows that w puts on the wrong side, where somebody counts them
    bracket: tuple[float, float] = (np.inf, -np.inf)  # of the breakpoints of a free bias

    @property
    def dual(self) -> float:
        """D(alpha)."""
        return self.value - 0.5 * inner(self.w_alpha, self.w_alpha)


def judge_piece(
    piece: Piece, loss: Loss, own: Array | None, w: Array, scales: tuple[float, float]
) -> tuple[Judged, Array, Array]:
    """A piece's share, with the feasible alpha that was judged and the scores of its rows.

    own: the solver's dual variables, or None. scales: of alpha above and below, see `balance`.
    """
    inside = np.zeros(len(piece.y)) if own is None else np.asarray(own)
    clipped = np.clip(inside, 0.0, piece.upper)
    alpha = clipped if scales == (1.0, 1.0) else clipped * np.where(piece.y > 0, *scales)
    w_alpha, scores = piece.rows.combine_and_score(alpha * piece.y, w)
    moved = float(np.abs(clipped - inside).sum())
    judged = Judged(
        w_alpha=w_alpha, value=loss.dual_value(alpha, piece.cost), total=float(alpha.sum()),
        balance=inner(alpha, piece.y), moved=moved,
        shifted=moved if alpha is clipped else float(np.abs(alpha - inside).sum()),
    )  # fmt: skip
    return judged, alpha, scores


def loss_at(piece: Piece, loss: Loss, scores: Array) -> float:
    """sum C_i loss(y_i s_i)."""
    return weighted_sum(piece.cost, loss.value(piece.y * scores))


def bias_bracket(piece: Piece, loss: Loss, scores: Array) -> tuple[float, float]:
    """From the least to the largest breakpoint of a free bias."""
    points = (loss.target * piece.y - scores)[piece.cost > 0]
    return (float(points.min()), float(points.max())) if len(points) else (np.inf, -np.inf)


def total(parts: Iterable[Judged]) -> Judged:
    """The whole: exact sums, whatever the number of parts, of which one is in memory at a time."""
    w_alpha: Array | None = None
    names = ("value", "total", "balance", "moved", "shifted", "loss")
    columns: dict[str, list[float]] = {name: [] for name in names}
    errors, low, high = 0, np.inf, -np.inf
    for part in parts:  # in their order, whoever answered first
        if w_alpha is None:
            w_alpha = part.w_alpha
        else:
            w_alpha += part.w_alpha
        for name, column in columns.items():
            column.append(getattr(part, name))
        errors += part.errors
        low, high = min(low, part.bracket[0]), max(high, part.bracket[1])
    assert w_alpha is not None
    sums = {name: math.fsum(column) for name, column in columns.items()}
    return Judged(w_alpha, **sums, errors=errors, bracket=(low, high))


def draw(y: Array, cost: Array, n: int, seed: int) -> NDArray[np.intp]:
    """About n rows that cost something, both signs among them, in order."""
    rng = np.random.default_rng(seed)
    useful = np.flatnonzero(cost > 0)
    drawn = rng.choice(useful, size=min(n, len(useful)), replace=False)
    for sign in (-1, 1):
        if not (y[drawn] == sign).any():
            drawn = np.append(drawn, rng.choice(np.flatnonzero(y == sign)))
    return np.sort(drawn)


def balance(up: float, down: float) -> tuple[float, float]:
    """What makes sum alpha_i y_i = 0: the factor of each class, of which the heavier shrinks."""
    return (
        down / up if up > down else 1.0,
        up / down if down > up else 1.0,
    )


@dataclass(frozen=True)
class Findings:
    """What the rows say of a point: the point that was judged, its loss and its dual point."""

    joined: Array  # w with the weight of the constant feature
    b: float
    loss: float
    judged: Judged
    alpha: Any  # an array, or a handle on dual variables that stay elsewhere
    repaired: bool
    scores: Array | None = None  # with the bias, of rows in memory


class Sides(Protocol):
    """Rows as one problem sees them: signs, costs, and everything that is a sum over them."""

    @property
    def rows(self) -> Rows:
        """All of them."""

    @property
    def dear(self) -> bool:
        """Whether judging reads rows that are not in memory."""

    @property
    def may_fail(self) -> bool:
        """Whether a machine may be lost, and with it what it has found."""

    @property
    def variant(self) -> Callable[..., Sides]:
        """The same rows with other signs, weights or C: what can change depends on their home."""

    def judge(self, iterate: Iterate, joined: Array) -> Findings:
        """One sum over the parts of the rows; a point far from feasible is repaired first."""

    def primal_loss(self, joined: Array, b: float) -> float:
        """sum_i C_i loss at these weights; b is a free bias."""

    def dual_sums(self, alpha: Any) -> tuple[Array, float, float, float]:
        """w(alpha), the dual value but for 1/2 |w|^2, sum alpha_i and sum alpha_i y_i."""

    def dual_value(self, alpha: Any) -> tuple[float, float]:
        """The dual value but for 1/2 |w|^2, and sum alpha_i."""

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
