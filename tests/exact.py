"""The judge: primal and dual values in exact rational arithmetic, for small problems.

Written from the mathematics alone, without a look at how the library comes by its certificates:
floats are dyadic rationals, so that sums and products of them are integers times a power of two.
Gauss's kernel is the only exception: `decimal` rounds its exponential correctly, to 120 digits.

A certificate is right if its primal value is no less than P at the weights that were returned, its
dual value no more than the best that the returned dual variables prove, and its gap no smaller than
what these two leave. What dual variables prove is D at the feasible points that they make: clipped
into their box; for a free bias with the heavier class scaled down; at the best common scale up to
1, or at any scale that is feasible where a claim is about another C than the one they are of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

DIGITS = Context(prec=120)
OUT_OF_BOX = Fraction(1, 10**12)  # how far rounding may push dual variables, relative to the box
LAST_BITS = Fraction(1, 2**50)  # the division that makes a gap of two values is rounded

Vector = tuple[list[int], int]  # integers, and the power of two that they are multiples of


def dyadic(values: Iterable[Any]) -> Vector:
    """Floats, or fractions whose denominators are powers of two, as integers."""
    ratios = [
        (v if isinstance(v, Fraction) else float(v)).as_integer_ratio()  # exact for float32, too
        for v in values
    ]
    bits = max((q.bit_length() - 1 for _, q in ratios), default=0)
    return [p << (bits - q.bit_length() + 1) for p, q in ratios], -bits


def fraction(value: int, exponent: int) -> Fraction:
    return Fraction(value << exponent) if exponent >= 0 else Fraction(value, 1 << -exponent)


def dot(u: Vector, v: Vector) -> Fraction:
    return fraction(sum(a * b for a, b in zip(u[0], v[0], strict=True)), u[1] + v[1])


def as_vector(w: Any) -> Vector:
    return dyadic(w.tolist() if isinstance(w, np.ndarray) else w)


def table(X: Any) -> list[list[float]]:
    return (X.toarray() if hasattr(X, "toarray") else np.asarray(X)).tolist()


def as_dyadic_rows(X: Any) -> list[Vector]:
    """Rows that are multiples of the same power of two."""
    rows = table(X)
    flat, exponent = dyadic([v for row in rows for v in row])
    n = len(rows[0])
    return [(flat[i * n : (i + 1) * n], exponent) for i in range(len(rows))]


def exponential(t: Fraction) -> Fraction:
    """exp(t) to 120 digits."""
    ratio = DIGITS.divide(Decimal(t.numerator), Decimal(t.denominator))
    return Fraction(DIGITS.exp(ratio)) if ratio > -2000 else Fraction(0)


LOSSES: dict[str, Callable[[Fraction], Fraction]] = {
    "hinge": lambda p: max(Fraction(0), 1 - p),
    "squared_hinge": lambda p: max(Fraction(0), 1 - p) ** 2,
    "perceptron": lambda p: max(Fraction(0), -p),
}


@dataclass(frozen=True)
class Along:
    """A dual point that may be scaled: D(s) = s value - s^2 half, for 0 <= s <= longest."""

    value: Fraction
    half: Fraction
    longest: Fraction | None  # None: any

    def best(self) -> Fraction | float:
        """The largest D(s)."""
        if self.value <= 0:
            return Fraction(0)
        if self.half <= 0:
            return math.inf if self.longest is None else self.longest * self.value
        s = self.value / (2 * self.half)
        if self.longest is not None:
            s = min(s, self.longest)
        return s * self.value - s * s * self.half


class Rows:
    """What linear and kernel problems share: signs, costs, losses, boxes, a bias."""

    def __init__(
        self, y: Any, C: float, loss: str = "hinge", bias: str = "none", bias_scale: float = 1.0,
        weight: Any = None, longest: int | None = 1,
    ) -> None:  # fmt: skip
        self.longest = longest  # the scale of dual points that a claim may be about; None: any
        self.y = [1 if label > 0 else -1 for label in np.asarray(y).tolist()]
        weights = [1.0] * len(self.y) if weight is None else np.asarray(weight).tolist()
        self.hard = math.isinf(C)
        self.used = [c > 0 for c in weights]
        self.cost = [Fraction(1 if self.hard else C) * Fraction(c) for c in weights]
        self.loss, self.bias, self.bias_scale = loss, bias, Fraction(bias_scale)
        self.constant = self.bias_scale if bias == "regularised" else Fraction(0)

    def scores(self, w: Any) -> list[Fraction]:
        raise NotImplementedError

    def squared_norm(self, w: Any) -> Fraction:
        raise NotImplementedError

    def inner(self, a: Vector, b: Vector) -> Fraction:
        """sum_i a_i x_i times sum_j b_j x_j, without the constant."""
        raise NotImplementedError

    def primal(self, w: Any, b: float = 0.0) -> Fraction | float:
        """P(w, b) of the numbers as they are; of a hard margin, at the scale that is feasible."""
        if not math.isfinite(b):
            return math.inf
        norm = self.squared_norm(w) + (
            (Fraction(b) / self.bias_scale) ** 2 if self.bias == "regularised" else 0
        )
        margins = [y * (s + Fraction(b)) for y, s in zip(self.y, self.scores(w), strict=True)]
        if self.hard:
            least = min(p for p, used in zip(margins, self.used, strict=True) if used)
            return norm / 2 / min(least, Fraction(1)) ** 2 if least > 0 else math.inf
        losses = (c * LOSSES[self.loss](p) for c, p in zip(self.cost, margins, strict=True) if c)
        return norm / 2 + sum(losses)

    def out_of_box(self, alpha: Any) -> float:
        """How far dual variables are out of their box, relative to its size."""
        out = Fraction(0)
        for a, u in zip(map(Fraction, np.asarray(alpha).tolist()), self._upper(), strict=True):
            beyond = max(-a, Fraction(0) if u is None else a - u)
            if beyond > 0:
                size = u or Fraction(1)
                out = max(out, beyond / size)
        return float(min(out, Fraction(10**9)))

    def dual(self, alpha: Any) -> Fraction | float:
        """The most that these dual variables prove."""
        given = [max(Fraction(a), Fraction(0)) for a in np.asarray(alpha).tolist()]
        upper = self._upper()
        clipped = [a if u is None else min(a, u) for a, u in zip(given, upper, strict=True)]
        found = self._along(clipped).best()
        return found if given == clipped else max(found, self._along(given).best())

    def separable(self) -> bool:
        """Whether some w puts every row on its side: a linear programme, solved exactly."""
        raise NotImplementedError

    def _upper(self) -> list[Fraction | None]:
        if self.hard or self.loss == "squared_hinge":
            return [None if used else Fraction(0) for used in self.used]
        return list(self.cost)

    def _along(self, alpha: list[Fraction]) -> Along:
        up = [a if y > 0 else Fraction(0) for a, y in zip(alpha, self.y, strict=True)]
        down = [a if y < 0 else Fraction(0) for a, y in zip(alpha, self.y, strict=True)]
        total_up, total_down = sum(up, Fraction(0)), sum(down, Fraction(0))
        p, q = self._shares(total_up, total_down)
        u, d = dyadic(up), dyadic(down)
        norm = p * p * self.inner(u, u) - 2 * p * q * self.inner(u, d) + q * q * self.inner(d, d)
        norm += self.constant**2 * (p * total_up - q * total_down) ** 2
        value = Fraction(0) if self.loss == "perceptron" else p * total_up + q * total_down
        scaled = [p * a + q * b for a, b in zip(up, down, strict=True)]
        half = norm / 2
        if self.loss == "squared_hinge" and not self.hard:
            rows = zip(scaled, self.cost, strict=True)
            half += sum((a * a / (4 * c) for a, c in rows if a and c), Fraction(0))
        limits = zip(scaled, self._upper(), strict=True)
        lengths = [u / a for a, u in limits if a and u is not None]
        lengths += [] if self.longest is None else [Fraction(self.longest)]
        return Along(value, half, min(lengths) if lengths else None)

    def _shares(self, up: Fraction, down: Fraction) -> tuple[Fraction, Fraction]:
        """What makes sum alpha_i y_i = 0, where a free bias asks for it."""
        if self.bias != "free":
            return Fraction(1), Fraction(1)
        least = min(up, down)
        return (least / up if up else Fraction(0), least / down if down else Fraction(0))


class Linear(Rows):
    """1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b))."""

    def __init__(self, X: Any, y: Any, C: float, **how: Any) -> None:
        super().__init__(y, C, **how)
        self.rows = as_dyadic_rows(X)

    def scores(self, w: Any) -> list[Fraction]:
        weights = as_vector(w)
        return [dot(row, weights) for row in self.rows]

    def squared_norm(self, w: Any) -> Fraction:
        weights = as_vector(w)
        return dot(weights, weights)

    def inner(self, a: Vector, b: Vector) -> Fraction:
        return dot(self._combined(a), self._combined(b))

    def _combined(self, a: Vector) -> Vector:
        sums = [0] * len(self.rows[0][0])
        for number, (row, _) in zip(a[0], self.rows, strict=True):
            if number:
                sums = [s + number * v for s, v in zip(sums, row, strict=True)]
        return sums, a[1] + self.rows[0][1]

    def separable(self) -> bool:
        columns = []
        for y, used, (row, exponent) in zip(self.y, self.used, self.rows, strict=True):
            if used:
                z = [fraction(y * v, exponent) for v in row]
                bias = {"none": [], "regularised": [y * self.bias_scale], "free": [Fraction(y)]}
                columns.append(z + bias[self.bias])
        return not in_cone(columns)


def in_cone(columns: list[list[Fraction]]) -> bool:
    """Whether some alpha >= 0 of sum 1 has sum_i alpha_i column_i = 0.

    The first phase of the simplex method, by Bland's rule, in rationals: it ends, and is exact.
    """
    n, height = len(columns), len(columns[0]) + 1
    rows = [[column[k] for column in columns] for k in range(height - 1)] + [[Fraction(1)] * n]
    tableau = [[*row, Fraction(0)] for row in rows]
    tableau[-1][-1] = Fraction(1)
    basis = [n + k for k in range(height)]  # one artificial variable for each equation
    costs = [sum(row[j] for row in tableau) for j in range(n + 1)]
    while True:
        entering = next((j for j in range(n) if costs[j] > 0 and j not in basis), None)
        if entering is None:
            return costs[-1] == 0
        ratios = [
            (row[-1] / row[entering], basis[k], k)
            for k, row in enumerate(tableau) if row[entering] > 0
        ]  # fmt: skip
        _, _, k = min(ratios)
        pivot = tableau[k][entering]
        tableau[k] = [v / pivot for v in tableau[k]]
        basis[k] = entering
        for other in (*(row for i, row in enumerate(tableau) if i != k), costs):
            factor = other[entering]
            if factor:
                other[:] = [v - factor * p for v, p in zip(other, tableau[k], strict=True)]


class Kernelled(Rows):
    """The same with K(x_i, x_j) for inner products; w is an expansion in the rows, or in others."""

    def __init__(self, X: Any, y: Any, C: float, *, kernel: Any, **how: Any) -> None:
        super().__init__(y, C, **how)
        self.kernel, self.X = kernel, table(X)
        if kernel.name == "precomputed":
            self.K = [[Fraction(v) for v in row] for row in self.X]
        else:
            self.K = self._values(self.X, self.X)

    def _values(self, A: list[list[float]], B: list[list[float]]) -> list[list[Fraction]]:
        return [[self._value(a, b) for b in B] for a in A]

    def _value(self, a: list[float], b: list[float]) -> Fraction:
        x, z = dyadic(a + b), None
        x, z = (x[0][: len(a)], x[1]), (x[0][len(a) :], x[1])
        known = {k: Fraction(v) for k, v in self.kernel.parameters.items()}
        if self.kernel.name == "rbf":
            apart = ([p - q for p, q in zip(x[0], z[0], strict=True)], x[1])
            return exponential(-known["gamma"] * dot(apart, apart))
        if self.kernel.name == "poly":
            return (known["gamma"] * dot(x, z) + known["coef0"]) ** int(known["degree"])
        assert self.kernel.name == "linear"
        return dot(x, z)

    def scores(self, w: Any) -> list[Fraction]:
        values = self.K if w.centres is None else self._values(table(w.centres), self.X)
        coefficients = list(map(Fraction, w.coefficients.tolist()))
        return [
            sum((c * row[i] for c, row in zip(coefficients, values, strict=True) if c), Fraction(0))
            for i in range(len(self.y))
        ]

    def squared_norm(self, w: Any) -> Fraction:
        coefficients = list(map(Fraction, w.coefficients.tolist()))
        centres = w.centres if w.centres is None else table(w.centres)
        values = self.K if centres is None else self._values(centres, centres)
        return form(coefficients, values, coefficients)

    def inner(self, a: Vector, b: Vector) -> Fraction:
        left, right = ([fraction(v, u[1]) for v in u[0]] for u in (a, b))
        return form(left, self.K, right)

    def definite(self) -> bool:
        """Whether K is positive semi-definite, by elimination."""
        n = range(len(self.K))
        return is_definite([[(self.K[i][j] + self.K[j][i]) / 2 for j in n] for i in n])


def form(a: Sequence[Fraction], K: list[list[Fraction]], b: Sequence[Fraction]) -> Fraction:
    """a'Kb."""
    total = Fraction(0)
    for u, row in zip(a, K, strict=True):
        if u:
            total += u * sum((v * k for k, v in zip(row, b, strict=True) if v), Fraction(0))
    return total


