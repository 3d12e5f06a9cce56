"""Rows on a cluster as one problem sees them: the parts hold the rows and alpha.

From each part a certificate takes sum alpha_i z_i, the sum of its losses and a few numbers: the
certificate is that of the same rows on one machine.

When a part is lost (its worker died) its rows are read again and its alpha starts from the last
checkpoint, or from zero; w is put together anew from what all parts have. Any alpha inside its box
proves a bound: the certificates stay true, though they fall back.
"""

from __future__ import annotations

import copy
import itertools
import uuid
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from bridle import _core
from bridle.files.fingerprint import fingerprint_of, sampled_rows
from bridle.objective.bias import Bias, bias_precision
from bridle.objective.losses import Loss, inner
from bridle.objective.point import Iterate
from bridle.rows.base import ROUNDS, Findings, Judged, balance, total
from bridle.rows.cluster.local import PartsLostError
from bridle.rows.cluster.part import Against, FromSnapshot, Order, Step, check_alike
from bridle.rows.memory import MemoryRows
from numpy.typing import NDArray

Array = NDArray[np.float64]


# A free bias is looked for on so many points at once, until no other could be better by more than
# this part of the gap.
BIAS_POINTS = 16


BIAS_ACCURACY = 0.01
_numbers = itertools.count()


class Parts(Protocol):
    """Where the parts are, and how to talk to them."""

    bytes_moved: int
    seconds_overhead: float
    unwanted: list[tuple[str, int]]  # snapshots and runs that nobody can ask for any more

    def __len__(self) -> int:
        """How many parts."""

    def call(self, method: str, *arguments: Any, only: Sequence[int] | None = None) -> list[Any]:
        """The answers of all parts, or of some, in order; PartsLostError if one began anew."""


class LostError(RuntimeError):
    """Dual variables went with a worker that alone had them."""


class ResidentAlpha:
    """Dual variables that stay with the rows; np.asarray fetches them, in the order of the rows."""

    def __init__(self, sides: ClusterSides, snapshot: int, judged: Judged) -> None:
        self.rows, self.snapshot, self.C = sides.rows, snapshot, sides.C
        self.total, self.value, self.balance = judged.total, judged.value, judged.balance
        self.lost = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.lost:
            raise LostError("these dual variables were lost with a worker that held some")
        try:
            gathered = np.concatenate(self.rows.parts.call("alpha", self.snapshot))
        except (PartsLostError, KeyError) as error:
            self.lost = True
            if isinstance(error, PartsLostError):
                self.rows.report.losses.append(str(error))
                self.rows.encode(error.numbers)
            how = f": {error}" if isinstance(error, PartsLostError) else " with a worker before"
            raise LostError(f"these dual variables were lost{how}") from error
        return gathered if dtype is None else gathered.astype(dtype)

    def sum(self) -> float:
        """Sum alpha_i, without fetching any."""
        return self.total

    def at(self, C: float) -> ResidentAlpha:
        """The same variables to start from at another C; rows at their bound go where it goes."""
        other = copy.copy(self)
        other.start = FromSnapshot(self.snapshot, C / self.C)
        other.origin = self  # which keeps the snapshot
        return other

    start: FromSnapshot | None = None
    origin: ResidentAlpha | None = None


@dataclass
class Report:
    """What the talk with the parts cost."""

    rounds: int = 0
    certificates: int = 0
    losses: list[str] = field(default_factory=list)  # parts that were lost, in words


