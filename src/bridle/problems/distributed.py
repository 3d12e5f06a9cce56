"""A linear problem whose rows are elsewhere, for the same loop as every other problem.

    min_w  P(w) = 1/2 |w|^2 + sum_k sum_{i in part k} C_i loss(p_i),

The parts hold the rows and alpha. From each of them a certificate takes sum alpha_i z_i, the sum of
its losses and a few numbers: the certificate is that of LinearProblem on all the rows.

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
from typing import Any, ClassVar, Protocol

import numpy as np
from bridle import _core
from bridle.files.fingerprint import fingerprint_of, sampled_rows
from bridle.objective.bias import BIASES, Bias
from bridle.objective.dual import _ratio
from bridle.objective.losses import Loss, inner, loss_from
from bridle.objective.point import Iterate
from bridle.objective.scaling import _check_C
from bridle.problems.base import Judgement
from bridle.rows.cluster.local import PartsLostError
from bridle.rows.cluster.part import Judged, Objective, Order, Start, Step, check_alike
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

    def __init__(
        self, problem: DistributedProblem, snapshot: int, total: float, value: float
    ) -> None:
        self.problem, self.snapshot, self.C = problem, snapshot, problem.C
        self.total, self.value = total, value
        self.lost = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.lost:
            raise LostError("these dual variables were lost with a worker that held some")
        try:
            gathered = np.concatenate(self.problem.parts.call("alpha", self.snapshot))
        except (PartsLostError, KeyError) as error:
            self.lost = True
            if isinstance(error, PartsLostError):
                self.problem.report.losses.append(str(error))
                self.problem.encode(error.numbers)
            how = f": {error}" if isinstance(error, PartsLostError) else " with a worker before"
            raise LostError(f"these dual variables were lost{how}") from error
        return gathered if dtype is None else gathered.astype(dtype)

    def sum(self) -> float:
        """Sum alpha_i, without fetching any."""
        return self.total

    def at(self, C: float) -> ResidentAlpha:
        """The same variables to start from at another C; rows at their bound go where it goes."""
        other = copy.copy(self)
        other.start = Start(self.snapshot, C / self.C)
        other.origin = self  # which keeps the snapshot
        return other

    start: Start | None = None
    origin: ResidentAlpha | None = None


@dataclass
class Report:
    """What the talk with the parts cost."""

    rounds: int = 0
    certificates: int = 0
    losses: list[str] = field(default_factory=list)  # parts that were lost, in words


class DistributedProblem:
    """1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)) over the rows of all parts.

    positive: the class, by its place among `classes`, that is +1; the others are -1.
    checkpoint: a folder that all workers can write to, for the dual variables of each certificate.
    """

    kind: ClassVar[str] = "distributed"

    def __init__(
        self,
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
    ) -> None:
        if bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {bias!r}")
        if not (bias_scale > 0 and np.isfinite(bias_scale)):
            raise ValueError(f"bias_scale must be positive and finite, got {bias_scale}")
        self.parts, self.C = parts, _check_C(C)
        self.loss, self.bias, self.bias_scale = loss_from(loss), bias, float(bias_scale)
        self.positive = positive
        self.class_weight = None if class_weight is None else tuple(map(float, class_weight))
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.facts = Facts.of(parts)
        self.classes = self.facts.classes if classes is None else np.asarray(classes)
        if len(self.classes) < 2:
            raise ValueError(f"the rows must be of at least two classes, got {len(self.classes)}")
        self.ask("encode", self.classes)
        self.n_rows, self.n_features = self.facts.n_rows, self.facts.n_features
        self.report = Report()
        self.run: Run | None = None

    def variant(self, *, C: float | None = None, positive: int | None = None) -> DistributedProblem:
        """The same rows with another C, or another class against the rest."""
        other = copy.copy(self)
        other.run = None
        other.C = self.C if C is None else _check_C(C)
        other.positive = self.positive if positive is None else positive
        return other

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

    @property
    def objective(self) -> Objective:
        """What the parts need to know."""
        return Objective(
            self.C, self.loss.name, self.bias, self.bias_scale, self.positive, self.class_weight
        )

    @property
    def hard_margin(self) -> bool:
        """Whether C is infinite."""
        return bool(np.isinf(self.C))

    @property
    def may_fail(self) -> bool:
        """Whether certificates are of use before the end: they are what a checkpoint keeps."""
        return self.checkpoint is not None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data, in which the parts work."""
        return self.facts.dtype

    @property
    def bias_precision(self) -> float:
        """The factor of b^2/2 in the objective: 0 for a free bias, infinite for none."""
        if self.bias == "regularised":
            return self.bias_scale**-2
        return 0.0 if self.bias == "free" else np.inf

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
            self.ask("forget", take_unwanted(self.parts))

    def fingerprint(self) -> str:
        """Of the rows and their labels: that of the same rows on one machine."""
        sizes = [one["n_rows"] for one in self.ask("describe")]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        wanted = sampled_rows(self.n_rows)
        found = self.ask("sample", wanted, starts[:-1].tolist())
        rows = {i: row for part in found for i, row in part.items()}
        return fingerprint_of((self.n_rows, self.n_features), (self.n_rows,), rows.__getitem__)

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of w and the dual value of the parts' alpha, in one pass."""
        assert self.run is not None
        return self.run.judge(iterate)

    def half_norm(self, w: Array, b: float) -> float:
        """1/2 |w|^2 with the weight of the constant feature."""
        bias = 0.5 * b * b * self.bias_precision if self.bias == "regularised" else 0.0
        return 0.5 * inner(w, w) + bias

    def path_sums(self, solution: Any) -> tuple[float, float, float, float]:
        """1/2 |w|^2, sum loss / C, sum alpha and dual value but for 1/2 |w|^2: for the C path."""
        half = self.half_norm(solution.w, solution.b)
        loss = (solution.certificate.primal - half) / self.C
        return half, loss, solution.alpha.total, solution.alpha.value

    def rescaled(self, alpha: ResidentAlpha, C: float) -> ResidentAlpha:
        """The start of a solve at another C."""
        return alpha.at(C)


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

    def __init__(self, problem: DistributedProblem, start: Any, seed: int) -> None:
        self.problem, self.parts, self.seed = problem, problem.parts, seed
        self.number = next(_numbers)
        weakref.finalize(self, self.parts.unwanted.append, ("run", self.number))
        self.token = uuid.uuid4().hex
        alpha = None if start is None else start.alpha
        if alpha is not None and not isinstance(alpha, ResidentAlpha):
            raise ValueError("on a cluster a start needs dual variables that are there already")
        self.start = None if alpha is None else (alpha.start or Start(alpha.snapshot, 1.0))
        self.kept = 1.0  # of the last step, to be sent with the next message
        self.caution: NDArray[Any] | None = None
        self.told = False  # whether all parts know the caution
        self.w = np.zeros(problem.n_features)
        self.bias = _core.ProximalBias(problem.bias_precision, 0.0 if start is None else start.b)
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
        return self.mean_cost * self.problem.n_rows

    def visit(self, caution: Array | None, **order: Any) -> list[Step] | None:
        """A round. None if a part was lost: w is then made of what is left."""
        dtype = self.problem.dtype
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
        self.problem.report.rounds += 1
        return steps

    def move(self, kept: float, step: Array, balance: float) -> None:
        """w and b go this part of the way; the parts hear of it with the next message."""
        self.kept = kept
        self.w += kept * step[:-1]
        self.bias.add(kept * balance)

    def judge(self, iterate: Iterate) -> Judgement:
        """A certificate; w is then w(alpha) to the last bit."""
        while True:
            try:
                if self.parts.unwanted:
                    self.parts.call("forget", take_unwanted(self.parts))
                return self._judge(iterate)
            except PartsLostError as lost:
                self.recover(lost)
                iterate = Iterate(iterate.step, iterate.epoch, self.w, self.b)

    def _judge(self, iterate: Iterate) -> Judgement:
        problem, free = self.problem, self.problem.bias == "free"
        scales = (1.0, 1.0)
        if free:
            up, down = np.sum(self.parts.call("totals", self.number, self.kept), axis=0)
            self.kept = 1.0
            scales = (min(1.0, _ratio(down, up)), min(1.0, _ratio(up, down)))
        w = np.array(iterate.w, np.float64)
        joined = np.append(w, 0.0 if free else iterate.b)
        snapshot = next(_numbers)
        found: list[Judged] = self.parts.call(
            "judge", self.number, self.kept, joined, scales, snapshot, self._saved()
        )
        self.kept = 1.0
        problem.report.certificates += 1
        w_alpha = np.sum([one.w_alpha for one in found], axis=0)[:-1]
        value = sum(one.value for one in found)
        balance = sum(one.balance for one in found)
        squared = inner(w_alpha, w_alpha)
        if problem.bias == "regularised":
            squared += (balance * problem.bias_scale) ** 2
        dual = value - 0.5 * squared
        loss, b = sum(one.loss for one in found), iterate.b
        if free:
            loss, b = self._best_bias(found, problem.half_norm(w, 0.0), dual)
        else:
            self.w = w_alpha.copy()
            self.bias.set_balance(balance)
        alpha = self._resident(snapshot, sum(one.alpha for one in found), value)
        primal = problem.half_norm(w, b) + loss
        return Judgement(w, b, primal, alpha, dual, "solver")

    def _best_bias(self, found: list[Judged], half: float, dual: float) -> tuple[float, float]:
        """The sum of losses at the best bias, and that, by narrowing a bracket."""
        low = min(one.bracket[0] for one in found)
        high = max(one.bracket[1] for one in found)
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

    def _resident(self, snapshot: int, total: float, value: float) -> Any:
        alpha = ResidentAlpha(self.problem, snapshot, total, value)
        weakref.finalize(alpha, self.parts.unwanted.append, ("snapshot", snapshot))
        self.alphas = [ref for ref in self.alphas if ref() is not None]
        self.alphas.append(weakref.ref(alpha))
        return alpha

    def recover(self, lost: PartsLostError) -> None:
        """After a loss: alpha of those parts from a checkpoint or zero, and w from all alpha."""
        self.told = False
        while True:
            self.problem.report.losses.append(str(lost))
            for ref in self.alphas:
                alpha = ref()
                if alpha is not None:
                    alpha.lost = True
            try:
                self.parts.call("encode", self.problem.classes, only=lost.numbers)
                self._open(lost.numbers)
                return
            except PartsLostError as another:
                lost = PartsLostError([*{*lost.numbers, *another.numbers}], str(another))

    def _open(self, only: Sequence[int] | None = None) -> None:
        """Begin, on all parts or on those that were lost; then w is what alpha says."""
        problem = self.problem
        try:
            opened = self.parts.call(
                "open", self.number, problem.objective, self.seed, self.start, self._saved(),
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
        folder = self.problem.checkpoint
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
