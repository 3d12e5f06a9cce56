"""Stochastic subgradient methods in the space of a kernel: pegasos, sgd, norma.

    min_f  lam/2 |f|^2 + 1/m sum_i c_i max(0, 1 - y_i (f(x_i) + b)),   lam = 1/(m C);

step t draws k rows A_t and sets

    f <- (1 - eta_t lam) f + (eta_t/k) sum_{i in A_t, y_i (f(x_i) + b) < 1} c_i y_i K(x_i, .)

 - pegasos: eta_t = 1/(lam t): f is then 1/(lam t) times counts of how often each row was in error
   (Shalev-Shwartz, Singer, Srebro & Cotter, "Pegasos", Mathematical Programming 2011, figure 3).
 - sgd: eta_t = eta0/(1 + lam eta0 t) (Bottou, "Stochastic gradient descent tricks", 2012).
 - norma: eta_t = eta0, terms older than `window` steps are dropped: their coefficients have decayed
   (Kivinen, Smola & Williamson, "Online learning with kernels", 2004). As in norma.py.

f is a combination of rows with alpha_i = y_i coefficient_i >= 0: a dual point for free, clipped to
the box by the problem. A step costs the kernel of its rows against all support rows.

A free bias takes steps of its own, at `bias_rate` times eta_t; at Pegasos's, which begin with
1/lam, these would only shake it: there it is held within an epoch and chosen between epochs, as in
the linear form (`held_bias`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.objective.bias import held_bias
from bridle.problems.base import KERNEL
from bridle.problems.kernel import Expansion, KernelIterate
from bridle.solvers.base import Iterates, Solver, steps_until_yield
from bridle.solvers.norma import decay_of, lifetime

if TYPE_CHECKING:
    from bridle.problems.kernel import KernelProblem

# Products of two such numbers neither overflow nor underflow.
FARTHEST = 1e150

Pace = Callable[..., int | None]
Sampling = Literal["epochs", "iid", "without-replacement"]


@dataclass(frozen=True)
class _KernelSteps(Solver):
    """What the three share. batch: rows in a step. sampling: as in the linear Pegasos."""

    batch: int = 1
    sampling: Sampling = "epochs"

    needs: ClassVar[frozenset[str]] = frozenset({KERNEL})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    bias_rate: ClassVar[float] = 0.0  # of a free bias, relative to eta

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")
        if self.sampling not in ("epochs", "iid", "without-replacement"):
            raise ValueError(f"unknown sampling {self.sampling!r}")

    def check(self, problem: Any) -> None:
        """Also that its steps are numbers."""
        super().check(problem)
        check_range(self.name, problem)
        scale, offset, _ = self.rate(problem)
        if not (0.0 < scale < math.inf and 0.0 < offset < math.inf):
            raise ValueError(_out_of_range(self.name, problem))

    def rate(self, problem: KernelProblem) -> tuple[float, float, float]:
        """(scale, offset, power) of eta_t = scale / (t + offset)^power, t from 0."""
        raise NotImplementedError

    def radius(self, problem: KernelProblem) -> float:
        """The ball to project onto."""
        return math.inf

    def window(self, problem: KernelProblem) -> int:
        """How many steps a term lives; 0 is for ever."""
        return 0

    def iterates(
        self,
        problem: KernelProblem,
        *,
        start: Any = None,
        rng: _core.Rng,
        pace: Pace | None = None,
    ) -> Iterates:
        """One iterate after each epoch's worth of steps, or sooner if the pace asks for it."""
        batch = min(self.batch, problem.n_rows)
        per_epoch = max(1, problem.n_rows // batch)
        c = problem.start_alpha(start) * problem.y
        squared_norm, warm, scores = 0.0, 0, np.zeros(problem.n_rows)
        if start is not None:
            scores = problem.expand(Expansion(c))
            # It counts as an epoch: at t = 1 the step would forget where it came from.
            warm = per_epoch
            squared_norm = float(c @ scores) + problem.constant * float(c.sum()) ** 2
        signed_weight = np.copysign(problem.sample_weight, problem.y)
        steps = _core.steps.kernel_sgd(
            problem.core_kernel, problem.rows.view, problem.squared_norms, signed_weight, c,
            squared_norm, warm, problem.lam,
            *self.rate(problem), self.bias_rate if problem.bias == "free" else 0.0,
            self.radius(problem), batch, self.sampling, self.window(problem), problem.n_threads,
        )  # fmt: skip
        step, holds = 0, problem.bias == "free" and not self.bias_rate
        while True:
            n = steps_until_yield(pace, step, per_epoch - step % per_epoch, batch)
            if holds and step % per_epoch == 0:
                balance = (warm + step) / per_epoch * float(c.sum())
                steps.bias = held_bias(problem.loss, problem.y, problem.cost, scores, -balance)
            steps.run(n, rng)
            step += n
            steps.coefficients(c)
            w = Expansion(c)
            b = steps.bias if problem.bias == "free" else problem.intercept(w)
            iterate = KernelIterate(
                step, step * batch / problem.n_rows, w, b, c * problem.y, problem=problem
            )
            yield iterate
            if holds and step % per_epoch == 0:
                scores = iterate.scores


@dataclass(frozen=True)
class KernelPegasos(_KernelSteps):
    """Steps of 1/(lam t). project: onto the ball |f| <= 1/sqrt(lam) that holds the optimum.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(200, seed=0)
    >>> problem = bridle.KernelProblem(X, y, C=1.0, kernel="rbf", gamma=1.0)
    >>> solution = bridle.solve(problem, bridle.KernelPegasos(batch=10), stop=bridle.Gap(0.01))
    >>> solution.certificate.relative_gap <= 0.01
    True
    """

    project: bool = False

    name: ClassVar[str] = "pegasos"

    def rate(self, problem: KernelProblem) -> tuple[float, float, float]:  # noqa: D102
        return 1.0 / problem.lam, 1.0, 1.0

    def radius(self, problem: KernelProblem) -> float:  # noqa: D102
        return math.sqrt(problem.loss.squared_radius(problem.cost)) if self.project else math.inf


@dataclass(frozen=True)
class KernelSgd(_KernelSteps):
    """Steps of eta0/(1 + lam eta0 t); eta0=None is 1 / the mean of K(x, x).

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(200, seed=0)
    >>> problem = bridle.KernelProblem(X, y, C=1.0, kernel="rbf", gamma=1.0)
    >>> solution = bridle.solve(problem, bridle.KernelSgd(), stop=bridle.Gap(0.01))
    >>> solution.certificate.relative_gap <= 0.01
    True
    """

    eta0: float | None = None

    name: ClassVar[str] = "sgd"
    bias_rate: ClassVar[float] = 0.01

    def rate(self, problem: KernelProblem) -> tuple[float, float, float]:  # noqa: D102
        eta0 = _first_rate(self.eta0, problem)
        return 1.0 / problem.lam, 1.0 / (problem.lam * eta0), 1.0


@dataclass(frozen=True)
class KernelNorma(_KernelSteps):
    """Steps of eta0 over a window of terms.

    eta0=None is 1 / the mean of K(x, x), at most 1/(2 lam). memory: how many steps a term lives;
    None is until a thousandth of it is left. A short memory bounds the cost of a step.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(200, seed=0)
    >>> problem = bridle.KernelProblem(X, y, C=1.0, kernel="rbf", gamma=1.0)
    >>> solution = bridle.solve(problem, bridle.KernelNorma(), stop=bridle.Epochs(10))
    >>> solution.certificate.relative_gap < 0.9
    True
    """

    eta0: float | None = None
    memory: int | None = None

    name: ClassVar[str] = "norma"
    converges: ClassVar[bool] = False
    bias_rate: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory is not None and self.memory < 1:
            raise ValueError(f"memory must be at least 1 step, got {self.memory}")

    def rate(self, problem: KernelProblem) -> tuple[float, float, float]:  # noqa: D102
        return self._decay(problem) / problem.lam, 1.0, 0.0

    def window(self, problem: KernelProblem) -> int:  # noqa: D102
        return lifetime(self._decay(problem)) if self.memory is None else self.memory

    def _decay(self, problem: KernelProblem) -> float:
        return decay_of(_first_rate(self.eta0, problem), problem.lam)


def check_range(name: str, problem: KernelProblem) -> None:
    """ValueError where the first step, or what it does to |f|^2, is no number of float64."""
    with np.errstate(over="ignore"):
        reach = problem.n_rows * problem.C * np.float64(problem.sample_weight.max())
        longest = reach**2 * (problem.values.accuracy.size.max() ** 2 + problem.constant)
    if not (FARTHEST**-1 <= problem.n_rows * problem.C <= FARTHEST and longest <= FARTHEST**2):
        raise ValueError(_out_of_range(name, problem))


def _out_of_range(name: str, problem: KernelProblem) -> str:
    return (
        f"the steps of {name} are out of float64's range for C = {problem.C:g} and kernel values "
        f"of about {float(problem.diagonal.mean()):.3g}: scale the features, or choose smo"
    )


def _first_rate(eta0: float | None, problem: KernelProblem) -> float:
    if eta0 is not None:
        if not (eta0 > 0 and math.isfinite(eta0)):
            raise ValueError(f"eta0 must be positive and finite, got {eta0}")
        return eta0
    mean = float(problem.diagonal.mean()) + problem.constant
    return 1.0 / mean if mean > 0 else 1.0
