"""One problem over the rows of a block: its costs, and its dual variables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.dual import rescaled
from bridle.objective.losses import Loss, inner, loss_from
from bridle.objective.rounding import Interval
from bridle.rows.base import Judged, Pass, Piece, Scales, bias_bracket, judge_piece, loss_at
from bridle.rows.cluster.blocks import BlockRows
from bridle.rows.cluster.messages import Against, Share
from numpy.typing import NDArray

# A row may move if its margin need change no more than this for it: how far to look, widest first.
BANDS = (0.5, 0.2, 0.1, 0.05, 0.0)


@dataclass
class State:
    """One problem's view of a block: signs, costs, and the descent that holds alpha."""

    block: Any  # BlockRows, or what has their methods
    piece: Piece
    loss: Loss
    descent: Any
    look: Pass = field(default_factory=lambda: Pass(np.empty(0), 0.0, np.empty(0), 0.0))
    judged_b: float = 0.0  # which the scores of that look have in them
    out: list[NDArray[np.intp]] = field(default_factory=list)  # rows that were handed out
    band: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))  # see `near`

    @classmethod
    def start(cls, block: BlockRows, against: Against, alpha: Array | None, ratio: float) -> Self:
        """From dual variables of another C, or from zero."""
        loss, piece = loss_from(against.loss), block.piece(against)
        start = np.zeros(len(piece.y))
        if alpha is not None:
            start = piece.clipped(rescaled(alpha, piece.lower, piece.upper, ratio, loss))
        return cls(block, piece, loss, cls.descend(block, piece, loss, start))

    @staticmethod
    def descend(block: Any, piece: Piece, loss: Loss, alpha: Array) -> Any:
        """The descent that holds alpha."""
        return descent_of(piece, loss, alpha)

    @property
    def y(self) -> Array:
        """The signs."""
        return self.piece.y

    @property
    def cost(self) -> Array:
        """C_i."""
        return self.piece.cost

    @property
    def upper(self) -> Array:
        """The bounds of alpha."""
        return self.piece.upper

    @property
    def active_bytes(self) -> float:
        """About what the rows would weigh that do not rest."""
        return float(self.block.mean_bytes) * float(self.descent.n_active)

    def alpha(self) -> Array:
        """The dual variables, inside their bounds."""
        out = np.empty(len(self.y))
        self.descent.alpha(out)
        out[np.isnan(out)] = 0.0  # what has overflown float32 proves nothing
        return self.piece.clipped(out)  # float32 may have rounded past the bound

    def separable(self, alpha: Array) -> float:
        """The share of the dual value but for 1/2 |w|^2."""
        pull = 0.0 if self.piece.targets is None else inner(alpha, self.piece.targets)
        return float(self.loss.dual_value(alpha, self.cost)) + pull

    def near(self, w: Array | None, b: float) -> Array:
        """The bytes of the rows that may move, for each band; not of those handed out.

        For these weights, or those judged last.
        """
        if w is None:
            scores = self.look.scores + (b - self.judged_b)
        else:  # rows that rest are left to the next certificate
            scores = np.empty(len(self.y))
            self.descent.scores(w.astype(np.float64), b, scores)
        seen = np.flatnonzero(~np.isnan(scores))
        margins, cost, alpha = self.piece.margins(scores)[seen], self.cost[seen], self.alpha()[seen]
        room = 1e-6 * cost  # float32 has rounded
        # The narrowest band in which a row is: -1 if it was handed out or rests in all of them.
        self.band, found = np.full(len(scores), -1, np.int8), np.full(len(seen), -1, np.int8)
        for k, width in enumerate(BANDS):
            most, least = (cost * self.loss.slope(margins + d) for d in (-width, width))
            found[(alpha < most - room) | (alpha > least + room)] = k
        self.band[seen] = found
        for chosen in self.out:
            self.band[chosen] = -1
        sizes = self.block.row_bytes
        return np.array([sizes[self.band >= k].sum() for k in range(len(BANDS))])

    def hand_out(self, band: int) -> Share:
        """The rows that `near` found in a band."""
        chosen = np.flatnonzero(self.band >= band)
        self.out.append(chosen)
        alpha = self.alpha()[chosen].astype(self.block.dtype)
        return Share(self.block.take(chosen), self.piece.signed_cost[chosen], alpha)

    def take_back(self, pieces: list[NDArray[Any]]) -> None:
        """New dual variables of the rows that were handed out."""
        for chosen, new in zip(self.out, pieces, strict=True):
            self.descent.set_alpha(chosen.astype(np.int64), new.astype(np.float64))

    def judge(self, w: Array, scales: Scales, alphas: list[Array]) -> Judged:
        """A share of the certificate; the point that was judged goes to the list."""
        # The last weight is the constant feature's, of which these rows know nothing: it is b.
        joined, b = np.append(w[:-1], 0.0), float(w[-1])
        judged, alpha, self.look = self.judge_rows(joined, b, scales)
        alphas.append(alpha)
        self.judged_b = b
        bracket = bias_bracket(self.piece, self.loss, self.look.scores)
        return replace(judged, loss=self.judged_loss(0.0), bracket=bracket)

    def judge_rows(self, w: Array, b: float, scales: Scales) -> tuple[Judged, Array, Pass]:
        """The dual's share, the feasible alpha, and a look at the rows."""
        return judge_piece(self.piece, self.loss, self.alpha(), w, b, scales)

    def judged_loss(self, b: float) -> Interval:
        """Sum C_i loss at the scores last judged, with a bias more."""
        look = self.look.shifted(b) if b != 0 else self.look
        return loss_at(self.piece, self.loss, look.scores, look.error)


def descent_of(piece: Piece, loss: Loss, alpha: Array) -> Any:
    """Coordinate descent on the rows of a piece, the others being elsewhere."""
    rows = piece.rows
    return _core.steps.dcd_part(
        rows.view, loss.struct, piece.signed_cost, rows.squared_norms, alpha, piece.targets
    )
