"""Decomposition for kernel machines: what SVM-light and LIBSVM do, with a certified gap.

    max_c  D(c) = sum_i [p_i c_i - tube |c_i| - 1/2 ridge_i c_i^2] - 1/2 sum_ij c_i c_j K(x_i, x_j),
    lower_i <= c_i <= upper_i  [free bias: sum_i c_i is given],

c_i = alpha_i y_i. For the hinge p = y, the box is between 0 and y_i C_i, and the rest is 0; for
regression p are the targets, and the tube is that of the epsilon-insensitive loss.

Working sets are chosen by violation and solved by pairs of second order (Joachims, "Making
large-scale SVM learning practical", 1999; Fan, Chen & Lin, "Working set selection using second
order information for training support vector machines", JMLR 2005). Rows whose variable
rests at a bound are left out.

Where the data is float32 so are the kernel values: the gradient drifts by rounding. Every
certificate sums the scores anew in float64, and the solver goes on from those: so any gap can be
reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.problems.base import KERNEL, Problem
from bridle.problems.kernel import Expansion, KernelIterate
from bridle.solvers.base import Iterates, Pace, Solver

if TYPE_CHECKING:
    from bridle.problems.kernel import KernelProblem
    from bridle.rows.cuda.gram import DeviceKernelRows
    from bridle.rows.gram import KernelSums

CACHE = 500_000_000  # bytes for kernel rows
MOST_OF_A_DEVICE = 0.8  # of its free memory


@dataclass(frozen=True)
class Smo(Solver):
    """Decomposition with working sets, shrinking and a cache of kernel rows.

    working_set: how many variables are optimised together; None: 128, or 1024 on a device.
    cache_mb: the budget for kernel rows; it must hold two of them. None: 500, or most of what a
    device has left.

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(200, seed=0)
    >>> problem = bridle.KernelProblem(X, y, C=1.0, kernel="rbf", gamma=1.0)
    >>> bridle.solve(problem, bridle.Smo(cache_mb=10)).certificate.relative_gap <= 1e-3
    True
    """

    working_set: int | None = None
    cache_mb: float | None = None

    name: ClassVar[str] = "smo"
    needs: ClassVar[frozenset[str]] = frozenset({KERNEL})
    loss_needs: ClassVar[frozenset[str]] = frozenset({"shape"})
    biases: ClassVar[tuple[str, ...]] = ("none", "regularised", "free")
    one_class: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.working_set is not None and self.working_set < 2:
            raise ValueError(f"working_set must be at least 2, got {self.working_set}")
        if self.cache_mb is not None and not self.cache_mb > 0:
            raise ValueError(f"cache_mb must be positive, got {self.cache_mb}")

    def check(self, problem: Problem) -> None:
        """Also that the cache holds two rows."""
        super().check(problem)
        needed, room = 2 * problem.n_rows * problem.dtype.itemsize, self._cache(problem)
        if room < needed:
            raise ValueError(
                f"cache_mb = {room / 1e6:g} does not hold two kernel rows: these need "
                f"{needed / 1e6:.3g} MB for {problem.n_rows} rows"
            )

    def _cache(self, problem: Any) -> int:
        """Bytes for kernel rows."""
        if self.cache_mb is not None:
            return int(self.cache_mb * 1e6)
        device = problem.device
        return CACHE if device is None else int(MOST_OF_A_DEVICE * device.free_memory())

    def _descent(self, problem: KernelProblem, alpha: Array, scores: Array) -> Any:
        """The steps, from these dual variables and their scores, and how many sets at a time."""
        free = problem.bias == "free"
        if problem.device is None:
            return 8, _core.steps.smo(
                problem.core_kernel, problem.rows.view, problem.squared_norms, *problem.dual_form,
                free, alpha * problem.y, scores, self.working_set or 128, self._cache(problem),
                problem.n_threads,
            )  # fmt: skip
        from bridle.solvers.shared.decomposition import MOST, Decomposition

        # A look at all rows costs little beside a set, and little beside many rows.
        values = cast("DeviceKernelRows", problem.values)
        return min(8, 1 + problem.n_rows // 2**14), Decomposition(
            values, problem.constant, problem.signed_cost, alpha, scores, free,
            self.working_set or MOST,
            self._cache(problem),
        )  # fmt: skip

    @staticmethod
    def _alpha(problem: KernelProblem, descent: Any) -> Array:
        """The dual variables as they are now."""
        alpha = np.empty(problem.n_rows)
        if problem.device is not None:
            descent.alpha(alpha)
            return alpha
        descent.coefficients(alpha)
        return alpha * problem.y + 0.0  # no negative zeros

    def precision(self, problem: Problem) -> np.dtype[Any]:
        """Certificates refresh the gradient in float64."""
        return np.dtype(np.float64)

    def iterates(
        self, problem: KernelProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after every few working sets."""
        alpha = problem.start_alpha(start)
        known = (alpha * problem.y, problem.expanded(Expansion(alpha * problem.y)))
        n_sets, descent = self._descent(problem, alpha, _with_bias(problem, *known))
        step = 0
        if start is not None:  # which may be good enough already
            w = Expansion(known[0])
            yield KernelIterate(
                0, 0.0, w, problem.intercept(w), alpha, problem=problem, known=known
            )
        whole_gap = np.inf  # the gap when all rows were last looked at
        exact, before = True, known[0]  # whether the gradient was exact before the last sets
        while True:
            report = descent.run(n_sets)
            step += report.steps
            negative = report.curvature < -CURVATURE[problem.dtype.name]
            if negative and problem.may_be_indefinite and problem.indefinite is None:
                problem.found_indefinite(
                    f"two of its rows have the relative squared distance {report.curvature:.3g}"
                )
            alpha = self._alpha(problem, descent)
            w = Expansion(alpha * problem.y)
            size = max(abs(report.dual + report.gap), abs(report.dual))
            iterate = KernelIterate(
                step, step / problem.n_rows, w, problem.intercept(w), alpha,
                gap_estimate=report.gap / size if size > 0 else None,
                problem=problem, known=known,
            )  # fmt: skip
            certificate = yield iterate
            if exact and report.stuck and np.array_equal(w.coefficients, before):
                return
            before = w.coefficients
            exact = certificate is not None or report.stuck
            if exact:
                known = (w.coefficients, iterate.sums)
                descent.refresh(_with_bias(problem, *known))
                whole_gap = report.gap
            elif report.gap <= 0.02 * whole_gap:
                descent.unshrink()
                whole_gap = report.gap


# Relative squared distances below minus this are not rounding.
CURVATURE = {"float32": 1e-4, "float64": 1e-9}


def _with_bias(problem: KernelProblem, coefficients: Any, sums: KernelSums) -> Any:
    """The scores under the kernel that solvers see: with the constant of a regularised bias."""
    return sums.values + problem.constant * float(coefficients.sum())
