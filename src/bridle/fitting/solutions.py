"""The solutions of several problems, and what is kept of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bridle.matrix.arrays import Array
from bridle.models.deciding import MultiClass
from bridle.objective.certificate import Certificate, total
from bridle.solving.solution import Solution
from bridle.solving.stopping import Status

# From the worst to the best: the whole has the worst status of its parts.
_SEVERITY = (
    Status.INFEASIBLE, Status.INTERRUPTED, Status.BUDGET, Status.STALLED, Status.SEPARATED,
    Status.CONVERGED,
)  # fmt: skip


@dataclass(frozen=True)
class Solutions:
    """The solutions of all problems, in the order of the decision functions."""

    solutions: tuple[Solution, ...]
    multi_class: MultiClass

    @property
    def coef(self) -> Array:
        """One row of weights per decision function: a single one for two classes."""
        return np.vstack([solution.w for solution in self.solutions])

    @property
    def intercept(self) -> Array:
        """One intercept per decision function."""
        return np.array([solution.b for solution in self.solutions])

    @property
    def certificate(self) -> Certificate:
        """Of the sum of all problems."""
        return total([solution.certificate for solution in self.solutions])

    @property
    def worst_index(self) -> int:
        """Of the solution that ended worst: by status, then by gap."""
        ranks = [(_SEVERITY.index(s.status), -s.certificate.relative_gap) for s in self.solutions]
        return ranks.index(min(ranks))

    @property
    def worst(self) -> Solution:
        """The solution that ended worst."""
        return self.solutions[self.worst_index]

    @property
    def status(self) -> Status:
        """The worst of the statuses."""
        return self.worst.status

    @property
    def epochs(self) -> float:
        """The most that any problem took."""
        return max(solution.epochs for solution in self.solutions)


@dataclass(frozen=True)
class JointSolution(Solutions):
    """The one solution of all classes, whose w is the table (feature, class)."""

    n_classes: int
    constant: float  # the value of the constant feature, the last of the table; 0 if none

    @property
    def table(self) -> Array:
        """One row of weights per class, with that of the constant feature."""
        table: Array = self.solutions[0].w.reshape(-1, self.n_classes).T
        return table[1:] - table[:1] if self.n_classes == 2 else table

    @property
    def coef(self) -> Array:
        """One row per class; for two classes the difference of the second and the first."""
        table = self.table
        return np.ascontiguousarray(table[:, :-1] if self.constant else table)

    @property
    def intercept(self) -> Array:
        """One per row of `coef`."""
        if not self.constant:
            return np.zeros(1 if self.n_classes == 2 else self.n_classes)
        return self.table[:, -1] * self.constant


class Weights:
    """Takes the weights out of solutions as they are found: never in memory twice.

    sparse: only those that are not 0, for a CSR matrix.
    """

    def __init__(self, n_functions: int, n_features: int, *, sparse: bool) -> None:
        self._shape, self._sparse = (n_functions, n_features), sparse
        self._table = np.empty((0, 0)) if sparse else np.empty(self._shape)
        self._indices, self._values = np.empty(0, np.int32), np.empty(0)
        self._ends = [0]
        self._waiting: dict[int, Array] = {}  # for those of the functions before them
        self._lock = threading.Lock()

    def take(self, k: int, solution: Solution) -> Solution:
        """Keep the weights here; the rest of the solution goes on without them."""
        if not self._sparse:
            self._table[k] = solution.w
        else:
            with self._lock:
                self._waiting[k] = solution.w
                while (following := len(self._ends) - 1) in self._waiting:
                    self._append(self._waiting.pop(following))
        return replace(solution, w=None)

    def _append(self, w: Array) -> None:
        stored = np.flatnonzero(w)
        begin, end = self._ends[-1], self._ends[-1] + len(stored)
        if end > len(self._values):  # in place, where the system moves pages instead of bytes
            for array in (self._indices, self._values):
                array.resize(max(end, 3 * len(array) // 2), refcheck=False)
        self._indices[begin:end], self._values[begin:end] = stored, w[stored]
        self._ends.append(end)

    def coef(self) -> Any:
        """All of them, once."""
        if not self._sparse:
            return self._table
        from scipy.sparse import csr_matrix

        for array in (self._indices, self._values):
            array.resize(self._ends[-1], refcheck=False)
        ends: Any = np.asarray(self._ends, np.int64 if self._ends[-1] >= 2**31 else np.int32)
        return csr_matrix((self._values, self._indices, ends), shape=self._shape, copy=False)
