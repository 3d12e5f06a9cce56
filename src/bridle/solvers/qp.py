"""The slack form, handed to a quadratic programming library: the reference for small data.

    min_{w, b, xi}  1/2 |w|^2 + sum_i C_i xi_i   [squared hinge: sum_i C_i xi_i^2]
    subject to      y_i (w.x_i + b) + xi_i >= 1,   xi_i >= 0;

the hard margin has no xi. The multipliers of the first constraints are the dual point alpha.
Solved by Clarabel, an interior-point method (Goulart & Chen, "Clarabel: an interior-point solver
for conic programs with quadratic objectives", 2024), which takes the data as a sparse matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from bridle import _core
from bridle.objective.point import Iterate
from bridle.problems.base import Problem
from bridle.solvers.base import Iterates, Pace, Solver

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


@dataclass(frozen=True)
class QuadraticProgramme(Solver):
    """An interior-point method of a library, on the whole problem at once.

    max_rows: more than this are refused, since time and memory would be out of proportion.
    accuracy: the library's own tolerance.

    Examples
    --------
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(50, seed=0), C=0.1)
    >>> solution = bridle.solve(problem, bridle.QuadraticProgramme(), stop=bridle.Gap(1e-8))
    >>> solution.certificate.relative_gap <= 1e-8
    True
    """

    max_rows: int = 20_000
    accuracy: float = 1e-10

    name: ClassVar[str] = "qp"
    float64: ClassVar[bool] = True
    loss_needs: ClassVar[frozenset[str]] = frozenset({"quadratic"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    hard_margin: ClassVar[bool] = True

    def check(self, problem: Problem) -> None:
        """Also that the data is small, and that the library is there."""
        super().check(problem)
        if problem.n_rows > self.max_rows:
            raise ValueError(
                f"qp is for small data: {problem.n_rows} rows are more than max_rows = "
                f"{self.max_rows}; use dcd or newton"
            )
        _library()

    def iterates(
        self, problem: LinearProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate: the solution. A start is of no use to an interior-point method."""
        solution = self._solve(problem)
        width = problem.n_features + (problem.bias == "regularised")
        x = np.array(solution.x)
        joined = np.zeros(problem.n_features + 1)
        joined[:width] = x[:width]
        used = np.flatnonzero(problem.cost > 0)
        alpha = np.zeros(problem.n_rows)
        alpha[used] = np.maximum(np.array(solution.z)[: len(used)], 0.0)
        alpha = np.minimum(alpha, problem.upper)
        free_bias = float(x[width]) if problem.bias == "free" else 0.0
        if not np.isfinite(x).all():
            # Infeasible, for the hard margin: the multipliers are what there is.
            joined, free_bias = np.zeros_like(joined), 0.0
        yield Iterate(1, 1, *problem.split(joined, free_bias), alpha)

    def _solve(self, problem: LinearProblem) -> Any:
        import scipy.sparse as sp

        clarabel = _library()
        used = np.flatnonzero(problem.cost > 0)
        y, cost, m = problem.y[used], problem.cost[used], len(used)
        X = sp.csr_array(problem.X[used], dtype=np.float64)
        blocks: list[Any] = [sp.diags_array(y) @ X]
        if problem.bias != "none":
            constant = problem.bias_scale if problem.bias == "regularised" else 1.0
            blocks.append(sp.csr_array((constant * y)[:, np.newaxis]))
        quadratic = [np.ones(problem.n_features)]
        if problem.bias != "none":
            quadratic.append(np.array([1.0 if problem.bias == "regularised" else 0.0]))
        linear = np.zeros(sum(map(len, quadratic)))
        squared, hard = problem.loss.smooth, problem.hard_margin
        if not hard:
            blocks.append(sp.eye_array(m, format="csr"))
            quadratic.append(2.0 * cost if squared else np.zeros(m))
            linear = np.append(linear, np.zeros(m) if squared else cost)
        # A v + s = r with s >= 0.
        A: Any = -sp.hstack(blocks, format="csr")
        r = -np.ones(m)
        if not (hard or squared):
            nothing: Any = sp.csr_array((m, len(linear) - m))
            A = sp.vstack([A, sp.hstack([nothing, -sp.eye_array(m)])])
            r = np.append(r, np.zeros(m))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.accuracy
        P = sp.diags_array(np.concatenate(quadratic), format="csc")
        cones = [clarabel.NonnegativeConeT(len(r))]
        return clarabel.DefaultSolver(P, linear, A.tocsc(), r, cones, settings).solve()


def _library() -> Any:
    try:
        import clarabel
    except ImportError as error:
        raise ImportError("the solver qp needs clarabel: pip install 'bridle[qp]'") from error
    return clarabel
