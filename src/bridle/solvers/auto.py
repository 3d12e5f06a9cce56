"""The default: the solver that suits the problem.

Small problems go to the interior point method, which is exact, and to newton's where rounding ends
that early or the loss is another one than the hinge or its square. All others start with dual
coordinate descent: a feasible dual point at every moment and the fastest certified convergence on
sparse data, with every bias and loss; but smooth losses of few features, for which newton needs a
handful of steps, are newton's at once. dcd crawls where features are few and C is large. Newton's
method does not mind either, but costs as much as a dozen passes whatever the problem. Where dcd is
sure to take longer than that, newton begins, too. Elsewhere dcd is watched: once it has taken
as many passes as newton would, or its present rate says that it is going to take more, newton takes
over from where dcd is. That is never much more than twice the better of the two.

Structural problems go to block-coordinate Frank-Wolfe; those of ranking, whose oracle passes are
cheap, and those of few weights to cutting planes, whose number of passes hardly minds how badly the
features are scaled. The hard margin of a structural problem is n-slack's.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from bridle.objective.point import Iterate
from bridle.problems.base import CLASSES, ORACLE, WEIGHTS, Problem
from bridle.rows.base import DESCENT, PASSES, STEPS
from bridle.solvers import solver_class, solver_from
from bridle.solvers.base import Iterates, Pace, Solver
from bridle.solvers.dcd import MUCH_IN_COMMON, DualCoordinateDescent, uncompiled_refusal
from bridle.solvers.shared.lagrangian import sampled

if TYPE_CHECKING:
    from bridle._core import Rng
    from bridle.objective.certificate import Certificate
    from bridle.problems.linear import LinearProblem
    from bridle.problems.multinomial import MultinomialProblem
    from bridle.structured.problem import StructuredBase

# The interior point method takes problems of at most so many multiplications a step, a few
# milliseconds, and so many entries: it copies the rows into a dense matrix.
SMALL = 2**24
SMALL_ENTRIES = 2**20

# Newton's method forms its matrix for at most so many features.
FEW_FEATURES = 2000

# Passes of dcd until a relative gap of 1e-3, where features are few and costs are not tiny.
USUAL_PASSES = 9

# Newton steps on a small problem, at most, and the relative gap that counts as none.
MOST_STEPS, EXACT = 60, 1e-13

# Structural problems of at most so many weights go to cutting planes.
FEW_WEIGHTS = 1000


@dataclass(frozen=True)
class Auto(Solver):
    """Chooses the solver by the problem, whose rows are in memory or on a GPU."""

    name: ClassVar[str] = "auto"
    needs: ClassVar[frozenset[str]] = frozenset({WEIGHTS, DESCENT, PASSES})
    loss_needs: ClassVar[frozenset[str]] = DualCoordinateDescent.loss_needs
    biases: ClassVar[tuple[str, ...]] = DualCoordinateDescent.biases
    hard_margin: ClassVar[bool] = True
    one_class: ClassVar[bool] = True

    @classmethod
    def refusal(cls, problem: Problem) -> str | None:
        """What dcd refuses, too."""
        return super().refusal(problem) or uncompiled_refusal(cls.name, problem)

    def choose(self, problem: Any) -> Solver:
        """The solver for this problem."""
        exact = _exact(problem)
        if exact is not None:
            return exact
        stiff = _is_stiff if STEPS not in problem.offers else _is_quick
        return solver_from("newton") if stiff(problem) else DualCoordinateDescent()

    def together(self, problem: LinearProblem, codes: Any, n: int, seed: int) -> Any:
        """By dcd; a class in which that crawls goes on alone, with newton."""
        descents = self.choose(problem).together(problem, codes, n, seed)
        if descents is not None and newton_fits(problem):
            descents.watches = [_Watch(newton_passes(problem)) for _ in range(n)]
            descents.followed_by = _dcd_then_newton
        return descents

    def side_by_side(self, problems: Sequence[LinearProblem], seed: int) -> Any:
        """By the method that is chosen."""
        return self.choose(problems[0]).side_by_side(problems, seed)

    def called(self, problem: Problem, last: Any) -> str:
        """With the method that the run has ended with."""
        return f"{self.name} ({last.solver or self.choose(problem).name})"

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """The chosen solver's iterates; from dcd to newton where that is faster."""
        chosen = self.choose(problem)
        iterates = chosen.iterates(problem, start=start, rng=rng, pace=pace)
        if chosen.name == "newton":
            exact = _exact(problem) is not None
            yield from _to_the_last_digit(iterates) if exact else iterates
        elif not isinstance(chosen, DualCoordinateDescent):
            last = yield from _to_the_end(iterates)
            # Still asked: rounding ended it early. newton minds less how features are scaled.
            yield from _counted_on(last, solver_from("newton").iterates(problem, rng=rng))
        elif newton_fits(problem):
            watch = _Watch(newton_passes(problem))
            yield from _dcd_then_newton(iterates, problem, watch, rng)
        else:
            yield from iterates


