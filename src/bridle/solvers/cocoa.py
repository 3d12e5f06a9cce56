"""CoCoA+: dual coordinate descent on many machines at once.

    max_alpha  D(alpha) = sum_i alpha_i - 1/2 |w(alpha)|^2 [- sum_i alpha_i^2 / (4 C_i)],

K parts hold the rows and their alpha. In a round each part visits some of its rows, from the
weights w of all, as if each of its steps counted several times (the others are stepping, too):

    G = z_i.(w + S dw_k) - 1 + alpha_i D_ii,   alpha_i -= G / (z_i.S z_i + D_ii), clipped,

and sends dw_k = sum d_alpha_i z_i. Then w += eta sum_k dw_k (Ma, Smith, Jaggi, Jordan, Richtarik &
Takac, "Adding vs. averaging in distributed primal-dual optimization", ICML 2015, where S is a
number, sigma', and with eta = 1 the number K is safe). Here the dual along the summed step is known
exactly, D + eta g - eta^2/2 h, and eta = min(1, g/h): any S is safe. Past 1 some row would leave
its box.

S is diagonal, and measured: of each feature j, (sum_k dw_kj)^2 / sum_k dw_kj^2 says how much the
parts pushed its weight the same way of late, from 1 (not at all) to K (all of them). With these
the parts' models add up to the curvature that the summed step really had. One number for all
features would be that of the frequent ones, on which most parts agree, and hold back the many rare
ones, which only one part has at a time.

Once the rows that still move are few, they are copied to one place and solved there, with the
others where they are (see `bridle.rows.cluster.gathered`).

The first epoch from zero is dcd's, in one round: a part sees a sample of all rows, and while the
others do as it does, its own weights times m/t are about those of all.

The bias is the proximal point method's, as in dcd, shared by all parts like w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.losses import inner
from bridle.objective.point import Iterate
from bridle.problems.base import WEIGHTS
from bridle.rows.base import ROUNDS
from bridle.rows.cluster.gathered import Gathered
from bridle.rows.cluster.links import joined
from bridle.rows.cluster.messages import PartsLostError
from bridle.rows.cluster.price import message_bytes, worthwhile_work
from bridle.rows.cluster.run import visit_all
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.shared.gap_estimates import relative_to

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem
    from bridle.rows.cluster.messages import Look, Step
    from bridle.rows.cluster.run import ClusterRun

Array = np.typing.NDArray[np.float64]

# Rounds after which twice as many rows are gathered, and so on; at most so many times as many.
PATIENT, MOST_TIMES = 32, 8.0


@dataclass(frozen=True)
class Cocoa(Solver):
    """Dual coordinate descent by parts, for rows that are spread over machines.

    work: epochs that a part works on its own rows between two exchanges. Little is what saves
    epochs, much is what saves exchanges. None: so many that messages are a quarter of the time, by
    a model (see `bridle.rows.cluster.price`), but no more than one. From zero, the first round is
    an epoch.
    gather: once the rows that still move are no more to send than so many rounds, and as many
    again for every 32 rounds that were taken, they are solved in one place; 0: never.
    bucket: as in dcd.

    Examples
    --------
    >>> from bridle.rows.cluster.local import LocalParts  # on a cluster: bridle.DaskRows
    >>> rows = LocalParts(*bridle.data.make_corpus(500, seed=0), 2)
    >>> solution = bridle.solve(bridle.DistributedProblem(rows, C=0.1), bridle.Cocoa(work=0.5))
    >>> solution.certificate.relative_gap <= 1e-3
    True
    """

    work: float | None = None
    gather: float = 8.0
    bucket: int = 32

    name: ClassVar[str] = "cocoa"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, ROUNDS})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"core", "certifiable"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")

    def __post_init__(self) -> None:
        if self.work is not None and not 0 < self.work < np.inf:
            raise ValueError(f"work must be positive and finite, got {self.work}")
        if not 0 <= self.gather < np.inf:
            raise ValueError(f"gather must be finite and not negative, got {self.gather}")
        if self.bucket < 1:
            raise ValueError(f"bucket must be at least 1, got {self.bucket}")

    def side_by_side(self, problems: Sequence[LinearProblem], seed: int) -> ClassRounds:
        """Their messages are shared."""
        return ClassRounds(self, problems, seed)

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each round."""
        run = problem.sides.begin(start, rng.below(2**31))
        rounds = Rounds(self, run, rng)
        step = 0
        while True:
            try:
                visits, estimate = rounds.one()
            except PartsLostError as lost:  # what was measured is of another time
                run.recover(lost)
                rounds = Rounds(self, run, rng)
                continue
            step += visits
            certificate = yield Iterate(
                step, step / run.n_useful, run.w, run.b, gap_estimate=estimate
            )
            if certificate is not None:
                rounds.seen.learn(certificate)


