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


@dataclass(frozen=True)
class Candidates:
    """The worst violators of each kind, by their keys (see kernels.cu), and the extremes.

    With a free bias, up is the least F that may rise and low the largest that may fall; else up is
    0 and no |F| that violates is above low.
    """

    keys: Array
    positions: NDArray[np.intp]
    up: float
    low: float
    largest: float  # |F|


class Variables:
    """alpha, F = s - y, upper bounds with the signs of y, and K(x, x) of rows on the device."""

    def __init__(self, a: Any, f: Any, bound: Any, diagonal: Any) -> None:
        self.a, self.f, self.bound, self.diagonal = a, f, bound, diagonal

    def __len__(self) -> int:
        return len(self.a)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.a, self.f, self.bound, self.diagonal))

    @property
    def state(self) -> tuple[Any, Any, Any]:
        """Without K(x, x)."""
        return self.a, self.f, self.bound

    def take(self, rows: Any) -> Variables:
        """Those of the chosen rows, copies."""
        return Variables(*(values[rows] for values in self))


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
        self.keeps_last = self.set_size >= 4
        self.n_new = self.set_size // 2 if self.keeps_last else self.set_size
        self.n_new = max(1, self.n_new // 2) if free else self.n_new
        self.kernel = values.kernel
        self.C_type = C_TYPES[dtype.str[1:]]
        self.all = Variables(
            put(alpha), put(np.zeros(self.n_rows)), put(signed_cost),
            put(values.diagonal + constant),
        )  # fmt: skip
        self.y = self.xp.copysign(1.0, self.all.bound)
        self.largest_diagonal = float(values.diagonal.max()) + constant
        self.dual, self.curvature = 0.0, NONE
        self.active: Any = None
        self.last_chosen = np.empty(0, np.intp)
        self.looked: Candidates | None = None
        self._activate(None)
        self.refresh(scores)

    # What `smo` asks for.

    def run(self, n_sets: int) -> SetsReport:
        """Optimise so many working sets."""
        reports = []
        for _ in range(n_sets):
            self.sets_since_shrinking += 1
            if self.sets_since_shrinking >= SETS_BETWEEN_SHRINKING:
                self._shrink()
            chosen = self._choose()
            if chosen is None:
                break
            reports.append(self._optimise(chosen))
        stuck = len(reports) < n_sets
        steps = 0
        if reports:
            told = self.device.get(self.xp.stack(reports))
            self.dual += float(told[:, 1].sum())
            self.curvature = min(self.curvature, told[:, 2].min())
            steps, stuck = int(told[:, 0].sum()), stuck or bool(told[-1, 3] == 0)
        return SetsReport(steps, self.dual, self._gap(), len(self.v), self.curvature, stuck)

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
        every.f, self.looked = scores - self.y, None
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
        look, stays = self._look(), self.xp.empty(len(self.v), bool)
        self._kernel("at_work")((blocks(self.device),), (THREADS,), (
            *self.v.state, len(self.v), np.int32(self.free), look.up, look.low, stays,
        ))  # fmt: skip
        stays = self.xp.flatnonzero(stays)
        if len(stays) > WORTH_IT * len(self.v) or len(stays) < 2:
            return
        self._store()
        rows = stays if self.active is None else self.active[stays]
        self.ring.keep(stays, self.device.get(rows))
        self._activate(rows)
        self.looked = None

    # The optimality conditions.

    def _gap(self) -> float:
        """On the active rows, by the gradient at hand; b is halfway between the extremes."""
        look = self._look()
        b = 0.0
        if self.free and look.up < NONE and look.low > -NONE:
            b = -0.5 * (look.up + look.low)
        out = self.xp.empty(blocks(self.device))
        self._kernel("gap")((len(out),), (THREADS,), (*self.v.state, len(self.v), b, out))
        return float(self.device.get(out).sum())

    def _look(self) -> Candidates:
        """At all active rows, unless nothing has changed since the last one."""
        if self.looked is None:
            self.looked = self._candidates()
        return self.looked

    def _candidates(self) -> Candidates:
        """A look; it misses bad violators where one piece of the rows has many more than others."""
        n_rows, kinds = len(self.v), 2 if self.free else 1
        width = min(WIDTH, max(32, -(-n_rows // PIECES)))
        pieces = -(-n_rows // width)
        m = min(width, -(-SPARE * self.n_new // pieces))
        out = self.xp.empty((kinds, pieces, 2 * m + 2))
        taken = self.place_of[self.last_chosen]
        taken = taken[taken >= 0]
        self._kernel("candidates")((kinds * pieces,), (128,), (
            *self.v, n_rows, self.device.put(taken), np.int32(len(taken)), np.int32(self.free),
            width, np.int32(m), out,
        ))  # fmt: skip
        told = self.device.get(out)
        keys, least = told[:, :, :m].reshape(kinds, -1), told[:, :, 2 * m].min(axis=1)
        positions = told[:, :, m : 2 * m].reshape(kinds, -1)
        up, low = 0.0, np.sqrt(max(0.0, -least[0]) * self.largest_diagonal)
        if self.free:
            up, low = least[0], -least[1]
        return Candidates(keys, positions.astype(np.intp), up, low, told[:, :, 2 * m + 1].max())

    # A working set.

    def _choose(self) -> Numbers | None:
        """Positions of the worst violators and of those chosen last; None if there are none."""
        look = self._look()
        # What is left of a violation at the rounding of the gradient's sums is none.
        if look.low - look.up <= 1e-14 * max(1.0, look.largest):
            return None
        # A pair violates if F of the one that may rise is below that of the one that may fall.
        limits = (look.low, -look.up) if self.free else (0.0,)
        best = []
        for keys, positions, limit in zip(look.keys, look.positions, limits, strict=True):
            if self.n_new < len(keys):
                order = np.argpartition(keys, self.n_new - 1)[: self.n_new]
                keys, positions = keys[order], positions[order]  # noqa: PLW2901
            best.append(positions[keys < limit])
        new = np.unique(np.concatenate(best))
        last = self.place_of[self.last_chosen]
        if self.keeps_last:
            self.last_chosen = self.row_of[new]
        return np.concatenate([last[last >= 0], new])

    def _optimise(self, chosen: Numbers) -> Any:
        """Optimises over the set; F of all active rows follows. How it went, on the device."""
        xp, v, q = self.xp, self.v, np.int32(len(chosen))
        places = self.ring.fetch(self.row_of[chosen], self._compute)
        at, places = self.device.put(np.stack([chosen, places]))
        K = self.ring.gather(places, at)
        moved, change, report = xp.empty(len(chosen), np.int32), xp.empty(len(chosen)), xp.empty(4)
        self._kernel("solve_pairs" if self.free else "solve_singles")((1,), (SOLVING,), (
            K, q, at, *v, GOAL, 100 * len(chosen), moved, change, report,
        ))  # fmt: skip
        self._kernel("add_rows")((blocks(self.device),), (THREADS,), (
            self.ring.table, len(v), places, moved, change, report, v.f,
        ))  # fmt: skip
        self.looked = None
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
