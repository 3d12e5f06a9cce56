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

from collections import deque
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
from bridle.rows.cluster.local import PartsLostError
from bridle.rows.cluster.price import message_bytes, worthwhile_work
from bridle.rows.cluster.run import visit_all
from bridle.solvers.base import Iterates, Pace, Solver

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem
    from bridle.rows.cluster.messages import Step
    from bridle.rows.cluster.run import ClusterRun

Array = np.typing.NDArray[np.float64]


@dataclass(frozen=True)
class Cocoa(Solver):
    """Dual coordinate descent by parts, for rows that are spread over machines.

    work: epochs that a part works on its own rows between two exchanges. Little is what saves
    epochs, much is what saves exchanges. None: so many that messages are a quarter of the time, by
    a model (see `bridle.rows.cluster.price`), but no more than one. From zero, the first round is
    an epoch.
    gather: once the rows that still move are no more to send than so many rounds, they are solved
    in one place; 0: never.
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


class Rounds:
    """On all parts or, once few rows move, on these rows in one place."""

    def __init__(self, solver: Cocoa, run: ClusterRun, rng: _core.Rng) -> None:
        self.run, self.rng, self.bucket = run, rng, solver.bucket
        self.work = min(1.0, worthwhile_work(run)) if solver.work is None else solver.work
        self.caution = Caution(len(run.parts), len(run.w) + 1, self.work)
        self.seen = _Seen(self.work, run)
        self.first = run.first_share()
        # Rows of other losses seldom rest, and their targets would have to come with them.
        most = solver.gather if run.sides.loss.quadratic else 0.0
        self.here = Gathered(run, most * message_bytes(run))
        # Rounds until the next look at how many rows still move: from zero, all do for an epoch.
        self.patience = self.seen.per_epoch if run.start is None else 0
        # That look is worth its pass once the rows that do not rest weigh no more than this.
        self.active, self.few = 0.0, np.inf

    def one(self) -> tuple[int, float | None]:
        """Visits, and a guess at the gap."""
        done = self.gathered()
        if done is not None:
            return done
        return self.learn(self.run.visit(self.caution.news(), **self.share))

    @property
    def share(self) -> dict[str, Any]:
        """What a part is to do in a round."""
        epochs = self.work if self.first is None else 1.0
        return {"epochs": epochs, "bucket": self.bucket, "first": self.first}

    def gathered(self) -> tuple[int, float | None] | None:
        """A round on the rows that still move, in one place; None if it is not time for one."""
        if self.patience <= 0 and self.here.most_bytes > 0 and self.active <= self.few:
            if self.here.fetch():
                visits = self.here.solve(self.rng, self.bucket)
                self.run.sides.report.gathered += 1
                return visits, self.seen.known(self.here.gap, self.run)
            self.patience = self.seen.per_epoch
            self.few = self.active / max(1.0, self.here.too_many)
        return None

    def learn(self, steps: list[Step]) -> tuple[int, float | None]:
        """From the answers to a round."""
        visits, line = sum(one.visits for one in steps), Line.along(self.run, steps)
        self.active = sum(one.active for one in steps)
        if self.first is not None:
            # Steps for a dual with other costs are taken as they are, and say little of later ones.
            self.first = None
            self.run.move(1.0, line.step, line.balance)
            self.run.bias.recentre(self.run.sigma(self.run.n_useful // 10))
            return visits, np.inf
        self.patience -= 1
        self.run.move(line.eta, line.step, line.balance)
        self.caution.learn(line)
        return visits, self.seen.add(steps, self.run)


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
        orders = [own.run.order(own.caution.news(), **own.share) for own in mine]
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
    apart: Array  # sum_k dw_k^2, of each feature and, last, of the balance

    @classmethod
    def along(cls, run: ClusterRun, steps: list[Step]) -> Line:
        """D(eta) = D + eta g - eta^2/2 h is exact, with the bias held near its centre."""
        summed = np.zeros(len(run.w) + 1)
        apart = np.zeros(len(run.w) + 1)
        for one in steps:  # in the order of the parts, whoever answered first
            own = one.step.astype(np.float64)
            summed += own
            apart += own * own
            apart[-1] += one.balance**2
        balance = sum(one.balance for one in steps)
        length, response = inner(summed, summed), float(run.bias.response)
        h = length + sum(one.curvature for one in steps) + response * balance**2
        rise = sum(one.separable for one in steps) - inner(run.w, summed[:-1]) - 0.5 * length
        rise -= run.b * balance + 0.5 * response * balance**2
        eta = min(1.0, max(0.0, (rise + 0.5 * h) / h)) if h > 0 else 1.0
        return cls(summed, balance, eta, apart)


class Caution:
    """S: how much the parts pushed each weight, and the bias, the same way in the last epoch."""

    def __init__(self, n_parts: int, size: int, work: float) -> None:
        self.n_parts = n_parts
        self.together, self.apart = np.zeros(size), np.zeros(size)
        self.memory = 1 - min(work, 0.5)  # an epoch's
        self.per_epoch = max(1, round(1 / work))
        self.round = self.next = 0

    def news(self) -> Array | None:
        """What the parts are to be told: often at first, then after each epoch; None in between.

        It is as long as w, and takes them a pass over their rows.
        """
        if self.round < self.next:
            return None
        self.next = self.round + min(max(1, self.round), self.per_epoch)
        if self.round == 0:
            return np.full(len(self.apart), float(self.n_parts))
        total = float(self.apart.sum())
        overall = float(self.together.sum()) / total if total > 0 else float(self.n_parts)
        unseen = np.full(len(self.apart), overall)
        ratio = np.divide(self.together, self.apart, out=unseen, where=self.apart > 0)
        return np.asarray(np.clip(ratio, 1.0, float(self.n_parts)))

    def learn(self, line: Line) -> None:
        """From a round."""
        self.round += 1
        self.together = self.memory * self.together + line.step**2
        self.together[-1] += line.balance**2
        self.apart = self.memory * self.apart + line.apart


class _Seen:
    """The relative gap, guessed from what the parts saw on their way through the last epoch.

    They see it against weights of their own, which suit their own rows: the truth may be larger.
    Certificates say by how much.
    """

    def __init__(self, work: float, run: ClusterRun) -> None:
        self.per_epoch = max(1, round(1 / work))
        self.gaps: deque[float] = deque(maxlen=self.per_epoch)
        self.inside: deque[int] = deque(maxlen=self.per_epoch)
        self.rounds = 0
        self.correction = 1.0
        self.memory = 1 - 0.3 * min(work, 1.0)
        # From zero, as good as P(0); a start may be anywhere, and only a certificate knows.
        self.primal = run.zero_primal if run.start is None else np.inf
        self.guess = np.inf

    def add(self, steps: list[Step], run: ClusterRun) -> float | None:
        self.gaps.append(sum(one.gap for one in steps))
        self.inside.append(sum(one.inside for one in steps))
        self.rounds += 1
        if self.rounds % self.per_epoch == 0:
            run.bias.recentre(run.sigma(sum(self.inside)))
        if not np.isfinite(self.primal):
            return None
        if len(self.gaps) < self.per_epoch:
            return np.inf if run.start is None else None
        self.correction **= self.memory  # what a certificate showed was of that time
        self.guess = (max(0.0, sum(self.gaps)) + float(run.bias.gap)) / self.primal
        return self.correction * self.guess

    def known(self, gap: float, run: ClusterRun) -> float | None:
        """The same, where the gap of all rows is known at the very point."""
        if not np.isfinite(self.primal):
            return None
        self.guess = (max(0.0, gap) + float(run.bias.gap)) / self.primal
        return self.guess

    def learn(self, certificate: Any) -> None:
        self.primal = certificate.primal
        if 0 < self.guess < np.inf:
            # And a little more, or the last hundredth of the way would take many certificates.
            found = 1.05 * certificate.relative_gap / self.guess
            self.correction = min(20.0, max(0.5, found))