def is_definite(K: list[list[Fraction]]) -> bool:
    """Positive semi-definite: no negative pivot, and nothing beside a pivot of zero."""
    K = [row[:] for row in K]
    for k in range(len(K)):
        pivot = K[k][k]
        if pivot < 0 or (pivot == 0 and any(K[k][k + 1 :])):
            return False
        for i in range(k + 1, len(K)):
            factor = K[i][k] / pivot if pivot else Fraction(0)
            if factor:
                K[i] = [a - factor * b for a, b in zip(K[i], K[k], strict=True)]
    return True


class Structured:
    """1/2 |w|^2 + sum_i C_i max_y [Delta_i(y) - w.psi_i(y)]; dual variables are a mean (W, l)."""

    def __init__(self, costs: list[Fraction]) -> None:
        self.cost = costs

    def worst(self, i: int, w: Vector) -> Fraction:
        """The largest Delta - w.psi of row i."""
        raise NotImplementedError

    def primal(self, w: Any, b: float = 0.0) -> Fraction | float:
        weights = w if isinstance(w, tuple) else as_vector(w)
        losses = (cost * self.worst(i, weights) for i, cost in enumerate(self.cost) if cost)
        return dot(weights, weights) / 2 + sum(losses, Fraction(0))

    def dual(self, alpha: Any) -> Fraction | float:
        """l - 1/2 |W|^2 at its best scale up to 1; no more than P(W), as for any real mean."""
        *W, loss = np.asarray(alpha).tolist()
        vector = dyadic(W)
        along = Along(Fraction(loss), dot(vector, vector) / 2, Fraction(1))
        return min(along.best(), self.primal(vector))

    def out_of_box(self, alpha: Any) -> float:
        """A mean of outputs has no box that could be looked at."""
        return 0.0


