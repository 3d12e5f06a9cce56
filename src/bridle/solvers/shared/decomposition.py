"""Decomposition by passes over whole arrays, wherever these are: on a GPU.

The same method as core/kernel/smo.hpp, for working sets of a thousand variables. What is done with
all rows is a pass over an array; the kernel rows of a set are one matrix product; the set itself
is solved inside one block of threads (rows/cuda/kernels.cu). This processor decides which kernel
rows are kept, and looks at nothing larger than a set until rows are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.rows.cuda.device import C_TYPES
from bridle.rows.cuda.gram import DeviceKernelRows, apply
from bridle.rows.cuda.products import THREADS, WIDE, blocks
from bridle.rows.cuda.ring import RowRing
from numpy.typing import NDArray

Numbers = NDArray[np.intp]

MOST = 1024  # variables of a set, as in kernels.cu
SOLVING = 256  # threads that solve a set, of 4 variables each

GOAL = 0.1  # a set is solved until its violation is this part of what it was
SETS_BETWEEN_SHRINKING = 20
WORTH_IT = 0.75  # rows are left out if no more than this part of them stays

# Violators are looked for in pieces of the rows, about so many, of no more rows than kernels.cu
# has room for; the share of each is so many times as large as if all had the same number.
PIECES, WIDTH, SPARE = 128, 4096, 4

NONE = 1e300  # larger than any violation


@dataclass(frozen=True)
class SetsReport:
    """How the work went; see SmoReport in the core."""

    steps: int
    dual: float
    gap: float
    n_active: int
    curvature: float
    stuck: bool


class Variables:
    """alpha, F = s - y, upper bounds with the signs of y, and K(x, x) of rows on the device."""

    def __init__(self, a: Any, f: Any, bound: Any, diagonal: Any) -> None:
        self.a, self.f, self.bound, self.diagonal = a, f, bound, diagonal

    def __len__(self) -> int:
        return len(self.a)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.a, self.f, self.bound, self.diagonal))

    def take(self, rows: Any) -> Variables:
        """Those of the chosen rows, copies."""
        return Variables(*(values[rows] for values in self))

    def movable(self) -> tuple[Any, Any]:
        """Where alpha y may go up, and where it may go down."""
        positive, less = self.bound > 0, self.a > 0
        more = self.a < abs(self.bound)
        return (positive & more) | (~positive & less), (positive & less) | (~positive & more)


class Decomposition:
    """The steps of `smo` on a device; used as the core's `_core.steps.smo`."""

    def __init__(
        self,
        values: DeviceKernelRows,
        constant: float,
        signed_cost: Array,
        alpha: Array,
        scores: Array,
        free: bool,
        set_size: int,
        cache_bytes: int,
    ) -> None:
        self.values, self.constant, self.free = values, constant, free
        self.device = values.device
        self.xp, put = self.device.xp, self.device.put
        self.n_rows, dtype = len(alpha), values.matrix.dtype
        self.ring = RowRing(self.device, dtype, self.n_rows, cache_bytes // dtype.itemsize)
        fits = len(self.ring.values) // self.n_rows
        self.set_size = max(2, min(set_size, MOST, fits, self.n_rows))
        self.kernel = values.kernel
        self.C_type = C_TYPES[dtype.str[1:]]
        self.all = Variables(
            put(alpha), put(np.zeros(self.n_rows)), put(signed_cost),
            put(values.diagonal + constant),
        )  # fmt: skip
        self.y = self.xp.copysign(1.0, self.all.bound)
        self.dual, self.curvature = 0.0, NONE
        self.active: Any = None
        self.last_chosen = np.empty(0, np.intp)
        self._activate(None)
        self.refresh(scores)

    # What `smo` asks for.

    def run(self, n_sets: int) -> SetsReport:
        """Optimise so many working sets."""
        reports = []
        stuck = False
        for _ in range(n_sets):
            self.sets_since_shrinking += 1
            if self.sets_since_shrinking >= SETS_BETWEEN_SHRINKING:
                self._shrink()
            chosen = self._choose()
            if chosen is None:
                stuck = True
                break
            reports.append(self._optimise(chosen))
        up, low = self._extremes()
        # One copy, and so one wait, for all of it.
        told = self.device.get(self.xp.stack([*reports, self._numbers(self._gap(up, low), 0, 0)]))
        gap, told = float(told[-1, 0]), told[:-1]
        self.dual += float(told[:, 1].sum())
        self.curvature = min(self.curvature, told[:, 2].min(initial=NONE))
        steps = int(told[:, 0].sum())
        return SetsReport(steps, self.dual, gap, len(self.v), self.curvature, stuck or steps == 0)

    def alpha(self, out: Array) -> None:
        """The dual variables of all rows."""
        self._store()
        out[:] = self.device.get(self.all.a)

    def unshrink(self) -> None:
        """All rows again, the scores of those left out from what has changed since."""
        if self.active is None:
            return
        self._store()
        change = self.device.get(self.y * (self.all.a - self.known_alpha))
        scores = self.all.f + self.y
        outside = self.xp.ones(self.n_rows, bool)
        outside[self.active] = False
        rows = self.xp.flatnonzero(outside)
        scores[rows] = self.known_scores[rows] + self.values.sums(change, rows)
        scores[rows] += self.constant * float(change.sum())
        self._refresh(scores)

    def refresh(self, scores: Array) -> None:
        """Takes over exact scores of the present alpha, and looks at all rows again."""
        self._store()
        self._refresh(self.device.put(scores))

    # The rows at work.

    def _refresh(self, scores: Any) -> None:
        every = self.all
        self.known_alpha, self.known_scores = every.a.copy(), scores
        every.f = scores - self.y
        self.dual = float((every.a * (1 - 0.5 * self.y * scores)).sum())
        if self.active is not None:
            self._activate(None)
        self._shrink()

    def _store(self) -> None:
        if self.active is not None:
            self.all.a[self.active], self.all.f[self.active] = self.v.a, self.v.f

    def _activate(self, rows: Any) -> None:
        """Makes these rows the active ones, which are some of those active now; None: all."""
        self.active, values = rows, self.values
        if rows is None:
            self.v, self.matrix, self.norms = self.all, values.matrix, values.norms
            self.row_of = np.arange(self.n_rows)
            if self.ring.width != self.n_rows:
                self.ring.clear(self.n_rows)
        else:
            self.v = self.all.take(rows)
            self.matrix, self.norms = values.matrix.take(rows), values.norms[rows]
            self.row_of = self.device.get(rows)
        self.place_of = np.full(self.n_rows, -1)
        self.place_of[self.row_of] = np.arange(len(self.row_of))

    def _shrink(self) -> None:
        """Leaves out the rows that rest at a bound and are in no violating pair."""
        self.sets_since_shrinking = 0
        stays = self.xp.flatnonzero(~self._at_rest())
        if len(stays) > WORTH_IT * len(self.v) or len(stays) < 2:
            return
        self._store()
        rows = stays if self.active is None else self.active[stays]
        self.ring.keep(stays, self.device.get(rows))
        self._activate(rows)

    def _at_rest(self) -> Any:
        up, low = self._extremes()
        v = self.v
        rises, falls = v.movable()
        if self.free:
            return (~rises | (v.f > low)) & (~falls | (v.f < up))
        return ~(rises & falls) & (self._projected() == 0) & (self.xp.abs(v.f) > low)

    # The optimality conditions.

    def _projected(self) -> Any:
        """Without a free bias: F, where the box lets the variable follow it."""
        v = self.v
        rises, falls = v.movable()
        return self.xp.where(((v.f < 0) & rises) | ((v.f > 0) & falls), v.f, 0.0)

    def _extremes(self) -> tuple[Any, Any]:
        """The least F that may go up and the largest that may go down; or 0 and the worst."""
        xp, v = self.xp, self.v
        if not self.free:
            return xp.zeros(()), xp.abs(self._projected()).max()
        rises, falls = v.movable()
        return xp.where(rises, v.f, NONE).min(), xp.where(falls, v.f, -NONE).max()

    def _gap(self, up: Any, low: Any) -> Any:
        """On the active rows, by the gradient at hand; b is halfway between the extremes."""
        xp, v = self.xp, self.v
        b = xp.zeros(())
        if self.free:
            b = xp.where((up < NONE) & (low > -NONE), -0.5 * (up + low), 0.0)
        slack = -xp.copysign(1.0, v.bound) * (v.f + b)
        return (abs(v.bound) * xp.maximum(slack, 0.0) - v.a * slack).sum()

    def _numbers(self, *numbers: Any) -> Any:
        return self.xp.stack([self.xp.asarray(number, np.float64) for number in numbers])

    # A working set.

    def _choose(self) -> Numbers | None:
        """Positions of the worst violators and of those chosen last; None if there are none."""
        keeps_last = self.set_size >= 4
        n_new = self.set_size // 2 if keeps_last else self.set_size
        n_new = max(1, n_new // 2) if self.free else n_new
        keys, positions, least, largest = self._candidates(n_new)
        # A pair violates if F of the one that may rise is below that of the one that may fall.
        limits = -least[::-1] if self.free else np.zeros(1)
        violation = limits[0] - least[0]
        if not self.free:  # the squares of F / |phi(x)|
            violation = np.sqrt(violation)
        # What is left of a violation at the rounding of the gradient's sums is none.
        if violation <= 1e-14 * max(1.0, largest):
            return None
        best = []
        for some, where, limit in zip(keys, positions, limits, strict=True):
            order = np.argsort(some, kind="stable")[:n_new]
            best.append(where[order[some[order] < limit]])
        new = np.unique(np.concatenate(best))
        last = self.place_of[self.last_chosen] if keeps_last else new[:0]
        self.last_chosen = self.row_of[new]
        return np.concatenate([last[last >= 0], new])

    def _candidates(self, n: int) -> tuple[Array, Numbers, Array, float]:
        """Keys and positions of the worst violators, the least key of each kind, the largest F.

        They are the n worst of each kind, unless one piece of the rows has many more of them than
        the others.
        """
        n_rows, kinds = len(self.v), 2 if self.free else 1
        width = min(WIDTH, max(32, -(-n_rows // PIECES)))
        pieces = -(-n_rows // width)
        m = min(width, -(-SPARE * n // pieces))
        out = self.xp.empty((kinds, pieces, 2 * m + 2))
        taken = self.place_of[self.last_chosen]
        taken = taken[taken >= 0] if self.set_size >= 4 else taken[:0]
        self._kernel("candidates")((kinds * pieces,), (128,), (
            *self.v, n_rows, self.device.put(taken), np.int32(len(taken)), np.int32(self.free),
            width, np.int32(m), out,
        ))  # fmt: skip
        told = self.device.get(out)
        return (
            told[:, :, :m].reshape(kinds, -1), told[:, :, m : 2 * m].reshape(kinds, -1).astype(int),
            told[:, :, 2 * m].min(axis=1), float(told[:, :, 2 * m + 1].max()),
        )  # fmt: skip

    def _optimise(self, chosen: Numbers) -> Any:
        """Optimises over the set; F of all active rows follows. How it went, on the device."""
        xp, v, q = self.xp, self.v, np.int32(len(chosen))
        places = self.ring.fetch(self.row_of[chosen], self._compute)
        at, places = self.device.put(np.stack([chosen, places]))
        K = self.ring.gather(places, at)
        change, report = xp.empty(len(chosen)), xp.empty(3)
        self._kernel("solve_pairs" if self.free else "solve_singles")((1,), (SOLVING,), (
            K, q, at, *v, GOAL, 100 * len(chosen), change, report,
        ))  # fmt: skip
        self._kernel("add_rows")((blocks(self.device),), (THREADS,), (
            self.ring.table, len(v), places, change, q, v.f,
        ))  # fmt: skip
        return report

    def _compute(self, rows: Numbers, out: Any) -> None:
        """The kernel rows of these rows at the active columns."""
        at = self.device.put(rows)
        group = max(1, WIDE // self.matrix.n_features)
        for begin in range(0, len(rows), group):
            part = at[begin : begin + group]
            values = out[begin : begin + len(part)]
            centres = self.values.matrix.dense(part, out.dtype)
            self.matrix.products(centres, slice(0, len(self.v)), values)
            apply(
                self.device, self.kernel, values, self.values.norms[part], self.norms,
                self.constant,
            )  # fmt: skip

    def _kernel(self, name: str) -> Any:
        return self.device.kernel("kernels", name, VALUE=self.C_type)
