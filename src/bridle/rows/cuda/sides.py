"""Rows on a GPU as one problem sees them: signs, costs, and certificates that are found there."""

from __future__ import annotations

import copy
import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from bridle.errors import DeviceError
from bridle.matrix.arrays import Array
from bridle.matrix.door import check_vector
from bridle.matrix.labels import check_labels, check_weights
from bridle.objective.bias import Bias, bias_precision
from bridle.objective.dual import rescaled
from bridle.objective.losses import VALUE_ROUNDINGS, Loss
from bridle.objective.point import Iterate
from bridle.objective.rounding import TINY, ZERO, Interval, U, gamma
from bridle.objective.scaling import check_range, costs
from bridle.rows.base import LEVEL, Findings, Judged, Scales, draw, quick_error
from bridle.rows.cuda.device import Device
from bridle.rows.cuda.matrix import fetched
from bridle.rows.cuda.placing import unfit
from bridle.rows.cuda.resident import ResidentVector
from bridle.rows.cuda.rows import BLOCKS, NULL, THREADS, CudaRows
from bridle.rows.memory import FAR, NEAR, MemoryRows
from numpy.typing import ArrayLike, NDArray

SECTIONS = 32  # the bracket of a free bias is cut into so many at a time


class CudaSides:
    """Signs and costs on the device, and copies of them here; see `bridle.rows.base.Sides`."""

    dear, may_fail, place = False, False, "cuda"
    lower, targets = 0.0, None  # as a Piece has them: the losses here are of classes

    def __init__(
        self,
        rows: CudaRows,
        y: Any,
        sample_weight: Any,
        C: float,
        loss: Loss,
        bias_precision: float,
    ) -> None:
        self.rows, self.loss, self.C, self.bias_precision = rows, loss, C, bias_precision
        self.sample_weight = check_weights(fetched(sample_weight), rows.n_rows)
        self.y = check_labels(fetched(y), rows.n_rows)
        self.signs = rows.device.put(self.y.astype(np.int8))
        self._set_costs()

    def _set_costs(self) -> None:
        """C_i and the bounds of alpha_i; arrays only where rows weigh differently."""
        self.weighted = bool((self.sample_weight != 1.0).any())
        self._costs: tuple[Any, Any] = (NULL, NULL)
        largest = self.C
        if self.weighted:
            cost, least = costs(self.C, self.sample_weight)
            largest = float(cost.max(initial=0.0))
            put = self.rows.device.put
            self._costs = put(cost), put(self.loss.upper(least))
        check_range(largest, self.rows.largest_length)

    def variant(
        self,
        *,
        y: ArrayLike | None = None,
        C: float | None = None,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
    ) -> CudaSides:
        """The same rows with other labels, C or weights: shared, not copied or checked again."""
        other = copy.copy(self)
        for name in ("arguments", "cost", "upper"):
            other.__dict__.pop(name, None)
        other.rows = self.rows.with_threads(n_threads)
        if C is not None:
            other.C = C
        if sample_weight is not None:
            other.sample_weight = check_weights(sample_weight, self.rows.n_rows)
        if y is not None:
            other.y = check_labels(y, self.rows.n_rows)
            other.signs = self.rows.device.put(other.y.astype(np.int8))
        if C is not None or sample_weight is not None:
            other._set_costs()
        return other

    @property
    def device(self) -> Device:
        """Where the rows are."""
        return self.rows.device

    @property
    def free(self) -> bool:
        """Whether the bias is not penalised."""
        return self.bias_precision == 0.0

    @property
    def macros(self) -> dict[str, Any]:
        """For kernels of this loss."""
        return {} if self.loss.bounded_dual else {"SQUARED": 1}

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """As kernels take COSTS."""
        bound = float(self.loss.upper(np.array([self.C]))[0])
        return (self.signs, *self._costs, self.C, float(bound))

    # Numbers of rows, here and there.

    @property
    def piece(self) -> CudaSides:
        """The costs and bounds, by the names that a Piece has."""
        return self

    @cached_property
    def cost(self) -> Array:
        """C_i."""
        if not self.weighted:
            return np.full(self.rows.n_rows, self.C)
        return costs(self.C, self.sample_weight)[0]

    @property
    def signed_cost(self) -> Array:
        """y_i C_i."""
        return np.copysign(self.cost, self.y)

    @cached_property
    def upper(self) -> Array:
        """The largest feasible alpha_i."""
        least = costs(self.C, self.sample_weight)[1] if self.weighted else self.cost
        return self.loss.upper(least)

    def row_vectors(self) -> tuple[Any, Any, Any]:
        """y_i, C_i and the bounds of alpha_i, on the device."""
        xp, n = self.device.xp, self.rows.n_rows
        y = self.signs.astype(np.float64)
        if self.weighted:
            return y, *self._costs
        return y, xp.full(n, self.C), xp.full(n, float(self.arguments[-1]))

    def total_cost(self) -> Interval:
        """Sum C_i."""
        n = self.rows.n_rows
        if not self.weighted:
            return Interval(self.C, self.C) * float(n)
        return self.rows.sums("sizes", 2, n, self._costs[0])[0]

    def squared_radius(self) -> float:  # noqa: D102
        return self.loss.squared_radius(self.cost)

    def identity(self) -> tuple[str, str]:  # noqa: D102
        weights = hashlib.blake2b(self.sample_weight.tobytes(), digest_size=16).hexdigest()
        return self.rows.fingerprint(self.y), weights if self.weighted else "none"

    def zeros(self) -> ResidentVector:  # noqa: D102
        return ResidentVector(self.device, self.device.xp.zeros(self.rows.n_rows))

    def still_has(self, alpha: Any) -> bool:  # noqa: D102
        return True

    def start_alpha(self, start: Any) -> Any:  # noqa: D102
        if start is None or start.alpha is None:
            return self.device.xp.zeros(self.rows.n_rows)
        given = start.alpha
        if not hasattr(given, "on_device"):
            given = check_vector(given, self.rows.n_rows, "start.alpha")
        return self._settled(given)[0]

    def rescaled(self, alpha: Any, ratio: float) -> Array:  # noqa: D102
        return rescaled(np.asarray(alpha), 0.0, self.upper * ratio, ratio, self.loss)

    def is_feasible(self, alpha: Array, rounding: float) -> bool:  # noqa: D102
        upper = self.upper
        slack = rounding * np.where(np.isfinite(upper), upper, 0.0)
        inside = bool(np.all(alpha >= -slack) and np.all(alpha <= upper + slack))
        if not self.free:
            return inside
        return inside and abs(float(alpha @ self.y)) <= rounding * float(alpha.sum())

    # What is known of a point.

    def judge(self, iterate: Iterate, joined: Array) -> Findings:
        """One pass over the rows for both values, in float64."""
        own, b = iterate.alpha, iterate.b
        if own is None:
            own = self._suggested(joined, b)
        alpha, share = self._settled(own, self._scales(own))
        signed = alpha * self.signs
        sizes = share[0].high, share[1].middle
        combined, drift, scores = self.rows.look(signed, joined, sizes)
        judged = self._judged(share, combined, drift)
        error = quick_error(self.rows, joined)  # type: ignore[arg-type]
        if self.free:
            b = self.best_bias(scores)
            error += gamma(16) * abs(b)
        far = iterate.alpha is None or judged.shifted > FAR * judged.total.high
        repaired = far or judged.moved > NEAR * judged.total.high
        loss = self._loss(scores, b if self.free else 0.0, error)
        resident = ResidentVector(self.device, alpha)
        seen = ResidentVector(self.device, scores + b if self.free else scores)
        return Findings(joined, b, loss, judged, resident, repaired, seen, error)  # type: ignore[arg-type]

    def _suggested(self, joined: Array, b: float) -> Any:
        """The dual point that w's subgradient suggests: alpha_i = C_i slope(p_i)."""
        xp = self.device.xp
        y, cost, _ = self.row_vectors()
        slack = 1.0 - y * (self.rows.scores(joined) + (b if self.free else 0.0))
        if self.loss.unit_slope:
            return xp.where(slack > 0, cost, 0.0)
        return 2.0 * cost * xp.maximum(slack, 0.0)

    def _settled(self, own: Any, scales: Scales = LEVEL) -> tuple[Any, list[Interval]]:
        """alpha in its box, each class scaled; its sums, see `settle` in sums.cu."""
        alpha = self.device.xp.empty(self.rows.n_rows)
        sums = self.rows.sums(
            "settle", 5, *self.arguments, self.rows.n_rows, self.rows.put(own),
            scales.up, scales.down, alpha, **self.macros,
        )  # fmt: skip
        return alpha, sums

    def _scales(self, own: Any) -> Scales:
        """With a free bias, the heavier class is scaled down until sum alpha_i y_i = 0."""
        if not self.free:
            return LEVEL
        total, difference, *_ = self._settled(own)[1]
        up = 0.5 * (total.middle + difference.middle)
        return Scales.between(max(up, 0.0), max(total.middle - up, 0.0))

    def _judged(self, share: list[Interval], combined: Array, drift: float) -> Judged:
        total, difference, squares, moved, shifted = share
        value = total
        if not self.loss.bounded_dual:
            # The costs are rounded, and the ratios rounded or underflown.
            curvature = squares * Interval.around(0.25, gamma(4))
            value = total - (curvature + Interval(0.0, TINY * total.high))
        # Terms of both signs: off by a part of the sum of their sizes.
        off = gamma(self.rows.n_rows / (BLOCKS * THREADS) + 32) * total.high
        found = Judged(
            combined, drift, value, total, difference + Interval(-off, off),
            self.loss.highest_dual_value(total, self.total_cost()) if self.free else ZERO,
            self.rows.largest_length, moved.high, shifted.high,
        )  # fmt: skip
        return found.balanced() if self.free else found

    def _loss(self, scores: Any, b: float, error: float) -> Interval:
        """sum C_i loss, of scores that are known up to an error. The costs are rounded products."""
        high, low, _ = self.rows.sums(
            "losses", 3, *self.arguments, self.rows.n_rows, scores, float(b),
            error, **self.macros,
        )  # fmt: skip
        trust = Interval.around(1.0, gamma(VALUE_ROUNDINGS) + 2 * U)
        return Interval(low.low, high.high) * trust

    def primal_loss(self, joined: Array, b: float) -> Interval:  # noqa: D102
        error = quick_error(self.rows, joined)  # type: ignore[arg-type]
        shift = b if self.free else 0.0
        return self._loss(self.rows.scores(joined), shift, error + gamma(16) * abs(shift))

    def dual_sums(self, alpha: Any) -> Judged:  # noqa: D102
        settled, share = self._settled(alpha)
        sizes = share[0].high, share[1].middle
        combined, drift = self.rows.combined(settled * self.signs, sizes)
        return self._judged(share, combined, drift)

    def best_bias(self, scores: Any) -> float:
        """The free bias that is best for these scores: where the slope of the loss changes sign.

        The slope rises with b; it is looked at in SECTIONS places at once, between the breakpoints.
        """
        low, high = self._bracket(scores)
        below = above = 0.0  # the slopes there
        for _ in range(40):
            width = (high - low) / SECTIONS
            if not low < low + width < high:
                break
            slopes = self._slopes(scores, low, width)
            k = int(np.searchsorted(slopes > 0, True))
            edges = [low + j * width for j in range(SECTIONS + 1)]
            if k == 0:
                return low
            low, below = edges[k - 1], float(slopes[k - 1])
            if k <= SECTIONS:
                high, above = edges[k], float(slopes[k])
            if k > SECTIONS or (self.loss.smooth and above - below <= 1e-9 * self.C):
                break
        if self.loss.smooth and above > below:
            return low + (high - low) * (-below / (above - below))
        return high

    def _bracket(self, scores: Any) -> tuple[float, float]:
        xp = self.device.xp
        least, largest = xp.empty(BLOCKS), xp.empty(BLOCKS)
        kernel = self.device.kernel("sums", "breakpoints", **self.macros)
        kernel((BLOCKS,), (THREADS,), (*self.arguments, self.rows.n_rows, scores,
                                       least, largest))  # fmt: skip
        found = float(self.device.get(least).min()), float(self.device.get(largest).max())
        return found if found[0] <= found[1] else (0.0, 0.0)

    def _slopes(self, scores: Any, first: float, width: float) -> Array:
        parts = self.device.xp.zeros((SECTIONS + 1, BLOCKS))
        kernel = self.device.kernel("sums", "bias_slopes", **self.macros)
        kernel((BLOCKS,), (THREADS,), (*self.arguments, self.rows.n_rows, scores,
                                       first, width,
                                       SECTIONS + 1, parts))  # fmt: skip
        return np.asarray(self.device.get(parts).sum(axis=1))

    def sample(self, n: int, seed: int) -> tuple[MemoryRows, Array, Array]:  # noqa: D102
        return self.take(draw(self.y, self.cost, n, seed))

    def take(self, drawn: NDArray[np.intp]) -> tuple[MemoryRows, Array, Array]:
        """Some of the rows, in order, with their signs and weights."""
        drawn = np.sort(drawn)
        return self.rows.take(drawn), self.y[drawn], self.sample_weight[drawn]


def sides_on_device(
    X: Any, y: Any, sample_weight: Any, *, C: float, loss: Loss, bias: Bias, bias_scale: float,
    n_threads: int | None, place: str,
) -> CudaSides:  # fmt: skip
    """The rows of X, copied to the device or there already, as one problem sees them."""
    why = unfit(C, loss)
    if why is not None:
        raise DeviceError(f'device="cuda" is not available: {why}')
    rows = CudaRows(X, bias_scale if bias == "regularised" else 0.0, n_threads)
    sides = CudaSides(rows, y, sample_weight, C, loss, bias_precision(bias, bias_scale))
    sides.place = place
    return sides