class Outputs(Structured):
    """Every output written down: of each row pairs of (psi, Delta), with (0, 0) of the truth."""

    def __init__(
        self, rows: list[list[tuple[list[Fraction], Fraction]]], costs: list[Fraction]
    ) -> None:
        super().__init__(costs)
        self.rows = [[(dyadic(psi), delta) for psi, delta in row] for row in rows]

    def worst(self, i: int, w: Vector) -> Fraction:
        return max(delta - dot(psi, w) for psi, delta in self.rows[i])


class Pairs(Structured):
    """Of each query, max(0, 1 - w.(x_i - x_j)) for each pair in which i is to be before j.

    mean: over the pairs of a query, instead of their sum.
    """

    def __init__(
        self, X: Any, grades: Sequence[float], offsets: Sequence[int], costs: list[Fraction],
        *, mean: bool,
    ) -> None:  # fmt: skip
        super().__init__(costs)
        rows, self.queries, self.mean = as_dyadic_rows(X), [], mean
        for begin, end in pairwise(offsets):
            self.queries.append([
                ([a - b for a, b in zip(rows[i][0], rows[j][0], strict=True)], rows[i][1])
                for i in range(begin, end) for j in range(begin, end) if grades[i] > grades[j]
            ])  # fmt: skip

    def worst(self, i: int, w: Vector) -> Fraction:
        losses = [max(Fraction(0), 1 - dot(pair, w)) for pair in self.queries[i]]
        return sum(losses, Fraction(0)) / (len(losses) if self.mean and losses else 1)


