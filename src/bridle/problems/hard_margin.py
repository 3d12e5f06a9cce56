"""A proof that data cannot be separated (Gordan's theorem).

Either some w has w.z_i > 0 for every row, or some alpha >= 0 that is not zero has
sum_i alpha_i z_i = 0; never both. With a free bias the second alternative also asks for
sum_i alpha_i y_i = 0. A hard-margin solver's dual variables grow without bound exactly in the
second case, on rows among which such a combination can be found: that is done here. A combination
that is zero but for rounding proves nothing, as rows (1e6, 1e-7) and (1e6, -1e-7) of different
labels show, which w = (0, 1e7) separates: only one that is exactly zero is believed. What is
returned are its weights, each rounded to the nearest number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.matrix.blas import one_blas_thread
from bridle.matrix.door import is_sparse
from bridle.problems.exact import Exact, combination_of_zero
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridle.problems.linear import LinearProblem


SUSPICION = 0.1  # |sum alpha z| relative to sum alpha |z| that makes it worth looking for a proof
INDEPENDENT = 1e-8  # the smallest eigenvalue of unit rows' Gram matrix that is no rounding
NEAR = 1e-6  # a sum of mean rows that may turn out to be 0 once its last digits are right
NEGLIGIBLE = 1e-9  # a weight, relative to the largest, that may be none
ROWS = (64, 512)  # how many rows to look among
ENTRIES = 2e7  # of the matrix of those rows, at most


def infeasibility_proof(problem: LinearProblem, alpha: Array) -> Array | None:
    """alpha >= 0 with sum 1 and sum_i alpha_i z_i = 0, or None if none is found.

    It is that of an exact combination, whose weights are rounded only when they are returned.
    alpha: where a hard-margin solver is; the proof is looked for among its largest entries.
    """
    used = problem.cost > 0
    lengths = np.sqrt(problem.squared_norms)
    if problem.bias == "none":
        for i in np.flatnonzero(used & (lengths == 0)).tolist():
            if not abs(problem.X[[i]]).max():
                # A row of zeros has margin 0 whatever w is.
                return np.where(np.arange(problem.n_rows) == i, 1.0, 0.0)
    if not alpha.any() or _imbalance(problem, alpha, lengths) > SUSPICION:
        return None
    order = np.argsort(-alpha * lengths, kind="stable")
    order = order[(alpha > 0)[order] & used[order]]
    if len(order) == 0:  # alpha is no number
        return None
    for n in ROWS:
        chosen = np.sort(order[:n])
        with one_blas_thread():
            weights = _combination_of_zero(problem, chosen)
        if weights is not None:
            proof = np.zeros(problem.n_rows)
            proof[chosen] = weights
            return proof
        if n >= len(order):
            break
    return None


def contradiction(
    psi: Any, losses: Array, exact: Callable[[NDArray[np.int64]], Exact | None]
) -> Array | None:
    """Weights >= 0 with sum 1, sum_c weight_c psi_c = 0 and sum_c weight_c loss_c > 0.

    No w has w.psi_c >= loss_c for all c then (Farkas's lemma). psi: sparse rows. exact: the rows of
    some of the constraints without rounding, or None if they are not known. None if none is found.
    """
    if not (losses > 0).any():
        return None
    columns = np.unique(psi.indices)
    if len(columns) * len(losses) > ENTRIES:
        return None
    Z = psi[:, columns].toarray()
    with one_blas_thread():
        weights = _nearly_zero(Z, losses / losses.max())
    if weights is None:
        return None
    weights = _exactly_zero(weights, exact)
    return weights if weights is not None and losses[weights > 0].any() else None


def _nearly_zero(Z: Array, amounts: Array) -> Array | None:
    """Weights >= 0 with sum_i weight_i amount_i = 1 that come close to sum_i weight_i z_i = 0."""
    from scipy.optimize import nnls

    # Columns are conditions, whose units do not matter.
    sizes = np.abs(Z).max(axis=0)
    system = np.vstack([(Z / np.where(sizes > 0, sizes, 1.0)).T, amounts])
    target = np.zeros(len(system))
    target[-1] = 1.0
    try:
        weights, distance = nnls(system, target)
    except RuntimeError:  # too many iterations
        return None
    support = np.flatnonzero(weights)
    if distance > NEAR or not len(support):
        return None
    # Once more on the rows that it chose: the last digits.
    weights[support] = np.linalg.lstsq(system[:, support], target, rcond=None)[0]
    return np.maximum(weights, 0.0)


def _exactly_zero(
    weights: Array, exact: Callable[[NDArray[np.int64]], Array | Exact | None]
) -> Array | None:
    """The weights of an exact combination of the rows that have weight, or of the main ones."""
    for least in (0.0, NEGLIGIBLE * float(weights.max())):
        support = np.flatnonzero(weights > least)
        rows = exact(support) if len(support) else None
        found = None if rows is None else combination_of_zero(rows, weights[support])
        if found is not None:
            result = np.zeros(len(weights))
            result[support] = found
            return result
    return None


def _imbalance(problem: LinearProblem, alpha: Array, lengths: Array) -> float:
    """|sum alpha z| / sum alpha |z|; with a free bias |sum alpha y| / sum alpha, if larger."""
    w = np.empty(problem.n_features + 1)
    problem.rows.combine(alpha * problem.y, w)
    imbalance = float(np.linalg.norm(w)) / max(float(alpha @ lengths), 1e-300)
    if problem.bias == "free":
        imbalance = max(imbalance, abs(float(alpha @ problem.y)) / float(alpha.sum()))
    return imbalance


def _combination_of_zero(problem: LinearProblem, chosen: NDArray[np.int64]) -> Array | None:
    """Nonnegative weights of the chosen rows with sum 1 and, exactly, a sum of zero."""
    if _independent(problem, chosen):
        return None
    Z = _signed_rows(problem, chosen)
    if Z is None:
        return None
    if problem.bias == "free":
        Z = np.hstack([Z, problem.y[chosen][:, np.newaxis]])
    weights = _nearly_zero(Z, np.ones(len(chosen)))
    return None if weights is None else _exactly_zero(weights, Z.__getitem__)


def _independent(problem: LinearProblem, chosen: NDArray[np.int64]) -> bool:
    """Whether the rows are clearly linearly independent, as those of texts are: a quick no."""
    part: Any = problem.X[chosen].astype(np.float64)
    gram: Any = part @ part.T
    gram = gram.toarray() if is_sparse(gram) else gram
    # Labels only change signs. A free bias is, for this question, a constant feature of 1.
    gram += {"none": 0.0, "regularised": problem.bias_scale**2, "free": 1.0}[problem.bias]
    length = np.sqrt(np.diag(gram))
    if not (length.min() > 1e-150 and np.isfinite(gram).all()):  # under- or overflow: not clear
        return False
    return bool(np.linalg.eigvalsh(gram / np.outer(length, length))[0] > INDEPENDENT)


def _signed_rows(problem: LinearProblem, chosen: NDArray[np.int64]) -> Array | None:
    """z_i of the chosen rows without the columns where all are zero; None if that is too large."""
    part: Any = problem.X[chosen]
    if is_sparse(part):
        columns = np.unique(part.indices)
        if len(columns) * len(chosen) > ENTRIES:
            return None
        part = part[:, columns].toarray()
    Z = np.asarray(part, np.float64)
    if problem.bias == "regularised":
        Z = np.hstack([Z, np.full((len(Z), 1), problem.bias_scale)])
    signed: Array = Z * problem.y[chosen][:, np.newaxis]
    return signed
