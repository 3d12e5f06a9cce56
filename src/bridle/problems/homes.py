"""The linear problem by the names that its homes had: rows on disk, rows on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle.objective.bias import Bias
from bridle.objective.losses import Hinge, Loss
from bridle.problems.linear import LinearProblem
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.data.arrow import ArrowRows
    from bridle.rows.cluster.rows import Parts


def StreamedProblem(  # noqa: N802
    rows: ArrowRows | str,
    C: float = 1.0,
    *,
    positive: float | None = None,
    loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
    bias: Bias = "none",
    bias_scale: float = 1.0,
    memory: int | None = None,
    n_threads: int | None = None,
) -> LinearProblem:
    """The linear problem on the rows of an Arrow file, or its path.

    positive: the label that is +1, all others being -1; by default the larger of two. memory: the
    most bytes that this process may have resident; None maps the file and leaves that to the
    system. The other parameters are those of LinearProblem, which takes StoredRows, too.

    Examples
    --------
    >>> bridle.data.write_arrow("rows.arrow", *bridle.data.make_corpus(500, seed=0))
    >>> problem = bridle.StreamedProblem("rows.arrow", C=0.1)
    >>> bridle.solve(problem).certificate.relative_gap <= 1e-3
    True
    """
    from bridle.rows.disk.stored import StoredRows

    return LinearProblem(
        StoredRows(rows, memory), None, C, loss=loss, bias=bias, bias_scale=bias_scale,
        n_threads=n_threads, positive=positive,
    )  # fmt: skip


def DistributedProblem(  # noqa: N802
    parts: Parts,
    C: float = 1.0,
    *,
    loss: str | Loss = "hinge",
    bias: Bias = "none",
    bias_scale: float = 1.0,
    classes: NDArray[Any] | None = None,
    positive: int = 1,
    class_weight: Sequence[float] | None = None,
    checkpoint: str | Path | None = None,
) -> LinearProblem:
    """The linear problem over the rows of all parts: DaskRows, or LocalParts of this process.

    positive: the class, by its place among `classes`, that is +1; the others are -1.
    checkpoint: a folder that all workers can write to, for the dual variables of each certificate.

    Examples
    --------
    >>> from bridle.rows.cluster.local import LocalParts  # on a cluster: bridle.DaskRows
    >>> rows = LocalParts(*bridle.data.make_corpus(500, seed=0), 2)
    >>> problem = bridle.DistributedProblem(rows, C=0.1)
    >>> bridle.solve(problem).certificate.relative_gap <= 1e-3
    True
    """
    return LinearProblem(
        parts, None, C, loss=loss, bias=bias, bias_scale=bias_scale, classes=classes,
        positive=positive, class_weight=class_weight, checkpoint=checkpoint,
    )  # fmt: skip
