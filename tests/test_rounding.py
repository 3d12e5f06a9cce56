"""Arithmetic that errs to a known side, against rational numbers."""

import math
from fractions import Fraction

import bridle
import numpy as np
import pytest
from bridle.errors import LossError
from bridle.objective import rounding
from bridle.objective.losses import Hinge
from bridle.objective.point import Iterate
from bridle.objective.rounding import Interval
from bridle.rows.base import careful_look, quick_look
from bridle.rows.memory import MemoryRows
from bridle.structured.bounds import Errors, MeanIterate
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

numbers = st.floats(-1e100, 1e100, allow_subnormal=True)


@st.composite
def intervals(draw):
    """An interval, and a number inside it."""
    low, high, at = sorted((draw(numbers), draw(numbers), draw(numbers)))
    return Interval(low, at), Fraction(high)  # sorted: low <= high <= at


def holds(interval, number):
    above = math.isinf(interval.high) or number <= Fraction(interval.high)
    below = math.isinf(interval.low) or number >= Fraction(interval.low)
    return above and below


@given(intervals(), intervals())
def test_what_is_computed_of_intervals_holds_what_is_computed_of_numbers(a, b):
    (A, x), (B, z) = a, b
    assert holds(A + B, x + z)
    assert holds(A - B, x - z)
    assert holds(A * B, x * z)
    assert holds(A.squared(), x * x)
    assert holds(2.5 - A, Fraction(5, 2) - x)
    if B.low > 0 or B.high < 0:
        assert holds(A / B, x / z)
    root = Interval(max(A.low, 0.0), max(A.high, 0.0)).root()
    assert root.low >= 0
    assert Fraction(root.low) ** 2 <= max(Fraction(A.low), 0)
    assert Fraction(root.high) ** 2 >= max(Fraction(A.high), 0)


def test_what_is_no_number_lies_anywhere():
    nowhere = Interval.around(math.nan, 1.0)
    assert (nowhere.low, nowhere.high) == (-math.inf, math.inf)
    inf = Interval(math.inf, math.inf)
    assert (inf - inf).low == -math.inf
    assert (Interval(1.0, 2.0) / Interval(-1.0, 1.0)).high == math.inf


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 127, 128, 129, 1000, 4099])
@pytest.mark.parametrize("spread", [0, 20, 150])
def test_sums_hold_the_exact_ones(n, spread):
    rng = np.random.default_rng(n + spread)
    a = rng.normal(size=n) * 10.0 ** rng.uniform(-spread, spread, n)
    b = rng.normal(size=n) * 10.0 ** rng.uniform(-spread, spread, n)
    exact = [Fraction(x) for x in a], [Fraction(x) for x in b]
    total, inner = sum(exact[0]), sum(x * z for x, z in zip(*exact, strict=True))
    assert holds(rounding.total(a), total)
    assert holds(rounding.product(a, b), inner)
    assert Fraction(rounding.size(a)) >= sum(map(abs, exact[0]))
    assert rounding.total(a).width <= 1e-13 * np.abs(a).sum() + 1e-300
    square = sum(x * x for x in exact[0])
    assert Fraction(rounding.length(a).low) ** 2 <= square <= Fraction(rounding.length(a).high) ** 2


def test_products_that_underflow_are_counted():
    tiny = np.full(100, 1e-170)
    exact = 100 * Fraction(1e-170) ** 2
    assert float(np.sum(tiny * tiny)) == 0.0
    assert holds(rounding.product(tiny, tiny), exact)
    assert rounding.product(tiny, tiny).high > 0


def long_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


ROWS = {
    "dense": np.ascontiguousarray,
    "sparse": csr_matrix,
    "64 bits": lambda X: long_indices(csr_matrix(X)),
    "float32": lambda X: csr_matrix(X.astype(np.float32)),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e10])
