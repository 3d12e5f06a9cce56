"""SVM-light's bound on the leave-one-out error, from one training run.

Joachims, "Estimating the generalization performance of an SVM efficiently" (ICML 2000): a row can
only be misclassified when it is left out if

    2 alpha_i R^2 + xi_i >= 1,     xi_i = max(0, 1 - y_i (s_i + b)),

where R^2 bounds the spread of the kernel: c <= K(x, x') <= c + R^2 for all x, x'. So the share of
such rows bounds the leave-one-out error. It holds for the optimum; an approximate solution gives an
approximate bound. A row of weight v counts v times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bridle.problems.kernel import KernelProblem
    from bridle.solving.solution import Solution


def kernel_spread(problem: KernelProblem) -> float:
    """R^2: an upper bound on the difference of any two kernel values."""
    if problem.gram is not None:
        return float(problem.gram.max()) - float(problem.gram.min())
    return problem.kernel.spread(problem.diagonal)


def xi_alpha_bound(problem: KernelProblem, solution: Solution) -> float:
    """The xi-alpha estimate: an upper bound on the leave-one-out error."""
    scores = solution.w.scores  # a by-product of the certificate
    if scores is None:
        scores = problem.expand(solution.w)
    slack = np.maximum(0.0, 1.0 - problem.y * (scores + solution.b))
    doubtful = 2.0 * solution.alpha * kernel_spread(problem) + slack >= 1.0
    weight = problem.sample_weight
    return float(weight[doubtful].sum() / weight.sum())