def oracle_outputs(
    oracle: Any, X: Sequence[Any], Y: Sequence[Any], *, slack: bool = False
) -> list[list[tuple[list[Fraction], Fraction]]]:
    """What an oracle says of its outputs, which is what the problem is made of."""

    def features(x: Any, y: Any) -> list[Fraction]:
        found, vector = oracle.features(x, y), [Fraction(0)] * oracle.n_features
        if isinstance(found, np.ndarray):
            return list(map(Fraction, found.tolist()))
        for index, value in zip(found.indices.tolist(), found.values.tolist(), strict=True):
            vector[index] += Fraction(value)
        return vector

    result = []
    for x, y in zip(X, Y, strict=True):
        true, outputs = features(x, y), []
        for other in oracle.outputs(x):
            delta = Fraction(oracle.loss(y, other))
            psi = [a - b for a, b in zip(true, features(x, other), strict=True)]
            outputs.append(([delta * v for v in psi] if slack else psi, delta))
        result.append(outputs)
    return result


def chain_outputs(
    X: Any, offsets: Sequence[int], labels: Sequence[int], n_labels: int, *, cost: Any = None,
    transitions: bool = True, bias: float = 0.0,
) -> list[list[tuple[list[Fraction], Fraction]]]:  # fmt: skip
    """All labellings of short chains; w holds emissions feature by feature, then transitions."""
    rows = [[Fraction(v) for v in (*row, *([bias] if bias else []))] for row in table(X)]
    K, d = n_labels, len(rows[0])
    delta = 1 - np.eye(K) if cost is None else np.asarray(cost)

    def features(x: list[list[Fraction]], path: Sequence[int]) -> list[Fraction]:
        found = [Fraction(0)] * (d * K + (K * K if transitions else 0))
        for t, label in enumerate(path):
            for j, v in enumerate(x[t]):
                found[j * K + label] += v
            if transitions and t:
                found[d * K + path[t - 1] * K + label] += 1
        return found

    result = []
    for begin, end in pairwise(offsets):
        x, truth = rows[begin:end], list(labels[begin:end])
        true = features(x, truth)
        outputs = []
        for path in product(range(K), repeat=len(x)):
            psi = [a - b for a, b in zip(true, features(x, path), strict=True)]
            losses = [Fraction(float(delta[t, o])) for t, o in zip(truth, path, strict=True)]
            outputs.append((psi, sum(losses, Fraction(0))))
        result.append(outputs)
    return result