@pytest.mark.parametrize("look", [quick_look, careful_look])
def test_a_look_at_rows_is_off_by_no_more_than_it_says(kind, scale, look):
    rng = np.random.default_rng(3)
    dense = rng.normal(size=(30, 9)) * (rng.random((30, 9)) < 0.7)
    rows = MemoryRows(ROWS[kind](dense if kind == "float32" else scale * dense), 2.0, 2)
    X = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    a, w, b = rng.normal(size=30), rng.normal(size=10) / scale, 7e5
    found = look(rows, a, w, b)
    exact = [[Fraction(float(x)) for x in row] + [Fraction(2)] for row in X]
    weights, error = [Fraction(x) for x in w], np.broadcast_to(found.error, 30)
    for row, score, off in zip(exact, found.scores, error, strict=True):
        true = sum(x * v for x, v in zip(row, weights, strict=True)) + Fraction(b)
        assert abs(true - Fraction(score)) <= Fraction(off)
    squared = Fraction(0)
    for k in range(10):
        true = sum(Fraction(a[i]) * exact[i][k] for i in range(30))
        squared += (true - Fraction(found.combined[k])) ** 2
    assert squared <= Fraction(found.drift) ** 2


def test_a_careful_look_sees_what_cancels():
    rows = MemoryRows(np.array([[1e10, -1e10, 1.0]]), 0.0, 1)
    w = np.array([1.0 + 2.0**-30, 1.0 + 2.0**-30, 1e-9, 0.0])
    quick = quick_look(rows, np.ones(1), w, 0.0)
    careful = careful_look(rows, np.ones(1), w, 0.0)
    assert careful.scores[0] == 1e-9
    assert careful.error[0] < 1e-6 * quick.error


def test_costs_that_are_rounded_products_bound_alpha_from_below():
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.1, 10.0, 200)
    y = np.resize([1.0, -1.0], 200)
    problem = bridle.LinearProblem(np.ones((200, 1)), y, 0.3, sample_weight=weight)
    for upper, c in zip(problem.upper, weight, strict=True):
        assert Fraction(upper) <= Fraction(0.3) * Fraction(c)
    assert np.allclose(problem.upper, problem.cost, rtol=1e-15)


class Boastful(Hinge):
    """Its dual value is larger than the conjugate of its value."""

    name = "boastful"
    core = None

    def dual_value(self, alpha, cost):
        return 1.5 * float(alpha.sum())

    def dual_between(self, alpha, cost, *known):
        return 1.5 * rounding.total(alpha)


def small():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    return X, np.where(X[:, 0] + 0.1 * rng.normal(size=30) > 0, 1.0, -1.0)


def test_a_loss_that_contradicts_itself_is_named():
    problem = bridle.LinearProblem(*small(), 1.0, loss=Boastful())
    with pytest.raises(LossError, match="'boastful' contradicts itself"):
        bridle.solve(problem, "gd", stop=bridle.Gap(1e-3) | bridle.Epochs(50))
    with pytest.raises(LossError, match="'boastful' contradicts itself"):
        bridle.certify(np.zeros(3), *small(), 1e-3, loss=Boastful())


@pytest.mark.parametrize("C", [1e-200, 1e200, 5e-324])
def test_a_c_beyond_all_numbers_is_refused(C):
    with pytest.raises(ValueError, match="C must lie between"):
        bridle.LinearProblem(*small(), C)


def test_products_beyond_all_numbers_are_refused():
    X, y = small()
    with pytest.raises(ValueError, match="too large for float64; scale the features"):
        bridle.LinearProblem(1e100 * X, y, 1.0)


def test_a_solver_whose_numbers_overflow_ends_with_an_honest_status():
    X, y = small()
    problem = bridle.LinearProblem(1e60 * X, y, 1e20)
    found = bridle.solve(problem, bridle.GradientDescent(), stop=bridle.Epochs(40))
    assert found.certificate.dual <= found.certificate.primal
    assert np.isfinite(found.w).all()


class Diverging(bridle.Solver):
    """Proposes a useful point, then nothing that is a number."""

    name = "diverging"
    needs = frozenset({"weights"})

    def __init__(self, error=None):
        self.error = error

    def iterates(self, problem, *, start=None, rng=None, pace=None):
        if self.error is not None:
            raise self.error
        yield Iterate(1, 1.0, np.full(problem.n_features, np.nan))


@pytest.mark.parametrize("error", [None, OverflowError("too large"), ZeroDivisionError("by zero")])
def test_where_nothing_came_before_the_origin_is_judged(error):
    problem = bridle.LinearProblem(*small(), 1.0)
    found = bridle.solve(problem, Diverging(error))
    assert found.status is bridle.Status.STALLED
    assert "left the range of float64" in found.message
    assert not found.w.any()
    assert found.certificate.primal == pytest.approx(30.0)


