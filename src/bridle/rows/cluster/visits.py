"""A round of a part: local epochs on its blocks, one after the other or several at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.threads import Threads
from bridle.rows.cluster.blocks import LOCAL
from bridle.rows.cluster.messages import Against, FirstShare, Look, Order, Step
from bridle.rows.cluster.state import State


@dataclass
class PartRun:
    """One solve, as a part takes part in it."""

    objective: Against
    states: list[State]
    rng: Any
    saved: str | None  # where its checkpoint is
    n_threads: int = 1
    alone: bool = False  # whether no other part steps at the same time
    caution: Array | None = None  # of the other parts
    apart: Array | None = None  # see `Step`
    # Of blocks that are visited at the same time: see `Crew`.
    crew: Crew | None = None

    def keep(self, part: float) -> None:
        """So much of the last step."""
        for state in self.states:
            state.descent.keep(part)

    def visit(self, order: Order) -> Step:
        """A round; its step is kept when it is known how far to go."""
        self.keep(order.kept)
        for state in self.states if order.wake else ():
            state.descent.unshrink()
        if order.caution is not None:
            self.caution = order.caution.astype(np.float64)
            for state in self.states if self.n_threads == 1 else ():
                state.descent.set_caution(self.caution)
        w = order.w.astype(np.float64)
        look = None if self.alone else self._look(order.look, w, order.b)
        caution = np.ones(len(w)) if self.caution is None else self.caution
        if self.n_threads > 1:
            self.crew = self.crew or Crew(self.states, self.n_threads, self.rng)
            found = self.crew.visit(order, caution)
        else:
            found = self._in_turn(order, caution)
        step = self._step(order, *found)
        if self.alone:
            b = order.b + order.response * step.balance
            look = self._look(order.look, w + found[0], b)
        return replace(step, look=look)

    def _look(self, n: int, w: Array, b: float) -> Look | None:
        """The gap at these weights, by so many rows of either kind."""
        if n == 0:
            return None
        each = -(-n // len(self.states))
        looks = [state.descent.look(self.rng, each, w, b) for state in self.states]
        return Look(
            sum(look.active.gap for look in looks), sum(look.resting.gap for look in looks),
            sum(look.active.error**2 + look.resting.error**2 for look in looks),
        )  # fmt: skip

    def _in_turn(self, order: Order, caution: Array) -> tuple[Array, int, int]:
        """The blocks one after the other: their steps in sum, visits, and rows inside."""
        w = order.w.astype(np.float64)
        step, own = np.zeros(len(w)), np.zeros(len(w))
        b, balance, first, left = order.b, order.balance, order.first, order.epochs
        visits = inside = 0
        while left > 1e-9:
            share = min(1.0, left)
            for state in self.states:
                own[:] = 0.0
                done = state.descent.visit(
                    self.rng, order.bucket, share, w, b, order.response, own, balance, first
                )
                step += own
                w += caution * own
                b += caution[-1] * order.response * done.balance
                balance += caution[-1] * done.balance
                visits, inside = visits + done.visits, inside + done.inside
                first = first and first.after(done.visits)
            left -= share
        return step, visits, inside

    def _step(self, order: Order, step: Array, visits: int, inside: int) -> Step:
        moves = [state.descent.moved() for state in self.states]
        balance = sum(move.balance for move in moves)
        pushed = step**2
        pushed[-1] = balance**2
        self.apart = pushed if self.apart is None else order.memory * self.apart + pushed
        dtype = order.w.dtype
        active = sum(state.active_bytes for state in self.states)
        moving = active * sum(move.rows for move in moves) / max(1, visits)
        return Step(
            step.astype(dtype), sum(move.separable for move in moves), balance,
            sum(move.curvature for move in moves), visits, inside, active, moving, None,
            self.apart.astype(dtype) if order.tell and self.apart is not None else None,
        )  # fmt: skip


class Crew:
    """Blocks of a part that are visited at the same time, each from the weights of all.

    As the parts of a cluster among each other: each block is cautious of the others, feature by
    feature, by how much their steps pushed it the same way of late. That is of this part alone, and
    multiplies the caution that all parts have. The order of the blocks is fixed and each has random
    numbers of its own: nothing depends on which thread was first.
    """

    def __init__(self, states: list[State], n_threads: int, rng: Any) -> None:
        self.n_threads = n_threads
        self.waves = [
            states[begin : begin + n_threads] for begin in range(0, len(states), n_threads)
        ]
        self.rngs = [[_core.Rng(rng.next()) for _ in wave] for wave in self.waves]
        self.together: Array = np.empty(0)
        self.apart: Array = np.empty(0)
        self.worked = self.told = 0.0  # epochs

    def visit(self, order: Order, caution: Array) -> tuple[Array, int, int]:
        """The blocks' steps in sum, visits, and rows inside."""
        w, b, left = np.array(order.w, np.float64), order.b, order.epochs
        balance, first = order.balance, order.first
        step, visits, inside = np.zeros(len(w)), 0, 0
        if order.caution is not None or self.worked >= self.told:
            self._tell(caution)
        with Threads(self.n_threads, "bridle-part") as pool:
            while left > 1e-9:
                share = min(LOCAL, left)
                for wave, rngs in zip(self.waves, self.rngs, strict=True):
                    all_at_once = first and first._replace(at_once=first.at_once * len(wave))
                    now = partial(_visit, order, share, w, b, balance, all_at_once)
                    found = list(pool.map(now, wave, rngs))
                    change = sum(done.balance for _, done in found)
                    self._learn([own for own, _ in found])
                    for own, done in found:
                        step += own
                        w = w + caution * own
                        visits, inside = visits + done.visits, inside + done.inside
                    b += caution[-1] * order.response * change
                    balance += caution[-1] * change
                    first = first and first.after(sum(done.visits for _, done in found))
                left -= share
                self.worked += share
        return step, visits, inside

    def _learn(self, steps: list[Array]) -> None:
        if not len(self.apart):
            self.together, self.apart = np.zeros(len(steps[0])), np.zeros(len(steps[0]))
        self.together = (1 - LOCAL) * self.together + np.sum(steps, axis=0) ** 2
        self.apart = (1 - LOCAL) * self.apart + np.sum([own * own for own in steps], axis=0)

    def _tell(self, caution: Array) -> None:
        """The blocks hear how cautious they must be: often at first, then once an epoch."""
        self.told = self.worked + min(1.0, max(LOCAL, self.worked))
        most = float(self.n_threads)
        own = np.full(len(caution), most)
        if len(self.apart):
            whole = float(self.apart.sum())
            overall = float(self.together.sum()) / whole if whole > 0 else most
            own = np.full(len(caution), overall)
            np.divide(self.together, self.apart, out=own, where=self.apart > 0)
        total = caution * np.clip(own, 1.0, most)
        total[-1] = caution[-1] * most  # the bias, which all of them push
        for wave in self.waves:
            for state in wave:
                state.descent.set_caution(total)


def _visit(
    order: Order, share: float, w: Array, b: float, balance: float, first: FirstShare | None,
    state: State, rng: Any,
) -> tuple[Array, Any]:  # fmt: skip
    """A share of an epoch of a block, from these weights: its step, and what it saw."""
    own = np.zeros(len(w))
    return own, state.descent.visit(
        rng, order.bucket, share, w, b, order.response, own, balance, first
    )