# Rows that all parts draw in a round, to see how far it is: one for so many visits, at most so many
# and at least so many.
DRAWN, MOST_DRAWN, LEAST_DRAWN = 16, 4096, 1024
# Epochs of a part that is alone until it is looked at how far it is, as in dcd.
ALONE = 0.25


class Rounds:
    """On all parts or, once few rows move, on these rows in one place."""

    def __init__(self, solver: Cocoa, run: ClusterRun, rng: _core.Rng) -> None:
        self.run, self.rng, self.bucket = run, rng, solver.bucket
        self.work, self.seen = solver.work, Seen(run)
        self.caution = Caution(len(run.parts), len(run.w) + 1)
        self.first = run.first_share()
        self.epochs = 1.0  # of the round at hand
        # Rows of other losses seldom rest, and their targets would have to come with them. One
        # part has its rows in one place.
        useful = run.sides.loss.quadratic and len(run.parts) > 1
        most = solver.gather if useful else 0.0
        self.most, self.count = most * message_bytes(run), 0
        self.here = Gathered(run, self.most)
        # Epochs until the next look at how many rows still move: from zero, all do for an epoch.
        self.patience = 1.0 if run.start is None else 0.0
        self.active = self.moving = self.whole = 0.0
        self.visits = 0  # of the last round
        self.near = 1.0  # rows that may move, for each that does, when there were too many

    def one(self) -> tuple[int, float | None]:
        """Visits, and a guess at the gap."""
        done = self.gathered()
        if done is not None:
            return done
        return self.learn(self.run.visit(**self.order()))

    def order(self) -> dict[str, Any]:
        """What a part is to do in a round."""
        self.epochs = self._epochs()
        return {
            "epochs": self.epochs, "bucket": self.bucket, "first": self.first,
            "look": self._drawn(), "wake": self.seen.wake, **self.caution.order(self.epochs),
        }  # fmt: skip

    def _drawn(self) -> int:
        """Rows that each part draws."""
        if self.first is not None:
            return 0
        wanted = int(np.clip(self.visits // DRAWN, LEAST_DRAWN, MOST_DRAWN))
        return -(-wanted // len(self.run.parts))

    def _epochs(self) -> float:
        """Of local work: more once fewer rows move, since a message costs what it did before."""
        if self.first is not None:
            return 1.0
        if self.work is not None:
            return self.work
        epochs = worthwhile_work(self.run) * self.whole / max(1.0, self.active)
        return min(1.0, max(epochs, ALONE if len(self.run.parts) == 1 else 0.0))

    def gathered(self) -> tuple[int, float | None] | None:
        """A round on the rows that still move, in one place; None if it is not time for one."""
        if not self._may_fit():
            return None
        if self.here.fetch():
            visits = self.here.solve(self.rng, self.bucket)
            self.run.sides.report.gathered += 1
            return visits, self.seen.known(self.here.gap, self.run)
        self.patience = 1.0
        self.near = self.here.needed / max(1.0, self.moving)
        return None

    def _may_fit(self) -> bool:
        """Whether a look at all rows is worth it: after a certificate it takes no pass."""
        # Nobody knows how many rounds there will be: as many again as there were, say.
        self.here.most_bytes = self.most * min(MOST_TIMES, 1 + self.count / PATIENT)
        few = self.near * self.moving <= self.here.most_bytes
        return self.most > 0 and (self.run.judged or (self.patience <= 0 and few))

    def learn(self, steps: list[Step]) -> tuple[int, float | None]:
        """From the answers to a round."""
        visits, line = sum(one.visits for one in steps), Line.along(self.run, steps)
        self.visits = visits
        self.here.forget()
        self.active = sum(one.active for one in steps)
        self.moving = sum(one.moving for one in steps)
        self.whole = max(self.whole, self.active)
        # What the first epoch did is for a dual with other costs: all the next round has to go by.
        self.caution.learn(line, self.epochs if self.first is None else 0.0)
        if self.first is not None:  # steps for a dual with other costs are taken as they are
            self.first = None
            self.run.move(1.0, line.step, line.balance, line.separable(1.0))
            self.run.bias.recentre(self.run.sigma(self.run.n_useful // 10))
            return visits, np.inf
        self.count += 1
        self.patience -= self.epochs
        self.run.move(line.eta, line.step, line.balance, line.separable(line.eta))
        return visits, self.seen.add(self.epochs, steps, self.run)


class ClassRounds:
    """Several problems on the same parts: their rounds and certificates share their messages.

    As `bridle.solvers.shared.class_descents`.
    """

    def __init__(self, solver: Cocoa, problems: Sequence[LinearProblem], seed: int) -> None:
        self.solver, self.problem, self.n = solver, problems[0], len(problems)
        self.rngs = [_core.Rng(seed) for _ in problems]
        self.runs = [
            problem.sides.begin(None, rng.below(2**31))
            for problem, rng in zip(problems, self.rngs, strict=True)
        ]
        self.problems = list(problems)
        self.rounds = self._begun()
        self.steps = [0] * self.n
        self.guesses: list[float | None] = [None] * self.n
        self.rests = [False] * self.n

    def _begun(self) -> list[Rounds]:
        pairs = zip(self.runs, self.rngs, strict=True)
        return [Rounds(self.solver, run, rng) for run, rng in pairs]

    def advance(self) -> None:
        """A round of all that do not rest."""
        while True:
            try:
                self._advance([k for k in range(self.n) if not self.rests[k]])
                return
            except PartsLostError as lost:
                for run in self.runs:
                    run.recover(lost)
                self.rounds = self._begun()

    def _advance(self, going: list[int]) -> None:
        todo = []
        for k in going:
            done = self.rounds[k].gathered()
            if done is None:
                todo.append(k)
            else:
                self._note(k, *done)
        if not todo:
            return
        mine = [self.rounds[k] for k in todo]
        orders = [own.run.order(**own.order()) for own in mine]
        for k, steps in zip(todo, visit_all([own.run for own in mine], orders), strict=True):
            self._note(k, *self.rounds[k].learn(steps))

    def _note(self, k: int, visits: int, guess: float | None) -> None:
        self.steps[k] += visits
        self.guesses[k] = guess

    def outline(self, k: int) -> Iterate:
        """Where problem k is, but for the arrays."""
        epoch = self.steps[k] / self.runs[k].n_useful
        return Iterate(self.steps[k], epoch, None, gap_estimate=self.guesses[k], solver="cocoa")

    def iterate(self, k: int) -> Iterate:
        """Where problem k is."""
        run = self.runs[k]
        return replace(self.outline(k), w=run.w.copy(), b=run.b)

    def rest(self, k: int) -> None:
        """No more rounds for problem k, for now."""
        self.rests[k] = True

    def go_on(self, k: int, certificate: Any) -> None:
        """More rounds for problem k, which has this certificate."""
        self.rounds[k].seen.learn(certificate)
        self.rests[k] = False

    def leaves(self, k: int) -> bool:
        """Nobody goes on alone: the messages are what costs."""
        return False


@dataclass(frozen=True)
class Line:
    """The parts' steps together, and how far the dual rises along them."""

    step: Array
    balance: float
    eta: float
    rest: tuple[float, float]  # see `separable`
    apart: Array | None  # what the parts have told of `Step.apart`

    def separable(self, eta: float) -> float:
        """What the dual gains so far along the step, but for w and the bias."""
        gain, curvature = self.rest
        return eta * gain + 0.5 * eta * (1 - eta) * curvature

    @classmethod
    def along(cls, run: ClusterRun, steps: list[Step]) -> Line:
        """D(eta) = D + eta g - eta^2/2 h is exact, with the bias held near its centre."""
        # In the order of the parts, whoever answered first.
        summed = joined([one.step.astype(np.float64) for one in steps])
        told = [one.apart.astype(np.float64) for one in steps if one.apart is not None]
        apart = joined(told) if told else None
        balance = sum(one.balance for one in steps)
        length, response = inner(summed, summed), float(run.bias.response)
        gain, curvature = sum(one.separable for one in steps), sum(one.curvature for one in steps)
        h = length + curvature + response * balance**2
        rise = gain - inner(run.w, summed[:-1]) - 0.5 * length
        rise -= run.b * balance + 0.5 * response * balance**2
        eta = min(1.0, max(0.0, (rise + 0.5 * h) / h)) if h > 0 else 1.0
        return cls(summed, balance, eta, (gain, curvature), apart)


class Caution:
    """S: how much the parts pushed each weight, and the bias, the same way in the last epoch.

    The parts sum the squares of what they did, and tell when they are to be told: after the first
    round, then twice as late each time, then once an epoch. It is as long as w, and takes them a
    pass over their rows.
    """

    def __init__(self, n_parts: int, size: int) -> None:
        self.n_parts = n_parts
        self.together = np.zeros(size)
        self.apart: Array | None = None
        self.worked = self.next = 0.0  # epochs

    def order(self, epochs: float) -> dict[str, Any]:
        """What the parts are to be told with a round of so many, and to tell."""
        if self.n_parts == 1:
            return {"caution": None, "memory": 0.0, "tell": False}
        news = self._news() if self.worked >= self.next else None
        tell = self.worked + epochs >= self.next
        return {"caution": news, "memory": self._memory(epochs), "tell": tell}

    def _news(self) -> Array:
        self.next = self.worked + min(self.worked, 1.0)
        if self.apart is None:
            return np.full(len(self.together), float(self.n_parts))
        total = float(self.apart.sum())
        overall = float(self.together.sum()) / total if total > 0 else float(self.n_parts)
        unseen = np.full(len(self.apart), overall)
        ratio = np.divide(self.together, self.apart, out=unseen, where=self.apart > 0)
        return np.asarray(np.clip(ratio, 1.0, float(self.n_parts)))

    def learn(self, line: Line, epochs: float) -> None:
        """From a round; the first one of all, of another dual, counts as no epochs."""
        self.together = self._memory(epochs) * self.together + line.step**2
        self.together[-1] += line.balance**2
        self.apart = self.apart if line.apart is None else line.apart
        self.worked += epochs

    def _memory(self, epochs: float) -> float:
        """How much of what was before counts after a round: an epoch's."""
        return 0.0 if self.worked == 0 else 1 - min(epochs, 0.5)


class Seen:
    """The relative gap, by the rows that the parts draw: unbiased, whatever they worked on since.

    It is that of the weights with which the round began; of one part, with which it ended.
    """

    def __init__(self, run: ClusterRun) -> None:
        self.epochs, self.inside = 0.0, 0  # since b was last set free; rows inside their boxes then
        self.correction, self.guess = 1.0, np.inf
        self.wake = False  # whether rows at rest cost more than the others

    def add(self, epochs: float, steps: list[Step], run: ClusterRun) -> float | None:
        """From a round: a guess, if one can be made."""
        self.epochs += epochs
        self.inside += sum(one.inside for one in steps)
        if self.epochs >= 1.0:
            run.bias.recentre(run.sigma(self.inside / self.epochs))
            self.epochs, self.inside = 0.0, 0
        look: Look = joined([one.look for one in steps])
        self.wake = look.resting >= look.active
        self.correction **= 1 - 0.3 * min(epochs, 1.0)  # what a certificate showed was of that time
        return self.known(look.active + look.resting + 2 * look.variance**0.5, run)

    def known(self, gap: float, run: ClusterRun) -> float | None:
        """From a gap of all rows, or of those in one place: others may be why it is larger."""
        gap = max(0.0, gap) + float(run.bias.gap)
        size = relative_to(run.dual, gap)
        if not 0 < size < np.inf:
            return None
        self.guess = gap / size
        return self.correction * self.guess

    def learn(self, certificate: Any) -> None:
        """From a certificate."""
        if 0 < self.guess < np.inf:
            # And a little more, or the last hundredth of the way would take many certificates.
            found = 1.05 * certificate.relative_gap / self.guess
            self.correction = min(20.0, max(1.0, found))
