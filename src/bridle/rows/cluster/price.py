"""What a round costs, by a model: messages and work. The clock has no say in a solve: the same seed
gives the same bits, so the constants are those that were measured once (see docs/scale.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.rows.cluster.links import FANOUT, depth

if TYPE_CHECKING:
    from bridle.rows.cluster.run import ClusterRun

RATE = 3e8  # non-zeros that a part visits in a second
BANDWIDTH = 7e8  # bytes a second that pass the client, or a worker
LATENCY = 1e-3  # seconds of a message that says nothing, for each level of the tree
OVERHEAD = 0.25  # the share of a round that messages may take


def message_bytes(run: ClusterRun) -> float:
    """Vectors down the tree and up again, and what could have passed while they were on their way.

    At each level somebody sends and hears as many as it has branches, one after the other.
    """
    n, vector = len(run.parts), (run.n_features + 1) * run.sides.rows.dtype.itemsize
    return depth(n) * (2 * min(n, FANOUT) * vector + LATENCY * BANDWIDTH)


def worthwhile_work(run: ClusterRun) -> float:
    """Epochs of local work of which messages are no more than that share of the round."""
    seconds = (1 / OVERHEAD - 1) * message_bytes(run) / BANDWIDTH
    return seconds * RATE * len(run.parts) / max(1, run.sides.rows.nnz)
