"""The rows that still move, gathered here: what is left of a problem once most rows rest.

A round costs its messages however few rows it visits, and late rounds visit few. So rows that may
move are copied from the parts once they are few enough: those whose dual variable is not what its
margin asks for, or would not be if the margin changed a little. They are solved here, with the
others where they are, and the parts take over the dual variables. A row that was copied is not sent
again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.rows.cluster.messages import Share
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.rows.cluster.run import ClusterRun

# So far the gap of the gathered rows falls before the others deserve a look; at most in so many
# epochs of these rows.
ENOUGH, MOST_EPOCHS = 0.1, 30


@dataclass
class Gathered:
    """Rows of all parts, up to so many bytes, and their dual variables."""

    run: ClusterRun
    most_bytes: float
    shares: list[list[Share]] = field(default_factory=list)  # of each part, as they came
    nbytes: float = 0.0
    needed: float = 0.0  # bytes of the rows that move, when the parts last looked
    gap: float = np.inf  # of the rows that are here
    recoveries: int = 0  # of the run, when the rows came: a part that began anew knows of none

    def fetch(self) -> bool:
        """Copy the rows that may move, of the widest band that fits; False if that is no use."""
        sizes = self._sizes()
        self.needed = float(self.nbytes + sizes.min())
        fitting = np.flatnonzero(self.nbytes + sizes <= self.most_bytes)
        if not len(fitting) or self.nbytes + sizes[fitting[0]] == 0:
            return False
        band = int(fitting[0])
        found = self.run.call("gather", band)
        before = self.shares or [[] for _ in found]
        self.shares = [[*own, share] for own, share in zip(before, found, strict=True)]
        self.nbytes += float(sizes[band])
        return True

    def forget(self) -> None:
        """The parts have visited the rows themselves: their dual variables are others now."""
        self.shares, self.nbytes = [], 0.0

    def _sizes(self) -> Array:
        """Of the rows that are not here; if they do not fit in, what was copied is given up."""
        if self.shares and self.recoveries == self.run.recoveries:
            sizes = self._look(anew=False)
            if self.nbytes + sizes.min() <= self.most_bytes:
                return sizes
        self.recoveries = self.run.recoveries
        self.forget()
        return self._look(anew=True)

    def _look(self, *, anew: bool) -> Array:
        """The parts look at all rows from the weights as they are."""
        w = None if self.run.judged else self.run.vector().astype(self.run.sides.rows.dtype)
        return np.asarray(np.sum(self.run.call("near", anew, w, self.run.b), axis=0))

    def solve(self, rng: _core.Rng, bucket: int) -> int:
        """Coordinate descent on them, from the weights of all; how many visits it took."""
        shares = [share for own in self.shares for share in own]
        rows = MemoryRows(_joined([share.X for share in shares], self.run.n_features), 0.0, 1)
        alpha = np.concatenate([share.alpha for share in shares]).astype(np.float64)
        descent = _core.steps.dcd_part(
            rows.view, self.run.sides.loss.struct,
            np.concatenate([share.signed_cost for share in shares]), rows.squared_norms, alpha,
        )  # fmt: skip
        visits = self._descend(descent, rng, bucket)
        descent.alpha(alpha)
        self._hand_over(alpha.astype(shares[0].alpha.dtype))
        return visits

    def _descend(self, descent: Any, rng: _core.Rng, bucket: int) -> int:
        run, goal, visits = self.run, -1.0, 0
        w, step = run.vector(), np.zeros(len(run.w) + 1)
        for _ in range(MOST_EPOCHS):
            step[:] = 0.0
            epoch = descent.visit(rng, bucket, 1.0, w, run.b, float(run.bias.response), step)
            w += step
            run.bias.add(epoch.balance)
            run.bias.recentre(run.sigma(epoch.inside))
            visits, self.gap = visits + epoch.visits, epoch.gap
            if goal < 0:
                goal = ENOUGH * epoch.gap
            elif epoch.gap <= goal:
                if epoch.whole:
                    break
                descent.unshrink()
        run.separable += descent.moved().separable
        run.w, run.judged = w[:-1], False
        return visits

    def _hand_over(self, alpha: NDArray[Any]) -> None:
        """The parts take the dual variables."""
        ends = np.cumsum([sum(len(share.alpha) for share in own) for own in self.shares])
        pieces = np.split(alpha, ends[:-1])
        for own, new in zip(self.shares, pieces, strict=True):
            begin = 0
            for share in own:
                share.alpha[:] = new[begin : begin + len(share.alpha)]
                begin += len(share.alpha)
        self.run.call("accept", pieces)


def _joined(blocks: list[tuple[NDArray[Any], ...]], n_features: int) -> Any:
    """One matrix of dense blocks, or of (lengths, columns, values)."""
    if len(blocks[0]) == 1:
        return np.concatenate([block[0] for block in blocks])
    from scipy.sparse import csr_matrix

    lengths, columns, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return csr_matrix((values, columns, starts), shape=(len(lengths), n_features))