@dataclass(frozen=True)
class Wrong:
    """Something in an answer that does not hold."""

    kind: str
    text: str
    size: float = math.inf  # by how much, relative to the truth

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def number(value: Fraction | float) -> str:
    """For people: a fraction may have thousands of digits."""
    try:
        return f"{float(value):.17g}"
    except OverflowError:
        return "over 1e308"


def exactly(value: float) -> Fraction | float:
    return Fraction(value) if math.isfinite(value) else value


def apart(claimed: float, true: Fraction | float, whole: Fraction | float) -> float:
    """|claimed - true| / whole, whatever their sizes."""
    if not math.isfinite(claimed) or math.inf in (true, whole) or not whole:
        return math.inf
    return float(min(abs(Fraction(claimed) - true) / whole, Fraction(10**18)))


def wrong_values(certificate: Any) -> list[Wrong]:
    """What can be seen without the problem."""
    P, D, gap = certificate.primal, certificate.dual, certificate.relative_gap
    values = f"primal {P!r}, dual {D!r}, gap {gap!r}"
    if any(math.isnan(v) for v in (P, D, gap)):
        return [Wrong("not a number", values)]
    return [Wrong("order", values)] if D > P or gap < 0 else []


def is_finite(values: Any) -> bool:
    return all(map(math.isfinite, getattr(values, "coefficients", values)))


