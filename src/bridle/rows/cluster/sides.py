"""Rows on a cluster as one problem sees them: the parts hold the rows and alpha.

From each part a certificate takes sum alpha_i z_i, the sum of its losses and a few numbers: the
certificate is that of the same rows on one machine.

When a part is lost (its worker died) its rows are read again and its alpha starts from the last
checkpoint, or from zero; w is put together anew from what all parts have. Any alpha inside its box
proves a bound: the certificates stay true, though they fall back.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.objective.bias import Bias, bias_precision
from bridle.objective.losses import Loss, inner
from bridle.objective.point import Iterate
from bridle.objective.rounding import ZERO, Interval
from bridle.rows.base import Findings, Judged, draw
from bridle.rows.cluster.dask_rows import as_rows
from bridle.rows.cluster.messages import Against, Aside, PartsLostError
from bridle.rows.cluster.resident import ResidentAlpha
from bridle.rows.cluster.rows import ClusterRows, Parts, Report, take_unwanted
from bridle.rows.cluster.run import ClusterRun
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray


class ClusterSides:
    """Class `positive`, by its place among the classes, is +1 and the others are -1.

    checkpoint: a folder that all workers can write to, for the dual variables of each certificate.
    See `bridle.rows.base.Sides`.
    """

    dear = False
    place = "cpu"

    def __init__(
        self,
        rows: ClusterRows,
        C: float,
        loss: Loss,
        bias: Bias,
        bias_scale: float,
        *,
        positive: int = 1,
        class_weight: Sequence[float] | None = None,
        checkpoint: str | Path | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.rows, self.C, self.loss = rows, C, loss
        self.bias, self.bias_scale = bias, bias_scale
        self.positive = positive
        self.class_weight = None if class_weight is None else tuple(map(float, class_weight))
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.aside = aside
        self.run: ClusterRun | None = None

    def variant(
        self,
        *,
        C: float | None = None,
        positive: int | None = None,
        class_weight: Sequence[float] | None = None,
        aside: Aside | None = None,
    ) -> ClusterSides:
        """The same rows with another C, another class against the rest, or other weights.

        aside: rows that this problem does not see.
        """
        other = copy.copy(self)
        other.run = None
        other.C = self.C if C is None else C
        other.positive = self.positive if positive is None else positive
        if class_weight is not None:
            other.class_weight = tuple(map(float, class_weight))
        other.aside = self.aside if aside is None else aside
        return other

    @property
    def parts(self) -> Parts:
        """Where the rows are."""
        return self.rows.parts

    @property
    def report(self) -> Report:
        """What the talk with the parts has cost."""
        return self.rows.report

    @property
    def against(self) -> Against:
        """What the parts need to know."""
        return Against(
            self.C, self.loss, self.bias, self.bias_scale, self.positive, self.class_weight,
            self.aside,
        )  # fmt: skip

    @property
    def free(self) -> bool:
        """Whether the bias is not penalised."""
        return self.bias == "free"

    @property
    def bias_precision(self) -> float:
        """The factor of b^2/2 in the objective: 0 for a free bias, infinite for none."""
        return bias_precision(self.bias, self.bias_scale)

    def begin(self, start: Any, seed: int) -> ClusterRun:
        """A new run of a solver; the one before is over."""
        self.close()
        self.run = ClusterRun(self, start, seed)
        return self.run

    def close(self) -> None:
        """The parts need not know of the run any more; the dual variables it found stay."""
        if self.run is not None:
            self.parts.unwanted.append(("run", self.run.number))
            self.run = None
            self.rows.ask("forget", take_unwanted(self.parts))

    def judge(self, iterate: Iterate, joined: Array) -> Findings:
        """The primal value of w and the dual value of the parts' alpha, in one pass."""
        if self.run is None:
            raise ValueError("on a cluster only the point of a run that is under way can be judged")
        return self.run.judge(iterate)

    @staticmethod
    def judge_all(
        sides: Sequence[ClusterSides], iterates: Sequence[Iterate], joined: Array
    ) -> list[Findings]:
        """Of several problems whose runs are under way."""
        runs = [own.run for own in sides]
        return ClusterRun.judge_all([run for run in runs if run is not None], iterates)

    def half_norm(self, w: Array, b: float) -> float:
        """1/2 |w|^2 with the weight of the constant feature."""
        bias = 0.5 * b * b * self.bias_precision if self.bias == "regularised" else 0.0
        return 0.5 * inner(w, w) + bias

    def rescaled(self, alpha: ResidentAlpha, ratio: float) -> ResidentAlpha:
        """The start of a solve at another C."""
        return alpha.at(ratio * self.C)

    def dual_sums(self, alpha: ResidentAlpha) -> Judged:
        """Those of a certificate; the weights are not kept."""
        return Judged(np.empty(0), 0.0, alpha.value, alpha.total, alpha.balance)

    def start_alpha(self, start: Any) -> Any:
        """The parts have their own: see `begin`."""
        return None if start is None else start.alpha

    def primal_loss(self, joined: Array, b: float) -> Interval:  # noqa: D102
        if self.bias == "regularised":
            b = float(joined[-1]) * self.bias_scale
        w = np.append(joined[:-1], 0.0)
        return sum(self.rows.ask("loss", self.against, w, b), start=ZERO)

    def held_loss(self, w: Array, b: float) -> tuple[float, float]:
        """The mean loss and the share of errors of the rows set aside, in the middle of a run."""
        while True:
            try:
                found = self.parts.call("held_loss", self.against, np.append(w, 0.0), b)
                losses, errors, count = np.sum(found, axis=0)
                return float(losses / count), float(errors / count)
            except PartsLostError as lost:
                if self.run is None:
                    self.rows.encode(lost.numbers)
                else:
                    self.run.recover(lost)

    def squared_radius(self) -> float:  # noqa: D102
        if self.loss.residual:
            return float(sum(self.rows.ask("squared_radius", self.against)))
        return self.loss.squared_radius(np.array([self.C * float(self.rows.facts.weights.sum())]))

    def identity(self) -> None:
        """The workers have checkpoints of their own: see `checkpoint`."""

    def sample(self, n: int, seed: int) -> tuple[MemoryRows, Array, Array]:  # noqa: D102
        answers = zip(*self.rows.ask("signs", self.against), strict=True)
        y, cost = (np.concatenate(column) for column in answers)
        chosen = draw(y, cost, n, seed)
        # The parts know nothing of the constant feature; rows in memory have it.
        constant = self.bias_scale if self.bias == "regularised" else 0.0
        rows = MemoryRows(self.rows.take(chosen).X, constant)
        return rows, y[chosen], cost[chosen] / self.C

    @property
    def may_fail(self) -> bool:
        """Whether certificates are of use before the end: they are what a checkpoint keeps."""
        return self.checkpoint is not None

    def still_has(self, alpha: Any) -> bool:
        """Dual variables that were lost with a machine prove nothing that can be looked at."""
        return not alpha.lost

    def zeros(self) -> None:
        """The parts have no name for the origin."""

    def is_feasible(self, alpha: Any, rounding: float) -> bool:
        """Not known of dual variables that the parts do not have."""
        raise ValueError("on a cluster only dual variables that are there already can be judged")


def sides_of(
    rows: Any,
    y: Any,
    sample_weight: Any,
    *,
    C: float,
    loss: Loss,
    bias: Bias,
    bias_scale: float,
    n_threads: int | None,
    classes: NDArray[Any] | None = None,
    **against: Any,
) -> ClusterSides:
    """The rows of all parts as one problem sees them: DaskRows, LocalParts, Dask's collections."""
    if loss.one_class:
        raise ValueError(
            "one class is not available on a cluster: its dual variables begin with a share of "
            "every row, and the parts of a cluster begin with none"
        )
    return ClusterSides(
        ClusterRows(as_rows(rows, y, sample_weight), classes), C, loss, bias, bias_scale, **against
    )
