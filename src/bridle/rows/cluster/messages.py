"""What is said to a part, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bridle.matrix.arrays import Array
from bridle.objective.losses import Loss
from numpy.typing import NDArray


class PartsLostError(Exception):
    """Parts lost their state and begin anew; `numbers` says which."""

    def __init__(self, numbers: Sequence[int], message: str) -> None:
        super().__init__(tuple(numbers), message)  # by which it is made again after a journey
        self.numbers = tuple(numbers)

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(frozen=True)
class Aside:
    """Rows that are set aside: they weigh nothing in a problem, and can be looked at afterwards.

    Every part puts the rows of each class in a random order of its own, from 0 to 1; aside are
    those from `low` on and below `high`. The same seed gives the same orders.
    """

    seed: int
    low: float
    high: float

    @classmethod
    def fold(cls, k: int, n: int, seed: int) -> Aside:
        """Fold k of n."""
        return cls(seed, k / n, (k + 1) / n)


@dataclass(frozen=True)
class Against:
    """Which problem over the rows: class `positive` against the rest, at this C."""

    C: float
    loss: str | Loss
    bias: str
    bias_scale: float
    positive: int
    class_weight: tuple[float, ...] | None = None
    aside: Aside | None = None


@dataclass(frozen=True)
class FromSnapshot:
    """Dual variables to go on from: those of a snapshot, which was taken at another C."""

    snapshot: int
    ratio: float  # the new C over that one


@dataclass(frozen=True)
class Opened:
    """Sums over the rows of a part that the start of a solve needs."""

    squared_norm: float  # without the constant feature
    cost: float
    n_rows: int
    n_useful: int  # rows that cost something
    from_zero: bool


class FirstShare(NamedTuple):
    """Of the first epoch from zero: see `core/linear/dcd/part.hpp`."""

    rows_in_all: float
    rows_before: float
    rows_seen: float  # by all parts, before this round
    at_once: float  # for each that a part sees

    def after(self, visits: int) -> FirstShare:
        """Once a part has seen so many more."""
        return self._replace(rows_seen=self.rows_seen + self.at_once * visits)


@dataclass(frozen=True)
class Order:
    """What a part is to do in a round."""

    kept: float  # the part of the last round's step that the line search kept
    w: NDArray[Any]
    b: float
    response: float  # d b / d sum alpha y
    caution: NDArray[Any] | None  # S of each feature and, last, of the bias; None as before
    epochs: float  # of local work
    bucket: int
    balance: float = 0.0  # sum alpha y
    first: FirstShare | None = None
    memory: float = 0.0  # how much of what is known of earlier rounds counts, see `Step.apart`
    tell: bool = False  # whether to say so
    look: int = 0  # rows that a part draws, see `Look`
    wake: bool = False  # whether rows that rest are to be visited again


@dataclass(frozen=True)
class Look:
    """The gap of all rows of a part, by some that it drew: of rows in play, of those at rest."""

    active: float
    resting: float
    variance: float


@dataclass(frozen=True)
class Step:
    """What it did: sum d_alpha_i z_i, and the changes of the other parts of the dual."""

    step: NDArray[Any]
    separable: float
    balance: float
    curvature: float
    visits: int
    inside: int
    active: float  # bytes of the rows that do not rest
    moving: float  # of those that move, by how many did in this round
    look: Look | None = None  # at the weights that the round began with; of one part, ended with
    # How far the weights, and last the balance, were pushed in this round and before: the sum of
    # the squares, older rounds counting less.
    apart: NDArray[Any] | None = None


@dataclass(frozen=True)
class Share:
    """Rows that may move, with their signed costs and dual variables."""

    X: tuple[NDArray[Any], ...]  # lengths, columns and values, or one dense block
    signed_cost: Array
    alpha: NDArray[Any]