def test_where_rounding_is_what_is_left_the_message_says_how_many_bits_would_do():
    X, y = small()
    problem = bridle.LinearProblem(np.hstack([1e13 + X[:, :1], X[:, 1:]]), y, 1.0, bias="free")
    found = bridle.solve(problem, "newton", stop=bridle.Gap(1e-15) | bridle.Epochs(500))
    assert found.certificate.rounding > 0
    assert found.status is bridle.Status.STALLED
    assert found.certificate.relative_gap > 1e-15


class Half(Hinge):
    """max(0, 1/2 - p), derived from the hinge: its own dual value counts."""

    name = "half"
    core = None
    target = 0.5
    quadratic = False  # the kink is not at 1

    def value(self, p):
        return np.maximum(0.0, 0.5 - p)

    def slope(self, p):
        return (p < 0.5).astype(np.float64)

    def dual_value(self, alpha, cost):
        return 0.5 * float(alpha.sum())


def test_a_loss_that_derives_from_another_has_its_own_dual_value():
    problem = bridle.LinearProblem(*small(), 1.0, loss=Half())
    found = bridle.solve(problem, "dcd", stop=bridle.Gap(1e-3) | bridle.Epochs(2000))
    assert found.certificate.relative_gap <= 1e-3


def test_a_hard_margin_is_met_or_not():
    X, y = np.array([[2.0, 0.0], [0.0, -2.0]]), np.array([1.0, -1.0])
    problem = bridle.LinearProblem(X, y, np.inf)
    assert problem.primal([2.0, 2.0]) == pytest.approx(4.0)
    assert problem.primal([0.25, 0.25]) == np.inf
    found = bridle.solve(problem, stop=bridle.Gap(1e-6))
    assert problem.primal(found.w) >= found.certificate.dual
    assert bridle.certify([2.0, 2.0], X, y, np.inf).primal == pytest.approx(4.0)


def test_a_repaired_kernel_point_is_inside_its_exact_box():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 2)), rng.uniform(0.1, 10.0, 60)
    y = np.resize([1.0, -1.0], 60)
    problem = bridle.KernelProblem(X, y, 0.3, sample_weight=weight)
    alpha = problem.judge(Iterate(0, 0.0, bridle.Expansion(np.zeros(60)))).alpha
    assert alpha.any()
    for a, c in zip(alpha, weight, strict=True):
        assert Fraction(a) <= Fraction(0.3) * Fraction(c)


def test_costs_that_are_next_to_nothing_are_refused():
    X, y = small()
    with pytest.raises(ValueError, match="next to nothing"):
        bridle.LinearProblem(X, y, 1e-150, sample_weight=np.full(30, 1e-200))


@pytest.mark.parametrize("C", [1.0, np.inf])
def test_a_mean_of_negative_loss_proves_nothing(C):
    problem = bridle.ChainProblem(
        np.eye(4), np.arange(5), np.array([0, 1, 2, 0]), 3, C, transitions=False
    )
    alpha = np.zeros(problem.n_features + 1)
    alpha[0], alpha[-1] = 1e-9, -1e-9
    point = MeanIterate(0, 0.0, np.zeros(problem.n_features), 0.0, alpha, errors=Errors(1e-9, 1e-9))
    assert problem.judge(point).dual == 0.0


@given(st.floats(1e-3, 1e3), st.floats(0.0, 1.0))
def test_the_bounds_of_a_certificate_are_rounded_up(primal, part):
    found = bridle.Certificate(primal, primal * part)
    P, D = Fraction(found.primal), Fraction(found.dual)
    assert Fraction(found.relative_gap) >= (P - D) / P
    if found.dual > 1e-300:
        assert Fraction(found.suboptimality_bound) >= P / D - 1


def test_what_is_taken_for_granted_is_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    problem = bridle.KernelProblem(X @ X.T, np.resize([1.0, -1.0], 30), kernel="precomputed")
    found = bridle.solve(problem)
    for told in (str(found.certificate), repr(found.certificate)):
        assert "taken to be positive semi-definite" in told


@pytest.mark.parametrize("bias", ["none", "regularised", "free"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_costs_that_float32_cannot_see_end_a_run(loss, bias):
    X, y = small()
    problem = bridle.LinearProblem(X.astype(np.float32), y, 1e-51, loss=loss, bias=bias)
    found = bridle.solve(problem, "dcd", stop=bridle.Gap(1e-9) | bridle.Epochs(150))
    assert found.certificate.dual <= found.certificate.primal
