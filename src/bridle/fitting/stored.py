"""Training on rows that are on disk, one class against the rest where there are several.

    rows = StoredRows("rows.arrow", memory="2G")
    LinearSVC(C=1.0).fit(rows)

The classes are solved one after the other: each reads the file for itself.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from bridle.data.arrow import ArrowRows, open_arrow
from bridle.files.fingerprint import fingerprint_of
from bridle.fitting.one_vs_rest import OneVsRest
from bridle.objective.bias import Bias
from bridle.objective.losses import Hinge, Loss
from bridle.problems.streamed import StreamedProblem
from bridle.rows.disk.memory import parse_size
from bridle.rows.disk.ranges import labels_of
from bridle.solvers import Solver
from bridle.solving.checkpoint import Checkpoint
from bridle.solving.loop import DEFAULT_STOP
from bridle.solving.many import Keep, Watcher, solve_each
from bridle.solving.stopping import Stop
from numpy.typing import NDArray

Array = NDArray[np.float64]
StrPath = str | os.PathLike[str]


class StoredRows:
    """An Arrow file to train on, and how much memory that may take.

    memory: the most that this process may have resident, in bytes or as "2G"; None maps the file
    and leaves it to the system what of it is in memory.
    """

    def __init__(self, rows: ArrowRows | StrPath, memory: int | str | None = None) -> None:
        self.source = rows if isinstance(rows, ArrowRows) else open_arrow(rows)
        self.memory = parse_size(memory) if isinstance(memory, str) else memory
        self.classes, self.class_counts = labels_of(self.source)
        self._solved: list[StreamedProblem] = []

    @property
    def shape(self) -> tuple[int, int]:  # noqa: D102
        return self.source.shape

    @property
    def zero_based(self) -> bool:
        """Whether texts of these data count features from 0."""
        return self.source.zero_based

    @property
    def columns(self) -> None:
        """Of a table: this is none."""
        return None

    @property
    def weight(self) -> str | None:
        """The name of the column of weights, if there is one."""
        return "weight" if self.source.has_weight else None

    @property
    def nnz(self) -> int:
        """The stored entries."""
        return self.source.nnz

    def problem(self, C: float = 1.0, **options: Any) -> StreamedProblem:
        """The problem of the last class against the others; `variant` gives those of the others."""
        return StreamedProblem(
            self.source, C, positive=float(self.classes[-1]), memory=self.memory, **options
        )

    def solve(
        self,
        C: float = 1.0,
        *,
        loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
        bias: Bias = "none",
        bias_scale: float = 1.0,
        solver: str | Solver = "auto",
        stop: Stop = DEFAULT_STOP,
        watch: Watcher | None = None,
        seed: int = 0,
        n_threads: int | None = None,
        keep: Keep | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> OneVsRest:
        """Solve the problem of each class against the rest."""
        problem = self.problem(C, loss=loss, bias=bias, bias_scale=bias_scale, n_threads=n_threads)
        positives = self.classes[1:] if len(self.classes) == 2 else self.classes
        self._solved = [problem.variant(positive=float(label)) for label in positives]
        return OneVsRest(
            solve_each(
                len(positives), self._solved.__getitem__, solver, stop=stop, watch=watch,
                start=None, seed=seed, workers=1, keep=keep, checkpoint=checkpoint,
            )
        )  # fmt: skip

    def error_rate(self, coef: Array, intercept: Array) -> float:
        """The share of rows that the weights of the last `solve` misclassify.

        For two classes its certificates have counted them; for more it takes one more pass.
        """
        if not self._solved:
            raise RuntimeError("nothing has been solved yet")
        if len(self._solved) == 1:
            return self._solved[0].best_judged[1] / self.shape[0]
        return self._solved[0].error_rate(coef, intercept, self.classes)

    def fingerprint(self) -> str:
        """Of the rows and their labels: that of the same rows in memory."""
        return fingerprint_of(self.shape, (self.shape[0],), self.source.row)

    def __repr__(self) -> str:
        return f"StoredRows({self.source!r}, memory={self.memory})"