class ClusterRows:
    """The rows of all parts, as one matrix without a constant feature; see `bridle.rows.base`."""

    offers = frozenset({ROUNDS})
    constant = 0.0
    n_threads = 1  # a worker has threads of its own

    def __init__(self, parts: Parts, classes: NDArray[Any] | None = None) -> None:
        self.parts, self.report = parts, Report()
        self.facts = Facts.of(parts)
        self.classes = self.facts.classes if classes is None else np.asarray(classes)
        if len(self.classes) < 2:
            raise ValueError(f"the rows must be of at least two classes, got {len(self.classes)}")
        self.ask("encode", self.classes)

    @property
    def n_rows(self) -> int:  # noqa: D102
        return self.facts.n_rows

    @property
    def n_features(self) -> int:  # noqa: D102
        return self.facts.n_features

    @property
    def nnz(self) -> int:  # noqa: D102
        return self.facts.nnz

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data, in which the parts work."""
        return self.facts.dtype

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """A call that needs no run: parts that are lost learn their classes, and it is repeated."""
        while True:
            try:
                return self.parts.call(method, *arguments)
            except PartsLostError as lost:
                self.encode(lost.numbers)

    def encode(self, numbers: Sequence[int]) -> None:
        """Parts that began anew learn the classes."""
        while True:
            try:
                self.parts.call("encode", self.classes, only=numbers)
                return
            except PartsLostError as lost:
                numbers = sorted({*numbers, *lost.numbers})

    def scores(self, w: Array) -> Array:  # noqa: D102
        return np.concatenate(self.ask("scores", w))

    def combine(self, a: Array) -> Array:  # noqa: D102
        return np.asarray(np.sum(self.ask("combine", a, self._starts()), axis=0))

    def combine_and_score(self, a: Array, w: Array) -> tuple[Array, Array]:  # noqa: D102
        return self.combine(a), self.scores(w)

    def take(self, chosen: NDArray[np.intp]) -> MemoryRows:  # noqa: D102
        from scipy.sparse import csr_matrix

        found = self._rows(chosen.tolist())
        columns, values = ([found[i][k] for i in chosen.tolist()] for k in (0, 1))
        ends = np.cumsum([0, *map(len, columns)])
        shape = (len(chosen), self.n_features)
        matrix = csr_matrix((np.concatenate(values), np.concatenate(columns), ends), shape=shape)
        return MemoryRows(matrix.astype(self.dtype), self.constant, self.n_threads)

    def fingerprint(self, y: Any = None) -> str:
        """Of the rows and their labels: that of the same rows on one machine."""
        rows = self._rows(sampled_rows(self.n_rows))
        return fingerprint_of((self.n_rows, self.n_features), (self.n_rows,), rows.__getitem__)

    def _rows(self, wanted: list[int]) -> dict[int, tuple[Any, Any, Any]]:
        """Columns, values and label of each."""
        found = self.ask("sample", wanted, self._starts())
        return {i: row for part in found for i, row in part.items()}

    def _starts(self) -> list[int]:
        """Where the rows of each part begin."""
        sizes = [one["n_rows"] for one in self.ask("describe")]
        return [0, *np.cumsum(sizes)[:-1].tolist()]


class ClusterSides:
    """Class `positive`, by its place among the classes, is +1 and the others are -1.

    checkpoint: a folder that all workers can write to, for the dual variables of each certificate.
    See `bridle.rows.base.Sides`.
    """

    dear = False

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
    ) -> None:
        self.rows, self.C, self.loss = rows, C, loss
        self.bias, self.bias_scale = bias, bias_scale
        self.positive = positive
        self.class_weight = None if class_weight is None else tuple(map(float, class_weight))
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.run: Run | None = None

    def variant(
        self,
        *,
        C: float | None = None,
        positive: int | None = None,
        class_weight: Sequence[float] | None = None,
    ) -> ClusterSides:
        """The same rows with another C, another class against the rest, or other weights."""
        other = copy.copy(self)
        other.run = None
        other.C = self.C if C is None else C
        other.positive = self.positive if positive is None else positive
        if class_weight is not None:
            other.class_weight = tuple(map(float, class_weight))
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
        loss = self.loss if self.loss.core is None else self.loss.name
        return Against(self.C, loss, self.bias, self.bias_scale, self.positive, self.class_weight)

    @property
    def free(self) -> bool:
        """Whether the bias is not penalised."""
        return self.bias == "free"

    @property
    def bias_precision(self) -> float:
        """The factor of b^2/2 in the objective: 0 for a free bias, infinite for none."""
        return bias_precision(self.bias, self.bias_scale)

    def begin(self, start: Any, seed: int) -> Run:
        """A new run of a solver; the one before is over."""
        self.close()
        self.run = Run(self, start, seed)
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

    def half_norm(self, w: Array, b: float) -> float:
        """1/2 |w|^2 with the weight of the constant feature."""
        bias = 0.5 * b * b * self.bias_precision if self.bias == "regularised" else 0.0
        return 0.5 * inner(w, w) + bias

    def rescaled(self, alpha: ResidentAlpha, ratio: float) -> ResidentAlpha:
        """The start of a solve at another C."""
        return alpha.at(ratio * self.C)

    def dual_sums(self, alpha: ResidentAlpha) -> tuple[Array, float, float, float]:
        """Those of a certificate; the weights are not kept."""
        return np.empty(0), alpha.value, alpha.total, alpha.balance

    def start_alpha(self, start: Any) -> Any:
        """The parts have their own: see `begin`."""
        return None if start is None else start.alpha

    def primal_loss(self, joined: Array, b: float) -> float:  # noqa: D102
        if self.bias == "regularised":
            b = float(joined[-1]) * self.bias_scale
        w = np.append(joined[:-1], 0.0)
        return float(np.sum(self.rows.ask("loss", self.against, w, b)))

    def squared_radius(self) -> float:  # noqa: D102
        return self.loss.squared_radius(np.array([self.C * float(self.rows.facts.weights.sum())]))

    def identity(self) -> None:
        """The workers have checkpoints of their own: see `checkpoint`."""

    def sample(self, n: int, seed: int) -> tuple[MemoryRows, Array, Array]:  # noqa: D102
        chosen = np.random.default_rng(seed).permutation(self.rows.n_rows)[:n]
        codes = np.concatenate(self.rows.ask("codes"))[chosen]
        y = np.where(codes == self.positive, 1.0, -1.0)
        return self.rows.take(chosen), y, np.ones(len(chosen))

    @property
    def may_fail(self) -> bool:
        """Whether certificates are of use before the end: they are what a checkpoint keeps."""
        return self.checkpoint is not None

    def still_has(self, alpha: Any) -> bool:
        """Dual variables that were lost with a machine prove nothing that can be looked at."""
        return not alpha.lost

    def zeros(self) -> None:
        """The parts have no name for the origin."""

    def dual_value(self, alpha: ResidentAlpha) -> tuple[float, float]:  # noqa: D102
        return alpha.value, alpha.total

    def is_feasible(self, alpha: Any, rounding: float) -> bool:
        """Not known of dual variables that the parts do not have."""
        raise ValueError("on a cluster only dual variables that are there already can be judged")


def sides_of(
    parts: Parts,
    *,
    C: float,
    loss: Loss,
    bias: Bias,
    bias_scale: float,
    n_threads: int | None,
    classes: NDArray[Any] | None = None,
    **against: Any,
) -> ClusterSides:
    """The rows of all parts as one problem sees them."""
    return ClusterSides(ClusterRows(parts, classes), C, loss, bias, bias_scale, **against)


@dataclass(frozen=True)
class Facts:
    """What the parts have in common, and in sum."""

    n_rows: int
    n_features: int
    nnz: int
    dtype: np.dtype[Any]
    classes: NDArray[Any]
    weights: Array  # of each class
    weighted: bool
    zero_based: bool  # how the files' texts counted features

    @classmethod
    def of(cls, parts: Parts) -> Facts:
        """Asks all parts."""
        found = call_until_done(parts, "describe")
        first = found[0]
        for other in found[1:]:
            check_alike(other, first)
        classes = np.unique(np.concatenate([one["classes"] for one in found]))
        weights = np.zeros(len(classes))
        for one in found:
            weights[np.searchsorted(classes, one["classes"])] += one["weights"]
        return cls(
            sum(one["n_rows"] for one in found), first["n_features"],
            sum(one["nnz"] for one in found),
            np.result_type(*(np.dtype(one["dtype"]) for one in found)), classes, weights,
            any(one["weighted"] for one in found), first["zero_based"],
        )  # fmt: skip


def take_unwanted(parts: Parts) -> list[tuple[str, int]]:
    """What the parts are to forget, once."""
    gone, parts.unwanted[:] = list(parts.unwanted), []
    return gone


def call_until_done(parts: Parts, method: str, *arguments: Any) -> list[Any]:
    """A call that needs no state of the parts: if some are lost, once more."""
    while True:
        try:
            return parts.call(method, *arguments)
        except PartsLostError:
            continue


class Run:
    """One solve: w and b, which all parts share, and the step that they have not heard of yet."""

    def __init__(self, sides: ClusterSides, start: Any, seed: int) -> None:
        self.sides, self.parts, self.seed = sides, sides.parts, seed
        self.number = next(_numbers)
        weakref.finalize(self, self.parts.unwanted.append, ("run", self.number))
        self.token = uuid.uuid4().hex
        alpha = None if start is None else start.alpha
        if alpha is not None and not isinstance(alpha, ResidentAlpha):
            raise ValueError("on a cluster a start needs dual variables that are there already")
        self.start = None if alpha is None else (alpha.start or FromSnapshot(alpha.snapshot, 1.0))
        self.kept = 1.0  # of the last step, to be sent with the next message
        self.caution: NDArray[Any] | None = None
        self.told = False  # whether all parts know the caution
        self.w = np.zeros(sides.rows.n_features)
        self.bias = _core.ProximalBias(sides.bias_precision, 0.0 if start is None else start.b)
        self.alphas: list[weakref.ref[ResidentAlpha]] = []
        self.mean_norm = self.mean_cost = 0.0
        self.n_useful = 0  # rows that cost something: as many visits are an epoch
        self._open()

    @property
    def b(self) -> float:
        """The intercept."""
        return float(self.bias.value)

    def sigma(self, n_inside: float) -> float:
        """How fast b may follow."""
        return float(_core.proximal_sigma(self.mean_norm, self.mean_cost, int(n_inside)))

    @property
    def zero_primal(self) -> float:
        """P(0), every row costing C_i there."""
        return self.mean_cost * self.sides.rows.n_rows

    def visit(self, caution: Array | None, **order: Any) -> list[Step] | None:
        """A round. None if a part was lost: w is then made of what is left."""
        dtype = self.sides.rows.dtype
        w = np.append(self.w, 0.0).astype(dtype)
        if caution is not None:
            self.caution, self.told = caution.astype(dtype), False
        told = None if self.told else self.caution
        message = Order(self.kept, w, self.b, float(self.bias.response), told, **order)
        try:
            steps = self.parts.call("visit", self.number, message)
        except PartsLostError as lost:
            self.recover(lost)
            return None
        self.told = True
        self.sides.report.rounds += 1
        return steps

    def move(self, kept: float, step: Array, balance: float) -> None:
        """w and b go this part of the way; the parts hear of it with the next message."""
        self.kept = kept
        self.w += kept * step[:-1]
        self.bias.add(kept * balance)

    def judge(self, iterate: Iterate) -> Findings:
        """What the parts say; w is then w(alpha) to the last bit."""
        while True:
            try:
                if self.parts.unwanted:
                    self.parts.call("forget", take_unwanted(self.parts))
                return self._judge(iterate)
            except PartsLostError as lost:
                self.recover(lost)
                iterate = Iterate(iterate.step, iterate.epoch, self.w, self.b)

    def _judge(self, iterate: Iterate) -> Findings:
        sides, free = self.sides, self.sides.free
        scales = (1.0, 1.0)
        if free:
            up, down = np.sum(self.parts.call("totals", self.number, self.kept), axis=0)
            self.kept = 1.0
            scales = balance(float(up), float(down))
        w = np.array(iterate.w, np.float64)
        snapshot = next(_numbers)
        shares: list[Judged] = self.parts.call(
            "judge", self.number, self.kept, np.append(w, 0.0 if free else iterate.b), scales,
            snapshot, self._saved(),
        )  # fmt: skip
        self.kept = 1.0
        sides.report.certificates += 1
        judged = total(shares)
        if sides.bias == "regularised":  # the constant feature, of which the parts know nothing
            judged.w_alpha[-1] = judged.balance * sides.bias_scale
        loss, b = judged.loss, iterate.b
        if free:
            loss, b = self._best_bias(judged, sides.half_norm(w, 0.0))
        else:
            self.w = judged.w_alpha[:-1].copy()
            self.bias.set_balance(judged.balance)
        joined = np.append(w, b / sides.bias_scale if sides.bias == "regularised" else 0.0)
        return Findings(joined, b, loss, judged, self._resident(snapshot, judged), False)

    def _best_bias(self, judged: Judged, half: float) -> tuple[float, float]:
        """The sum of losses at the best bias, and that, by narrowing a bracket."""
        low, high = judged.bracket
        dual = judged.dual
        while True:
            points = np.linspace(low, high, BIAS_POINTS)
            answers = self.parts.call("losses", self.number, points)
            values = np.sum([answer[0] for answer in answers], axis=0)
            slopes = np.sum([answer[1] for answer in answers], axis=0)
            best = int(values.argmin())
            # The slope never falls: the minimum is where its sign changes.
            k = min(max(int(np.searchsorted(slopes, 0.0)), 1), BIAS_POINTS - 1)
            low, high = points[k - 1], points[k]
            bound = _lowest(points, values, slopes, k)
            left = values[best] - bound
            accurate = left <= BIAS_ACCURACY * max(half + values[best] - dual, 0.0)
            if accurate or high - low <= 1e-12 * max(1.0, abs(low)):
                return float(values[best]), float(points[best])

    def _resident(self, snapshot: int, judged: Judged) -> ResidentAlpha:
        alpha = ResidentAlpha(self.sides, snapshot, judged)
        weakref.finalize(alpha, self.parts.unwanted.append, ("snapshot", snapshot))
        self.alphas = [ref for ref in self.alphas if ref() is not None]
        self.alphas.append(weakref.ref(alpha))
        return alpha

    def recover(self, lost: PartsLostError) -> None:
        """After a loss: alpha of those parts from a checkpoint or zero, and w from all alpha."""
        self.told = False
        while True:
            self.sides.report.losses.append(str(lost))
            for ref in self.alphas:
                alpha = ref()
                if alpha is not None:
                    alpha.lost = True
            try:
                self.parts.call("encode", self.sides.rows.classes, only=lost.numbers)
                self._open(lost.numbers)
                return
            except PartsLostError as another:
                lost = PartsLostError([*{*lost.numbers, *another.numbers}], str(another))

    def _open(self, only: Sequence[int] | None = None) -> None:
        """Begin, on all parts or on those that were lost; then w is what alpha says."""
        sides = self.sides
        try:
            opened = self.parts.call(
                "open", self.number, sides.against, self.seed, self.start, self._saved(),
                only=only,
            )  # fmt: skip
            # Of an unfinished round nobody knows who took part in it: it never was.
            settled = self.parts.call("settle", self.number, 0.0 if only is not None else 1.0)
        except PartsLostError as lost:
            if only is not None:
                raise
            self.recover(PartsLostError(range(len(self.parts)), str(lost)))
            return
        if len(opened) == len(self.parts):
            rows = sum(one.n_rows for one in opened)
            self.mean_norm = sum(one.squared_norm for one in opened) / rows
            self.mean_cost = sum(one.cost for one in opened) / rows
            self.n_useful = sum(one.n_useful for one in opened)
        self.kept = 1.0
        self.w = np.sum([one[0] for one in settled], axis=0)[:-1]
        self.bias.set_balance(sum(one[1] for one in settled))
        inside = sum(one[2] for one in settled)
        if only is None:
            inside = inside if self.start is not None else self.n_useful // 10
            self.bias.start(self.sigma(inside))
        else:
            self.bias.recentre(self.sigma(inside))

    def _saved(self) -> str | None:
        """The checkpoint of this run; the parts add their number."""
        folder = self.sides.checkpoint
        return None if folder is None else str(folder / self.token)


def _lowest(points: Array, values: Array, slopes: Array, k: int) -> float:
    """What a convex function can be at least between two points, by its tangents there."""
    a, c, fa, fc, sa, sc = (
        points[k - 1], points[k], values[k - 1], values[k], slopes[k - 1], slopes[k],
    )  # fmt: skip
    if sc <= sa:
        return float(min(fa, fc))
    x = min(max((fa - fc + sc * c - sa * a) / (sc - sa), a), c)
    return float(max(fa + sa * (x - a), fc + sc * (x - c)))
