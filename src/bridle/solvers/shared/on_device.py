"""Dual coordinate descent on a GPU: thousands of rows take their steps at once.

Steps of rows that share features get in each other's way: each is exact for the weights that it has
seen, which lack the steps of the others. What a pass should have gained, were they alone, is summed
as it goes; what it has gained is the rise of the dual value. The ratio says how much they collide.
Where it is low, fewer rows take their steps at once, and each more carefully: with curvatures as if
the others moved the same features the same way (Richtarik & Takac, "Parallel coordinate descent
methods for big data optimization", 2016). A pass after which the dual value has not risen is taken
back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.rows.cuda.resident import ResidentVector
from bridle.rows.cuda.rows import BLOCKS, NULL, THREADS
from bridle.solvers.base import Iterates
from bridle.solvers.shared.gap_estimates import ByVisits

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem

BLOCKS_EACH = 4  # of THREADS threads, on every multiprocessor: as many rows as it takes at once
CHUNK = 64  # neighbouring rows that one group of threads visits in turn
AT_ONCE = 200_000  # rows to visit before the dual value is looked at, and no more than so often:
PASSES = 8

# Of what passes should have gained: less than the first is too little; more than the second, for
# a while, is enough to have more rows in flight.
LITTLE, ENOUGH = 0.3, 0.8

NAMES = ("gap", "gradients", "moved", "inside", "gain", "visits", "rested")


@dataclass
class DeviceBias:
    """The bias, held near a centre: see core/linear/proximal_bias.hpp."""

    precision: float  # 0 for a free bias, infinite for none
    centre: float
    sigma: float = 1.0
    balance: float = 0.0  # sum alpha_i y_i

    @property
    def present(self) -> bool:
        """Whether there is one."""
        return math.isfinite(self.precision)

    @property
    def response(self) -> float:
        """db / d balance."""
        return 1.0 / (self.precision + 1.0 / self.sigma) if self.present else 0.0

    @property
    def pull(self) -> float:
        """What the centre adds to the balance."""
        return self.centre / self.sigma if self.present else 0.0

    @property
    def value(self) -> float:
        """b."""
        return self.response * (self.balance + self.pull)

    @property
    def held_dual(self) -> float:
        """Its part of the dual whose bias is held near the centre: what steps make rise."""
        return -0.5 * self.response * (self.balance + self.pull) ** 2

    @property
    def gap(self) -> float:
        """What b costs for not being balance / precision; a free bias has no such price."""
        if not self.present or self.precision == 0:
            return 0.0
        return 0.5 * self.precision * (self.value - self.balance / self.precision) ** 2

    @property
    def dual(self) -> float:
        """Its part of the dual."""
        return -0.5 * self.balance**2 / self.precision if 0 < self.precision < math.inf else 0.0

    def start(self, sigma: float) -> None:
        """At the given value whatever the balance is."""
        self.sigma = sigma
        if self.present:
            self.centre = sigma * (self.centre / self.response - self.balance)

    def recentre(self, sigma: float) -> None:
        """The centre goes to b."""
        self.centre, self.sigma = self.value, sigma


@dataclass
class DevicePace:
    """How many rows take their steps at once, and how carefully: by how much they collide."""

    most: int  # groups of threads
    level: int = 0
    patience: int = 4  # passes without trouble before the next attempt at more
    calm: int = 0  # such passes

    CAREFUL: ClassVar[int] = 5  # the level from which on rows mind each other

    @property
    def groups(self) -> int:
        """Rows in flight."""
        return max(1, self.most >> self.level)

    @property
    def caution(self) -> float:
        """How many of the others count in a row's curvature."""
        if self.level < self.CAREFUL:
            return 0.0
        return min(1.0, 2.0 ** (self.level - self.CAREFUL - 3)) * (self.groups - 1)

    def slow_down(self) -> None:
        """Steps have collided."""
        self.level, self.calm = self.level + 1, 0
        self.patience = min(64, 2 * self.patience)

    def learn(self, gained: float) -> None:
        """What part of what passes should have gained they have."""
        if gained < LITTLE:
            self.slow_down()
        elif gained > ENOUGH:
            self.calm += 1
            if self.calm >= self.patience and self.level > 0:
                self.level, self.calm = self.level - 1, 0

    @property
    def alone(self) -> bool:
        """Whether one row takes its step at a time."""
        return self.groups == 1