@dataclass(frozen=True)
class AutoStructured(Solver):
    """Chooses the solver of a structural problem."""

    name: ClassVar[str] = "auto"
    needs: ClassVar[frozenset[str]] = frozenset({ORACLE})
    hard_margin: ClassVar[bool] = True

    def choose(self, problem: Any) -> Solver:
        """The solver for this problem; the others need not be loaded."""
        if problem.hard_margin:
            return solver_from("n-slack")
        few = problem.n_features <= FEW_WEIGHTS
        return solver_from("one-slack" if few or problem.cheap_cuts else "bcfw")

    def called(self, problem: Problem, last: Any) -> str:
        """With the method that was chosen."""
        return f"{self.name} ({self.choose(problem).name})"

    def iterates(
        self, problem: StructuredBase, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """The chosen solver's iterates."""
        yield from self.choose(problem).iterates(problem, start=start, rng=rng, pace=pace)


@dataclass(frozen=True)
class AutoMultinomial(Solver):
    """Newton's method for all classes together; of small problems to the last digit."""

    name: ClassVar[str] = "auto"
    float64: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({CLASSES})
    loss_needs: ClassVar[frozenset[str]] = frozenset()
    biases: ClassVar[tuple[str, ...]] = DualCoordinateDescent.biases

    def called(self, problem: Problem, last: Any) -> str:
        """With the method's name."""
        return f"{self.name} (newton)"

    def iterates(
        self, problem: MultinomialProblem, *, start: Any = None, rng: Rng, pace: Pace = None
    ) -> Iterates:
        """newton's iterates."""
        newton = solver_class("newton", problem.offers)()
        iterates = newton.iterates(problem, start=start, rng=rng, pace=pace)
        small = problem.n_rows * problem.n_features <= SMALL_ENTRIES
        yield from _to_the_last_digit(iterates, EXACT**1.5) if small else iterates


Passed = Generator[Iterate, "Certificate | None", Iterate]


def _to_the_end(iterates: Iterates) -> Passed:
    """All iterates; returns the last one."""
    last = next(iterates)
    while True:
        answer = yield last
        try:
            last = iterates.send(answer)
        except StopIteration:
            return last


def _dcd_then_newton(
    iterates: Iterates, problem: LinearProblem, watch: _Watch, rng: Rng
) -> Iterates:
    last = yield from _while_it_runs(iterates, problem, watch)
    newton = solver_from("newton")
    yield from _counted_on(last, newton.iterates(problem, start=last, rng=rng))


def _to_the_last_digit(iterates: Iterates, exact: float = EXACT) -> Iterates:
    """newton's, from where no digit is left to gain: what a direct method would have said.

    exact: the relative gap, a square of what is wrong with the weights, from which one more step
    has all digits; where steps are found but nearly, they take more of them.
    """
    best = next(iterates)
    for last in iterates:
        if (last.gap_estimate or 0.0) < (best.gap_estimate or 0.0):
            best = last
        if last.step >= MOST_STEPS or (last.gap_estimate or 0.0) <= exact:
            break
    yield best
    yield from iterates


def _while_it_runs(iterates: Iterates, problem: LinearProblem, watch: _Watch) -> Passed:
    """dcd's iterates until it crawls; returns the last one."""
    last = next(iterates)
    while not watch.crawls(last.step / problem.n_rows, last.gap_estimate):
        last = iterates.send((yield last))
    yield last
    return last


def _counted_on(last: Iterate, iterates: Iterates) -> Iterates:
    """Newton's iterates, counted on from the last one of its predecessor."""
    following = next(iterates)
    while True:
        answer = yield replace(
            following, step=last.step + following.step, epoch=last.epoch + following.epoch,
            solver="newton",
        )  # fmt: skip
        try:
            following = iterates.send(answer)
        except StopIteration:
            return


def _exact(problem: Any) -> Solver | None:
    """The method for a problem that is small."""
    if problem.n_rows * problem.n_features > SMALL_ENTRIES:
        return None
    from bridle.solvers.interior_point import InteriorPoint, operations

    if operations(problem) > SMALL:
        return None
    exact = InteriorPoint() if problem.loss.quadratic else solver_from("newton")
    return exact if exact.refusal(problem) is None else None


def _is_stiff(problem: LinearProblem) -> bool:
    """On a GPU: whether rows get in each other's way so much that newton's passes are cheaper.

    They do where features are few, and wherever costs are large; but the hinge takes newton many
    more steps than its square (measured on texts and on covtype).
    """
    reach = problem.C * problem.rows.mean_norm
    return bool((reach >= 1 and newton_fits(problem)) or (reach >= 30 and problem.loss.smooth))


def _is_quick(problem: LinearProblem) -> bool:
    """Whether newton's few steps cost less than the passes that dcd takes."""
    if not newton_fits(problem):
        return False
    usual = USUAL_PASSES if problem.loss.smooth else 0
    price = newton_passes(problem)
    return price <= usual or price < dcd_passes(problem)


def dcd_passes(problem: LinearProblem) -> float:
    """What dcd takes to a usual gap where rows have much in common, in passes; else 0, unknown.

    (Measured on a9a, ijcnn1, covtype and scans of digits: within a factor of two, from 5 passes to
    200.)
    """
    if problem.rows.overlap < MUCH_IN_COMMON:
        return 0.0
    squared_hinge = problem.loss.quadratic and problem.loss.smooth
    reach = float(problem.cost.mean()) * float(problem.squared_norms.mean())
    return (12.0 if squared_hinge else 2.0) * reach


def newton_fits(problem: LinearProblem) -> bool:
    """Whether newton's matrix, features by features, is small."""
    if problem.n_features > FEW_FEATURES or problem.hard_margin:
        return False
    return solver_class("newton").refusal(problem) is None


def newton_passes(problem: LinearProblem) -> float:
    """What newton costs altogether, in passes of dcd: measured, about 14 steps.

    Of a smooth loss, 4 on top of those on a sample, or 8 where there is none. A step reads the
    rows several times, forms sum x x' over the rows near the margin, at several multiplications in
    the time of one scattered read, and factorises it.
    """
    nnz, d = max(1, problem.rows.nnz), problem.n_features
    step = 6 * nnz + 0.09 * nnz * (nnz / problem.n_rows) + d**3 / 30
    smooth = 4 if sampled(problem) else 8
    return float((smooth if problem.loss.smooth else 14) * step / (4 * nnz))


@dataclass
class _Watch:
    """Judges dcd by its estimates of the gap."""

    price: float  # of the alternative, in passes
    goal: float = 1e-3  # a usual gap: the alternative is weighed by the way to it
    history: list[tuple[float, float]] = field(default_factory=list)  # passes, log of the gap

    def crawls(self, passes: float, estimate: float | None) -> bool:
        """Whether the way ahead is longer than the alternative's."""
        if estimate is None or not 0 < estimate < math.inf:
            return False
        self.history.append((passes, math.log(estimate)))
        if passes < max(min(8.0, 0.5 * self.price), 0.125 * self.price):  # too early to tell
            return False
        return passes > self.price or self._ahead() > self.price

    def _ahead(self) -> float:
        """Passes to the goal at the rate of the last half of the way."""
        passes, now = self.history[-1]
        before, then = next((p, g) for p, g in self.history if p >= passes / 2)
        if passes == before:
            return 0.0
        rate = (then - now) / (passes - before)
        left = now - math.log(self.goal)
        return math.inf if rate <= 0 < left else left / rate if left > 0 else 0.0
