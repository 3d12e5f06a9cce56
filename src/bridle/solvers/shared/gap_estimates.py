"""Free guesses at the gap of dual coordinate descent, to time certificates by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bridle import _core

# From so many rows on, some that are drawn show how far it is: of fewer, too few would be drawn.
MANY_ROWS = 2**14


def relative_to(dual: float, gap: float) -> float:
    """What a gap is a part of: P or, where both are below 0, |D|."""
    return dual + gap if dual + gap > 0 else abs(dual)


class ByDrawing:
    """The gap as rows show it that are drawn at random, several times in an epoch."""

    MOST = 4096

    def __init__(self, n_rows: int) -> None:
        self.most = min(self.MOST, n_rows // 16)
        self.n = min(1024, self.most)
        self.visits = 0
        self.correction = 1.0
        self.guess: float | None = None
        self.whole_gap = np.inf  # when all rows were last looked at
        self.others = 0.0  # what those at rest cost then, and two standard errors

    def share(self, descent: Any) -> float:
        """How much of an epoch to do before the next look."""
        return 0.25 if descent.n_active >= MANY_ROWS else 1.0

    def look(self, descent: Any, done: Any, rng: _core.Rng) -> float | None:
        """The gap and two standard errors, when that is cheap; wakes rows when it is time to."""
        self.visits += done.visits
        few = self.visits < 16 * self.n and not done.whole and descent.n_active > 0
        if few and self.guess is not None:
            return self.guess
        self.visits = 0
        drawn = descent.sample(rng, self.n)
        if descent.n_active == 0:  # all rest, and only the bias moves until they are woken
            descent.unshrink()
        elif done.whole:
            self.whole_gap, self.others = drawn.gap, 0.0
        elif drawn.gap <= 0.5 * self.whole_gap:
            self._look_at_the_others(descent, drawn, rng)
        size = relative_to(done.dual, drawn.gap)
        estimate = self.correction * (drawn.gap + 2 * drawn.error + self.others)
        self.guess = estimate / size if 0 < size < np.inf else None
        if drawn.gap > 0:  # the next time as many as show the gap to a tenth or so
            self.n = int(np.clip(self.n * (12 * drawn.error / drawn.gap) ** 2, 512, self.most))
        return self.guess

    def _look_at_the_others(self, descent: Any, drawn: Any, rng: _core.Rng) -> None:
        """Do the rows that rest still do so rightly, now that the active ones are accurate?"""
        found = descent.sample_resting(rng, self.MOST)
        self.others, self.whole_gap = found.gap + 2 * found.error, drawn.gap
        if self.others > drawn.gap:
            descent.unshrink()

    def learn(self, gap: float) -> None:
        """What the gap was, by a certificate: more than was drawn if rows rest that should not."""
        if self.guess:
            self.correction = min(10.0, max(1.0, self.correction * gap / self.guess))


class ByVisits:
    """The gap as the visits of an epoch saw it."""

    def __init__(self, warm: bool) -> None:
        """warm: the run does not start from zero, and its first epoch is like the others."""
        self.estimate = GapEstimate(first=1.0) if warm else GapEstimate()
        self.whole_gap = np.inf  # when all rows were last visited

    def share(self, descent: Any) -> float:
        """How much of an epoch to do before the next look."""
        return 1.0

    def look(self, descent: Any, done: Any, rng: _core.Rng) -> float | None:
        """The gap after this epoch; wakes rows when it is time to look at them."""
        if done.whole:
            self.whole_gap = done.gap
        if descent.n_active == 0 or (not done.whole and done.gap <= 0.1 * self.whole_gap):
            # The active rows are a good deal more accurate than when the others were last looked
            # at: time to see whether those still rest at their bounds.
            descent.unshrink()
        size = relative_to(done.dual, done.gap)
        return self.estimate.after(done.gap / size) if 0 < size < np.inf else None

    def learn(self, gap: float) -> None:
        """What the gap was, by a certificate."""
        self.estimate.learn(gap)


class GapEstimate:
    """The relative gap after an epoch, guessed from what its visits saw on their way.

    Most of that is seen early in it: the end is the best part of an epoch further, at the present
    rate. The first epoch sees each row before it has learned from it, and a quarter of that is
    left. Certificates show how far off all that is. (All measured, on texts.)
    """

    def __init__(self, first: float = 0.25, rates: Sequence[float] = ()) -> None:
        """first: what is left of what the first epoch saw; rates: epochs ahead, after the next."""
        self.seen = np.inf
        self.guess = np.inf
        self.correction = 1.0
        self.factor = first
        self.rates = list(rates)
        self.tells = True  # whether what this guess is off says something of the next ones

    def after(self, seen: float) -> float:
        """The guess, after an epoch that saw this."""
        seen = max(seen, 0.0)  # rounding may make the sum negative at the optimum
        if 0 < self.seen < np.inf:
            self.tells = not self.rates
            ahead = self.rates.pop(0) if self.rates else 0.65
            self.factor = min(1.0, seen / self.seen) ** ahead
        self.guess = seen * self.factor
        self.factor = 1.0
        self.seen = seen
        return self.correction * self.guess

    def learn(self, gap: float) -> None:
        """What the gap is, by a certificate."""
        if self.guess > 0 and self.tells:
            self.correction = min(10.0, max(0.2, gap / self.guess))
