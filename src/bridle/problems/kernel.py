"""The kernel problem: a linear one in the space of a kernel, w = sum_j c_j phi(x_j).

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i loss(p_i),   p_i = y_i (s_i + b),
           s_i = sum_j c_j K(x_j, x_i),   |w|^2 = sum_ij c_i c_j K(x_i, x_j)

    max_alpha  D(alpha) = dual_value(alpha) - 1/2 |w(alpha)|^2,   c_j = alpha_j y_j,
               lower(C_i) <= alpha_i <= upper(C_i)

Of a loss of residuals p_i = s_i + b - t_i, where y has the targets t_i of a regression: then all
y_i above are 1, and D gains sum_i alpha_i t_i. For the hinge, dual_value is sum_i alpha_i.

bias "none": b = 0. "regularised": a constant is added to the kernel: K + bias_scale^2, and
b = bias_scale^2 sum_j c_j is part of |w|^2. "free": b is not penalised; sum_i alpha_i y_i = 0.

Scores of a certificate are summed in float64 from the coefficients, whatever the solver kept, with
a bound on the error of every kernel value and of every sum: primal values are no less than the
exact P of the coefficients and b as they are returned, dual values no more than D.

All of this holds for positive semi-definite kernels only: for others there is no bound, and no
certificate. A kernel that is not known to be one is examined on all rows, where these are few; what
is certified is then the matrix with so much on its diagonal, `shift`, that it is one for sure, and
so is the matrix itself, if it is one. Of many rows some are examined, and the rest is said in
`assumption`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from bridle import _core
from bridle.errors import DeviceError
from bridle.matrix.arrays import Array
from bridle.matrix.door import as_matrix, check_vector
from bridle.matrix.labels import check_labels, check_targets, check_weights
from bridle.objective.bias import BIASES, Bias
from bridle.objective.certificate import Certificate, Source
from bridle.objective.dual import balanced
from bridle.objective.kernels import Kernel, KernelFunction, kernel_from
from bridle.objective.losses import Hinge, Loss, loss_from
from bridle.objective.losses.base import Shape, squares_over
from bridle.objective.point import Iterate
from bridle.objective.rounding import (
    ZERO,
    Interval,
    U,
    product,
    total,
)
from bridle.objective.scaling import C_to_lam, check_bias_scale, check_C, costs
from bridle.problems.base import KERNEL, Judgement, Problem
from bridle.problems.linear import ROUNDING
from bridle.rows.base import Scales
from bridle.rows.cuda.device import Where
from bridle.rows.cuda.gram import kernel_rows
from bridle.rows.cuda.placing import Place
from bridle.rows.definiteness import Definiteness, definiteness
from bridle.rows.gram import KernelSums, core_kernel, expand_between
from bridle.rows.memory import MemoryRows
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from bridle.rows.cuda.gram import DeviceKernelRows

# The kernel matrix of up to so many rows is examined for negative eigenvalues before the start, of
# more rows a submatrix of so many: Cholesky's method takes the cube of them.
EXAMINED, SAMPLED = 3000, 1000

# A squared length below minus this times (sum_i |c_i| sqrt(K_ii))^2 is not rounding.
ROUNDING_OF_SUMS = {"float32": 1e-6, "float64": 1e-10}


@dataclass(frozen=True)
class Expansion:
    """w = sum_j coefficients_j phi(c_j). Without centres, the c_j are the problem's rows.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[-1.0], [0.0], [1.0]]), [1, -1, 1]
    >>> solution = bridle.solve(bridle.KernelProblem(X, y, C=10.0, kernel="rbf", gamma=1.0))
    >>> solution.w.coefficients.shape  # one for each row
    (3,)
    """

    coefficients: Array
    centres: Any = None
    scores: Array | None = field(default=None, repr=False, compare=False)  # on the rows, if known

    @property
    def support(self) -> NDArray[np.intp]:
        """Where the coefficients are not zero."""
        return np.flatnonzero(self.coefficients)


@dataclass(frozen=True)
class KernelIterate(Iterate):
    """An iterate that knows how to compute its scores, and does so once for whoever asks.

    known: an earlier expansion over the rows and its sums, to start from.
    """

    problem: Any = None
    known: tuple[Array, KernelSums] | None = field(default=None, repr=False)

    @cached_property
    def sums(self) -> KernelSums:
        """sum_j c_j K(c_j, x_i), without any bias, for every row."""
        if self.known is not None and self.w.centres is None:
            before, sums = self.known
            change = self.w.coefficients - before
            if np.count_nonzero(change) < np.count_nonzero(self.w.coefficients):
                more = self.problem.expanded(Expansion(change))
                return sums.plus(more, self.problem.values.size(change))
        found: KernelSums = self.problem.expanded(self.w)
        return found

    @property
    def scores(self) -> Array:
        """Their values."""
        return self.sums.values


class IndefiniteKernelError(ValueError):
    """The kernel is not positive semi-definite: the problem is not convex and has no dual bound."""


class DualForm(NamedTuple):
    """The dual in the coefficients c of w: a number for each row, but for the tube.

    max_c  sum_i [linear_i c_i - tube |c_i| - 1/2 ridge_i c_i^2] - 1/2 |w|^2, lower <= c <= upper.
    """

    linear: Array
    lower: Array
    upper: Array
    ridge: Array | None
    tube: float


class KernelProblem(Problem):
    """1/2 |w|^2 + sum_i C_i loss(y_i (w.phi(x_i) + b)) for a kernel phi(a).phi(b) = K(a, b).

    y: -1 or +1, or targets where the loss is one of residuals; of one class it is not looked at.
    loss: linear or quadratic between its kinks. kernel: a name in `objective.kernels`
    ("precomputed": X is the square matrix K), a Kernel, or a function of two matrices.
    X: CSR or dense, float32 or float64, not copied. device: where kernel values are computed:
    "cpu"; "cuda", a GPU, where X is copied to; "auto", what is predicted to take less time.

    Examples
    --------
    >>> problem = bridle.KernelProblem([[0.0], [1.0]], [-1, 1], C=1.0, kernel="rbf", gamma=1.0)
    >>> bridle.solve(problem).converged
    True
    """

    offers: ClassVar[frozenset[str]] = frozenset({KERNEL})
    loss: Loss
    # What sum_i c_i is to be with a free bias; P has that many times b, of the loss of one class.
    balance: Interval = ZERO

    def __init__(
        self,
        X: Any,
        y: Any,
        C: float = 1.0,
        *,
        loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
        kernel: str | KernelFunction | Kernel = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        bias: Bias = "none",
        bias_scale: float = 1.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
        device: Where | Place = "cpu",
    ) -> None:
        if not np.isfinite(check_C(C)):
            raise ValueError(f"C must be positive and finite, got {C}")
        if bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {bias!r}")
        self.C, self.loss = float(C), loss_from(loss)
        self._shape, device = self._checked_loss(device, bias)
        self.bias = bias
        self.bias_scale = check_bias_scale(bias_scale)
        X = as_matrix(X)
        weights = check_weights(sample_weight, X.shape[0])
        self.kernel = kernel_from(kernel, X, gamma, degree, coef0, weights)
        self.values = kernel_rows(self.kernel, X, n_threads, device)
        self.X, self.gram = self.values.X, self.values.gram
        self.n_rows, self.n_features = self.rows.n_rows, self.X.shape[1]
        self._set_labels(y)
        self._set_cost(weights)
        # A proof that the kernel is not positive semi-definite, what makes the matrix one for sure,
        # and what is taken for granted.
        self.indefinite: str | None = None
        self.shift = 0.0
        self.assumption: str | None = None
        self._examine()

    def variant(
        self, *, y: ArrayLike, n_threads: int = 1, sample_weight: ArrayLike | None = None
    ) -> KernelProblem:
        """The same problem with other labels, or weights too; the data is shared."""
        other = copy.copy(self)
        other._set_labels(y)
        if sample_weight is not None:
            other._set_cost(check_weights(sample_weight, self.n_rows))
        other.values = self.values.with_threads(max(1, n_threads))
        return other

    def part(
        self, chosen: NDArray[np.intp], *, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> KernelProblem:
        """A problem on some of the rows, which are on a device and stay there."""
        other = copy.copy(self)
        other.values = cast("DeviceKernelRows", self.values).take(chosen)
        other.X, other.n_rows = other.values.X, len(chosen)
        other._set_labels(y)
        other._set_cost(check_weights(sample_weight, len(chosen)))
        other.indefinite, other.shift, other.assumption = None, 0.0, None
        other._examine()
        return other

    def _checked_loss(self, device: Where | Place, bias: Bias) -> tuple[Shape, Where | Place]:
        """The shape of the loss, and where to compute."""
        shape = self.loss.shape
        if shape is None:
            raise ValueError(
                f"kernel machines have losses that are linear or quadratic between their kinks, "
                f"which the loss {self.loss.name!r} is not"
            )
        hinge = (self.loss.target, shape) == (1.0, Shape(low=0.0))
        if self.loss.one_class and bias != "free":
            raise ValueError(
                f'the loss {self.loss.name!r} has an offset that is rewarded: it needs bias="free"'
            )
        if device == "cuda" and not hinge:
            raise DeviceError(f'device="cuda" has no {self.loss.name} loss: use device="cpu"')
        return shape, device if hinge else "cpu"

    def _set_labels(self, y: Any) -> None:
        """Signs, or targets of a loss of residuals, whose rows all have the sign 1.

        So have those of one class, which have no labels.
        """
        alike = self.loss.residual or self.loss.one_class
        self.targets = check_targets(y, self.n_rows) if self.loss.residual else None
        self.y = np.ones(self.n_rows) if alike else check_labels(y, self.n_rows)

    def _set_cost(self, weights: Array) -> None:
        """C_i = C c_i, which is rounded: the box is never larger, the price never smaller."""
        self.sample_weight = weights
        self.cost, least = costs(self.C, weights)
        self.lower, self.upper = self.loss.lower(least), self.loss.upper(least)
        if self.loss.pull:  # the costs are rounded products
            around = Interval.around(1.0, 2.0 * U)
            self.balance = self.loss.pull * total(self.cost) * around

    @property
    def dual_form(self) -> DualForm:
        """The dual in the coefficients of w."""
        positive, _, _, tube, curve = self.y > 0, *self._shape
        linear = self.loss.target * self.y if self.targets is None else self.targets
        lower, upper = np.broadcast_to(self.lower, self.upper.shape), self.upper
        ridge = None
        if curve:
            ridge = np.divide(curve, self.cost, out=np.zeros(self.n_rows), where=self.cost > 0)
        return DualForm(
            np.ascontiguousarray(linear), np.where(positive, lower, -upper),
            np.where(positive, upper, -lower), ridge, tube,
        )  # fmt: skip

    @property
    def signed_cost(self) -> Array:
        """The bounds of the dual variables, with the signs of their rows."""
        return np.copysign(self.upper, self.y)

    @property
    def rows(self) -> MemoryRows:
        """What the compiled steps read: the rows of X, or of the matrix K where it is given."""
        return self.values.rows

    @property
    def device(self) -> Any:
        """Where kernel values are computed, or None: on this processor."""
        return self.values.device

    @property
    def place(self) -> str:  # type: ignore[override]
        """What computes: "cpu" or "cuda", and why where that was chosen."""
        return self.values.place

    @property
    def squared_norms(self) -> Array:
        """|x_i|^2."""
        return self.rows.squared_norms

    @property
    def n_threads(self) -> int:
        """Of passes over the rows."""
        return self.rows.n_threads

    @property
    def lam(self) -> float:
        """1 / (m C): the same objective as lam/2 |w|^2 + 1/m sum loss, divided by lam."""
        return C_to_lam(self.C, self.n_rows)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows, in which solvers work."""
        return self.rows.dtype

    @property
    def constant(self) -> float:
        """What a regularised bias adds to the kernel."""
        return self.bias_scale**2 if self.bias == "regularised" else 0.0

    @property
    def core_kernel(self) -> _core.kernels.Kernel:
        """The kernel that solvers see: with the constant of a regularised bias."""
        return core_kernel(self.kernel, self.constant)

    @property
    def may_be_indefinite(self) -> bool:
        """Whether the kernel is not known to be positive semi-definite for any rows."""
        return not self.kernel.semidefinite

    @property
    def diagonal(self) -> Array:
        """K(x_i, x_i), without the constant."""
        return self.values.diagonal

    def expanded(self, w: Expansion) -> KernelSums:
        """sum_j c_j K(c_j, x_i) for every row, summed in float64, with its error."""
        if w.centres is not None:
            return self._expanded_at(self.X, w)
        coefficients = check_vector(w.coefficients, self.n_rows, "w.coefficients")
        return self.values.expand(coefficients)

    def expand(self, w: Expansion) -> Array:
        """The same without its error."""
        return self.expanded(w).values

    def _expanded_at(self, X: Any, w: Expansion) -> KernelSums:
        return expand_between(self.kernel, X, w.centres, w.coefficients, self.n_threads)

    def decision(self, X: Any, w: Expansion, b: float = 0.0) -> Array:
        """Scores of new rows. Precomputed: X holds K(new row, training row)."""
        if self.kernel.given:
            return np.asarray(np.asarray(X, dtype=np.float64) @ w.coefficients + b)
        if w.centres is None:
            used = w.support
            w = Expansion(w.coefficients[used], self.X[used])
        if len(w.coefficients) == 0:
            return np.full(X.shape[0], b)
        return self.values.expand_at(X, w.centres, w.coefficients) + b

    def weights(self, alpha: ArrayLike) -> Expansion:
        """w(alpha) = sum_i alpha_i y_i phi(x_i)."""
        return Expansion(check_vector(alpha, self.n_rows, "alpha") * self.y)

    def intercept(self, w: Expansion) -> float:
        """What a regularised bias is: bias_scale^2 times the sum of the coefficients."""
        return self.constant * float(w.coefficients.sum())

    def scores(self, w: Expansion, b: float = 0.0) -> Array:
        """w.phi(x_i) + b for every row."""
        return self.expand(w) + b

    def primal(self, w: Expansion, b: float = 0.0) -> float:
        """P(w, b), or what rounding adds to it more: never less."""
        if self.bias == "none" and b != 0:
            raise ValueError(f"this problem has no bias, yet b = {b}; see the parameter `bias`")
        return self._primal(w, self.expanded(w), b).high

    def dual(self, alpha: ArrayLike) -> float:
        """D(alpha), or less by rounding; minus infinity outside the feasible set.

        What is outside by rounding only is judged by the nearest point inside. Without a positive
        kernel there is no bound either.
        """
        alpha = check_vector(alpha, self.n_rows, "alpha")
        slack = ROUNDING * np.where(np.isfinite(self.upper), self.upper - self.lower, 0.0)
        if np.any(alpha < self.lower - slack) or np.any(alpha > self.upper + slack):
            return -np.inf
        alpha = np.clip(alpha, self.lower, self.upper)
        if self.bias == "free":
            off = (total(alpha * self.y) - self.balance).size
            if off > ROUNDING * float(np.abs(alpha).sum()):
                return -np.inf
        return self._dual(alpha, self.expanded(self.weights(alpha))).low

    def feasible(self, iterate: Iterate) -> Array:
        """A feasible dual point made of what the solver has."""
        return self._feasible(iterate)[0]

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the iterate and the dual value of its feasible point."""
        w: Expansion = iterate.w
        sums = iterate.sums if isinstance(iterate, KernelIterate) else self.expanded(w)
        b = iterate.b
        if self.bias == "free":
            b = self._best_bias(sums.values)
        known, primal = sums, self._primal(w, sums, b)
        alpha, source = self._feasible(iterate, sums.values)
        coefficients = alpha * self.y
        if w.centres is not None or not np.array_equal(coefficients, w.coefficients):
            sums = self.expanded(Expansion(coefficients))
        t = self._best_scale(alpha, sums.values) if self.balance == ZERO else 1.0
        if t < 1.0 - ROUNDING:
            alpha, source = t * alpha, "repair"
            sums = sums.times(t, self.values.size(coefficients))
        dual = self._dual(alpha, sums)
        at_zero = self.balance == ZERO and self.indefinite is None
        if at_zero and dual.low < 0:  # which alpha = 0 has, whatever rounding does
            alpha, dual, source = np.zeros(self.n_rows), ZERO, "repair"
        judged = Expansion(w.coefficients.copy(), w.centres, known.values), b, primal
        if not np.isfinite(primal.high):  # scores that overflow: w = 0 is worth more
            nothing = Expansion(np.zeros(self.n_rows))
            judged = nothing, 0.0, self._primal(nothing, self.expanded(nothing), 0.0)
        elif w.centres is None:
            judged = self._lengthened(w, known, b, primal.high - dual.low) or judged
        expansion, b, primal = judged
        return Judgement(
            expansion, b, primal.high, alpha, dual.low, source, primal_rounding=primal.width,
            dual_rounding=dual.width,
        )  # fmt: skip

    def origin(self) -> Iterate:  # noqa: D102
        return Iterate(0, 0.0, Expansion(np.zeros(self.n_rows)))

    def contradicted(self, certificate: Certificate) -> Exception:  # noqa: D102
        if not self.may_be_indefinite:
            return super().contradicted(certificate)
        return IndefiniteKernelError(
            f"the {self.kernel.name} kernel is not positive semi-definite: for all that are, "
            f"{certificate.dual:.6g} is a lower bound; {certificate.primal:.6g} was reached"
        )

    def _lengthened(
        self, w: Expansion, sums: KernelSums, b: float, gap: float
    ) -> tuple[Expansion, float, Interval] | None:
        """(w, b) by a hair longer, if that is worth a tenth of the gap, and its primal value.

        Margins that are 1 but for rounding may all be below by their errors, which costs C_i times
        these. A factor of 1 + 2 x, x being the largest of those shortfalls, takes all of them to 1.
        (Of the hinge; elsewhere there is no such kink, or no such way.)
        """
        if not (self.loss.unit_slope and self.loss.target == 1.0):
            return None
        margins, error = self._margins(w, sums, b)
        near = np.abs(1.0 - margins) <= 8.0 * error
        if not product(self.cost[near], error[near]).high > 0.1 * gap:
            return None
        short = float(np.max(1.0 - margins[near] + error[near]))
        if not 0.0 < short < 0.25:
            return None
        t = 1.0 + 2.0 * short
        longer = sums.times(t, self.values.size(w.coefficients))
        found = Expansion(t * w.coefficients, None, longer.values)
        value = self._primal(found, longer, t * b)
        return (found, t * b, value) if value.high < self._primal(w, sums, b).high else None

    def start_alpha(self, start: Any) -> Array:
        """A new array with the start's dual variables made feasible, or zeros.

        Of one class, whose variables have a sum of their own, those of the first rows instead.
        """
        if start is None or start.alpha is None:
            if not self.loss.pull:
                return np.zeros(self.n_rows)
            before = np.cumsum(self.upper) - self.upper
            return np.clip(self.balance.middle - before, 0.0, self.upper)
        alpha = check_vector(start.alpha, self.n_rows, "start.alpha")
        alpha = np.clip(alpha, self.lower, self.upper)
        return self._balanced(alpha) if self.bias == "free" else alpha

    def found_indefinite(self, proof: str) -> None:
        """A solver came upon a proof that the kernel is not positive semi-definite."""
        if self.kernel.is_matrix:
            raise IndefiniteKernelError(
                f"the {self.kernel.name} kernel is not positive semi-definite: {proof}; with such "
                "a matrix the problem is not convex and no answer can be certified. Repair the "
                "matrix, for instance by setting its negative eigenvalues to zero"
            )
        self.indefinite = proof

    def _squared_norm(self, w: Expansion, sums: KernelSums) -> Interval:
        """|w|^2, of the matrix as it is and of the shifted one."""
        if w.centres is not None:
            sums = self._expanded_at(w.centres, w)
        c = np.ascontiguousarray(w.coefficients, np.float64)
        value = product(c, sums.values)
        error = product(np.abs(c), sums.error).high
        found = value + Interval(-error, error)
        if w.centres is None and self.may_be_indefinite and self.indefinite is None:
            length = product(np.abs(c), np.sqrt(np.abs(self.diagonal)))
            if value.high < -ROUNDING_OF_SUMS[self.dtype.name] * length.squared().high:
                self.found_indefinite(f"a combination of rows has squared length {value.high:.3g}")
            found = Interval(found.low, (found + self.shift * product(c, c)).high)
        return found.within(0.0, np.inf) if self.indefinite is None else found

    def _primal(self, w: Expansion, sums: KernelSums, b: float) -> Interval:
        squared_norm = self._squared_norm(w, sums)
        if self.bias == "regularised":
            squared_norm += (Interval(b, b) / self.bias_scale).squared()
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.loss.sum_between(*self._margins(w, sums, b), self.cost)
        # The costs are rounded products.
        return 0.5 * squared_norm + loss * Interval.around(1.0, 2.0 * U) + b * self.balance

    def _margins(self, w: Expansion, sums: KernelSums, b: float) -> tuple[Array, Array]:
        """p_i, and their errors."""
        with np.errstate(over="ignore", invalid="ignore"):
            margins, error = self._p(sums.values, b), sums.error
            if self.targets is not None:  # another difference
                error = error + 2.0 * U * np.abs(sums.values + b)
            if self.shift > 0 and w.centres is None:
                c = -self.y * w.coefficients
                # Where the shift makes a margin smaller, or a residual another.
                error = error + self.shift * (np.abs(c) if self.loss.residual else np.maximum(0, c))
            return margins, (error + 4.0 * U * (np.abs(margins) + error)) * (1.0 + 1e-12)

    def _p(self, scores: Array, b: float) -> Array:
        """p_i of these scores."""
        if self.targets is None:
            return np.asarray(self.y * (scores + b))
        return np.asarray((scores + b) - self.targets)

    def _best_bias(self, scores: Array) -> float:
        """The free bias that is best for these scores."""
        unshifted = scores if self.targets is None else scores - self.targets
        return self.loss.best_bias(unshifted, self.y, self.cost)

    def _balanced(self, alpha: Array) -> Array:
        """The point inside the box that a free bias asks for, made of another inside it."""
        if not self.loss.pull:
            return balanced(alpha, self.y)
        sums = float(alpha.sum()), float(self.upper.sum())
        scales = Scales.towards(self.balance.middle, *sums)
        return np.minimum(scales.up * alpha + scales.top * self.upper, self.upper)

    def _linear_value(self, alpha: Array) -> Interval:
        """D but for |w|^2."""
        value = self.loss.dual_between(alpha, self.cost)
        return value if self.targets is None else value + product(alpha, self.targets)

    def _dual(self, alpha: Array, sums: KernelSums) -> Interval:
        """Free bias: that of the point whose heavier class is scaled until sum alpha_i y_i = 0.

        Its alpha differ by |r| in sum, r = sum alpha_i y_i, and so w by |r| sqrt(K_ii) at most.
        What it loses of the rest of D is no more than what is positive there, which is 1 (or t_i)
        times each alpha_i.
        """
        if self.indefinite is not None:
            return Interval(-np.inf, -np.inf)
        coefficients = alpha * self.y
        squared_norm = self._squared_norm(Expansion(coefficients), sums)
        balance, off = total(coefficients) - self.balance, 0.0
        if self.bias == "regularised":
            squared_norm += (balance * self.bias_scale).squared()
        elif self.bias == "free" and balance.size > 0:
            off = balance.size
            longest = Interval(0.0, self.shift).root() + float(self.values.accuracy.size.max())
            squared_norm = (squared_norm.root() + off * longest).squared()
        if self.targets is None:
            steepest = abs(self.loss.target)
        else:
            steepest = float(np.abs(self.targets).max(initial=0.0))
        return self._linear_value(alpha) - off * steepest - 0.5 * squared_norm

    def _feasible(self, iterate: Iterate, scores: Array | None = None) -> tuple[Array, Source]:
        if iterate.alpha is None:
            if scores is None:
                scores = self.expand(iterate.w)
            slope = self.loss.slope(self._p(scores, iterate.b))
            alpha = np.clip(self.cost * slope, self.lower, self.upper)
            source: Source = "repair"
        else:
            alpha = np.clip(iterate.alpha, self.lower, self.upper)
            moved = float(np.abs(alpha - iterate.alpha).sum())
            source = "solver" if moved <= 1e-6 * float(np.abs(alpha).sum()) else "repair"
        # A sum that is zero but for rounding stays, so that w = w(alpha) is still recognised.
        off = abs(float(alpha @ self.y) - self.balance.middle)
        if self.bias == "free" and off > 1e-12 * float(np.abs(alpha).sum()):
            alpha = self._balanced(alpha)
        return alpha, source

    def _best_scale(self, alpha: Array, scores: Array) -> float:
        """Of all points between 0 and alpha the best, t alpha: D(t alpha) is a parabola in t."""
        coefficients = alpha * self.y
        square = product(coefficients, scores).middle
        if self.bias == "regularised":
            square += (total(coefficients) * self.bias_scale).squared().middle
        bent = self._shape.curve
        bent = bent * squares_over(alpha, self.cost).middle if bent else 0.0
        rise = self._linear_value(alpha).middle + 0.5 * bent
        return min(1.0, max(0.0, rise) / (square + bent)) if square + bent > 0 else 1.0

    def _examine(self) -> None:
        """Whether the kernel is positive semi-definite on all rows, or on some of many."""
        if not self.may_be_indefinite:
            return
        chosen = np.arange(self.n_rows)
        if self.n_rows > EXAMINED:
            chosen = np.sort(np.random.default_rng(0).choice(self.n_rows, SAMPLED, replace=False))
            self.assumption = (
                f"the kernel matrix of {self.n_rows} rows is taken to be positive semi-definite; "
                f"{SAMPLED} of them were examined"
            )
        found = self._definiteness(chosen)
        if found.proof is not None:
            self.found_indefinite(found.proof)
        elif self.assumption is None:
            self.shift = found.shift
            if self.shift > 0:
                self.assumption = (
                    f"the kernel matrix is taken to be positive semi-definite, as it certainly is "
                    f"with {self.shift:.1e} more on its diagonal"
                )

    def _definiteness(self, chosen: NDArray[np.intp]) -> Definiteness:
        """Of the kernel among these rows, errors of its values included."""
        accuracy = self.values.accuracy
        off = 2.0 * float(np.linalg.norm(accuracy.size[chosen]))
        off *= float(np.linalg.norm(accuracy.error[chosen])) * (1.0 + 1e-9)
        precision = float(np.finfo(self.dtype).eps)
        found = definiteness(lambda: self.values.block(chosen), precision)
        return found if found.proof is not None else Definiteness(found.shift + off)
