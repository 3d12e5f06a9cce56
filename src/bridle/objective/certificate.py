"""How good is it, and how do we know: certificates, and the trace of how they came about.

For any w and any feasible alpha, weak duality says D(alpha) <= min P <= P(w): the difference is a
proof of how far from optimal w can be at most. What is reported of P is an upper bound and of D a
lower one, rounding included: see `bridle.objective.rounding`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from bridle.objective.rounding import ZERO, Interval, U

# "solver": the solver's own dual point. "repair": the problem made one feasible.
# "dual-solver": found by another solver, which only certify() may ask for.
Source = Literal["solver", "repair", "dual-solver"]


@dataclass(frozen=True)
class Certificate:
    """A primal value that was reached and a dual value that bounds all of them from below.

    Examples
    --------
    >>> certificate = bridle.Certificate(primal=10.0, dual=9.9)
    >>> print(certificate)
    primal 10, dual 9.9, certified relative gap 1.0e-02 (solver)
    """

    primal: float
    dual: float
    source: Source = "solver"
    rounding: float = 0.0  # how much of P - D is what rounding may have done
    assumption: str | None = None  # what it takes for granted, where that could not be shown

    @property
    def gap(self) -> float:
        """P - D."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """(P - D) / max(|P|, |D|), which is (P - D) / P of an objective that is not negative."""
        if self.primal == self.dual:
            return 0.0
        if not (np.isfinite(self.primal) and np.isfinite(self.dual)):
            return float("inf")
        part = self.gap / max(abs(self.primal), abs(self.dual))
        return part if self.dual == 0.0 else part * (1.0 + 8.0 * U)  # never less than it is

    @property
    def suboptimality_bound(self) -> float:
        """P / D - 1, which bounds (P - P*) / P*."""
        if self.primal == self.dual:
            return 0.0
        if not self.dual > 0.0:
            return float("inf")
        primal, dual = Interval(self.primal, self.primal), Interval(self.dual, self.dual)
        return max(0.0, (primal / dual - 1.0).high) if self.primal > self.dual else 0.0

    def __repr__(self) -> str:
        return (
            f"Certificate(primal={self.primal!r}, dual={self.dual!r}, source={self.source!r}: "
            f"relative gap {self.relative_gap:.1e}"
            + (f"; {self.assumption})" if self.assumption else ")")
        )

    def __str__(self) -> str:
        return (
            f"primal {self.primal:.6g}, dual {self.dual:.6g}, "
            f"certified relative gap {self.relative_gap:.1e} ({self.source})"
            + (f"; {self.assumption}" if self.assumption else "")
        )


@dataclass(frozen=True)
class PrimalTerms:
    """What a primal value is made of."""

    half_norm: Interval  # 1/2 |w|^2
    loss: Interval  # sum_i C_i loss


@dataclass(frozen=True)
class DualTerms:
    """What a dual value is made of."""

    total: Interval  # sum alpha_i
    value: Interval  # the dual value but for 1/2 |w(alpha)|^2
    squared_norm: Interval  # |w(alpha)|^2


NO_TERMS = DualTerms(ZERO, ZERO, ZERO)

# Where nothing has been proven: any w is a solution of some value, and no objective is negative.
UNCERTIFIED = Certificate(float("inf"), 0.0, "dual-solver")


def total(certificates: Sequence[Certificate]) -> Certificate:
    """The certificate of a sum of independent problems."""
    if len(certificates) == 1:
        return certificates[0]
    worst: Source = max(
        (c.source for c in certificates), key=("solver", "repair", "dual-solver").index
    )
    primal = _sum([c.primal for c in certificates]).high
    dual = _sum([c.dual for c in certificates]).low
    rounding = sum(c.rounding for c in certificates)
    assumption = next((c.assumption for c in certificates if c.assumption), None)
    return Certificate(primal, dual, worst, rounding, assumption)


def _sum(values: Sequence[float]) -> Interval:
    return sum((Interval(value, value) for value in values), start=ZERO)


@dataclass(frozen=True)
class Record:
    """One line of a trace: the best primal and dual values known at that time.

    Examples
    --------
    >>> record = bridle.Record(
    ...     epoch=1.0, seconds_solver=0.1, seconds_certify=0.0, primal=4.0, dual=3.0
    ... )
    >>> round(record.relative_gap, 12)
    0.25
    """

    epoch: float
    seconds_solver: float
    seconds_certify: float
    primal: float
    dual: float
    step: int = 0
    primal_now: float = float("nan")  # of this iterate, which may be worse than the best
    validation: dict[str, float] = field(default_factory=dict)
    goal: float | None = None  # the relative gap that the run is to reach, if it has one

    @property
    def relative_gap(self) -> float:
        """(P - D) / P of the best values so far."""
        return Certificate(self.primal, self.dual).relative_gap

    def as_dict(self) -> dict[str, Any]:
        """All fields in one flat dictionary, validation scores by their own names."""
        row: dict[str, Any] = asdict(self)
        del row["goal"]
        validation: dict[str, Any] = row.pop("validation")
        return row | validation | {"relative_gap": self.relative_gap}


class Trace(Sequence[Record]):
    """What happened, record by record. Columns by name: trace["primal"].

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> trace = bridle.solve(problem).trace
    >>> trace[-1].relative_gap <= 1e-3, len(trace["primal"]) == len(trace)
    (True, True)
    """

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self._records = list(records)

    def append(self, record: Record) -> None:
        """Add a record."""
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return np.array([record.as_dict().get(key, np.nan) for record in self._records])
        if isinstance(key, slice):
            return Trace(self._records[key])
        return self._records[key]

    def as_dicts(self) -> list[dict[str, Any]]:
        """A list of plain dictionaries, for JSON or a data frame."""
        return [record.as_dict() for record in self._records]

    def plot(self, ax: Any = None) -> Any:
        """Draw the certified gap against seconds. Needs the `plot` extra."""
        import bridle  # the public face: pictures are floors above

        return bridle.plot_trace(self, ax=ax)

    def at(self, epoch: float) -> Record:
        """The newest record that is not later than this epoch, or else the first."""
        return self._records[max(0, bisect_right(self._records, epoch, key=_epoch) - 1)]

    def __repr__(self) -> str:
        if not self._records:
            return "Trace(empty)"
        last = self._records[-1]
        return f"Trace({len(self)} records, relative gap {last.relative_gap:.1e})"


def _epoch(record: Record) -> float:
    return record.epoch


def total_trace(traces: Sequence[Trace]) -> Trace:
    """The trace of a sum of independent problems: at each epoch, the sum of what was known of each.

    Seconds are summed too: they are work, which threads may have shared.
    """
    if len(traces) == 1:
        return traces[0]
    first = max(trace[0].epoch for trace in traces)
    epochs = sorted({record.epoch for trace in traces for record in trace if record.epoch >= first})
    summed = ("seconds_solver", "seconds_certify", "step", "primal_now")
    result = Trace()
    for epoch in epochs:
        parts = [trace.at(epoch) for trace in traces]
        sums: dict[str, Any] = {name: sum(getattr(p, name) for p in parts) for name in summed}
        primal, dual = (_sum([getattr(p, name) for p in parts]) for name in ("primal", "dual"))
        result.append(Record(epoch=epoch, primal=primal.high, dual=dual.low, **sums))
    return result
