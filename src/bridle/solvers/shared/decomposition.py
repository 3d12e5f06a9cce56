"""Decomposition by passes over whole arrays, wherever these are: on a GPU.

The same method as core/kernel/smo.hpp, for working sets of a thousand variables. What is done with
all rows is a pass over an array; the kernel rows of a set are one matrix product; the set itself
is solved inside one block of threads (rows/cuda/kernels.cu). This processor decides which kernel
rows are kept, and looks at nothing larger than a set until rows are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.rows.cuda.device import C_TYPES
from bridle.rows.cuda.gram import apply
from bridle.rows.cuda.products import BLOCKS, THREADS
from bridle.rows.cuda.ring import RowRing
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.rows.cuda.gram import DeviceKernelRows

Numbers = NDArray[np.intp]

MOST = 1024  # variables of a set, as in kernels.cu
SOLVING = 256  # threads that solve a set

GOAL = 0.1  # a set is solved until its violation is this part of what it was
SETS_BETWEEN_SHRINKING = 20
WORTH_IT = 0.75  # rows are left out if no more than this part of them stays

NONE = 1e300  # larger than any violation


@dataclass(frozen=True)
class Report:
    """How the work went; see SmoReport in the core."""

    steps: int
    dual: float
    gap: float
    n_active: int
    curvature: float
    stuck: bool


class Variables:
    """alpha, F = s - y, labels, upper bounds and K(x, x) of some rows, on the device."""

    def __init__(self, a: Any, f: Any, y: Any, cost: Any, diagonal: Any) -> None:
        self.a, self.f, self.y, self.cost, self.diagonal = a, f, y, cost, diagonal

    def take(self, rows: Any) -> Variables:
        """Those of the chosen rows, copies."""
        return Variables(*(v[rows] for v in (self.a, self.f, self.y, self.cost, self.diagonal)))

    def movable(self) -> tuple[Any, Any]:
        """Where alpha y may go up, and where it may go down."""
        positive, more, less = self.y > 0, self.a < self.cost, self.a > 0
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
        zeros = np.zeros(self.n_rows)
        self.all = Variables(
            put(alpha), put(zeros), put(np.copysign(1.0, signed_cost)), put(np.abs(signed_cost)),
            put(values.diagonal + constant),
        )  # fmt: skip
        self.dual, self.curvature = 0.0, NONE
        self.active, self.last_chosen = None, np.empty(0, np.intp)
        self._activate(None)
        self.refresh(scores)

    # What `smo` asks for.

    def run(self, n_sets: int) -> Report:
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
        return Report(
            steps, self.dual, gap, len(self.v.a), self.curvature, stuck or steps == 0
        )

    def alpha(self, out: Array) -> None:
        """The dual variables of all rows."""
        self._store()
        out[:] = self.device.get(self.all.a)

    def unshrink(self) -> None:
        """All rows again, the scores of those left out from what has changed since."""
        if self.active is None:
            return
        self._store()
        change = self.device.get(self.all.y * (self.all.a - self.known_alpha))
        scores = self.all.f + self.all.y
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
        every.f = scores - every.y
        self.dual = float((every.a * (1 - 0.5 * every.y * scores)).sum())
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
        self._take(self.place_of[self.last_chosen])

    def _shrink(self) -> None:
        """Leaves out the rows that rest at a bound and are in no violating pair."""
        self.sets_since_shrinking = 0
        stays = self.xp.flatnonzero(~self._at_rest())
        if len(stays) > WORTH_IT * len(self.v.a) or len(stays) < 2:
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
        slack = -v.y * (v.f + b)
        return (v.cost * xp.maximum(slack, 0.0) - v.a * slack).sum()

    def _numbers(self, *numbers: Any) -> Any:
        return self.xp.stack([self.xp.asarray(number, np.float64) for number in numbers])

    # A working set.

    def _choose(self) -> Numbers | None:
        """Positions of the worst violators and of those chosen last; None if there are none."""
        xp, v = self.xp, self.v
        keeps_last = self.set_size >= 4
        n_new = min(self.set_size // 2 if keeps_last else self.set_size, len(v.a))
        up, low = self._extremes()
        fresh = ~self.taken
        if self.free:
            rises, falls = v.movable()
            keys = [xp.where(rises & fresh, v.f, NONE), xp.where(falls & fresh, -v.f, NONE)]
            limits = low, -up
            n_new = max(1, n_new // 2)
        else:
            merit = self._projected() ** 2 / xp.maximum(v.diagonal, 1e-12)
            keys, limits = [xp.where(fresh & (merit > 0), -merit, NONE)], (xp.zeros(()),)
        best = [self._smallest(key, n_new) for key in keys]
        wanted = [key[b] < limit for key, b, limit in zip(keys, best, limits, strict=True)]
        violation = low - up
        largest = xp.abs(v.f).max()
        told = self.device.get(
            xp.concatenate([
                self._numbers(violation, largest), *(w.astype(np.float64) for w in wanted),
                *(b.astype(np.float64) for b in best),
            ])
        )  # fmt: skip
        violation, largest, told = told[0], told[1], told[2:].reshape(2, -1)
        new = np.unique(told[1][told[0] > 0].astype(np.intp))
        last = self.place_of[self.last_chosen] if keeps_last else np.empty(0, np.intp)
        chosen = np.concatenate([last[last >= 0], new])
        # What is left of a violation at the rounding of the gradient's sums is none.
        if violation <= 1e-14 * max(1.0, largest) or not len(chosen):
            return None
        self.last_chosen = self.row_of[new]
        self._take(new)
        return chosen

    def _take(self, positions: Numbers) -> None:
        """Marks those that are in the next set anyway."""
        self.taken = self.xp.zeros(len(self.row_of), bool)
        self.taken[self.device.put(positions[positions >= 0])] = True

    def _smallest(self, keys: Any, n: int) -> Any:
        """Where the n smallest of them are."""
        return self.xp.argpartition(keys, n - 1)[:n] if n < len(keys) else self.xp.arange(n)

    def _optimise(self, chosen: Numbers) -> Any:
        """Optimises over the set; F of all active rows follows. How it went, on the device."""
        xp, v, q = self.xp, self.v, len(chosen)
        places = self.ring.fetch(self.row_of[chosen], self._compute)
        at, places = self.device.put(chosen), self.device.put(places)
        K = self.ring.table[places[:, None], at[None]]
        set_ = v.take(at)
        K[xp.arange(q), xp.arange(q)] = set_.diagonal
        change, report = xp.empty(q), xp.empty(3)
        solve = self._kernel("solve_pairs" if self.free else "solve_singles")
        solve((1,), (SOLVING,), (
            K, np.int32(q), set_.a, set_.f, xp.copysign(set_.cost, set_.y), GOAL, 100 * q, change,
            report,
        ))  # fmt: skip
        v.a[at] = set_.a
        add = self._kernel("add_rows")
        add((min(BLOCKS, -(-len(v.a) // THREADS)),), (THREADS,), (
            self.ring.table, len(v.a), places, change, np.int32(q), v.f,
        ))  # fmt: skip
        return report

    def _compute(self, rows: Numbers, out: Any) -> None:
        """The kernel rows of these rows at the active columns."""
        at = self.device.put(rows)
        group = max(1, 2**27 // self.matrix.n_features)
        for begin in range(0, len(rows), group):
            part = at[begin : begin + group]
            values = out[begin : begin + len(part)]
            centres = self.values.matrix.dense(part, out.dtype)
            self.matrix.products(centres, slice(0, len(self.v.a)), values)
            apply(
                self.device, self.kernel, values, self.values.norms[part], self.norms,
                self.constant,
            )  # fmt: skip

    def _kernel(self, name: str) -> Any:
        return self.device.kernel("kernels", name, VALUE=self.C_type)
