"""One solve on a cluster: the weights that all parts share; what to do when one is lost."""

from __future__ import annotations

import itertools
import uuid
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.objective.bias import narrowed_minimum
from bridle.objective.losses import inner
from bridle.objective.point import Iterate
from bridle.objective.rounding import ZERO
from bridle.rows.base import LEVEL, Findings, Judged, Scales, total
from bridle.rows.cluster.messages import FirstShare, FromSnapshot, Order, PartsLostError, Step
from bridle.rows.cluster.resident import ResidentAlpha
from bridle.rows.cluster.rows import take_unwanted
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.rows.cluster.rows import Parts
    from bridle.rows.cluster.sides import ClusterSides


# A free bias is looked for until no other could be better by more than this part of the gap.
BIAS_ACCURACY = 0.01

_numbers = itertools.count()


class ClusterRun:
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
        self.recoveries = 0  # how often parts were lost
        self.judged = False  # whether w is what the parts judged last
        self.w = np.zeros(sides.rows.n_features)
        self.balance = 0.0  # sum alpha y
        self.separable = 0.0  # the dual value but for 1/2 |w|^2 and the bias
        self.from_zero = False
        self.bias = _core.steps.ProximalBias(
            sides.bias_precision, 0.0 if start is None else start.b
        )
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
        return float(_core.steps.proximal_sigma(self.mean_norm, self.mean_cost, int(n_inside)))

    @property
    def dual(self) -> float:
        """D(alpha), about."""
        return self.separable - 0.5 * inner(self.w, self.w) + float(self.bias.dual)

    def first_share(self) -> FirstShare | None:
        """How the first epoch goes; None if this is not the beginning, from zero."""
        before = 2 * self.mean_cost * self.mean_norm * self.n_useful
        if not self.from_zero or not 0 < before < np.inf:
            return None
        return FirstShare(self.n_useful, before, 0.0, len(self.parts))

    @property
    def n_features(self) -> int:
        """The weights that the parts know of."""
        return len(self.w)

    def vector(self) -> Array:
        """w, as the parts want it: with a weight for a constant feature."""
        return np.append(self.w, 0.0)

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """A message to all parts, who keep of the last step what they should."""
        answers = self.parts.call(method, self.number, self.kept, *arguments)
        self.kept = 1.0
        return answers

    def visit(self, **order: Any) -> list[Step]:
        """A round; PartsLostError if a part was lost."""
        steps = self.parts.call("visit", self.number, self.order(**order))
        self.heard()
        return steps

    def order(self, *, caution: Array | None, **order: Any) -> Order:
        """The message of a round."""
        dtype = self.sides.rows.dtype
        if caution is not None:
            self.caution, self.told = caution.astype(dtype), False
        told = None if self.told else self.caution
        w = self.vector().astype(dtype)
        response = float(self.bias.response)
        return Order(self.kept, w, self.b, response, told, balance=self.balance, **order)

    def heard(self) -> None:
        """All parts have answered."""
        self.told = True
        self.sides.report.rounds += 1

    def move(self, kept: float, step: Array, balance: float, separable: float) -> None:
        """w and b go this part of the way; the parts hear of it with the next message.

        separable: by how much `separable` then grows.
        """
        self.kept, self.judged = kept, False
        self.w += kept * step[:-1]
        self.balance += kept * balance
        self.separable += separable
        self.bias.add(kept * balance)

    def judge(self, iterate: Iterate) -> Findings:
        """What the parts say; w is then w(alpha) to the last bit."""
        return self.judge_all([self], [iterate])[0]

    @staticmethod
    def judge_all(runs: Sequence[ClusterRun], iterates: Sequence[Iterate]) -> list[Findings]:
        """Of several runs on the same parts, in messages of all of them."""
        parts, now = runs[0].parts, list(iterates)
        while True:
            try:
                if parts.unwanted:
                    parts.call("forget", take_unwanted(parts))
                asked = [
                    run._question(iterate, scales)
                    for run, iterate, scales in zip(runs, now, _scales(runs), strict=True)
                ]
                answers = _together(parts, "judge", asked)
                for run in runs:
                    run.kept = 1.0
                return [
                    run._judged(iterate, question[4], shares)
                    for run, iterate, question, shares in zip(
                        runs, now, asked, answers, strict=True
                    )
                ]
            except PartsLostError as lost:
                for run in runs:
                    run.recover(lost)
                now = [
                    Iterate(i.step, i.epoch, run.w, run.b) for i, run in zip(now, runs, strict=True)
                ]

    def _question(self, iterate: Iterate, scales: Scales) -> tuple[Any, ...]:
        w = np.append(iterate.w, 0.0 if self.sides.free else iterate.b)
        return (self.number, self.kept, w, scales, next(_numbers), self._saved())

    def _judged(self, iterate: Iterate, snapshot: int, shares: list[Judged]) -> Findings:
        """From what the parts say."""
        sides, free = self.sides, self.sides.free
        w = np.array(iterate.w, np.float64)
        sides.report.certificates += 1
        self.judged = True
        judged = total(shares)
        if sides.bias == "regularised":  # the constant feature, of which the parts know nothing
            judged = _with_constant(judged, sides.bias_scale)
        loss, b = judged.loss, iterate.b
        if free:
            b = self._best_bias(judged, sides.half_norm(w, 0.0))
            loss = sum(self.parts.call("judged_loss", self.number, b), start=ZERO)
            judged = judged.balanced()
        else:
            self.w = judged.w_alpha[:-1].copy()
            self.balance = judged.balance.middle
            self.separable = judged.value.middle
            self.bias.set_balance(self.balance)
        joined = np.append(w, b / sides.bias_scale if sides.bias == "regularised" else 0.0)
        return Findings(joined, b, loss, judged, self._resident(snapshot, judged), False)

    def _best_bias(self, judged: Judged, half: float) -> float:
        """The best bias for the scores that were judged, by narrowing a bracket."""
        dual = judged.dual().middle

        def losses(points: Array) -> tuple[Array, Array]:
            answers = self.parts.call("losses", self.number, points)
            values, slopes = zip(*answers, strict=True)
            return np.sum(values, axis=0), np.sum(slopes, axis=0)

        def allowed(loss: float) -> float:
            return BIAS_ACCURACY * max(half + loss - dual, 0.0)

        return narrowed_minimum(losses, *judged.bracket, allowed)

    def _resident(self, snapshot: int, judged: Judged) -> ResidentAlpha:
        alpha = ResidentAlpha(self.sides, snapshot, judged)
        weakref.finalize(alpha, self.parts.unwanted.append, ("snapshot", snapshot))
        self.alphas = [ref for ref in self.alphas if ref() is not None]
        self.alphas.append(weakref.ref(alpha))
        return alpha

    def recover(self, lost: PartsLostError) -> None:
        """After a loss: alpha of those parts from a checkpoint or zero, and w from all alpha."""
        self.told = self.judged = False
        self.recoveries += 1
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
                len(self.parts) == 1, only=only,
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
        self.from_zero = only is None and all(one.from_zero for one in opened)
        self.kept = 1.0
        self.w = np.sum([one[0] for one in settled], axis=0)[:-1]
        self.balance = sum(one[1] for one in settled)
        self.bias.set_balance(self.balance)
        self.separable = sum(one[2] for one in settled)
        inside = sum(one[3] for one in settled)
        if only is None:
            inside = inside if self.start is not None else self.n_useful // 10
            self.bias.start(self.sigma(inside))
        else:
            self.bias.recentre(self.sigma(inside))

    def _saved(self) -> str | None:
        """The checkpoint of this run; the parts add their number."""
        folder = self.sides.checkpoint
        return None if folder is None else str(folder / self.token)


