"""Budgeted Pegasos: kernel Pegasos with at most B support vectors.

The steps are those of kernel Pegasos, f <- (1 - 1/t) f + c_i y_i K(x_i, .)/(lam t) on a margin
error. When a step makes B + 1 support vectors, one goes (Wang, Crammer & Vucetic, "Breaking the
curse of kernelization: budgeted stochastic gradient descent for large-scale SVM training",
JMLR 2012):

 - removal: the one of smallest coefficient is dropped;
 - projection: it is dropped, and the rest take over what they can: K_rest d = K(rest, it) c;
 - merging (rbf): it and another of its sign become one point z = h a + (1 - h) b on the line
   between them, with c_z = c_a K(a, z) + c_b K(b, z), chosen to lose the least of
   |c_a phi(a) + c_b phi(b)|. With k = K(a, b): K(a, z) = k^((1-h)^2), and
   K(z, x) = K(a, x)^h K(b, x)^(1-h) / k^(h(1-h)), so no kernel value is computed anew.

A step costs B kernel values, for ever. f does not tend to the optimum: the budget costs accuracy,
and the certificate shows how much. Its dual point is that of the unbudgeted run: counts of margin
errors. A free bias is held within an epoch, and chosen between epochs: see `held_bias`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from bridle import _core
from bridle.matrix.arrays import Array
from bridle.matrix.door import is_sparse
from bridle.objective.bias import held_bias
from bridle.objective.kernels.rbf import Rbf
from bridle.objective.losses import inner
from bridle.problems.base import KERNEL
from bridle.problems.kernel import Expansion, KernelIterate
from bridle.rows.gram import kernel_matrix
from bridle.solvers.base import Iterates, Pace, Solver, steps_until_yield
from bridle.solvers.kernel_stochastic import check_range

if TYPE_CHECKING:
    from bridle.problems.kernel import KernelProblem

MAINTENANCE = ("removal", "projection", "merging")
AHEAD = 64  # rows whose kernel values are computed together


@dataclass(frozen=True)
class BudgetedPegasos(Solver):
    """Kernel Pegasos within a budget of support vectors.

    budget: the most support vectors. maintenance: "removal", "projection" or "merging".

    Examples
    --------
    >>> X, y = bridle.data.make_corpus(200, seed=0)
    >>> problem = bridle.KernelProblem(X, y, C=1.0, kernel="rbf", gamma=1.0)
    >>> stop = bridle.Epochs(5)
    >>> found = bridle.solve(problem, bridle.BudgetedPegasos(budget=20), stop=stop, keep="final")
    >>> int((found.w.coefficients != 0).sum())
    20
    """

    budget: int = 200
    maintenance: Literal["removal", "projection", "merging"] = "removal"

    name: ClassVar[str] = "budgeted-pegasos"
    needs: ClassVar[frozenset[str]] = frozenset({KERNEL})
    biases: ClassVar[tuple[str, ...]] = ("none", "free")
    converges: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.budget < 2:
            raise ValueError(f"budget must be at least 2, got {self.budget}")
        if self.maintenance not in MAINTENANCE:
            raise ValueError(
                f"maintenance must be one of {', '.join(MAINTENANCE)}, got {self.maintenance!r}"
            )

    def check(self, problem: Any) -> None:
        """Also that vectors can be merged."""
        super().check(problem)
        if self.maintenance == "merging" and not isinstance(problem.kernel, Rbf):
            raise ValueError(f"merging needs the rbf kernel, not {problem.kernel.name}")
        check_range(self.name, problem)

    def iterates(
        self, problem: KernelProblem, *, start: Any = None, rng: _core.Rng, pace: Pace = None
    ) -> Iterates:
        """One iterate after each epoch, or sooner if the pace asks for it."""
        m = problem.n_rows
        run = _Run(problem, self.budget, self.maintenance)
        order, free = np.empty(m, np.int64), problem.bias == "free"
        step, scores = 0, np.zeros(m)
        while True:
            if step % m == 0:
                rng.permutation(order)
                if free:
                    balance = inner(run.counts * problem.cost, problem.y)
                    run.b = held_bias(problem.loss, problem.y, problem.cost, scores, -balance)
            n = steps_until_yield(pace, step, m - step % m)
            for begin in range(step, step + n, AHEAD):
                end = min(begin + AHEAD, step + n)
                run.steps(order[begin % m : begin % m + end - begin])
            step += n
            iterate = KernelIterate(
                step, step / m, run.expansion(), run.b, run.counts * problem.cost * m / step,
                problem=problem,
            )  # fmt: skip
            yield iterate
            if free and step % m == 0:
                scores = iterate.scores


class _Run:
    """The support vectors: coefficients (times `scale`), kernel values among them, and where."""

    def __init__(self, problem: KernelProblem, budget: int, maintenance: str) -> None:
        self.problem, self.budget, self.maintenance = problem, budget, maintenance
        room = budget + 1
        self.t, self.b = 0, 0.0
        self.size = 0
        self.scale = 1.0
        self.c = np.zeros(room)
        self.K = np.zeros((room, room))
        self.ahead = np.zeros((room, AHEAD))  # kernel values against the rows that come next
        self.rows = np.full(room, -1)
        merging = maintenance == "merging"
        self.centres = np.zeros((room, problem.n_features)) if merging else None
        self.counts = np.zeros(problem.n_rows)

    def steps(self, order: Any) -> None:
        """One step for each row of `order`."""
        problem, n = self.problem, len(order)
        among = self._look_ahead(order)
        signed = problem.y[order] * problem.sample_weight[order] / problem.lam
        for k in range(n):
            score = self.scale * float(self.c[: self.size] @ self.ahead[: self.size, k])
            self.t += 1
            self.scale *= 1.0 - 1.0 / self.t
            if self.scale == 0.0:  # the first step forgets everything
                self.size, self.scale = 0, 1.0
            if problem.y[order[k]] * (score + self.b) >= 1.0:
                continue
            self.counts[order[k]] += 1.0
            self._add(order, k, signed[k] / (self.t * self.scale), among)
            if self.size > self.budget:
                getattr(self, "_" + self.maintenance)(int(np.abs(self.c[: self.size]).argmin()))

    def expansion(self) -> Expansion:
        """f, over the problem's rows where the support vectors are such."""
        c = self.scale * self.c[: self.size]
        if self.centres is not None:
            centres = self.centres[: self.size].astype(self.problem.dtype)
            return Expansion(c, centres if self.size else None)
        coefficients = np.zeros(self.problem.n_rows)
        np.add.at(coefficients, self.rows[: self.size], c)
        return Expansion(coefficients)

    def _look_ahead(self, order: Any) -> Array:
        problem, size, n = self.problem, self.size, len(order)
        if problem.gram is not None:
            self.ahead[:size, :n] = problem.gram[np.ix_(self.rows[:size], order)]
            return np.asarray(problem.gram[np.ix_(order, order)], np.float64)
        X, kernel, threads = problem.X[order], problem.kernel, problem.n_threads
        if size:
            at = self.centres[:size] if self.centres is not None else problem.X[self.rows[:size]]
            self.ahead[:size, :n] = kernel_matrix(kernel, X, at, threads).T
        return kernel_matrix(kernel, X, X, threads)

    def _add(self, order: Any, k: int, amount: float, among: Array) -> None:
        row, size, n = order[k], self.size, len(order)
        again = np.flatnonzero(self.rows[:size] == row)
        if len(again):
            self.c[again[0]] += amount
            return
        self.c[size], self.rows[size] = amount, row
        self.K[size, :size] = self.K[:size, size] = self.ahead[:size, k]
        self.K[size, size] = among[k, k]
        self.ahead[size, :n] = among[k]
        if self.centres is not None:
            x = self.problem.X[[row]]
            self.centres[size] = (x.toarray() if is_sparse(x) else x)[0]
        self.size += 1

    def _drop(self, a: int) -> None:
        """The last support vector takes the place of a."""
        last = self.size - 1
        self.c[a], self.rows[a] = self.c[last], self.rows[last]
        self.K[a, :] = self.K[last, :]
        self.K[:, a] = self.K[:, last]
        self.K[a, a] = self.K[last, last]
        self.ahead[a] = self.ahead[last]
        if self.centres is not None:
            self.centres[a] = self.centres[last]
        self.size = last

    def _removal(self, a: int) -> None:
        self._drop(a)

    def _projection(self, a: int) -> None:
        rest = np.delete(np.arange(self.size), a)
        among = self.K[np.ix_(rest, rest)]
        among = among + 1e-8 * float(among.diagonal().mean()) * np.eye(len(rest))
        self.c[rest] += np.linalg.solve(among, self.K[rest, a] * self.c[a])
        self._drop(a)

    def _merging(self, a: int) -> None:
        size, c = self.size, self.c
        partners = np.flatnonzero((c[:size] * c[a] > 0) & (np.arange(size) != a))
        if len(partners) == 0:
            self._drop(a)
            return
        h = np.linspace(0.0, 1.0, 41)
        k = np.maximum(self.K[a, partners], 1e-300)[:, None]
        merged = c[a] * k ** ((1 - h) ** 2) + c[partners][:, None] * k ** (h**2)
        lost = c[a] ** 2 + c[partners] ** 2 + 2 * c[a] * c[partners] * k[:, 0]
        p, best = np.unravel_index(int((lost[:, None] - merged**2).argmin()), merged.shape)
        self._merge(a, int(partners[p]), float(h[best]), float(merged[p, best]))

    def _merge(self, a: int, b: int, h: float, amount: float) -> None:
        """b becomes h a + (1 - h) b, and a goes."""
        assert self.centres is not None
        k = max(float(self.K[a, b]), 1e-300)
        for values in (self.K, self.ahead):
            x, y = np.maximum(values[a], 1e-300), np.maximum(values[b], 1e-300)
            values[b] = x**h * y ** (1 - h) / k ** (h * (1 - h))
        self.K[:, b] = self.K[b]
        self.K[b, b] = 1.0
        self.centres[b] = h * self.centres[a] + (1 - h) * self.centres[b]
        self.c[b], self.rows[b] = amount, -1
        self._drop(a)