def wrong_box(judge: Any, alpha: Any) -> list[Wrong]:
    """Dual variables may leave their box by rounding only."""
    if not is_finite(alpha) or (out := judge.out_of_box(alpha)) <= OUT_OF_BOX:
        return []
    return [Wrong("alpha out of its box", f"by {out:.3g} of it", out)]


def wrong_status(converged: bool, certificate: Any, tol: float | None) -> list[Wrong]:
    """Converged is what is within the gap that was asked for, and nothing else."""
    if converged and (tol is None or not certificate.relative_gap <= tol):
        return [Wrong("status", f"converged at a gap of {certificate.relative_gap!r}, not {tol!r}")]
    return []


def wrong_certificate(
    judge: Any, certificate: Any, w: Any, b: float, alpha: Any, others: Sequence[Any] = ()
) -> list[Wrong]:
    """What of a certificate does not hold for these weights and dual variables.

    alpha: None if they were not returned. others: pairs (w, b) of whoever; none can be better than
    a dual value says.
    """
    found = wrong_values(certificate)
    if found:
        return found
    arrays = (w,) if alpha is None else (w, alpha)
    if not all(map(is_finite, arrays)):
        return [Wrong("not a number", "among the weights or the dual variables")]
    primal = judge.primal(w, b)

    def complain(kind: str, claimed: float, sign: str, true: Fraction | float) -> None:
        text = f"{claimed!r} {sign} {number(true)}"
        whole = primal if primal < math.inf else true
        found.append(Wrong(kind, text, apart(claimed, true, whole)))

    if certificate.primal < primal:
        complain("primal too low", certificate.primal, "<", primal)
    proven: Fraction | float = min([primal, *(judge.primal(*other) for other in others)])
    if certificate.dual > proven:
        complain("dual above the optimum", certificate.dual, ">", proven)
    if alpha is None:
        return found
    proven = max(min(judge.dual(alpha), proven), Fraction(0))
    if certificate.dual > proven:
        complain("dual not proven", certificate.dual, ">", proven)
    gap, claimed = relative_gap(primal, proven), certificate.relative_gap
    if exactly(claimed) < gap * (1 - LAST_BITS):
        text = f"claimed {claimed:.3g}, true {number(gap)}"
        found.append(Wrong("gap too small", text, apart(claimed, gap, Fraction(1))))
    return found


def relative_gap(primal: Fraction | float, dual: Fraction | float) -> Fraction | float:
    """(P - D) / P, where D below 0 is as good as D = 0."""
    if primal == 0:
        return Fraction(0)
    if primal == math.inf:
        return Fraction(1)
    return (primal - max(dual, Fraction(0))) / primal