def _together(parts: Parts, method: str, asked: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """What all parts answer to each question; one message for all questions."""
    if len(asked) == 1:
        return [parts.call(method, *asked[0])]
    return [list(own) for own in zip(*parts.call("several", method, list(asked)), strict=True)]


def visit_all(runs: Sequence[ClusterRun], orders: Sequence[Order]) -> list[list[Step]]:
    """A round of several runs on the same parts, in one message."""
    asked = [(run.number, order) for run, order in zip(runs, orders, strict=True)]
    steps = _together(runs[0].parts, "visit", asked)
    for run in runs:
        run.heard()
    return steps


def _scales(runs: Sequence[ClusterRun]) -> list[Scales]:
    """What balances the dual point of each, which a free bias asks for."""
    if not runs[0].sides.free:
        return [LEVEL] * len(runs)
    answers = _together(runs[0].parts, "totals", [(run.number, run.kept) for run in runs])
    for run in runs:
        run.kept = 1.0
    sums = [np.sum(own, axis=0) for own in answers]
    return [Scales.between(float(up), float(down)) for up, down in sums]


def _with_constant(judged: Judged, scale: float) -> Judged:
    """The same with the weight of a constant feature of this value."""
    weight = judged.balance * scale
    judged.w_alpha[-1] = weight.middle
    return replace(judged, drift=judged.drift + weight.width)
