"""The linear problem: owns data and objective, and certifies what any solver proposes.

    min_w  P(w) = 1/2 |w|^2 + sum_i C_i loss(p_i),   p_i = y_i (w.x_i + b),   C_i = C c_i,

    max_alpha  D(alpha) = dual_value(alpha) - 1/2 |w(alpha)|^2,   w(alpha) = sum_i alpha_i y_i x_i,
               lower(C_i) <= alpha_i <= upper(C_i)

Of a loss of residuals p_i = w.x_i + b - t_i, where y has the targets t_i of a regression: then all
y_i above are 1, and D gains sum_i alpha_i t_i.

Of the loss of one class, whose rows have no labels, P has nu b sum_i C_i besides, and the dual has
sum_i alpha_i = nu sum_i C_i: see objective/losses/one_class.py.

bias "none": b = 0. "regularised": a constant feature of value `bias_scale`, part of |w|^2. "free":
b is not penalised, and the dual gains sum_i alpha_i y_i = 0.

One problem for rows in memory, on disk and on a cluster: what is summed over rows is asked of its
`sides`, which know where the rows are.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from bridle.errors import LossError
from bridle.matrix.arrays import Array, in_memory
from bridle.matrix.door import check_vector
from bridle.objective import rounding
from bridle.objective.bias import BIASES, Bias, bias_precision
from bridle.objective.certificate import NO_TERMS, Certificate, DualTerms, PrimalTerms, Source
from bridle.objective.losses import Hinge, Loss, loss_from
from bridle.objective.point import Iterate
from bridle.objective.rounding import TINY, ZERO, Interval, U
from bridle.objective.scaling import C_to_lam, check_bias_scale, check_C
from bridle.problems.base import WEIGHTS, Judgement, Problem
from bridle.rows.base import SCORES, Findings
from bridle.rows.cuda.device import Where
from bridle.rows.homes import sides_of
from bridle.rows.memory import MemorySides
from numpy.typing import ArrayLike, NDArray

# Rounding may push a point this far out of its box, relative to the box, and still count as in it.
ROUNDING = 1e-9
# Of one class: w(alpha) that is no more than this part of what rows of one direction would make.
NOTHING = 1e-6


class LinearProblem(Problem):
    """1/2 |w|^2 + sum_i C_i loss(y_i (w.x_i + b)) on the rows of X, which is not copied.

    X: CSR or C-contiguous, float32 or float64; anything else is converted. Or rows that are
    elsewhere and bring their labels: StoredRows, DaskRows. y: -1 or +1, or targets where the loss
    is one of residuals; None for such rows, and where the loss is that of one class, whose rows
    have no labels. C: inf is the hard margin. sample_weight: multiplies C row by row.
    device: "cpu"; "cuda", a GPU, where rows are copied to; "auto", what is predicted to take less
    time. Rows that are on a GPU, CuPy's arrays for example, stay there (see docs/gpu.md).
    positive: of rows that bring their labels, what is +1: a label on disk, the place of a class on
    a cluster; by default the larger of two. class_weight: on a cluster, of each class.

    Examples
    --------
    >>> import numpy as np
    >>> problem = bridle.LinearProblem(*bridle.data.make_corpus(500, seed=0), C=0.1)
    >>> round(problem.primal(np.zeros(47_236)), 6)  # C times the rows
    50.0
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        C: float = 1.0,
        *,
        loss: str | Loss = Hinge(),  # noqa: B008  (frozen)
        bias: Bias = "none",
        bias_scale: float = 1.0,
        sample_weight: ArrayLike | None = None,
        n_threads: int | None = None,
        device: Where = "cpu",
        **elsewhere: Any,
    ) -> None:
        if bias not in BIASES:
            raise ValueError(f"bias must be one of {', '.join(BIASES)}, got {bias!r}")
        self.C, self.loss = check_C(C), loss_from(loss)
        if self.loss.one_class and (bias != "free" or self.hard_margin):
            raise ValueError(
                f'the loss {self.loss.name!r} has an offset that is rewarded: it needs bias="free" '
                f"and a finite C, not bias={bias!r} and C = {C}"
            )
        self.bias, self.bias_scale = bias, check_bias_scale(bias_scale)
        self.sides: Any = sides_of(
            X, y, sample_weight, C=self.C, loss=self.loss, bias=bias, bias_scale=self.bias_scale,
            n_threads=n_threads, device=device, **elsewhere,
        )  # fmt: skip

    def variant(self, *, C: float | None = None, **changes: Any) -> LinearProblem:
        """The same rows with other labels, C or weights: shared, not copied or checked again.

        In memory: y, sample_weight, n_threads. Elsewhere: positive; on a cluster, class_weight.
        """
        other = copy.copy(self)
        other.assumption = None
        if C is not None:
            changes["C"] = other.C = check_C(C)
        other.sides = self.sides.variant(**changes)
        return other

    # Where the rows are, and what they offer.

    @property
    def rows(self) -> Any:
        """The rows, wherever they are: see `bridle.rows.base.Rows`."""
        return self.sides.rows

    @property
    def offers(self) -> frozenset[str]:  # noqa: D102
        return frozenset({WEIGHTS, *self.rows.offers})

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """How many rows."""
        return int(self.rows.n_rows)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """How many features."""
        return int(self.rows.n_features)

    @property
    def n_threads(self) -> int:
        """Of passes over the rows."""
        return int(self.rows.n_threads)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the data, in which solvers work."""
        dtype: np.dtype[Any] = self.rows.dtype
        return dtype

    @property
    def dear(self) -> bool:  # type: ignore[override]
        """Whether a certificate reads rows that are not in memory."""
        return bool(self.sides.dear)

    @property
    def place(self) -> str:  # type: ignore[override]
        """What computes: "cpu" or "cuda", and why where that was chosen."""
        return str(self.sides.place)

    @property
    def may_fail(self) -> bool:  # type: ignore[override]
        """Whether certificates are of use before the end."""
        return bool(self.sides.may_fail)

    def still_has(self, alpha: Any) -> bool:  # noqa: D102
        return bool(self.sides.still_has(alpha))

    # Rows in memory have a number for each row.

    @property
    def X(self) -> Any:  # noqa: N802
        """The matrix."""
        return self.rows.X

    @property
    def squared_norms(self) -> Array:
        """|x_i|^2, with the constant feature."""
        norms: Array = self.rows.squared_norms
        return norms

    @property
    def y(self) -> Array:
        """The sign of each row."""
        y: Array = self.sides.y
        return y

    @property
    def targets(self) -> Array | None:
        """What a regression is to find; None where rows have signs."""
        targets: Array | None = self.sides.piece.targets
        return targets

    @property
    def sample_weight(self) -> Array:
        """c_i."""
        weight: Array = self.sides.sample_weight
        return weight

    @property
    def cost(self) -> Array:
        """C_i."""
        cost: Array = self.sides.piece.cost
        return cost

    @property
    def signed_cost(self) -> Array:
        """y_i C_i."""
        cost: Array = self.sides.piece.signed_cost
        return cost

    @property
    def upper(self) -> Array:
        """The largest feasible alpha_i."""
        upper: Array = self.sides.piece.upper
        return upper

    def margins(self, scores: Array) -> Array:
        """p_i of rows in memory with these scores, bias included."""
        margins: Array = self.sides.piece.margins(scores)
        return margins

    # The objective.

    @property
    def lam(self) -> float:
        """1 / (m C): the same objective as lam/2 |w|^2 + 1/m sum loss, divided by lam."""
        return C_to_lam(self.C, self.n_rows)

    @property
    def bias_precision(self) -> float:
        """The factor of b^2/2 in the objective: 0 for a free bias, infinite for none."""
        return bias_precision(self.bias, self.bias_scale)

    @property
    def constant_feature(self) -> float:
        """The value of the feature that stands for the bias; 0 where none does."""
        return self.bias_scale if self.bias == "regularised" else 0.0

    @property
    def squared_radius(self) -> float:
        """A bound on |w*|^2."""
        return float(self.sides.squared_radius())

    def join(self, w: ArrayLike, b: float = 0.0) -> Array:
        """One vector of n_features + 1 weights: the last belongs to the constant feature."""
        w = check_vector(w, self.n_features, "w")
        return np.append(w, b / self.bias_scale if self.bias == "regularised" else 0.0)

    def split(self, joined: Array, free_bias: float = 0.0) -> tuple[Array, float]:
        """Weights and intercept from the joined vector; a free bias comes from elsewhere."""
        if self.bias == "regularised":
            return joined[:-1], float(joined[-1]) * self.bias_scale
        return joined[:-1], free_bias if self.bias == "free" else 0.0

    def identity(self) -> dict[str, Any] | None:
        """What tells this problem from others: for checkpoints. The same rows are on disk, too."""
        found = self.sides.identity()
        if found is None:
            return None
        data, weights = found
        return {
            "data": data, "rows": self.n_rows, "features": self.n_features, "C": str(self.C),
            "loss": self.loss.name, **self.loss.parameters, "bias": self.bias,
            "bias scale": self.bias_scale, "row weights": weights,
        }  # fmt: skip

    def scores(self, w: ArrayLike, b: float = 0.0) -> Array:
        """w.x_i + b for every row."""
        scores: Array = in_memory(self.rows.scores(self.join(w, b)))
        # Rows with a constant feature have the bias in their scores; those of a cluster have none.
        return scores if self.bias == "none" or self.rows.constant else scores + b

    def primal(self, w: ArrayLike, b: float = 0.0) -> float:
        """P(w, b), or a little more: no less than it is exactly."""
        if self.bias == "none" and b != 0:
            raise ValueError(f"this problem has no bias, yet b = {b}; see the parameter `bias`")
        joined = self.join(w, b)
        half: Interval = 0.5 * rounding.product(joined, joined)
        loss: Interval = self.sides.primal_loss(joined, b)
        return (half + loss).high

    def dual(self, alpha: ArrayLike) -> float:
        """D(alpha), or a little less: no more than it is exactly. Minus infinity if not feasible.

        What rounding has put outside the feasible set is moved into it.
        """
        alpha = check_vector(alpha, self.n_rows, "alpha")
        if not self.sides.is_feasible(alpha, ROUNDING):
            return -np.inf
        return float(self.sides.dual_sums(alpha).dual().low)

    def weights(self, alpha: ArrayLike) -> Array:
        """w(alpha) = sum_i alpha_i y_i x_i."""
        return self._joined_weights(alpha)[:-1]

    def intercept(self, alpha: ArrayLike) -> float:
        """The b that belongs to alpha: part of w(alpha) if regularised, the best b if free."""
        joined = self._joined_weights(alpha)
        if self.bias == "free":
            return float(self.sides.best_bias(self.rows.scores(joined)))
        return self.split(joined)[1]

    def _joined_weights(self, alpha: ArrayLike) -> Array:
        alpha = check_vector(alpha, self.n_rows, "alpha")
        joined: Array = self.sides.dual_sums(alpha).w_alpha
        return joined

    def rescaled(self, alpha: Any, C: float) -> Any:
        """Dual variables to start from at another C: those at their bound go where it goes."""
        return self.sides.rescaled(alpha, C / self.C)

    def start_alpha(self, start: Any) -> Any:
        """The start's dual variables inside the box, or zeros: the caller's own."""
        return self.sides.start_alpha(start)

    def sample(self, n: int, seed: int = 0) -> LinearProblem:
        """The problem on about n rows in memory, both classes present, with the same lam."""
        if self.n_rows <= n and SCORES in self.rows.offers:
            return self
        return self._on(*self.sides.sample(n, seed))

    def take(self, chosen: NDArray[np.intp]) -> LinearProblem:
        """The problem on some of its rows (in increasing order), with the same lam."""
        return self._on(*self.sides.take(chosen))

    def _on(self, rows: Any, y: Array, weight: Array) -> LinearProblem:
        other = copy.copy(self)
        if not self.hard_margin:
            other.C = self.C * self.n_rows / rows.n_rows
        other.sides = MemorySides(rows, y, weight, other.C, self.loss, self.bias_precision)
        return other

    # What it says of points.

    def feasible(self, iterate: Iterate) -> Any:
        """A feasible dual point made of what the solver has."""
        return self._find(iterate).alpha

    def judge(self, iterate: Iterate) -> Judgement:
        """The primal value of the iterate and the dual value of its feasible point, in one pass."""
        return self._judgement(self._find(iterate))

    def _judgement(self, found: Findings) -> Judgement:
        if self.hard_margin:
            return self._judge_hard(found)
        alpha, dual, judged = found.alpha, found.judged.dual(), found.judged
        of_w = PrimalTerms(found.half_norm, found.loss)
        of_alpha = DualTerms(judged.total, judged.value, judged.length.squared())
        primal = of_w.half_norm + of_w.loss
        if self.loss.pull and self._is_nothing(found):
            return self._nothing(found)
        if dual.low < 0 and not self.loss.pull and (origin := self.sides.zeros()) is not None:
            alpha, dual, of_alpha = origin, ZERO, NO_TERMS  # which does better
        return Judgement(
            np.array(found.joined[:-1]), found.b, primal.high, alpha, dual.low, _source(found),
            scores=found.scores, terms=(of_w, of_alpha), primal_rounding=primal.width,
            dual_rounding=dual.width,
        )  # fmt: skip

    def _is_nothing(self, found: Findings) -> bool:
        length = found.judged.length
        if length.low > 0:
            return False
        # 0 is within the bounds, but these may be wide: they are those of the longest row.
        aligned = self.sides.aligned_length(found.alpha)
        return bool(aligned == 0 or length.high <= NOTHING * aligned)

    def _nothing(self, found: Findings) -> Judgement:
        """Of one class, where w(alpha) = 0 but for rounding: then w = 0 is the best there is."""
        self.assumption = (
            "the combination of rows by the dual variables is 0 but for rounding, and taken to be "
            "0: then the best weights are 0, and every row belongs"
        )
        w = np.zeros(self.n_features)
        return Judgement(w, 0.0, 0.0, found.alpha, 0.0, _source(found), scores=None)

    def contradicted(self, certificate: Certificate) -> Exception:  # noqa: D102
        if self.loss.core is not None:
            return super().contradicted(certificate)
        return LossError(
            f"the loss {self.loss.name!r} contradicts itself: the dual value "
            f"{certificate.dual:.9g} is above the primal value {certificate.primal:.9g} that was "
            f"reached; its dual_value is too large or its value too small somewhere (of a row, "
            f"the former is the least that C loss(p) + alpha p is, for any p)"
        )

    def _find(self, iterate: Iterate) -> Findings:
        found: Findings = self.sides.judge(iterate, self.join(iterate.w, iterate.b))
        return found

    def _judge_hard(self, found: Findings) -> Judgement:
        """Both points at their best scale: smallest margin 1, and D(t alpha) at its largest."""
        joined, b, alpha = found.joined, found.b, found.alpha
        assert found.scores is not None
        smallest = self._smallest_margin(found)
        primal, proof = Interval(np.inf, np.inf), None
        if smallest > 0:
            joined, b = joined / smallest, b / smallest
            primal = 0.5 * rounding.product(joined, joined)
        else:
            from bridle.problems.hard_margin import infeasibility_proof

            proof = infeasibility_proof(self, alpha)
        # t alpha rounds, too: a part u of each variable and of what it contributes.
        total, longest = found.judged.total, found.judged.longest
        squared = (found.judged.length + Interval(0.0, 4 * U * total.high * longest)).squared()
        t = total.low / squared.high if squared.high > 0 else 1.0
        t = t if np.isfinite(t) else 1.0
        rounded = Interval.around(t, 2 * U * t)
        dual = rounded * total - 0.5 * (rounded.squared() * squared)
        alpha = t * alpha
        if not dual.low >= 0:  # nothing does better
            alpha, dual = np.zeros(self.n_rows), ZERO
        w = np.array(joined[:-1])
        return Judgement(
            w, b, primal.high, alpha, dual.low, _source(found), proof,
            primal_rounding=primal.width, dual_rounding=dual.width,
        )  # fmt: skip

    def _smallest_margin(self, found: Findings) -> float:
        """No more than it is, also when w is divided by it, which rounds every weight."""
        assert found.scores is not None
        lengths = np.sqrt(self.squared_norms) + np.sqrt(TINY)
        moved = 4 * U * (rounding.length(found.joined).high * lengths + abs(found.b))
        margins = (self.y * found.scores - (found.error + moved))[self.cost > 0]
        return float(margins.min()) * (1.0 - 16 * U)


def judge_all(problems: Sequence[LinearProblem], iterates: Sequence[Iterate]) -> list[Judgement]:
    """What each problem says of its iterate. They share their rows, which are read once for all."""
    joined = np.stack([p.join(i.w, i.b) for p, i in zip(problems, iterates, strict=True)])
    all_sides = [p.sides for p in problems]
    found = all_sides[0].judge_all(all_sides, iterates, joined)
    return [p._judgement(own) for p, own in zip(problems, found, strict=True)]


def _source(found: Findings) -> Source:
    return "repair" if found.repaired else "solver"