@dataclass(frozen=True)
class _Epoch:
    """What a pass saw and did."""

    visits: int
    gap: float
    dual: float
    whole: bool


@dataclass
class _Work:
    """Some rows on the device, and the order in which their chunks are visited."""

    part: Any
    where: slice
    active: Any
    n: int
    chunk: int = 1
    n_chunks: int = 1
    factor: int = 1
    shift: int = 0

    @property
    def order(self) -> tuple[int, ...]:
        """As the kernel takes it."""
        return self.n, self.chunk, self.n_chunks, self.factor, self.shift


@dataclass
class _Kept:
    """A point to go back to, and the rows in play there."""

    alpha: Any
    w: Any
    sums: Any
    resting: Any
    n_active: int
    dual_parts: tuple[float, float, float]
    held_dual: float


class _Report:
    """One buffer for all that launches count and say, so that it is fetched at once."""

    def __init__(self, xp: Any, n_passes: int, n_launches: int, blocks: int) -> None:
        self.n_passes, self.size = n_passes, len(NAMES) * blocks
        self._values = xp.zeros(1 + n_launches + n_passes * self.size + 3 * BLOCKS)
        self.change = self._values[:1]  # of sum alpha_i y_i
        self.tickets = iter(self._values[1 : 1 + n_launches, None].view(np.uint64))
        self._seen = 1 + n_launches
        self.blocks = blocks

    def seen(self, k: int) -> Any:
        """What blocks see in pass k."""
        begin = self._seen + k * self.size
        return self._values[begin : begin + self.size]

    @property
    def dual_parts(self) -> Any:
        """The parts of the dual value, by blocks."""
        return self._values[-3 * BLOCKS :]

    def fetch(self, device: Any) -> tuple[list[dict[str, float]], tuple[float, ...]]:
        """What each pass saw, and the parts of the dual value."""
        values = device.get(self._values)
        with np.errstate(all="ignore"):  # what has diverged is taken back
            sums = values[self._seen : -3 * BLOCKS].reshape(-1, self.blocks).sum(axis=1).tolist()
            dual = values[-3 * BLOCKS :].reshape(3, BLOCKS).sum(axis=1).tolist()
        n = len(NAMES)
        passes = [sums[k * n : (k + 1) * n] for k in range(self.n_passes)]
        return [dict(zip(NAMES, each, strict=True)) for each in passes], tuple(dual)


@dataclass
class DeviceDescent:
    """The dual point on the device, and passes of coordinate ascent over it."""

    problem: LinearProblem
    start: Any
    asynchronous: bool
    alpha: Any = field(init=False)
    w: Any = field(init=False)
    bias: DeviceBias = field(init=False)
    pace: DevicePace = field(init=False)
    shrink_beyond: float = math.inf
    n_active: int = field(init=False)  # rows that do not rest
    n_listed: int = field(init=False)  # rows that passes look at, of which some may rest

    def __post_init__(self) -> None:
        sides = self.sides = self.problem.sides
        self.rows, self.device = sides.rows, sides.device
        xp, n = self.device.xp, self.rows.n_rows
        started = sides.start_alpha(self.start)
        self.warm = self.start is not None and bool(self.device.get(started.any()))
        self.alpha = started.astype(self.rows.dtype)
        self.w = xp.zeros(self.rows.n_features + 1, self.rows.dtype)
        self.crowd: Any = None
        self.constant_squared = self.rows.constant**2
        self.mean_norm = max(0.0, self.rows.mean_norm - self.constant_squared)
        self.mean_cost = sides.total_cost().middle / n
        self._set_useful()
        self.bias = DeviceBias(
            sides.bias_precision, 0.0 if self.start is None else float(self.start.b)
        )
        self.sums: Any = None
        self.quantum = 0.0
        if not self.asynchronous:
            self._freeze()
        self._set_dual((0.0, 0.0, 0.0))
        if self.warm:
            self._set_weights(started)
        self.bias.start(self.sigma(n // 10))
        self._set_pace()
        before = self._rows_before()
        self.stochastic = not self.warm and 0 < before < math.inf

    def _set_useful(self) -> None:
        """Rows that cost nothing always rest."""
        xp = self.device.xp
        self.idle: Any = np.uint8(0)
        self.n_useful = self.rows.n_rows
        if self.sides.weighted:
            useless = self.sides.sample_weight == 0
            self.idle = self.device.put(useless.astype(np.uint8))
            self.n_useful -= int(np.count_nonzero(useless))
        self.resting = xp.zeros(self.rows.n_rows, np.uint8)
        self.unshrink()

    def _set_pace(self) -> None:
        """Groups that the device runs at once, and no more than a part of the rows."""
        self.lanes = self.rows.lanes
        self.most = max(1, BLOCKS_EACH * self.device.multiprocessors * THREADS // self.lanes)
        if not self.asynchronous:  # all of a round see the same weights
            self.pace = DevicePace(max(1, self.n_useful // 16), level=2)
            return
        # A bias answers all rows: few may be in flight at once.
        groups = max(1, min(self.most, self.n_useful // (64 if self.bias.present else 32)))
        # Where costs are large, so are steps, and the more they collide.
        reach = 16.0 * self.mean_cost * self.mean_norm
        level = math.ceil(0.5 * math.log2(reach)) if 1 < reach < math.inf else 0
        self.pace = DevicePace(groups, level=min(level, 4))

    def _rows_before(self) -> float:
        return float(2.0 * self.mean_cost * self.mean_norm * self.n_useful)

    def sigma(self, n_inside: int) -> float:
        """How far the bias follows: see proximal_sigma in core/linear/proximal_bias.hpp."""
        norm = self.mean_norm or 1.0
        firmness = 30.0 * math.sqrt(max(1.0, 1.0 / (self.mean_cost * norm)))
        return norm * min(1.0, firmness / max(1, n_inside))

    def _freeze(self) -> None:
        """Fixed-point sums: of weights far beyond any that a dual value above 0 allows."""
        reach = 1024.0 * math.sqrt(self.sides.squared_radius() + 1.0)
        reach = max(reach, 4.0 * self.sides.total_cost().high)
        self.quantum = math.ldexp(1.0, math.frexp(reach)[1] - 62)
        self.sums = self.device.xp.zeros(self.rows.n_features + 1, np.uint64)

    def _set_weights(self, alpha: Any) -> None:
        combined = self.rows.combine(alpha * self.sides.signs)
        self.w = self.device.put(combined.astype(self.rows.dtype))
        if self.sums is not None:
            fixed = np.rint(np.append(combined[:-1], 0.0) / self.quantum)
            self.sums = self.device.put(fixed.astype(np.int64).view(np.uint64))
        report = _Report(self.device.xp, 0, 0, 1)
        self._sum_up(report)
        self._set_dual(report.fetch(self.device)[1])

    # The rows in play.

    def unshrink(self) -> None:
        """All rows are visited again."""
        self.resting[...] = self.idle
        self.active: Any = None
        self.n_active = self.n_listed = self.n_useful

    @property
    def whole(self) -> bool:
        """Whether no row rests that costs something."""
        return bool(self.n_active == self.n_useful)

    def _drop_resting(self) -> None:
        """Rows that came to rest leave the list, once they are a part of it that matters."""
        if self.n_active > 0.8 * self.n_listed:
            return
        active = self.device.xp.flatnonzero(self.resting == 0)
        self.active = active.astype(np.int64, copy=False)
        self.n_active = self.n_listed = int(active.size)

    # Passes.

    def epoch(self, rng: _core.Rng) -> _Epoch:
        """A pass over the active rows that made the dual value rise, or none was found."""
        while True:
            done = self._try(rng)
            if done is not None:
                return done

    def _try(self, rng: _core.Rng) -> _Epoch | None:
        kept, first, whole = self._keep(), self.stochastic, self.whole
        passes, dual_parts = self._passes(rng, first)
        self._set_dual(dual_parts)
        self.stochastic = False
        gained = self.held_dual - kept.held_dual
        noise = 8.0 * float(np.finfo(self.rows.dtype).eps) * (abs(self.separable) + self.squared)
        if not gained >= -noise and not self.pace.alone:
            self._step_back(kept)
            return None
        # The first pass is another one; what is said of the rows is what the last one saw.
        expected = 0.0 if first else sum(seen["gain"] for seen in passes)
        if expected > 0 and abs(gained) > noise:
            self.pace.learn(gained / expected)
        last, visits = passes[-1], sum(seen["visits"] for seen in passes)
        motion = math.sqrt(last["gradients"] / last["moved"]) if last["moved"] else math.inf
        self.shrink_beyond = motion
        if first:
            last = passes[0]
        gap = self._gap(last, first)
        self.bias.recentre(self.sigma(int(last["inside"])))
        done = _Epoch(int(visits), gap, self.dual, whole)
        self.n_active -= int(sum(seen["rested"] for seen in passes))
        return done

    def _gap(self, seen: dict[str, float], first: bool) -> float:
        """P - D as the visits saw it; the first epoch counts its second half."""
        if not first:
            return seen["gap"] + self.bias.gap
        loss = 2.0 * seen["gap"]
        if self.bias.present:
            return loss
        return max(0.0, loss + 0.5 * self.squared - self.dual)

    def _keep(self) -> _Kept:
        sums = None if self.sums is None else self.sums.copy()
        return _Kept(
            self.alpha.copy(), self.w.copy(), sums, self.resting.copy(), self.n_active,
            self.dual_parts, self.held_dual,
        )  # fmt: skip

    def _step_back(self, kept: _Kept) -> None:
        self.alpha, self.w, self.sums = kept.alpha, kept.w, kept.sums
        self.resting, self.n_active = kept.resting, kept.n_active
        self._set_dual(kept.dual_parts)
        self.pace.slow_down()

    def _set_dual(self, parts: tuple[float, ...]) -> None:
        self.separable, balance, self.squared = parts
        self.dual_parts = (self.separable, balance, self.squared)
        if self.bias.present:
            self.bias.balance = balance

    @property
    def held_dual(self) -> float:
        """The dual value where the bias is held near its centre: what steps make rise."""
        return self.separable - 0.5 * self.squared + self.bias.held_dual

    @property
    def dual(self) -> float:
        """D(alpha), by the running weights."""
        return self.separable - 0.5 * self.squared + self.bias.dual

    def _sum_up(self, report: _Report) -> None:
        """The parts of the dual value, from alpha and w as they are."""
        kernel = self.device.kernel("descent", "dual_parts", **self._types(), **self.sides.macros)
        kernel((BLOCKS,), (THREADS,), (
            *self.sides.arguments, self.rows.n_rows, self.alpha,
            self.rows.n_features, self.w, report.dual_parts,
        ))  # fmt: skip

    def _types(self) -> dict[str, Any]:
        return {"VALUE": "float" if self.rows.dtype == np.float32 else "double"}

    def _passes(
        self, rng: _core.Rng, first: bool
    ) -> tuple[list[dict[str, float]], tuple[float, ...]]:
        """A visit to each active row, several if those are few; then the dual value.

        The stochastic epoch is followed by a visit to an eighth of the rows, its second pass.
        """
        self._drop_resting()
        if self.sums is not None:
            self.sums[-1] = 0
        if self.pace.caution and self.crowd is None:
            self.crowd = self.rows.crowding()
        n_passes = 2
        if not first:
            most = PASSES // 2 if self.bias.present else PASSES
            n_passes = max(1, min(most, AT_ONCE // max(1, self.n_active)))
        launches = n_passes * self.rows.n_parts if self.asynchronous else 0
        self.blocks, self.threads = self._grid()
        report = _Report(self.device.xp, n_passes, launches, self.blocks)
        for k in range(1 if first else n_passes):
            rows_seen = 0
            for part, where, active, n in self._visits(rng):
                if n:
                    work = _Work(part, where, active, n)
                    self._visit(work, rng, rows_seen if first else None, report, k)
                rows_seen += n
        self._sum_up(report)
        return report.fetch(self.device)

    def _grid(self) -> tuple[int, int]:
        """Blocks and their threads: few groups are spread over all multiprocessors."""
        n = (self.pace.groups if self.asynchronous else self.most) * self.lanes
        each = -(-n // self.device.multiprocessors)
        threads = min(THREADS, max(32, -(-each // 32) * 32))
        return max(1, -(-n // threads)), threads

    def _visits(self, rng: _core.Rng) -> Iterator[tuple[Any, slice, Any, int]]:
        """The parts of the rows, with the active ones among them."""
        if self.rows.resident:
            part, where = next(iter(self.rows.parts()))
            yield part, where, self.active, part.n_rows if self.active is None else self.n_listed
            return
        order = np.random.default_rng(_seed(rng)).permutation(self.rows.n_parts)
        for part, where in self.rows.parts(order):  # those at rest are passed over
            yield part, where, None, part.n_rows

    def _visit(
        self, work: _Work, rng: _core.Rng, rows_seen: int | None, report: _Report, k: int
    ) -> None:
        """The rows of a part, in a random order of chunks.

        rows_seen: of the stochastic epoch, before this part. The rows that came first knew least of
        w: an eighth is visited again at once.
        """
        groups, n = self.pace.groups, work.n
        work.chunk = max(1, min(CHUNK, n // (4 * groups))) if self.asynchronous else 1
        n_chunks = work.n_chunks = -(-n // work.chunk)
        work.factor, work.shift = _affine(n_chunks, rng)
        size = n_chunks if self.asynchronous else groups  # of a launch: all, or a round
        before = -1.0 if rows_seen is None else self._rows_before()
        for begin in range(0, n_chunks, size):
            end = min(n_chunks, begin + size)
            self._launch(work, (begin, end), before, (rows_seen or 0) + begin, report, k)
        if rows_seen is not None:
            eighth = (n_chunks + 7) // 8
            for begin in range(0, eighth, size):
                self._launch(work, (begin, min(eighth, begin + size)), -1.0, 0, report, 1)

    def _launch(
        self, work: _Work, turns: tuple[int, int], before: float, seen: int, report: _Report, k: int
    ) -> None:
        """Visits the chunks of these turns. before, seen: of the stochastic epoch, its t0 and t."""
        frozen, bias = self.sums is not None, self.bias
        how = {"FROZEN": 1} if frozen else {}
        kernel = self.rows.kernel("descent", "visit", work.part, **how, **self.sides.macros)
        careful = self.pace.caution > 0
        kernel((self.blocks,), (self.threads,), (
            *work.part.arguments, *self.sides.arguments, work.where.start,
            NULL if work.active is None else work.active, *map(int, work.order),
            *map(int, turns), self.pace.groups,
            NULL if frozen else next(report.tickets), self.rows.norms,
            self.constant_squared, self.crowd if careful else NULL,
            self.pace.caution, self.alpha, self.resting, self.w,
            self.sums if frozen else NULL, 1.0 / self.quantum if frozen else 0.0,
            report.change, bias.balance, bias.response,
            bias.pull, float(self.n_useful), before,
            float(seen), self.shrink_beyond, report.seen(k),
        ))  # fmt: skip
        if frozen:
            thaw = self.device.kernel("descent", "thaw", **self._types())
            thaw((BLOCKS,), (THREADS,), (self.rows.n_features, self.sums,
                                         self.quantum, self.w,
                                         report.change))  # fmt: skip

    def weights(self) -> tuple[Any, float]:
        """w with the weight of the constant feature, and b."""
        joined = self.device.get(self.w).astype(np.float64)
        present, precision = self.bias.present, self.bias.precision
        joined[-1] = self.bias.value * math.sqrt(precision) if present else 0.0
        return joined, self.bias.value


def _seed(rng: _core.Rng) -> int:
    return int(rng.below(2**62))


def _affine(n: int, rng: _core.Rng) -> tuple[int, int]:
    """k -> (factor k + shift) mod n is a permutation."""
    while True:
        factor = 1 + int(rng.below(n))
        if math.gcd(factor, n) == 1:
            return factor, int(rng.below(n))


def descend(problem: LinearProblem, *, start: Any, rng: _core.Rng, asynchronous: bool) -> Iterates:
    """One iterate after each pass over the active rows."""
    descent = DeviceDescent(problem, start, asynchronous)
    watch = ByVisits(warm=descent.warm)
    step = 0
    while True:
        done = descent.epoch(rng)
        step += done.visits
        guess = watch.look(descent, done, rng)
        joined, free = descent.weights()
        w, b = problem.split(joined, free)
        alpha: Any = ResidentVector(descent.device, descent.alpha)
        epoch = step / max(1, descent.n_useful)
        certificate = yield Iterate(step, epoch, w, b, alpha, gap_estimate=guess)
        if done.whole and not done.visits:
            return
        if certificate is not None:
            watch.learn(certificate.relative_gap)
            if not done.whole and (guess is None or certificate.relative_gap > guess):
                descent.unshrink()
